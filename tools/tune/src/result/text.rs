//! The result as people read it.

use std::collections::BTreeMap;

use super::summary::{Choice, Contrast, MetricSummary, Percent, Summary};
use super::trades::Trade;
use crate::metric::Goal;

/// Effects below this share of the variance are not worth a line.
pub(super) const SHARE_MIN: f64 = 0.01;

/// The digits of a figure.
const DIGITS: usize = 6;

/// The most members of a front, and lines of a list, that are printed.
pub(super) const LINES_MAX: usize = 12;

/// The lines of a report.
pub fn lines(summary: &Summary) -> Vec<String> {
    let mut lines = vec![format!(
        "# {} trials, {} of them without figures; {} of {} different configurations measured ({} rows)",
        summary.trials, summary.failed, summary.measured, summary.environments, summary.rows
    )];
    summary.metrics.iter().for_each(|metric| metric_lines(metric, &mut lines));
    if !summary.front.is_empty() {
        lines.push("# the choices between which only taste can decide (Pareto front):".to_owned());
        lines.extend(summary.front.iter().take(LINES_MAX).map(|choice| front_line(choice, summary)));
        if let Some(more) = summary.front.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
            lines.push(format!("  and {more} more"));
        }
    }
    if !summary.trades.is_empty() {
        lines.push("# what helps one and harms another, everything else as in the reference:".to_owned());
        lines.extend(summary.trades.iter().take(LINES_MAX).map(|trade| trade_line(trade, summary)));
    }
    if !summary.confirmation.is_empty() {
        lines.push("# finalists against the reference in fresh blocks:".to_owned());
        lines.extend(summary.confirmation.iter().map(confirmation_line));
    }
    for failure in &summary.failures {
        let log = failure.log.as_ref().map_or(String::new(), |log| format!("; see {log}"));
        let (trials, environments) = (failure.trials, failure.environments);
        lines.push(format!(
            "# {trials} trials of {environments} configurations failed because {}{log}",
            failure.why
        ));
    }
    lines
}

fn metric_lines(metric: &MetricSummary, lines: &mut Vec<String>) {
    let MetricSummary { name, unit, .. } = metric;
    let good = if metric.goal == Goal::Min { "less is better" } else { "more is better" };
    lines.push(format!("# {name} ({unit}; {good})"));
    if metric.undecided {
        lines.push(
            "too little was measured to say what matters: a larger --budget would tell more apart".to_owned(),
        );
    } else if metric.nothing_matters {
        lines.push(
            "nothing matters: no configuration can be told apart from the best beyond the noise".to_owned(),
        );
    }
    let (rows, environments, measured) = (metric.set_rows, metric.set_environments, metric.set_measured);
    lines.push(format!(
        "set       {rows} rows ({environments} configurations, {measured} of them measured) cannot be told apart from the best"
    ));
    for (parameter, levels) in &metric.set_levels {
        lines.push(format!("          {parameter} is {} in all of them", levels.join(" or ")));
    }
    lines.push(format!("best      {}", choice_words(&metric.best, metric.place, unit)));
    lines.push(format!("simplest  {}", choice_words(&metric.simplest, metric.place, unit)));
    if metric.default_in_set {
        lines.push("          the reference itself is in the set: nothing was shown to be better".to_owned());
    }
    if metric.accidents > 0 {
        lines.push(format!(
            "outliers  {} of {} trials are far from everything else that is known of their rows, and count for nothing",
            metric.accidents, metric.figures
        ));
    }
    lines.push(format!(
        "noise     a trial varies by {:.2} %; the best of one trial each would look {:.2} % better than it is",
        metric.noise * 100.0,
        metric.optimism * 100.0
    ));
    if metric.nothing_matters {
        return;
    }
    for effect in metric.importance.iter().filter(|effect| effect.share >= SHARE_MIN) {
        lines.push(format!(
            "matters   {:<40} {:>5.1} % of the variance ({:.0} to {:.0}), moves it by {:.2} %",
            effect.parameters.join(" with "),
            effect.share * 100.0,
            effect.share_low * 100.0,
            effect.share_high * 100.0,
            effect.spread * 100.0
        ));
    }
    for effect in metric.local.iter().filter(|effect| effect.cost.low > 0.0).take(LINES_MAX) {
        let change = format!("{} {} instead of {}", effect.parameter, effect.worst, effect.best);
        lines.push(format!("near best {change:<40} changes it by {}", percent(&effect.change)));
    }
    for step in metric.path.iter().filter(|step| step.credited) {
        let (changes, alone) = (step.changes.join(", "), percent(&step.alone));
        lines.push(format!("path      {changes:<40} changes it by {alone}"));
    }
    let inert: Vec<_> = metric.path.iter().filter(|step| !step.credited).collect();
    if !inert.is_empty() {
        let changes: Vec<_> = inert.iter().map(|step| step.changes.join(", ")).collect();
        lines.push(format!("path      nothing beyond noise was shown of {}", changes.join("; ")));
    }
}

/// The row with its figure and what it changes against the reference.
fn choice_words(choice: &Choice, metric: usize, unit: &str) -> String {
    let median = choice.medians[metric].map_or("-".to_owned(), figure);
    let against = percent(&choice.against_reference[metric]);
    let (changes, samples) = (choice.changes, choice.samples);
    format!(
        "{median} {unit} in {samples} trials, {against} against the reference, {changes} changes: {}",
        words(&choice.row)
    )
}

/// A figure with the digits that say something, as much as its size lets them.
fn figure(value: f64) -> String {
    let before_the_point = value.abs().max(1.0).log10().floor() as usize + 1;
    format!("{value:.*}", DIGITS.saturating_sub(before_the_point))
}

fn front_line(choice: &Choice, summary: &Summary) -> String {
    let change = |metric: &MetricSummary| {
        format!("{} {}", metric.name, percent(&choice.against_reference[metric.place]))
    };
    let figures: Vec<String> = summary.metrics.iter().map(change).collect();
    format!("front     {}: {}", figures.join(", "), words(&choice.row))
}

pub(super) fn trade_line(trade: &Trade, summary: &Summary) -> String {
    let change =
        |(metric, change): (&MetricSummary, &Percent)| format!("{} {}", metric.name, percent(change));
    let changes: Vec<String> = summary.metrics.iter().zip(&trade.changes).map(change).collect();
    format!("trade     {} {} instead of {}: {}", trade.parameter, trade.to, trade.from, changes.join(", "))
}

fn confirmation_line(contrast: &Contrast) -> String {
    let interval = contrast.interval.map_or(String::new(), |(low, high)| format!(" ({low:.4} to {high:.4})"));
    format!(
        "confirmed {} {:.4}{interval} of the reference in {} blocks: {}; {}",
        contrast.metric,
        contrast.ratio,
        contrast.blocks,
        contrast.verdict,
        words(&contrast.row)
    )
}

pub(super) fn percent(value: &Percent) -> String {
    format!("{:+.2} % ({:+.2} to {:+.2})", value.percent, value.low, value.high)
}

pub(super) fn words(row: &BTreeMap<String, String>) -> String {
    row.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn figures_have_the_digits_that_say_something() {
        let figures = [0.734, 163.912_345, 3_710_055_220.48].map(super::figure);
        assert_eq!(figures, ["0.73400", "163.912", "3710055220"]);
    }
}
