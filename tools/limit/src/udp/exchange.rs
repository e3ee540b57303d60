//! The two loops of a datagram ping-pong.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use farcall_base::Instant;
use farcall_driver::clock::Clock;

use super::socket::Socket;
use super::train::Train;
use super::{UdpCalls, UdpPlan};
use crate::latency::Rounds;
use crate::{Effort, Latency, LimitError};

/// A datagram that is not here after this time is lost.
const SILENCE_MAX: Duration = Duration::from_millis(500);

/// While nothing arrives, the clock is read once for this many attempts.
const CLOCK_EVERY: u32 = 1024;

/// What both sides know before they start.
pub(super) struct Exchange {
    plan: UdpPlan,
    /// How many segments may be in flight: as many as the initiator's receive buffer holds.
    window_segments: usize,
    /// Set when the initiator has finished, one way or the other.
    finished: AtomicBool,
}

impl Exchange {
    /// Prepares the exchange of which `initiator` is the asking end.
    pub(super) fn new(plan: UdpPlan, initiator: &Socket) -> Result<Self, LimitError> {
        let window_segments = initiator.buffered_datagrams(plan.segment_bytes)?;
        Ok(Self { plan, window_segments, finished: AtomicBool::new(false) })
    }

    /// Sends requests and awaits their responses for a while.
    pub(super) fn initiate(&self, socket: &Socket, effort: Effort) -> Result<Latency, LimitError> {
        let outcome = self.ask(socket, effort);
        self.finished.store(true, Ordering::Release);
        outcome
    }

    /// Answers requests until the initiator has finished.
    pub(super) fn respond(&self, socket: &Socket) -> Result<(), LimitError> {
        let mut request = Train::new(self.plan.request_bytes, self.plan.segment_bytes);
        let mut response = Train::new(self.plan.response_bytes, self.plan.segment_bytes);
        while self.await_train(socket, &mut request)? {
            self.send_response(socket, &mut response)?;
        }
        Ok(())
    }

    fn ask(&self, socket: &Socket, effort: Effort) -> Result<Latency, LimitError> {
        let mut request = Train::new(self.plan.request_bytes, self.plan.segment_bytes);
        let mut response = Train::new(self.plan.response_bytes, self.plan.segment_bytes);
        let mut rounds = Rounds::new(effort);
        loop {
            self.send_segments(socket, &mut request, 0, 1)?;
            self.receive_response(socket, &mut response)?;
            if rounds.finished() {
                return Ok(rounds.into_latency());
            }
        }
    }

    /// Sends all segments, never more ahead of the initiator's progress than the window.
    fn send_response(&self, socket: &Socket, response: &mut Train) -> Result<(), LimitError> {
        let (segments, mut allowed) = (response.segments(), self.window_segments);
        let mut sent = 0;
        while sent < segments {
            if sent == allowed {
                if !self.await_progress(socket)? {
                    return Ok(());
                }
                allowed += self.progress_segments();
            }
            sent += self.send_segments(socket, response, sent, segments.min(allowed) - sent)?;
        }
        Ok(())
    }

    /// Receives all segments, and tells the responder whenever it may send more.
    fn receive_response(&self, socket: &Socket, response: &mut Train) -> Result<(), LimitError> {
        let segments = response.segments();
        let (mut received, mut told) = (0, 0);
        let mut patience = Patience::new();
        while received < segments {
            match self.receive_segments(socket, response, received)? {
                0 => patience.check()?,
                some => {
                    received += some;
                    patience = Patience::new();
                }
            }
            while told + self.progress_segments() <= received && told + self.window_segments < segments {
                socket.send(&[0])?;
                told += self.progress_segments();
            }
        }
        Ok(())
    }

    /// The initiator reports its progress once for this many segments.
    fn progress_segments(&self) -> usize {
        (self.window_segments / 2).max(1)
    }

    /// Waits for a message of one segment; `false` when the initiator has finished.
    fn await_train(&self, socket: &Socket, message: &mut Train) -> Result<bool, LimitError> {
        while self.receive_segments(socket, message, 0)? == 0 {
            if self.finished.load(Ordering::Acquire) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for a report of progress; `false` when the initiator has finished.
    fn await_progress(&self, socket: &Socket) -> Result<bool, LimitError> {
        while socket.receive(&mut [0])?.is_none() {
            if self.finished.load(Ordering::Acquire) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends at least one and at most `count` segments from the `first` on; returns how many.
    fn send_segments(
        &self,
        socket: &Socket,
        message: &mut Train,
        first: usize,
        count: usize,
    ) -> Result<usize, LimitError> {
        let count = match self.plan.calls {
            UdpCalls::Many => return message.send(socket, first, count),
            UdpCalls::Single => 1,
            UdpCalls::Offloaded => count.min(Socket::offloaded_segments_max(self.plan.segment_bytes)),
        };
        socket.send(message.bytes(first, count))?;
        Ok(count)
    }

    /// Receives segments from the `first` on, as many as one call gives; returns how many.
    fn receive_segments(
        &self,
        socket: &Socket,
        message: &mut Train,
        first: usize,
    ) -> Result<usize, LimitError> {
        if self.plan.calls == UdpCalls::Many {
            return message.receive(socket, first);
        }
        let room = message.bytes(first, message.segments() - first);
        let (room_bytes, segment_bytes) = (room.len(), self.plan.segment_bytes);
        match socket.receive(room)? {
            None => Ok(0),
            Some(bytes) if bytes == room_bytes || bytes % segment_bytes == 0 => {
                Ok(bytes.div_ceil(segment_bytes))
            }
            Some(_) => Err(LimitError::PacketsLost),
        }
    }
}

/// Gives up on datagrams that do not come.
struct Patience {
    attempts: u32,
    end: Option<Instant>,
}

impl Patience {
    fn new() -> Self {
        Self { attempts: 0, end: None }
    }

    /// Counts an attempt that found nothing; an error once [`SILENCE_MAX`] has passed without any.
    fn check(&mut self) -> Result<(), LimitError> {
        self.attempts += 1;
        if !self.attempts.is_multiple_of(CLOCK_EVERY) {
            return Ok(());
        }
        let now = Clock::new().now();
        if now > *self.end.get_or_insert(now + SILENCE_MAX) {
            return Err(LimitError::PacketsLost);
        }
        Ok(())
    }
}
