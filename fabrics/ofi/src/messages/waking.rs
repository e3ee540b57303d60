//! What wakes an endpoint that sleeps.
//!
//! A provider may have a descriptor that becomes readable when something is complete. Some have none. Others
//! have one that stays readable though nothing is complete, such as `net` of libfabric 1.17, so that a sleep
//! would end as soon as it began and a core would be busy with it. With those an endpoint naps.

use core::time::Duration;
use std::os::fd::RawFd;

use crate::libfabric::Endpoint;
use farcall_base::Instant;
use farcall_driver::wait_readable;

/// The time between two looks of an endpoint that naps.
const NAP: Duration = Duration::from_micros(50);

/// This many times in a row the descriptor is believed although nothing was complete.
const EMPTY_WAKES_MAX: u32 = 8;

/// How an endpoint that is about to sleep is woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sleep {
    /// By its descriptor.
    #[default]
    Descriptor,
    /// By the clock.
    Naps,
    /// Not at all: there is something to do.
    MustNot,
}

/// How an endpoint is woken, and how far its descriptor can be trusted.
#[derive(Debug, Default)]
pub struct Waking {
    sleep: Sleep,
    /// How often in a row the descriptor was readable although nothing was complete.
    empty_wakes: u32,
}

impl Waking {
    /// Something was complete.
    #[inline]
    pub fn note_completion(&mut self) {
        self.empty_wakes = 0;
    }

    /// The endpoint is about to sleep; `wakes` unless what it waits for makes nothing readable.
    pub fn prepare(&mut self, endpoint: &mut Endpoint, wakes: bool) {
        let Some(descriptor) = endpoint.descriptor() else { return self.sleep = Sleep::Naps };
        let may_sleep = endpoint.prepare_wait();
        let is_readable = wait_readable(&[descriptor], Duration::ZERO);
        self.empty_wakes = if is_readable { self.empty_wakes.saturating_add(1) } else { 0 };
        self.sleep = if !self.is_trusted() {
            Sleep::Naps
        } else if !may_sleep {
            Sleep::MustNot
        } else if wakes {
            Sleep::Descriptor
        } else {
            Sleep::Naps
        };
    }

    /// It does not sleep any more.
    pub fn finish(&mut self) {
        self.sleep = Sleep::default();
    }

    /// When it must look again at the latest.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        match self.sleep {
            Sleep::Descriptor => None,
            Sleep::Naps => Some(now + NAP),
            Sleep::MustNot => Some(Instant::ZERO),
        }
    }

    /// What becomes readable when something is complete.
    pub fn descriptor(&self, endpoint: &Endpoint) -> Option<RawFd> {
        endpoint.descriptor().filter(|_| self.is_trusted())
    }

    fn is_trusted(&self) -> bool {
        self.empty_wakes <= EMPTY_WAKES_MAX
    }
}
