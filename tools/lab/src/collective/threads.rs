//! Operations between threads of this process, over real transports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use farcall::bootstrap::{Bootstrap, LocalRanks, random_incarnation};
use farcall::parameters::Settings;
use farcall::{EndpointError, Node, TransportKind};

use super::{Member, OperationTime, Plan, Root, Schedule};
use crate::trace::HostTrace;

/// The longest that ranks wait for each other before the first operation.
const GATHER_MAX: Duration = Duration::from_secs(30);

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum ThreadsError {
    /// A rank has no such endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The ranks did not come together.
    #[error("the ranks did not come together: {0}")]
    Gather(#[from] farcall::bootstrap::BarrierError),
    /// The system has no more threads.
    #[error("cannot start a thread for each rank: {0}")]
    Spawn(#[from] std::io::Error),
    /// A rank could not do its part.
    #[error("{0}")]
    Failed(String),
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct ThreadsRun {
    /// The operations that count.
    pub times: Vec<OperationTime>,
    /// Operations that were done again, because a rank learnt of them too late.
    pub repeated: u32,
    /// What the endpoints recorded, when chunks were traced.
    pub traces: Vec<HostTrace>,
}

/// Runs a plan with a thread for each rank.
pub fn run(plan: &Plan, transport: TransportKind, settings: &Settings) -> Result<ThreadsRun, ThreadsError> {
    let ranks = LocalRanks::new(plan.ranks);
    let schedule = Arc::new(Schedule::new(plan.collective, plan.ranks, plan.message_bytes));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut others = Vec::new();
        for rank in 1..plan.ranks {
            let (ranks, schedule, over) = (&ranks, &schedule, &over);
            let run = move || serve(rank, ranks, schedule, plan, transport, settings, over);
            others.push(thread::Builder::new().name(format!("rank {rank}")).spawn_scoped(scope, run)?);
        }
        let outcome = lead(&ranks, &schedule, plan, transport, settings);
        over.store(true, Ordering::Release);
        // Nobody leaves before all have stopped: the calls to a rank that has left would lose their names.
        let mut members = Vec::new();
        for other in others {
            match other.join() {
                Ok(served) => members.push(served?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let root = outcome?;
        let endpoints = members.iter().map(Member::endpoint);
        let endpoints = core::iter::once(root.endpoint()).chain(endpoints).zip(0..);
        Ok(ThreadsRun {
            times: root.outcome().map_err(ThreadsError::Failed)?.to_vec(),
            repeated: root.repeated(),
            traces: endpoints.filter_map(|(endpoint, rank)| HostTrace::end(rank, endpoint)).collect(),
        })
    })
}

fn member(
    rank: u32,
    ranks: &LocalRanks,
    schedule: &Arc<Schedule>,
    plan: &Plan,
    transport: TransportKind,
    settings: &Settings,
) -> Result<Member, ThreadsError> {
    let node = Node::new(Bootstrap::among(ranks, rank, random_incarnation()), settings.clone());
    let endpoint = node.endpoint(transport.name())?;
    node.barrier("endpoints", GATHER_MAX)?;
    endpoint.tracer().switch(plan.trace);
    Ok(Member::new(rank, endpoint, Arc::clone(schedule), plan.limits, true, plan.seed))
}

fn serve(
    rank: u32,
    ranks: &LocalRanks,
    schedule: &Arc<Schedule>,
    plan: &Plan,
    transport: TransportKind,
    settings: &Settings,
    over: &AtomicBool,
) -> Result<Member, ThreadsError> {
    let mut member = member(rank, ranks, schedule, plan, transport, settings)?;
    while !over.load(Ordering::Acquire) {
        if member.turn() == 0 {
            // There may be more ranks than cores.
            thread::yield_now();
        }
    }
    Ok(member)
}

fn lead(
    ranks: &LocalRanks,
    schedule: &Arc<Schedule>,
    plan: &Plan,
    transport: TransportKind,
    settings: &Settings,
) -> Result<Root, ThreadsError> {
    let mut root = Root::new(member(0, ranks, schedule, plan, transport, settings)?, plan.clone());
    while !root.is_done() {
        if root.turn() == 0 {
            thread::yield_now();
        }
    }
    Ok(root)
}
