//! Redis commands on a simulated disk whose power is cut: what is there afterwards is what the first so many
//! commands leave behind, with every answered one among them.

mod long;

use std::collections::BTreeMap;

use farcall_base::{Principal, Random, SipKey};
use farcall_disk::testing::{Faults, SimulatedDisk};

use super::Engine;
use crate::durable::{LOG_BYTES_MIN, Level, SavedLog};
use crate::resp::Options;
use crate::resp::command::call::joined;
use crate::resp::parse::Args;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::session::Session;
use crate::store::{Collection, MEMORY_BYTES_MIN, PageLimits, ScanFrom, ScanNext, Store};
use crate::{Name, Shard, TableId};

/// The clock of the tests begins here, in milliseconds.
const BEGIN_MS: u64 = 1_000_000;

/// What an object is, as text, and when it expires.
type State = BTreeMap<Vec<u8>, (String, Option<u64>)>;

struct World {
    disk: SimulatedDisk,
    shard: Shard,
    engine: Engine,
    session: Session,
    now_ms: u64,
    /// What the first so many commands leave behind: the last ones, of which the first has this number.
    states: Vec<State>,
    /// Groups of the log that commands wait for, by their numbers, and the last one that was answered.
    waiting: Vec<(usize, u64)>,
    answered: usize,
}

fn opened(disk: &SimulatedDisk) -> Option<(Shard, Engine)> {
    let store = Store::with_key(2 * MEMORY_BYTES_MIN, SipKey([1, 2])).expect("enough");
    let mut shard = Shard::new(store, 0, 1);
    match shard.open_log(Box::new(disk.clone()), LOG_BYTES_MIN) {
        Ok(_) => {}
        Err(_) if disk.is_dark() => return None,
        Err(error) => panic!("the log cannot be opened: {error}"),
    }
    shard.create_table_at("default", Level::Flushed).expect("few tables");
    let engine = Engine::new(&Options::default(), None, &[], &mut shard);
    Some((shard, engine))
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimulatedDisk::new(seed, Faults::default());
        let (shard, engine) = opened(&disk).expect("it has power");
        let session = Session::new(1, String::new(), Principal::Unproven, true, 0);
        let mut world = Self {
            disk,
            shard,
            engine,
            session,
            now_ms: BEGIN_MS,
            states: Vec::new(),
            waiting: Vec::new(),
            answered: 0,
        };
        world.begin_turn();
        world.states.push(world.state());
        world
    }

    fn begin_turn(&mut self) {
        self.engine.begin_turn(self.now_ms);
        self.engine.prepare(&mut self.shard);
    }

    /// The objects of the durable table.
    fn state(&self) -> State {
        let (store, table) = (self.shard.store(), TableId::of("default").expect("short"));
        let (mut keys, mut from) = (Vec::new(), 0);
        loop {
            let limits = PageLimits { bytes: usize::MAX, looks: 1024 };
            let next = store.scan(table, ScanFrom::Hash(from), limits, |object| {
                keys.push((object.key().to_vec(), object.deadline()));
            });
            match next.expect("its table") {
                ScanNext::Hash(hash) => from = hash,
                ScanNext::End | ScanNext::AfterLast => break,
            }
        }
        let shown = |(key, deadline): (Vec<u8>, Option<u64>)| {
            let name = Name::new(table, &key).expect("a good key");
            let text = match store.any_collection(name).expect("its table") {
                None => match store.get(name).expect("its table") {
                    Some(object) if object.is_long() => long_text(&object.to_vec()),
                    object => format!("{:?}", object.map(|object| object.to_vec())),
                },
                Some(collection) => contents(collection),
            };
            (key, (text, deadline))
        };
        keys.into_iter().map(shown).collect()
    }

    /// Runs a command; gives its reply, or nothing if the log does not take it now.
    fn run(&mut self, line: &str) -> Option<Vec<u8>> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.run_words(&words)
    }

    fn run_words(&mut self, words: &[&[u8]]) -> Option<Vec<u8>> {
        let (reply, group) = self.execute(words)?;
        self.states.push(self.state());
        self.waiting.push((self.states.len() - 1, group));
        Some(reply)
    }

    /// Runs a command; gives its reply and the group that this waits for.
    fn execute(&mut self, words: &[&[u8]]) -> Option<(Vec<u8>, u64)> {
        let (bytes, ranges) = joined(words.iter().copied());
        let mut reply = Reply::new(Vec::new(), Protocol::default());
        let args = Args::new(&bytes, &ranges);
        if !self.engine.execute(args, &mut self.session, &mut reply, &mut self.shard) {
            return None;
        }
        while self.engine.step_long(&mut self.session, &mut reply, &mut self.shard) {}
        Some((reply.into_bytes(), self.engine.take_needed()))
    }

    fn turn(&mut self) {
        self.shard.turn_log();
        let flushed = self.shard.log_outcome().flushed;
        while let Some(&(command, group)) = self.waiting.first()
            && group <= flushed
        {
            self.answered = command;
            self.waiting.remove(0);
        }
    }

    fn settle(&mut self) {
        for _ in 0..100_000 {
            self.turn();
            if !self.shard.wants_log_turn() {
                return;
            }
        }
        panic!("the log is never quiet");
    }

    /// The power goes and comes back: what is there must be one of the states, and not one before the last
    /// that was answered. A copy of the log for elsewhere has the same.
    fn cut(&mut self, random: &mut Random) {
        let saved = loop {
            self.disk.cut_power();
            self.disk.set_faults(Faults::default());
            let saved = saved(&self.disk);
            // Now and then it goes again while the log is opened.
            let power_fails_after = random.chance(0.2).then(|| random.below(20));
            self.disk.set_faults(Faults { power_fails_after, ..Faults::default() });
            if let Some((shard, engine)) = opened(&self.disk)
                && !self.disk.is_dark()
            {
                (self.shard, self.engine) = (shard, engine);
                break saved;
            }
        };
        self.disk.set_faults(Faults { polls_max: random.below(4), ..Faults::default() });
        self.session = Session::new(1, String::new(), Principal::Unproven, true, 0);
        self.waiting.clear();
        self.begin_turn();
        let found = self.state();
        // Strings that do not expire.
        let is_saved =
            |text: &str| text.starts_with("Some(") || text.starts_with(|c: char| c.is_ascii_digit());
        let strings = found.iter().filter(|(_, (text, deadline))| deadline.is_none() && is_saved(text));
        let strings: BTreeMap<_, _> = strings.map(|(key, (text, _))| (key.clone(), text.clone())).collect();
        assert_eq!(saved, strings, "what a copy of the log has");
        let now = self.now_ms;
        let visible = |state: &State| -> State {
            let is_there = |deadline: &Option<u64>| deadline.is_none_or(|deadline| deadline > now);
            let state = state.iter().filter(|(_, (_, deadline))| is_there(deadline));
            state.map(|(key, shown)| (key.clone(), shown.clone())).collect()
        };
        let place = self.states.iter().rposition(|state| visible(state) == found);
        let last = self.states.last().map(visible);
        let place = place.unwrap_or_else(|| panic!("found {found:?}, and last was {last:?}"));
        assert!(place >= self.answered, "command {} was answered, and {place} are there", self.answered);
        (self.states, self.answered) = (vec![found], 0);
    }
}

fn long_text(value: &[u8]) -> String {
    format!("{} bytes, {:x}", value.len(), crc32c::crc32c(value))
}

/// What a copy of the log has, as the same text.
fn saved(disk: &SimulatedDisk) -> BTreeMap<Vec<u8>, String> {
    let saved = SavedLog::read(&mut disk.clone()).expect("it is a log").unwrap_or_default();
    let short = saved.objects.into_iter().map(|((_, key), (_, value))| (key, format!("{:?}", Some(value))));
    let long = saved.longs.into_iter().map(|((_, key), long)| {
        let mut value = Vec::new();
        for (offset, part) in long.parts() {
            assert_eq!(offset, value.len() as u64, "parts are neighbours");
            value.extend_from_slice(&part);
        }
        assert_eq!(long.value_bytes(), value.len() as u64);
        (key, long_text(&value))
    });
    short.chain(long).collect()
}

fn contents(collection: &Collection) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut elements: Vec<String> = match collection {
        Collection::List(list) => return format!("list {:?}", list.from(0).map(text).collect::<Vec<_>>()),
        Collection::Hash(hash) => (0..hash.len())
            .map(|place| format!("{} = {}", text(hash.at(place).0), text(hash.at(place).1)))
            .collect(),
        Collection::Set(set) => set.iter().map(text).collect(),
        Collection::Sorted(sorted) => {
            sorted.from(0).map(|(member, score)| format!("{} at {score}", text(member))).collect()
        }
    };
    elements.sort_unstable();
    format!("{:?} {elements:?}", collection.kind())
}

/// A command on few keys, so that they meet.
fn command(random: &mut Random) -> String {
    let mut pick = |most: u64| random.below(most);
    let (key, other, field, value) = (pick(6), pick(6), pick(5), pick(1000));
    let time = 1 + pick(40);
    match pick(38) {
        0..4 => format!("SET s{key} {value}"),
        4 => format!("SET s{key} {value} PX {time}"),
        5 => format!("APPEND s{key} {value}"),
        6 => format!("INCR n{key}"),
        7 => format!("DEL s{key} h{key} l{other} z{other}"),
        8 => format!("PEXPIRE h{key} {time}"),
        9 => format!("PERSIST h{key}"),
        10..13 => format!("HSET h{key} f{field} {value}"),
        13 => format!("HDEL h{key} f{field}"),
        14 => format!("HINCRBY h{key} n 3"),
        15..17 => format!("RPUSH l{key} {value} a"),
        17..19 => format!("LPUSH l{key} {value}"),
        19 => format!("LPOP l{key}"),
        20 => format!("RPOP l{key} 2"),
        21 => format!("LINSERT l{key} BEFORE a {value}"),
        22 => format!("LREM l{key} {} a", pick(5) as i64 - 2),
        23 => format!("LSET l{key} -1 {value}"),
        24 => format!("LTRIM l{key} {} -2", pick(3)),
        25 => format!("LMOVE l{key} l{other} LEFT RIGHT"),
        26..28 => format!("SADD m{key} {value} {field}"),
        28 => format!("SREM m{key} {field}"),
        29 => format!("SPOP m{key}"),
        30 => format!("SUNIONSTORE m{key} m{other} m{field}"),
        31..33 => format!("ZADD z{key} {value} f{field} {time} {value}"),
        33 => format!("ZREMRANGEBYSCORE z{key} 0 {}", value / 4),
        34 => format!("ZPOPMIN z{key}"),
        35 => format!("RENAME {} {}", ["h1", "l1", "s1"][key as usize % 3], ["h2", "s2"][other as usize % 2]),
        36 => format!("COPY l{key} l{other} REPLACE"),
        _ if value < 40 => "FLUSHDB".to_owned(),
        _ => format!("GETEX s{key} PX {time}"),
    }
}

fn seed() -> u64 {
    let seed = std::env::var("FARCALL_TEST_CUTS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FARCALL_TEST_CUTS_SEED={seed}");
    seed
}

#[test]
fn what_was_answered_is_there_whenever_the_power_goes() {
    let mut random = Random::new(seed());
    let mut world = World::new(random.bits());
    for _ in 0..40 {
        let commands = random.below(60);
        let jobs = random.below(2 * commands + 4);
        world.disk.set_faults(Faults {
            power_fails_after: Some(jobs),
            polls_max: random.below(4),
            ..Faults::default()
        });
        for _ in 0..commands {
            world.now_ms += random.below(4);
            world.begin_turn();
            world.engine.keep_up(&mut world.shard);
            if random.chance(0.2) {
                world.run("MULTI");
                for _ in 0..random.below(5) {
                    world.run(&command(&mut random));
                }
                // Its commands count as one: what they leave behind is there, or nothing of it.
                world.run("EXEC");
            } else {
                world.run(&command(&mut random));
            }
            (0..random.below(4)).for_each(|_| world.turn());
        }
        world.cut(&mut random);
    }
}

/// Enough for several revolutions of the log.
#[test]
fn what_lives_survives_the_cleaning_of_the_log() {
    let mut random = Random::new(seed());
    let mut world = World::new(random.bits());
    let value = vec![b'v'; 60_000];
    const LIVES: usize = 3;
    const ROUNDS: usize = 1200;
    for round in 0..LIVES * ROUNDS {
        let key = format!("{}", random.below(20));
        let field = format!("f{}", random.below(4));
        let (hash, list) = (format!("h{key}"), format!("l{key}"));
        let words: [&[&[u8]]; 3] = [
            &[b"HSET", hash.as_bytes(), field.as_bytes(), &value, b"round", b"1"],
            &[b"RPUSH", list.as_bytes(), &value],
            &[b"LTRIM", list.as_bytes(), b"-3", b"-1"],
        ];
        while world.execute(words[round % 3]).is_none() {
            world.turn();
        }
        world.turn();
        if round % ROUNDS == ROUNDS - 1 {
            world.settle();
            let status = world.shard.log_status().expect("a log");
            assert!(round < ROUNDS || status.statistics.cleaned > 3, "{status:?}");
            (world.states, world.answered) = (vec![world.state()], 0);
            world.cut(&mut random);
        }
    }
}

/// A command that writes more than a group has room for is there as a whole, or not at all.
#[test]
fn long_commands_are_there_as_a_whole() {
    let mut random = Random::new(seed());
    let mut found = [0, 0];
    // Jobs of the disk: before the first group, between any two, and behind all of them.
    for jobs in [0, 1, 2, 3, 4, 5, 6, 8, 40] {
        let mut world = World::new(random.bits());
        let long = vec![b'v'; 300_000];
        for number in 0..16 {
            while world.run_words(&[b"SADD", b"a", format!("{number}").as_bytes(), &long]).is_none() {
                world.turn();
            }
            world.settle();
            let mut member = long.clone();
            member.extend_from_slice(format!("{number}").as_bytes());
            while world.run_words(&[b"SADD", b"a", &member]).is_none() {
                world.turn();
            }
        }
        world.settle();
        while world.run("SUNIONSTORE b a").is_none() {
            world.turn();
        }
        world.disk.set_faults(Faults { power_fails_after: Some(jobs), ..Faults::default() });
        (0..1000).for_each(|_| world.turn());
        world.cut(&mut random);
        found[world.states[0].len() - 1] += 1;
    }
    assert!(found.iter().all(|times| *times > 0), "it is there {} times, and not {}", found[1], found[0]);
}

/// A transaction is admitted for what its keys become, and writes no more: two hundred times half a megabyte
/// would be more than the log has.
#[test]
fn a_key_that_changes_often_in_a_transaction_is_recorded_once() {
    let mut world = World::new(1);
    world.run("MULTI").expect("nothing is written");
    for _ in 0..200 {
        world.run("SETRANGE k 500000 x").expect("it is queued");
    }
    while world.run("EXEC").is_none() {
        world.turn();
    }
    world.settle();
    assert_eq!(world.run("SET after 1").as_deref(), Some(&b"+OK\r\n"[..]), "the log is not full");
    world.settle();
    assert_eq!(world.answered, world.states.len() - 1);
}

/// A disk that fails stops durable tables, and no others.
#[test]
fn who_waits_for_memory_does_not_wait_for_the_log() {
    let mut world = World::new(1);
    world.shard.create_table_at("db1", Level::Memory).expect("few tables");
    world.engine.prepare(&mut world.shard);
    world.run("SELECT 1").expect("nothing is written");
    world.run("RPUSH queue a").expect("no log is needed");
    assert!(world.engine.may_serve(b"queue", &mut world.shard));
    world.run("SELECT 0").expect("nothing is written");
    world.run("RPUSH other a").expect("the log takes it");
    assert!(world.engine.may_serve(b"other", &mut world.shard));
    world.disk.set_faults(Faults { fails_from: Some(0), ..Faults::default() });
    world.run("RPUSH other b").expect("the log takes it");
    (0..1000).for_each(|_| {
        world.shard.turn_log();
    });
    assert!(!world.engine.may_serve(b"other", &mut world.shard), "the log has failed");
    assert!(world.engine.may_serve(b"queue", &mut world.shard));
}
