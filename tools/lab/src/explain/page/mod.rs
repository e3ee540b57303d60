//! Recorded runs as one page that needs nothing else: no network, no script, no font.
//!
//! Clusters are often cut off from the world, and a page is read on a phone, in print and years later. So
//! figures are inline SVG in the colours of the page, each with words for those who cannot see it and its
//! numbers as CSV.

mod bars;
mod chart;
mod colours;
mod curves;
mod escape;
mod first;
mod waterfall;

use core::fmt::Write;

use serde_json::Value;

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Latency, Table};
use crate::explain::recorded::causes::waited_for_core;
use crate::explain::recorded::{RecordedFigure, RecordedRun, Track, document, explain, varied_effects};

pub use escape::escape;
use escape::of_address;

/// At most this many charts are drawn of one table, and what is left out is said; its numbers are all in the
/// table itself.
const CHARTS_MAX: usize = 24;
/// The findings that stand on the page; the others are folded away.
const FINDINGS_FIRST: usize = 3;

/// Something drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// What it shows.
    pub title: String,
    /// The same as in the drawing, in words.
    pub words: String,
    /// Its numbers.
    pub csv: String,
    /// The drawing, which carries its words with it.
    pub svg: String,
}

/// A part of the page that is written elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePart {
    /// What it is about.
    pub name: String,
    /// A section; texts of others in it are escaped.
    pub html: String,
}

/// The page of some runs.
pub fn page(runs: &[RecordedRun]) -> String {
    page_with(runs, &[])
}

/// The page of some runs, and of what else belongs beside them.
pub fn page_with(runs: &[RecordedRun], parts: &[PagePart]) -> String {
    let document = document(runs);
    let findings = explain(runs);
    let names = runs.iter().map(|run| run.name.as_str()).chain(parts.iter().map(|part| part.name.as_str()));
    let names: Vec<_> = names.collect();
    let title = escape(&format!("farcall: {}", names.join(", ")));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n",
        include_str!("style.css")
    );
    if !runs.is_empty() {
        first::first(&mut page, runs);
        trust(&mut page, runs, &findings);
        says(&mut page, &findings);
    }
    for run in runs {
        ablations(&mut page, run);
        waterfalls(&mut page, run);
        comparisons(&mut page, run);
    }
    for table in document.tables.iter().filter(|table| !table.rows.is_empty()) {
        results(&mut page, table, runs);
    }
    parts.iter().for_each(|part| page.push_str(&part.html));
    if !runs.is_empty() {
        environment(&mut page, runs);
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// Why one should believe the figures, or not.
fn trust(page: &mut String, runs: &[RecordedRun], findings: &[Finding]) {
    page.push_str("<section class=\"trust\">\n<h2>Can I trust it?</h2>\n");
    let _ = writeln!(page, "<p><strong>{}</strong></p>\n<ul>", escape(&verdict(runs, findings)));
    for recorded in runs {
        let run = &recorded.run;
        let window = match run.window_seconds {
            Some(seconds) => format!("{seconds:.1} s"),
            None => "the run did not end; figures are missing".to_owned(),
        };
        let line = format!(
            "{}: farcall {}; {} figures, {window}, seed {}, farcall {}",
            recorded.name,
            run.arguments.join(" "),
            recorded.figures.len(),
            run.seed,
            run.program
        );
        item(page, &line);
        let reference = match Track::of(recorded) {
            Some(Track { count, least, median, most }) => format!(
                "the reference (a cache line there and back between the cores) was {median:.0} ns, from {least:.0} to {most:.0} ns in {count} measurements"
            ),
            None => "the reference was not measured".to_owned(),
        };
        item(page, &format!("{}: {reference}", recorded.name));
        let cold = cold(recorded);
        if cold > 0 {
            item(
                page,
                &format!(
                    "{}: {cold} figures were taken although latencies never became steady",
                    recorded.name
                ),
            );
        }
    }
    let of = |section| findings.iter().filter(|finding| finding.section == section).count();
    let (wrong, careful) = (of(Section::Contradiction), of(Section::Caution));
    item(
        page,
        &format!(
            "{wrong} contradictions and {careful} cautions; `farcall diff` gives ratios with intervals from five pairs of runs on"
        ),
    );
    page.push_str("</ul>\n</section>\n");
}

/// The answer in one sentence; the reasons follow.
fn verdict(runs: &[RecordedRun], findings: &[Finding]) -> String {
    let wrong = findings.iter().filter(|finding| finding.section == Section::Contradiction).count();
    let cut_short = runs.iter().filter(|recorded| recorded.run.window_seconds.is_none()).count();
    let figures: usize = runs.iter().map(|recorded| recorded.figures.len()).sum();
    let cold: usize = runs.iter().map(cold).sum();
    let counted = |is_such: &dyn Fn(&RecordedFigure) -> bool| {
        runs.iter().flat_map(|run| &run.figures).filter(|figure| is_such(figure)).count()
    };
    let waited = counted(&|figure| waited_for_core(figure).is_some());
    let imprecise = counted(&is_imprecise);
    match (wrong, cut_short, cold) {
        (1.., ..) => format!("No: {wrong} statements of the figures cannot all be true."),
        (_, 1.., _) => format!("Not all: {cut_short} of {} runs did not end.", runs.len()),
        (.., 1..) => {
            format!("With care: {cold} of {figures} figures were taken before latencies were steady.")
        }
        _ if waited > 0 => format!(
            "With care: {waited} of {figures} figures were taken while a server waited for a core, which others used."
        ),
        _ if imprecise > 0 => format!(
            "With care: {imprecise} of {figures} figures differ by more than {:.0} % between parts of their run.",
            IMPRECISE_MIN * 100.0
        ),
        _ => {
            "Yes, as far as figures can tell: none contradicts another, and latencies were steady.".to_owned()
        }
    }
}

/// A figure whose rate may be off by more than this is of little use.
const IMPRECISE_MIN: f64 = 0.25;

fn is_imprecise(figure: &RecordedFigure) -> bool {
    figure.more.get("relative_error").and_then(Value::as_f64).is_some_and(|error| error > IMPRECISE_MIN)
}

/// The figures that were taken although latencies never became steady.
fn cold(recorded: &RecordedRun) -> usize {
    recorded.figures.iter().filter(|figure| figure.more.get("warm") == Some(&false.into())).count()
}

/// Puts a drawing on the page; `name` is for the file of its numbers.
fn put(page: &mut String, name: &str, index: usize, drawing: &Drawing) {
    let Drawing { title, csv, svg, .. } = drawing;
    debug_assert!(svg.contains(&escape(&drawing.words)), "the words are for those who cannot see it");
    let file: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    page.push_str(&format!(
        "<figure>\n<figcaption>{}</figcaption>\n{svg}<details><summary>The numbers</summary>\n<pre>{}</pre>\n\
         <a download=\"{file}-{index}.csv\" href=\"data:text/csv;charset=utf-8,{}\">as CSV</a></details>\n</figure>\n",
        escape(title),
        escape(csv),
        of_address(csv),
    ));
}

fn item(page: &mut String, text: &str) {
    page.push_str(&format!("<li>{}</li>\n", escape::prose(text)));
}

/// The findings under their headings.
fn says(page: &mut String, findings: &[Finding]) {
    page.push_str("<section>\n<h2>What the figures say</h2>\n");
    if findings.is_empty() {
        page.push_str("<p>No two figures here are bound to each other by a law.</p>\n");
    }
    let sentence = |finding: &Finding| format!("{}: {}", finding.about, finding.sentence);
    let (first, rest) = findings.split_at(findings.len().min(FINDINGS_FIRST));
    page.push_str("<ul>\n");
    for finding in first {
        let kind = match finding.section {
            Section::Summary => String::new(),
            other => format!(" ({other})"),
        };
        item(page, &(sentence(finding) + &kind));
    }
    page.push_str("</ul>\n");
    if !rest.is_empty() {
        page.push_str(&format!("<details><summary>{} more findings</summary>\n", rest.len()));
        for same in rest.chunk_by(|a, b| a.section == b.section) {
            page.push_str(&format!("<h3>{}</h3>\n<ul>\n", same[0].section));
            same.iter().for_each(|finding| item(page, &sentence(finding)));
            page.push_str("</ul>\n");
        }
        page.push_str("</details>\n");
    }
    page.push_str("</section>\n");
}

/// What factors do to each figure of a run of `--vary`.
fn ablations(page: &mut String, run: &RecordedRun) {
    let effects = varied_effects(run);
    if effects.is_empty() {
        return;
    }
    page.push_str(&format!("<section>\n<h2>{}: factors</h2>\n", escape(&run.name)));
    for (index, (about, effects)) in effects.iter().take(CHARTS_MAX).enumerate() {
        put(page, "factors", index, &bars::of(about, effects));
    }
    left_out(page, effects.len());
    page.push_str("</section>\n");
}

/// Says how many charts there would be more.
fn left_out(page: &mut String, charts: usize) {
    if charts > CHARTS_MAX {
        let _ = writeln!(page, "<p>{} more charts are left out.</p>", charts - CHARTS_MAX);
    }
}

/// What `compare` found: figures beside others of the same blocks.
fn comparisons(page: &mut String, run: &RecordedRun) {
    let compared: Vec<_> = run.figures.iter().filter(|figure| figure.more.contains_key("other")).collect();
    if compared.is_empty() {
        return;
    }
    page.push_str(&format!(
        "<section>\n<h2>{}: beside others</h2>\n<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">row</th>\
         <th scope=\"col\">farcall</th><th scope=\"col\">other</th><th scope=\"col\">ratio</th><th scope=\"col\">95 %</th>\
         <th scope=\"col\">verdict</th></tr></thead>\n<tbody>\n",
        escape(&run.name)
    ));
    for figure in compared {
        let number = |field: &str| figure.more.get(field).and_then(Value::as_f64);
        let text = |field: &str| figure.more.get(field).and_then(Value::as_str).unwrap_or("–").to_owned();
        let interval = match (number("ratio_low"), number("ratio_high")) {
            (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
            _ => "–".to_owned(),
        };
        let what = format!("{} {}: {}", figure.transport, figure.name, text("description"));
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{:.1} {}</td>{}{}<td>{interval}</td><td>{}</td></tr>",
            escape(&what),
            figure.value,
            escape(&figure.unit),
            cell(number("other")),
            cell(number("ratio")),
            escape(&text("verdict")),
        );
    }
    page.push_str("</tbody>\n</table></div>\n</section>\n");
}

/// Where the time of traced calls went.
fn waterfalls(page: &mut String, run: &RecordedRun) {
    let drawings: Vec<_> = run.figures.iter().filter_map(waterfall::of).collect();
    if drawings.is_empty() {
        return;
    }
    page.push_str(&format!(
        "<section>\n<h2>{}: where the time went</h2>\n<div class=\"beside\">\n",
        escape(&run.name)
    ));
    for (index, drawing) in drawings.iter().enumerate() {
        put(page, "parts", index, drawing);
    }
    page.push_str("</div>\n</section>\n");
}

/// A table of figures, and its curves.
fn results(page: &mut String, table: &Table, runs: &[RecordedRun]) {
    page.push_str(&format!("<section>\n<h2>{}</h2>\n", escape(&table.name)));
    let charts = curves::of(table, runs);
    page.push_str("<div class=\"beside\">\n");
    for (index, chart) in charts.iter().take(CHARTS_MAX).enumerate() {
        put(page, &table.name, index, &chart.drawing());
    }
    page.push_str("</div>\n");
    left_out(page, charts.len());
    let heads = Latency::QUANTILES.iter().map(|latency| format!("<th scope=\"col\">{latency}, us</th>"));
    page.push_str(&format!(
        "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">series</th>{}<th scope=\"col\">K operations/s</th>\
         <th scope=\"col\">Gb/s</th><th scope=\"col\">samples</th></tr></thead>\n<tbody>\n",
        heads.collect::<String>()
    ));
    let mut rows: Vec<_> = table.rows.iter().collect();
    rows.sort_by(|a, b| a.series().cmp(&b.series()).then_with(|| curves::by_axes(a, b)));
    for row in rows {
        let name = escape(&format!("{}; {}", row.series(), curves::axes(row)));
        let times = Latency::QUANTILES.map(|latency| cell(row.nanos(latency).map(|nanos| nanos / 1e3)));
        let rates = [
            cell(row.operations_per_second.map(|rate| rate / 1e3)),
            cell(row.throughput.map(|(figure, _)| figure.value)),
            row.samples.map_or("<td>–</td>".to_owned(), |samples| format!("<td>{samples}</td>")),
        ];
        page.push_str(&format!(
            "<tr><th scope=\"row\">{name}</th>{}{}</tr>\n",
            times.concat(),
            rates.concat()
        ));
    }
    page.push_str("</tbody>\n</table></div>\n</section>\n");
}

fn cell(value: Option<f64>) -> String {
    value.map_or("<td>–</td>".to_owned(), |value| format!("<td>{value:.3}</td>"))
}

/// The machine and the parameters of each run.
fn environment(page: &mut String, runs: &[RecordedRun]) {
    page.push_str("<section>\n<h2>Environment</h2>\n");
    for recorded in runs {
        page.push_str(&format!("<h3 class=\"name\">{}</h3>\n<dl>\n", escape(&recorded.name)));
        let parameters = ("parameters".to_owned(), recorded.run.parameters.join(" "));
        let facts = recorded.run.environment.facts.iter().map(|(name, fact)| (name.clone(), fact.clone()));
        for (name, fact) in facts.chain([parameters]) {
            // Writing to a string cannot fail.
            let _ = writeln!(page, "<dt>{}</dt><dd>{}</dd>", escape(&name), escape(&fact));
        }
        page.push_str("</dl>\n");
    }
    page.push_str("</section>\n");
}

#[cfg(test)]
mod tests;
