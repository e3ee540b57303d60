//! How other threads reach an endpoint that sleeps.
//!
//! An endpoint has one owner, and what other threads have for it lies in queues that its owner looks at. The
//! doorbell is for the owner that is asleep: ringing it costs a store and a load while the owner is awake,
//! and one system call if it sleeps. An endpoint that has nothing to do with other threads does not listen to
//! it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Wakes the owner of an endpoint.
#[derive(Default)]
pub struct Doorbell {
    /// Other threads may have something for the endpoint.
    in_use: AtomicBool,
    /// The owner sleeps or is about to.
    asleep: AtomicBool,
    /// Rung since the owner looked last.
    rung: AtomicBool,
    /// `None` inside if the system had none.
    descriptor: OnceLock<Option<OwnedFd>>,
}

/// Whether the owner may sleep, and what wakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// No other thread rings.
    Unused,
    /// It sleeps until this can be read.
    Listening(RawFd),
    /// It was rung, or nothing could wake the owner: there may be work.
    Busy,
}

impl Doorbell {
    /// Makes the descriptor with its endpoint, so that what an endpoint holds does not grow later. A
    /// simulated host never sleeps and needs none.
    pub fn open(&self) {
        self.descriptor();
    }

    fn descriptor(&self) -> Option<&OwnedFd> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        self.descriptor.get_or_init(|| eventfd(0, flags).ok()).as_ref()
    }

    /// From now on other threads may ring.
    pub fn use_it(&self) {
        self.in_use.store(true, Ordering::Relaxed);
    }

    /// Something was put into a queue of the endpoint.
    ///
    /// The store and the load are in one order with those of [`Doorbell::prepare`]: the owner sees that it
    /// was rung, or this thread sees that the owner sleeps.
    pub fn ring(&self) {
        self.rung.store(true, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(Some(descriptor)) = self.descriptor.get()
        {
            // Only a counter that is full refuses, and that one wakes as well.
            let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
        }
    }

    /// The owner is about to sleep.
    pub fn prepare(&self) -> Readiness {
        if !self.in_use.load(Ordering::Relaxed) {
            return Readiness::Unused;
        }
        let Some(descriptor) = self.descriptor() else { return Readiness::Busy };
        self.asleep.store(true, Ordering::SeqCst);
        if self.rung.swap(false, Ordering::SeqCst) {
            self.finish();
            return Readiness::Busy;
        }
        Readiness::Listening(descriptor.as_fd().as_raw_fd())
    }

    /// The owner is awake.
    pub fn finish(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            return;
        }
        if let Some(Some(descriptor)) = self.descriptor.get() {
            // Where the thread that rang has not written yet, the next sleep is a short one.
            let _ = rustix::io::read(descriptor, &mut [0; 8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use farcall_driver::wait_readable;

    use super::*;

    fn descriptor_of(bell: &Doorbell) -> RawFd {
        match bell.prepare() {
            Readiness::Listening(descriptor) => descriptor,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_bell_that_nobody_may_ring_is_not_listened_to() {
        let bell = Doorbell::default();
        bell.open();
        assert_eq!(bell.prepare(), Readiness::Unused);
    }

    #[test]
    fn what_was_rung_before_a_sleep_prevents_it_once() {
        let bell = Doorbell::default();
        bell.use_it();
        bell.ring();
        assert_eq!(bell.prepare(), Readiness::Busy);
        descriptor_of(&bell);
    }

    #[test]
    fn ringing_wakes_a_sleeping_owner_and_leaves_nothing_to_be_read() {
        let bell = Doorbell::default();
        bell.use_it();
        let descriptor = descriptor_of(&bell);
        assert!(!wait_readable(&[descriptor], Duration::ZERO));
        bell.ring();
        bell.ring();
        assert!(wait_readable(&[descriptor], Duration::ZERO));
        bell.finish();
        assert!(!wait_readable(&[descriptor], Duration::ZERO));
        assert_eq!(bell.prepare(), Readiness::Busy, "it was rung");
    }
}
