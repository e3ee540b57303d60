//! A shard that two threads use, one at a time: its daemon, and the front for Redis clients.
//!
//! The lock is taken for a turn's requests or for a batch of commands. Whoever holds it looks now and then
//! whether the other one waits, and then makes way: the standard lock alone would let a busy thread take it
//! again and again.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::Shard;
use crate::resp::unix_ms;

/// Looks at whether the other thread has the shard by now, before its processor is yielded to it.
const SPINS: u32 = 4096;

/// Tries before a thread asks the kernel to wait. A turn is shorter than that.
const TRIES: u32 = 256;

/// A shard and its lock.
#[derive(Debug)]
pub struct SharedShard {
    shard: Mutex<Shard>,
    /// Threads that wait for it.
    waiting: AtomicU32,
    /// How many times it was waited for and given.
    given: AtomicU32,
}

impl SharedShard {
    /// Shares a shard.
    ///
    /// # Panics
    /// When it has durable tables.
    pub fn new(shard: Shard) -> Self {
        assert!(!shard.has_log(), "commands are answered before anything is flushed");
        Self { shard: Mutex::new(shard), waiting: AtomicU32::new(0), given: AtomicU32::new(0) }
    }

    /// The shard, once the other thread makes way.
    ///
    /// # Panics
    /// When a thread panicked with the shard: what it left may be half changed.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, Shard> {
        match self.shard.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::WouldBlock) => self.wait(),
            Err(TryLockError::Poisoned(_)) => panic!("{POISONED}"),
        }
    }

    /// Whether the other thread waits.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Lets the other thread have the shard, if it waits, and takes it back.
    #[inline]
    pub fn make_way<'a>(&'a self, guard: MutexGuard<'a, Shard>) -> MutexGuard<'a, Shard> {
        if !self.is_wanted() {
            return guard;
        }
        self.release(guard);
        self.lock()
    }

    /// Releases the shard, and lets the other thread have it if it waits.
    pub fn release(&self, guard: MutexGuard<'_, Shard>) {
        let given = self.given.load(Ordering::Relaxed);
        drop(guard);
        let is_waiting = || self.is_wanted() && self.given.load(Ordering::Relaxed) == given;
        let mut spins = 0;
        while is_waiting() && spins < SPINS {
            spin_loop();
            spins += 1;
        }
        if is_waiting() {
            std::thread::yield_now();
        }
    }

    fn wait(&self) -> MutexGuard<'_, Shard> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut tried = None;
        for _ in 0..TRIES {
            if let Ok(guard) = self.shard.try_lock() {
                tried = Some(guard);
                break;
            }
            spin_loop();
        }
        let guard = tried.unwrap_or_else(|| self.shard.lock().expect(POISONED));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.given.fetch_add(1, Ordering::Relaxed);
        guard
    }
}

/// Objects that have expired and that a turn removes.
const EXPIRED_PER_TURN: usize = 16;

/// Tells a store the time, if anything in it expires; says whether anything does.
#[inline]
fn set_clock(shard: &mut Shard) -> bool {
    let expires = shard.store().next_deadline().is_some();
    if expires {
        shard.store_mut().set_clock(unix_ms());
    }
    expires
}

const POISONED: &str = "no thread panicked with the shard";

/// The shard of a daemon: its own, or one that it shares.
pub(crate) enum Held<'s> {
    Own(Box<Shard>),
    Shared { shared: &'s SharedShard, guard: Option<MutexGuard<'s, Shard>> },
}

impl Held<'_> {
    /// The shard; a shared one is held from now on.
    #[inline]
    pub fn shard(&mut self) -> &mut Shard {
        match self {
            Self::Own(shard) => shard,
            Self::Shared { shared, guard } => guard.get_or_insert_with(|| {
                let mut shard = shared.lock();
                set_clock(&mut shard);
                shard
            }),
        }
    }

    /// Whether the shard has a log of durable tables. One that is shared has none: commands of Redis clients
    /// are answered before anything is flushed.
    #[inline]
    pub fn has_log(&self) -> bool {
        matches!(self, Self::Own(shard) if shard.has_log())
    }

    /// Whether writes wait for the disk.
    pub fn is_flushing(&self) -> bool {
        matches!(self, Self::Own(shard) if shard.is_flushing())
    }

    /// A turn begins: what has expired is not there for it. A shared shard is told when it is taken.
    #[inline]
    pub fn begin_turn(&mut self) {
        if let Self::Own(shard) = self
            && set_clock(shard)
        {
            shard.store_mut().expire(EXPIRED_PER_TURN);
        }
    }

    /// Releases a shared shard.
    #[inline]
    pub fn release(&mut self) {
        if let Self::Shared { shared, guard } = self
            && let Some(guard) = guard.take()
        {
            shared.release(guard);
        }
    }
}
