//! The load of one sender: messages that start when they are due, whatever has become of those before them.

use std::sync::Arc;

use farcall::{CallError, Clock, Endpoint, Event, Instant, Outcome, Peer};
use serde::{Deserialize, Serialize};

use super::arrivals::{Arrival, Arrivals, Drawn};
use super::recorded::{Recorded, Replayed};
use super::{CALL_WITHIN, MESSAGE, OUTSTANDING_MAX, Plan, SenderError};
use farcall_base::seed_of_stream;

/// What a sender has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sent {
    /// Of each message of the window that is complete: its class, and the time since it was due in
    /// nanoseconds.
    pub(super) samples: Vec<(u16, u64)>,
    /// Bytes of all messages, those outside of the window too.
    pub(super) bytes: u64,
    /// All messages, those outside of the window too.
    pub(super) messages: u64,
    /// When the last of them was complete, in nanoseconds since the load began.
    pub(super) last_nanos: u64,
    /// Bytes of the messages that were due within the window.
    pub(super) bytes_due: u64,
    /// Bytes of the messages that were complete within the window, whenever they were due.
    pub(super) bytes_complete: u64,
    /// Messages that were due while [`OUTSTANDING_MAX`] others were in flight.
    pub(super) waited: u64,
    /// The most that were in flight at a time.
    pub(super) outstanding_peak: u64,
}

/// A message in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    class: usize,
    due: Instant,
}

/// A sender.
pub(super) struct OpenLoop {
    plan: Arc<Plan>,
    peers: Vec<Peer>,
    /// The start of it is every message.
    payload: Arc<[u8]>,
    clock: Clock,
    arrivals: Arrivals,
    next: Arrival,
    /// Whether the next message has been counted as waiting.
    next_waits: bool,
    begun: Instant,
    window: core::ops::Range<Instant>,
    load_end: Instant,
    /// By token.
    in_flight: Vec<InFlight>,
    free: Vec<usize>,
    sent: Sent,
    failure: Option<SenderError>,
}

impl OpenLoop {
    /// The load of `rank`, from now on: of `file` if the plan replays one.
    pub(super) fn new(
        plan: &Arc<Plan>,
        file: Option<&Arc<Recorded>>,
        rank: u32,
        peers: Vec<Peer>,
        payload: &Arc<[u8]>,
        clock: Clock,
    ) -> Self {
        let begun = clock.now();
        let seed = seed_of_stream(plan.seed, u64::from(rank));
        let mut arrivals = match (file, &plan.replay) {
            (Some(file), Some(replay)) => {
                Arrivals::Replayed(Replayed::new(file, replay.speed, plan.roles, rank, seed, begun))
            }
            _ => Arrivals::Drawn(Drawn::new(&plan.classes, peers.len(), plan.mean_gap_nanos, seed, begun)),
        };
        let next = arrivals.next();
        Self {
            plan: Arc::clone(plan),
            peers,
            payload: Arc::clone(payload),
            clock,
            arrivals,
            next,
            next_waits: false,
            begun,
            window: begun + plan.warmup()..begun + plan.window_end(),
            load_end: begun + plan.load_end(),
            in_flight: Vec::new(),
            free: Vec::new(),
            sent: Sent::default(),
            failure: None,
        }
    }

    /// Sends what is due, and polls once. Returns how much there was to do.
    pub(super) fn turn(&mut self, endpoint: &Endpoint) -> Result<usize, SenderError> {
        let started = self.start_due(endpoint)?;
        let done = endpoint.poll(|_, event| {
            if let Event::Completed { token, outcome } = event {
                self.complete(token as usize, outcome);
            }
        });
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(started + done),
        }
    }

    /// Whether the load has ended and every message is complete.
    pub(super) fn is_over(&self) -> bool {
        self.next.at >= self.load_end && self.outstanding() == 0
    }

    /// When the next message is due; `None` when it cannot start before another one is complete.
    pub(super) fn next_due(&self) -> Option<Instant> {
        (self.next.at < self.load_end && self.outstanding() < OUTSTANDING_MAX).then_some(self.next.at)
    }

    /// What was found.
    pub(super) fn into_sent(self) -> Sent {
        self.sent
    }

    fn outstanding(&self) -> usize {
        self.in_flight.len() - self.free.len()
    }

    fn start_due(&mut self, endpoint: &Endpoint) -> Result<usize, CallError> {
        let mut started = 0;
        while self.next.at < self.load_end && self.next.at <= self.clock.now() {
            if self.outstanding() >= OUTSTANDING_MAX {
                self.sent.waited += u64::from(!self.next_waits);
                self.next_waits = true;
                break;
            }
            let Arrival { at, class, receiver } = self.next;
            let token = self.token_for(InFlight { class, due: at });
            let payload = &self.payload[..self.plan.classes[class].bytes as usize];
            endpoint.call(self.peers[receiver], MESSAGE, payload).within(CALL_WITHIN).post(token)?;
            self.next = self.arrivals.next();
            self.next_waits = false;
            started += 1;
        }
        self.sent.outstanding_peak = self.sent.outstanding_peak.max(self.outstanding() as u64);
        Ok(started)
    }

    fn token_for(&mut self, message: InFlight) -> u64 {
        let token = match self.free.pop() {
            Some(token) => {
                self.in_flight[token] = message;
                token
            }
            None => {
                self.in_flight.push(message);
                self.in_flight.len() - 1
            }
        };
        token as u64
    }

    fn complete(&mut self, token: usize, outcome: &Outcome<'_>) {
        self.free.push(token);
        let InFlight { class, due } = self.in_flight[token];
        match outcome {
            Ok(answer) if answer.len() == self.plan.answer_bytes(class) => {}
            Ok(_) => return self.failure = Some(SenderError::WrongLength),
            Err(error) => return self.failure = Some(error.clone().into()),
        }
        let (now, bytes) = (self.clock.now(), u64::from(self.plan.classes[class].bytes));
        self.sent.bytes += bytes;
        self.sent.messages += 1;
        self.sent.last_nanos = now.since(self.begun).as_nanos() as u64;
        if self.window.contains(&due) {
            self.sent.bytes_due += bytes;
            self.sent.samples.push((class as u16, now.since(due).as_nanos() as u64));
        }
        if self.window.contains(&now) {
            self.sent.bytes_complete += bytes;
        }
    }
}
