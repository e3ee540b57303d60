//! The life of one server or client process.

use core::time::Duration;
use std::{slice, thread};

use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::{Endpoint, Node, Peer};
use farcall_base::{NO_RANK, seed_of_stream};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::backing::{FILLED, Part, back_up};
use super::client::{measure, warm_up};
use super::cluster::Report;
use super::counters::OwnCounters;
use super::report::{ClientReport, Found, ProcessRole};
use super::server::serve;
use super::shard::ServedShard;
use super::together::serve_and_call;
use super::{ExchangeWork, FINISHED, Job, READY};
use crate::explain::trace::HostTrace;
use crate::run::beside;

/// The argument that makes the program a worker; the next one is its job.
pub const WORKER_COMMAND: &str = "exchange-worker";

/// What the processes may take beside the measurement itself: start, warm-up, end.
pub(crate) const OVERHEAD_MAX: Duration = Duration::from_secs(20);

/// That a server waits for its backups, and that they are there, is no news of a measurement.
const WARNINGS_ONLY: &str = "log.level=warnings";

/// Does the job that `job` describes, in the place that the environment gives; returns the line to print.
pub fn work(job: &str) -> String {
    report_on(job, take_part)
}

/// Does a job that was given as text, and puts its report in a line.
pub(crate) fn report_on<J: DeserializeOwned, T: Serialize>(
    job: &str,
    take_part: impl FnOnce(&J) -> Report<T>,
) -> String {
    let report = match serde_json::from_str(job) {
        Ok(job) => take_part(&job),
        Err(error) => Err(format!("the job is not one of this program's: {error}")),
    };
    serde_json::to_string(&report).expect("a report is JSON")
}

/// Every error ends as a sentence in the report.
fn take_part(job: &Job) -> Report<Found> {
    let exchange = &job.exchange;
    let bootstrap = Bootstrap::from_env().map_err(sentence)?;
    let said = job.backing.iter().map(|_| WARNINGS_ONLY.to_owned());
    let assignments: Vec<String> = said.chain(exchange.settings.iter().cloned()).collect();
    let settings = settings_of(&assignments, exchange.seed, bootstrap.rank)?;
    let node = Node::new(bootstrap, settings);
    let within = exchange.lasting + OVERHEAD_MAX;
    let found = match job.part_of(node.rank()) {
        Part::Server => be_server(&node, job, within)?,
        Part::Client => be_client(&node, job, within)?,
        Part::Both => serve_and_call(&node, job, within)?,
        Part::Backups(numbers) => {
            back_up(&numbers, &node, job, within + OVERHEAD_MAX)?;
            Found { role: ProcessRole::Backup, ..Found::default() }
        }
    };
    Ok(Found { rank: node.rank(), ..found })
}

fn be_server(node: &Node, job: &Job, within: Duration) -> Result<Found, String> {
    let exchange = &job.exchange;
    let alone = match exchange.workload {
        ExchangeWork::Store(work) if job.backing.is_none() => {
            Some(ServedShard::alone(&work, exchange, node.rank())?)
        }
        _ => None,
    };
    let endpoint = node.endpoint(&exchange.transport).map_err(sentence)?;
    let mut shard = match (exchange.workload, &job.backing) {
        (ExchangeWork::Store(work), Some(backing)) => {
            Some(ServedShard::backed(&work, exchange, node.rank(), backing, &endpoint)?)
        }
        _ => alone,
    };
    if let Some(shard) = shard.as_mut().filter(|_| job.backing.is_some()) {
        let poll = || endpoint.poll(|_, _| {}) + usize::from(shard.turn(&endpoint));
        pass_by(node, FILLED, within, job.shares_cores, poll)?;
    }
    endpoint.tracer().switch(job.instruments.trace);
    let found = serve(&endpoint, job, shard, within).map_err(sentence)?;
    end(node, &endpoint, job, found)
}

fn be_client(node: &Node, job: &Job, within: Duration) -> Result<Found, String> {
    let endpoint = node.endpoint(&job.exchange.transport).map_err(sentence)?;
    if job.backing.is_some() {
        pass(node, &endpoint, FILLED, within, job.shares_cores)?;
    }
    let found = call(&endpoint, node.rank(), job, within)?;
    end(node, &endpoint, job, found)
}

/// Nobody leaves while others may still await its answers.
pub(super) fn end(node: &Node, endpoint: &Endpoint, job: &Job, mut found: Found) -> Result<Found, String> {
    found.trace = found.trace.or_else(|| HostTrace::end(node.rank(), endpoint));
    if let Some(trace) = &mut found.trace {
        // What a server asks of its backups is no call of the measurement.
        trace.peers.retain(|(_, rank)| *rank != NO_RANK);
    }
    pass(node, endpoint, "end", OVERHEAD_MAX, job.shares_cores)?;
    Ok(found)
}

/// The settings of a rank. What faults draw follows the seed of the measurement as well as `fault.seed`, and
/// differs from rank to rank.
pub(crate) fn settings_of(assignments: &[String], seed: u64, rank: u32) -> Result<Settings, String> {
    let mut settings = Settings::load(assignments.iter().cloned()).map_err(sentence)?;
    settings.fault.seed = seed_of_stream(seed_of_stream(seed, settings.fault.seed), rank.into());
    Ok(settings)
}

/// Waits until all ranks have come here, and polls meanwhile: what was answered may not have left yet.
pub(crate) fn pass(
    node: &Node,
    endpoint: &Endpoint,
    barrier: &str,
    within: Duration,
    shares_cores: bool,
) -> Result<(), String> {
    pass_with(node, slice::from_ref(endpoint), barrier, within, shares_cores)
}

/// As [`pass`], for a process with several endpoints.
pub(crate) fn pass_with(
    node: &Node,
    endpoints: &[Endpoint],
    barrier: &str,
    within: Duration,
    shares_cores: bool,
) -> Result<(), String> {
    let poll = || endpoints.iter().map(|endpoint| endpoint.poll(|_, _| {})).sum::<usize>();
    pass_by(node, barrier, within, shares_cores, poll)
}

/// As [`pass`], for a process that polls in its own way; `poll` says how much there was to do.
pub(super) fn pass_by(
    node: &Node,
    barrier: &str,
    within: Duration,
    shares_cores: bool,
    mut poll: impl FnMut() -> usize,
) -> Result<(), String> {
    thread::scope(|scope| {
        let waiting = beside::spawn_scoped(scope, || node.barrier(barrier, within))?;
        while !waiting.is_finished() {
            if poll() == 0 && shares_cores {
                thread::yield_now();
            }
        }
        waiting.join().expect("a barrier does not panic").map_err(sentence)
    })
}

fn call(endpoint: &Endpoint, rank: u32, job: &Job, within: Duration) -> Result<Found, String> {
    let servers = 0..job.exchange.servers as u32;
    let peers: Vec<Peer> =
        servers.map(|rank| endpoint.peer(rank)).collect::<Result<_, _>>().map_err(sentence)?;
    for &peer in &peers {
        endpoint.wait_for(peer).map_err(sentence)?;
    }
    let mut meanwhile = |is_idle: bool| {
        if is_idle && job.shares_cores {
            thread::yield_now();
        }
    };
    let warmup = warm_up(endpoint, &peers, job, rank, &mut meanwhile).map_err(sentence)?;
    endpoint.call(peers[0], READY, b"").within(within).wait().map_err(sentence)?;
    let before = OwnCounters::read();
    endpoint.tracer().switch(job.instruments.trace);
    let run = measure(endpoint, &peers, job, rank, &mut meanwhile).map_err(sentence)?;
    let counters = OwnCounters::read().since(&before);
    let trace = HostTrace::end(rank, endpoint);
    for &peer in &peers {
        endpoint.call(peer, FINISHED, b"").wait().map_err(sentence)?;
    }
    let client = ClientReport { warmup, counters, ..ClientReport::new(&run) };
    Ok(Found { role: ProcessRole::Client, client: Some(client), trace, ..Found::default() })
}

pub(super) fn sentence(error: impl core::fmt::Display) -> String {
    error.to_string()
}
