//! `farcall perf`: clusterperf's tests.

mod echo;
mod store;

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall_kv::VALUE_BYTES_MAX;
use farcall_lab::bench::Bench;
use farcall_lab::echo::EchoTest;
use farcall_lab::exchange::Buffers;
use farcall_lab::little::LittleCheck;
use farcall_lab::store::StoreTest;
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

/// What tests run on, and where their results go.
struct Stage {
    bench: Bench,
    report: Report,
    progress: Progress,
}

/// Runs the tests for every transport and size.
pub fn run(perf: &Perf) -> Result<(), Failure> {
    let (assignments, settings) = perf.tuning.load()?;
    let transports = if perf.transport.is_empty() { TransportKind::ALL } else { &perf.transport };
    let tests = tests(perf);
    for &test in &tests {
        check_sizes(test, sizes(perf, test), transports, &settings)?;
    }
    let echo_test = echo_test(perf, assignments.clone(), settings);
    let store_test = store_test(perf, assignments);
    let report = Report::open(perf.output.json.as_ref())?;
    let bench = Bench::new().map_err(Failure::run)?;
    let steps = tests.iter().map(|&test| transports.len() * steps(perf, test)).sum();
    let mut stage = Stage { bench, report, progress: Progress::new(steps, perf.output.quiet) };
    stage.report.line(format_args!("# {UNITS_NOTE}"))?;
    for test in tests {
        let sizes = sizes(perf, test);
        match test {
            PerfTest::Echo => echo::run(&echo_test, transports, sizes, &mut stage)?,
            test => store::run(test, &store_test, transports, sizes, &mut stage)?,
        }
    }
    Ok(())
}

fn echo_test(perf: &Perf, assignments: Vec<String>, settings: Settings) -> EchoTest {
    EchoTest {
        assignments,
        settings,
        buffers: Buffers::from(perf.buffers),
        calls: perf.count,
        lasting: perf.seconds,
        warmup_calls: perf.warmup,
        in_flight: perf.concurrent_ops as usize,
        clients: perf.clients as usize,
        servers: perf.servers as usize,
        seed: perf.tuning.seed,
    }
}

fn store_test(perf: &Perf, assignments: Vec<String>) -> StoreTest {
    StoreTest {
        assignments,
        calls: perf.count,
        lasting: perf.seconds,
        warmup_calls: perf.warmup,
        in_flight: perf.concurrent_ops as usize,
        clients: perf.clients as usize,
        servers: perf.servers as usize,
        objects: perf.objects,
        seed: perf.tuning.seed,
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
        test => sizes * store::measurements(test, perf.clients as usize).len(),
    }
}

/// Refuses sizes that a transport does not carry, or a store does not hold.
fn check_sizes(
    test: PerfTest,
    sizes: &[Size],
    transports: &[TransportKind],
    settings: &Settings,
) -> Result<(), Failure> {
    if test != PerfTest::Echo
        && let Some(size) = sizes.iter().find(|size| size.0 > VALUE_BYTES_MAX)
    {
        let most = Size(VALUE_BYTES_MAX);
        return Err(Failure::Usage(format!("--sizes: {size} is longer than the {most} that a store holds")));
    }
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

fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// What a reader should know before believing the figures.
fn warnings(warm: bool, little: LittleCheck, in_flight: u64, blocks_discarded: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    if !warm {
        warnings.push("latencies never became steady".to_owned());
    }
    if !little.holds() {
        let implied = little.implied;
        warnings.push(format!(
            "throughput and latency imply {implied:.2} calls in flight instead of {in_flight}"
        ));
    }
    if blocks_discarded > 0 {
        warnings.push(format!("{} left out because cores moved", counted(blocks_discarded, "block")));
    }
    warnings
}
