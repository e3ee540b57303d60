//! How a process of a store knows the map, and changes it: in a thread of its own, because a registry takes
//! as long as a disk or a network.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use farcall_base::canary::{Rule, leaves_out};
use farcall_replica::{Compared, Registry, RegistryError};

use super::{MoveRefused, SlotMap, SlotRange, Spread};

/// Under which key the registry has the map.
pub const MAP_KEY: &str = "slots";

/// How often the map is looked at when nobody asks for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a registry that does not answer is left alone.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// How often a change is tried again that others come before.
const ATTEMPTS_MAX: usize = 64;

/// Why the map is not known, or does not change.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// See the reason.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Restore the registry from a copy.
    #[error("the map of hash slots in the registry is damaged, or of a version that is not understood")]
    Damaged,
    /// Give all processes the same number.
    #[error("the map of hash slots in the registry is of {found} shards, and this store has {shards}")]
    OtherShards {
        /// What the registry says.
        found: u32,
        /// What the process was told.
        shards: u32,
    },
    /// See the reason.
    #[error(transparent)]
    Refused(#[from] MoveRefused),
    /// Others change the map all the time.
    #[error("others change the map of hash slots all the time; ask again")]
    Contended,
}

/// The map in a registry, and its revision; that of the number of shards if there is none yet.
pub fn load_map(registry: &mut dyn Registry, shards: u32) -> Result<(Arc<SlotMap>, u64), KeeperError> {
    let Some(found) = registry.load(MAP_KEY)? else { return Ok((Arc::new(SlotMap::of(shards)), 0)) };
    let map = SlotMap::decode(&found.value).ok_or(KeeperError::Damaged)?;
    if map.shards() != shards {
        return Err(KeeperError::OtherShards { found: map.shards(), shards });
    }
    Ok((Arc::new(map), found.revision))
}

/// Changes the map, again and again until nobody comes before; `None` changes nothing. Gives the map that is
/// there then.
pub(crate) fn change(
    registry: &mut dyn Registry,
    shards: u32,
    change: impl Fn(&SlotMap) -> Result<Option<SlotMap>, MoveRefused>,
) -> Result<Arc<SlotMap>, KeeperError> {
    for _ in 0..ATTEMPTS_MAX {
        let (map, revision) = load_map(registry, shards)?;
        let Some(next) = change(&map)? else { return Ok(map) };
        if let Compared::Set(_) = registry.compare_and_set(MAP_KEY, revision, &next.encode())? {
            return Ok(Arc::new(next));
        }
    }
    Err(KeeperError::Contended)
}

/// Enters a move in the map; gives its number.
pub fn begin_move(
    registry: &mut dyn Registry,
    shards: u32,
    (range, from, to): (SlotRange, u32, u32),
) -> Result<u64, KeeperError> {
    let map = change(registry, shards, |map| map.begin(range, from, to).map(|(next, _)| Some(next)))?;
    // Its own change: the last move that was entered.
    Ok(map.version())
}

/// Takes a move out of the map, unless it is done; the map that is there then says how it ended.
pub fn give_up_move(
    registry: &mut dyn Registry,
    shards: u32,
    (number, reason): (u64, &str),
) -> Result<Arc<SlotMap>, KeeperError> {
    change(registry, shards, |map| Ok(map.given_up(number, reason)))
}

/// Gives up the moves and spreads in which a shard takes part whose primary begins, and gives the map. Before
/// the primary serves: then nobody can do what it began and does not know.
pub fn settle(registry: &mut dyn Registry, (shard, shards): (u32, u32)) -> Result<Arc<SlotMap>, KeeperError> {
    let why = format!("shard {shard} has a new primary");
    let mut map = load_map(registry, shards)?.0;
    while unsettled(&map, shard).is_some() {
        map = change(registry, shards, |map| {
            Ok(unsettled(map, shard).and_then(|number| map.given_up(number, &why)))
        })?;
    }
    Ok(map)
}

/// A move or spread in which the shard takes part.
fn unsettled(map: &SlotMap, shard: u32) -> Option<u64> {
    let number = map.number_of(shard)?;
    let spread = map.spreads().iter().find(|it| it.number == number);
    let rule = |it: &Spread| if it.from == shard { Rule::NextSettles } else { Rule::TakerSettles };
    (!spread.is_some_and(|it| leaves_out(rule(it)))).then_some(number)
}

/// What is asked of the thread.
#[derive(Debug)]
enum Job {
    /// Look at the map now.
    Look,
    /// A move is done, or given up for a reason.
    End { number: u64, reason: String },
    /// A shard has its part of a spread.
    Ready { number: u64, shard: u32 },
}

#[derive(Debug)]
struct Seen {
    version: AtomicU64,
    map: Mutex<Arc<SlotMap>>,
}

/// What a process knows of the map.
#[derive(Debug)]
pub struct Keeper {
    jobs: Sender<Job>,
    seen: Arc<Seen>,
}

impl Keeper {
    /// Starts the thread, which ends with this. It begins with a map that is known.
    pub fn start(mut registry: Box<dyn Registry>, map: &Arc<SlotMap>) -> io::Result<Self> {
        let (keeper, mut steps) = Self::without_thread(map);
        thread::Builder::new().name("farcall-slots".to_owned()).spawn(move || steps.keep(&mut *registry))?;
        Ok(keeper)
    }

    /// One without a thread, and what that would do.
    pub(crate) fn without_thread(map: &Arc<SlotMap>) -> (Self, KeeperSteps) {
        let (jobs, asked) = channel();
        let seen = Seen { version: AtomicU64::new(map.version()), map: Mutex::new(Arc::clone(map)) };
        let seen = Arc::new(seen);
        let known = Arc::clone(&seen);
        let steps = KeeperSteps { asked, seen: known, shards: map.shards(), looked_at: 0, begun: None };
        (Self { jobs, seen }, steps)
    }

    /// The version of the map that was seen last.
    #[inline]
    pub fn version(&self) -> u64 {
        self.seen.version.load(Ordering::Acquire)
    }

    /// The map that was seen last.
    pub fn map(&self) -> Arc<SlotMap> {
        Arc::clone(&self.seen.map.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has the registry asked now.
    pub fn look(&self) {
        self.begin(Job::Look);
    }

    /// Sets that a move is done. What came of it is seen in a later map: whoever ended the move first has.
    pub fn done(&self, number: u64) {
        self.begin(Job::End { number, reason: String::new() });
    }

    /// Sets that a shard has its part of a spread; if all others have theirs, the spread is done.
    pub fn part_ready(&self, number: u64, shard: u32) {
        self.begin(Job::Ready { number, shard });
    }

    /// Sets that a move, or a spread, is given up.
    pub fn give_up(&self, number: u64, reason: String) {
        self.begin(Job::End { number, reason });
    }

    fn begin(&self, job: Job) {
        // The thread ends with the channel only.
        let _ = self.jobs.send(job);
    }
}

impl Seen {
    fn publish(&self, map: Arc<SlotMap>) {
        let version = map.version();
        let mut known = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if version > known.version() {
            *known = map;
            self.version.store(version, Ordering::Release);
        }
    }
}

/// What the thread of a keeper does.
#[derive(Debug)]
pub(crate) struct KeeperSteps {
    asked: Receiver<Job>,
    seen: Arc<Seen>,
    shards: u32,
    /// The revision of the map that was looked at last.
    looked_at: u64,
    /// A change whose outcome is not known.
    begun: Option<Job>,
}

impl KeeperSteps {
    /// Looks at the map, and ends moves, until nobody asks any more.
    fn keep(&mut self, registry: &mut dyn Registry) {
        loop {
            let within = if self.begun.is_some() { ASK_AGAIN_AFTER } else { LOOK_EVERY };
            match self.asked.recv_timeout(within) {
                Ok(job) => self.step(registry, job),
                Err(RecvTimeoutError::Timeout) => self.step(registry, Job::Look),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Does what was asked for first, or looks at the map.
    pub fn next(&mut self, registry: &mut dyn Registry) {
        let job = self.asked.try_recv().unwrap_or(Job::Look);
        self.step(registry, job);
    }

    fn step(&mut self, registry: &mut dyn Registry, job: Job) {
        // A change whose outcome is unknown is made again: it may have been done. What is asked for meanwhile
        // is a look, which comes anyway: a move that ends is the only one of its shard.
        let job = self.begun.take().unwrap_or(job);
        if matches!(job, Job::Look) {
            return self.look(registry);
        }
        match change(registry, self.shards, |map| Ok(changed_by(&job, map))) {
            Ok(map) => self.seen.publish(map),
            Err(_) => self.begun = Some(job),
        }
    }

    /// Looks at the map, unless it is the one that was looked at last. A registry that does not answer is
    /// asked again in the next round.
    fn look(&mut self, registry: &mut dyn Registry) {
        let Ok(Some(found)) = registry.load(MAP_KEY) else { return };
        if found.revision == self.looked_at {
            return;
        }
        self.looked_at = found.revision;
        if let Some(map) = SlotMap::decode(&found.value).filter(|map| map.shards() == self.shards) {
            self.seen.publish(Arc::new(map));
        }
    }
}

/// The map after a job; `None` if that changes nothing.
fn changed_by(job: &Job, map: &SlotMap) -> Option<SlotMap> {
    match job {
        Job::Look => None,
        Job::End { number, reason } if reason.is_empty() => map.done(*number),
        Job::End { number, reason } => map.given_up(*number, reason),
        Job::Ready { number, shard } => map.part_ready(*number, *shard),
    }
}

#[cfg(test)]
mod tests {
    use farcall_replica::MemoryRegistry;

    use super::*;

    const RANGE: SlotRange = SlotRange { first: 0, last: 9 };

    #[test]
    fn a_primary_that_begins_ends_the_moves_of_its_shard() {
        let mut registry = MemoryRegistry::default();
        let number = begin_move(&mut registry, 2, (RANGE, 0, 1)).expect("it answers");
        let map = settle(&mut registry, (1, 2)).expect("it answers");
        assert!(map.moves().is_empty() && map.owner(0) == 0);
        assert_eq!(map.ended(number).map(|ended| &*ended.reason), Some("shard 1 has a new primary"));
        let late = change(&mut registry, 2, |map| Ok(map.done(number))).expect("it answers");
        assert_eq!(late, map, "the source is too late");
        assert!(matches!(
            settle(&mut registry, (0, 3)),
            Err(KeeperError::OtherShards { found: 2, shards: 3 })
        ));
    }

    #[test]
    fn what_a_silent_registry_was_asked_for_is_known_once_it_answers() {
        let mut registry = MemoryRegistry::default();
        let number = begin_move(&mut registry, 2, (RANGE, 0, 1)).expect("it answers");
        let (map, _) = load_map(&mut registry, 2).expect("it answers");
        let keeper = Keeper::start(Box::new(registry.clone()), &map).expect("a thread");
        registry.set_silent(true);
        keeper.done(number);
        assert_eq!(keeper.version(), map.version(), "nobody knows");
        registry.set_silent(false);
        while keeper.version() == map.version() {
            thread::yield_now();
        }
        assert_eq!(keeper.map().owner(0), 1);
    }
}
