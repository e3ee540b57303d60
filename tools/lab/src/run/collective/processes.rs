//! Operations between processes of this machine, over real transports.

use core::time::Duration;
use std::sync::Arc;

use farcall::bootstrap::Bootstrap;
use farcall::{Endpoint, Node, TransportKind};
use farcall_limit::{CoresError, allowed_cores};
use serde::{Deserialize, Serialize};

use super::root::OPERATION_MAX;
use super::{CollectivePlan, Member, OperationTime, Root};
use crate::explain::trace::HostTrace;
use crate::run::exchange::{
    ExchangeError, OVERHEAD_MAX, OwnCounters, Placement, Report, Seats, Workers, pass, report_on,
    run_workers, settings_of,
};
use crate::run::losses::Losses;
use crate::run::program::Program;
use crate::run::world::{World, clock_offset_nanos};

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
    plan: CollectivePlan,
    transport: String,
    /// Assignments to parameters, as given on the command line.
    assignments: Vec<String>,
}

/// What came of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProcessesRun {
    /// The operations that count.
    pub times: Vec<OperationTime>,
    /// Operations that were done again, because a rank learnt of them too late.
    pub repeated: u32,
    /// What fell meanwhile, warm-up included.
    pub losses: Losses,
    /// What the endpoints recorded, when chunks were traced.
    pub traces: Vec<HostTrace>,
}

/// Runs a plan with a process of this program for each rank: at the ranks of a launcher, or on the cores that
/// this one may use, in turn.
pub fn run(
    plan: &CollectivePlan,
    transport: TransportKind,
    assignments: &[String],
    world: Option<&Arc<World>>,
) -> Result<ProcessesRun, ProcessesError> {
    let job =
        Job { plan: plan.clone(), transport: transport.name().to_owned(), assignments: assignments.to_vec() };
    let ranks = plan.ranks as usize;
    let placement = world.map(|world| Placement::at_ranks(Arc::clone(world)));
    let seats = match &placement {
        Some(placement) => placement.in_turn(ranks).map_err(ExchangeError::from)?,
        None => {
            let cores = allowed_cores()?;
            Seats::Cores(cores.iter().copied().cycle().take(ranks).collect(), cores.len())
        }
    };
    let reports: Vec<ProcessesRun> = run_workers(&Workers {
        program: Program::THIS,
        command: RANK_COMMAND,
        job: serde_json::to_string(&job).expect("a job is JSON"),
        transport: transport.name(),
        servers: 0,
        backups: 0,
        seats,
        within: longest(plan) + OVERHEAD_MAX * 2,
    })?;
    let mut run = ProcessesRun::default();
    for report in reports {
        // Only rank 0 has operations to report.
        run.times.extend(report.times);
        run.repeated += report.repeated;
        run.losses = run.losses.and(report.losses);
        run.traces.extend(report.traces);
    }
    Ok(run)
}

/// The longest that the operations can take.
fn longest(plan: &CollectivePlan) -> Duration {
    OPERATION_MAX.saturating_mul(plan.operations.saturating_add(plan.warmup))
}

/// Is one rank, in the place that the environment gives; returns the line to print.
pub fn be_rank(job: &str) -> String {
    report_on(job, take_part)
}

/// Rank 0 reports the operations, and all ranks what they traced.
fn take_part(job: &Job) -> Report<ProcessesRun> {
    let plan = &job.plan;
    let bootstrap = Bootstrap::from_env().map_err(sentence)?;
    let settings = settings_of(&job.assignments, plan.seed, bootstrap.rank)?;
    let node = Node::new(bootstrap, settings);
    let endpoint = node.endpoint(&job.transport).map_err(sentence)?;
    node.barrier("endpoints", OVERHEAD_MAX).map_err(sentence)?;
    endpoint.tracer().switch(plan.trace);
    let before = OwnCounters::read();
    let member = Member::new(node.rank(), endpoint, plan, true).with_clock_offset(clock_offset_nanos());
    if node.rank() == 0 { lead(member, plan, &node, &before) } else { serve(member, &node, &before) }
}

fn lead(member: Member, plan: &CollectivePlan, node: &Node, before: &OwnCounters) -> Report<ProcessesRun> {
    let mut root = Root::new(member, plan.clone());
    while !root.is_done() {
        if root.turn() == 0 {
            // There may be more ranks than cores.
            std::thread::yield_now();
        }
    }
    let times = root.outcome()?.to_vec();
    let repeated = root.repeated();
    // An endpoint takes its counters with it.
    let losses = Losses::of(&OwnCounters::read().since(before));
    let traces = HostTrace::end(node.rank(), root.endpoint()).into_iter().collect();
    root.end().map_err(sentence)?;
    leave(node, root.endpoint())?;
    Ok(ProcessesRun { times, repeated, losses, traces })
}

/// Does what rank 0 orders, until it orders nothing any more.
fn serve(mut member: Member, node: &Node, before: &OwnCounters) -> Report<ProcessesRun> {
    loop {
        if member.turn() == 0 {
            std::thread::yield_now();
        }
        if member.is_over() {
            let losses = Losses::of(&OwnCounters::read().since(before));
            // And if rank 0 was lost in the same turn, it had left.
            let traces = HostTrace::end(node.rank(), member.endpoint()).into_iter().collect();
            leave(node, member.endpoint())?;
            return Ok(ProcessesRun { losses, traces, ..ProcessesRun::default() });
        }
        if let Some(failure) = member.failure() {
            return Err(failure.to_string());
        }
    }
}

/// Waits for the others: with a rank that has left, the names of its calls are gone.
fn leave(node: &Node, endpoint: &Endpoint) -> Result<(), String> {
    // There may be more ranks than cores.
    pass(node, endpoint, "end", OVERHEAD_MAX, true)
}

fn sentence(error: impl core::fmt::Display) -> String {
    error.to_string()
}
