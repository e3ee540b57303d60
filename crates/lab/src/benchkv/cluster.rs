//! The measuring side: starts the processes, and puts what they find together.

use std::time::Instant;

use farcall::bootstrap::random_incarnation;

use super::report::{BenchKvResult, ClientReport, DaemonReport, WorkerReport};
use super::worker::{BENCHKV_WORKER_COMMAND, OVERHEAD_MAX};
use super::{BenchKv, Job};
use crate::bench::{Bench, BenchError};
use crate::exchange::{Crew, ExchangeError};

/// Runs the benchmark; gives a result for each run.
pub fn run(bench: &BenchKv, on: &Bench) -> Result<Vec<BenchKvResult>, BenchError> {
    let processes = bench.ranks * (1 + bench.clients);
    let placement = on.placement();
    let job = Job {
        bench: bench.clone(),
        slots_prefix: format!("farcall-benchkv-{:016x}", random_incarnation()),
        shares_cores: placement.cores() < processes,
    };
    let job = serde_json::to_string(&job).expect("a job is JSON");
    let cores = placement.spread(bench.ranks, processes);
    let within = bench.lasting * bench.runs as u32 + OVERHEAD_MAX * 2;
    let crew = Crew::start(BENCHKV_WORKER_COMMAND, &job, &cores, Instant::now() + within)?;
    let (mut daemons, mut clients): (Vec<DaemonReport>, Vec<ClientReport>) = (Vec::new(), Vec::new());
    let failed = |process: usize, why: String| ExchangeError::Failed {
        who: if process < bench.ranks {
            format!("daemon {process}")
        } else {
            format!("client {}", process - bench.ranks)
        },
        transport: bench.transport.clone(),
        why,
    };
    let mut silent = processes;
    while silent > 0 {
        let Some((process, text)) = crew.next_report() else {
            return Err(failed(0, format!("{silent} processes did not report within {within:?}")).into());
        };
        silent -= 1;
        match serde_json::from_str(&text) {
            Ok(WorkerReport::Daemon(report)) => daemons.push(report),
            Ok(WorkerReport::Client(report)) => clients.push(report),
            Ok(WorkerReport::Failed(why)) => return Err(failed(process, why).into()),
            Err(_) => return Err(failed(process, "its process ended without a report".to_owned()).into()),
        }
    }
    daemons.sort_by_key(|daemon| daemon.rank);
    clients.sort_by_key(|client| client.rank);
    Ok((0..bench.runs).map(|run| BenchKvResult::new(bench, run, &clients, &daemons)).collect())
}
