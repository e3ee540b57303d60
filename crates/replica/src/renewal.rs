//! A claim that is renewed while its log is brought back: that may take longer than the lease of a recovery,
//! and another process that waits would begin all over.

use core::time::Duration;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use farcall_base::Instant;

use crate::mirror::Mirror;
use crate::record::Record;
use crate::registry::{Compared, Registry, RegistryWorker};
use crate::takeover::Claimed;

/// A claim is renewed when this part of its lease is over.
const RENEWED_PART: u32 = 3;

/// The time between two looks whether a renewal is due.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The renewals of a claim.
#[derive(Debug)]
pub struct Renewal {
    claimed: Claimed,
    /// When the first attempt began whose outcome is not known.
    unknown_since: Option<Instant>,
    /// Another process has the claim, or the record is gone.
    is_lost: bool,
}

impl Renewal {
    /// Of a claim that was just made.
    pub fn new(claimed: Claimed) -> Self {
        Self { claimed, unknown_since: None, is_lost: false }
    }

    /// The claim as it was renewed last.
    pub fn claimed(self) -> Claimed {
        self.claimed
    }

    /// Renews the claim if that is due. `clock` says the time.
    pub fn turn(&mut self, registry: &mut dyn Registry, clock: &dyn Fn() -> Instant) {
        let now = clock();
        let Claimed { record, revision, set_at, .. } = &self.claimed;
        if self.is_lost || now < *set_at + record.lease / RENEWED_PART {
            return;
        }
        let next = Record { beat: record.beat + 1, ..record.clone() };
        let key = Record::key(record.log.shard);
        let Ok(compared) = registry.compare_and_set(&key, *revision, &next.encode()) else {
            self.unknown_since.get_or_insert(now);
            return;
        };
        match compared {
            Compared::Set(revision) => self.renewed(next, revision, now),
            Compared::Other(found) => {
                let found = found.and_then(|found| Some((found.revision, Record::decode(&found.value)?)));
                match found {
                    // An attempt whose answer was lost, the first one for all that is known.
                    Some((revision, found)) if found.incarnation == next.incarnation => {
                        let begun = self.unknown_since.unwrap_or(self.claimed.set_at);
                        self.renewed(found, revision, begun);
                    }
                    _ => self.is_lost = true,
                }
            }
        }
    }

    fn renewed(&mut self, record: Record, revision: u64, set_at: Instant) {
        let before = self.claimed.before;
        self.claimed = Claimed { record, revision, set_at, before };
        self.unknown_since = None;
    }
}

/// What the thread of a [`Keeper`] is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Renew,
    Rest,
    End,
}

#[derive(Debug)]
struct Shared {
    order: Mutex<Order>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread gives back.
type Kept = (Box<dyn Registry>, Renewal);

/// Renews a claim in a thread of its own.
#[derive(Debug)]
pub struct Keeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Kept>>,
}

impl Keeper {
    /// Starts the thread, which ends with this. `clock` says the time, as that of the claim did.
    pub fn start(
        mut registry: Box<dyn Registry>,
        claimed: Claimed,
        clock: impl Fn() -> Instant + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared { order: Mutex::new(Order::Renew), changed: Condvar::new() });
        let mut renewal = Renewal::new(claimed);
        let thread = thread::Builder::new().name("farcall-claim".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                loop {
                    let is_renewing = match *shared.lock() {
                        Order::Renew => true,
                        Order::Rest => false,
                        Order::End => return (registry, renewal),
                    };
                    if is_renewing {
                        renewal.turn(&mut *registry, &clock);
                    }
                    let order = shared.lock();
                    if *order != Order::End {
                        let waited = shared.changed.wait_timeout(order, LOOK_EVERY);
                        drop(waited.unwrap_or_else(PoisonError::into_inner));
                    }
                }
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Whether the claim is renewed from now on. While nothing goes on it is not: another process may have,
    /// or reach, what this one waits for.
    pub fn set_renewing(&self, renews: bool) {
        self.order(if renews { Order::Renew } else { Order::Rest });
    }

    /// Whether it is.
    pub fn is_renewing(&self) -> bool {
        *self.shared.lock() == Order::Renew
    }

    /// Ends the thread; gives the registry, and the claim as it was renewed last.
    fn end(mut self) -> (Box<dyn Registry>, Claimed) {
        self.order(Order::End);
        let thread = self.thread.take().expect("it ends once");
        let (registry, renewal) = thread.join().expect("the thread does not panic");
        (registry, renewal.claimed())
    }

    /// Has a mirror renew the claim from now on, which has had no turn; gives the thread that asks the
    /// registry for it.
    pub fn hand_to(self, mirror: &Mirror) -> io::Result<RegistryWorker> {
        let (registry, claimed) = self.end();
        mirror.renewed(&claimed);
        RegistryWorker::start(registry)
    }

    fn order(&self, order: Order) {
        *self.shared.lock() = order;
        self.shared.changed.notify_one();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.order(Order::End);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::message::LogId;
    use crate::record::BackupEntry;
    use crate::registry::{MemoryRegistry, RegistryError, Versioned};
    use crate::takeover::{Candidate, Claim};

    const LEASE: Duration = Duration::from_millis(300);

    fn candidate(incarnation: u64) -> Candidate {
        Candidate::new(Claim {
            log: LogId { store: 9, shard: 0 },
            shards: 1,
            primary: format!("primary:{incarnation}"),
            incarnation,
            lease: LEASE,
            wanted: 1,
            flushed: false,
        })
    }

    /// A registry, what time it is, and the claim of the first process.
    fn claimed() -> (MemoryRegistry, Arc<AtomicU64>, Claimed) {
        let (mut registry, now) = (MemoryRegistry::default(), Arc::new(AtomicU64::new(1)));
        let claimed = candidate(1).try_claim(&mut registry, &clock(&now));
        (registry, now, claimed.expect("it answers").expect("nobody has it"))
    }

    fn clock(now: &Arc<AtomicU64>) -> impl Fn() -> Instant + Send + 'static {
        let now = Arc::clone(now);
        move || Instant::from_nanos(now.load(Ordering::Relaxed))
    }

    fn pass(now: &AtomicU64, time: Duration) {
        now.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    #[test]
    fn a_claim_lasts_as_long_as_it_is_renewed() {
        let (mut registry, now, claimed) = claimed();
        let (clock, mut other) = (clock(&now), candidate(2));
        let mut renewal = Renewal::new(claimed);
        let mut attempt = |registry: &mut MemoryRegistry, renewal: Option<&mut Renewal>| {
            pass(&now, LEASE);
            if let Some(renewal) = renewal {
                renewal.turn(registry, &clock);
            }
            other.try_claim(registry, &clock).expect("it answers").is_some()
        };
        // Ten leases are what a claim has that is not renewed.
        assert!((0..100).all(|_| !attempt(&mut registry, Some(&mut renewal))), "it is renewed");
        assert!((0..100).any(|_| attempt(&mut registry, None)), "it is renewed no more");
        pass(&now, LEASE);
        renewal.turn(&mut registry, &clock);
        assert!(renewal.is_lost);
        let beat = |registry: &mut MemoryRegistry| {
            let found = registry.load(&Record::key(0)).expect("it answers").expect("it is there");
            Record::decode(&found.value).expect("a record").incarnation
        };
        assert_eq!(beat(&mut registry), 2, "the other has it");
    }

    /// Does what it is asked for, and loses an answer.
    struct Loses(MemoryRegistry, bool);

    impl Registry for Loses {
        fn load(&mut self, key: &str) -> Result<Option<Versioned>, RegistryError> {
            self.0.load(key)
        }

        fn compare_and_set(&mut self, key: &str, of: u64, value: &[u8]) -> Result<Compared, RegistryError> {
            let done = self.0.compare_and_set(key, of, value);
            if core::mem::take(&mut self.1) {
                let (place, reason) = ("memory".to_owned(), "its answer was lost".to_owned());
                return Err(RegistryError { place, reason });
            }
            done
        }

        fn backups(&mut self) -> Result<Vec<BackupEntry>, RegistryError> {
            self.0.backups()
        }

        fn has_ended(&mut self, incarnation: u64) -> bool {
            self.0.has_ended(incarnation)
        }
    }

    #[test]
    fn a_lease_counts_from_the_attempt_that_was_done_and_not_from_the_one_that_found_out() {
        let (registry, now, claimed) = claimed();
        let clock = clock(&now);
        let (mut registry, mut renewal) = (Loses(registry, true), Renewal::new(claimed));
        pass(&now, 4 * LEASE);
        let done_at = clock();
        renewal.turn(&mut registry, &clock);
        pass(&now, LEASE);
        renewal.turn(&mut registry, &clock);
        let claimed = renewal.claimed();
        assert_eq!((claimed.set_at, claimed.record.beat), (done_at, 2));
        let found = registry.load(&Record::key(0)).expect("it answers").expect("it is there");
        assert_eq!(claimed.revision, found.revision);
    }

    #[test]
    fn a_thread_renews_until_it_is_to_rest_and_gives_back_what_it_had() {
        let (registry, now, claimed) = claimed();
        let keeper = Keeper::start(Box::new(registry.clone()), claimed, clock(&now)).expect("a thread");
        let revision = || {
            let found = registry.clone().load(&Record::key(0)).expect("it answers");
            found.expect("it is there").revision
        };
        while revision() < 4 {
            pass(&now, LEASE);
            thread::yield_now();
        }
        keeper.set_renewing(false);
        keeper.set_renewing(true);
        let before = revision();
        while revision() == before {
            pass(&now, LEASE);
            thread::yield_now();
        }
        let (_, claimed) = keeper.end();
        assert_eq!(claimed.revision, revision());
    }
}
