//! `farcall msgrate`: tagged messages from one process to another.

mod vary;

use core::time::Duration;
use std::path::Path;
use std::time::Instant;

use farcall::TransportKind;
use farcall_lab::bench::Bench;
use farcall_lab::blocks::Distance;
use farcall_lab::msgrate::{MessageRate, MessageRateResult, Mode, Raw, run as measure};
use farcall_lab::record::{Record, SCHEMA, Statistic, Unit};
use farcall_lab::units::Size;
use serde_json::{Map, Value};

use crate::arguments::Msgrate;
use crate::commands::{drift, tracing};
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// Measures every mode, size and number in flight, over every transport.
pub fn run(msgrate: &Msgrate) -> Result<(), Failure> {
    let (assignments, _) = msgrate.tuning.load()?;
    if !msgrate.raw.is_empty() && msgrate.threads > 1 {
        return Err(Failure::Usage("the loops of --raw have one thread: leave --threads out".to_owned()));
    }
    check_raw(msgrate)?;
    let rows: Vec<MessageRate> = rows(msgrate, &assignments).collect();
    check_trace(msgrate, rows.len())?;
    let report = Report::open(msgrate.output.json.as_ref())?;
    let mut report = report.keep(&msgrate.recording, &msgrate.tuning, &assignments)?;
    if !msgrate.varying.vary.is_empty() {
        return vary::run(msgrate, report);
    }
    let progress = Progress::new(rows.len() * msgrate.runs as usize, msgrate.output.quiet);
    progress.suspend(|| {
        report.line(format_args!(
            "# {} messages, {} thread(s) a side; 1K = 1024 bytes, 1 GB = 10^9 bytes",
            msgrate.messages, msgrate.threads
        ))?;
        report.line(
            "# transport  mode                 size  in flight   seconds  ns/message  M messages/s    GB/s",
        )
    })?;
    let reference =
        msgrate.recording.record.as_ref().map(|_| Bench::new().map_err(Failure::run)).transpose()?;
    // What is compared is measured in turns.
    for compared in rows.chunk_by(|a, b| cell(a) == cell(b)) {
        let mut results: Vec<Vec<MessageRateResult>> = vec![Vec::new(); compared.len()];
        for _ in 0..msgrate.runs {
            for (rate, results) in compared.iter().zip(&mut results) {
                let (transport, size) = (&rate.transport, Size(rate.message_bytes));
                let what = way(rate);
                progress.begin(format_args!("{transport} {what} {size} B, {} in flight", rate.in_flight));
                results.push(beside_reference(rate, reference.as_ref(), &mut report)?);
                progress.step();
            }
        }
        for (rate, results) in compared.iter().zip(&mut results) {
            let result = median(results);
            progress.suspend(|| {
                show(rate, &result, &mut report)?;
                show_trace(rate, &result, msgrate.tracing.file(), &mut report)
            })?;
        }
    }
    report.end()
}

/// Measures, and around that how far the cores are apart where the run is kept.
fn beside_reference(
    rate: &MessageRate,
    reference: Option<&Bench>,
    report: &mut Report,
) -> Result<MessageRateResult, Failure> {
    let measured = || measure(rate).map_err(Failure::run);
    let Some(bench) = reference else { return measured() };
    let apart = || bench.distance_nanos().map_err(Failure::run);
    let (result, distance) = Distance::around(Instant::now(), apart, measured)?;
    let of = format!("{} {} {}x{}", rate.transport, way(rate), Size(rate.message_bytes), rate.in_flight);
    drift::record("msgrate", &of, &[distance], report)?;
    Ok(result)
}

/// All that is measured; rows of the same transport, size and number in flight follow each other.
fn rows(msgrate: &Msgrate, assignments: &[String]) -> impl Iterator<Item = MessageRate> {
    let cells = msgrate.transport.iter().flat_map(move |&transport| {
        let sizes = msgrate.size.iter();
        sizes.flat_map(move |&size| msgrate.inflight.iter().map(move |&flight| (transport, size, flight)))
    });
    cells.flat_map(move |(transport, size, in_flight)| {
        let modes = msgrate.mode.iter().map(|&mode| (mode, None));
        let raws = msgrate.raw.iter();
        // A raw loop is that of futures: slots that are complete are used again.
        modes.chain(raws.map(|&raw| (Mode::Futures, Some(raw)))).map(move |(mode, raw)| MessageRate {
            transport: transport.name().to_owned(),
            settings: assignments.to_vec(),
            mode,
            message_bytes: size.0,
            in_flight: in_flight as usize,
            messages: msgrate.messages,
            threads: msgrate.threads as usize,
            raw,
            traced: msgrate.tracing.is_on(),
            lasting: msgrate.seconds,
        })
    })
}

/// Refuses raw loops that the library of a transport does not have.
fn check_raw(msgrate: &Msgrate) -> Result<(), Failure> {
    for &transport in &msgrate.transport {
        let has = raws_of(transport);
        let Some(raw) = msgrate.raw.iter().find(|raw| !has.contains(raw)) else { continue };
        let has: Vec<String> = has.iter().map(Raw::to_string).collect();
        let sentence = match &*has {
            [] => format!("--raw: there is no library below {transport}; choose --transport ucx or mpi"),
            has => format!("--raw: {transport} has no loop of `{raw}`; choose from {}", has.join(", ")),
        };
        return Err(Failure::Usage(sentence));
    }
    Ok(())
}

/// Refuses to trace what has no trace points, and to write several measurements to one file.
fn check_trace(msgrate: &Msgrate, rows: usize) -> Result<(), Failure> {
    if msgrate.tracing.is_on() && !msgrate.raw.is_empty() {
        return Err(Failure::Usage(
            "--trace is for messages of farcall, and the loops of --raw are without it; leave one of them out".to_owned(),
        ));
    }
    let how = "give one each of --transport, --mode, --size and --inflight, and --runs 1";
    msgrate.tracing.check(&msgrate.varying, "messages", rows * msgrate.runs as usize, how)
}

/// The ways in which the library of a transport finds completions.
fn raws_of(transport: TransportKind) -> &'static [Raw] {
    match transport {
        TransportKind::Mpi => &[Raw::WaitAny, Raw::TestAny, Raw::Test],
        TransportKind::Ucx => &[Raw::WaitAny, Raw::Test],
        _ => &[],
    }
}

fn cell(rate: &MessageRate) -> (&str, usize, usize) {
    (&rate.transport, rate.message_bytes, rate.in_flight)
}

/// What the table calls a row.
fn way(rate: &MessageRate) -> String {
    rate.raw.map_or_else(|| rate.mode.to_string(), |raw| format!("raw {raw}"))
}

/// The result with the median time, the longer one of two.
fn median(results: &mut [MessageRateResult]) -> MessageRateResult {
    results.sort_by_key(|result| result.elapsed);
    let none = MessageRateResult { elapsed: Duration::ZERO, messages: 0, traced: None };
    results.get(results.len() / 2).cloned().unwrap_or(none)
}

fn show(rate: &MessageRate, result: &MessageRateResult, report: &mut Report) -> Result<(), Failure> {
    let seconds = result.elapsed.as_secs_f64();
    let per_second = result.messages as f64 / seconds;
    report.line(format_args!(
        "{:<12} {:<18} {:>6} {:>10} {seconds:>9.3} {:>11.2} {:>13.3} {:>7.3}",
        rate.transport,
        way(rate),
        Size(rate.message_bytes).to_string(),
        rate.in_flight,
        1e9 / per_second,
        per_second / 1e6,
        per_second * rate.message_bytes as f64 / 1e9,
    ))?;
    report.record(&record(rate, result, "rate", per_second, Unit::PerSecond))?;
    report.record(&record(rate, result, "time", 1e9 / per_second, Unit::Nanoseconds))
}

fn show_trace(
    rate: &MessageRate,
    result: &MessageRateResult,
    file: Option<&Path>,
    report: &mut Report,
) -> Result<(), Failure> {
    let Some(traced) = &result.traced else { return Ok(()) };
    let (transport, size, in_flight) = (&rate.transport, Size(rate.message_bytes), rate.in_flight);
    let about = format!("{transport} {} {size} B, {in_flight} in flight", rate.mode);
    tracing::show_messages(&about, traced, file, report)
}

fn record(rate: &MessageRate, result: &MessageRateResult, name: &str, value: f64, unit: Unit) -> Record {
    let (way, size) = (way(rate).replace(' ', "-"), Size(rate.message_bytes));
    let trace = result.traced.as_ref().and_then(tracing::parts_of_messages);
    let more: [(&str, Value); 4] = [
        ("mode", way.clone().into()),
        ("message_bytes", rate.message_bytes.into()),
        ("threads", rate.threads.into()),
        ("seconds", result.elapsed.as_secs_f64().into()),
    ];
    Record {
        schema: SCHEMA,
        command: "msgrate",
        test: way.clone(),
        transport: rate.transport.clone(),
        name: format!("{way}.{size}x{}.{name}", rate.in_flight),
        value,
        unit,
        statistic: Statistic::OverWallClock,
        samples: result.messages,
        in_flight: (rate.in_flight * rate.threads) as u64,
        more: Map::from_iter(more.into_iter().chain(trace).map(|(name, value)| (name.to_owned(), value))),
    }
}
