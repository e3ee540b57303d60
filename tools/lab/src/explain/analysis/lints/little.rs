//! Little's law row by row: what is in flight is rate x mean time. A row that breaks it says how deep its
//! pipeline must be; a row without a mean says what mean the law leaves, and quantiles may forbid that.

use super::quantiles::{mean_least, mean_most};
use super::{LINES_SHOWN, lines};
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Axis, Latency, Observation, Table, Tolerances};

/// A row's numbers for the law.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Loop {
    line: usize,
    in_flight: f64,
    per_second: f64,
}

impl Loop {
    /// The loop of a row; where nothing else is stated each client has one operation in flight, and a
    /// throughput over a size is a rate.
    fn of(row: &Observation) -> Option<Self> {
        let in_flight = row.at(Axis::InFlight).or(row.at(Axis::Clients))?;
        let by_bytes = || {
            let size = row.at(Axis::Size).filter(|size| *size > 0.0 && row.size_suffix.is_none())?;
            let (figure, unit) = row.throughput.filter(|(_, unit)| unit.readings().len() == 1)?;
            Some(figure.value * unit.readings()[0] / size)
        };
        let collective = row.at(Axis::Nodes).is_some();
        let per_second = row.operations_per_second.or_else(|| by_bytes().filter(|_| !collective))?;
        Some(Self { line: row.line, in_flight, per_second })
    }

    fn implied(&self, mean_nanos: f64) -> f64 {
        self.per_second * mean_nanos / 1e9
    }
}

/// All of a table.
pub fn check(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let mut findings = stated_means(table, tolerances);
    findings.extend(implied_means(table, tolerances));
    findings
}

/// Rows that state what is in flight, a rate and a mean.
fn stated_means(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let ratio = |row: &Observation| {
        let loops = Loop::of(row)?;
        Some((loops, loops.implied(row.nanos(Latency::Mean)?)))
    };
    let rows: Vec<_> = table.rows.iter().filter_map(ratio).collect();
    let off = |implied: f64, stated: f64| implied / stated - 1.0;
    let broken: Vec<_> =
        rows.iter().filter(|(row, implied)| off(*implied, row.in_flight).abs() > tolerances.little).collect();
    let figures = |rows_broken: usize| [("rows", rows_broken as f64), ("of", rows.len() as f64)];
    if rows.is_empty() {
        return Vec::new();
    }
    let allowed = tolerances.little * 100.0;
    if broken.is_empty() {
        let sentence =
            format!("rate x mean time is what is in flight in all {} rows within {allowed:.0} %", rows.len());
        return vec![Finding::new(Section::Agreement, "little", &table.name, sentence).with(figures(0))];
    }
    let shown: Vec<_> = broken
        .iter()
        .take(LINES_SHOWN)
        .map(|(row, implied)| {
            format!(
                "line {}: {:.3} implied, {} stated, {:.3} times",
                row.line,
                implied,
                row.in_flight,
                implied / row.in_flight
            )
        })
        .collect();
    let line_numbers: Vec<_> = broken.iter().map(|(row, _)| row.line).collect();
    let sentence = format!(
        "rate x mean time is more than {allowed:.0} % off what is in flight in {} of {} rows ({}): {}{}",
        broken.len(),
        rows.len(),
        lines(&line_numbers),
        shown.join("; "),
        causes(broken.iter().map(|(row, implied)| implied / row.in_flight)),
    );
    let mut finding =
        Finding::new(Section::Contradiction, "little", &table.name, sentence).with(figures(broken.len()));
    finding.figures.extend(broken.first().map(|(_, implied)| ("implied_in_flight", *implied)));
    vec![finding]
}

/// What may make a loop look deeper, or shallower, than is stated.
fn causes(ratios: impl Iterator<Item = f64>) -> String {
    let ratios: Vec<_> = ratios.collect();
    let mut causes = String::new();
    if ratios.iter().any(|ratio| *ratio > 1.0) {
        causes += "; more in flight than stated is consistent with pipelining, with times from the intended start \
                   (an open loop, or a correction for coordinated omission), and with a mean over another window";
    }
    if ratios.iter().any(|ratio| *ratio < 1.0) {
        causes += "; less is consistent with a loop that is idle between operations, with operations that failed or \
                   are left out, and with a mean over another window";
    }
    causes
}

/// Rows without a mean: the one that the law leaves has to lie where the quantiles allow.
fn implied_means(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let mut impossible = Vec::new();
    let mut all = 0;
    for row in table.rows.iter().filter(|row| row.nanos(Latency::Mean).is_none()) {
        let quantiles = row.quantiles();
        let (Some(loops), false) = (Loop::of(row), quantiles.is_empty()) else { continue };
        all += 1;
        let mean = loops.in_flight / loops.per_second * 1e9;
        let low = mean * (1.0 + tolerances.little) < mean_least(&quantiles);
        let high = mean_most(&quantiles).is_some_and(|most| mean * (1.0 - tolerances.little) > most);
        if low || high {
            impossible.push((row.line, mean, low));
        }
    }
    if impossible.is_empty() {
        return Vec::new();
    }
    let say = |(line, mean, low): &(usize, f64, bool)| {
        let where_ = if *low { "below the least" } else { "above the most" };
        format!("line {line}: {:.2} us, {where_} that the quantiles allow", mean / 1e3)
    };
    let shown: Vec<_> = impossible.iter().take(LINES_SHOWN).map(say).collect();
    let line_numbers: Vec<_> = impossible.iter().map(|(line, _, _)| *line).collect();
    let ratios = impossible.iter().map(|(_, _, low)| if *low { 2.0 } else { 0.5 });
    let sentence = format!(
        "of a closed loop in flight / rate is the mean time, and in {} of {all} rows that cannot be ({}): {}{}",
        impossible.len(),
        lines(&line_numbers),
        shown.join("; "),
        causes(ratios)
    );
    let figures = [("rows", impossible.len() as f64), ("of", f64::from(all))];
    vec![Finding::new(Section::Contradiction, "little_and_quantiles", &table.name, sentence).with(figures)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    fn findings(text: &str) -> Vec<Finding> {
        check(&parse("t", text).expect("a table"), &Tolerances::default())
    }

    #[test]
    fn rows_that_break_the_law_get_their_implied_depth() {
        let text = "in_flight,operations_per_s,mean_us\n1,1000000,1\n2,1000000,32\n";
        let found = &findings(text)[0];
        assert_eq!((found.section, found.figure("rows")), (Section::Contradiction, Some(1.0)));
        assert!(
            found.sentence.contains("line 3: 32.000 implied, 2 stated, 16.000 times"),
            "{}",
            found.sentence
        );
        assert!(found.sentence.contains("pipelining") && !found.sentence.contains("idle"));
    }

    #[test]
    fn a_tolerance_can_be_set() {
        let table = parse("t", "in_flight,operations_per_s,mean_us\n1,1000000,1.2\n").expect("a table");
        assert_eq!(check(&table, &Tolerances::default())[0].section, Section::Contradiction);
        let wide = Tolerances { little: 0.3, ..Tolerances::default() };
        assert_eq!(check(&table, &wide)[0].section, Section::Agreement);
    }

    #[test]
    fn quantiles_forbid_means() {
        let text = "in_flight,operations_per_s,p50_us\n1,1000000,5\n";
        let found = findings(text);
        assert_eq!(found[0].rule, "little_and_quantiles");
        assert!(found[0].sentence.contains("below the least"));
        assert_eq!(findings("in_flight,operations_per_s,p50_us\n8,1000000,5\n"), []);
    }
}
