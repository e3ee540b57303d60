//! The world of a history: what happens next is drawn from the seed.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use farcall_base::{Instant, Random, seed_of_stream};
use farcall_replica::{
    Backup, BackupEntry, Candidate, ClockOf, MemoryRegistry, NoAnswer, Place, Record, Registry, RegistryJob,
};

use farcall_kv::placement::SlotMap;
use farcall_kv::wire::hash_slot;

use super::clients::{ADDED_KEYS, Clients, WRITTEN_KEYS};
use super::network::InFlight;
use super::primary::Primary;
use super::shelf::SimulatedShelf;
use super::spreading::{SpreadTrouble, Spreader};
use crate::history::Operation;

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
    /// Shards: with more than one, others take over the last one in parts now and then.
    pub shards: u32,
}

/// What became of a history.
#[derive(Clone, Debug, Default)]
pub struct FailoverFindings {
    /// What clients asked for, and were told.
    pub history: Vec<Operation>,
    /// What broke a rule.
    pub violations: Vec<String>,
    /// Operations that were begun.
    pub operations: u64,
    /// Operations that were answered as done.
    pub done: u64,
    /// Primaries that there were.
    pub primaries: u64,
    /// Primaries that found out that they were replaced.
    pub deposed: u64,
    /// Histories in which others have taken over the last shard in parts.
    pub spreads: u64,
}

pub const LEASE: Duration = Duration::from_millis(200);
pub const LOG_BYTES_MAX: u64 = 64 << 20;

/// Clients that add.
const ADDERS: usize = 3;

const TROUBLES: [u64; 4] = [1, 2, 4, 10];

/// Turns of a mirror in a turn of its primary.
const BLANK_TURNS: u32 = 32;

/// Steps in which everything must work again once it has healed.
const HEALING_STEPS: u64 = 60_000;

/// A backup's process, if it is there, and what survives it.
pub struct Node {
    pub(super) at: String,
    pub(super) backup: Option<Backup>,
    pub(super) shelf: SimulatedShelf,
    /// Whose answers come when its disk has done its work.
    pub(super) promised: BTreeMap<u64, (u64, u64)>,
}

pub struct World {
    pub(super) case: FailoverCase,
    pub(super) random: Random,
    /// Of the steps in which something may go wrong, the tenths in which it does.
    pub(super) troubles: u64,
    pub(super) now: Arc<AtomicU64>,
    pub(super) registry: MemoryRegistry,
    pub(super) nodes: Vec<Node>,
    pub(super) primaries: Vec<Primary>,
    /// The next ones of shards, which wait for the end of the last.
    pub(super) candidates: BTreeMap<u32, (u64, Candidate)>,
    /// Who takes the last shard apart.
    pub(super) spreader: Option<(u64, Spreader)>,
    pub(super) spread_trouble: SpreadTrouble,
    /// How far the last spread was that was seen: its number, and how many had their parts.
    pub(super) spread_step: (u64, u32),
    /// Before that time nobody asks for the map.
    pub(super) map_asked_from: u64,
    /// The map that clients have seen last.
    pub(super) known_map: Arc<SlotMap>,
    pub(super) known_revision: u64,
    /// The time at which simulated time begins, where real clocks are asked for.
    pub(super) begun: std::time::Instant,
    pub(super) is_recovering: bool,
    pub(super) network: Vec<InFlight>,
    /// What the registry may still do, though it has said that it did not answer.
    pub(super) late_jobs: Vec<RegistryJob>,
    /// Pairs of a primary and a backup that cannot reach each other.
    pub(super) cut: BTreeSet<(u64, String)>,
    pub(super) clients: Clients,
    pub(super) incarnations: u64,
    pub(super) values: u64,
    pub(super) is_healing: bool,
    pub(super) findings: FailoverFindings,
}

impl FailoverCase {
    /// Runs the history and says what was wrong.
    pub fn judge(&self) -> FailoverFindings {
        let mut world = World::new(*self);
        for _ in 0..self.steps {
            world.step();
        }
        world.heal();
        world.clients.judge();
        let last = self.shards - 1;
        world.findings.spreads = u64::from(world.map().taken(last).is_some());
        world.findings.operations = world.clients.history.len() as u64;
        world.findings.history = core::mem::take(&mut world.clients.history);
        world.findings.violations = core::mem::take(&mut world.clients.book.violations);
        world.findings.done += world.primaries.iter().map(|primary| primary.done).sum::<u64>();
        world.findings
    }
}

impl World {
    fn new(case: FailoverCase) -> Self {
        let registry = MemoryRegistry::default();
        let mut random = Random::new(seed_of_stream(case.seed, 1));
        let node = |number: u32| {
            let at = format!("backup:{number}");
            registry.announce(BackupEntry { at: at.clone(), domain: at.clone(), has_disk: true });
            let shelf = SimulatedShelf::new(seed_of_stream(case.seed, 100 + u64::from(number)), 3);
            let backup = Backup::open(Box::new(shelf.clone())).expect("it is empty");
            Node { at, backup: Some(backup), shelf, promised: BTreeMap::new() }
        };
        let nodes = (0..case.backups).map(node).collect();
        let troubles = TROUBLES[random.index(TROUBLES.len())];
        let spread_trouble = match case.shards {
            1 => SpreadTrouble::None,
            _ => SpreadTrouble::ALL[case.seed as usize % SpreadTrouble::ALL.len()],
        };
        Self {
            nodes,
            case,
            troubles,
            random,
            now: Arc::new(AtomicU64::new(1)),
            registry,
            primaries: Vec::new(),
            candidates: BTreeMap::new(),
            spreader: None,
            spread_trouble,
            spread_step: (0, 0),
            map_asked_from: 0,
            known_map: Arc::new(SlotMap::of(case.shards)),
            known_revision: 0,
            begun: std::time::Instant::now(),
            is_recovering: false,
            network: Vec::new(),
            late_jobs: Vec::new(),
            cut: BTreeSet::new(),
            clients: Clients::new(ADDERS),
            incarnations: 0,
            values: 0,
            is_healing: false,
            findings: FailoverFindings::default(),
        }
    }

    pub(super) fn clock(&self) -> ClockOf {
        let now = Arc::clone(&self.now);
        Box::new(move || Instant::from_nanos(now.load(Ordering::Relaxed)))
    }

    pub(super) fn nanos(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn pass(&self, time: Duration) {
        self.now.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// One thing happens.
    pub(super) fn step(&mut self) {
        let time = Duration::from_micros(self.random.below(400));
        self.pass(time);
        match self.random.below(1000) {
            0..350 => self.deliver(),
            350..700 => self.turn(),
            700..850 => self.operate(),
            850..910 => self.answer_registry(),
            910..950 if self.case.shards == 1 => self.answer_registry(),
            910..930 => self.ask_for_map(),
            930..940 => self.read_part(),
            940..950 => self.spread(),
            950..990 => self.stand_for_primary(),
            _ if self.is_healing => {}
            // Some histories are calm, so that much is done in them, and others are not.
            _ if self.random.below(10) < self.troubles => self.trouble(),
            _ => {}
        }
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
        primary.turn(&mut self.clients);
        if let Some(mover) = &mut primary.mover {
            mover.turn(&mut primary.shard, Instant::from_nanos(self.now.load(Ordering::Relaxed)));
        }
        let mut messages = Vec::new();
        // Most of an image is blank: that is looked through without a message.
        for _ in 0..=BLANK_TURNS {
            let (_, job) = primary.mirror.turn_with(&mut messages);
            primary.asked = primary.asked.take().or(job);
        }
        for message in messages {
            let is_late = self.random.chance(0.05);
            let delay = if is_late { self.random.below(LEASE.as_nanos() as u64) } else { 0 };
            let due = self.now.load(Ordering::Relaxed) + delay;
            self.network.push(InFlight::To { primary: primary.incarnation, message, due });
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

    pub(super) fn any_primary(&mut self) -> Option<usize> {
        (!self.primaries.is_empty()).then(|| self.random.index(self.primaries.len()))
    }

    /// Any primary of a shard that does not stand still: the last one, or one before it.
    fn place_of(&mut self, shard: u32) -> Option<usize> {
        let of_shard = |(place, primary): (usize, &Primary)| (primary.number() == shard).then_some(place);
        let places: Vec<usize> = self.primaries.iter().enumerate().filter_map(of_shard).collect();
        let place = *places.get(self.random.below(places.len().max(1) as u64) as usize)?;
        (!self.primaries[place].is_paused).then_some(place)
    }

    /// A client asks whoever it takes for the primary.
    fn operate(&mut self) {
        if self.random.chance(0.3) {
            return self.add();
        }
        let key = self.random.below(WRITTEN_KEYS + ADDED_KEYS) as u8;
        let is_write = u64::from(key) < WRITTEN_KEYS && self.random.chance(0.5);
        // Now and then it knows no better.
        let is_lost = self.case.shards > 1 && self.random.chance(0.1);
        let shard = match is_lost {
            true => self.random.below(u64::from(self.case.shards)) as u32,
            false => self.map().owner(hash_slot(&[key])),
        };
        self.values += 1;
        let value = is_write.then_some(self.values);
        let Some(place) = self.place_of(shard) else { return };
        self.primaries[place].ask(&mut self.clients, key, value);
    }

    /// A client goes on with an addition, or begins the next one.
    fn add(&mut self) {
        let adder = self.random.index(ADDERS);
        if self.clients.adders[adder].current.is_none() {
            let key = (WRITTEN_KEYS + self.random.below(ADDED_KEYS)) as u8;
            self.clients.next_addition(adder, key, 1 + self.random.below(9) as i64);
        }
        self.map();
        let Some(route) = self.clients.route(adder, &self.known_map) else { return };
        let shard = match route {
            Ok(asked) => asked.shard,
            Err(shard) => shard,
        };
        let Some(place) = self.place_of(shard) else { return };
        let primary = &mut self.primaries[place];
        match route {
            Ok(asked) => primary.ask_for_addition(&mut self.clients, adder, asked),
            Err(_) => primary.ask_for_identity(&mut self.clients, adder),
        }
    }

    /// Something goes wrong, or is right again.
    fn trouble(&mut self) {
        match self.random.below(if self.case.shards > 1 { 10 } else { 8 }) {
            8 => {
                let is_known = self.random.chance(0.5);
                self.end_spreader(is_known);
            }
            9 => self.end_primary_of(self.case.shards - 1),
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
                    self.cut_or_join(place);
                }
            }
            6 => self.pass(LEASE),
            _ => {
                let is_silent = self.random.chance(0.3);
                self.registry.set_silent(is_silent);
            }
        }
    }

    /// The primaries of a shard end, and the registry knows of it.
    pub(super) fn end_primary_of(&mut self, shard: u32) {
        while let Some(place) = self.primaries.iter().position(|primary| primary.number() == shard) {
            let primary = self.primaries.swap_remove(place);
            self.registry.ended(primary.incarnation);
            self.end(primary);
        }
    }

    /// A primary and a backup cannot reach each other, or can again.
    pub(super) fn cut_or_join(&mut self, place: usize) {
        let node = self.random.index(self.nodes.len());
        let pair = (self.primaries[place].incarnation, self.nodes[node].at.clone());
        if !self.cut.remove(&pair) {
            self.cut.insert(pair);
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

    /// Whether another backup has a replica that counts, and one of those that are to count next, of each
    /// log: its primary may record them before it learns of this end, and end as well. That is one loss too
    /// many.
    fn is_spare(&mut self, place: usize) -> bool {
        (0..self.case.shards).all(|shard| self.is_spare_of(shard, place))
    }

    fn is_spare_of(&mut self, shard: u32, place: usize) -> bool {
        let found = match self.registry.load(&Record::key(shard)) {
            Ok(Some(found)) => Record::decode(&found.value),
            // There is nothing to be lost of it.
            Ok(None) => return shard > 0,
            Err(_) => None,
        };
        let Some(record) = found else { return false };
        // What others have taken over is of no use.
        let taken = self.map().taken(shard).map_or(0, |taken| taken.epoch);
        if record.is_from_before(taken) {
            return true;
        }
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
            if self.read_all() {
                return;
            }
        }
        self.clients.book.violations.push("it never goes on after everything has healed".to_owned());
    }

    /// Reads all objects where they are, once somebody serves each of them.
    fn read_all(&mut self) -> bool {
        let keys = 0..(WRITTEN_KEYS + ADDED_KEYS) as u8;
        let map = Arc::new(self.map().clone());
        let is_ready = |primary: &Primary| {
            let knows = self.case.shards == 1 || primary.shard.map().version() == map.version();
            knows && primary.mirror.may_read() && primary.mirror.may_write()
        };
        let place = |key: u8| {
            let owner = map.owner(hash_slot(&[key]));
            self.primaries.iter().position(|primary| primary.number() == owner && is_ready(primary))
        };
        let Some(places) = keys.clone().map(place).collect::<Option<Vec<usize>>>() else { return false };
        if !map.spreads().is_empty() {
            return false;
        }
        for (key, place) in keys.zip(places) {
            self.primaries[place].ask(&mut self.clients, key, None);
        }
        true
    }
}
