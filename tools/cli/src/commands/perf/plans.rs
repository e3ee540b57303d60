//! What the command line asks `farcall perf` to measure, as the lab's plans.

use clap::ValueEnum;
use farcall::TransportKind;
use farcall_lab::echo::EchoTest;
use farcall_lab::exchange::{Buffers, Instruments};
use farcall_lab::published::clusterperf_settings;
use farcall_lab::simulation::SimulatedFabric;
use farcall_lab::simulation::UNCHECKED;
use farcall_lab::store::StoreTest;
use farcall_lab::workload::{Reply, Roles, WorkloadTest};

use super::Site;
use crate::arguments::{Perf, PerfTest};
use crate::failure::Failure;

/// Calls of each client unless the command line says otherwise.
const CALLS: u64 = 10_000;

/// The same on a simulated fabric, where calls differ little and each takes longer to simulate than it lasts.
const CALLS_SIMULATED: u64 = 1_000;

/// Messages of each client in a workload on a simulated fabric.
const MESSAGES_SIMULATED: u64 = 1_000;

/// Ranks of a workload on a simulated fabric.
const NODES_SIMULATED: u64 = 16;

/// The plan of `echo`.
pub fn echo(perf: &Perf, site: Site<'_>) -> Result<EchoTest, Failure> {
    let (calls, fabric) = match site {
        Site::Machine(_) => (CALLS, None),
        Site::Fabric(fabric) => (CALLS_SIMULATED, Some(fabric)),
    };
    let (assignments, settings) = perf.tuning.load_with(&defaults(PerfTest::Echo, fabric))?;
    Ok(EchoTest {
        assignments,
        settings,
        buffers: Buffers::from(perf.buffers),
        calls: perf.count.unwrap_or(calls),
        lasting: perf.seconds,
        warmup_calls: perf.warmup,
        in_flight: perf.concurrent_ops as usize,
        clients: perf.clients.unwrap_or(1) as usize,
        servers: perf.servers.unwrap_or(1) as usize,
        seed: perf.tuning.seed,
        instruments: Instruments { trace: perf.tracing.is_on(), handler: perf.handler },
    })
}

/// The plan of the tests of a store.
pub fn store(perf: &Perf) -> Result<StoreTest, Failure> {
    let (assignments, _) = perf.tuning.load()?;
    Ok(StoreTest {
        assignments,
        calls: perf.count.unwrap_or(CALLS),
        lasting: perf.seconds,
        warmup_calls: perf.warmup,
        in_flight: perf.concurrent_ops as usize,
        clients: perf.clients.unwrap_or(1) as usize,
        servers: perf.servers.unwrap_or(1) as usize,
        objects: perf.objects,
        seed: perf.tuning.seed,
        instruments: Instruments { trace: perf.tracing.is_on(), ..Instruments::default() },
    })
}

/// The plans of `echoWorkload`, one for each load.
pub fn workloads(perf: &Perf, site: Site<'_>) -> Result<Vec<WorkloadTest>, Failure> {
    let gbps = perf.link_gbps.unwrap_or_default() as f64;
    let (messages, link_bits_per_second, fabric) = match site {
        Site::Machine(_) => (CALLS, gbps * 1e9, None),
        Site::Fabric(fabric) => (MESSAGES_SIMULATED, fabric.link_bits_per_second(), Some(fabric)),
    };
    let (assignments, _) = perf.tuning.load_with(&defaults(PerfTest::EchoWorkload, fabric))?;
    let plan = |&load: &f64| WorkloadTest {
        assignments: assignments.clone(),
        mix: perf.workload.clone(),
        load,
        link_bits_per_second,
        roles: roles(perf, site),
        reply: Reply::from(perf.reply),
        messages: perf.count.unwrap_or(messages),
        lasting: perf.seconds,
        seed: perf.tuning.seed,
        trace: perf.tracing.is_on(),
    };
    Ok(perf.load.iter().map(plan).collect())
}

/// Who sends and who receives in a workload.
fn roles(perf: &Perf, site: Site<'_>) -> Roles {
    let default = match (site, perf.clients, perf.servers) {
        (Site::Fabric(_), None, None) => Some(NODES_SIMULATED),
        _ => None,
    };
    match perf.nodes.or(default) {
        Some(nodes) => Roles::Everyone(nodes as usize),
        None => Roles::Apart {
            clients: perf.clients.unwrap_or(1) as usize,
            servers: perf.servers.unwrap_or(1) as usize,
        },
    }
}

/// The assignments that take effect, for the record. A run has one list of them, so what is recorded has the same ones.
pub fn parameters(
    perf: &Perf,
    tests: &[PerfTest],
    transports: &[TransportKind],
    fabric: Option<&SimulatedFabric>,
) -> Result<Vec<String>, Failure> {
    let measured =
        || tests.iter().flat_map(|test| transports.iter().map(move |transport| (*test, *transport)));
    let of = |(test, transport): (PerfTest, TransportKind)| {
        defaults(test, fabric.filter(|_| transport.is_simulated()))
    };
    let words = |(test, transport): (PerfTest, TransportKind)| {
        let test = test.to_possible_value().expect("every test has a name");
        format!("{} over {transport}", test.get_name())
    };
    let Some(first) = measured().next() else { return Ok(perf.tuning.load()?.0) };
    let other = measured().find(|&other| of(other) != of(first));
    match other.filter(|_| perf.recording.record.is_some()) {
        Some(other) => Err(Failure::Usage(format!(
            "--record: {} and {} do not have the same parameters; record each in a run of its own",
            words(first),
            words(other)
        ))),
        None => Ok(perf.tuning.load_with(&of(first))?.0),
    }
}

/// What the command line's assignments come after.
fn defaults(test: PerfTest, fabric: Option<&SimulatedFabric>) -> Vec<&'static str> {
    match (test, fabric) {
        (_, None) => Vec::new(),
        (PerfTest::Echo, Some(fabric)) => {
            [&UNCHECKED[..], clusterperf_settings(&fabric.profile.name)].concat()
        }
        (_, Some(_)) => UNCHECKED.to_vec(),
    }
}
