//! The workload between processes of this machine, which exist for one measurement.
//!
//! Every rank answers messages all the time. Barriers, at which ranks go on answering, part three steps: the
//! first sender finds the best times, then all senders run their load, and then all may leave.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use farcall::bootstrap::Bootstrap;
use farcall::{Endpoint, Node, Peer, TransportKind};
use serde::{Deserialize, Serialize};

use super::open_loop::{OpenLoop, Sent};
use super::prober::Prober;
use super::{Plan, Recorded, ReplayPlan, Roles, WorkloadOutcome, WorkloadTest};
use crate::explain::trace::{HostTrace, Traced};
use crate::run::bench::{Bench, BenchError};
use crate::run::exchange::{
    ExchangeError, OVERHEAD_MAX, OwnCounters, Report, Workers, pass, report_on, run_workers, settings_of,
    sum_of,
};
use crate::run::program::Program;

/// The argument that makes the program a rank of a workload; the next one is its job.
pub const WORKLOAD_COMMAND: &str = "workload-worker";

/// Messages of each class while nobody else sends: their best is taken.
const PROBES: usize = 20;

/// The longest that the probing may take.
const PROBING_MAX: Duration = Duration::from_secs(60);

/// What a rank is told.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    plan: Plan,
    /// Whether there are more processes than cores, so that one that has nothing to do must let others run.
    shares_cores: bool,
}

/// What a rank has found.
#[derive(Debug, Default, Serialize, Deserialize)]
struct RankReport {
    /// From the rank that measured them.
    best_nanos: Option<Vec<u64>>,
    /// From ranks that send.
    sent: Option<Sent>,
    counters: BTreeMap<String, u64>,
    trace: Option<HostTrace>,
}

impl WorkloadTest {
    /// Measures one transport between processes.
    pub fn run(&self, bench: &Bench, transport: TransportKind) -> Result<WorkloadOutcome, BenchError> {
        let plan = self.plan(transport);
        let placement = bench.placement();
        let (servers, seats) = match self.roles {
            Roles::Everyone(ranks) => (0, placement.in_turn(ranks)),
            Roles::Apart { clients, servers } => (servers, placement.of_roles(servers, clients)),
        };
        let seats = seats.map_err(ExchangeError::from)?;
        let job = Job { plan, shares_cores: seats.are_shared() };
        let reports: Vec<RankReport> = run_workers(&Workers {
            program: Program::THIS,
            command: WORKLOAD_COMMAND,
            job: serde_json::to_string(&job).expect("a job is JSON"),
            transport: transport.name(),
            servers,
            backups: 0,
            seats,
            within: PROBING_MAX + job.plan.load_end() + OVERHEAD_MAX * 2,
        })?;
        let best_nanos = reports.iter().find_map(|report| report.best_nanos.as_deref());
        let best_nanos = best_nanos.expect("the first sender reports them");
        let counters = sum_of(reports.iter().map(|report| &report.counters));
        let sent: Vec<Sent> = reports.iter().filter_map(|report| report.sent.clone()).collect();
        let traces: Vec<HostTrace> = reports.iter().filter_map(|report| report.trace.clone()).collect();
        let outcome = WorkloadOutcome::new(self, &job.plan, best_nanos, &sent, counters);
        Ok(WorkloadOutcome { traced: Traced::on_machine([&*traces]), ..outcome })
    }
}

/// Does the job that `job` describes, in the place that the environment gives; returns the line to print.
pub fn work(job: &str) -> String {
    report_on(job, take_part)
}

fn take_part(job: &Job) -> Report<RankReport> {
    let plan = Arc::new(job.plan.clone());
    let file = plan.replay.as_ref().map(recorded).transpose()?;
    let bootstrap = Bootstrap::from_env().map_err(sentence)?;
    let settings = settings_of(&plan.settings, plan.seed, bootstrap.rank)?;
    let node = Node::new(bootstrap, settings);
    let endpoint = node.endpoint(&plan.transport).map_err(sentence)?;
    plan.serve(&endpoint);
    let rank = Rank { job, plan, file, node: &node, endpoint: &endpoint };
    let peers = rank.connect()?;
    let payload: Arc<[u8]> = vec![1; rank.plan.bytes_max()].into();
    let mut report = RankReport::default();
    rank.pass("connected")?;
    if node.rank() == rank.plan.roles.first_sender() {
        report.best_nanos = Some(rank.probe(peers[0], &payload)?);
    }
    rank.pass("probed")?;
    endpoint.tracer().switch(rank.plan.trace);
    let before = OwnCounters::read();
    if !peers.is_empty() {
        report.sent = Some(rank.load(peers, &payload)?);
    }
    rank.pass("sent")?;
    report.counters = OwnCounters::read().since(&before);
    report.trace = HostTrace::end(node.rank(), &endpoint);
    // Nobody leaves while others may still await its answers.
    rank.pass("end")?;
    Ok(report)
}

/// The recorded messages, which this machine must have as rank 0's has them.
fn recorded(replay: &ReplayPlan) -> Result<Arc<Recorded>, String> {
    let file = Recorded::load(&replay.path).map_err(sentence)?;
    file.check_digest(replay.digest).map_err(sentence)?;
    Ok(Arc::new(file))
}

/// One process of the workload.
struct Rank<'a> {
    job: &'a Job,
    plan: Arc<Plan>,
    /// The recorded messages, if those are replayed.
    file: Option<Arc<Recorded>>,
    node: &'a Node,
    endpoint: &'a Endpoint,
}

impl Rank<'_> {
    /// Opens the sessions to all that it sends to.
    fn connect(&self) -> Result<Vec<Peer>, String> {
        let ranks = self.plan.roles.receivers_of(self.node.rank()).into_iter();
        ranks.map(|rank| self.endpoint.peer(rank).map_err(sentence)).collect()
    }

    fn probe(&self, peer: Peer, payload: &Arc<[u8]>) -> Result<Vec<u64>, String> {
        let clock = self.endpoint.clock();
        let end = clock.now() + PROBING_MAX;
        let mut prober = Prober::new(&self.plan, peer, payload, clock.clone(), PROBES);
        while !prober.is_over() {
            let done = prober.turn(self.endpoint).map_err(sentence)?;
            self.rest(done);
            if clock.now() > end {
                return Err(format!("the unloaded messages took more than {PROBING_MAX:?}"));
            }
        }
        Ok(prober.into_best_nanos())
    }

    fn load(&self, peers: Vec<Peer>, payload: &Arc<[u8]>) -> Result<Sent, String> {
        let (rank, clock) = (self.node.rank(), self.endpoint.clock());
        let mut open_loop = OpenLoop::new(&self.plan, self.file.as_ref(), rank, peers, payload, clock);
        while !open_loop.is_over() {
            let done = open_loop.turn(self.endpoint).map_err(sentence)?;
            self.rest(done);
        }
        Ok(open_loop.into_sent())
    }

    /// Answers messages until all ranks have come here.
    fn pass(&self, barrier: &str) -> Result<(), String> {
        let within = PROBING_MAX + self.plan.load_end() + OVERHEAD_MAX;
        pass(self.node, self.endpoint, barrier, within, self.job.shares_cores)
    }

    /// Lets other processes run when there was nothing to do and they need the core.
    fn rest(&self, done: usize) {
        if self.job.shares_cores && done == 0 {
            thread::yield_now();
        }
    }
}

fn sentence(error: impl core::fmt::Display) -> String {
    error.to_string()
}
