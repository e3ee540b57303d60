//! `farcall perf`: clusterperf's tests, on this machine or on a simulated fabric.

mod checks;
mod echo;
mod plans;
mod simulated;
mod simulated_echo;
mod store;
mod vary;
mod workload;

use farcall::TransportKind;
use farcall_lab::bench::Bench;
use farcall_lab::little::LittleCheck;
use farcall_lab::simulation::SimulatedFabric;
use farcall_lab::table::UNITS_NOTE;
use farcall_lab::units::Size;

use crate::arguments::{Perf, PerfTest};
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// The lengths of clusterperf's `echo` and `basic`.
const SIZES: [Size; 5] = [Size(100), Size(1 << 10), Size(10 << 10), Size(100 << 10), Size(1 << 20)];

/// The length of objects in its other tests.
const SIZE: [Size; 1] = [Size(100)];

/// How to get a single measurement.
const ONE_MEASUREMENT: &str = "give one --transport, one of --sizes or --load, and one test that makes one: echo, echoWorkload, \
     readDist, writeDist, or with one client readThroughput or writeThroughput";

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
    for &test in &tests {
        checks::check(test, perf, &transports)?;
    }
    if !perf.handler.is_zero() && tests != [PerfTest::Echo] {
        return Err(Failure::Usage("--handler is for echo only".to_owned()));
    }
    let steps: usize = tests.iter().map(|test| transports.len() * steps(perf, *test)).sum();
    perf.tracing.check(&perf.varying, "calls", steps, ONE_MEASUREMENT)?;
    let report = Report::open(perf.output.json.as_ref())?;
    let parameters = plans::parameters(perf, &tests, &transports, fabric.as_ref())?;
    let report = report.keep(&perf.recording, &perf.tuning, &parameters)?;
    let is_real = |transport: &TransportKind| !transport.is_simulated();
    let bench = transports.iter().any(is_real).then(Bench::new).transpose().map_err(Failure::run)?;
    let sites = Sites { bench, fabric };
    if !perf.varying.vary.is_empty() {
        return vary::run(perf, &tests, &transports, &sites, report);
    }
    let mut stage = Stage { report, progress: Progress::new(steps, perf.output.quiet) };
    stage.report.line(format_args!("# {UNITS_NOTE}"))?;
    for test in tests {
        for &transport in &transports {
            run_test(test, perf, transport, sites.of(transport), &mut stage)?;
        }
    }
    stage.report.end()
}

/// Runs one test over one transport.
fn run_test(
    test: PerfTest,
    perf: &Perf,
    transport: TransportKind,
    site: Site<'_>,
    stage: &mut Stage,
) -> Result<(), Failure> {
    let sizes = sizes(perf, test);
    match (test, site) {
        (PerfTest::Echo, Site::Machine(bench)) => {
            echo::run(&plans::echo(perf, site)?, transport, sizes, bench, perf.tracing.file(), stage)
        }
        (PerfTest::Echo, Site::Fabric(fabric)) => simulated_echo::run(
            &plans::echo(perf, site)?,
            transport,
            sizes,
            fabric,
            perf.tracing.file(),
            stage,
        ),
        (PerfTest::EchoWorkload, _) => {
            for plan in plans::workloads(perf, site)? {
                workload::run(&plan, transport, site, perf.tracing.file(), stage)?;
            }
            Ok(())
        }
        (test, Site::Machine(bench)) => {
            store::run(test, &plans::store(perf)?, transport, sizes, bench, perf.tracing.file(), stage)
        }
        (_, Site::Fabric(_)) => unreachable!("stores are not simulated, which was checked"),
    }
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

fn sizes(perf: &Perf, test: PerfTest) -> &[Size] {
    match test {
        _ if !perf.sizes.is_empty() => &perf.sizes,
        PerfTest::Echo | PerfTest::Basic => &SIZES,
        _ => &SIZE,
    }
}

/// How many measurements a test makes over one transport.
fn steps(perf: &Perf, test: PerfTest) -> usize {
    let sizes = sizes(perf, test).len();
    match test {
        PerfTest::Echo => sizes,
        PerfTest::EchoWorkload => perf.load.len(),
        test => sizes * store::measurements(test, perf.clients.unwrap_or(1) as usize).len(),
    }
}

fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// What a reader should know before believing the figures.
fn warnings(warm: bool, little: LittleCheck, in_flight: u64, blocks_discarded: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    if !warm {
        warnings.push("latencies never became steady".to_owned());
    }
    warnings.extend(little_warning(little, in_flight));
    if blocks_discarded > 0 {
        warnings.push(format!("{} left out because cores moved", counted(blocks_discarded, "block")));
    }
    warnings
}

/// What to say when the figures of a closed loop do not agree.
fn little_warning(little: LittleCheck, in_flight: u64) -> Option<String> {
    let implied = little.implied;
    (!little.holds())
        .then(|| format!("throughput and latency imply {implied:.2} calls in flight instead of {in_flight}"))
}
