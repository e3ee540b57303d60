//! Which formula a throughput column was computed by: found by trying all that make sense on every row.

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Axis, Latency, Observation, Table, ThroughputUnit};

/// A formula is that of the column when it meets this share of the rows.
const MET_SHARE: f64 = 0.98;

/// With fewer rows a formula may meet them by chance.
const ROWS_MIN: usize = 3;

/// How a rate of a collective operation may be made from its time.
#[derive(Clone, Copy, Debug)]
struct Formula {
    self_counted: bool,
    statistic: Latency,
}

impl Formula {
    fn words(self) -> String {
        let nodes = if self.self_counted { "nodes" } else { "(nodes - 1)" };
        format!("{nodes} x bytes x 8 / {}", self.statistic)
    }

    /// Gb/s, and how far rounding of the time may put it off.
    fn of(self, row: &Observation) -> Option<(f64, f64)> {
        let peers = row.at(Axis::Nodes)? - if self.self_counted { 0.0 } else { 1.0 };
        let time = row.times.get(&self.statistic)?;
        let gbps = peers * row.at(Axis::Size)? * 8.0 / time.value;
        Some((gbps, gbps * time.rounding / time.value))
    }

    /// Whether the row has that throughput, within what rounding explains.
    fn meets(self, row: &Observation) -> Option<bool> {
        let ((printed, unit), (own, off)) = (row.throughput?, self.of(row)?);
        const BINARY_FRACTIONS: f64 = 1e-9;
        (unit == ThroughputUnit::Gigabits)
            .then(|| (own - printed.value).abs() <= printed.rounding + off + BINARY_FRACTIONS)
    }
}

/// Names the formula, and what it hides.
pub fn infer(table: &Table) -> Vec<Finding> {
    let statistics = [Latency::P50, Latency::Mean, Latency::Min, Latency::P90, Latency::P99];
    let formulas = [true, false]
        .into_iter()
        .flat_map(|self_counted| statistics.map(|statistic| Formula { self_counted, statistic }));
    let scored: Vec<_> = formulas.map(|formula| (formula, met(formula, table))).collect();
    let Some(&(formula, (met, rows))) = scored.iter().max_by_key(|(_, (met, _))| *met) else {
        return Vec::new();
    };
    if rows < ROWS_MIN || (met as f64) < MET_SHARE * rows as f64 {
        return Vec::new();
    }
    let others = scored.iter().filter(|(_, (others, _))| *others != met).map(|(_, (met, _))| *met).max();
    let sentence = format!(
        "throughput is {} in {met} of {rows} rows within rounding; the next best formula meets {}",
        formula.words(),
        others.unwrap_or_default()
    );
    let figures =
        [("rows", met as f64), ("of", rows as f64), ("next_best", others.unwrap_or_default() as f64)];
    let mut findings =
        vec![Finding::new(Section::Agreement, "throughput_formula", &table.name, sentence).with(figures)];
    findings.extend(hidden(table, formula));
    findings
}

fn met(formula: Formula, table: &Table) -> (usize, usize) {
    let verdicts: Vec<_> = table.rows.iter().filter_map(|row| formula.meets(row)).collect();
    (verdicts.iter().filter(|met| **met).count(), verdicts.len())
}

/// What a rate from the mean time of the messages that leave the node would be, beside the printed one.
fn hidden(table: &Table, formula: Formula) -> Option<Finding> {
    let honest = Formula { self_counted: false, statistic: Latency::Mean };
    if !formula.self_counted && formula.statistic == Latency::Mean {
        return None;
    }
    let bias = |row: &Observation| Some(1.0 - honest.of(row)?.0 / row.throughput?.0.value);
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
