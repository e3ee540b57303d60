//! `farcall perf echoWorkload`: messages of many lengths at a given load, and how much longer they take than alone.

use std::path::Path;
use std::time::Instant;

use farcall::TransportKind;
use farcall_lab::blocks::Distance;
use farcall_lab::record::{Record, SCHEMA, Statistic, Unit};
use farcall_lab::simulation::SimulatedRun;
use farcall_lab::workload::{Reply, Roles, SizeBand, WorkloadOutcome, WorkloadTest};
use serde_json::{Map, Value, json};

use super::simulated::{run_fields, run_note, simulation_failure};
use super::{Site, Stage, counted};
use crate::commands::{drift, tracing};
use crate::failure::Failure;
use crate::output::Report;

/// Counters that explain slowdowns.
const TELLING_COUNTERS: [&str; 4] = ["retransmissions", "resends_sent", "busy_sent", "checksum_errors"];

/// Runs the test over one transport, for one load.
pub fn run(
    test: &WorkloadTest,
    transport: TransportKind,
    site: Site<'_>,
    trace_file: Option<&Path>,
    stage: &mut Stage,
) -> Result<(), Failure> {
    let Stage { report, progress } = stage;
    progress.begin(format_args!("{transport} {} at {:.0} %", test.mix, test.load * 100.0));
    let (outcome, simulation, distance) = match site {
        Site::Machine(bench) => {
            let run = || test.run(bench, transport);
            let (outcome, distance) =
                Distance::around(Instant::now(), || bench.distance_nanos(), run).map_err(Failure::run)?;
            (outcome, None, Some(distance))
        }
        Site::Fabric(fabric) => {
            let (outcome, run) = test.simulate(fabric, transport).map_err(simulation_failure)?;
            (outcome, Some(run), None)
        }
    };
    progress.step();
    progress.suspend(|| {
        show(test, transport, &outcome, simulation.as_ref(), report)?;
        let about = format!("{} at {:.0} %", test.mix, test.load * 100.0);
        if test.trace {
            tracing::show(&about, &outcome.traced, trace_file, report)?;
        }
        drift::record("perf", &format!("{transport} {about}"), distance.as_slice(), report)
    })
}

fn show(
    test: &WorkloadTest,
    transport: TransportKind,
    outcome: &WorkloadOutcome,
    simulation: Option<&SimulatedRun>,
    report: &mut Report,
) -> Result<(), Failure> {
    report.line(header(test, transport))?;
    if let Some(run) = simulation {
        report.line(format_args!("# times are simulated, on {}", run.profile))?;
    }
    report.line(format_args!(
        "{:<6} {:>19} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "decile", "bytes", "samples", "min us", "p50 us", "p99 us", "p50 slow", "p99 slow"
    ))?;
    for band in &outcome.bands {
        report.line(line(band))?;
        for (name, value, unit, statistic) in figures(test, band) {
            let mut more = fields(test, outcome, band, simulation);
            if band.decile.is_none() && unit == Unit::Nanoseconds {
                let trace = tracing::field(statistic, &outcome.traced);
                more.extend(trace.map(|(name, value)| (name.to_owned(), value)));
            }
            report.record(&Record {
                schema: SCHEMA,
                command: "perf",
                test: "echoWorkload".to_owned(),
                transport: transport.name().to_owned(),
                name,
                value,
                unit,
                statistic,
                samples: band.latency.samples,
                in_flight: outcome.outstanding_peak,
                more,
            })?;
        }
    }
    report.line(summary(test, outcome))?;
    match simulation {
        Some(run) => report.line(format_args!("# {}", run_note(run))),
        None => Ok(()),
    }
}

fn header(test: &WorkloadTest, transport: TransportKind) -> String {
    let ranks = match test.roles {
        Roles::Everyone(nodes) => format!("{} to each other", counted(nodes, "node")),
        Roles::Apart { clients, servers } => {
            format!("{} to {}", counted(clients, "client"), counted(servers, "server"))
        }
    };
    format!(
        "\n# {transport}: {} (mean {:.0} B) at {:.0} % of {:.0} Gb/s, {ranks}, {}",
        test.mix,
        test.mix.mean_bytes(),
        test.load * 100.0,
        test.link_bits_per_second / 1e9,
        reply_words(test.reply),
    )
}

fn reply_words(reply: Reply) -> &'static str {
    match reply {
        Reply::Ack => "acknowledged",
        Reply::Echo => "echoed",
    }
}

/// A line of the table; what has too few samples is left open.
fn line(band: &SizeBand) -> String {
    let micros = |nanos: Option<u64>| open_or(nanos.map(|nanos| format!("{:.2}", nanos as f64 / 1e3)));
    let slowdown = |slowdown: Option<f64>| open_or(slowdown.map(|slowdown| format!("{slowdown:.2}")));
    let bytes = format!("{}-{}", band.bytes_min, band.bytes_max);
    let latency = &band.latency;
    format!(
        "{:<6} {bytes:>19} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9}",
        band_name(band),
        latency.samples,
        micros(Some(latency.min_nanos)),
        micros(latency.p50_nanos),
        micros(latency.p99_nanos),
        slowdown(band.slowdown.p50),
        slowdown(band.slowdown.p99),
    )
}

fn open_or(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn band_name(band: &SizeBand) -> String {
    band.decile.map_or_else(|| "all".to_owned(), |decile| decile.to_string())
}

/// What stands under the table.
fn summary(test: &WorkloadTest, outcome: &WorkloadOutcome) -> String {
    let counters = TELLING_COUNTERS.map(|name| format!("{name} {}", outcome.counted(name))).join(", ");
    let on_links = outcome.wire_load.map_or_else(String::new, |load| {
        let warning = if load > 1.0 { ", more than they carry" } else { "" };
        format!(" ({:.1} % of the links with what the protocol adds{warning})", load * 100.0)
    });
    format!(
        "# offered {:.1} %{on_links}, drawn {:.1} %, achieved {:.1} %; at most {} under way for a client, {} had to wait to start; {counters}",
        test.load * 100.0,
        outcome.drawn_load * 100.0,
        outcome.achieved_load * 100.0,
        counted(outcome.outstanding_peak as usize, "message"),
        counted(outcome.waited as usize, "message"),
    )
}

/// The figures of a band with the names of their records.
fn figures(test: &WorkloadTest, band: &SizeBand) -> Vec<(String, f64, Unit, Statistic)> {
    let (latency, slowdown) = (&band.latency, &band.slowdown);
    let nanos = |nanos: u64| nanos as f64;
    let figures = [
        ("", latency.p50_nanos.map(nanos), Unit::Nanoseconds, Statistic::P50),
        (".min", Some(nanos(latency.min_nanos)), Unit::Nanoseconds, Statistic::Min),
        (".99", latency.p99_nanos.map(nanos), Unit::Nanoseconds, Statistic::P99),
        (".slowdown", slowdown.p50, Unit::Ratio, Statistic::P50),
        (".slowdown.mean", Some(slowdown.mean), Unit::Ratio, Statistic::Mean),
        (".slowdown.99", slowdown.p99, Unit::Ratio, Statistic::P99),
        (".slowdown.max", Some(slowdown.max), Unit::Ratio, Statistic::Max),
    ];
    let load = test.load * 100.0;
    let row = format!("echoWorkload.{}.{load:.0}.{}", test.mix, band_name(band));
    let figure = |(suffix, value, unit, statistic)| {
        let value: Option<f64> = value;
        value.map(|value| (format!("{row}{suffix}"), value, unit, statistic))
    };
    figures.into_iter().filter_map(figure).collect()
}

fn fields(
    test: &WorkloadTest,
    outcome: &WorkloadOutcome,
    band: &SizeBand,
    simulation: Option<&SimulatedRun>,
) -> Map<String, Value> {
    let (clients, servers) = match test.roles {
        Roles::Everyone(nodes) => (nodes, nodes),
        Roles::Apart { clients, servers } => (clients, servers),
    };
    let mut fields: Vec<(&str, Value)> = vec![
        ("workload", test.mix.name().into()),
        ("load", test.load.into()),
        ("drawn_load", outcome.drawn_load.into()),
        ("achieved_load", outcome.achieved_load.into()),
        ("wire_load", json!(outcome.wire_load)),
        ("link_bits_per_second", test.link_bits_per_second.into()),
        ("decile", band.decile.into()),
        ("bytes_min", band.bytes_min.into()),
        ("bytes_max", band.bytes_max.into()),
        ("reply", reply_words(test.reply).into()),
        ("clients", clients.into()),
        ("servers", servers.into()),
        ("waited", outcome.waited.into()),
        ("counters", json!(outcome.counters)),
    ];
    match simulation {
        Some(run) => fields.extend(run_fields(run)),
        None => fields.push(("seed", test.seed.into())),
    }
    Map::from_iter(fields.into_iter().map(|(name, value)| (name.to_owned(), value)))
}
