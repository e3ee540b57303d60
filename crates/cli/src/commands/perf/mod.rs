//! `farcall perf`: clusterperf's tests, on this machine or on a simulated fabric.

mod echo;
mod simulated;
mod simulated_echo;

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall_lab::bench::Bench;
use farcall_lab::echo::EchoTest;
use farcall_lab::exchange::Buffers;
use farcall_lab::little::LittleCheck;
use farcall_lab::simulation::SimulatedFabric;
use farcall_lab::table::UNITS_NOTE;
use farcall_lab::units::Size;

use crate::arguments::{Perf, PerfTest};
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// Calls of each client unless the command line says otherwise.
const CALLS: u64 = 10_000;

/// The same on a simulated fabric, where calls differ little and each takes longer to simulate than it lasts.
const CALLS_SIMULATED: u64 = 1_000;

/// Where results go.
struct Stage {
    report: Report,
    progress: Progress,
}

/// Runs the tests for every transport.
pub fn run(mut perf: Perf) -> Result<(), Failure> {
    let fields = perf.tuning.take_fabric_fields();
    let (assignments, settings) = perf.tuning.load()?;
    let transports = if perf.transport.is_empty() { TransportKind::ALL } else { &perf.transport };
    let fabric = simulated::fabric(perf.fabric.as_deref(), &fields, transports, perf.tuning.seed)?;
    check_sizes(&perf.sizes, transports, &settings)?;
    let report = Report::open(perf.output.json.as_ref())?;
    let is_real = |transport: &TransportKind| !transport.is_simulated();
    let bench = transports.iter().any(is_real).then(Bench::new).transpose().map_err(Failure::run)?;
    let progress = Progress::new(transports.len() * perf.sizes.len(), perf.output.quiet);
    let mut stage = Stage { report, progress };
    stage.report.line(format_args!("# {UNITS_NOTE}"))?;
    for test in tests(&perf) {
        match test {
            PerfTest::Echo => {
                let site = Site { bench: bench.as_ref(), fabric: fabric.as_ref() };
                echo(&perf, &assignments, &settings, transports, site, &mut stage)?;
            }
        }
    }
    Ok(())
}

/// What measurements run on; both are there when transports of both sorts are.
#[derive(Clone, Copy)]
struct Site<'a> {
    bench: Option<&'a Bench>,
    fabric: Option<&'a SimulatedFabric>,
}

fn echo(
    perf: &Perf,
    assignments: &[String],
    settings: &Settings,
    transports: &[TransportKind],
    site: Site<'_>,
    stage: &mut Stage,
) -> Result<(), Failure> {
    for &transport in transports {
        let calls = if transport.is_simulated() { CALLS_SIMULATED } else { CALLS };
        let test = EchoTest {
            assignments: assignments.to_vec(),
            settings: settings.clone(),
            buffers: Buffers::from(perf.buffers),
            calls: perf.count.unwrap_or(calls),
            lasting: perf.seconds,
            warmup_calls: perf.warmup,
            in_flight: perf.concurrent_ops as usize,
            clients: perf.clients as usize,
            servers: perf.servers as usize,
            seed: perf.tuning.seed,
        };
        match (site.bench, site.fabric) {
            (_, Some(fabric)) if transport.is_simulated() => {
                simulated_echo::run(&test, transport, &perf.sizes, fabric, stage)?;
            }
            (Some(bench), _) => echo::run(&test, transport, &perf.sizes, bench, stage)?,
            (None, _) => unreachable!("there is a bench or a fabric for every transport"),
        }
    }
    Ok(())
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

/// The tests asked for, each once; all when none is.
fn tests(perf: &Perf) -> Vec<PerfTest> {
    let mut tests = perf.tests.clone();
    tests.dedup();
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
