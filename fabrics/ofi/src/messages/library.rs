//! libfabric as a library of messages.

use core::time::Duration;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::time::Instant as WallTime;

use crate::libfabric::{Wanted, found};
use farcall_base::Instant;
use farcall_base::{Address, AddressError, Principal};
use farcall_driver::{Destination, Wait};
use farcall_transport::{Library, Outgoing, Presence, compose, split_composed};

use crate::messages::arrival::{Arrived, OfiArrival};
use crate::messages::endpoint::Ofi;

/// How often the completions are read at a time.
const READS_PER_PROGRESS: usize = 4;
/// How long an endpoint that is dropped waits for its last messages to leave.
const LINGER: Duration = Duration::from_millis(100);

impl Library for Ofi {
    type Arrival = OfiArrival;

    fn name(&self) -> &'static str {
        "ofi"
    }

    fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    fn address(&self) -> Address {
        self.address.clone()
    }

    fn resolve(&mut self, to: &Address) -> Result<Destination, AddressError> {
        self.peers.resolve(&mut self.endpoint, &self.provider, to)
    }

    /// What comes from the peer's former session is nobody's; it may have given it up.
    fn resolve_again(&mut self, to: &Address) -> Result<Destination, AddressError> {
        let to = self.resolve(to)?;
        if let Some(number) = self.peers.number(to) {
            self.fetches.disown(number);
        }
        Ok(to)
    }

    /// It proves nothing.
    fn principal(&self, _of: Destination) -> Principal {
        Principal::Unproven
    }

    fn forget(&mut self, to: Destination) {
        let Some(number) = self.peers.number(to) else { return };
        if self.peers.rest(&mut self.endpoint, to) {
            self.fetches.disown(number);
            return self.let_rest(to);
        }
        let may_stand_still = self.peers.is_reachable(to);
        self.give_up(to);
        if may_stand_still {
            self.fetches.disown_silent(&mut self.endpoint, number);
        } else {
            self.fetches.cancel_from(&mut self.endpoint, number);
        }
    }

    fn presume_dead(&mut self, to: Destination) {
        self.peers.set_silent(to);
    }

    #[inline]
    fn send(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        if payload.len() > self.eager_bytes {
            return self.send_long(to, head, payload);
        }
        let mut frame = core::mem::take(&mut self.frame);
        compose(&mut frame, head);
        frame.extend_from_slice(payload.as_slice());
        self.send_frame(to, &mut frame);
        self.frame = frame;
    }

    fn send_behind(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        self.send(to, head, payload);
    }

    #[inline]
    fn send_composed(&mut self, to: Destination, message: &mut Vec<u8>) {
        let (head, payload) = split_composed(message).expect("it was composed");
        if payload.len() <= self.eager_bytes {
            return self.send_frame(to, message);
        }
        self.send_long(to, head, Outgoing::Slice(payload));
        message.clear();
    }

    #[inline]
    fn progress(&mut self) -> usize {
        let mut total = 0;
        for _ in 0..READS_PER_PROGRESS {
            let done = &mut self.done;
            let count = self.endpoint.completions(|completion| done.push(completion));
            if count == 0 {
                break;
            }
            total += count;
            self.waking.note_completion();
            for place in 0..self.done.len() {
                self.settle(self.done[place]);
            }
            self.done.clear();
        }
        self.retry();
        total
    }

    #[inline]
    fn next_arrival(&mut self) -> Option<OfiArrival> {
        self.arrivals.pop_front()
    }

    #[inline]
    fn release(&mut self, arrival: OfiArrival) {
        if let Arrived::Frame { buffer, memory, .. } = arrival.0 {
            self.buffers.give_back(&mut self.endpoint, buffer, memory);
        }
    }

    fn next_loss(&mut self) -> Option<Destination> {
        loop {
            let lost = self.failed.pop()?;
            let (waiting, was_in_use) = self.peers.lose(&mut self.endpoint, lost);
            self.drop_waiting(waiting);
            if was_in_use {
                return Some(lost);
            }
        }
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        if self.failed.is_empty() { self.waking.next_deadline(now) } else { Some(Instant::ZERO) }
    }
}

impl Wait for Ofi {
    fn prepare_wait(&mut self) {
        // What is in flight to a destination wakes us when it has left, and then there is room for what
        // waits.
        let nothing_wakes = self.blocked.iter().any(|&to| !self.peers.any_posted(to));
        self.waking.prepare(&mut self.endpoint, !nothing_wakes);
    }

    fn finish_wait(&mut self) {
        self.waking.finish();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.waking.descriptor(&self.endpoint).into_iter().collect()
    }
}

/// The last messages, such as the good-bye, get a moment to leave.
impl Drop for Ofi {
    fn drop(&mut self) {
        let give_up_at = WallTime::now() + LINGER;
        while !(self.sends.is_empty() && self.fetches.is_empty()) && WallTime::now() < give_up_at {
            self.progress();
        }
        self.sends.leak();
    }
}

/// Whether libfabric is on this machine, in which version, and with which providers for this transport.
pub fn presence() -> Presence {
    static PRESENCE: OnceLock<Presence> = OnceLock::new();
    let look = || match found(Wanted::TaggedMessages) {
        Ok(found) => Presence::Here { found },
        Err(error) => Presence::Absent { why: error.to_string() },
    };
    PRESENCE.get_or_init(look).clone()
}
