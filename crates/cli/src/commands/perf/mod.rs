//! `farcall perf`: clusterperf's tests, on this machine or on a simulated fabric.

mod echo;
mod simulated;
mod simulated_echo;
mod workload;

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall_lab::bench::Bench;
use farcall_lab::echo::EchoTest;
use farcall_lab::exchange::Buffers;
use farcall_lab::little::LittleCheck;
use farcall_lab::published::clusterperf_settings;
use farcall_lab::simulation::{SimulatedFabric, UNCHECKED};
use farcall_lab::table::UNITS_NOTE;
use farcall_lab::units::Size;
use farcall_lab::workload::{Reply, Roles, WorkloadTest};

use crate::arguments::{Perf, PerfTest};
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// Calls of each client unless the command line says otherwise.
const CALLS: u64 = 10_000;

/// The same on a simulated fabric, where calls differ little and each takes longer to simulate than it lasts.
const CALLS_SIMULATED: u64 = 1_000;

/// Messages of each client in a workload on a simulated fabric.
const MESSAGES_SIMULATED: u64 = 1_000;

/// Ranks of a workload on a simulated fabric.
const NODES_SIMULATED: u64 = 16;

/// Where results go.
struct Stage {
    report: Report,
    progress: Progress,
}

/// What measurements run on; both are there when transports of both sorts are.
struct Sites {
    bench: Option<Bench>,
    fabric: Option<SimulatedFabric>,
}

/// What a measurement over one transport runs on.
#[derive(Clone, Copy)]
enum Site<'a> {
    /// Processes of this machine.
    Machine(&'a Bench),
    /// A simulated fabric.
    Fabric(&'a SimulatedFabric),
}

impl Sites {
    fn of(&self, transport: TransportKind) -> Site<'_> {
        match (&self.bench, &self.fabric) {
            (_, Some(fabric)) if transport.is_simulated() => Site::Fabric(fabric),
            (Some(bench), _) => Site::Machine(bench),
            (None, _) => unreachable!("there is a bench or a fabric for every transport"),
        }
    }
}

/// Runs the tests over every transport.
pub fn run(perf: &Perf) -> Result<(), Failure> {
    let transports = match &*perf.transport {
        [] => TransportKind::ALL.to_vec(),
        transports => transports.to_vec(),
    };
    let fabric =
        simulated::fabric(perf.fabric.as_deref(), &perf.tuning.of_fabric(), &transports, perf.tuning.seed)?;
    let tests = tests(perf);
    for test in &tests {
        match test {
            PerfTest::Echo => check_sizes(&perf.sizes, &transports, &perf.tuning.load()?.1)?,
            PerfTest::EchoWorkload => check_links(perf, &transports)?,
        }
    }
    let report = Report::open(perf.output.json.as_ref())?;
    let is_real = |transport: &TransportKind| !transport.is_simulated();
    let bench = transports.iter().any(is_real).then(Bench::new).transpose().map_err(Failure::run)?;
    let sites = Sites { bench, fabric };
    let steps: usize = tests.iter().map(|test| transports.len() * steps(perf, *test)).sum();
    let mut stage = Stage { report, progress: Progress::new(steps, perf.output.quiet) };
    stage.report.line(format_args!("# {UNITS_NOTE}"))?;
    for test in tests {
        for &transport in &transports {
            let site = sites.of(transport);
            match test {
                PerfTest::Echo => echo(perf, transport, site, &mut stage)?,
                PerfTest::EchoWorkload => echo_workload(perf, transport, site, &mut stage)?,
            }
        }
    }
    Ok(())
}

/// How many measurements a test makes over one transport.
fn steps(perf: &Perf, test: PerfTest) -> usize {
    match test {
        PerfTest::Echo => perf.sizes.len(),
        PerfTest::EchoWorkload => perf.load.len(),
    }
}

fn echo(perf: &Perf, transport: TransportKind, site: Site<'_>, stage: &mut Stage) -> Result<(), Failure> {
    let (calls, defaults) = match site {
        Site::Machine(_) => (CALLS, Vec::new()),
        Site::Fabric(fabric) => {
            (CALLS_SIMULATED, [&UNCHECKED[..], clusterperf_settings(&fabric.profile.name)].concat())
        }
    };
    let (assignments, settings) = perf.tuning.load_with(&defaults)?;
    let test = EchoTest {
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
    };
    match site {
        Site::Machine(bench) => echo::run(&test, transport, &perf.sizes, bench, stage),
        Site::Fabric(fabric) => simulated_echo::run(&test, transport, &perf.sizes, fabric, stage),
    }
}

fn echo_workload(
    perf: &Perf,
    transport: TransportKind,
    site: Site<'_>,
    stage: &mut Stage,
) -> Result<(), Failure> {
    let gbps = perf.link_gbps.unwrap_or_default() as f64;
    let (messages, link_bits_per_second, defaults): (_, _, &[&str]) = match site {
        Site::Machine(_) => (CALLS, gbps * 1e9, &[]),
        Site::Fabric(fabric) => (MESSAGES_SIMULATED, fabric.link_bits_per_second(), &UNCHECKED),
    };
    let (assignments, _) = perf.tuning.load_with(defaults)?;
    for &load in &perf.load {
        let test = WorkloadTest {
            assignments: assignments.clone(),
            mix: perf.workload.clone(),
            load,
            link_bits_per_second,
            roles: roles(perf, site),
            reply: Reply::from(perf.reply),
            messages: perf.count.unwrap_or(messages),
            lasting: perf.seconds,
            seed: perf.tuning.seed,
        };
        workload::run(&test, transport, site, stage)?;
    }
    Ok(())
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

/// Asks for the links' rate where only the user knows it.
fn check_links(perf: &Perf, transports: &[TransportKind]) -> Result<(), Failure> {
    let real = transports.iter().find(|transport| !transport.is_simulated());
    match (real, perf.link_gbps) {
        (Some(transport), None) => Err(Failure::Usage(format!(
            "--load is a part of the links' rate, which is not known for {transport}; add --link-gbps"
        ))),
        (None, Some(_)) => Err(Failure::Usage(
            "--link-gbps is not for simulated fabrics, whose links have a rate; see --set fabric.link.gbps"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Refuses sizes that a transport does not carry.
fn check_sizes(sizes: &[Size], transports: &[TransportKind], settings: &Settings) -> Result<(), Failure> {
    for (transport, &size) in
        transports.iter().flat_map(|transport| sizes.iter().map(move |size| (transport, size)))
    {
        let (group, bytes_max) = match transport.name().split_once('+') {
            Some((group @ "ring", _)) => (group, settings.ring.message_bytes_max),
            Some((group @ "basic", _)) => (group, settings.basic.message_bytes_max),
            Some((group @ "homa", _)) => (group, settings.homa.message_bytes_max),
            _ => continue,
        };
        if size.0 > bytes_max {
            return Err(Failure::Usage(format!(
                "--sizes: {size} is longer than the {} that {transport} carries; add --set {group}.message_bytes_max={size}",
                Size(bytes_max),
            )));
        }
    }
    Ok(())
}

/// The tests asked for, each once; `echo` when none is.
fn tests(perf: &Perf) -> Vec<PerfTest> {
    let mut tests: Vec<PerfTest> = Vec::new();
    for &test in &perf.tests {
        if !tests.contains(&test) {
            tests.push(test);
        }
    }
    if tests.is_empty() { vec![PerfTest::Echo] } else { tests }
}

fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// What to say when the figures of a closed loop do not agree.
fn little_warning(little: LittleCheck, in_flight: u64) -> Option<String> {
    let implied = little.implied;
    (!little.holds())
        .then(|| format!("throughput and latency imply {implied:.2} calls in flight instead of {in_flight}"))
}
