//! The waterfall of traced calls or messages: each part where it lies within a typical and a slow one.

use core::fmt::Write;

use super::escape::escape;
use super::{Drawing, colours};
use crate::explain::recorded::RecordedFigure;
use crate::explain::trace::{MESSAGE_PARTS, MessageSummary, PARTS, Part, TraceSummary};

const WIDTH: f64 = 480.0;
const LEFT: f64 = 156.0;
const RIGHT: f64 = 132.0;
const ROW: f64 = 30.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 44.0;

/// A kind of calls or messages: its name, and which of a part's means stands for it.
type Kind = (&'static str, fn(Part) -> f64);

/// The kinds that are drawn.
const KINDS: [Kind; 2] = [("typical", |part| part.typical), ("slow", |part| part.slow)];

/// What was traced, part by part.
struct Traced {
    /// One of them.
    noun: &'static str,
    count: u64,
    parts: Vec<(&'static str, Part)>,
    total: Part,
}

impl Traced {
    fn of(figure: &RecordedFigure) -> Option<Self> {
        let more = |field: &str| figure.more.get(field).cloned();
        if let Some(trace) = more("trace") {
            let trace: TraceSummary = serde_json::from_value(trace).ok()?;
            let parts = PARTS.iter().map(|name| (*name, trace.part(name))).collect();
            return Some(Self { noun: "call", count: trace.calls, parts, total: trace.total });
        }
        // The rate and the time of messages are two figures with the same parts.
        let trace = more("message_trace").filter(|_| figure.unit == "1/s")?;
        let trace: MessageSummary = serde_json::from_value(trace).ok()?;
        let parts = MESSAGE_PARTS.iter().map(|name| (*name, trace.part(name))).collect();
        Some(Self { noun: "message", count: trace.messages, parts, total: trace.total })
    }

    /// Times in one unit for the whole drawing, in which the longest has few digits.
    fn with_unit(&self, nanos: &[f64]) -> String {
        const MICROS_FROM: f64 = 100_000.0;
        let longest = self.total.typical.max(self.total.slow);
        let (scale, unit) = if longest < MICROS_FROM { (1.0, "ns") } else { (1e3, "us") };
        let times: Vec<_> = nanos.iter().map(|nanos| nanos / scale).map(short).collect();
        format!("{} {unit}", times.join(" / "))
    }

    fn in_words(&self, part: Part) -> String {
        self.with_unit(&KINDS.map(|(_, value)| value(part)))
    }
}

/// The waterfall of a figure whose calls or messages were traced.
pub fn of(figure: &RecordedFigure) -> Option<Drawing> {
    let trace = Traced::of(figure).filter(|trace| trace.total.typical > 0.0 && trace.total.slow > 0.0)?;
    let title = format!(
        "{} {}, {} in flight: the parts of {} traced {noun}s, as shares of a typical {noun} and of one near the 99th percentile",
        figure.transport,
        figure.name,
        figure.in_flight,
        trace.count,
        noun = trace.noun
    );
    let colour = colours::of(&figure.transport);
    Some(Drawing { words: words(&title, &trace), csv: csv(&trace), svg: svg(&title, &trace, colour), title })
}

/// A time in few digits.
fn short(time: f64) -> String {
    let digits = usize::from(time > 0.0 && time < 10.0);
    format!("{time:.digits$}")
}

fn words(title: &str, trace: &Traced) -> String {
    let part = |(name, Part { typical, slow, .. }): &(&str, Part)| {
        format!("{name}: {typical:.0} ns, slow {slow:.0} ns")
    };
    let parts: Vec<_> = trace.parts.iter().map(part).collect();
    let Part { typical, slow, .. } = trace.total;
    format!("{title}. {}; in all {typical:.0} ns, slow {slow:.0} ns.", parts.join("; "))
}

fn csv(trace: &Traced) -> String {
    let mut csv = "part,typical_ns,slow_ns,p50_ns,mean_ns\n".to_owned();
    for (name, Part { typical, slow, p50, mean, .. }) in
        trace.parts.iter().chain([&(trace.noun, trace.total)])
    {
        let _ = writeln!(csv, "{name},{typical},{slow},{p50},{mean}");
    }
    csv
}

fn svg(title: &str, trace: &Traced, colour: usize) -> String {
    // The slow one is paler.
    let classes = [format!("f{colour}"), format!("f{colour} pale")];
    let across = |share: f64| LEFT + share * (WIDTH - LEFT - RIGHT);
    let bottom = TOP + ROW * trace.parts.len() as f64;
    let mut svg = format!(
        "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {}\" aria-label=\"{}\"><title>{}</title>\n",
        bottom + BOTTOM,
        escape(&words(title, trace)),
        escape(title)
    );
    for mark in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let at = across(mark);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{:.0} %</text>",
            bottom + 16.0,
            mark * 100.0
        );
    }
    let mut begins = [0.0; KINDS.len()];
    for (row, &(name, part)) in trace.parts.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><text x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            y + 18.0,
            name.replace('_', " "),
            across(1.0) + 8.0,
            y + 18.0,
            trace.in_words(part)
        );
        for (place, ((_, value), begin)) in KINDS.iter().zip(&mut begins).enumerate() {
            let share = value(part) / value(trace.total);
            let (left, width) = (across(*begin), (across(share) - across(0.0)).max(1.0));
            let top = y + 4.0 + 11.0 * place as f64;
            let _ = writeln!(
                svg,
                "<rect class=\"{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"10\"/>",
                classes[place]
            );
            *begin += share;
        }
    }
    for (place, (kind, value)) in KINDS.iter().enumerate() {
        let x = 16.0 + 232.0 * place as f64;
        let _ = writeln!(
            svg,
            "<rect class=\"{}\" x=\"{x}\" y=\"{:.1}\" width=\"20\" height=\"10\"/><text x=\"{}\" y=\"{:.1}\">{kind}, {}</text>",
            classes[place],
            bottom + 28.0,
            x + 28.0,
            bottom + 38.0,
            trace.with_unit(&[value(trace.total)])
        );
    }
    svg.push_str("</svg>\n");
    svg
}
