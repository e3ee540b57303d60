//! A history of operations and power cuts, drawn from a seed.

use std::collections::VecDeque;

use farcall::Service;
use farcall_base::{Random, SipKey, seed_of_stream};
use farcall_disk::testing::{Faults, SimulatedDisk};
use farcall_kv::durable::{Held, Level, LogError, Parked};
use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store};
use farcall_kv::wire::{
    Code, DELETE, DROP_TABLE, DeleteRequest, GET, GetRequest, INCREMENT, IncrementRequest, IncrementResponse,
    PUT, PutRequest, WriteResponse, found,
};
use farcall_kv::{Answer, Name, Shard, TableId, Value};

use super::book::{Book, Change, Objects};

/// The tables of a history: two durable ones, and one in memory whose versions lie in between.
const TABLES: [(&str, Level); 3] =
    [("orders", Level::Flushed), ("stock", Level::Flushed), ("scratch", Level::Memory)];

/// Keys of each table: few, so that objects are overwritten, deleted and written again.
const KEYS: u64 = 6;

/// When the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerCut {
    /// When the disk has done this many jobs of the life; the next one is in flight then.
    After(u64),
    /// At random.
    Random,
}

/// A history, as its numbers determine it.
#[derive(Clone, Copy, Debug)]
pub struct PowerCase {
    /// Decides about everything that the others do not say.
    pub seed: u64,
    /// Operations in each life.
    pub operations: u64,
    /// Lives before the last one, each ended by a cut.
    pub cuts: u64,
    /// When they are ended.
    pub cut: PowerCut,
    /// The longest value; long ones fill segments, so that they are cleaned.
    pub value_bytes_max: u64,
    /// After each cut a bit of a closed segment, or of a free frame, is flipped: a log that was damaged so is
    /// refused, and never opened with less than it had.
    pub flips: bool,
}

/// What became of a history.
#[derive(Clone, Debug, Default)]
pub struct PowerFindings {
    /// What broke a rule.
    pub violations: Vec<String>,
    /// Jobs that the disk did in the first life, as long as it had power.
    pub jobs: u64,
    /// Segments that were cleaned.
    pub cleaned: u64,
    /// Changes that were acknowledged.
    pub acknowledged: u64,
    /// Whether the log was refused because it was damaged.
    pub refused: bool,
}

/// The log's longest: a few frames, so that they are used again.
const LOG_BYTES_MAX: u64 = (FRAMES_AT + 8 * FRAME_BYTES) as u64;

/// Where frames begin, and how long they are: the format of the log.
const FRAMES_AT: usize = 1 << 20;
const FRAME_BYTES: usize = 4 << 20;

/// Turns after which a disk with power has done everything.
const TURNS_MAX: usize = 10_000;

impl PowerCase {
    /// Runs the history and says what was wrong.
    pub fn judge(&self) -> PowerFindings {
        let mut world = World::new(self.seed);
        for life in 0..=self.cuts {
            let is_last = life == self.cuts;
            if !world.begin_life(self, life, is_last) {
                break;
            }
            world.operate(self);
            world.findings.acknowledged += world.book.acknowledged() as u64;
            if life == 0 {
                world.findings.jobs = world.disk.jobs();
            }
            if is_last {
                world.settle();
            }
            world.end_life();
            if self.flips {
                world.flip();
            }
        }
        world.findings
    }
}

/// Who waits for an answer.
#[derive(Clone, Debug)]
enum Asked {
    /// A write, which is the change of this number.
    Write(usize),
    /// A read, of what the first so many changes leave behind.
    Read(usize),
}

struct World {
    disk: SimulatedDisk,
    random: Random,
    book: Book,
    shard: Option<Shard>,
    waiting: VecDeque<(u64, Asked)>,
    asked: u64,
    /// The highest version of a durable object that was answered.
    version_known: u64,
    findings: PowerFindings,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            disk: SimulatedDisk::new(seed_of_stream(seed, 1), Faults::default()),
            random: Random::new(seed_of_stream(seed, 2)),
            book: Book::default(),
            shard: None,
            waiting: VecDeque::new(),
            asked: 0,
            version_known: 0,
            findings: PowerFindings::default(),
        }
    }

    /// Opens the log, perhaps with more cuts meanwhile; says whether it could be.
    fn begin_life(&mut self, case: &PowerCase, life: u64, is_last: bool) -> bool {
        let cut = match case.cut {
            PowerCut::After(jobs) => jobs,
            PowerCut::Random => self.random.below(6 * case.operations.max(1)),
        };
        let power_fails_after = (!is_last).then_some(cut);
        let polls_max = self.random.below(4);
        self.disk.set_faults(Faults { power_fails_after, polls_max, ..Faults::default() });
        loop {
            match self.open(life) {
                Ok(shard) => {
                    self.shard = Some(shard);
                    return true;
                }
                Err(LogError::Disk(_)) if self.disk.is_dark() => {
                    // The power went while the log was opened: what was acknowledged before is there yet.
                    self.disk.cut_power();
                }
                Err(LogError::Damaged { .. }) if case.flips => {
                    self.findings.refused = true;
                    return false;
                }
                Err(error) => {
                    self.violation(format!("the log cannot be opened in life {life}: {error}"));
                    return false;
                }
            }
        }
    }

    fn open(&mut self, life: u64) -> Result<Shard, LogError> {
        let store = Store::with_key(MEMORY_BYTES_MIN, SipKey([1, 2])).expect("enough");
        let mut shard = Shard::new(store, 0, 1);
        shard.open_log(Box::new(self.disk.clone()), LOG_BYTES_MAX)?;
        let objects = objects(&shard);
        if let Some(wrong) = self.book.reopen(objects) {
            self.violation(format!("life {life}: {wrong}"));
        }
        for (name, level) in TABLES {
            shard.create_table_at(name, level).expect("few tables");
        }
        Ok(shard)
    }

    fn operate(&mut self, case: &PowerCase) {
        for _ in 0..case.operations {
            self.ask(case);
            for _ in 0..self.random.below(4) {
                self.turn();
            }
        }
    }

    fn turn(&mut self) {
        let Some(shard) = &mut self.shard else { return };
        shard.turn_log();
        while let Some(released) = self.shard.as_mut().and_then(Shard::release) {
            let Parked::Numbered(number) = released.to else { continue };
            let place = self.waiting.iter().position(|(waiting, _)| *waiting == number);
            match place.and_then(|place| self.waiting.remove(place)) {
                Some((_, asked)) => self.answered(&asked, &released.answer),
                None => self.violation(format!("request {number} is answered twice")),
            }
        }
    }

    fn answered(&mut self, asked: &Asked, answer: &Held) {
        if answer.answer().is_err() {
            return;
        }
        let (Asked::Write(changes) | Asked::Read(changes)) = asked;
        self.book.acknowledge(*changes);
        if let Asked::Write(change) = asked {
            self.version_known = self.version_known.max(self.book.version_of(*change));
        }
    }

    /// With power all that waits is answered.
    fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            self.turn();
            if self.waiting.is_empty() {
                return;
            }
        }
        self.violation(format!("{} requests are never answered", self.waiting.len()));
    }

    /// Flips a bit in a frame that is not the head's.
    fn flip(&mut self) {
        let platter = self.disk.platter();
        let number = |at: usize, bytes: usize| {
            platter[at..at + bytes].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let (mut head, mut generation) = (None, 0);
        for at in [0, 64 << 10].into_iter().filter(|at| at + 64 < platter.len()) {
            if number(at + 40, 8) > generation {
                (generation, head) = (number(at + 40, 8), Some(number(at + 20, 4) as usize));
            }
        }
        let frames = platter.len().saturating_sub(FRAMES_AT) / FRAME_BYTES;
        let frame = self.random.index(frames);
        if head.is_some_and(|head| head != frame) {
            // Near the start, where a segment that was hardly filled has something.
            let within = FRAME_BYTES >> self.random.below(8);
            let at = FRAMES_AT + frame * FRAME_BYTES + self.random.index(within);
            self.disk.flip_bit(at as u64, self.random.below(8) as u32);
        }
    }

    fn end_life(&mut self) {
        if let Some(shard) = self.shard.take() {
            self.findings.cleaned += shard.log_status().map_or(0, |status| status.statistics.cleaned);
        }
        self.waiting.clear();
        self.disk.cut_power();
    }

    /// Asks for something.
    fn ask(&mut self, case: &PowerCase) {
        let table = TABLES[self.random.index(TABLES.len())];
        let id = TableId::of(table.0).expect("short");
        let key = format!("key-{}", self.random.below(KEYS)).into_bytes();
        let name = Name::new(id, &key).expect("short");
        let is_durable = table.1 != Level::Memory;
        let at = (id.0, key.clone());
        let mut message = Vec::new();
        match self.random.below(100) {
            0..55 => {
                let value = self.value(case.value_bytes_max);
                let condition = self.condition(&at);
                PutRequest { name, value: Value::new(&value).expect("short"), condition }
                    .encode(&mut message);
                let put = |version| Change::Put { at: at.clone(), version, value };
                self.write((PUT, &message), &at, is_durable, put);
            }
            55..65 => {
                DeleteRequest { name, condition: Condition::Always }.encode(&mut message);
                let exists = is_durable && self.book.now().contains_key(&at);
                self.write((DELETE, &message), &at, exists, |_| Change::Delete { at: at.clone() });
            }
            65..75 => {
                let number = Name::new(id, b"number").expect("short");
                IncrementRequest { name: number, amount: 1 }.encode(&mut message);
                self.increment(&message, is_durable, id.0);
            }
            75..77 if is_durable => self.drop_table(table.0, id.0),
            _ => {
                GetRequest { name }.encode(&mut message);
                self.read(&message, is_durable, &at);
            }
        }
    }

    fn value(&mut self, most: u64) -> Vec<u8> {
        let bytes = match self.random.below(4) {
            0 => self.random.below(most + 1),
            _ => self.random.below(most.min(200) + 1),
        };
        (0..bytes).map(|_| self.random.bits() as u8).collect()
    }

    fn condition(&mut self, at: &(u64, Vec<u8>)) -> Condition {
        match self.random.below(10) {
            0 => Condition::Absent,
            1 => {
                self.book.now().get(at).map_or(Condition::Absent, |(version, _)| Condition::Version(*version))
            }
            _ => Condition::Always,
        }
    }

    /// Sends a request; gives what is known of its answer at once, and whether that was given already.
    fn send(&mut self, service: Service, message: &[u8]) -> (Taken, u64) {
        self.asked += 1;
        let mut taken = Taken::Nothing;
        let shard = self.shard.as_mut().expect("a life has a shard");
        shard.answer(service, message, Caller { taken: &mut taken, number: self.asked });
        (taken, self.asked)
    }

    /// A write: what it changes follows from the version that the shard gave, which is the object's then.
    fn write(
        &mut self,
        (service, message): (Service, &[u8]),
        at: &(u64, Vec<u8>),
        changes: bool,
        change: impl FnOnce(u64) -> Change,
    ) {
        let (before, seen) = (self.last_version(), Asked::Read(self.book.last_change_of(at)));
        let (taken, number) = self.send(service, message);
        let version = self.last_version();
        let happened =
            changes && (version > before || (service == DELETE && !matches!(taken, Taken::Refused)));
        let change = happened.then(|| change(version)).map(|change| self.book.begin(change));
        if happened && version > before {
            self.given(version);
        }
        match taken {
            Taken::Parked => self.waiting.push_back((number, change.map_or(seen, Asked::Write))),
            Taken::Answered(answer) => {
                let is_done = WriteResponse::decode(&answer).is_ok_and(|answer| answer.code == Code::Done);
                if is_done && change.is_some() {
                    self.violation(format!("a write was answered before its flush: version {version}"));
                }
            }
            Taken::Refused => {}
            Taken::Nothing => self.violation("a write was not answered".to_owned()),
        }
    }

    fn increment(&mut self, message: &[u8], is_durable: bool, table: u64) {
        let at = (table, b"number".to_vec());
        let before = self.last_version();
        let (taken, number) = self.send(INCREMENT, message);
        let version = self.last_version();
        if let Taken::Answered(answer) = &taken
            && (is_durable || IncrementResponse::decode(answer).is_err())
        {
            self.violation("an increment was answered before its flush".to_owned());
        }
        let change = (is_durable && version > before).then(|| {
            let sum =
                self.book.now().get(&at).map_or(1, |(_, value)| {
                    String::from_utf8_lossy(value).parse::<i64>().expect("a number") + 1
                });
            self.book.begin(Change::Put { at, version, value: sum.to_string().into_bytes() })
        });
        if let (Taken::Parked, Some(change)) = (taken, change) {
            self.given(version);
            self.waiting.push_back((number, Asked::Write(change)));
        }
    }

    /// A durable object got a version: a higher one than any before, cuts or not.
    fn given(&mut self, version: u64) {
        if version <= self.version_known {
            self.violation(format!("version {version} was given before"));
        }
    }

    fn drop_table(&mut self, name: &str, table: u64) {
        let (taken, number) = self.send(DROP_TABLE, name.as_bytes());
        // The log has no room for the record: the table stays.
        if matches!(taken, Taken::Refused) {
            return;
        }
        let change = self.book.begin(Change::Drop { table });
        if matches!(taken, Taken::Parked) {
            self.waiting.push_back((number, Asked::Write(change)));
        }
        let shard = self.shard.as_mut().expect("a life has a shard");
        // While its objects are removed there may be no room for another of that name; there are few tables.
        shard.create_table_at(name, Level::Flushed).expect("few tables");
    }

    /// A read: who has its answer knows that what it shows has happened.
    fn read(&mut self, message: &[u8], is_durable: bool, at: &(u64, Vec<u8>)) {
        let expected = self.book.now().get(at).cloned();
        let begun = self.book.last_change_of(at);
        let (taken, number) = self.send(GET, message);
        match taken {
            Taken::Parked => self.waiting.push_back((number, Asked::Read(begun))),
            Taken::Answered(answer) if is_durable => {
                let found = found(&answer).ok().flatten().map(|(version, value)| (version, value.to_vec()));
                if found != expected {
                    self.violation(format!("a read of {at:?} shows another object than the last"));
                }
                self.book.acknowledge(begun);
            }
            _ => {}
        }
    }

    fn last_version(&self) -> u64 {
        self.shard.as_ref().map_or(0, |shard| shard.store().last_version())
    }

    fn violation(&mut self, words: String) {
        self.findings.violations.push(words);
    }
}

/// Everything in the durable tables of a shard.
fn objects(shard: &Shard) -> Objects {
    let mut objects = Objects::new();
    for (name, level) in TABLES {
        let table = TableId::of(name).expect("short");
        if level == Level::Memory {
            continue;
        }
        let keys = (0..KEYS).map(|key| format!("key-{key}").into_bytes()).chain([b"number".to_vec()]);
        for key in keys {
            let name = Name::new(table, &key).expect("short");
            if let Ok(Some(object)) = shard.store().get(name) {
                objects.insert((table.0, key.clone()), (object.version(), object.to_vec()));
            }
        }
    }
    objects
}

/// What became of a request at once.
enum Taken {
    Nothing,
    Answered(Vec<u8>),
    Refused,
    Parked,
}

/// Takes the answer, or its number until it is there.
struct Caller<'a> {
    taken: &'a mut Taken,
    number: u64,
}

impl Answer for Caller<'_> {
    fn send(self, message: &[u8]) {
        *self.taken = Taken::Answered(message.to_vec());
    }

    fn send_filled(self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let mut message = vec![0; bytes];
        fill(&mut message);
        self.send(&message);
    }

    fn refuse(self, _: Code) {
        *self.taken = Taken::Refused;
    }

    fn park(self) -> Parked {
        *self.taken = Taken::Parked;
        Parked::Numbered(self.number)
    }
}
