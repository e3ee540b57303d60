//! `farcall perf`: clusterperf's tests, on this machine or on a simulated fabric.

mod echo;
mod open_loop;
mod options;
pub mod simulated;
mod store;
mod vary;
mod workload;

use farcall::TransportKind;
use farcall::parameters::{PARAMETERS, Settings, Value};
use farcall_kv::durable::Level;
use farcall_lab::files::remove_scratch_folders;
use farcall_lab::run::bench::Bench;
use farcall_lab::run::simulation::SimulatedFabric;
use farcall_lab::run::world::Role;
use farcall_lab::table::UNITS_NOTE;
use farcall_lab::units::Size;

use workload::{Plan, Site, Vary};
pub use workload::{Workload, counted};

use crate::ahead::{Ahead, checks};
use crate::arguments::{Perf, check_once};
use crate::commands::{record_distances, tracing};
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::{Progress, before_signals_end};

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
    /// That of a transport; `None` where it could not be made.
    fn find(&self, transport: TransportKind) -> Option<Site<'_>> {
        match transport.is_simulated() {
            true => self.fabric.as_ref().map(Site::Fabric),
            false => self.bench.as_ref().map(Site::Machine),
        }
    }

    /// That of a transport, once everything is made.
    fn of(&self, transport: TransportKind) -> Site<'_> {
        self.find(transport).expect("what could not be made has ended the command")
    }
}

/// Runs the tests over every transport.
pub fn run(perf: &Perf) -> Result<(), Failure> {
    let perf = &perf.settled();
    let transports = match &*perf.transport {
        [] => perf.varying.of_interest(perf.over.default_transports(TransportKind::ALL)),
        transports => transports.to_vec(),
    };
    let tests = tests(perf);
    let is_real = |transport: &TransportKind| !transport.is_simulated();
    let mut ahead = Ahead::of("perf");
    check(perf, &tests, &transports, &mut ahead);
    let fabric = ahead.made(simulated::fabric(perf, &perf.tuning.of_fabric(), &transports));
    let bench = transports.iter().any(is_real).then(|| perf.over.bench().map_err(Failure::run));
    let bench = bench.and_then(|bench| ahead.made(bench));
    let plans = fabric.as_ref().map(|fabric| plans(perf, &tests, &transports, fabric.as_ref(), &mut ahead));
    let parameters = fabric.as_ref().map(|fabric| parameters(perf, &tests, &transports, fabric.as_ref()));
    let parameters = parameters.and_then(|parameters| ahead.made(parameters));
    let sites = Sites { bench, fabric: fabric.flatten() };
    check_vary(perf, &tests, &transports, &sites, &mut ahead);
    let Some(weights) = ahead.decide(&perf.rehearsal, &perf.output)? else { return Ok(()) };
    if perf.durability.replicas() > 0 {
        before_signals_end(remove_scratch_folders)?;
    }
    let report = Report::open(perf.output.json.as_ref())?;
    let report = report.keep(&perf.recording, &perf.tuning, &parameters.unwrap_or_default())?;
    let report = report.of_ranks(&perf.over)?;
    if perf.varying.vary.is_empty() {
        return measure(perf, &plans.unwrap_or_default(), sites, weights, report);
    }
    vary(perf, &tests, &transports, &sites, report)
}

/// What would fail, of what needs no plan.
fn check(perf: &Perf, tests: &[&'static dyn Workload], transports: &[TransportKind], ahead: &mut Ahead) {
    ahead.check(options::check(perf, tests));
    ahead.check(check_once("--transport", &perf.transport));
    ahead.check(check_once("--sizes", &perf.sizes));
    ahead.check(check_once("--load", &perf.load));
    ahead.check(perf.tuning.check_needed(transports));
    ahead.check(checks::files_read(&perf.tuning, &perf.over, transports));
    ahead.check(perf.varying.check_needed(&perf.tuning, transports));
    ahead.check(perf.over.check_transports(transports));
    ahead.check(checks::presence(&perf.transport));
    ahead.check(checks::launcher_of_mpi(&perf.transport));
    ahead.check(checks::destinations(&perf.recording, Some(&perf.tracing), &perf.output));
    // A log on the disk is there, and so is the registry of servers and backups.
    if perf.durability != Level::Memory {
        ahead.check(checks::temporary_files());
    }
    ahead.check(perf.faults.check(transports, hosts(perf, tests)));
    tests.iter().for_each(|test| ahead.check(test.check(perf, transports)));
    if transports.iter().any(|transport| !transport.is_simulated()) {
        ahead.check(check_ranks(perf));
    }
}

/// How many hosts each test has on a simulated fabric.
fn hosts<'a>(perf: &'a Perf, tests: &'a [&dyn Workload]) -> impl Iterator<Item = usize> + 'a {
    tests.iter().map(|test| {
        if test.name() == open_loop::EchoWorkload.name() {
            open_loop::hosts(perf)
        } else {
            simulated::hosts(perf)
        }
    })
}

/// What every test measures over every transport.
fn plans(
    perf: &Perf,
    tests: &[&dyn Workload],
    transports: &[TransportKind],
    fabric: Option<&SimulatedFabric>,
    ahead: &mut Ahead,
) -> Vec<(TransportKind, Plan)> {
    let mut plans = Vec::new();
    for test in tests {
        for &transport in transports {
            let fabric = fabric.filter(|_| transport.is_simulated());
            let plan = ahead.made(test.plan(perf, transport, fabric));
            plans.extend(plan.map(|plan| (transport, plan)));
        }
    }
    let cells = plans.iter().flat_map(|(transport, plan)| {
        plan.measurements.iter().map(|measurement| measurement.planned(*transport, &perf.varying))
    });
    let cells: Vec<_> = cells.collect();
    ahead.check(perf.tracing.check(&perf.varying, "calls", cells.len(), ONE_MEASUREMENT));
    ahead.plan(cells);
    plans
}

/// Refuses more processes than the launcher has started.
fn check_ranks(perf: &Perf) -> Result<(), Failure> {
    match perf.nodes {
        Some(nodes) => {
            perf.over.check_roles("a workload of --nodes", &[])?;
            perf.over.check(nodes, &format!("{nodes} nodes"))
        }
        None => {
            let (servers, clients) = (perf.servers.unwrap_or(1), perf.clients.unwrap_or(1));
            perf.over.check_roles("perf", &[(Role::Servers, servers), (Role::Clients, clients)])?;
            let (server, client) = (counted(servers as usize, "server"), counted(clients as usize, "client"));
            perf.over.check(servers + clients, &format!("{server} and {client}"))
        }
    }
}

/// What would fail with other parameters.
fn check_vary(
    perf: &Perf,
    tests: &[&dyn Workload],
    transports: &[TransportKind],
    sites: &Sites,
    ahead: &mut Ahead,
) {
    // Where none of the tests can be varied, the option was refused.
    if perf.varying.vary.is_empty() || tests.iter().all(|test| test.vary().is_none()) {
        return;
    }
    for vary in ahead.made(varied(tests)).into_iter().flatten() {
        for &transport in transports {
            let checked = sites.find(transport).map(|site| (vary.check)(perf, transport, site));
            ahead.check(checked.unwrap_or(Ok(())));
        }
    }
}

/// How the tests are repeated with other parameters.
fn varied(tests: &[&dyn Workload]) -> Result<Vec<Vary>, Failure> {
    let varied: Option<Vec<_>> = tests.iter().map(|test| test.vary()).collect();
    let sentence = "--vary: of the tests of perf only echo can be varied";
    varied.ok_or_else(|| Failure::Usage(sentence.to_owned()))
}

/// Makes all measurements, and reports each as soon as it is made.
fn measure(
    perf: &Perf,
    plans: &[(TransportKind, Plan)],
    mut sites: Sites,
    weights: Vec<f64>,
    mut report: Report,
) -> Result<(), Failure> {
    let progress = Progress::weighted(weights, perf.output.quiet);
    let hear = progress.hearer();
    if let Some(bench) = &mut sites.bench {
        bench.tell(progress.hearer());
    }
    report.line(format_args!("# {UNITS_NOTE}"))?;
    for (transport, plan) in plans {
        progress.suspend(|| plan.heading.iter().try_for_each(|line| report.line(line)))?;
        for measurement in &plan.measurements {
            let about = &measurement.about;
            progress.begin(format_args!("{transport} {about}"));
            let found = (measurement.run)(sites.of(*transport), &hear)?;
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
    for vary in varied(tests)? {
        for &transport in transports {
            (vary.run)(perf, transport, sites.of(transport), &mut report)?;
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
    let mut wrong = Vec::new();
    for transport in transports {
        let group = transport.name().split('+').next().unwrap_or_default();
        let name = format!("{group}.message_bytes_max");
        let limit = PARAMETERS.iter().find(|parameter| parameter.name == name);
        let Some(Value::Size(most)) = limit.map(|limit| limit.value(&settings)) else { continue };
        if let Some(size) = sizes(perf, test).iter().find(|size| size.0 as u64 > most) {
            wrong.push(Failure::Usage(format!(
                "--sizes: {size} is longer than the {} that {transport} carries; add --set {name}={size}",
                Size(most as usize),
            )));
        }
    }
    wrong.extend(transports.iter().filter_map(|&transport| not_lent(perf, test, transport, &settings)));
    Failure::all(wrong)
}

/// Of a lane's block memory one message takes this part at most (`BlockMemory::loan_bytes_max`), and no long
/// one passes otherwise.
const LENT_PART: u64 = 4;

/// Why a size does not fit the memory from which a lane lends it.
fn not_lent(
    perf: &Perf,
    test: &dyn Workload,
    transport: TransportKind,
    settings: &Settings,
) -> Option<Failure> {
    let lane = transport.name().strip_prefix("ring+")?;
    let name = format!("{lane}.block_bytes");
    let memory = PARAMETERS.iter().find(|parameter| parameter.name == name)?;
    let Value::Size(bytes) = memory.value(settings) else { return None };
    let size = sizes(perf, test).iter().find(|size| size.0 as u64 > bytes / LENT_PART)?;
    Some(Failure::Usage(format!(
        "--sizes: {size} is longer than the {} that {transport} lends of {name}={}; add --set {name}={}",
        Size((bytes / LENT_PART) as usize),
        Size(bytes as usize),
        Size((size.0 as u64 * LENT_PART).next_power_of_two() as usize),
    )))
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
