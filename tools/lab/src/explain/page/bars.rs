//! Ablation bars: by how much each factor of `--vary` changes a figure, with intervals, on a linear axis
//! around none.

use core::fmt::Write;

use super::Drawing;
use super::escape::escape;
use crate::explain::recorded::VariedEffect;

const WIDTH: f64 = 480.0;
/// A bar with two lines of words above it, so that long names have room on a phone.
const ROW: f64 = 58.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 28.0;
const MARGIN: f64 = 16.0;

/// The bars of one figure.
pub fn of(about: &str, effects: &[VariedEffect]) -> Drawing {
    let title = format!("{about}: by how much each factor changes it, with 95 % intervals");
    Drawing { words: words(&title, effects), csv: csv(effects), svg: svg(&title, effects), title }
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

fn words(title: &str, effects: &[VariedEffect]) -> String {
    let effect =
        |effect: &VariedEffect| format!("{}: {}, {}", effect.name(), effect.change(), effect.verdict);
    let effects: Vec<_> = effects.iter().map(effect).collect();
    format!("{title}. {}.", effects.join("; "))
}

fn csv(effects: &[VariedEffect]) -> String {
    let mut csv = "of,kind,ratio,ratio_low,ratio_high,blocks,verdict\n".to_owned();
    for effect in effects {
        let bound = |bound: Option<f64>| bound.map_or_else(String::new, |bound| bound.to_string());
        let (low, high) = effect.interval.unzip();
        let _ = writeln!(
            csv,
            "\"{}\",{},{},{},{},{},{}",
            effect.name().replace('"', "'"),
            effect.kind,
            effect.ratio,
            bound(low),
            bound(high),
            effect.blocks,
            effect.verdict
        );
    }
    csv
}

fn svg(title: &str, effects: &[VariedEffect]) -> String {
    let bounds = effects.iter().flat_map(|effect| {
        let (low, high) = effect.interval.unwrap_or((effect.ratio, effect.ratio));
        [percent(effect.ratio), percent(low), percent(high)]
    });
    let reach = step_above(bounds.map(f64::abs).fold(1.0, f64::max));
    let across = |value: f64| MARGIN + (value / reach + 1.0) / 2.0 * (WIDTH - 2.0 * MARGIN);
    let bottom = TOP + ROW * effects.len() as f64;
    let mut svg = format!(
        "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {}\" aria-label=\"{}\"><title>{}</title>\n",
        bottom + BOTTOM,
        escape(&words(title, effects)),
        escape(title)
    );
    for mark in [-reach, -reach / 2.0, 0.0, reach / 2.0, reach] {
        let (at, anchor) = (across(mark), if mark > 0.0 && mark == reach { "end" } else { "middle" });
        let anchor = if mark == -reach { "start" } else { anchor };
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{mark:+} %</text>",
            bottom + 16.0
        );
    }
    for (row, effect) in effects.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let (from, to) = (across(0.0), across(percent(effect.ratio)));
        let (left, width) = (from.min(to), (to - from).abs().max(1.0));
        let class = colour(&effect.verdict);
        let _ = writeln!(
            svg,
            "<text class=\"over\" x=\"{MARGIN}\" y=\"{:.1}\">{}</text>\
             <text class=\"over\" x=\"{MARGIN}\" y=\"{:.1}\">{}, {}</text>\
             <rect class=\"{class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"10\"/>",
            y + 14.0,
            escape(&effect.name()),
            y + 30.0,
            escape(&effect.change()),
            escape(&effect.verdict),
            y + 37.0
        );
        if let Some((low, high)) = effect.interval {
            let (low, high, middle) = (across(percent(low)), across(percent(high)), y + 42.0);
            let _ = writeln!(
                svg,
                "<path class=\"reach\" d=\"M{low:.1} {middle}H{high:.1}M{low:.1} {:.1}v10M{high:.1} {:.1}v10\"/>",
                middle - 5.0,
                middle - 5.0
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The verdict also stands in words, for those who do not see the colour.
fn colour(verdict: &str) -> &'static str {
    match verdict {
        "better" => "f2",
        "worse" => "f4",
        _ => "f8",
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn step_above(value: f64) -> f64 {
    let power = 10_f64.powi(value.log10().floor() as i32);
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= value * 0.999_999);
    step.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let steps = [1.0, 1.3, 4.9, 5.0, 7.0, 42.0].map(step_above);
        assert_eq!(steps, [1.0, 2.0, 5.0, 5.0, 10.0, 50.0]);
    }
}
