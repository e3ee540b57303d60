//! copyrpc's `benchkv`: ranks of one daemon each, clients on shared-memory slots, half of the keys remote.
//!
//! Every rank is a process with a polling daemon, every client a process with slots at the daemon of its
//! rank. The clients run closed loops. Latencies are measured by the clients, apart for requests that the own
//! rank's shard answers and for those that another one does. Daemons count and time over exactly the measured
//! window: it begins when all clients have drained their warm-up and ends when all have drained their last
//! requests.

mod client;
mod control;
mod daemon;
mod observer;
mod pattern;
mod report;
mod slot_times;
mod worker;

use core::time::Duration;

use farcall::bootstrap::random_incarnation;
use serde::{Deserialize, Serialize};

pub use observer::PhaseReport;
pub use pattern::Distribution;
pub use report::{BenchKvResult, ClassResult, RankResult, knee_of};
use report::{ClientReport, DaemonReport, WorkerReport};
pub use slot_times::SlotNanos;
use worker::OVERHEAD_MAX;
pub use worker::{BENCHKV_WORKER_COMMAND, work};

use crate::run::bench::{Bench, BenchError};
use crate::run::exchange::{ExchangeError, Workers, run_workers};
use crate::run::program::Program;

/// What is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchKv {
    /// The transport between daemons.
    pub transport: String,
    /// Parameters, each as `name=value`.
    pub settings: Vec<String>,
    /// Daemons, each with a shard.
    pub ranks: usize,
    /// Client processes of each rank.
    pub clients: usize,
    /// Requests that each client keeps in flight.
    pub queue_depth: usize,
    /// Keys of each rank.
    pub keys: u64,
    /// The share of requests that read, from 0 to 1; the others overwrite.
    pub read_ratio: f64,
    /// How keys are chosen.
    pub distribution: Distribution,
    /// How long clients ask in a run.
    pub lasting: Duration,
    /// How often that is repeated, with the same processes.
    pub runs: usize,
    /// Decides which keys are accessed.
    pub seed: u64,
    /// Whether the calls between daemons are traced.
    pub trace: bool,
}

/// What a process is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Job {
    bench: BenchKv,
    /// Begins the abstract names of the daemons' slots, which end with the rank.
    slots_prefix: String,
    /// Whether there are more processes than cores.
    shares_cores: bool,
}

impl Job {
    fn slots_name(&self, rank: usize) -> String {
        format!("{}-{rank}", self.slots_prefix)
    }
}

/// The table that is worked on.
const TABLE: &str = "benchkv";

/// Length of values: a request takes one cache line, as in the original.
const VALUE_BYTES: usize = 8;

/// Runs the benchmark; gives a result for each run.
pub fn run(bench: &BenchKv, on: &Bench) -> Result<Vec<BenchKvResult>, BenchError> {
    let seats = on.placement().of_daemons(bench.ranks, bench.clients).map_err(ExchangeError::from)?;
    let job = Job {
        bench: bench.clone(),
        slots_prefix: format!("farcall-benchkv-{:016x}", random_incarnation()),
        shares_cores: seats.are_shared(),
    };
    let reports: Vec<WorkerReport> = run_workers(&Workers {
        program: Program::THIS,
        command: BENCHKV_WORKER_COMMAND,
        job: serde_json::to_string(&job).expect("a job is JSON"),
        transport: &bench.transport,
        servers: bench.ranks,
        backups: 0,
        seats,
        within: bench.lasting * bench.runs as u32 + OVERHEAD_MAX * 2,
    })?;
    let (mut daemons, mut clients): (Vec<DaemonReport>, Vec<ClientReport>) = (Vec::new(), Vec::new());
    for report in reports {
        match report {
            WorkerReport::Daemon(report) => daemons.push(report),
            WorkerReport::Client(report) => clients.push(report),
        }
    }
    daemons.sort_by_key(|daemon| daemon.rank);
    clients.sort_by_key(|client| client.rank);
    Ok((0..bench.runs).map(|run| BenchKvResult::new(bench, run, &clients, &daemons)).collect())
}
