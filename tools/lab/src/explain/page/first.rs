//! The first screen: is it fast, where does the time go, can I trust it.

use core::fmt::Write;

use serde_json::Value;

use super::escape::{escape, prose};
use super::{Drawing, colours, put};
use crate::explain::recorded::{RecordedFigure, RecordedRun};
use crate::explain::trace::{PARTS, TraceSummary};
use crate::units::in_readable_unit;

/// Bars of the first picture. The tables have all rows.
const BARS_MAX: usize = 24;
/// Sentences about where the time goes.
const PARTS_MAX: usize = 8;

const WIDTH: f64 = 680.0;
const LEFT: f64 = 200.0;
const RIGHT: f64 = 190.0;
const ROW: f64 = 24.0;
const TOP: f64 = 26.0;

/// A median next to what it is compared with.
struct Compared<'a> {
    figure: &'a RecordedFigure,
    against: &'static str,
    other: f64,
    ratio: f64,
}

/// The first two questions; the third is answered by what follows.
pub fn first(page: &mut String, runs: &[RecordedRun]) {
    let compared: Vec<_> = runs.iter().flat_map(of_run).collect();
    page.push_str("<section>\n<h2>Is it fast?</h2>\n");
    if compared.is_empty() {
        page.push_str(
            "<p>No figure here has a limit beside it: figures of real processes by <code>farcall perf</code> \
             and <code>farcall compare</code> do.</p>\n",
        );
    } else {
        put(page, "ratios", 0, &drawing(&compared));
    }
    page.push_str("</section>\n<section>\n<h2>Where does the time go?</h2>\n<ul>\n");
    let parts: Vec<_> = runs.iter().flat_map(|run| &run.figures).filter_map(greatest_part).collect();
    for sentence in parts.iter().take(PARTS_MAX) {
        let _ = writeln!(page, "<li>{}</li>", prose(sentence));
    }
    match parts.len() {
        0 => page.push_str("<li>Calls were not traced: <code>--trace</code> takes them apart.</li>\n"),
        all if all > PARTS_MAX => {
            let _ = writeln!(page, "<li>{} more below.</li>", all - PARTS_MAX);
        }
        _ => {}
    }
    page.push_str("</ul>\n</section>\n");
}

/// Medians that have a limit in the same run, a figure that was published, or another program beside them.
fn of_run(run: &RecordedRun) -> Vec<Compared<'_>> {
    let beside = |figure: &RecordedFigure, what: &str| {
        let name = format!("{}.{what}", figure.name);
        let is_it = |other: &&RecordedFigure| other.name == name && other.transport == figure.transport;
        run.figures.iter().find(is_it).map(|other| other.value)
    };
    let compared = |figure| {
        let number = |field: &str| RecordedFigure::more_number(figure, field);
        let (against, other, ratio) = if let Some(other) = number("other") {
            ("the other", other, number("ratio")?)
        } else if figure.unit != "ns" || figure.statistic != "p50" {
            return None;
        } else if let (Some(limit), Some(ratio)) = (beside(figure, "limit"), beside(figure, "ratio")) {
            ("the limit", limit, ratio)
        } else {
            let published = number("published")?;
            ("published", published, figure.value / published)
        };
        (ratio.is_finite() && ratio > 0.0).then_some(Compared { figure, against, other, ratio })
    };
    run.figures.iter().filter_map(compared).collect()
}

impl RecordedFigure {
    fn more_number(&self, field: &str) -> Option<f64> {
        self.more.get(field).and_then(Value::as_f64)
    }
}

impl Compared<'_> {
    fn name(&self) -> String {
        format!("{} {}", self.figure.name, self.figure.transport)
    }

    /// Both figures, in a unit in which they have few digits.
    fn values(&self) -> String {
        let shown = |value: f64| match self.figure.unit.as_str() {
            "ns" => {
                let (value, unit) = in_readable_unit(value);
                format!("{value:.3} {unit}")
            }
            unit => format!("{value:.3} {unit}"),
        };
        format!("{}, {} {}", shown(self.figure.value), self.against, shown(self.other))
    }
}

fn drawing(compared: &[Compared<'_>]) -> Drawing {
    let title = match compared.len() {
        all if all > BARS_MAX => format!("Figure ÷ what it is compared with: the first {BARS_MAX} of {all}"),
        _ => "Figure ÷ what it is compared with: 1 is as fast as the limit of this machine".to_owned(),
    };
    let shown = &compared[..compared.len().min(BARS_MAX)];
    let row = |one: &Compared<'_>| format!("{}: {} × ({})", one.name(), digits(one.ratio), one.values());
    let words = format!("{title}. {}.", shown.iter().map(row).collect::<Vec<_>>().join("; "));
    let mut csv = "figure,transport,value,unit,compared_with,other,ratio\n".to_owned();
    for Compared { figure, against, other, ratio } in compared {
        let RecordedFigure { name, transport, value, unit, .. } = figure;
        let _ = writeln!(csv, "{name},{transport},{value},{unit},{against},{other},{ratio}");
    }
    let svg = svg(&title, &words, shown);
    Drawing { title, words, csv, svg }
}

fn svg(title: &str, words: &str, shown: &[Compared<'_>]) -> String {
    // From the least power of two to the greatest, and 1 between them.
    let powers = shown.iter().map(|one| one.ratio.log2());
    let low = powers.clone().fold(0.0, f64::min).floor();
    let high = powers.fold(1.0, f64::max).ceil();
    let across = |power: f64| LEFT + (power - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    let height = TOP + ROW * shown.len() as f64 + 8.0;
    let mut svg = format!(
        "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" aria-label=\"{}\"><title>{}</title>\n",
        escape(words),
        escape(title)
    );
    // Marks that have room for their text.
    const MARK: f64 = 44.0;
    let every = (MARK / (across(1.0) - across(0.0))).ceil().max(1.0) as i32;
    for power in (low as i32..=high as i32).filter(|power| power % every == 0) {
        let (x, class) = (across(power.into()), if power == 0 { "one" } else { "grid" });
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
             <text x=\"{x:.1}\" y=\"16\" text-anchor=\"middle\">{} ×</text>",
            height - 4.0,
            if power < 0 { format!("1/{}", 2_f64.powi(-power)) } else { 2_f64.powi(power).to_string() }
        );
    }
    for (row, one) in shown.iter().enumerate() {
        let y = TOP + ROW * row as f64 + 4.0;
        let (from, to) = (across(one.ratio.log2().min(0.0)), across(one.ratio.log2().max(0.0)));
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><rect class=\"f{}\" x=\"{from:.1}\" \
             y=\"{y:.1}\" width=\"{:.1}\" height=\"14\"/><text x=\"{:.1}\" y=\"{:.1}\">{} ×, {}</text>",
            LEFT - 8.0,
            y + 12.0,
            escape(&one.name()),
            colours::of(&one.figure.transport),
            (to - from).max(2.0),
            across(high) + 8.0,
            y + 12.0,
            digits(one.ratio),
            escape(one.values().split(',').next().unwrap_or_default()),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// A ratio with three digits that count.
fn digits(ratio: f64) -> String {
    const DECIMALS_MAX: f64 = 6.0;
    let decimals = (2.0 - ratio.log10().floor()).clamp(0.0, DECIMALS_MAX);
    format!("{ratio:.*}", decimals as usize)
}

/// Which part of a traced call is the longest, in a sentence.
fn greatest_part(figure: &RecordedFigure) -> Option<String> {
    let trace: TraceSummary = serde_json::from_value(figure.more.get("trace")?.clone()).ok()?;
    let total = trace.total.typical;
    let parts = PARTS.iter().map(|name| (*name, trace.part(name).typical));
    let (name, longest) = parts.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| total > 0.0)?;
    let (value, unit) = in_readable_unit(total);
    Some(format!(
        "{} {}: of a typical call of {value:.3} {unit}, {:.0} % is `{}`",
        figure.name,
        figure.transport,
        longest / total * 100.0,
        name.replace('_', " ")
    ))
}
