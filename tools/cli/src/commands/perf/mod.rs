//! `farcall perf`: clusterperf's tests, on this machine or on a simulated fabric.

mod echo;
mod open_loop;
pub mod simulated;
mod store;
mod vary;
mod workload;

use farcall::TransportKind;
use farcall::parameters::{PARAMETERS, Value};
use farcall_lab::run::bench::Bench;
use farcall_lab::run::simulation::SimulatedFabric;
use farcall_lab::table::UNITS_NOTE;
use farcall_lab::units::Size;

pub use workload::Workload;
use workload::{Plan, Site, counted};

use crate::arguments::Perf;
use crate::commands::{record_distances, tracing};
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// The tests, in the order of the help; the first is run when none is named. A test is its file and its row
/// here.
pub const WORKLOADS: [&dyn Workload; 8] = [
    &echo::Echo,
    &open_loop::EchoWorkload,
    &store::BASIC,
    &store::READ_DIST,
    &store::WRITE_DIST,
    &store::READ_THROUGHPUT,
    &store::WRITE_THROUGHPUT,
    &store::MULTI_READ,
];

/// How to get a single measurement.
const ONE_MEASUREMENT: &str = "give one --transport, one of --sizes or --load, and one test that makes one: \
     echo, echoWorkload, readDist, writeDist, or with one client readThroughput or writeThroughput";

/// What measurements run on; both are there when transports of both sorts are.
struct Sites {
    bench: Option<Bench>,
    fabric: Option<SimulatedFabric>,
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
        [] => perf.varying.of_interest(perf.over.default_transports(TransportKind::ALL)),
        transports => transports.to_vec(),
    };
    perf.tuning.check_needed(&transports)?;
    perf.varying.check_needed(&transports)?;
    perf.over.check_transports(&transports)?;
    let fabric =
        simulated::fabric(perf.fabric.as_deref(), &perf.tuning.of_fabric(), &transports, perf.tuning.seed)?;
    let tests = tests(perf);
    tests.iter().try_for_each(|test| test.check(perf, &transports))?;
    if transports.iter().any(|transport| !transport.is_simulated()) {
        check_ranks(perf)?;
    }
    if !perf.handler.is_zero() && !tests.iter().all(|test| test.has_handler_time()) {
        return Err(Failure::Usage("--handler is for echo only".to_owned()));
    }
    let mut plans = Vec::new();
    for test in &tests {
        for &transport in &transports {
            let fabric = fabric.as_ref().filter(|_| transport.is_simulated());
            plans.push((transport, test.plan(perf, transport, fabric)?));
        }
    }
    let steps: usize = plans.iter().map(|(_, plan)| plan.measurements.len()).sum();
    perf.tracing.check(&perf.varying, "calls", steps, ONE_MEASUREMENT)?;
    let report = Report::open(perf.output.json.as_ref())?;
    let parameters = parameters(perf, &tests, &transports, fabric.as_ref())?;
    let report = report.keep(&perf.recording, &perf.tuning, &parameters)?.of_ranks(&perf.over)?;
    let is_real = |transport: &TransportKind| !transport.is_simulated();
    let bench =
        transports.iter().any(is_real).then(|| perf.over.bench()).transpose().map_err(Failure::run)?;
    let sites = Sites { bench, fabric };
    if perf.varying.vary.is_empty() {
        return measure(perf, &plans, &sites, report);
    }
    vary(perf, &tests, &transports, &sites, report)
}

/// Refuses more processes than the launcher has started.
fn check_ranks(perf: &Perf) -> Result<(), Failure> {
    match perf.nodes {
        Some(nodes) => perf.over.check(nodes, &format!("{nodes} nodes")),
        None => {
            let (servers, clients) = (perf.servers.unwrap_or(1), perf.clients.unwrap_or(1));
            let (server, client) = (counted(servers as usize, "server"), counted(clients as usize, "client"));
            perf.over.check(servers + clients, &format!("{server} and {client}"))
        }
    }
}

/// Makes all measurements, and reports each as soon as it is made.
fn measure(
    perf: &Perf,
    plans: &[(TransportKind, Plan)],
    sites: &Sites,
    mut report: Report,
) -> Result<(), Failure> {
    let steps = plans.iter().map(|(_, plan)| plan.measurements.len()).sum();
    let progress = Progress::new(steps, perf.output.quiet);
    report.line(format_args!("# {UNITS_NOTE}"))?;
    for (transport, plan) in plans {
        progress.suspend(|| plan.heading.iter().try_for_each(|line| report.line(line)))?;
        for measurement in &plan.measurements {
            let about = &measurement.about;
            progress.begin(format_args!("{transport} {about}"));
            let found = (measurement.run)(sites.of(*transport))?;
            progress.step();
            progress.suspend(|| {
                found.report(&mut report)?;
                if let Some(traced) = &found.traced {
                    tracing::show(about, traced, perf.tracing.file(), &mut report)?;
                }
                record_distances("perf", &format!("{transport} {about}"), &found.distances, &mut report)
            })?;
        }
    }
    report.end()
}

/// Repeats the tests over every transport with other parameters.
fn vary(
    perf: &Perf,
    tests: &[&dyn Workload],
    transports: &[TransportKind],
    sites: &Sites,
    mut report: Report,
) -> Result<(), Failure> {
    let varied: Option<Vec<_>> = tests.iter().map(|test| test.vary()).collect();
    let Some(varied) = varied else {
        return Err(Failure::Usage("--vary: of the tests of perf only echo can be varied".to_owned()));
    };
    for vary in varied {
        for &transport in transports {
            vary(perf, transport, sites.of(transport), &mut report)?;
        }
    }
    report.end()
}

/// The tests asked for, each once.
fn tests(perf: &Perf) -> Vec<&'static dyn Workload> {
    let mut tests: Vec<&dyn Workload> = Vec::new();
    for &test in &perf.tests {
        if !tests.iter().any(|other| other.name() == test.name()) {
            tests.push(test);
        }
    }
    if tests.is_empty() { vec![WORKLOADS[0]] } else { tests }
}

/// The lengths that are measured.
fn sizes<'a>(perf: &'a Perf, test: &dyn Workload) -> &'a [Size] {
    if perf.sizes.is_empty() { test.sizes() } else { &perf.sizes }
}

/// Refuses sizes that a transport does not carry.
fn check_sizes(perf: &Perf, test: &dyn Workload, transports: &[TransportKind]) -> Result<(), Failure> {
    let (_, settings) = perf.tuning.load()?;
    for transport in transports {
        let group = transport.name().split('+').next().unwrap_or_default();
        let name = format!("{group}.message_bytes_max");
        let limit = PARAMETERS.iter().find(|parameter| parameter.name == name);
        let Some(Value::Size(most)) = limit.map(|limit| limit.value(&settings)) else { continue };
        if let Some(size) = sizes(perf, test).iter().find(|size| size.0 as u64 > most) {
            return Err(Failure::Usage(format!(
                "--sizes: {size} is longer than the {} that {transport} carries; add --set {name}={size}",
                Size(most as usize),
            )));
        }
    }
    Ok(())
}

/// What the command line's assignments come after.
fn defaults(test: &dyn Workload, fabric: Option<&SimulatedFabric>) -> Vec<&'static str> {
    fabric.map_or_else(Vec::new, |fabric| test.defaults(fabric))
}

/// The assignments that take effect, for the record. A run has one list of them, so what is recorded has the
/// same ones.
fn parameters(
    perf: &Perf,
    tests: &[&dyn Workload],
    transports: &[TransportKind],
    fabric: Option<&SimulatedFabric>,
) -> Result<Vec<String>, Failure> {
    let measured =
        || tests.iter().flat_map(|&test| transports.iter().map(move |&transport| (test, transport)));
    let of = |(test, transport): (&dyn Workload, TransportKind)| {
        defaults(test, fabric.filter(|_| transport.is_simulated()))
    };
    let words =
        |(test, transport): (&dyn Workload, TransportKind)| format!("{} over {transport}", test.name());
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
