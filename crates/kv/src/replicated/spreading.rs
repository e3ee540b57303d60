//! Who takes over a shard that nobody serves any more: its record is claimed, its log is weighed, and the
//! slots are split by bytes over the shards that live. Those do the rest.
//!
//! Whoever finds that the shard is gone does it; a claim of its record says who that is. One that ends in the
//! middle leaves a claim that ends with it, and either a spread that the others finish, or one that the next
//! one gives up.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use farcall::Clock;
use farcall::bootstrap::random_incarnation;
use farcall_replica::{Candidate, Claim, ClaimError, Claimed, Keeper, Record, Registry, RegistryError};

use super::OpenRegistry;
use super::primary::OverEndpoint;
use super::reading::{LogAtBackups, WayToBackups};
use super::segments::Asked;
use crate::durable::parts::Weights;
use crate::placement::{
    KeeperError, MoveRefused, SlotMap, SlotRange, SpreadPart, SpreadPlan, change, give_up_move, load_map,
};
use crate::wire::HASH_SLOTS;

/// The time between two looks at a record or at the map.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The time between two looks at the records of other shards.
const WATCH_EVERY: Duration = Duration::from_millis(100);

/// How often a spread is begun again that was given up.
const ATTEMPTS_MAX: usize = 4;

/// For so many leases a shard may stand still that is to take a part.
const STANDS_STILL_LEASES: u32 = 2;

/// How long shards are waited for that all take part in something else: what they take part in may wait for
/// one that is gone, and whose turn comes once this has ended.
const BUSY_FOR_MAX: Duration = Duration::from_secs(10);

/// A shard has its part after so long at the latest, and the time in which the log is read at this rate, once
/// for each that takes a part: less than any disk and network of today give.
const PART_WITHIN: Duration = Duration::from_secs(60);

/// See there.
const READ_BYTES_A_SECOND_MIN: u64 = 16 << 20;

/// How long a shard is left alone whose slots could not be spread.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Why the slots of a shard were not spread. It is as it was: a process that serves it has everything.
#[derive(Debug, thiserror::Error)]
pub enum SpreadError {
    /// Try again.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// See the reason.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// See the reason.
    #[error(transparent)]
    Map(#[from] KeeperError),
    /// The shard is served, or was never.
    #[error("shard {shard} has a primary, or another process takes it over")]
    Lives {
        /// The shard.
        shard: u32,
    },
    /// Start a process that serves the shard, or see what is said of the others.
    #[error("{0}")]
    GivenUp(String),
}

/// What was spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadOutcome {
    /// Who has which slots now.
    pub parts: Vec<SpreadPart>,
    /// How long it took since the shard was claimed.
    pub took: Duration,
}

/// What a record says of its primary, that changes as long as it lives: incarnation, epoch and beat.
type Beat = (u64, u64, u64);

/// The map, and the shards that are to take parts.
type Destinations = (Arc<SlotMap>, Vec<u32>);

/// What came of an attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    /// All have their parts, which are these.
    Done(Vec<SpreadPart>),
    /// For this reason.
    GivenUp(String),
}

/// Takes over a shard whose primary is gone, which said this last, by all others that live.
fn spread(way: &WayToBackups, (shard, shards): (u32, u32), gone: Beat) -> Result<SpreadOutcome, SpreadError> {
    let mut registry = OpenRegistry::open(&way.registry)?;
    let incarnation = random_incarnation();
    let _life = registry.live(incarnation)?;
    let beats = beats_of_others(&mut registry, (shard, shards))?;
    let (_node, endpoint) = way.endpoint().map_err(SpreadError::GivenUp)?;
    let claimed = claim(way, &mut registry, (shard, shards), (incarnation, gone))?;
    if let Some(before) = claimed.before.filter(|before| *before != incarnation) {
        registry.bury(before);
    }
    let (begun, record, clock) = (Instant::now(), claimed.record.clone(), Clock::new());
    // A log may take longer than the lease of a claim.
    let keeper = Keeper::start(Box::new(OpenRegistry::open(&way.registry)?), claimed, move || clock.now());
    let _keeper = keeper.map_err(|error| SpreadError::GivenUp(error.to_string()))?;
    let mut reach = OverEndpoint::new(&endpoint, way.within);
    let mut spreading = Spreading::new(Box::new(registry), record, beats);
    let mut why = String::new();
    for _ in 0..ATTEMPTS_MAX {
        let number = spreading.begin()?;
        let mut log = match LogAtBackups::fence(&mut reach, &spreading.record) {
            Ok(log) => log,
            Err(reason) => return spreading.give_up(number, reason),
        };
        match spreading.attempt(number, &mut log)? {
            Attempt::Done(parts) => {
                log.drop_all(&spreading.record);
                return Ok(SpreadOutcome { parts, took: begun.elapsed() });
            }
            Attempt::GivenUp(reason) => why = reason,
        }
    }
    Err(SpreadError::GivenUp(why))
}

/// Claims the record of a shard, unless its primary lives: that is waited for as long as its lease.
fn claim(
    way: &WayToBackups,
    registry: &mut OpenRegistry,
    (shard, shards): (u32, u32),
    (incarnation, gone): (u64, Beat),
) -> Result<Claimed, SpreadError> {
    let lives = || SpreadError::Lives { shard };
    // Another process may have claimed it since.
    let record = record_of(registry, shard)?.filter(|record| beat_of(record) == gone).ok_or_else(lives)?;
    let mut candidate = Candidate::new(Claim {
        log: record.log,
        shards,
        // Nobody serves it meanwhile.
        primary: record.primary,
        incarnation,
        lease: way.within,
        wanted: record.wanted,
        flushed: record.flushed,
    });
    let clock = Clock::new();
    loop {
        if let Some(claimed) = candidate.try_claim(registry, &|| clock.now())? {
            return Ok(claimed);
        }
        let now = record_of(registry, shard)?.ok_or_else(lives)?;
        if beat_of(&now) != gone {
            return Err(lives());
        }
        thread::sleep(LOOK_AGAIN_AFTER);
    }
}

/// A shard that is taken over, whose record was claimed: step by step, so that histories that are simulated
/// do what processes do.
pub(super) struct Spreading {
    registry: Box<dyn Registry>,
    record: Record,
    /// What the records of others said before that took a lease, where nobody can tell who has ended.
    beats: BTreeMap<u32, Beat>,
    /// Shards that were to take a part and did not, and why.
    left_out: BTreeMap<u32, String>,
}

/// A spread that has its plan, and waits for those that take parts.
#[derive(Debug)]
pub(super) struct Waiting {
    number: u64,
    plan: SpreadPlan,
    /// When it began, and how long it may take although all live.
    begun: Instant,
    within: Duration,
    /// When the records of those that take parts changed last.
    seen: BTreeMap<u32, (Beat, Instant)>,
}

impl Waiting {
    fn new(number: u64, plan: SpreadPlan, (begun, within): (Instant, Duration)) -> Self {
        Self { number, plan, begun, within, seen: BTreeMap::new() }
    }
}

impl Spreading {
    /// Of a record that was claimed; `beats` is what those of others said before that took a lease, where
    /// nobody can tell who has ended.
    pub fn new(registry: Box<dyn Registry>, record: Record, beats: BTreeMap<u32, Beat>) -> Self {
        Self { registry, record, beats, left_out: BTreeMap::new() }
    }

    /// Enters the spread in the map; gives its number. Whoever has claimed the record by then may not have
    /// seen it. Whoever claims it later sees it, and gives it up.
    pub fn begin(&mut self) -> Result<u64, SpreadError> {
        let Record { log, shards, epoch, incarnation, .. } = self.record;
        let begin = |map: &SlotMap| map.begin_spread(log.shard, epoch).map(|(next, _)| Some(next));
        let number = change(&mut *self.registry, shards, begin)?.version();
        let found = record_of(&mut *self.registry, log.shard)?;
        if found.is_none_or(|found| (found.incarnation, found.epoch) != (incarnation, epoch)) {
            give_up_move(&mut *self.registry, shards, (number, "another process has claimed the shard"))?;
            return Err(SpreadError::Lives { shard: log.shard });
        }
        Ok(number)
    }

    /// What was claimed.
    pub fn record(&self) -> &Record {
        &self.record
    }

    pub fn give_up<T>(&mut self, number: u64, reason: String) -> Result<T, SpreadError> {
        give_up_move(&mut *self.registry, self.record.shards, (number, &reason))?;
        Err(SpreadError::GivenUp(reason))
    }

    /// Says in the map who takes what, and waits until all have.
    fn attempt(&mut self, number: u64, log: &mut LogAtBackups<'_>) -> Result<Attempt, SpreadError> {
        let mut waiting = match self.enter(number, log, (Instant::now(), BUSY_FOR_MAX))? {
            Ok(waiting) => waiting,
            Err(reason) => return Ok(Attempt::GivenUp(reason)),
        };
        loop {
            if let Some(ended) = self.look(&mut waiting, Instant::now())? {
                return Ok(ended);
            }
            thread::sleep(LOOK_AGAIN_AFTER);
        }
    }

    /// Says in the map who takes what; those that take part in something else are waited for so long. An
    /// inner error is why the spread was given up.
    pub fn enter(
        &mut self,
        number: u64,
        log: &mut LogAtBackups<'_>,
        (now, busy_for_max): (Instant, Duration),
    ) -> Result<Result<Waiting, String>, SpreadError> {
        let shards = self.record.shards;
        let (map, destinations) = match self.destinations(number, busy_for_max)? {
            Ok(found) => found,
            Err(reason) => return Ok(Err(reason)),
        };
        if destinations.is_empty() {
            let reason = self.nobody_left();
            return self.give_up(number, reason);
        }
        let (plan, log_bytes) = match self.plan(log, &map, &destinations) {
            Ok(planned) => planned,
            Err(reason) => return self.give_up(number, reason),
        };
        match change(&mut *self.registry, shards, |map| map.plan_spread(number, &plan)) {
            Ok(_) => {}
            // It takes part in something else by now.
            Err(KeeperError::Refused(error @ MoveRefused::Busy { .. })) => {
                give_up_move(&mut *self.registry, shards, (number, &error.to_string()))?;
                return Ok(Err(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
        let read_bytes = log_bytes * destinations.len() as u64;
        let within = PART_WITHIN + Duration::from_secs(read_bytes / READ_BYTES_A_SECOND_MIN);
        Ok(Ok(Waiting::new(number, plan, (now, within))))
    }

    fn nobody_left(&self) -> String {
        let mut words = "no other shard lives that could take a part".to_owned();
        self.left_out.values().for_each(|why| words += &format!("; {why}"));
        words
    }

    /// The map, and who may take parts: those that take part in something else are waited for, not for long.
    /// An error is why the spread was given up meanwhile.
    fn destinations(
        &mut self,
        number: u64,
        within: Duration,
    ) -> Result<Result<Destinations, String>, SpreadError> {
        let begun = Instant::now();
        loop {
            let (map, _) = load_map(&mut *self.registry, self.record.shards)?;
            if map.spreads().iter().all(|it| it.number != number) {
                let ended = map.ended(number).map(|ended| ended.reason.clone());
                return Ok(Err(ended.unwrap_or_default()));
            }
            let living = self.living()?;
            let is_free = |shard: &u32| map.number_of(*shard).is_none();
            let free: Vec<u32> = living.iter().copied().filter(is_free).collect();
            if !free.is_empty() || living.is_empty() {
                return Ok(Ok((map, free)));
            }
            if begun.elapsed() >= within {
                let reason = "all other shards take part in moves that do not end".to_owned();
                return self.give_up(number, reason);
            }
            thread::sleep(LOOK_AGAIN_AFTER);
        }
    }

    /// Who is to take what, and how many bytes the log has.
    fn plan(
        &self,
        log: &mut LogAtBackups<'_>,
        map: &SlotMap,
        destinations: &[u32],
    ) -> Result<(SpreadPlan, u64), String> {
        let (end, segments) = log.outline()?;
        let mut weights = Weights::default();
        let log_bytes = segments.iter().map(|segment| u64::from(segment.bytes)).sum();
        for segment in segments {
            let answer = log.ask(end.log, segment, &Asked::Weights)?;
            weights.add(&answer).map_err(|error| error.to_string())?;
        }
        let slots = (0..HASH_SLOTS).filter(|slot| map.owner(*slot) == self.record.log.shard);
        let parts = split(slots, &weights.by_slot(), destinations);
        Ok((SpreadPlan { end, parts, ready: BTreeSet::new() }, log_bytes))
    }

    /// The other shards whose primaries have not ended, as far as can be known.
    fn living(&mut self) -> Result<Vec<u32>, SpreadError> {
        let mut living = Vec::new();
        for shard in (0..self.record.shards).filter(|shard| *shard != self.record.log.shard) {
            let Some(record) = record_of(&mut *self.registry, shard)? else { continue };
            let stands_still = self.beats.get(&shard).is_some_and(|beat| *beat == beat_of(&record));
            let is_gone = stands_still || self.registry.has_ended(record.incarnation);
            if !is_gone && !self.left_out.contains_key(&shard) {
                living.push(shard);
            }
        }
        Ok(living)
    }

    /// Whether the spread has ended; gives it up if one that takes a part is gone, or has not got it in time
    /// although it lives.
    pub fn look(&mut self, waiting: &mut Waiting, now: Instant) -> Result<Option<Attempt>, SpreadError> {
        let (shard, shards, number) = (self.record.log.shard, self.record.shards, waiting.number);
        let is_late = now - waiting.begun >= waiting.within;
        let (map, _) = load_map(&mut *self.registry, shards)?;
        let Some(spread) = map.spreads().iter().find(|it| it.number == number) else {
            let is_done = map.taken(shard).is_some_and(|taken| taken.number == number);
            let reason = map.ended(number).map(|ended| ended.reason.clone()).unwrap_or_default();
            let parts = core::mem::take(&mut waiting.plan.parts);
            return Ok(Some(if is_done { Attempt::Done(parts) } else { Attempt::GivenUp(reason) }));
        };
        let mut reasons = Vec::new();
        for destination in spread.destinations() {
            let reason = match self.is_gone(destination, &mut waiting.seen, now)? {
                true => format!("shard {destination}, which was to take a part, is gone"),
                false if is_late && !spread.is_ready(destination) => {
                    let within = waiting.within;
                    format!("shard {destination} lives, and has not stored its part within {within:.0?}")
                }
                false => continue,
            };
            self.left_out.insert(destination, reason.clone());
            reasons.push(reason);
        }
        if !reasons.is_empty() {
            give_up_move(&mut *self.registry, shards, (number, &reasons.join("; ")))?;
        }
        Ok(None)
    }

    /// Whether a shard has ended, or has stood still for too long.
    fn is_gone(
        &mut self,
        shard: u32,
        seen: &mut BTreeMap<u32, (Beat, Instant)>,
        now: Instant,
    ) -> Result<bool, SpreadError> {
        let Some(record) = record_of(&mut *self.registry, shard)? else { return Ok(true) };
        let beat = beat_of(&record);
        let (last, since) = seen.entry(shard).or_insert((beat, now));
        if *last != beat {
            (*last, *since) = (beat, now);
        }
        let stands_still = now - *since >= record.lease * STANDS_STILL_LEASES;
        Ok(stands_still || self.registry.has_ended(record.incarnation))
    }
}

/// Splits slots into parts of about as many bytes, in their order.
fn split(slots: impl Iterator<Item = u32> + Clone, weights: &[u64], to: &[u32]) -> Vec<SpreadPart> {
    // A slot without bytes counts a little, too: what is written later goes by slots.
    let weight = |slot: u32| u128::from(weights[slot as usize]) + 1;
    let total: u128 = slots.clone().map(weight).sum();
    let mut parts: Vec<SpreadPart> = Vec::new();
    let mut before = 0;
    for slot in slots {
        // By where its middle lies.
        let at = (before * 2 + weight(slot)) * to.len() as u128 / (total * 2);
        before += weight(slot);
        let to = to[(at as usize).min(to.len() - 1)];
        match parts.last_mut() {
            Some(part) if part.to == to && part.range.last + 1 == slot => part.range.last = slot,
            _ => parts.push(SpreadPart { range: SlotRange { first: slot, last: slot }, to }),
        }
    }
    parts
}

fn record_of(registry: &mut dyn Registry, shard: u32) -> Result<Option<Record>, SpreadError> {
    let Some(found) = registry.load(&Record::key(shard))? else { return Ok(None) };
    Ok(Some(Record::decode(&found.value).ok_or(ClaimError::Damaged)?))
}

/// The beats of other shards, in a registry that cannot tell whether a process has ended: those that live
/// have others by the time at which a shard is claimed.
fn beats_of_others(
    registry: &mut OpenRegistry,
    (shard, shards): (u32, u32),
) -> Result<BTreeMap<u32, Beat>, SpreadError> {
    let mut beats = BTreeMap::new();
    if registry.may_come_back() {
        for other in (0..shards).filter(|other| *other != shard) {
            beats.extend(record_of(registry, other)?.map(|record| (other, beat_of(&record))));
        }
    }
    Ok(beats)
}

fn beat_of(record: &Record) -> Beat {
    (record.incarnation, record.epoch, record.beat)
}

/// What is known of other shards.
#[derive(Debug, Default)]
struct Watched {
    /// When their records changed last.
    seen: HashMap<u32, (Beat, Instant)>,
    /// Until when they are left alone.
    left_until: HashMap<u32, Instant>,
}

impl Watched {
    /// What a shard said last that nobody has served for so long, nor waits to.
    fn is_due(
        &mut self,
        registry: &mut OpenRegistry,
        (shard, shards): (u32, u32),
        after: Duration,
    ) -> Result<Option<Beat>, SpreadError> {
        let Some(record) = record_of(registry, shard)? else { return Ok(None) };
        let (beat, now) = (beat_of(&record), Instant::now());
        let (last, since) = self.seen.entry(shard).or_insert((beat, now));
        if *last != beat {
            (*last, *since) = (beat, now);
        }
        let silent = since.elapsed();
        let is_left = self.left_until.get(&shard).is_some_and(|until| now < *until);
        if is_left || silent < after {
            return Ok(None);
        }
        let is_gone = silent >= record.lease || registry.has_ended(record.incarnation);
        let is_due =
            is_gone && load_map(registry, shards)?.0.has_slots(shard) && registry.waiting(shard)?.is_empty();
        Ok(is_due.then_some(beat))
    }
}

/// Takes over every other shard that nobody has served for so long, but for shard 0, where all others are
/// met. Tells what came of it. Never ends.
pub fn watch(
    way: &WayToBackups,
    (own, shards): (u32, u32),
    after: Duration,
    mut tell: impl FnMut(u32, Result<SpreadOutcome, SpreadError>),
) {
    let mut watched = Watched::default();
    let mut registry = None;
    loop {
        thread::sleep(WATCH_EVERY);
        if registry.is_none() {
            registry = OpenRegistry::open(&way.registry).ok();
        }
        let Some(registry) = &mut registry else { continue };
        for shard in (1..shards).filter(|shard| *shard != own) {
            // A registry that does not answer says nothing of anybody.
            if let Ok(Some(gone)) = watched.is_due(registry, (shard, shards), after) {
                let outcome = spread(way, (shard, shards), gone);
                if !matches!(outcome, Err(SpreadError::Lives { .. })) {
                    watched.left_until.insert(shard, Instant::now() + TRY_AGAIN_AFTER);
                    tell(shard, outcome);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
