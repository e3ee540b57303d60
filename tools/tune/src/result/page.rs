//! The result as a part of a page, beside recorded runs.

use std::collections::BTreeMap;

use farcall_lab::explain::page::{PagePart, escape};

use super::chart::{Axis, Interval, chart};
use super::summary::{Choice, Contrast, MetricSummary, Percent, Summary};
use super::text::{LINES_MAX, SHARE_MIN, lines, percent, trade_line, words};

/// The part of a page about one tuning.
pub fn part(name: &str, summary: &Summary) -> PagePart {
    let mut html = format!("<section>\n<h2>Tuning {}</h2>\n", escape(name));
    trust(&mut html, summary);
    confirmation(&mut html, &summary.confirmation);
    summary.metrics.iter().for_each(|metric| objective(&mut html, metric));
    front(&mut html, summary);
    trades(&mut html, summary);
    html.push_str(&format!(
        "<details><summary>The same in words</summary>\n<pre>{}</pre></details>\n</section>\n",
        escape(&lines(summary).join("\n"))
    ));
    PagePart { name: name.to_owned(), html }
}

/// Why one should believe it, or not.
fn trust(html: &mut String, summary: &Summary) {
    let Summary { trials, failed, rows, environments, measured, .. } = summary;
    let mut items = vec![
        format!("{trials} trials, {failed} of them without figures"),
        format!("{measured} of {environments} different configurations were measured ({rows} rows)"),
    ];
    for metric in &summary.metrics {
        items.push(format!(
            "{}: a trial varies by {:.2} %; the best of one trial each would look {:.2} % better than it is",
            metric.name,
            metric.noise * 100.0,
            metric.optimism * 100.0
        ));
    }
    items.extend(summary.failures.iter().map(|failure| {
        format!(
            "{} trials of {} configurations failed because {}",
            failure.trials, failure.environments, failure.why
        )
    }));
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
    html.push_str(&format!("<div class=\"trust\">\n<h3>Why trust this</h3>\n<ul>\n{items}</ul>\n</div>\n"));
}

fn confirmation(html: &mut String, contrasts: &[Contrast]) {
    if contrasts.is_empty() {
        return;
    }
    html.push_str("<h3>finalists against the reference in fresh blocks</h3>\n");
    let mut finalists: Vec<&BTreeMap<String, String>> = Vec::new();
    for contrast in contrasts {
        if !finalists.contains(&&contrast.row) {
            finalists.push(&contrast.row);
        }
    }
    let number =
        |contrast: &Contrast| finalists.iter().position(|row| **row == contrast.row).map_or(0, |at| at + 1);
    let interval = |contrast: &Contrast| Interval {
        name: format!("{}, finalist {}", contrast.metric, number(contrast)),
        value: contrast.ratio,
        ends: contrast.interval.unwrap_or((contrast.ratio, contrast.ratio)),
    };
    let mut by_metric: Vec<&Contrast> = contrasts.iter().collect();
    by_metric.sort_by_key(|contrast| contrasts.iter().position(|one| one.metric == contrast.metric));
    let intervals: Vec<Interval> = by_metric.into_iter().map(interval).collect();
    let caption = "Ratios of medians, finalist over reference, with their 95 % intervals";
    figure(html, caption, Axis::Ratio, &intervals);
    html.push_str("<ol>\n");
    for finalist in &finalists {
        let own = contrasts.iter().filter(|contrast| contrast.row == **finalist);
        let verdicts: Vec<String> = own.map(|one| format!("{}: {}", one.metric, one.verdict)).collect();
        html.push_str(&format!("<li>{}; {}</li>\n", escape(&words(finalist)), escape(&verdicts.join(", "))));
    }
    html.push_str("</ol>\n");
}

fn objective(html: &mut String, metric: &MetricSummary) {
    html.push_str(&format!("<h3>{} ({})</h3>\n", escape(&metric.name), escape(&metric.unit)));
    if metric.nothing_matters {
        html.push_str(
            "<p>Nothing matters: no configuration can be told apart from the best beyond the noise.</p>\n",
        );
    }
    if metric.default_in_set {
        html.push_str("<p>The reference itself is in the set: nothing was shown to be better.</p>\n");
    }
    let choice = |choice: &Choice| {
        let against = percent(&choice.against_reference[metric.place]);
        format!("{against} against the reference in {} trials: {}", choice.samples, words(&choice.row))
    };
    let mut facts = vec![
        ("set", format!("{} rows, {} of them measured configurations", metric.set_rows, metric.set_measured)),
        ("best", choice(&metric.best)),
        ("simplest", choice(&metric.simplest)),
    ];
    facts.extend(
        metric
            .set_levels
            .iter()
            .map(|(name, levels)| ("in all", format!("{name} is {}", levels.join(" or ")))),
    );
    let facts: String =
        facts.iter().map(|(name, fact)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(fact))).collect();
    html.push_str(&format!("<dl>\n{facts}</dl>\n"));
    if metric.nothing_matters {
        return;
    }
    let shares = metric.importance.iter().filter(|effect| effect.share >= SHARE_MIN).take(LINES_MAX);
    let shares: Vec<Interval> = shares
        .map(|effect| Interval {
            name: effect.parameters.join(" with "),
            value: effect.share * 100.0,
            ends: (effect.share_low * 100.0, effect.share_high * 100.0),
        })
        .collect();
    figure(
        html,
        "What matters over the space: share of the variance that is not noise",
        Axis::Share,
        &shares,
    );
    let credited = metric.path.iter().filter(|step| step.credited);
    let path: Vec<Interval> = credited.map(|step| interval(step.changes.join(", "), &step.change)).collect();
    figure(html, "From the reference to the best: change of the figure so far", Axis::Change, &path);
    let near = metric.local.iter().filter(|effect| effect.cost.low > 0.0).take(LINES_MAX);
    let near: Vec<Interval> = near
        .map(|effect| {
            interval(
                format!("{} {} instead of {}", effect.parameter, effect.worst, effect.best),
                &effect.change,
            )
        })
        .collect();
    figure(html, "Near the best: what another value changes", Axis::Change, &near);
}

fn front(html: &mut String, summary: &Summary) {
    if summary.front.is_empty() {
        return;
    }
    let heads: String = summary
        .metrics
        .iter()
        .map(|metric| format!("<th scope=\"col\">{} against the reference</th>", escape(&metric.name)))
        .collect();
    html.push_str(&format!(
        "<h3>the choices between which only taste can decide (Pareto front)</h3>\n<div class=\"wide\"><table>\n\
         <thead><tr><th scope=\"col\">configuration</th>{heads}</tr></thead>\n<tbody>\n"
    ));
    for choice in &summary.front {
        let cell =
            |metric: &MetricSummary| format!("<td>{}</td>", percent(&choice.against_reference[metric.place]));
        let cells: String = summary.metrics.iter().map(cell).collect();
        html.push_str(&format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(&words(&choice.row))));
    }
    html.push_str("</tbody>\n</table></div>\n");
}

fn trades(html: &mut String, summary: &Summary) {
    if summary.trades.is_empty() {
        return;
    }
    html.push_str("<h3>what helps one and harms another, everything else as in the reference</h3>\n<ul>\n");
    for trade in &summary.trades {
        html.push_str(&format!("<li>{}</li>\n", escape(&trade_line(trade, summary))));
    }
    html.push_str("</ul>\n");
}

/// A chart with its caption and its numbers; none of nothing.
fn figure(html: &mut String, caption: &str, axis: Axis, intervals: &[Interval]) {
    if intervals.is_empty() {
        return;
    }
    let number = |Interval { name, value, ends: (low, high) }: &Interval| {
        format!("{},{value:.4},{low:.4},{high:.4}\n", name.replace(',', ";"))
    };
    let numbers: String = intervals.iter().map(number).collect();
    html.push_str(&format!(
        "<figure>\n{}<figcaption>{}</figcaption>\n<details><summary>The numbers</summary>\n\
         <pre>name,value,low,high\n{}</pre></details>\n</figure>\n",
        chart(caption, axis, intervals),
        escape(caption),
        escape(&numbers)
    ));
}

fn interval(name: String, change: &Percent) -> Interval {
    Interval { name, value: change.percent, ends: (change.low, change.high) }
}
