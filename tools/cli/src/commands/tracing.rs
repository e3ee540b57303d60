//! Traced calls and messages: their parts as a table, as fields of records, and as a file for Perfetto.

use std::path::Path;

use farcall_lab::explain::trace::{
    MESSAGE_PART_WORDS, MESSAGE_PARTS, PART_WORDS, PARTS, Part, Traced, TracedMessages, otlp, perfetto,
    perfetto_of_messages,
};
use farcall_lab::files::write_beside;
use farcall_lab::record::Statistic;
use serde_json::{Value, json};

use crate::arguments::measuring::wants_spans;
use crate::failure::Failure;
use crate::output::Report;

/// Prints the waterfall of calls, and writes them where the command line says.
pub fn show(about: &str, traced: &Traced, file: Option<&Path>, report: &mut Report) -> Result<(), Failure> {
    let Some(trace) = &traced.summary else {
        return report.line(format_args!("# {about}: no traced call has all its points"));
    };
    report.line(format_args!("# {about}: parts of {} traced calls, in nanoseconds", trace.calls))?;
    head(report)?;
    for (name, words) in PARTS.iter().zip(PART_WORDS) {
        report.line(format_args!("  {name:<20} {}  {words}", columns(trace.part(name))))?;
    }
    report.line(format_args!(
        "  {:<20} {}  typical, slow: calls near the median, near the 99th percentile",
        "call",
        columns(trace.total)
    ))?;
    let occupancy = trace.occupancy;
    report.line(format_args!(
        "# {about}: servers had work {:.0} % of the time, clients {:.0} %; stood still although they had: servers {:.1} %, clients {:.1} %",
        occupancy.server * 100.0,
        occupancy.client * 100.0,
        occupancy.standstill.share * 100.0,
        occupancy.client_standstill.share * 100.0,
    ))?;
    if trace.incomplete + trace.disordered > 0 {
        report.line(format_args!(
            "# {about}: left out: {} calls that the rings no longer had whole, {} whose points are not in order",
            trace.incomplete, trace.disordered
        ))?;
    }
    match file {
        Some(path) if wants_spans(path) => write(path, &otlp(traced, about)),
        Some(path) => write(path, &perfetto(&traced.joined.calls).to_string()),
        None => Ok(()),
    }
}

/// Prints the waterfall of tagged messages, and writes them where the command line says.
pub fn show_messages(
    about: &str,
    traced: &TracedMessages,
    file: Option<&Path>,
    report: &mut Report,
) -> Result<(), Failure> {
    let Some(trace) = &traced.summary else {
        return report.line(format_args!("# {about}: no traced message has all its points"));
    };
    report.line(format_args!("# {about}: parts of {} traced messages, in nanoseconds", trace.messages))?;
    head(report)?;
    for (name, words) in MESSAGE_PARTS.iter().zip(MESSAGE_PART_WORDS) {
        report.line(format_args!("  {name:<20} {}  {words}", columns(trace.part(name))))?;
    }
    let total = columns(trace.total);
    let words = "typical, slow: messages near the median, near the 99th percentile";
    report.line(format_args!("  {:<20} {total}  {words}", "message"))?;
    if trace.incomplete + trace.disordered > 0 {
        report.line(format_args!(
            "# {about}: left out: {} messages that the rings no longer had whole, {} whose points are not in order",
            trace.incomplete, trace.disordered
        ))?;
    }
    file.map_or(Ok(()), |path| write(path, &perfetto_of_messages(&traced.joined.messages).to_string()))
}

fn head(report: &mut Report) -> Result<(), Failure> {
    report
        .line(format_args!("  {:<20} {:>10} {:>10} {:>10} {:>10}", "part", "p50", "mean", "typical", "slow"))
}

fn write(path: &Path, document: &str) -> Result<(), Failure> {
    write_beside(path, document.as_bytes())
        .map_err(|error| Failure::Run(format!("cannot write to {}: {error}", path.display())))
}

fn columns(part: Part) -> String {
    format!("{:>10.0} {:>10.1} {:>10.1} {:>10.1}", part.p50, part.mean, part.typical, part.slow)
}

/// The field of records that has the parts: of the row of the median.
pub fn field(statistic: Statistic, traced: &Traced) -> Option<(&'static str, Value)> {
    Some(parts(traced)?).filter(|_| statistic == Statistic::P50)
}

/// The field of records that has the parts of tagged messages.
pub fn parts_of_messages(traced: &TracedMessages) -> Option<(&'static str, Value)> {
    Some(("message_trace", json!(traced.summary.as_ref()?)))
}

/// The same for records of tests that have no median.
pub fn parts(traced: &Traced) -> Option<(&'static str, Value)> {
    Some(("trace", json!(traced.summary.as_ref()?)))
}
