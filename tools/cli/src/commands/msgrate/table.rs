//! The table of `farcall msgrate`, and its records.

use std::path::Path;

use farcall_lab::record::{Figure, Origin, Record, Statistic, Unit};
use farcall_lab::run::msgrate::{MessageRate, MessageRateResult, RateCell, RateLine};
use farcall_lab::units::Size;
use serde_json::json;

use crate::arguments::Msgrate;
use crate::commands::{record_distances, tracing};
use crate::failure::Failure;
use crate::output::Report;

/// What stands in place of a regime when the cores never stood still.
const MOVED: &str = "moved";

/// What is above the rows.
pub fn head(msgrate: &Msgrate, report: &mut Report) -> Result<(), Failure> {
    let held_against = match (&*msgrate.raw, &*msgrate.mode) {
        ([], [first, ..]) => format!("that with {first}"),
        _ => "that of the library's fastest plain loop".to_owned(),
    };
    report.line(format_args!(
        "# {} messages, {} thread(s) a side; 1K = 1024 bytes, 1 GB = 10^9 bytes; ratio: the time over {held_against}, and its 95 % \
         interval from 5 runs on",
        msgrate.messages, msgrate.threads
    ))?;
    report.line(
        "# transport  mode                 size  in flight   seconds  ns/message  M messages/s    GB/s  cores  ratio",
    )
}

/// Rates of the same one are measured in turns.
pub fn cell(rate: &MessageRate) -> (&str, usize, usize) {
    (&rate.transport, rate.message_bytes, rate.in_flight)
}

/// What the table calls a row.
pub fn way(rate: &MessageRate) -> String {
    rate.raw.map_or_else(|| rate.mode.to_string(), |raw| format!("raw {raw}"))
}

/// A rate in words.
pub fn full_name(rate: &MessageRate) -> String {
    format!("{} {} {}", rate.transport, way(rate), cell_name(rate))
}

fn cell_name(rate: &MessageRate) -> String {
    format!("{} B, {} in flight", Size(rate.message_bytes), rate.in_flight)
}

/// Shows what was found in a cell, and writes the trace of a single measurement to a file.
pub fn show(cell: &RateCell, trace_file: Option<&Path>, report: &mut Report) -> Result<(), Failure> {
    if let Some(rate) = cell.rates().first() {
        record_distances(
            "msgrate",
            &format!("{} {}", rate.transport, cell_name(rate)),
            cell.distances(),
            report,
        )?;
    }
    for line in cell.lines() {
        match &line.result {
            Ok(result) => show_result(&line, result, report)?,
            Err(why) => show_failure(&line, why, report)?,
        }
        if let Ok(MessageRateResult { traced: Some(traced), .. }) = &line.result {
            tracing::show_messages(&full_name(&line.rate), traced, trace_file, report)?;
        }
    }
    Ok(())
}

/// Of a plain loop; those of farcall end the command.
fn show_failure(line: &RateLine, why: &str, report: &mut Report) -> Result<(), Failure> {
    let (rate, size) = (&line.rate, Size(line.rate.message_bytes).to_string());
    report.line(format_args!(
        "{:<12} {:<18} {size:>6} {:>10}  failed: {why}",
        rate.transport,
        way(rate),
        rate.in_flight
    ))
}

fn show_result(line: &RateLine, result: &MessageRateResult, report: &mut Report) -> Result<(), Failure> {
    let rate = &line.rate;
    let seconds = result.elapsed.as_secs_f64();
    let per_second = result.messages as f64 / seconds;
    let size = Size(rate.message_bytes).to_string();
    let row = format!(
        "{:<12} {:<18} {size:>6} {:>10} {seconds:>9.3} {:>11.2} {:>13.3} {:>7.3}  {:<5}  {}{}",
        rate.transport,
        way(rate),
        rate.in_flight,
        1e9 / per_second,
        per_second / 1e6,
        per_second * rate.message_bytes as f64 / 1e9,
        cores(line),
        ratio(line),
        result.losses.words(),
    );
    report.line(row.trim_end())?;
    if let Some(few) = result.losses.too_few(result.messages) {
        report.line(format_args!("#   {few}"))?;
    }
    report.record(&record(line, result, "rate", per_second, Unit::PerSecond))?;
    report.record(&record(line, result, "time", 1e9 / per_second, Unit::Nanoseconds))
}

fn cores(line: &RateLine) -> String {
    line.regime.map_or_else(|| MOVED.to_owned(), |regime| regime.to_string())
}

fn ratio(line: &RateLine) -> String {
    let Some(ratio) = line.ratio else { return String::new() };
    let interval = ratio.interval.map(|(low, high)| format!(" [{low:.3}-{high:.3}]"));
    format!("{:.3}{}", ratio.ratio, interval.unwrap_or_default())
}

fn record(line: &RateLine, result: &MessageRateResult, name: &str, value: f64, unit: Unit) -> Record {
    let RateLine { rate, ratio, .. } = line;
    let (way, size) = (way(rate).replace(' ', "-"), Size(rate.message_bytes));
    let trace = result.traced.as_ref().and_then(tracing::parts_of_messages);
    let interval = ratio.and_then(|ratio| ratio.interval);
    let more = [
        ("mode", way.clone().into()),
        ("message_bytes", rate.message_bytes.into()),
        ("threads", rate.threads.into()),
        ("seconds", result.elapsed.as_secs_f64().into()),
        ("regime", json!(line.regime.map(|regime| regime.to_string()))),
        ("blocks_discarded", line.discarded.into()),
        ("losses", json!(result.losses)),
        ("sender", json!(result.sender)),
        ("receiver", json!(result.receiver)),
        ("time_ratio", json!(ratio.map(|ratio| ratio.ratio))),
        ("ratio_low", json!(interval.map(|(low, _)| low))),
        ("ratio_high", json!(interval.map(|(_, high)| high))),
    ];
    let origin = Origin {
        command: "msgrate",
        test: &way,
        transport: &rate.transport,
        samples: result.messages,
        in_flight: (rate.in_flight * rate.threads) as u64,
    };
    let name = format!("{way}.{size}x{}.{name}", rate.in_flight);
    Figure::new(name, value, unit, Statistic::OverWallClock).record(origin, more).with(trace)
}
