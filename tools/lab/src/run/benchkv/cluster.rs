//! The measuring side: starts the processes, and puts what they find together.

use farcall::bootstrap::random_incarnation;

use super::report::{BenchKvResult, ClientReport, DaemonReport, WorkerReport};
use super::worker::{BENCHKV_WORKER_COMMAND, OVERHEAD_MAX};
use super::{BenchKv, Job};
use crate::run::bench::{Bench, BenchError};
use crate::run::exchange::{ExchangeError, Workers, run_workers};
use crate::run::program::Program;

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
