//! Operations between threads of this process, over real transports.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use farcall::bootstrap::{Bootstrap, LocalRanks, random_incarnation};
use farcall::parameters::Settings;
use farcall::{EndpointError, Node, TransportKind};

use super::{CollectivePlan, Member, OperationTime, Root};
use crate::explain::trace::HostTrace;
use crate::run::exchange::OwnCounters;
use crate::run::losses::Losses;

/// The longest that ranks wait for each other before the first operation.
const GATHER_MAX: Duration = Duration::from_secs(30);

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum ThreadsError {
    /// A rank has no such endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A rank has failed, which says why, or takes too long.
    #[error("the ranks did not come together within {GATHER_MAX:?}")]
    Gather,
    /// The system has no more threads: use fewer ranks, or allow more of them.
    #[error(
        "cannot start a thread for each rank: {0}; raise the limits of processes and memory (ulimit -u, ulimit -v, pids.max)"
    )]
    Spawn(std::io::Error),
    /// A rank could not do its part.
    #[error("{0}")]
    Failed(String),
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct ThreadsRun {
    /// The operations that count.
    pub times: Vec<OperationTime>,
    /// Operations that were done again, because a rank learnt of them too late.
    pub repeated: u32,
    /// What fell meanwhile, warm-up included.
    pub losses: Losses,
    /// What the endpoints recorded, when chunks were traced.
    pub traces: Vec<HostTrace>,
}

/// Runs a plan with a thread for each rank.
pub fn run(
    plan: &CollectivePlan,
    transport: TransportKind,
    settings: &Settings,
) -> Result<ThreadsRun, ThreadsError> {
    let ranks = LocalRanks::new(plan.ranks);
    let cluster = Threads {
        ranks: &ranks,
        plan,
        transport,
        settings,
        over: AtomicBool::new(false),
        gathered: AtomicU32::new(0),
        open: AtomicU32::new(plan.ranks),
        before: OwnCounters::read(),
    };
    thread::scope(|scope| {
        let mut others = Vec::new();
        for rank in 1..plan.ranks {
            let cluster = &cluster;
            let run = move || cluster.run_rank(rank, Threads::serve);
            match thread::Builder::new().name(format!("rank {rank}")).spawn_scoped(scope, run) {
                Ok(other) => others.push(other),
                Err(error) => {
                    cluster.give_up(plan.ranks - rank + 1);
                    return Err(ThreadsError::Spawn(error));
                }
            }
        }
        let mut runs = vec![cluster.run_rank(0, Threads::lead)];
        for other in others {
            runs.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        // That others did not come together follows from the failure of the one that did not come.
        let is_cause =
            |run: &Result<_, _>| matches!(run, Err(error) if !matches!(error, ThreadsError::Gather));
        if let Some(cause) = runs.iter().position(is_cause) {
            return runs.swap_remove(cause);
        }
        let mut runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
        let mut run = runs.next().unwrap_or_default();
        run.traces.extend(runs.flat_map(|other| other.traces));
        Ok(run)
    })
}

/// Ranks that are threads.
struct Threads<'r> {
    ranks: &'r LocalRanks,
    plan: &'r CollectivePlan,
    transport: TransportKind,
    settings: &'r Settings,
    /// There are no more operations.
    over: AtomicBool,
    /// Ranks whose endpoints are there.
    gathered: AtomicU32,
    /// Ranks that have not stopped.
    open: AtomicU32,
    /// What this process had counted before.
    before: OwnCounters,
}

/// Counts a rank as stopped when it is dropped, also by a panic.
struct Stopped<'r>(&'r AtomicU32);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Threads<'_> {
    /// There will be no operations, because this many ranks were not started, or one that was has failed.
    fn give_up(&self, not_started: u32) {
        self.open.fetch_sub(not_started, Ordering::Release);
        self.over.store(true, Ordering::Release);
    }

    /// Runs a rank with its own endpoint, which stays until all ranks have stopped: the calls to a rank that
    /// has left would lose their names.
    fn run_rank(
        &self,
        rank: u32,
        run: impl FnOnce(&Self, Member) -> Result<(ThreadsRun, Member), ThreadsError>,
    ) -> Result<ThreadsRun, ThreadsError> {
        let stopped = Stopped(&self.open);
        let ran = self.member(rank).and_then(|member| run(self, member));
        if rank == 0 {
            self.over.store(true, Ordering::Release);
        }
        drop(stopped);
        while self.open.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
        let (mut run, member) = ran?;
        run.traces = HostTrace::end(rank, member.endpoint()).into_iter().collect();
        Ok(run)
    }

    fn member(&self, rank: u32) -> Result<Member, ThreadsError> {
        let node = Node::new(Bootstrap::among(self.ranks, rank, random_incarnation()), self.settings.clone());
        let endpoint = node.endpoint(self.transport.name()).inspect_err(|_| self.give_up(0))?;
        self.gathered.fetch_add(1, Ordering::AcqRel);
        let end = Instant::now() + GATHER_MAX;
        while self.gathered.load(Ordering::Acquire) < self.plan.ranks {
            // Operations are over before all ranks have gathered only when one of them cannot.
            if self.over.load(Ordering::Acquire) || Instant::now() > end {
                return Err(ThreadsError::Gather);
            }
            thread::yield_now();
        }
        endpoint.tracer().switch(self.plan.trace);
        Ok(Member::new(rank, endpoint, self.plan, true))
    }

    fn serve(&self, mut member: Member) -> Result<(ThreadsRun, Member), ThreadsError> {
        while !self.over.load(Ordering::Acquire) {
            if member.turn() == 0 {
                // There may be more ranks than cores.
                thread::yield_now();
            }
        }
        Ok((ThreadsRun::default(), member))
    }

    fn lead(&self, member: Member) -> Result<(ThreadsRun, Member), ThreadsError> {
        let mut root = Root::new(member, self.plan.clone());
        while !root.is_done() {
            if root.turn() == 0 {
                thread::yield_now();
            }
        }
        let times = root.outcome().map_err(ThreadsError::Failed)?.to_vec();
        // While all endpoints are there: each takes its counters with it.
        let losses = Losses::of(&OwnCounters::read().since(&self.before));
        let run = ThreadsRun { times, repeated: root.repeated(), losses, traces: Vec::new() };
        Ok((run, root.into_member()))
    }
}
