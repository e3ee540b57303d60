//! Operations between processes of this machine, over real transports.

use core::time::Duration;
use std::sync::Arc;

use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::{Node, TransportKind};
use farcall_limit::{CoresError, allowed_cores};
use serde::{Deserialize, Serialize};

use super::root::OPERATION_MAX;
use super::{Member, OperationTime, Plan, Root, Schedule};
use crate::exchange::{ExchangeError, OVERHEAD_MAX, Report, Workers, report_on, run_workers};

/// The argument that makes the program a rank; the next one is its job.
pub const RANK_COMMAND: &str = "collective-rank";

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum ProcessesError {
    /// There is no core for the ranks.
    #[error(transparent)]
    Cores(#[from] CoresError),
    /// A rank could not be started, or not do its part.
    #[error(transparent)]
    Ranks(#[from] ExchangeError),
}

/// What a rank is told.
#[derive(Serialize, Deserialize)]
struct Job {
    plan: Plan,
    transport: String,
    /// Assignments to parameters, as given on the command line.
    assignments: Vec<String>,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessesRun {
    /// The operations that count.
    pub times: Vec<OperationTime>,
    /// Operations that were done again, because a rank learnt of them too late.
    pub repeated: u32,
}

/// Runs a plan with a process of this program for each rank, on the cores that this one may use, in turn.
pub fn run(
    plan: &Plan,
    transport: TransportKind,
    assignments: &[String],
) -> Result<ProcessesRun, ProcessesError> {
    let job =
        Job { plan: plan.clone(), transport: transport.name().to_owned(), assignments: assignments.to_vec() };
    let cores = allowed_cores()?;
    let reports: Vec<Option<ProcessesRun>> = run_workers(&Workers {
        command: RANK_COMMAND,
        job: serde_json::to_string(&job).expect("a job is JSON"),
        transport: transport.name(),
        servers: 0,
        cores: cores.iter().copied().cycle().take(plan.ranks as usize).collect(),
        within: longest(plan) + OVERHEAD_MAX * 2,
    })?;
    Ok(reports.into_iter().flatten().next().expect("rank 0 reports the operations"))
}

/// The longest that the operations can take.
fn longest(plan: &Plan) -> Duration {
    OPERATION_MAX.saturating_mul(plan.operations.saturating_add(plan.warmup))
}

/// Is one rank, in the place that the environment gives; returns the line to print.
pub fn be_rank(job: &str) -> String {
    report_on(job, take_part)
}

/// Rank 0 reports the operations, the others nothing.
fn take_part(job: &Job) -> Report<Option<ProcessesRun>> {
    let plan = &job.plan;
    let settings = Settings::load(job.assignments.iter().cloned()).map_err(sentence)?;
    let node = Node::new(Bootstrap::from_env().map_err(sentence)?, settings);
    let endpoint = node.endpoint(&job.transport).map_err(sentence)?;
    node.barrier("endpoints", OVERHEAD_MAX).map_err(sentence)?;
    let schedule = Arc::new(Schedule::new(plan.collective, plan.ranks, plan.message_bytes));
    let member = Member::new(node.rank(), endpoint, schedule, plan.limits, true, plan.seed);
    if node.rank() == 0 { lead(member, plan).map(Some) } else { serve(member).map(|()| None) }
}

fn lead(member: Member, plan: &Plan) -> Report<ProcessesRun> {
    let mut root = Root::new(member, plan.clone());
    while !root.is_done() {
        if root.turn() == 0 {
            // There may be more ranks than cores.
            std::thread::yield_now();
        }
    }
    let times = root.outcome()?.to_vec();
    let repeated = root.repeated();
    root.end().map_err(sentence)?;
    Ok(ProcessesRun { times, repeated })
}

/// Does what rank 0 orders, until it orders nothing any more. What was answered in the last turn arrives although this
/// rank leaves.
fn serve(mut member: Member) -> Report<()> {
    loop {
        if member.turn() == 0 {
            std::thread::yield_now();
        }
        if member.is_over() {
            return Ok(()); // and if rank 0 was lost in the same turn, it had left
        }
        if let Some(failure) = member.failure() {
            return Err(failure.to_string());
        }
    }
}

fn sentence(error: impl core::fmt::Display) -> String {
    error.to_string()
}
