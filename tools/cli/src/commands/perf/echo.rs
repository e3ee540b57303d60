//! `farcall perf echo`: round trips, beside the limit of this machine.

use std::path::Path;

use farcall::TransportKind;
use farcall_lab::bench::Bench;
use farcall_lab::echo::{EchoLimit, EchoOutcome, EchoTest, REQUEST_BYTES};
use farcall_lab::exchange::Buffers;
use farcall_lab::record::{Record, SCHEMA, Statistic, Unit};
use farcall_lab::table::{Row, latency_rows, row_name};
use farcall_lab::units::Size;
use serde_json::{Map, Value, json};

use super::{Stage, counted, warnings};
use crate::commands::{drift, tracing};
use crate::failure::Failure;
use crate::output::Report;

/// Runs the test over one transport, for every size.
pub fn run(
    test: &EchoTest,
    transport: TransportKind,
    sizes: &[Size],
    bench: &Bench,
    trace_file: Option<&Path>,
    stage: &mut Stage,
) -> Result<(), Failure> {
    let Stage { report, progress } = stage;
    progress.suspend(|| report.line(header(test, transport)))?;
    for &size in sizes {
        progress.begin(format_args!("{transport} echo{size}"));
        let outcome = test.run(bench, transport, size).map_err(Failure::run)?;
        progress.step();
        progress.suspend(|| {
            show(test, &outcome, report)?;
            if test.instruments.trace {
                let about = format!("echo{size}");
                tracing::show(&about, &outcome.traced, trace_file, report)?;
            }
            drift::record("perf", &format!("{transport} echo{size}"), &outcome.distances, report)
        })?;
    }
    Ok(())
}

pub fn header(test: &EchoTest, transport: TransportKind) -> String {
    let under_way = test.in_flight * test.clients;
    let (clients, servers) = (counted(test.clients, "client"), counted(test.servers, "server"));
    let buffers = buffers_word(test.buffers);
    format!("\n# {transport}: {under_way} in flight, {clients}, {servers}, payloads {buffers}")
}

pub fn buffers_word(buffers: Buffers) -> &'static str {
    match buffers {
        Buffers::Copied => "copied",
        Buffers::Read => "read",
        Buffers::Loaned => "loaned",
    }
}

fn show(test: &EchoTest, outcome: &EchoOutcome, report: &mut Report) -> Result<(), Failure> {
    let size = outcome.size;
    for row in latency_rows(&outcome.latency) {
        let name = row_name("echo", size, row.suffix);
        let what = format!("send {REQUEST_BYTES} B, receive {size}, {}", row.words);
        report.line(Row::latency(name.clone(), row.nanos, what))?;
        report.record(&record(test, outcome, name, row.nanos, Unit::Nanoseconds, row.statistic))?;
    }
    let name = row_name("echoBw", size, "");
    let bandwidth = outcome.received_bytes_per_second;
    let (in_flight, thousands) = (outcome.in_flight, outcome.calls_per_second / 1e3);
    let what =
        format!("bytes received over wall-clock time, {in_flight} in flight, {thousands:.1} K calls/s");
    report.line(Row::bandwidth(name.clone(), bandwidth, what))?;
    report.record(&record(test, outcome, name, bandwidth, Unit::BytesPerSecond, Statistic::OverWallClock))?;
    if let Some(limit) = &outcome.limit {
        show_limit(test, outcome, limit, report)?;
    }
    let (little, blocks_discarded) = (outcome.little, outcome.blocks_discarded);
    for warning in warnings(outcome.warm, little, outcome.in_flight, blocks_discarded) {
        report.line(format_args!("# echo{size}: {warning}"))?;
    }
    Ok(())
}

fn show_limit(
    test: &EchoTest,
    outcome: &EchoOutcome,
    limit: &EchoLimit,
    report: &mut Report,
) -> Result<(), Failure> {
    let (size, ratio) = (outcome.size, limit.ratio);
    let name = row_name("echo", size, ".limit");
    report.line(Row::latency(name.clone(), limit.p50_nanos, format!("{}, median", limit.words)))?;
    let statistic = Statistic::MedianOfBlocks;
    let blocks = outcome.blocks as u64;
    let limit_record = record(test, outcome, name, limit.p50_nanos, Unit::Nanoseconds, statistic);
    report.record(&Record { samples: blocks, ..limit_record })?;
    let name = row_name("echo", size, ".ratio");
    let what = format!("median over limit, cores {}, {}", outcome.regime, counted(outcome.blocks, "block"));
    report.line(Row { name: name.clone(), value: ratio.ratio, unit: "x", description: what })?;
    let ratio_record = record(test, outcome, name, ratio.ratio, Unit::Ratio, statistic);
    report.record(&Record { samples: blocks, ..ratio_record })
}

fn record(
    test: &EchoTest,
    outcome: &EchoOutcome,
    name: String,
    value: f64,
    unit: Unit,
    statistic: Statistic,
) -> Record {
    let mut more: Vec<(&str, Value)> = vec![
        ("size_bytes", outcome.size.0.into()),
        ("request_bytes", REQUEST_BYTES.into()),
        ("clients", test.clients.into()),
        ("servers", test.servers.into()),
        ("buffers", json!(buffers_word(test.buffers))),
        ("regime", json!(outcome.regime.to_string())),
        ("blocks", outcome.blocks.into()),
        ("blocks_discarded", outcome.blocks_discarded.into()),
        ("calls_per_second", outcome.calls_per_second.into()),
        ("implied_in_flight", outcome.little.implied.into()),
        ("warm", outcome.warm.into()),
        ("counters", json!(outcome.counters)),
        ("server_counters", json!(outcome.server_counters)),
        ("server_waited", json!(outcome.server_waited)),
    ];
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
