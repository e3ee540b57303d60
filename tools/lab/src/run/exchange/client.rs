//! The closed loop of a client: a fixed number of calls in flight, each completion starting the next.

use core::time::Duration;

use farcall::{CallError, Clock, Context, Endpoint, Event, Instant, Outcome, Peer};

use super::requests::{Requests, Stream};
use super::{Exchange, Job, Timing};
use crate::statistics::batches::Batches;
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

/// How long a store may be too busy for requests, one after the other, before that ends the measurement.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// Why a client could not finish its calls.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// A call failed.
    #[error("a call failed: {0}")]
    Call(#[from] CallError),
    /// A response was not what was asked for.
    #[error("a response had the wrong length, or an object was not there")]
    WrongAnswer,
    /// The store took no request for [`BUSY_MAX`].
    #[error("too much waits at the store, for {} s; have fewer in flight", BUSY_MAX.as_secs())]
    StoreBusy,
}

/// What a run of calls was. Calls that began in the window count; those in flight at its end were waited for.
pub(super) struct Run {
    pub(super) begun: Instant,
    pub(super) end: End,
    pub(super) latencies: LatencyHistogram,
    pub(super) batches: Batches,
}

/// How a closed loop ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// Calls that began, all of which were completed.
    pub(super) calls: u64,
    /// When the window ended: when the first place was left empty.
    pub(super) window_end: Instant,
    /// Calls completed in the window.
    pub(super) completed: u64,
    /// When the last call was complete.
    pub(super) last: Instant,
}

/// Calls until latencies are steady, and at least as often as the exchange asks for. `meanwhile` is called in
/// each turn, with whether the turn found nothing to do.
pub(super) fn warm_up(
    endpoint: &Endpoint,
    peers: &[Peer],
    job: &Job,
    rank: u32,
    meanwhile: &mut impl FnMut(bool),
) -> Result<Warmup, ClientError> {
    let mut detector = WarmupDetector::new();
    let mut outcome = None;
    let begin = endpoint.clock().now();
    // Calls are timed here in any case: there is nothing else to tell whether they are steady.
    let requests = Requests::new(&job.exchange, peers, Stream::warming_up(rank));
    let closed_loop = ClosedLoop::new(&job.exchange, requests, Timing::EachCall, endpoint.clock());
    closed_loop.run(endpoint, meanwhile, |call, now| {
        outcome = outcome.or_else(|| call.nanos.and_then(|nanos| detector.observe(nanos)));
        (outcome.is_some() && call.completed >= job.exchange.warmup_calls) || now - begin >= WARMUP_MAX
    })?;
    Ok(outcome.unwrap_or(Warmup { samples: 0, steady: false }))
}

/// Makes the calls that count; `meanwhile` as in [`warm_up`].
pub(super) fn measure(
    endpoint: &Endpoint,
    peers: &[Peer],
    job: &Job,
    rank: u32,
    meanwhile: &mut impl FnMut(bool),
) -> Result<Run, ClientError> {
    let (mut latencies, mut batches) = (Latencies::new(), Batches::default());
    let requests = Requests::new(&job.exchange, peers, Stream::measured(rank));
    let begun = endpoint.clock().now();
    let end = begun + job.exchange.lasting;
    let last_end = end + MORE_TIME_MAX;
    let closed_loop = ClosedLoop::new(&job.exchange, requests, job.exchange.timing, endpoint.clock())
        .of_at_most(job.exchange.calls);
    let end = closed_loop.run(endpoint, meanwhile, |call, now| {
        if let Some(nanos) = call.nanos {
            latencies.record(nanos);
            batches.record(call.ordinal, nanos);
        }
        now >= end && (call.completed >= CALLS_MIN || now >= last_end)
    })?;
    Ok(Run { begun, end, latencies: latencies.into_histogram(), batches })
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
        let Ok(short) = u32::try_from(nanos) else { return self.histogram.record(nanos) };
        self.recent[self.kept] = short;
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

/// A call that is complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completed {
    /// How many are, with this one.
    pub(super) completed: u64,
    /// The number of calls that began before it; 0 while calls are not timed.
    pub(super) ordinal: u64,
    /// Its latency, when calls are timed.
    pub(super) nanos: Option<u64>,
}

/// One of the places for calls in flight.
#[derive(Clone, Copy)]
struct Place {
    began: Instant,
    ordinal: u64,
}

/// The state of a run of calls. Places are the tokens of its calls: a place has one call in flight at a time.
///
/// The window ends when a place is left empty for the first time. Calls that are in flight then are waited
/// for and count like all others that began in the window: they are the slow ones.
///
/// A process runs it in a loop of its own; on a simulated host each turn is one of the simulation's.
pub(super) struct ClosedLoop {
    requests: Requests,
    timing: Timing,
    clock: Clock,
    now: Instant,
    places: Vec<Place>,
    begun: u64,
    completed: u64,
    /// The number of calls after which to look at the clock, while calls are not timed.
    next_look: u64,
    calls_max: u64,
    /// The end of the window and the calls completed until then.
    window_end: Option<(Instant, u64)>,
    /// Since when the store has refused every request that was answered.
    busy_since: Option<Instant>,
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
            places: vec![Place { began: now, ordinal: 0 }; exchange.in_flight],
            begun: 0,
            completed: 0,
            next_look: LOOK_EVERY,
            calls_max: u64::MAX,
            window_end: None,
            busy_since: None,
            failure: None,
        }
    }

    /// The same with so many calls, but at least one in each place.
    pub(super) fn of_at_most(mut self, calls: u64) -> Self {
        self.calls_max = calls.max(self.places.len() as u64);
        self.next_look = LOOK_EVERY.min(self.calls_max);
        self
    }

    /// Calls until as many as wanted have begun, or `is_last` says so of a completion; while calls are not
    /// timed it is not asked of every one. It hears of all calls, also of those after the last.
    /// `meanwhile` is called in each turn, with whether the turn found nothing to do.
    fn run(
        mut self,
        endpoint: &Endpoint,
        meanwhile: &mut impl FnMut(bool),
        mut is_last: impl FnMut(Completed, Instant) -> bool,
    ) -> Result<End, ClientError> {
        self.start(endpoint)?;
        while !Self::is_over(endpoint) {
            let done = self.turn(endpoint, &mut is_last);
            meanwhile(done == 0);
        }
        self.end()
    }

    /// Makes the first call of each place.
    pub(super) fn start(&mut self, endpoint: &Endpoint) -> Result<(), ClientError> {
        for place in 0..self.places.len() {
            self.now = self.clock.now();
            self.begin(place);
            let (peer, service, request) = self.requests.next(|bytes| endpoint.loan(bytes));
            endpoint.call(peer, service, request).post(place as u64)?;
        }
        Ok(())
    }

    /// One poll: takes completions and makes the calls that follow them. Returns how much there was to do.
    #[inline]
    pub(super) fn turn(
        &mut self,
        endpoint: &Endpoint,
        is_last: &mut impl FnMut(Completed, Instant) -> bool,
    ) -> usize {
        endpoint.poll(|context, event| {
            if let Event::Completed { token, outcome } = event {
                self.complete(context, token as usize, outcome, is_last);
            }
        })
    }

    /// Whether no call is in flight any more. Each ends by its deadline at the latest.
    pub(super) fn is_over(endpoint: &Endpoint) -> bool {
        endpoint.calls_in_flight() == 0
    }

    /// How it ended.
    pub(super) fn end(self) -> Result<End, ClientError> {
        let last = if self.timing == Timing::EachCall { self.now } else { self.clock.now() };
        let (window_end, completed) = self.window_end.unwrap_or((last, self.completed));
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(End { calls: self.begun, window_end, completed, last }),
        }
    }

    #[inline]
    fn begin(&mut self, place: usize) {
        self.places[place] = Place { began: self.now, ordinal: self.begun };
        self.begun += 1;
    }

    #[inline]
    fn complete(
        &mut self,
        context: &mut Context<'_>,
        place: usize,
        outcome: &Outcome<'_>,
        is_last: &mut impl FnMut(Completed, Instant) -> bool,
    ) {
        if self.failure.is_some() {
            return;
        }
        match outcome {
            Ok(answer) if self.requests.accept(answer) => {}
            Ok(_) => return self.failure = Some(ClientError::WrongAnswer),
            Err(error) if self.requests.asks_again(error) => return self.ask_again(context, place),
            Err(error) => return self.failure = Some(error.clone().into()),
        }
        self.busy_since = None;
        self.completed += 1;
        let is_last = self.look_at(place, is_last);
        if self.window_end.is_some() {
            return;
        }
        if is_last || self.begun >= self.calls_max {
            let now = if self.timing == Timing::EachCall { self.now } else { self.clock.now() };
            return self.window_end = Some((now, self.completed));
        }
        self.begin(place);
        self.post_next(context, place);
    }

    #[inline]
    fn post_next(&mut self, context: &mut Context<'_>, place: usize) {
        let (peer, service, request) = self.requests.next(|bytes| context.loan(bytes));
        if let Err(error) = context.call(peer, service, request).post(place as u64) {
            self.failure = Some(error.into());
        }
    }

    /// Sends another request in a place whose own the store has refused because too much waits there. The
    /// call goes on: its latency is that of all its requests.
    fn ask_again(&mut self, context: &mut Context<'_>, place: usize) {
        let now = self.clock.now();
        if now - *self.busy_since.get_or_insert(now) >= BUSY_MAX {
            return self.failure = Some(ClientError::StoreBusy);
        }
        self.post_next(context, place);
    }

    /// Reads the clock if it is time to, and asks whether this call was the last.
    #[inline]
    fn look_at(&mut self, place: usize, is_last: &mut impl FnMut(Completed, Instant) -> bool) -> bool {
        let completed = self.completed;
        match self.timing {
            Timing::EachCall => {
                self.now = self.clock.now();
                let Place { began, ordinal } = self.places[place];
                let nanos = Some(self.now.as_nanos() - began.as_nanos());
                is_last(Completed { completed, ordinal, nanos }, self.now)
            }
            Timing::Window if completed < self.next_look => false,
            Timing::Window => {
                self.now = self.clock.now();
                self.next_look = completed + LOOK_EVERY;
                is_last(Completed { completed, ordinal: 0, nanos: None }, self.now)
            }
        }
    }
}
