//! The world of a history: what happens next is drawn from the seed.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use farcall_base::{Instant, Random, SipKey, seed_of_stream};
use farcall_disk::{Disk, MemoryDisk};
use farcall_kv::Shard;
use farcall_kv::durable::Level;
use farcall_kv::store::{MEMORY_BYTES_MIN, Store};
use farcall_replica::{
    Backup, BackupEntry, Candidate, Claim, ClockOf, FetchError, Handled, LogId, MemoryRegistry, Mirror,
    MirrorOf, NoAnswer, Outgoing, Place, Reach, Record, Recovery, Refusal, Registry, RegistryAnswer,
    RegistryError, RegistryJob,
};

use super::book::Book;
use super::primary::{Primary, TABLE};
use super::shelf::SimulatedShelf;

/// A history, as its numbers determine it.
#[derive(Clone, Copy, Debug)]
pub struct FailoverCase {
    /// Decides about everything that the others do not say.
    pub seed: u64,
    /// How many things happen before everything heals.
    pub steps: u64,
    /// Backups that there are, of which each write needs `replicas`.
    pub backups: u32,
    /// See there.
    pub replicas: u8,
    /// Whether they are flushed: then any of them may end at any time, all at once as well.
    pub flushed: bool,
}

/// What became of a history.
#[derive(Clone, Debug, Default)]
pub struct FailoverFindings {
    /// What broke a rule.
    pub violations: Vec<String>,
    /// Operations that were answered as done.
    pub done: u64,
    /// Primaries that there were.
    pub primaries: u64,
    /// Primaries that found out that they were replaced.
    pub deposed: u64,
}

const LEASE: Duration = Duration::from_millis(200);
const LOG_BYTES_MAX: u64 = 64 << 20;
const KEYS: u64 = 4;

/// Turns of a mirror in a turn of its primary.
const BLANK_TURNS: u32 = 32;

/// Steps in which everything must work again once it has healed.
const HEALING_STEPS: u64 = 60_000;

/// A message to a backup, or its answer.
enum InFlight {
    To {
        primary: u64,
        message: Outgoing,
        due: u64,
    },
    From {
        primary: u64,
        token: u64,
        answer: Result<Vec<u8>, NoAnswer>,
    },
    /// One whose time was over before it arrived: nobody waits for its answer any more.
    Stray {
        message: Outgoing,
        due: u64,
    },
}

/// A backup's process, if it is there, and what survives it.
struct Node {
    at: String,
    backup: Option<Backup>,
    shelf: SimulatedShelf,
    /// Whose answers come when its disk has done its work.
    promised: BTreeMap<u64, (u64, u64)>,
}

pub struct World {
    case: FailoverCase,
    random: Random,
    now: Arc<AtomicU64>,
    registry: MemoryRegistry,
    nodes: Vec<Node>,
    primaries: Vec<Primary>,
    /// The next one, which waits for the end of the last.
    candidate: Option<(u64, Candidate)>,
    is_recovering: bool,
    network: Vec<InFlight>,
    /// What the registry may still do, though it has said that it did not answer.
    late_jobs: Vec<RegistryJob>,
    /// Pairs of a primary and a backup that cannot reach each other.
    cut: BTreeSet<(u64, String)>,
    book: Book,
    incarnations: u64,
    values: u64,
    is_healing: bool,
    findings: FailoverFindings,
}

impl FailoverCase {
    /// Runs the history and says what was wrong.
    pub fn judge(&self) -> FailoverFindings {
        let mut world = World::new(*self);
        for _ in 0..self.steps {
            world.step();
        }
        world.heal();
        world.findings.violations = core::mem::take(&mut world.book.violations);
        world.findings.done += world.primaries.iter().map(|primary| primary.done).sum::<u64>();
        world.findings
    }
}

impl World {
    fn new(case: FailoverCase) -> Self {
        let registry = MemoryRegistry::default();
        let node = |number: u32| {
            let at = format!("backup:{number}");
            registry.announce(BackupEntry { at: at.clone(), domain: at.clone(), has_disk: true });
            let shelf = SimulatedShelf::new(seed_of_stream(case.seed, 100 + u64::from(number)), 3);
            let backup = Backup::open(Box::new(shelf.clone())).expect("it is empty");
            Node { at, backup: Some(backup), shelf, promised: BTreeMap::new() }
        };
        Self {
            nodes: (0..case.backups).map(node).collect(),
            case,
            random: Random::new(seed_of_stream(case.seed, 1)),
            now: Arc::new(AtomicU64::new(1)),
            registry,
            primaries: Vec::new(),
            candidate: None,
            is_recovering: false,
            network: Vec::new(),
            late_jobs: Vec::new(),
            cut: BTreeSet::new(),
            book: Book::default(),
            incarnations: 0,
            values: 0,
            is_healing: false,
            findings: FailoverFindings::default(),
        }
    }

    fn clock(&self) -> ClockOf {
        let now = Arc::clone(&self.now);
        Box::new(move || Instant::from_nanos(now.load(Ordering::Relaxed)))
    }

    fn pass(&self, time: Duration) {
        self.now.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// One thing happens.
    fn step(&mut self) {
        let time = Duration::from_micros(self.random.below(400));
        self.pass(time);
        match self.random.below(1000) {
            0..350 => self.deliver(),
            350..700 => self.turn(),
            700..850 => self.operate(),
            850..950 => self.answer_registry(),
            950..990 => self.stand_for_primary(),
            _ if self.is_healing => {}
            _ => self.trouble(),
        }
    }

    /// A message arrives, any of them: others are overtaken.
    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let place = self.random.index(self.network.len());
        let now = self.now.load(Ordering::Relaxed);
        if matches!(self.network[place], InFlight::To { due, .. } | InFlight::Stray { due, .. } if due > now)
        {
            return;
        }
        let is_lost = !self.is_healing && self.random.chance(0.01);
        match self.network.swap_remove(place) {
            InFlight::To { primary, message, .. } if is_lost || self.is_cut(primary, &message.backup) => {
                let (token, answer) = (message.token, Err(NoAnswer::Silent));
                self.network.push(InFlight::From { primary, token, answer });
                if self.random.chance(0.5) {
                    let due =
                        self.now.load(Ordering::Relaxed) + self.random.below(2 * LEASE.as_nanos() as u64);
                    self.network.push(InFlight::Stray { message, due });
                }
            }
            InFlight::To { primary, message, .. } => self.arrive(primary, &message),
            InFlight::Stray { message, .. } => {
                let node = self.node(&message.backup);
                if let Some(backup) = &mut node.backup {
                    backup.handle(&message.message);
                }
            }
            InFlight::From { primary, token, answer } => {
                let answer = if is_lost { Err(NoAnswer::Silent) } else { answer };
                let of = self.primaries.iter().find(|other| other.incarnation == primary);
                if let Some(of) = of {
                    of.mirror.answered(token, answer.as_deref().map_err(|why| *why));
                }
            }
        }
    }

    fn is_cut(&self, primary: u64, backup: &str) -> bool {
        self.cut.contains(&(primary, backup.to_owned()))
    }

    fn node(&mut self, at: &str) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.at == at).expect("it was announced")
    }

    fn arrive(&mut self, primary: u64, message: &Outgoing) {
        let token = message.token;
        let node = self.node(&message.backup);
        let answer = match &mut node.backup {
            None => Err(NoAnswer::Silent),
            Some(backup) => match backup.handle(&message.message) {
                Handled::Now(answer) => answer.map_err(NoAnswer::Refused),
                Handled::Later(number) => {
                    node.promised.insert(number, (primary, token));
                    return;
                }
            },
        };
        self.network.push(InFlight::From { primary, token, answer });
    }

    /// A process has a turn: a primary that does not stand still, or a backup.
    fn turn(&mut self) {
        let place = self.random.index(self.primaries.len() + self.nodes.len());
        if let Some(node) =
            place.checked_sub(self.primaries.len()).and_then(|place| self.nodes.get_mut(place))
        {
            while let Some((number, answer)) = node.backup.as_mut().and_then(Backup::poll) {
                if let Some((primary, token)) = node.promised.remove(&number) {
                    let answer = answer.map_err(NoAnswer::Refused);
                    self.network.push(InFlight::From { primary, token, answer });
                }
            }
            return;
        }
        let primary = &mut self.primaries[place];
        if primary.is_paused {
            return;
        }
        primary.turn(&mut self.book);
        // Most of an image is blank: that is looked through without a message.
        for _ in 0..BLANK_TURNS {
            primary.mirror.turn();
        }
        while let Some(message) = primary.mirror.next_message() {
            let is_late = self.random.chance(0.05);
            let delay = if is_late { self.random.below(LEASE.as_nanos() as u64) } else { 0 };
            let due = self.now.load(Ordering::Relaxed) + delay;
            self.network.push(InFlight::To { primary: primary.incarnation, message, due });
        }
        if primary.asked.is_none() {
            primary.asked = primary.mirror.next_registry_job();
        }
        if primary.mirror.deposed().is_some() {
            let primary = self.primaries.swap_remove(place);
            self.findings.deposed += 1;
            self.end(primary);
        }
    }

    fn end(&mut self, mut primary: Primary) {
        self.findings.done += primary.done;
        // What it has asked the registry may be done after its end.
        if let Some(job) = primary.asked.take()
            && self.random.chance(0.5)
        {
            job.carry_out(&mut self.registry);
        }
        // Now and then nobody notices, and the lease decides.
        if self.random.chance(0.5) {
            self.registry.ended(primary.incarnation);
        }
    }

    /// The registry does what one of the primaries has asked for. Now and then its answer is lost, and what
    /// was asked for is done, or is done later, or is not.
    fn answer_registry(&mut self) {
        if !self.late_jobs.is_empty() && self.random.chance(0.05) {
            let job = self.late_jobs.swap_remove(self.random.index(self.late_jobs.len()));
            job.carry_out(&mut self.registry);
        }
        let Some(place) = self.any_primary() else { return };
        let Some(job) = self.primaries[place].asked.take() else { return };
        let is_lost = !self.is_healing && self.random.chance(0.05);
        let answer = if is_lost { self.lose(job) } else { job.carry_out(&mut self.registry) };
        self.primaries[place].mirror.registry_answered(answer);
    }

    /// What is asked for is done, or will be, or not; nobody is told which.
    fn lose(&mut self, job: RegistryJob) -> RegistryAnswer {
        let (place, reason) = ("memory".to_owned(), "its answer was lost".to_owned());
        let error = RegistryError { place, reason };
        let answer = match &job {
            RegistryJob::Backups => RegistryAnswer::Backups(Err(error)),
            RegistryJob::Set { .. } => RegistryAnswer::Set(Err(error)),
        };
        match self.random.below(3) {
            0 => _ = job.carry_out(&mut self.registry),
            1 => self.late_jobs.push(job),
            _ => {}
        }
        answer
    }

    fn any_primary(&mut self) -> Option<usize> {
        (!self.primaries.is_empty()).then(|| self.random.index(self.primaries.len()))
    }

    /// A client asks whoever it takes for the primary.
    fn operate(&mut self) {
        let Some(place) = self.any_primary() else { return };
        if self.primaries[place].is_paused {
            return;
        }
        let key = self.random.below(KEYS) as u8;
        self.values += 1;
        let value = self.random.chance(0.5).then_some(self.values);
        self.primaries[place].ask(&mut self.book, key, value);
    }

    /// A candidate looks whether there is a primary, and becomes one if there is none.
    fn stand_for_primary(&mut self) {
        if self.is_recovering {
            return;
        }
        let Some((incarnation, mut candidate)) = self.candidate.take() else {
            self.incarnations += 1;
            self.candidate = Some((self.incarnations, self.new_candidate(self.incarnations)));
            return;
        };
        let clock = self.clock();
        match candidate.try_claim(&mut self.registry.clone(), &clock) {
            Ok(Some(claimed)) => {
                self.is_recovering = true;
                let begun = self.take_over(incarnation, claimed);
                self.is_recovering = false;
                match begun {
                    Some(primary) => self.primaries.push(primary),
                    None => self.registry.ended(incarnation),
                }
            }
            // Somebody is, or the registry is silent.
            Ok(None) | Err(_) => self.candidate = Some((incarnation, candidate)),
        }
    }

    fn new_candidate(&self, incarnation: u64) -> Candidate {
        Candidate::new(Claim {
            log: LogId { store: 7, shard: 0 },
            shards: 1,
            primary: format!("primary:{incarnation}"),
            incarnation,
            lease: LEASE,
            wanted: u32::from(self.case.replicas),
            flushed: self.case.flushed,
        })
    }

    /// Brings back what the last primary had; `None` if that cannot be now.
    fn take_over(&mut self, incarnation: u64, claimed: farcall_replica::Claimed) -> Option<Primary> {
        let record = claimed.record.clone();
        let mut recovery = Recovery::new(record.clone());
        let mut make = || Ok(Box::new(MemoryDisk::new()) as Box<dyn Disk>);
        let image = if record.replicas.is_empty() {
            make().ok()?
        } else {
            match recovery.fetch(&mut Candidacy { world: self, incarnation }, &mut make) {
                Ok((_, disk)) => disk,
                Err(FetchError::Replaced | FetchError::NoReplica(_) | FetchError::Here(_)) => return None,
            }
        };
        let store = Store::with_key(MEMORY_BYTES_MIN, SipKey([1, 2])).expect("enough");
        let mut shard = Shard::new(store, 0, 1);
        let of = MirrorOf {
            record,
            revision: claimed.revision,
            set_at: claimed.set_at,
            lease: LEASE,
            own: 0,
            domain: "primaries".to_owned(),
            clock: self.clock(),
        };
        let (mirror, disk) = Mirror::new(of, image);
        if let Err(error) = shard.open_mirrored_log(disk, mirror.clone(), LOG_BYTES_MAX) {
            self.book.violations.push(format!("a replica that counts cannot be opened: {error}"));
            return None;
        }
        let level = Level::Replicated { replicas: self.case.replicas, flushed: self.case.flushed };
        shard.create_table_at(TABLE, level).expect("one table");
        self.findings.primaries += 1;
        Some(Primary::new(incarnation, shard, mirror))
    }

    /// Something goes wrong, or is right again.
    fn trouble(&mut self) {
        match self.random.below(8) {
            0 => {
                if let Some(place) = self.any_primary() {
                    let primary = self.primaries.swap_remove(place);
                    self.end(primary);
                }
            }
            1 => {
                if let Some(place) = self.any_primary() {
                    self.primaries[place].is_paused ^= true;
                }
            }
            2 => self.end_backup(),
            3 | 4 => self.start_backups(),
            5 => {
                if let Some(place) = self.any_primary() {
                    let node = self.random.index(self.nodes.len());
                    let pair = (self.primaries[place].incarnation, self.nodes[node].at.clone());
                    if !self.cut.remove(&pair) {
                        self.cut.insert(pair);
                    }
                }
            }
            6 => self.pass(LEASE),
            _ => {
                let is_silent = self.random.chance(0.3);
                self.registry.set_silent(is_silent);
            }
        }
    }

    /// A backup ends; one in memory only if another one has everything: more losses at once than there are
    /// replicas are outside the promise.
    fn end_backup(&mut self) {
        let place = self.random.index(self.nodes.len());
        if !self.case.flushed && !self.is_spare(place) {
            return;
        }
        let node = &mut self.nodes[place];
        node.backup = None;
        // Every call is answered: by its time being over if by nothing else.
        for (primary, token) in core::mem::take(&mut node.promised).into_values() {
            self.network.push(InFlight::From { primary, token, answer: Err(NoAnswer::Silent) });
        }
        node.shelf.cut_power();
    }

    /// Whether another backup has a replica that counts, and one of those that are to count next: its primary
    /// may record them before it learns of this end, and end as well. That is one loss too many.
    fn is_spare(&mut self, place: usize) -> bool {
        let found = self.registry.load(&Record::key(0)).ok().flatten();
        let Some(record) = found.and_then(|found| Record::decode(&found.value)) else { return false };
        let is_here = |other: &Place| other.backup == self.nodes[place].at;
        let is_held = |other: &Place| {
            let backup = self.nodes.iter().find(|node| node.at == other.backup);
            let backup = backup.and_then(|node| node.backup.as_ref());
            backup.is_some_and(|backup| backup.has(record.log, other.replica))
        };
        let has_other = |places: &[Place]| places.iter().any(|other| !is_here(other) && is_held(other));
        let primaries = self.primaries.iter().filter(|primary| primary.incarnation == record.incarnation);
        let mut next = primaries.flat_map(Primary::next_replicas);
        has_other(&record.replicas) && next.all(|places| !places.iter().any(is_here) || has_other(&places))
    }

    fn start_backups(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.backup.is_none()) {
            node.backup = Some(Backup::open(Box::new(node.shelf.clone())).expect("what it had"));
        }
    }

    /// Everything is right again: there is a primary, and it has what was acknowledged.
    fn heal(&mut self) {
        self.is_healing = true;
        self.cut.clear();
        self.registry.set_silent(false);
        self.start_backups();
        self.primaries.iter_mut().for_each(|primary| primary.is_paused = false);
        for _ in 0..HEALING_STEPS {
            self.step();
            let is_ready = |primary: &Primary| primary.mirror.may_read() && primary.mirror.may_write();
            if let Some(place) = self.primaries.iter().position(is_ready) {
                for key in self.book.keys() {
                    self.primaries[place].ask(&mut self.book, key, None);
                }
                return;
            }
        }
        self.book.violations.push("it never goes on after everything has healed".to_owned());
    }
}

/// A candidate's way to the backups, while everything else goes on.
struct Candidacy<'w> {
    world: &'w mut World,
    incarnation: u64,
}

impl Reach for Candidacy<'_> {
    fn ask(&mut self, backup: &str, message: &[u8]) -> Result<Vec<u8>, NoAnswer> {
        let world = &mut *self.world;
        for _ in 0..world.random.below(3) {
            world.step();
        }
        let place = world.nodes.iter().position(|node| node.at == backup).ok_or(NoAnswer::Silent)?;
        if world.is_cut(self.incarnation, backup) {
            return Err(NoAnswer::Silent);
        }
        let node = &mut world.nodes[place];
        let Some(process) = &mut node.backup else { return Err(NoAnswer::Silent) };
        let number = match process.handle(message) {
            Handled::Now(answer) => return answer.map_err(NoAnswer::Refused),
            Handled::Later(number) => number,
        };
        for _ in 0..1000 {
            match process.poll() {
                Some((done, answer)) if done == number => return answer.map_err(NoAnswer::Refused),
                Some((done, answer)) => {
                    if let Some((primary, token)) = node.promised.remove(&done) {
                        let answer = answer.map_err(NoAnswer::Refused);
                        world.network.push(InFlight::From { primary, token, answer });
                    }
                }
                None => {}
            }
        }
        Err(NoAnswer::Refused(Refusal::DiskFailed))
    }
}
