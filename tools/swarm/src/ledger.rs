//! What has happened to each call, as all hosts saw it, and the rules that are checked as it happens.
//!
//! A simulation runs in one thread; the lock is there because handlers and callbacks must be `Send`.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall::simulated::Fabric;
use farcall::{CallError, CallRefused, DownReason, Instant, TransportKind};

use crate::errands::ErrandBook;
use crate::excuse::{self, Pair, Span, since_beginning};
use crate::mail_book::MailBook;
use crate::operations::{Operation, Serving, Start};
use crate::payload::{self, Role};
use crate::scenario::Scenario;
use crate::trouble::{Trouble, TroubleKind};

/// What handlers refuse with whose own call had no answer.
pub const NO_FURTHER: u8 = 255;

/// How much later than its deadline a call may complete on a host that neither stands still nor is slow: the
/// packets and handlers that were in its queue before.
pub const LATENESS_MAX: Duration = Duration::from_millis(2);

/// How much earlier a call may time out: endpoints do not read the clock for each call.
const EARLINESS_MAX: Duration = Duration::from_micros(1);

/// Violations beyond these say nothing new.
const VIOLATIONS_MAX: usize = 20;

/// Where a call stands. Planned → Open → Answered, Failed, Refused or Lost; Open → Postponed → Open or Lost.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Planned,
    Open,
    /// It was one too many, and is made again: in flight for whoever waits for all of them.
    Postponed,
    Answered,
    Failed(CallError),
    /// It was not accepted: it must not run.
    Refused,
    /// Its caller crashed.
    Lost,
}

#[derive(Clone, Debug)]
struct Entry {
    stage: Stage,
    begun: Instant,
    runs: u32,
}

/// A host gave up a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Down {
    transport: TransportKind,
    pair: Pair,
}

/// What hosts have seen.
pub struct Ledger {
    pub scenario: Arc<Scenario>,
    /// Knows which packets found queues full.
    fabric: Fabric,
    /// The tagged messages.
    pub mail: MailBook,
    /// The errands.
    pub errands: ErrandBook,
    entries: Vec<Entry>,
    downs: Vec<Down>,
    violations: Vec<String>,
    open: usize,
}

/// The ledger as all hosts share it.
#[derive(Clone)]
pub struct SharedLedger(Arc<Mutex<Ledger>>);

impl SharedLedger {
    /// A ledger in which nothing has happened.
    pub fn new(scenario: Arc<Scenario>, fabric: Fabric) -> Self {
        let entry = Entry { stage: Stage::Planned, begun: Instant::ZERO, runs: 0 };
        let entries = vec![entry; scenario.operations.len()];
        let mail = MailBook::new(&scenario.mail);
        let errands = ErrandBook::new(&scenario.errands, scenario.hosts);
        Self(Arc::new(Mutex::new(Ledger {
            scenario,
            fabric,
            mail,
            errands,
            entries,
            downs: Vec::new(),
            violations: Vec::new(),
            open: 0,
        })))
    }

    /// The ledger. Not to be held while an endpoint is polled.
    pub fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// A call is about to be made.
    pub fn begin(&mut self, call: usize, now: Instant) {
        match &self.entries[call].stage {
            Stage::Postponed => {}
            Stage::Planned => self.open += 1,
            stage => {
                let what = format!("call {call} is made, but was {stage:?} before");
                self.violation(now, what);
                self.open += 1;
            }
        }
        let entry = &mut self.entries[call];
        (entry.stage, entry.begun) = (Stage::Open, now);
    }

    /// A call was not accepted, and is not in flight.
    pub fn refused(&mut self, call: usize, error: &CallError, now: Instant) {
        let Operation { request_bytes, .. } = self.scenario.operations[call];
        let too_long = request_bytes > self.scenario.tuning.message_bytes_max;
        let right = match error {
            CallError::NotSent(CallRefused::TooLong { .. }) => too_long,
            CallError::NotSent(CallRefused::TooManyCalls { .. } | CallRefused::Down) => !too_long,
            CallError::PeerDown(_) => true,
            _ => false,
        };
        if !right {
            self.violation(now, format!("call {call} of {request_bytes} bytes was refused: {error}"));
        }
        self.leave(call, Stage::Refused);
    }

    /// A call cannot be made now, and may be made later.
    pub fn postponed(&mut self, call: usize) {
        self.entries[call].stage = Stage::Postponed;
    }

    /// There is nobody to be called.
    pub fn nobody(&mut self, call: usize, error: &dyn core::fmt::Display, now: Instant) {
        let peer = self.scenario.operations[call].callee;
        if !excuse::restart(&self.scenario, peer, now) {
            self.violation(now, format!("call {call}: host {peer} is not known: {error}"));
        }
        self.leave(call, Stage::Refused);
    }

    /// A handler got a request.
    pub fn run(&mut self, call: usize, host: u32, from: u32, request: &[u8], now: Instant) {
        let operation = self.scenario.operations[call].clone();
        self.entries[call].runs += 1;
        let (runs, stage) = (self.entries[call].runs, self.entries[call].stage.clone());
        if runs > 1 {
            self.violation(now, format!("the request of call {call} ran {runs} times"));
        }
        if matches!(stage, Stage::Planned | Stage::Postponed | Stage::Refused) {
            self.violation(now, format!("the request of call {call} ran, which was {stage:?}"));
        }
        if (operation.caller, operation.callee) != (from, host) {
            let Operation { caller, callee, .. } = operation;
            self.violation(
                now,
                format!(
                    "the request of call {call} from {caller} to {callee} ran on {host} as one from {from}"
                ),
            );
        }
        if let Some(how) = payload::difference(call, Role::Request, operation.request_bytes, request) {
            self.violation(now, format!("the request of call {call} arrived changed: {how}"));
        }
    }

    /// A call has completed.
    pub fn end(&mut self, call: usize, result: Result<&[u8], &CallError>, now: Instant) {
        if self.entries[call].stage != Stage::Open {
            let stage = &self.entries[call].stage;
            return self.violation(now, format!("call {call} completed, but was {stage:?} before"));
        }
        self.check_time(call, result, now);
        match result {
            Ok(answer) => self.check_answer(call, answer, now),
            Err(error) => self.check_error(call, error, now),
        }
        let stage = match result {
            Ok(_) => Stage::Answered,
            Err(error) => Stage::Failed(error.clone()),
        };
        self.leave(call, stage);
    }

    /// A host has lost a peer, on its endpoint of that transport.
    pub fn peer_down(
        &mut self,
        transport: TransportKind,
        observer: u32,
        peer: u32,
        reason: &DownReason,
        now: Instant,
    ) {
        let down = Down { transport, pair: Pair { observer, peer } };
        if !self.is_excused(down, reason, now) {
            let what = format!("host {observer} lost host {peer} over {transport} without cause: {reason}");
            self.violation(now, what);
        }
        self.downs.push(down);
    }

    fn is_excused(&self, down: Down, reason: &DownReason, now: Instant) -> bool {
        let (scenario, Down { transport, pair }) = (&self.scenario, down);
        let other = Pair { observer: pair.peer, peer: pair.observer };
        let crowded_out = || self.crowded_out(transport, pair, now);
        match reason {
            DownReason::Dead => excuse::death(scenario, transport, pair, now) || crowded_out(),
            DownReason::Unreachable => excuse::unreachable(scenario, transport, pair, now) || crowded_out(),
            DownReason::Restarted => excuse::restart(scenario, pair.peer, now),
            // Who never heard that its offer was accepted forgets the session without a word.
            DownReason::Closed => {
                let given_up = Down { transport, pair: other };
                transport == scenario.transport && excuse::farewell(scenario, pair, now)
                    || self.downs.contains(&given_up)
                    || excuse::silence(scenario, transport, pair, now)
                    || excuse::silence(scenario, transport, other, now)
                    || crowded_out()
            }
            // What waits for a session may be more than the peer turns out to take.
            DownReason::Refused { .. } => !scenario.tuning.of_hosts.is_empty(),
            // The simulated fabric loses packets and hosts, and never a connection by itself.
            DownReason::Violation { .. } | DownReason::Fabric { .. } | DownReason::NotPolled => false,
            // A session does not end so; nor so without a policy.
            DownReason::Moved | DownReason::NotAllowed => false,
        }
    }

    /// Whether other traffic has crowded out as much between two hosts as makes one of them dead: then the
    /// fabric was overloaded, and nobody is to blame.
    fn crowded_out(&self, transport: TransportKind, pair: Pair, now: Instant) -> bool {
        let window = excuse::silence_window(&self.scenario, pair.observer, now);
        let (from, until) = (Instant::ZERO + window.from, Instant::ZERO + window.until);
        let lost = self.fabric.overflows_between((pair.observer, pair.peer), from, until);
        lost >= excuse::losses_of_death(transport)
    }

    /// Whether queues have overflown at all.
    pub fn is_overloaded(&self) -> bool {
        let totals = self.fabric.totals();
        totals.drops() > totals.drops_fault + totals.drops_partition + totals.drops_host_down
    }

    /// A host's life is over, and with it its calls.
    pub fn life_ended(&mut self, host: u32) {
        for call in 0..self.entries.len() {
            let is_in_flight = matches!(self.entries[call].stage, Stage::Open | Stage::Postponed);
            if self.scenario.operations[call].caller == host && is_in_flight {
                self.leave(call, Stage::Lost);
            }
        }
    }

    /// How many calls, sends, receives and errands are in flight.
    pub fn open(&self) -> usize {
        self.open + self.mail.open() + self.errands.open()
    }

    /// Whether no host has crashed, lost a peer or parted with one.
    pub fn nobody_was_lost(&self) -> bool {
        let crash = |trouble: &Trouble| matches!(trouble.kind, TroubleKind::Crash(_));
        self.downs.is_empty()
            && self.scenario.farewells.is_empty()
            && !self.scenario.faults.troubles.iter().any(crash)
    }

    /// Whether a call was made.
    pub fn was_begun(&self, call: usize) -> bool {
        self.entries[call].stage != Stage::Planned
    }

    /// How many calls were answered.
    pub fn answered(&self) -> usize {
        self.count(|stage| *stage == Stage::Answered)
    }

    /// How many calls failed in whatever way.
    pub fn failed(&self) -> usize {
        self.count(|stage| matches!(stage, Stage::Failed(_)))
    }

    /// How many calls were not accepted.
    pub fn refusals(&self) -> usize {
        self.count(|stage| *stage == Stage::Refused)
    }

    /// How many calls had no caller any more, or never had one.
    pub fn lost(&self) -> usize {
        self.count(|stage| matches!(stage, Stage::Lost | Stage::Planned))
    }

    fn count(&self, which: impl Fn(&Stage) -> bool) -> usize {
        self.entries.iter().filter(|entry| which(&entry.stage)).count()
    }

    /// How many reports of lost peers there were.
    pub fn downs(&self) -> usize {
        self.downs.len()
    }

    /// Notes that a rule is broken.
    pub fn violation(&mut self, now: Instant, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            let at_us = now.as_nanos() as f64 / 1e3;
            self.violations.push(format!("at {at_us:.3} us: {what}"));
        }
    }

    /// The rules that were broken.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Every call that was made before `limit` is over.
    pub fn check_none_open(&mut self, limit: Instant, now: Instant) {
        for call in 0..self.entries.len() {
            if self.entries[call].stage == Stage::Open && self.entries[call].begun < limit {
                let begun = since_beginning(self.entries[call].begun);
                self.violation(now, format!("call {call} of {begun:?} never completed"));
            }
        }
    }

    /// Every probe was answered.
    pub fn check_probes(&mut self, now: Instant) {
        for call in 0..self.entries.len() {
            let stage = self.entries[call].stage.clone();
            if self.scenario.operations[call].start == Start::Probe && stage != Stage::Answered {
                self.violation(now, format!("call {call}, a probe after all faults, was {stage:?}"));
            }
        }
    }

    fn leave(&mut self, call: usize, stage: Stage) {
        self.entries[call].stage = stage;
        self.open -= 1;
    }

    /// Never before the deadline, if that is why, and not long after it in any case.
    fn check_time(&mut self, call: usize, result: Result<&[u8], &CallError>, now: Instant) {
        let operation = &self.scenario.operations[call];
        let (begun, caller, within) = (self.entries[call].begun, operation.caller, operation.within);
        let lasted = now - begun;
        if result == Err(&CallError::TimedOut) && lasted + EARLINESS_MAX < within {
            self.violation(now, format!("call {call} timed out after {lasted:?} instead of {within:?}"));
        }
        let span = Span { from: since_beginning(begun), until: since_beginning(now) };
        if lasted > within + LATENESS_MAX + excuse::delay(&self.scenario, caller, span) {
            self.violation(now, format!("call {call} of {within:?} completed after {lasted:?}: {result:?}"));
        }
        self.check_death(call, span, now);
    }

    /// A call to a host that has crashed does not wait longer than the peer timeout.
    fn check_death(&mut self, call: usize, span: Span, now: Instant) {
        let Operation { caller, callee, .. } = self.scenario.operations[call];
        let unheard = excuse::unheard(&self.scenario, caller, callee, span);
        if unheard > excuse::patience(&self.scenario) + excuse::delay(&self.scenario, caller, span) {
            let what =
                format!("call {call} waited for {unheard:?} for host {callee}, which could not be heard");
            self.violation(now, what);
        }
    }

    fn check_answer(&mut self, call: usize, answer: &[u8], now: Instant) {
        let Operation { serving, answer_bytes, .. } = self.scenario.operations[call];
        let right = match serving {
            Serving::Reply | Serving::ReplyLater(_) => true,
            Serving::CallOn(next) => self.entries[next].stage == Stage::Answered,
            _ => false,
        };
        if !right {
            self.violation(now, format!("call {call} was answered, although its server does {serving:?}"));
        }
        if self.entries[call].runs != 1 {
            let runs = self.entries[call].runs;
            self.violation(now, format!("call {call} was answered, although it ran {runs} times"));
        }
        if let Some(how) = payload::difference(call, Role::Answer, answer_bytes, answer) {
            self.violation(now, format!("the answer of call {call} arrived changed: {how}"));
        }
    }

    fn check_error(&mut self, call: usize, error: &CallError, now: Instant) {
        let serving = self.scenario.operations[call].serving;
        let next_failed = |next: usize| !matches!(self.entries[next].stage, Stage::Answered | Stage::Open);
        let right = match (error, serving) {
            (CallError::TimedOut | CallError::PeerDown(_), _) => true,
            (CallError::Cancelled, _) => self.scenario.operations[call].cancel_after.is_some(),
            (CallError::UnknownService, Serving::Unserved) => true,
            (CallError::Abandoned, Serving::Abandon | Serving::AbandonLater(_) | Serving::CallOn(_)) => true,
            (CallError::AnswerTooLong, Serving::ReplyTooLong) => true,
            (CallError::Refused { code, .. }, Serving::Refuse(given) | Serving::RefuseLater(_, given)) => {
                *code == given
            }
            (CallError::Refused { code, .. }, Serving::CallOn(next)) => {
                *code == NO_FURTHER && next_failed(next)
            }
            _ => false,
        };
        if !right {
            self.violation(now, format!("call {call} failed, although its server does {serving:?}: {error}"));
        }
        let ran = self.entries[call].runs > 0;
        let must_have_run =
            matches!(error, CallError::Refused { .. } | CallError::AnswerTooLong | CallError::Abandoned);
        if must_have_run && !ran {
            self.violation(now, format!("call {call} did not run and has an outcome as if it had: {error}"));
        }
    }
}

#[cfg(test)]
mod tests;
