//! A shard that two threads use, one at a time: its daemon, and the front for Redis clients.
//!
//! The lock is taken for a turn's requests or for a batch of commands. Whoever holds it looks now and then
//! whether the other one waits, and then makes way: the standard lock alone would let a busy thread take it
//! again and again.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, TryLockError};

use rustix::event::{EventfdFlags, eventfd};

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
    /// Its log has something to do, in a turn of the daemon.
    wants_log_turn: AtomicBool,
    /// What the daemon sleeps on, and the front, which wants to know what becomes of the log.
    daemon: Bell,
    front: Bell,
    front_waits: AtomicBool,
    /// Threads that wait for it.
    waiting: AtomicU32,
    /// How many times it was waited for and given.
    given: AtomicU32,
}

impl SharedShard {
    /// Shares a shard.
    pub fn new(shard: Shard) -> io::Result<Self> {
        Ok(Self {
            wants_log_turn: AtomicBool::new(shard.wants_log_turn()),
            shard: Mutex::new(shard),
            daemon: Bell::new()?,
            front: Bell::new()?,
            front_waits: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            given: AtomicU32::new(0),
        })
    }

    /// What the front sleeps on, beside its sockets.
    pub(crate) fn front(&self) -> &Bell {
        &self.front
    }

    /// Lets the daemon give the log a turn, if it wants one; for the front, which has the shard, and says
    /// whether it waits for what comes of it.
    pub(crate) fn pass_log_on(&self, shard: &Shard, waits: bool) {
        self.front_waits.store(waits, Ordering::Relaxed);
        if shard.wants_log_turn() {
            self.wants_log_turn.store(true, Ordering::Relaxed);
            self.daemon.ring();
        }
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

/// Wakes a thread that sleeps on a descriptor.
#[derive(Debug)]
pub(crate) struct Bell {
    descriptor: OwnedFd,
    is_rung: AtomicBool,
}

impl Bell {
    fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { descriptor, is_rung: AtomicBool::new(false) })
    }

    /// What can be read once it was rung.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// Wakes the thread, or lets it not fall asleep.
    pub fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            // A full counter wakes as well.
            let _woken = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// The thread is awake.
    #[inline]
    pub fn answer(&self) {
        if self.is_rung.load(Ordering::Relaxed) {
            let mut count = [0; size_of::<u64>()];
            let _nothing_there = rustix::io::read(&self.descriptor, &mut count);
            self.is_rung.store(false, Ordering::Release);
        }
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

    /// Whether the log of durable tables may have something to do.
    #[inline]
    pub fn wants_log_turn(&self) -> bool {
        match self {
            Self::Own(shard) => shard.has_log(),
            Self::Shared { shared, guard } => {
                guard.as_ref().is_some_and(|shard| shard.has_log())
                    || shared.wants_log_turn.load(Ordering::Relaxed)
            }
        }
    }

    /// After a turn of the log: what is left to do, and news for those that wait for it.
    #[inline]
    pub fn log_turned(&mut self, is_news: bool) {
        let Self::Shared { shared, guard: Some(shard) } = self else { return };
        shared.daemon.answer();
        shared.wants_log_turn.store(shard.wants_log_turn(), Ordering::Relaxed);
        if is_news && shared.front_waits.load(Ordering::Relaxed) {
            shared.front.ring();
        }
    }

    /// Whether writes wait for the disk.
    pub fn is_flushing(&self) -> bool {
        match self {
            Self::Own(shard) => shard.is_flushing(),
            Self::Shared { shared, .. } => shared.wants_log_turn.load(Ordering::Relaxed),
        }
    }

    /// What wakes the thread when the log has something to do, if another one shares the shard.
    pub fn waker(&self) -> Option<io::Result<OwnedFd>> {
        match self {
            Self::Own(_) => None,
            Self::Shared { shared, .. } => Some(shared.daemon.descriptor().try_clone()),
        }
    }

    /// A turn begins: what has expired is not there for it. A shared shard is told when it is taken.
    #[inline]
    pub fn begin_turn(&mut self) {
        if let Self::Own(shard) = self
            && set_clock(shard)
        {
            shard.expire(EXPIRED_PER_TURN);
        }
    }

    /// Releases a shared shard.
    #[inline]
    pub fn release(&mut self) {
        if let Self::Shared { shared, guard } = self
            && let Some(guard) = guard.take()
        {
            if guard.has_log() {
                shared.wants_log_turn.store(guard.wants_log_turn(), Ordering::Relaxed);
            }
            shared.release(guard);
        }
    }
}
