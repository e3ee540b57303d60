//! Where the time of traced tagged messages goes, and what that is consistent with.
//!
//! Messages go one way, so the bounds of a closed loop, by which the causes of calls are ranked, do not hold
//! for them. But every part of a message's life is a place where messages are, and by Little's law (1961)
//! their mean number there is the rate times the mean time. So the longest part says where messages are; the
//! shortest time that any message had in it says how much of it is waiting.

mod causes;

use std::collections::BTreeMap;

use farcall::parameters::quantity::parse_duration;
use serde_json::Value;

use self::causes::Cause;
use super::{RecordedFigure, RecordedRun};
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::trace::{MESSAGE_PARTS, MessageSummary, Part};
use crate::run::msgrate::SideFound;
use crate::units::rate_in_words;

/// Traced messages that a judgement needs.
const MESSAGES_MIN: u64 = 100;

/// A part with less than this share of a typical message is not named.
const SHARE_MIN: f64 = 0.2;

/// Parts add up to the whole within this share of it.
const SUM_TOLERANCE: f64 = 0.02;

/// The mode whose receiver posts no receives.
const HANDLER: &str = "handler";

/// The option that gives every callback a time.
const HANDLER_OPTION: &str = "--handler";

/// The most causes that are named for one measurement.
const CAUSES_MAX: usize = 4;

/// A measurement whose messages were traced.
struct Stream {
    about: String,
    mode: String,
    in_flight: u64,
    threads: f64,
    messages: f64,
    seconds: f64,
    per_second: f64,
    trace: MessageSummary,
    sender: Side,
    receiver: Side,
    /// The time that the run gave every callback, as its command has it.
    handler: Option<String>,
}

/// What one side found of itself; nothing in older records.
#[derive(Debug, Default)]
struct Side {
    counters: BTreeMap<String, f64>,
    idle: Option<f64>,
    waited: Option<f64>,
}

impl Side {
    fn of(value: Option<&Value>) -> Self {
        let found = value.cloned().and_then(|value| serde_json::from_value::<SideFound>(value).ok());
        let SideFound { counters, idle, waited } = found.unwrap_or_default();
        let mut sums = BTreeMap::new();
        for (name, count) in &counters {
            *sums.entry(name.rsplit('.').next().unwrap_or_default().to_owned()).or_default() += *count as f64;
        }
        Self { counters: sums, idle, waited }
    }

    /// A counter's sum over all groups that have it.
    fn counted(&self, name: &str) -> f64 {
        self.counters.get(name).copied().unwrap_or(0.0)
    }

    /// The share of the time in which it had a core.
    fn runs(&self) -> f64 {
        (1.0 - self.waited.unwrap_or(0.0)).max(0.01)
    }

    /// The share of that in which it had work. Waiting for a core counts as work before it is taken off.
    fn works(&self, idle: f64) -> f64 {
        ((self.runs() - idle) / self.runs()).clamp(0.0, 1.0)
    }
}

impl Stream {
    /// What a figure says, if it is the rate of traced messages.
    fn of(figure: &RecordedFigure, handler: Option<String>) -> Option<Self> {
        let trace: MessageSummary = serde_json::from_value(figure.more.get("message_trace")?.clone()).ok()?;
        let sane = figure.unit == "1/s"
            && figure.value > 0.0
            && trace.messages >= MESSAGES_MIN
            && trace.total.typical > 0.0;
        sane.then(|| Self {
            about: format!("{} {}", figure.transport, figure.name),
            mode: figure.more.get("mode").and_then(Value::as_str).unwrap_or_default().to_owned(),
            in_flight: figure.in_flight,
            threads: figure.more.get("threads").and_then(Value::as_f64).unwrap_or(1.0).max(1.0),
            messages: figure.samples.max(1) as f64,
            seconds: figure.samples.max(1) as f64 / figure.value,
            per_second: figure.value,
            trace,
            sender: Side::of(figure.more.get("sender")),
            receiver: Side::of(figure.more.get("receiver")),
            handler,
        })
    }

    /// The parts, and the shares that they have of a typical message, the largest first.
    fn ranked(&self) -> Vec<(&'static str, Part, f64)> {
        let part = |name: &&'static str| {
            let part = self.trace.part(name);
            (*name, part, part.typical / self.trace.total.typical)
        };
        let mut parts: Vec<_> = MESSAGE_PARTS.iter().map(part).collect();
        parts.sort_by(|a, b| b.2.total_cmp(&a.2));
        parts
    }

    /// How many messages are in a part at a time.
    fn there(&self, part: Part) -> f64 {
        self.per_second * part.mean / 1e9
    }
}

/// What the traced messages of the runs say: where the time of each measurement's went, and the likeliest
/// reasons.
pub fn messages(runs: &[RecordedRun]) -> Vec<Finding> {
    let several = runs.len() > 1;
    let of_run = |run: &RecordedRun| {
        let name = if several { format!("{} ", run.name) } else { String::new() };
        let handler = run.run.option(HANDLER_OPTION).filter(|time| takes_time(time)).map(str::to_owned);
        let streams: Vec<_> =
            run.figures.iter().filter_map(|figure| Stream::of(figure, handler.clone())).collect();
        streams.into_iter().flat_map(move |stream| findings(&stream, &name)).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of_run).collect()
}

/// Whether a time of an option is more than none.
fn takes_time(text: &str) -> bool {
    parse_duration(text).is_ok_and(|time| !time.is_zero())
}

/// Where idleness was watched the causes by counters, otherwise where a typical message spends its time.
fn findings(stream: &Stream, run: &str) -> Vec<Finding> {
    let about = format!("{run}{}", stream.about);
    let causes = causes::rank(stream);
    if causes.is_empty() {
        return by_parts(stream, &about);
    }
    let hypothesis = |(place, cause): (usize, &Cause)| {
        let sentence = format!(
            "{}. {}; consistent with what was counted, not tested: {}",
            place + 1,
            cause.words,
            cause.won()
        );
        let (low, high) = cause.predicted();
        let figures = [
            ("rank", (place + 1) as f64),
            ("gain", cause.gain),
            ("gain_is_known", f64::from(u8::from(cause.has_gain()))),
            ("predicted_low", low),
            ("predicted_high", high),
        ];
        Finding::new(Section::Hypothesis, cause.rule, &about, sentence).with(figures)
    };
    let next = causes.first().map(|cause| {
        let (low, high) = cause.predicted();
        let sentence = format!(
            "{}: {} if it is the first cause, the same if it is not",
            cause.next,
            cause.predicted_words()
        );
        Finding::new(Section::NextExperiment, "change_the_first", &about, sentence)
            .with([("predicted_low", low), ("predicted_high", high)])
    });
    let hypotheses = causes.iter().take(CAUSES_MAX).enumerate().map(hypothesis);
    core::iter::once(whole(stream, &about)).chain(hypotheses).chain(next).collect()
}

fn by_parts(stream: &Stream, about: &str) -> Vec<Finding> {
    let ranked = stream.ranked();
    let named: Vec<_> = ranked.iter().filter(|(_, _, share)| *share >= SHARE_MIN).collect();
    let hypotheses = named.iter().enumerate().map(|(place, (name, part, share))| {
        let reason = reason(stream, name, *part);
        let sentence = format!("{}. {reason}; consistent with the trace, not tested", place + 1);
        let figures = [
            ("rank", (place + 1) as f64),
            ("share_percent", share * 100.0),
            ("typical_ns", part.typical),
            ("least_ns", part.least),
            ("messages_there", stream.there(*part)),
        ];
        Finding::new(Section::Hypothesis, rule(name), about, sentence).with(figures)
    });
    let next = named.first().map(|(name, part, _)| {
        Finding::new(Section::NextExperiment, "change_the_first", about, next(stream, name, *part))
    });
    core::iter::once(whole(stream, about)).chain(hypotheses).chain(next).collect()
}

/// The waterfall in words, or that its parts contradict the whole.
fn whole(stream: &Stream, about: &str) -> Finding {
    let total = stream.trace.total.typical;
    let part = |name: &&'static str| (*name, stream.trace.part(name).typical);
    let parts: Vec<_> = MESSAGE_PARTS.iter().map(part).collect();
    let sum: f64 = parts.iter().map(|(_, typical)| typical).sum();
    let share = |nanos: f64| nanos / total * 100.0;
    let (section, sentence) = if (sum / total - 1.0).abs() > SUM_TOLERANCE {
        let words = format!(
            "the parts of a typical message add up to {}, {:.0} % of the {} that it takes",
            micros(sum),
            share(sum),
            micros(total)
        );
        (Section::Contradiction, words)
    } else {
        let part = |(name, nanos): &(&str, f64)| {
            format!("{} {} ({:.0} %)", name.replace('_', " "), micros(*nanos), share(*nanos))
        };
        let parts: Vec<_> = parts.iter().map(part).collect();
        (Section::Agreement, format!("a typical message takes {}: {}", micros(total), parts.join(", ")))
    };
    let figures = [("total_ns", total), ("sum_percent", share(sum))].into_iter().chain(parts);
    Finding::new(section, "message_parts", about, sentence).with(figures)
}

fn rule(part: &str) -> &'static str {
    match part {
        "submit" => "message_submit",
        "on_its_way" => "message_way",
        "match" => "message_match",
        _ => "message_complete",
    }
}

/// Whether more of a typical message's time in a part is waiting than not. A trace has the newest messages
/// only, and of a queue that never was empty not even the least time is without waiting; but more than two at
/// a time are a queue.
fn waits(stream: &Stream, part: Part) -> bool {
    part.typical > 2.0 * part.least || stream.there(part) > 2.0
}

fn reason(stream: &Stream, name: &str, part: Part) -> String {
    let times = format!(
        "{} of the {} of a typical message and {} at the least, so that about {:.*} messages are there at a time",
        micros(part.typical),
        micros(stream.trace.total.typical),
        micros(part.least),
        usize::from(stream.there(part) < 10.0),
        stream.there(part)
    );
    let what = match (name, waits(stream, part)) {
        ("submit", true) => {
            "waiting at the sender for what leaves together, for room in the ring or for the receiver's window"
        }
        ("submit", false) => "handing messages to the driver or library, their copy included",
        ("on_its_way", true) => "lying unread in the ring or socket while the receiver does something else",
        ("on_its_way", false) => "the way between the two, the driver's own work included",
        ("match", true) => {
            "waiting at the receiver behind those that the same poll found, or for a receive to be posted"
        }
        ("match", false) => "finding the receive of a message",
        _ => "what the receiver does in its callback or handler, or the copy into its future",
    };
    format!("{what}: {times}")
}

/// An experiment that changes the part and little else.
fn next(stream: &Stream, name: &str, part: Part) -> String {
    let fewer = stream.in_flight / 2;
    match name {
        "on_its_way" if !waits(stream, part) => {
            "the distance alone: `farcall compare --limit` measures that of the cores".to_owned()
        }
        "submit" if !waits(stream, part) => {
            "shorter messages: run it again with a quarter of the `--sizes`; what is copying shrinks with it".to_owned()
        }
        _ if stream.mode != HANDLER => {
            "a receiver that does less: run it again with `--mode handler`, which matches nothing; a rate that grows says that \
             the receiver is the slower side"
                .to_owned()
        }
        _ if fewer > 0 => format!(
            "fewer in flight: run it again with half the `--in-flight`; a rate that stays ({}) says that messages only waited",
            rate_in_words(stream.per_second)
        ),
        _ => "what the handler does: look into the receiver with a profiler".to_owned(),
    }
}

fn micros(nanos: f64) -> String {
    format!("{:.2} us", nanos / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_is_injected_where_its_time_is_more_than_none() {
        assert_eq!(["500ns", "2us", "0ns", "0us", "x"].map(takes_time), [true, true, false, false, false]);
    }
}
