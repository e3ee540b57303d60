//! Spreads step by step, for histories that are simulated: what processes do by threads, endpoints and clocks
//! of their own is done when whoever has these asks for it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use farcall_replica::{Answered, Backup, Reach, Record, Refusal, Registry};

use super::reading::{LogAtBackups, claimed_record, replay, send};
use super::segments::{SegmentReading, SegmentRequest};
use super::spreading::{Attempt, SpreadError, Spreading, Waiting};
use crate::Shard;
use crate::placement::{Fetched, Keeper, KeeperSteps, Mover, PartOf, SlotMap, TakesParts};

/// More than a part has of pages and clients that is read at once.
const PAGES_MAX: usize = 1024;

/// Looks at the disk of a backup while a segment is read of it.
const POLLS_MAX: u32 = 10_000;

/// What is to be read, and where it goes.
type Wanted = Arc<Mutex<Option<(PartOf, SyncSender<Fetched>)>>>;

/// What a shard does of spreads: it follows the map, and takes parts.
#[derive(Debug)]
pub struct MoverSteps {
    mover: Mover,
    keeper: KeeperSteps,
    wanted: Wanted,
}

impl MoverSteps {
    /// For the shard of this number, which knows this map.
    pub fn new(own: u32, map: &Arc<SlotMap>) -> Self {
        let (keeper, steps) = Keeper::without_thread(map);
        let (mut mover, wanted) = (Mover::new(keeper, own), Wanted::default());
        let to_read = Arc::clone(&wanted);
        mover.take_parts(TakesParts(Box::new(move |part| {
            let (to, fetched): (_, Receiver<Fetched>) = sync_channel(PAGES_MAX);
            *to_read.lock().unwrap_or_else(PoisonError::into_inner) = Some((part, to));
            Ok(fetched)
        })));
        Self { mover, keeper: steps, wanted }
    }

    /// Asks the registry: for what is to be changed, or for the map.
    pub fn ask(&mut self, registry: &mut dyn Registry) {
        self.keeper.next(registry);
    }

    /// A turn of the shard.
    pub fn turn(&mut self, shard: &mut Shard, now: farcall::Instant) {
        if self.mover.has_news() {
            self.mover.adopt(shard, now);
        }
        self.mover.turn_of_part(shard);
    }

    /// Takes what is to be read, for whoever reads it while the shard goes on.
    pub fn take_wanted(&mut self) -> Option<PartSteps> {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).take();
        wanted.map(|(part, to)| PartSteps { part, to })
    }
}

/// A part that is to be read.
#[derive(Debug)]
pub struct PartSteps {
    part: PartOf,
    to: SyncSender<Fetched>,
}

impl PartSteps {
    /// Reads it.
    pub fn read(self, registry: &mut dyn Registry, reach: &mut dyn Reach) {
        let number = self.part.spread.number;
        let replayed =
            claimed_record(registry, &self.part).and_then(|record| replay(reach, &record, &self.part));
        if let Err(reason) = replayed.and_then(|replayed| send(replayed, number, &self.to)) {
            // The shard may want it no more.
            let _ = self.to.try_send(Fetched::Failed(reason));
        }
    }
}

/// What whoever has claimed a shard does, whose slots are spread.
pub struct SpreadSteps {
    spreading: Spreading,
    waiting: Option<Waiting>,
}

impl SpreadSteps {
    /// Of a record that was claimed.
    pub fn new(registry: Box<dyn Registry>, record: Record) -> Self {
        Self { spreading: Spreading::new(registry, record, Default::default()), waiting: None }
    }

    /// Enters the spread, and gives its number.
    pub fn begin(&mut self) -> Result<u64, SpreadError> {
        self.spreading.begin()
    }

    /// Enters who takes what. An inner error is why it was given up.
    pub fn plan(
        &mut self,
        number: u64,
        reach: &mut dyn Reach,
        now: Instant,
    ) -> Result<Result<(), String>, SpreadError> {
        let mut log = match LogAtBackups::fence(reach, self.spreading.record()) {
            Ok(log) => log,
            Err(reason) => return self.spreading.give_up(number, reason),
        };
        let entered = self.spreading.enter(number, &mut log, (now, Duration::ZERO))?;
        Ok(entered.map(|waiting| self.waiting = Some(waiting)))
    }

    /// Looks at those that take parts; says whether it is over, and done.
    pub fn look(&mut self, now: Instant) -> Result<Option<bool>, SpreadError> {
        let Some(waiting) = &mut self.waiting else { return Ok(None) };
        let ended = self.spreading.look(waiting, now)?;
        Ok(ended.map(|ended| matches!(ended, Attempt::Done(_))))
    }

    /// Has the backups drop what others have taken over.
    pub fn drop_all(&self, reach: &mut dyn Reach) {
        if let Ok(mut log) = LogAtBackups::fence(reach, self.spreading.record()) {
            log.drop_all(self.spreading.record());
        }
    }
}

/// Answers a request of those who take over a log, if a message is one; `others` gets what the backup has
/// promised meanwhile.
pub fn answer_segment(
    backup: &mut Backup,
    message: &[u8],
    mut others: impl FnMut(u64, Answered),
) -> Option<Answered> {
    if !SegmentRequest::is_one(message) {
        return None;
    }
    let Ok(asked) = SegmentRequest::decode(message) else { return Some(Err(Refusal::Malformed)) };
    let mut reading = SegmentReading::new(asked, ());
    for _ in 0..POLLS_MAX {
        if let Some(answer) = reading.step(backup) {
            return Some(answer);
        }
        if let Some((number, answer)) = backup.poll() {
            match reading.takes(number, &answer) {
                Some(Ok(())) => {}
                Some(Err(refusal)) => return Some(Err(refusal)),
                None => others(number, answer),
            }
        }
    }
    Some(Err(Refusal::DiskFailed))
}
