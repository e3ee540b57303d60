//! The waterfall of traced calls: each part where it lies within a typical and a slow call.

use core::fmt::Write;

use super::escape::escape;
use super::figure::Drawing;
use crate::run::Figure;
use crate::trace::{PARTS, Part, TraceSummary};

const WIDTH: f64 = 720.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 110.0;
const ROW: f64 = 30.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 44.0;

/// A kind of calls: its name, and which of a part's means stands for it.
type Kind = (&'static str, fn(Part) -> f64);

/// The kinds of calls that are drawn.
const KINDS: [Kind; 2] = [("typical", |part| part.typical), ("slow", |part| part.slow)];

/// The waterfall of a figure whose calls were traced.
pub fn of(figure: &Figure) -> Option<Drawing> {
    let trace: TraceSummary = serde_json::from_value(figure.more.get("trace")?.clone()).ok()?;
    if !(trace.total.typical > 0.0 && trace.total.slow > 0.0) {
        return None;
    }
    let title = format!(
        "{} {}, {} in flight: the parts of {} traced calls, as shares of a typical call and of one near the 99th percentile",
        figure.transport, figure.name, figure.in_flight, trace.calls
    );
    Some(Drawing { words: words(&title, &trace), csv: csv(&trace), svg: svg(&title, &trace), title })
}

fn words(title: &str, trace: &TraceSummary) -> String {
    let part = |name: &&str| {
        let Part { typical, slow, .. } = trace.part(name);
        format!("{name}: {typical:.0} ns, slow {slow:.0} ns")
    };
    let parts: Vec<_> = PARTS.iter().map(part).collect();
    let Part { typical, slow, .. } = trace.total;
    format!("{title}. {}; in all {typical:.0} ns, slow {slow:.0} ns.", parts.join("; "))
}

fn csv(trace: &TraceSummary) -> String {
    let mut csv = "part,typical_ns,slow_ns,p50_ns,mean_ns\n".to_owned();
    let parts = PARTS.iter().map(|name| (*name, trace.part(name))).chain([("call", trace.total)]);
    for (name, Part { typical, slow, p50, mean, .. }) in parts {
        let _ = writeln!(csv, "{name},{typical},{slow},{p50},{mean}");
    }
    csv
}

fn svg(title: &str, trace: &TraceSummary) -> String {
    let across = |share: f64| LEFT + share * (WIDTH - LEFT - RIGHT);
    let bottom = TOP + ROW * PARTS.len() as f64;
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
    for (row, name) in PARTS.iter().enumerate() {
        let (y, part) = (TOP + ROW * row as f64, trace.part(name));
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><text x=\"{}\" y=\"{:.1}\">{:.0} / {:.0} ns</text>",
            LEFT - 8.0,
            y + 18.0,
            name.replace('_', " "),
            across(1.0) + 8.0,
            y + 18.0,
            part.typical,
            part.slow
        );
        for (place, ((_, value), begin)) in KINDS.iter().zip(&mut begins).enumerate() {
            let share = value(part) / value(trace.total);
            let (left, width) = (across(*begin), (across(share) - across(0.0)).max(1.0));
            let top = y + 4.0 + 11.0 * place as f64;
            let _ = writeln!(
                svg,
                "<rect class=\"f{place}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"10\"/>"
            );
            *begin += share;
        }
    }
    for (place, (kind, value)) in KINDS.iter().enumerate() {
        let x = LEFT + 220.0 * place as f64;
        let _ = writeln!(
            svg,
            "<rect class=\"f{place}\" x=\"{x}\" y=\"{:.1}\" width=\"20\" height=\"10\"/><text x=\"{}\" y=\"{:.1}\">{kind}, {:.0} ns</text>",
            bottom + 28.0,
            x + 28.0,
            bottom + 38.0,
            value(trace.total)
        );
    }
    svg.push_str("</svg>\n");
    svg
}
