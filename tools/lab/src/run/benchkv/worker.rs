//! A process of the benchmark: a daemon or a client, as its rank says.

use core::time::Duration;
use std::sync::Arc;

use farcall::Node;
use farcall::bootstrap::Bootstrap;

use super::Job;
use super::client::call;
use super::daemon::serve;
use super::report::WorkerReport;
use crate::run::exchange::{Report, report_on, settings_of};

/// The argument that makes the program a process of the benchmark; the next one is its job.
pub const BENCHKV_WORKER_COMMAND: &str = "benchkv-worker";

/// What the processes may take beside the runs themselves: start, warm-up, end.
pub(super) const OVERHEAD_MAX: Duration = Duration::from_secs(30);

/// Does the job that `job` describes, in the place that the environment gives; returns the line to print.
pub fn work(job: &str) -> String {
    report_on(job, take_part)
}

fn take_part(job: &Job) -> Report<WorkerReport> {
    let bench = &job.bench;
    let bootstrap = Bootstrap::from_env().map_err(|error| error.to_string())?;
    let settings = settings_of(&bench.settings, bench.seed, bootstrap.rank)?;
    let node = Arc::new(Node::new(bootstrap, settings));
    let within = bench.lasting * bench.runs as u32 + OVERHEAD_MAX;
    let report = if (node.rank() as usize) < bench.ranks {
        WorkerReport::Daemon(serve(job, Arc::clone(&node), within)?)
    } else {
        WorkerReport::Client(call(job, &node, within)?)
    };
    // Nobody leaves while others may still await its answers.
    node.barrier("leave", OVERHEAD_MAX).map_err(|error| error.to_string())?;
    Ok(report)
}
