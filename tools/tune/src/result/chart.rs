//! Figures with their intervals, one below the other, as SVG in the colours of farcall's pages.

use core::fmt::Write;

use farcall_lab::explain::page::escape;

const WIDTH: f64 = 720.0;
const ROW_HEIGHT: f64 = 22.0;
/// Where the scale begins and ends; names stand before it.
const LEFT: f64 = 280.0;
const RIGHT: f64 = 700.0;
/// Below the rows: the marks of the scale.
const BOTTOM: f64 = 26.0;
/// The longest name that has room, in characters.
const NAME_MAX: usize = 38;

/// A figure with its interval.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interval {
    /// What it is of.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// The ends of its interval.
    pub ends: (f64, f64),
}

/// What the figures of a chart are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    /// Ratios, of which 1 says that nothing changes.
    Ratio,
    /// Changes in percent.
    Change,
    /// Shares in percent.
    Share,
}

impl Axis {
    fn neutral(self) -> f64 {
        if self == Self::Ratio { 1.0 } else { 0.0 }
    }

    /// From where to where figures go. Where one interval is very long the others should still be seen: the
    /// scale shows all figures, not all ends.
    fn range(self, intervals: &[Interval]) -> (f64, f64) {
        if self == Self::Share {
            return (0.0, 100.0);
        }
        let values = intervals.iter().map(|one| one.value).chain([self.neutral()]);
        let ends = |(least, most): (f64, f64), one: f64| (least.min(one), most.max(one));
        let (least, most) = values.fold((f64::MAX, f64::MIN), ends);
        let room = ((most - least) * 0.3).max(most.abs() * 1e-3).max(f64::MIN_POSITIVE);
        (least - room, most + room)
    }

    fn mark(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{value:.2}"),
            Self::Change => format!("{value:+.1} %"),
            Self::Share => format!("{value:.0} %"),
        }
    }
}

/// Intervals on one linear scale, with a line where nothing changes; `title` is for those who cannot see it.
pub(super) fn chart(title: &str, axis: Axis, intervals: &[Interval]) -> String {
    let (neutral, (from, to)) = (axis.neutral(), axis.range(intervals));
    let x = |value: f64| LEFT + (value.clamp(from, to) - from) / (to - from) * (RIGHT - LEFT);
    let height = intervals.len() as f64 * ROW_HEIGHT;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">\n",
        height + BOTTOM,
        escape(title)
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{height:.1}\"/>",
        x(neutral)
    );
    for (place, Interval { name, value, ends: (low, high) }) in intervals.iter().enumerate() {
        let y = (place as f64 + 0.5) * ROW_HEIGHT;
        let short = match name.char_indices().nth(NAME_MAX) {
            Some((end, _)) => format!("{}…", &name[..end]),
            None => name.clone(),
        };
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <line class=\"c0\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <circle class=\"c0\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>",
            LEFT - 8.0,
            y + 4.0,
            escape(&short),
            x(*low),
            x(*high),
            x(*value)
        );
    }
    let marks = if axis == Axis::Share { vec![from, to] } else { vec![from, neutral, to] };
    for mark in marks {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(mark).min(RIGHT - 16.0),
            height + BOTTOM - 8.0,
            axis.mark(mark)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interval_has_a_row_within_the_scale() {
        let interval = |name: &str, value, ends| Interval { name: name.to_owned(), value, ends };
        let svg =
            chart("a < b", Axis::Ratio, &[interval("x", 0.5, (-1e9, 1e9)), interval("y", 1.0, (1.0, 1.0))]);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("aria-label=\"a &lt; b\""), "{svg}");
        assert!(
            svg.contains(&format!("x1=\"{LEFT:.1}\" x2=\"{RIGHT:.1}\"")),
            "long ones end at the edge: {svg}"
        );
    }
}
