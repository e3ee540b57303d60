//! What has become of each errand, and the rules for them.
//!
//! A collective operation that ends well has the right result, and fails only where something went wrong;
//! nobody leaves a barrier before all have entered it. A host finds in its object what it has written last,
//! or what it may have written since. Additions that are acknowledged are in the counter, each once.

use core::time::Duration;
use std::collections::BTreeSet;

use farcall::Instant;
use farcall_collective::CollectiveError;

use super::rounds::RoundEnd;
use super::visits::{SharedShard, VisitEnd, counted};
use super::{Errands, RoundKind, VisitKind};
use crate::excuse::{self, Span, since_beginning};
use crate::ledger::{LATENESS_MAX, Ledger};
use crate::scenario::Scenario;

/// How long a member that has failed may take to tell others.
const ABORT_TIME_MAX: Duration = Duration::from_millis(500);

/// Where an errand of a host stands. Planned → Open → Done, or Lost with its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Planned,
    Open,
    Done,
    Lost,
}

/// An errand of a host.
#[derive(Clone, Copy, Debug)]
struct Entry {
    stage: Stage,
    begun: Instant,
}

const PLANNED: Entry = Entry { stage: Stage::Planned, begun: Instant::ZERO };

/// What the object of a host may be: the number of the operation that wrote it, `None` when there is none.
#[derive(Clone, Debug, Default)]
struct Object {
    /// By the last write that was acknowledged, and the version that it gave.
    known: Option<(usize, u64)>,
    /// By writes without an answer: they may still happen.
    possible: BTreeSet<Option<usize>>,
}

/// The errands of a scenario.
#[derive(Debug, Default)]
pub struct ErrandBook {
    /// By operation and host.
    rounds: Vec<Vec<Entry>>,
    visits: Vec<Entry>,
    objects: Vec<Object>,
    /// The sums that additions gave.
    sums: BTreeSet<i64>,
    /// What was added for certain, and what may have been added besides.
    added: i64,
    added_perhaps: i64,
    /// The shards of lives that last, by host.
    shards: Vec<Option<SharedShard>>,
    open: usize,
    right: usize,
    answered: usize,
}

impl ErrandBook {
    pub fn new(errands: &Errands, hosts: u32) -> Self {
        Self {
            rounds: vec![vec![PLANNED; hosts as usize]; errands.rounds.len()],
            visits: vec![PLANNED; errands.visits.len()],
            objects: vec![Object::default(); hosts as usize],
            shards: vec![None; errands.shards as usize],
            ..Self::default()
        }
    }

    /// How many are in flight.
    pub fn open(&self) -> usize {
        self.open
    }

    /// How many collective operations ended well, counted at each member.
    pub fn right(&self) -> usize {
        self.right
    }

    /// How many operations of the store were answered.
    pub fn answered(&self) -> usize {
        self.answered
    }
}

impl Ledger {
    /// A host takes part in a collective operation from now on.
    pub fn round_begins(&mut self, number: usize, host: u32, now: Instant) {
        self.errands.rounds[number][host as usize] = Entry { stage: Stage::Open, begun: now };
        self.errands.open += 1;
    }

    /// A collective operation has ended at a host.
    pub fn round_ends(&mut self, number: usize, host: u32, end: &RoundEnd, now: Instant) {
        let Entry { stage, begun } = self.errands.rounds[number][host as usize];
        let what = format!("the collective operation {number} at host {host}");
        if stage != Stage::Open {
            return self.violation(now, format!("{what} ended, but was {stage:?}"));
        }
        self.errands.rounds[number][host as usize].stage = Stage::Done;
        self.errands.open -= 1;
        let round = self.scenario.errands.rounds[number].clone();
        let longest =
            if matches!(end, RoundEnd::Right) { round.within } else { round.within + ABORT_TIME_MAX };
        self.check_errand_time(&what, host, longest, begun, now);
        match end {
            RoundEnd::Right => self.errands.right += 1,
            RoundEnd::Wrong(difference) => self.violation(now, format!("{what} is wrong: {difference}")),
            RoundEnd::Failed(error) => self.check_round_error(&what, error, now),
            RoundEnd::NoGroup(error) => self.violation(now, format!("{what} has no group: {error}")),
        }
        let has_entered = |entry: &Entry| entry.stage != Stage::Planned;
        let is_early = !self.errands.rounds[number].iter().all(has_entered);
        if round.kind == RoundKind::Barrier && matches!(end, RoundEnd::Right) && is_early {
            self.violation(now, format!("{what}, a barrier, let it go before all had come"));
        }
    }

    /// Members call the same operations with the same arguments: nothing fails but for what goes wrong.
    fn check_round_error(&mut self, what: &str, error: &CollectiveError, now: Instant) {
        let is_never_right = matches!(error, CollectiveError::Mismatch { .. } | CollectiveError::Dropped);
        if is_never_right || is_untroubled(&self.scenario) && !self.is_overloaded() {
            self.violation(now, format!("{what} failed without cause: {error}"));
        }
    }

    /// A host serves its shard, or cannot.
    pub fn shard_is_served(&mut self, host: u32, shard: Result<SharedShard, String>, now: Instant) {
        match shard {
            Ok(shard) => self.errands.shards[host as usize] = Some(shard),
            Err(why) => self.violation(now, format!("host {host} has no store: {why}")),
        }
    }

    /// An operation of the store begins.
    pub fn visit_begins(&mut self, number: usize, now: Instant) {
        self.errands.visits[number] = Entry { stage: Stage::Open, begun: now };
        self.errands.open += 1;
        if let VisitKind::Add(amount) = self.scenario.errands.visits[number].kind {
            self.errands.added_perhaps += i64::from(amount);
        }
    }

    /// An operation of the store has ended.
    pub fn visit_ends(&mut self, number: usize, end: &VisitEnd, now: Instant) {
        let stage = self.errands.visits[number].stage;
        if stage != Stage::Open {
            return self.violation(now, format!("operation {number} of the store ended, but was {stage:?}"));
        }
        self.errands.visits[number].stage = Stage::Done;
        self.errands.open -= 1;
        self.errands.answered += usize::from(!matches!(end, VisitEnd::NotDone | VisitEnd::Unknown));
        if let VisitEnd::Refused(why) = end {
            return self.violation(now, format!("operation {number} of the store was refused: {why}"));
        }
        let visit = self.scenario.errands.visits[number].clone();
        let wrong = match visit.kind {
            VisitKind::Add(amount) => self.addition_ends(amount, end, now),
            VisitKind::Get => self.read_ends(visit.host, end, now),
            VisitKind::Put { .. } => self.write_ends(visit.host, Some(number), end, now),
            VisitKind::Delete => self.write_ends(visit.host, None, end, now),
        };
        if let Some(wrong) = wrong {
            self.violation(now, format!("operation {number} of the store: {wrong}"));
        }
    }

    /// Whether a store may have lost its memory: a shard has crashed.
    fn store_may_have_crashed(&self, now: Instant) -> bool {
        (0..self.scenario.errands.shards).any(|shard| excuse::restart(&self.scenario, shard, now))
    }

    fn addition_ends(&mut self, amount: u8, end: &VisitEnd, now: Instant) -> Option<String> {
        let amount = i64::from(amount);
        let sum = match end {
            VisitEnd::Added { sum } => *sum,
            VisitEnd::NotDone => {
                self.errands.added_perhaps -= amount;
                return None;
            }
            _ => return None,
        };
        self.errands.added_perhaps -= amount;
        self.errands.added += amount;
        if self.store_may_have_crashed(now) {
            return None;
        }
        let ErrandBook { added, added_perhaps, .. } = self.errands;
        let is_possible = amount <= sum && sum <= added + added_perhaps;
        let is_new = self.errands.sums.insert(sum);
        (!is_possible || !is_new).then(|| {
            format!("the sum is {sum} after {amount}, of {added} and perhaps {added_perhaps}; new: {is_new}")
        })
    }

    fn read_ends(&mut self, host: u32, end: &VisitEnd, now: Instant) -> Option<String> {
        let may_have_crashed = self.store_may_have_crashed(now);
        let object = &self.errands.objects[host as usize];
        let Object { known, possible } = object;
        let is_right = match end {
            VisitEnd::Found { version, writer: Some(writer) } => match known {
                Some((number, of_it)) if number == writer => version == of_it,
                _ => possible.contains(&Some(*writer)),
            },
            VisitEnd::Found { writer: None, .. } => false,
            VisitEnd::Nothing => known.is_none() || possible.contains(&None) || may_have_crashed,
            _ => true,
        };
        (!is_right).then(|| format!("found {end:?} where it is {object:?}"))
    }

    fn write_ends(
        &mut self,
        host: u32,
        written: Option<usize>,
        end: &VisitEnd,
        now: Instant,
    ) -> Option<String> {
        let may_have_crashed = self.store_may_have_crashed(now);
        let object = &mut self.errands.objects[host as usize];
        match end {
            VisitEnd::Written { version } => {
                let former = object.known.map(|(_, version)| version);
                object.known = written.map(|number| (number, *version));
                // A deletion gives the version that it found.
                let falls = former.is_some_and(|former| match written {
                    Some(_) => *version <= former,
                    None => *version < former,
                });
                (falls && !may_have_crashed).then(|| format!("version {version} comes after {former:?}"))
            }
            VisitEnd::Nothing => {
                let was_there = object.known.take().is_some() && !object.possible.contains(&None);
                (was_there && !may_have_crashed).then(|| "nothing was deleted".to_owned())
            }
            VisitEnd::Unknown => {
                object.possible.insert(written);
                None
            }
            _ => None,
        }
    }

    /// What the counter is at the end is what was added.
    pub fn check_counter(&mut self, now: Instant) {
        let ErrandBook { added, added_perhaps, .. } = self.errands;
        if self.store_may_have_crashed(now) || self.errands.shards.is_empty() {
            return;
        }
        let sum: i64 = self.errands.shards.iter().flatten().filter_map(counted).sum();
        if sum < added || sum > added + added_perhaps {
            let what = format!("the counter is {sum} after {added} and perhaps {added_perhaps}");
            self.violation(now, what);
        }
    }

    /// A host's life is over.
    pub fn errands_of_life_end(&mut self, host: u32) {
        let book = &mut self.errands;
        let visits = book.visits.iter_mut().zip(self.scenario.errands.visits.iter().enumerate());
        let visits = visits.filter(|(_, (_, visit))| visit.host == host);
        let of_visits = visits.map(|(entry, visit)| (entry, Some(visit)));
        let of_rounds = book.rounds.iter_mut().map(|entries| (&mut entries[host as usize], None));
        let mut open: Vec<_> =
            of_visits.chain(of_rounds).filter(|(entry, _)| entry.stage == Stage::Open).collect();
        book.open -= open.len();
        let object = &mut book.objects[host as usize];
        for (entry, visit) in &mut open {
            entry.stage = Stage::Lost;
            // It may have happened.
            match visit.as_ref().map(|(number, visit)| (*number, visit.kind)) {
                Some((number, VisitKind::Put { .. })) => _ = object.possible.insert(Some(number)),
                Some((_, VisitKind::Delete)) => _ = object.possible.insert(None),
                Some((_, VisitKind::Get | VisitKind::Add(_))) | None => {}
            }
        }
        if let Some(shard) = book.shards.get_mut(host as usize) {
            *shard = None;
        }
    }

    fn check_errand_time(&mut self, what: &str, host: u32, within: Duration, begun: Instant, now: Instant) {
        let span = Span { from: since_beginning(begun), until: since_beginning(now) };
        let lasted = now - begun;
        if lasted > within + LATENESS_MAX + excuse::delay(&self.scenario, host, span) {
            self.violation(now, format!("{what} of {within:?} ended after {lasted:?}"));
        }
    }
}

/// Whether nothing goes wrong in a scenario but that queues overflow.
fn is_untroubled(scenario: &Scenario) -> bool {
    let faults = &scenario.faults;
    faults.troubles.is_empty() && faults.loss() == 0.0 && faults.packets.delay == 0.0
}
