//! `farcall benchkv`: daemons, clients on shared-memory slots, and where their time goes.

mod rank;
mod shown;
mod sweep;
mod vary;

use std::time::{Duration, Instant};

use farcall_lab::run::bench::Bench;
use farcall_lab::run::benchkv::{BenchKv, BenchKvResult, run as run_bench};
use farcall_lab::run::blocks::Distance;
use farcall_lab::run::world::Role;

use self::shown::ShownRun;
use self::sweep::Sweep;
use crate::ahead::{Ahead, Lasts, Planned, checks};
use crate::arguments::benchkv::BenchKvArguments;
use crate::arguments::{check_once, check_option_needed};
use crate::commands::perf::counted;
use crate::commands::{record_distances, tracing};
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// Runs the benchmark, once or for each number of clients.
pub fn run(arguments: &BenchKvArguments) -> Result<(), Failure> {
    let mut ahead = Ahead::of("benchkv");
    let clients: Vec<u64> = arguments.sweep.as_ref().map_or(vec![arguments.clients], |sweep| sweep.0.clone());
    check(arguments, clients.len(), &mut ahead);
    let bench = ahead.made(plan(arguments));
    ahead.check(vary::check(arguments));
    ahead.plan(clients.iter().map(|&clients| planned(arguments, clients)));
    let on = ahead.made(arguments.over.bench().map_err(Failure::run));
    if let Some(on) = &on {
        ahead.check(vary::check_parameters(arguments, on));
    }
    let weights = ahead.decide(&arguments.rehearsal, &arguments.output)?;
    let (Some(weights), Some(bench), Some(on)) = (weights, bench, on) else { return Ok(()) };
    let report = Report::open(arguments.output.json.as_ref())?;
    let report = report.keep(&arguments.recording, &arguments.tuning, &bench.settings)?;
    let report = report.of_ranks(&arguments.over)?;
    if !arguments.varying.vary.is_empty() {
        return vary::run(arguments, &on, report);
    }
    let benches = clients.into_iter().map(|clients| BenchKv { clients: clients as usize, ..bench.clone() });
    measure(arguments, &benches.collect::<Vec<_>>(), &on, weights, report)
}

/// What would fail, of what needs no plan.
fn check(arguments: &BenchKvArguments, cells: usize, ahead: &mut Ahead) {
    let transport = [arguments.transport()];
    let sweep = arguments.sweep.as_ref().map_or(&[][..], |sweep| &sweep.0);
    ahead.check(check_once("--sweep clients", sweep));
    ahead.check(arguments.over.check_transports(&transport));
    ahead.check(arguments.tuning.check_needed(&transport));
    if arguments.ring_size.is_some() {
        ahead.check(check_option_needed("--ring-size", RING_BYTES, transport[0]));
    }
    ahead.check(checks::files_read(&arguments.tuning, &arguments.over, &transport));
    ahead.check(arguments.varying.check_needed(&arguments.tuning, &transport));
    ahead.check(checks::presence(&transport));
    ahead.check(checks::destinations(&arguments.recording, Some(&arguments.tracing), &arguments.output));
    let ranks = arguments.ranks();
    ahead.check(arguments.over.check(ranks, &format!("{ranks} daemons")));
    ahead.check(arguments.over.check_roles("benchkv", &[(Role::Daemons, ranks)]));
    let (measurements, how) = (cells * arguments.runs as usize, "give --runs 1 and no --sweep");
    ahead.check(arguments.tracing.check(&arguments.varying, "calls", measurements, how));
}

/// The parameter that `--ring-size` stands for.
const RING_BYTES: &str = "ring.ring_bytes";

/// What a daemon and its clients take to start, to fill the store and to warm up.
const START: Duration = Duration::from_secs(1);

/// A number of clients as a cell of a plan.
fn planned(arguments: &BenchKvArguments, clients: u64) -> Planned {
    let name = format!("{} {}", arguments.transport(), counted(clients as usize, "client"));
    let repeats = counted(arguments.runs as usize, "run");
    let lasts = Lasts::About(arguments.seconds * arguments.runs as u32 + START);
    arguments.varying.planned(Planned { name, repeats, lasts, memory: None })
}

/// Runs all of them, and reports each as soon as it has run.
fn measure(
    arguments: &BenchKvArguments,
    benches: &[BenchKv],
    on: &Bench,
    weights: Vec<f64>,
    mut report: Report,
) -> Result<(), Failure> {
    let progress = Progress::weighted(weights, arguments.output.quiet);
    let started = Instant::now();
    let mut sweep = arguments.sweep.as_ref().and_then(|_| Some(Sweep::new(benches.first()?.clone())));
    for bench in benches {
        progress.begin(counted(bench.clients, "client"));
        let measured = || run_bench(bench, on);
        let (results, distance) =
            Distance::around(started, || on.distance_nanos(), measured).map_err(Failure::run)?;
        progress.step();
        let mut show = || match &mut sweep {
            Some(sweep) => sweep.show_points(bench, &results, &mut report),
            None => show_runs(bench, distance.after.distance_nanos, &results, &mut report),
        };
        progress.suspend(&mut show)?;
        progress.suspend(|| {
            for result in results.iter().filter(|_| bench.trace) {
                let about = "calls between daemons";
                tracing::show(about, &result.traced, arguments.tracing.file(), &mut report)?;
            }
            let of = format!("{} benchkv, {} clients", bench.transport, bench.clients);
            record_distances("benchkv", &of, &[distance], &mut report)
        })?;
    }
    if let Some(sweep) = sweep {
        sweep.show_knees(&mut report)?;
    }
    report.end()
}

fn show_runs(
    bench: &BenchKv,
    distance_nanos: f64,
    results: &[BenchKvResult],
    report: &mut Report,
) -> Result<(), Failure> {
    report.line(header(bench, distance_nanos))?;
    for (run, result) in results.iter().enumerate() {
        ShownRun { bench, run, result }.show(report)?;
    }
    Ok(())
}

fn plan(arguments: &BenchKvArguments) -> Result<BenchKv, Failure> {
    // What is said by name, or varied, comes after it.
    let ring_size = arguments.ring_size.map(|size| format!("{RING_BYTES}={size}"));
    let (settings, _) = arguments.tuning.load_with(ring_size.as_deref().as_slice())?;
    Ok(BenchKv {
        transport: arguments.transport().name().to_owned(),
        settings,
        ranks: arguments.ranks() as usize,
        clients: arguments.clients as usize,
        queue_depth: arguments.queue_depth as usize,
        keys: arguments.keys,
        read_ratio: arguments.read_ratio,
        distribution: arguments.distribution,
        lasting: arguments.seconds,
        runs: arguments.runs as usize,
        seed: arguments.tuning.seed,
        trace: arguments.tracing.is_on(),
    })
}

fn header(bench: &BenchKv, distance_nanos: f64) -> String {
    let apart = match distance_nanos.is_finite() {
        true => format!("cores {distance_nanos:.0} ns apart"),
        false => "at the ranks of a launcher".to_owned(),
    };
    format!(
        "# {}: {} ranks, {} clients each, queue depth {}, {} keys a rank, read ratio {}, {}; {apart}",
        bench.transport,
        bench.ranks,
        bench.clients,
        bench.queue_depth,
        bench.keys,
        bench.read_ratio,
        bench.distribution
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    #[test]
    fn the_size_of_rings_by_option_comes_before_what_is_set_by_name() {
        let line = ["farcall", "benchkv", "--ring-size", "64K", "--set", "ring.ring_bytes=128K"];
        let Command::Benchkv(arguments) = Arguments::parse_from(line).command else {
            panic!("{line:?} is benchkv")
        };
        let settings = plan(&arguments).expect("it is a plan").settings;
        assert_eq!(settings[settings.len() - 2..], ["ring.ring_bytes=64K", "ring.ring_bytes=128K"]);
    }
}
