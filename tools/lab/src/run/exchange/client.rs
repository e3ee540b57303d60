//! The closed loop of a client: a fixed number of calls in flight, each completion starting the next.

use core::time::Duration;

use farcall::{CallError, Clock, Context, Endpoint, Event, Instant, Outcome, Peer};

use super::requests::{Requests, Stream};
use super::{Exchange, Job, Timing};
use crate::statistics::histogram::LatencyHistogram;
use crate::statistics::warmup::{Warmup, WarmupDetector};

/// While calls are not timed, the clock is read, and it is asked whether a call was the last, once for this
/// many completions.
const LOOK_EVERY: u64 = 256;

/// With fewer calls there is not even a median, so that slow ones may take longer than asked for, up to a
/// limit.
const CALLS_MIN: u64 = 5;
const MORE_TIME_MAX: Duration = Duration::from_secs(5);

/// The longest warm-up, however slow the calls are.
const WARMUP_MAX: Duration = Duration::from_secs(1);

/// Why a client could not finish its calls.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// A call failed.
    #[error("a call failed: {0}")]
    Call(#[from] CallError),
    /// A response was not what was asked for.
    #[error("a response had the wrong length, or an object was not there")]
    WrongAnswer,
}

/// What a run of calls was.
pub(super) struct Run {
    pub(super) calls: u64,
    pub(super) begun: Instant,
    pub(super) ended: Instant,
    pub(super) latencies: LatencyHistogram,
}

/// Calls until latencies are steady, and at least as often as the exchange asks for.
pub(super) fn warm_up(
    endpoint: &Endpoint,
    peers: &[Peer],
    job: &Job,
    rank: u32,
) -> Result<Warmup, ClientError> {
    let mut detector = WarmupDetector::new();
    let mut outcome = None;
    let begin = endpoint.clock().now();
    // Calls are timed here in any case: there is nothing else to tell whether they are steady.
    let requests = Requests::new(&job.exchange, peers, Stream::warming_up(rank));
    let closed_loop = ClosedLoop::new(&job.exchange, requests, Timing::EachCall, endpoint.clock());
    closed_loop.run(endpoint, job.shares_cores, |calls, now, nanos| {
        outcome = outcome.or_else(|| nanos.and_then(|nanos| detector.observe(nanos)));
        (outcome.is_some() && calls >= job.exchange.warmup_calls) || now - begin >= WARMUP_MAX
    })?;
    Ok(outcome.unwrap_or(Warmup { samples: 0, steady: false }))
}

/// Makes the calls that count.
pub(super) fn measure(endpoint: &Endpoint, peers: &[Peer], job: &Job, rank: u32) -> Result<Run, ClientError> {
    let mut latencies = Latencies::new();
    let requests = Requests::new(&job.exchange, peers, Stream::measured(rank));
    let begun = endpoint.clock().now();
    let end = begun + job.exchange.lasting;
    let last_end = end + MORE_TIME_MAX;
    let closed_loop = ClosedLoop::new(&job.exchange, requests, job.exchange.timing, endpoint.clock());
    let (calls, ended) = closed_loop.run(endpoint, job.shares_cores, |calls, now, nanos| {
        if let Some(nanos) = nanos {
            latencies.record(nanos);
        }
        calls >= job.exchange.calls || now >= end && (calls >= CALLS_MIN || now >= last_end)
    })?;
    Ok(Run { calls, begun, ended, latencies: latencies.into_histogram() })
}

/// Keeps latencies as they come and counts them later: the histogram would cost some nanoseconds of each
/// round trip.
struct Latencies {
    recent: Vec<u32>,
    kept: usize,
    histogram: LatencyHistogram,
}

/// Latencies that are kept before they are counted.
const RECENT_MAX: usize = 1 << 20;

impl Latencies {
    fn new() -> Self {
        // Written once here, so that no page fault falls into the measurement.
        Self { recent: vec![1; RECENT_MAX], kept: 0, histogram: LatencyHistogram::new() }
    }

    #[inline]
    fn record(&mut self, nanos: u64) {
        self.recent[self.kept] = u32::try_from(nanos).unwrap_or(u32::MAX);
        self.kept += 1;
        if self.kept == RECENT_MAX {
            self.count();
        }
    }

    #[cold]
    fn count(&mut self) {
        self.recent[..self.kept].iter().for_each(|&nanos| self.histogram.record(nanos.into()));
        self.kept = 0;
    }

    fn into_histogram(mut self) -> LatencyHistogram {
        self.count();
        self.histogram
    }
}

/// The state of a run of calls. Slots are the tokens of its calls: a slot has one call in flight at a time.
///
/// A process runs it in a loop of its own; on a simulated host each turn is one of the simulation's.
pub(super) struct ClosedLoop {
    requests: Requests,
    timing: Timing,
    clock: Clock,
    now: Instant,
    /// When each slot's call began.
    began: Vec<Instant>,
    calls: u64,
    /// The number of calls after which to look at the clock, while calls are not timed, and the number that
    /// is wanted.
    next_look: u64,
    calls_max: u64,
    /// When the last call that counts was complete.
    ended: Option<Instant>,
    failure: Option<ClientError>,
}

impl ClosedLoop {
    /// The loop of an exchange, before its first call.
    pub(super) fn new(exchange: &Exchange, requests: Requests, timing: Timing, clock: Clock) -> Self {
        let now = clock.now();
        Self {
            requests,
            timing,
            clock,
            now,
            began: vec![now; exchange.in_flight],
            calls: 0,
            next_look: LOOK_EVERY.min(exchange.calls),
            calls_max: exchange.calls,
            ended: None,
            failure: None,
        }
    }

    /// Calls until `is_last` says so of a completion: it gets the number of calls completed, the time, and
    /// the latency when calls are timed; else it is not asked of every completion. Returns the number of
    /// calls and when the last of them was complete. `yields` when others need this core while there is
    /// nothing to do.
    fn run(
        mut self,
        endpoint: &Endpoint,
        yields: bool,
        mut is_last: impl FnMut(u64, Instant, Option<u64>) -> bool,
    ) -> Result<(u64, Instant), ClientError> {
        self.start(endpoint)?;
        while !Self::is_over(endpoint) {
            let done = self.turn(endpoint, &mut is_last);
            if yields && done == 0 {
                std::thread::yield_now();
            }
        }
        self.end()
    }

    /// Makes the first call of each slot.
    pub(super) fn start(&mut self, endpoint: &Endpoint) -> Result<(), ClientError> {
        for slot in 0..self.began.len() {
            self.now = self.clock.now();
            self.began[slot] = self.now;
            let (peer, service, request) = self.requests.next(|bytes| endpoint.loan(bytes));
            endpoint.call(peer, service, request).post(slot as u64)?;
        }
        Ok(())
    }

    /// One poll: takes completions and makes the calls that follow them. Returns how much there was to do.
    #[inline]
    pub(super) fn turn(
        &mut self,
        endpoint: &Endpoint,
        is_last: &mut impl FnMut(u64, Instant, Option<u64>) -> bool,
    ) -> usize {
        endpoint.poll(|context, event| {
            if let Event::Completed { token, outcome } = event {
                self.complete(context, token as usize, outcome, is_last);
            }
        })
    }

    /// Whether no call is in flight any more. Calls that are in flight when the last one completes are waited
    /// for; each ends by its deadline at the latest.
    pub(super) fn is_over(endpoint: &Endpoint) -> bool {
        endpoint.calls_in_flight() == 0
    }

    /// The number of calls and when the last of them was complete.
    pub(super) fn end(self) -> Result<(u64, Instant), ClientError> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok((self.calls, self.ended.unwrap_or(self.now))),
        }
    }

    #[inline]
    fn complete(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        outcome: &Outcome<'_>,
        is_last: &mut impl FnMut(u64, Instant, Option<u64>) -> bool,
    ) {
        if self.ended.is_some() || self.failure.is_some() {
            return;
        }
        match outcome {
            Ok(answer) if self.requests.accept(answer) => {}
            Ok(_) => return self.failure = Some(ClientError::WrongAnswer),
            Err(error) => return self.failure = Some(error.clone().into()),
        }
        self.calls += 1;
        if self.is_over_with(slot, is_last) {
            return self.ended = Some(self.now);
        }
        let (peer, service, request) = self.requests.next(|bytes| context.loan(bytes));
        if let Err(error) = context.call(peer, service, request).post(slot as u64) {
            self.failure = Some(error.into());
        }
    }

    /// Reads the clock if it is time to, and asks whether this call was the last.
    #[inline]
    fn is_over_with(
        &mut self,
        slot: usize,
        is_last: &mut impl FnMut(u64, Instant, Option<u64>) -> bool,
    ) -> bool {
        match self.timing {
            Timing::EachCall => {
                self.now = self.clock.now();
                let nanos = self.now.as_nanos() - self.began[slot].as_nanos();
                self.began[slot] = self.now;
                is_last(self.calls, self.now, Some(nanos))
            }
            Timing::Window if self.calls < self.next_look => false,
            Timing::Window => {
                self.now = self.clock.now();
                self.next_look = self.calls_max.min(self.calls + LOOK_EVERY);
                is_last(self.calls, self.now, None)
            }
        }
    }
}
