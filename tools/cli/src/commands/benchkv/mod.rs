//! `farcall benchkv`: daemons, clients on shared-memory slots, and where their time goes.

mod rank;
mod shown;
mod sweep;
mod vary;

use std::time::Instant;

use farcall_lab::run::benchkv::{BenchKv, BenchKvResult, run as run_bench};
use farcall_lab::run::blocks::Distance;

use self::shown::ShownRun;
use self::sweep::Sweep;
use crate::arguments::benchkv::BenchKvArguments;
use crate::commands::{record_distances, tracing};
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// Runs the benchmark, once or for each number of clients.
pub fn run(arguments: &BenchKvArguments) -> Result<(), Failure> {
    let bench = plan(arguments)?;
    arguments.over.check_transports(&[arguments.transport()])?;
    arguments.tuning.check_needed(&[arguments.transport()])?;
    arguments.varying.check_needed(&[arguments.transport()])?;
    arguments.over.check(arguments.ranks(), &format!("{} daemons", arguments.ranks()))?;
    let clients: Vec<u64> = arguments.sweep.as_ref().map_or(vec![arguments.clients], |sweep| sweep.0.clone());
    let measurements = clients.len() * bench.runs;
    arguments.tracing.check(&arguments.varying, "calls", measurements, "give --runs 1 and no --sweep")?;
    let report = Report::open(arguments.output.json.as_ref())?;
    let report = report.keep(&arguments.recording, &arguments.tuning, &bench.settings)?;
    let mut report = report.of_ranks(&arguments.over)?;
    let on = arguments.over.bench().map_err(Failure::run)?;
    if !arguments.varying.vary.is_empty() {
        return vary::run(arguments, &on, report);
    }
    let progress = Progress::new(clients.len(), arguments.output.quiet);
    let started = Instant::now();
    let mut sweep = arguments.sweep.as_ref().map(|_| Sweep::new(bench.clone()));
    for clients in clients {
        let bench = BenchKv { clients: clients as usize, ..bench.clone() };
        progress.begin(format_args!("{clients} clients"));
        let measured = || run_bench(&bench, &on);
        let (results, distance) =
            Distance::around(started, || on.distance_nanos(), measured).map_err(Failure::run)?;
        progress.step();
        let mut show = || match &mut sweep {
            Some(sweep) => sweep.show_points(&bench, &results, &mut report),
            None => show_runs(&bench, distance.after.distance_nanos, &results, &mut report),
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
    let ring_size = arguments.ring_size.map(|size| format!("ring.ring_bytes={size}"));
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
