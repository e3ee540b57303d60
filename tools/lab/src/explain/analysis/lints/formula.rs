//! Which formula a throughput column was computed by: found by trying all that make sense on every row. Rows
//! that another formula meets, or none, are named.

use super::lines;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Axis, Latency, Observation, Table, ThroughputUnit};

/// A formula is that of the column when it meets this share of the rows.
const MET_SHARE: f64 = 0.5;

/// With fewer rows a formula may meet them by chance.
const ROWS_MIN: usize = 3;

/// A formula that meets fewer rows than this beside another one meets them by chance.
const OTHER_ROWS_MIN: usize = 2;

/// How a rate of a collective operation may be made from its time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Formula {
    self_counted: bool,
    statistic: Latency,
    /// What the column's unit means beside its decimal reading.
    binary: bool,
    /// How often each byte is counted.
    counted: f64,
}

impl Formula {
    fn words(self) -> String {
        let nodes = if self.self_counted { "nodes" } else { "(nodes - 1)" };
        let twice = if self.counted > 1.0 { "2 x " } else { "" };
        let binary = if self.binary { ", in binary units" } else { "" };
        format!("{twice}{nodes} x bytes x 8 / {}{binary}", self.statistic)
    }

    /// The figure in the unit of the column, and how far rounding of the time may put it off.
    fn of(self, row: &Observation, unit: ThroughputUnit) -> Option<(f64, f64)> {
        let peers = row.at(Axis::Nodes)? - if self.self_counted { 0.0 } else { 1.0 };
        let time = row.times.get(&self.statistic)?;
        let reading = unit.readings().get(usize::from(self.binary))?;
        let rate = self.counted * peers * row.at(Axis::Size)? / time.value * 1e9 / reading;
        Some((rate, rate * time.rounding / time.value))
    }

    /// Whether the row has that throughput, within what rounding explains.
    fn meets(self, row: &Observation) -> Option<bool> {
        let (printed, unit) = row.throughput?;
        let (own, off) = self.of(row, unit)?;
        const BINARY_FRACTIONS: f64 = 1e-9;
        Some((own - printed.value).abs() <= printed.rounding + off + BINARY_FRACTIONS)
    }
}

/// All formulas, the plainest first.
fn formulas() -> Vec<Formula> {
    let statistics = [Latency::P50, Latency::Mean, Latency::Min, Latency::P90, Latency::P99];
    let mut all = Vec::new();
    for (counted, binary) in [(1.0, false), (1.0, true), (2.0, false), (2.0, true)] {
        for self_counted in [true, false] {
            all.extend(statistics.map(|statistic| Formula { self_counted, statistic, binary, counted }));
        }
    }
    all
}

/// The rows that a formula can be held against, and those that it meets.
fn met<'a>(formula: Formula, rows: &[&'a Observation]) -> (usize, Vec<&'a Observation>) {
    let tried: Vec<_> = rows.iter().filter_map(|row| Some((*row, formula.meets(row)?))).collect();
    (tried.len(), tried.iter().filter(|(_, met)| *met).map(|(row, _)| *row).collect())
}

/// Names the formula, the rows that are by another one or by none, and what the formula hides.
pub fn infer(table: &Table) -> Vec<Finding> {
    let rows: Vec<_> = table.rows.iter().collect();
    let scored: Vec<_> = formulas().into_iter().map(|formula| (formula, met(formula, &rows))).collect();
    let best = scored.iter().rev().max_by_key(|(_, (_, met))| met.len());
    let Some((formula, (tried, met_rows))) = best else { return Vec::new() };
    if *tried < ROWS_MIN || (met_rows.len() as f64) < MET_SHARE * *tried as f64 {
        return Vec::new();
    }
    let next = scored.iter().map(|(_, (_, met))| met.len()).filter(|count| *count != met_rows.len()).max();
    let sentence = format!(
        "throughput is {} in {} of {tried} rows within rounding; the next best formula meets {}",
        formula.words(),
        met_rows.len(),
        next.unwrap_or_default()
    );
    let figures = [
        ("rows", met_rows.len() as f64),
        ("of", *tried as f64),
        ("next_best", next.unwrap_or_default() as f64),
    ];
    let plain = formula.counted == 1.0 && met_rows.len() == *tried;
    let section = if plain { Section::Agreement } else { Section::Caution };
    let mut findings = vec![Finding::new(section, "throughput_formula", &table.name, sentence).with(figures)];
    let others: Vec<_> = rows.into_iter().filter(|row| formula.meets(row) == Some(false)).collect();
    findings.extend(by_others(table, others));
    findings.extend(hidden(table, *formula));
    findings
}

/// Rows that the formula does not meet: by which other one they are, or by none.
fn by_others(table: &Table, mut rows: Vec<&Observation>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |rule, what: String, rows: &[&Observation]| {
        let numbers: Vec<_> = rows.iter().map(|row| row.line).collect();
        let sentence = format!("{} rows are {what} ({})", rows.len(), lines(&numbers));
        findings.push(
            Finding::new(Section::Contradiction, rule, &table.name, sentence)
                .with([("rows", rows.len() as f64)]),
        );
    };
    while !rows.is_empty() {
        let scored = formulas().into_iter().map(|formula| (formula, met(formula, &rows).1));
        let best = scored.rev().max_by_key(|(_, met)| met.len());
        let Some((formula, met)) = best.filter(|(_, met)| met.len() >= OTHER_ROWS_MIN) else { break };
        report("other_formula", format!("by another formula than the others, {}", formula.words()), &met);
        rows.retain(|row| formula.meets(row) != Some(true));
    }
    if !rows.is_empty() {
        report("no_formula", "by no formula that is known".to_owned(), &rows);
    }
    findings
}

/// What a rate from the mean time of the messages that leave the node would be, beside the printed one.
fn hidden(table: &Table, formula: Formula) -> Option<Finding> {
    let honest = Formula { self_counted: false, statistic: Latency::Mean, counted: 1.0, ..formula };
    if formula == honest {
        return None;
    }
    let bias = |row: &Observation| {
        let (printed, unit) = row.throughput?;
        Some(1.0 - honest.of(row, unit)?.0 / printed.value)
    };
    let mut biases: Vec<_> = table.rows.iter().filter_map(bias).collect();
    biases.sort_unstable_by(f64::total_cmp);
    let (median, worst) = (*biases.get(biases.len() / 2)? * 100.0, *biases.last()? * 100.0);
    let sentence = format!(
        "a rate from {} counts the message to self or hides the tail: what was delivered, by the mean time and without \
         self, is a median {median:.0} % and at worst {worst:.0} % lower",
        formula.statistic
    );
    let figures = [("median_percent", median), ("worst_percent", worst)];
    Some(Finding::new(Section::Caution, "throughput_hides_tail", &table.name, sentence).with(figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    /// Ten rows of 11 nodes, of which the rate of each is by `formula`.
    fn table(unit: &str, rate: impl Fn(usize, f64, f64) -> f64) -> Table {
        let mut text = format!("series,nodes,size,mean_us,p50_us,{unit}\n");
        for i in 0..10 {
            let (bytes, p50) = (1000.0 * (i + 1) as f64, 7.13 * (i + 3) as f64);
            text += &format!("a,11,{bytes},{:.4},{p50:.4},{:.6}\n", p50 * 1.17, rate(i, bytes, p50));
        }
        parse("t", &text).expect("a table")
    }

    fn found(table: &Table) -> Vec<(&'static str, String)> {
        infer(table).into_iter().map(|finding| (finding.rule, finding.sentence)).collect()
    }

    #[test]
    fn what_is_counted_twice_is_said() {
        let twice = found(&table("throughput_gbps", |_, bytes, p50| 2.0 * 11.0 * bytes * 8.0 / p50 / 1e3));
        assert!(twice[0].1.starts_with("throughput is 2 x nodes x bytes x 8 / p50"), "{twice:?}");
        let binary = found(&table("throughput_mb_s", |_, bytes, p50| 10.0 * bytes / p50 / 1.048_576));
        assert!(
            binary[0].1.contains("(nodes - 1) x bytes x 8 / p50, in binary units in 10 of 10"),
            "{binary:?}"
        );
    }

    #[test]
    fn rows_by_another_formula_and_wrong_rows_are_named() {
        let mixed = found(&table("throughput_gbps", |i, bytes, p50| match i {
            0 => 77.7,
            7.. => 10.0 * bytes * 8.0 / (p50 * 1.17) / 1e3,
            _ => 11.0 * bytes * 8.0 / p50 / 1e3,
        }));
        let of = |rule| {
            mixed.iter().find(|(own, _)| *own == rule).map(|(_, words)| words.clone()).unwrap_or_default()
        };
        assert!(
            of("other_formula").contains("3 rows") && of("other_formula").contains("line 9, 10, 11"),
            "{mixed:?}"
        );
        assert!(of("no_formula").contains("1 rows") && of("no_formula").contains("line 2"), "{mixed:?}");
    }
}
