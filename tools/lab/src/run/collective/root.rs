//! Rank 0: starts operations everywhere at one instant, and takes the time of the slowest rank.
//!
//! The instant lies a little ahead, so that all ranks have learnt of it; the clocks of the ranks are one
//! clock, of the machine or of the simulation, or are known to be so much ahead of each other. An operation
//! of which some rank learnt too late does not count and is done again.

use core::time::Duration;

use farcall::{CallError, Clock, Endpoint, Instant, Outcome};
use serde::{Deserialize, Serialize};

use super::member::{Member, MemberError};
use super::orders::{Finish, Times};
use super::{CollectivePlan, END, START};

/// How far ahead the first start lies: what it takes to tell a few ranks, and for each more of them.
const LEAD: Duration = Duration::from_micros(100);
const LEAD_PER_RANK: Duration = Duration::from_micros(2);

/// The longest lead that is tried.
const LEAD_MAX: Duration = Duration::from_secs(1);

/// The latest that ranks report the end of a short operation.
const REPORT_MAX: Duration = Duration::from_millis(10);

/// The longest that an operation may last.
pub(super) const OPERATION_MAX: Duration = Duration::from_secs(100);

/// One operation that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationTime {
    /// From the common start until the last rank has all that it expects, in nanoseconds.
    pub nanos: u64,
}

/// Rank 0 and its part in the operations.
pub struct Root {
    member: Member,
    clock: Clock,
    plan: CollectivePlan,
    lead: Duration,
    /// The longest that an operation has lasted so far.
    slowest_operation: Duration,
    current: Option<Current>,
    warmup_left: u32,
    times: Vec<OperationTime>,
    repeated: u32,
    failure: Option<String>,
}

/// The operation in flight.
struct Current {
    start: Instant,
    slowest: Instant,
    late: bool,
    ranks_open: u32,
}

impl Current {
    fn finished(&mut self, finish: Finish) {
        self.slowest = self.slowest.max(finish.at);
        self.late |= finish.late;
        self.ranks_open -= 1;
    }
}

impl Root {
    /// Rank 0 of a plan.
    pub fn new(member: Member, plan: CollectivePlan) -> Self {
        let clock = member.endpoint().clock();
        let lead = LEAD + LEAD_PER_RANK * plan.ranks;
        let warmup_left = plan.warmup;
        let (times, current, failure) = (Vec::new(), None, None);
        let slowest_operation = Duration::ZERO;
        Self {
            member,
            clock,
            plan,
            lead,
            slowest_operation,
            current,
            warmup_left,
            times,
            repeated: 0,
            failure,
        }
    }

    /// Whether all operations are done, or none can be done any more.
    pub fn is_done(&self) -> bool {
        self.failure.is_some() || self.times.len() as u32 == self.plan.operations
    }

    /// Operations that are done, those of the warm-up too.
    pub(super) fn operations_done(&self) -> u32 {
        self.plan.warmup - self.warmup_left + self.times.len() as u32
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        self.member.endpoint()
    }

    /// Its member, when there are no more operations.
    pub(super) fn into_member(self) -> Member {
        self.member
    }

    /// The operations that count, or why there are no more of them.
    pub fn outcome(&self) -> Result<&[OperationTime], String> {
        match &self.failure {
            None => Ok(&self.times),
            Some(failure) => Err(failure.clone()),
        }
    }

    /// Operations that some rank learnt of too late, and that were done again.
    pub fn repeated(&self) -> u32 {
        self.repeated
    }

    /// Lets the other ranks go.
    pub fn end(&mut self) -> Result<(), MemberError> {
        for rank in 1..self.plan.ranks {
            let peer = self.member.peer(rank)?;
            let answer = self.member.endpoint().call(peer, END, &[]).wait();
            answer.map_err(|error| MemberError::Order { error })?;
        }
        Ok(())
    }

    /// When a turn must come though nothing arrives.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.member.next_deadline()
    }

    /// One turn of rank 0; returns how much there was to do.
    pub fn turn(&mut self) -> usize {
        let mut done = 0;
        if self.current.is_none() && !self.is_done() {
            if let Err(error) = self.start() {
                self.failure = Some(error.to_string());
            }
            done += 1;
        }
        let Self { member, current, failure, .. } = self;
        let offset = member.clock_offset_nanos();
        done += member.turn_with(|token, outcome| {
            let rank = token as u32;
            match (finish_of(outcome), current.as_mut()) {
                (Ok(finish), Some(current)) => current.finished(finish.shifted(offset)),
                (Ok(_), None) => {}
                (Err(error), _) => *failure = Some(format!("rank {rank} did not finish: {error}")),
            }
        });
        if let Some(error) = self.member.failure() {
            self.failure = Some(error.to_string());
        }
        if let (Some(finish), Some(current)) = (self.member.take_finish(), &mut self.current) {
            current.finished(finish);
        }
        if let Some(current) = self.current.take_if(|current| current.ranks_open == 0) {
            self.finish(&current);
            done += 1;
        }
        done
    }

    fn start(&mut self) -> Result<(), MemberError> {
        let start = self.clock.now() + self.lead;
        let offset = self.member.clock_offset_nanos();
        let times = Times { start, report: start + self.slowest_operation * 3 / 2 };
        self.current = Some(Current { start, slowest: start, late: false, ranks_open: self.plan.ranks });
        // Traces are of chunks: an order lasts as long as the operation. A call that is not seen to begin is
        // in none.
        let tracer = self.member.endpoint().tracer();
        tracer.switch(false);
        for rank in 1..self.plan.ranks {
            let peer = self.member.peer(rank)?;
            let order = times.shifted(offset.saturating_neg()).to_bytes();
            let call = self.member.endpoint().call(peer, START, &order).within(OPERATION_MAX);
            call.post(rank.into()).map_err(|error| MemberError::Order { error })?;
        }
        tracer.switch(self.plan.trace);
        self.member.order(times);
        Ok(())
    }

    fn finish(&mut self, current: &Current) {
        let lasted = current.slowest - current.start;
        self.slowest_operation = self.slowest_operation.max(lasted.min(REPORT_MAX));
        if current.late && self.lead < LEAD_MAX {
            self.lead *= 2;
            self.repeated += 1;
        } else if self.warmup_left > 0 {
            self.warmup_left -= 1;
        } else {
            self.times.push(OperationTime { nanos: lasted.as_nanos() as u64 });
        }
    }
}

fn finish_of(outcome: &Outcome<'_>) -> Result<Finish, CallError> {
    let answer = outcome.as_ref().map_err(Clone::clone)?;
    Finish::from_bytes(answer).ok_or(CallError::Abandoned)
}
