//! `farcall msgrate`: tagged messages from one process to another.

use farcall::TransportKind;
use farcall_lab::msgrate::{MessageRate, MessageRateResult, run as measure};
use farcall_lab::record::{Record, SCHEMA, Statistic, Unit};
use farcall_lab::units::Size;
use serde_json::{Map, Value};

use crate::arguments::Msgrate;
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Progress;

/// Measures every mode, size and number in flight, over every transport.
pub fn run(msgrate: &Msgrate) -> Result<(), Failure> {
    let (assignments, _) = msgrate.tuning.load()?;
    let mut report = Report::open(msgrate.output.json.as_ref())?;
    let cells = msgrate.mode.len() * msgrate.size.len() * msgrate.inflight.len();
    let progress = Progress::new(cells * msgrate.transport.len(), msgrate.output.quiet);
    progress.suspend(|| {
        report.line(format_args!(
            "# {} messages, {} thread(s) a side; 1K = 1024 bytes, 1 GB = 10^9 bytes",
            msgrate.messages, msgrate.threads
        ))?;
        report.line(
            "# transport  mode                 size  in flight   seconds  ns/message  M messages/s    GB/s",
        )
    })?;
    for &transport in &msgrate.transport {
        for &mode in &msgrate.mode {
            for &size in &msgrate.size {
                for &in_flight in &msgrate.inflight {
                    progress.begin(format_args!("{transport} {mode} {size} B, {in_flight} in flight"));
                    let rate = MessageRate {
                        transport: transport.name().to_owned(),
                        settings: assignments.clone(),
                        mode,
                        message_bytes: size.0,
                        in_flight: in_flight as usize,
                        messages: msgrate.messages,
                        threads: msgrate.threads as usize,
                        lasting: msgrate.seconds,
                    };
                    let result = measure(&rate).map_err(Failure::run)?;
                    progress.step();
                    progress.suspend(|| show(transport, &rate, &result, &mut report))?;
                }
            }
        }
    }
    Ok(())
}

fn show(
    transport: TransportKind,
    rate: &MessageRate,
    result: &MessageRateResult,
    report: &mut Report,
) -> Result<(), Failure> {
    let seconds = result.elapsed.as_secs_f64();
    let per_second = result.messages as f64 / seconds;
    let (mode, size) = (rate.mode, Size(rate.message_bytes));
    report.line(format_args!(
        "{:<12} {mode:<18} {:>6} {:>10} {seconds:>9.3} {:>11.2} {:>13.3} {:>7.3}",
        transport.name(),
        size.to_string(),
        rate.in_flight,
        1e9 / per_second,
        per_second / 1e6,
        per_second * rate.message_bytes as f64 / 1e9,
    ))?;
    report.record(&record(transport, rate, result, "rate", per_second, Unit::PerSecond))?;
    report.record(&record(transport, rate, result, "time", 1e9 / per_second, Unit::Nanoseconds))
}

fn record(
    transport: TransportKind,
    rate: &MessageRate,
    result: &MessageRateResult,
    name: &str,
    value: f64,
    unit: Unit,
) -> Record {
    let (mode, size) = (rate.mode, Size(rate.message_bytes));
    let more: [(&str, Value); 4] = [
        ("mode", mode.name().into()),
        ("message_bytes", rate.message_bytes.into()),
        ("threads", rate.threads.into()),
        ("seconds", result.elapsed.as_secs_f64().into()),
    ];
    Record {
        schema: SCHEMA,
        command: "msgrate",
        test: mode.name().to_owned(),
        transport: transport.name().to_owned(),
        name: format!("{mode}.{size}x{}.{name}", rate.in_flight),
        value,
        unit,
        statistic: Statistic::OverWallClock,
        samples: result.messages,
        in_flight: (rate.in_flight * rate.threads) as u64,
        more: Map::from_iter(more.into_iter().map(|(name, value)| (name.to_owned(), value))),
    }
}
