//! `farcall perf echo` on a simulated fabric, beside the figures that were published for such a one.

use std::path::Path;

use farcall::TransportKind;
use farcall_lab::echo::{EchoTest, REQUEST_BYTES, SimulatedEcho};
use farcall_lab::published::{Published, clusterperf_settings};
use farcall_lab::record::{Record, SCHEMA, Statistic, Unit};
use farcall_lab::simulation::SimulatedFabric;
use farcall_lab::table::{Row, latency_rows, row_name};
use farcall_lab::units::Size;
use serde_json::{Map, Value, json};

use super::echo::{buffers_word, header};
use super::simulated::{run_fields, run_note, simulation_failure};
use super::{Stage, little_warning};
use crate::commands::tracing;
use crate::failure::Failure;
use crate::output::Report;

/// Runs the test over one transport, for every size.
pub fn run(
    test: &EchoTest,
    transport: TransportKind,
    sizes: &[Size],
    fabric: &SimulatedFabric,
    trace_file: Option<&Path>,
    stage: &mut Stage,
) -> Result<(), Failure> {
    let Stage { report, progress } = stage;
    let profile = &fabric.profile;
    progress.suspend(|| {
        report.line(header(test, transport))?;
        report.line(format_args!("# times are simulated, on {}: {}", profile.name, profile.description))?;
        match clusterperf_settings(&profile.name) {
            [] => Ok(()),
            like => report.line(format_args!(
                "# as the published ones unless --set says otherwise: {}",
                like.join(", ")
            )),
        }
    })?;
    for &size in sizes {
        progress.begin(format_args!("{transport} echo{size}"));
        let outcome = test.simulate(fabric, transport, size).map_err(simulation_failure)?;
        progress.step();
        progress.suspend(|| {
            show(test, &outcome, report)?;
            if test.instruments.trace {
                let about = format!("echo{size}");
                tracing::show(&about, &outcome.traced, trace_file, report)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn show(test: &EchoTest, outcome: &SimulatedEcho, report: &mut Report) -> Result<(), Failure> {
    let size = outcome.size;
    for row in latency_rows(&outcome.latency) {
        let name = row_name("echo", size, row.suffix);
        let what = format!("send {REQUEST_BYTES} B, receive {size}, {}", row.words);
        let published = outcome.published(&name);
        let in_table = published.map(|published| Row::latency(String::new(), published.value, String::new()));
        let what = beside(what, published.zip(in_table), row.nanos);
        report.line(Row::latency(name.clone(), row.nanos, what))?;
        report.record(&record(test, outcome, name, row.nanos, Unit::Nanoseconds, row.statistic))?;
    }
    let name = row_name("echoBw", size, "");
    let bandwidth = outcome.received_bytes_per_second;
    let published = outcome.published(&name);
    let in_table = published.map(|published| Row::bandwidth(String::new(), published.value, String::new()));
    let what = format!("bytes received over simulated time, {:.1} K calls/s", outcome.calls_per_second / 1e3);
    let what = beside(what, published.zip(in_table), bandwidth);
    report.line(Row::bandwidth(name.clone(), bandwidth, what))?;
    report.record(&record(test, outcome, name, bandwidth, Unit::BytesPerSecond, Statistic::OverWallClock))?;
    if let Some(warning) = little_warning(outcome.little, outcome.in_flight) {
        report.line(format_args!("# echo{size}: {warning}"))?;
    }
    report.line(format_args!("# echo{size}: {}", run_note(&outcome.run)))
}

/// Adds the published figure and how far ours is off.
fn beside(what: String, published: Option<(Published, Row)>, ours: f64) -> String {
    let Some((published, Row { value, unit, .. })) = published else { return what };
    format!("{what}; published {value:.3} {unit}, {:+.1} %", published.error_of(ours) * 100.0)
}

fn record(
    test: &EchoTest,
    outcome: &SimulatedEcho,
    name: String,
    value: f64,
    unit: Unit,
    statistic: Statistic,
) -> Record {
    let published = outcome.published(&name);
    let mut more: Vec<(&str, Value)> = vec![
        ("size_bytes", outcome.size.0.into()),
        ("request_bytes", REQUEST_BYTES.into()),
        ("clients", test.clients.into()),
        ("servers", test.servers.into()),
        ("buffers", json!(buffers_word(test.buffers))),
        ("calls_per_second", outcome.calls_per_second.into()),
        ("implied_in_flight", outcome.little.implied.into()),
        ("counters", json!(outcome.counters)),
        ("published", json!(published.map(|published| published.value))),
        ("error", json!(published.map(|published| published.error_of(value)))),
    ];
    more.extend(run_fields(&outcome.run));
    more.extend(tracing::field(statistic, &outcome.traced));
    Record {
        schema: SCHEMA,
        command: "perf",
        test: "echo".to_owned(),
        transport: outcome.transport.name().to_owned(),
        name,
        value,
        unit,
        statistic,
        samples: outcome.calls,
        in_flight: outcome.in_flight,
        more: Map::from_iter(more.into_iter().map(|(name, value)| (name.to_owned(), value))),
    }
}
