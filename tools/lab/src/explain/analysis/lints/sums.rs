//! Figures that a program prints beside their parts: the whole is the sum of these.

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{PrintedSum, Table};

/// Sums that are none.
pub fn check(table: &Table) -> Vec<Finding> {
    table.sums.iter().filter_map(|sum| wrong(table, sum)).collect()
}

fn wrong(table: &Table, sum: &PrintedSum) -> Option<Finding> {
    let (whole, parts) = (sum.whole.figure, &sum.parts);
    let all: f64 = parts.iter().map(|part| part.figure.value).sum();
    let rounding: f64 = whole.rounding + parts.iter().map(|part| part.figure.rounding).sum::<f64>();
    let ratio = whole.value / all;
    let differs = (whole.value - all).abs() > rounding + sum.tolerance * whole.value.max(all);
    let names: Vec<_> = parts.iter().map(|part| format!("`{}`", part.name)).collect();
    let sentence = format!(
        "`{}` (line {}) is {ratio:.3} times the sum of {}, which it should be",
        sum.whole.name,
        sum.line,
        names.join(" and ")
    );
    let finding = Finding::new(Section::Contradiction, "whole_is_no_sum", &table.name, sentence);
    differs.then(|| finding.with([("ratio", ratio)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::NamedFigure;

    fn found(whole: &str, parts: [&str; 2], tolerance: f64) -> usize {
        let figure = |text: &str| NamedFigure::of("a", text, 1.0).expect("a figure");
        let sum = PrintedSum { line: 1, whole: figure(whole), parts: parts.map(figure).into(), tolerance };
        check(&Table { sums: vec![sum], ..Table::default() }).len()
    }

    #[test]
    fn rounding_and_what_is_measured_by_itself_are_allowed() {
        assert_eq!(found("3.1", ["1.04", "2.0"], 0.0), 0);
        assert_eq!(found("3.4", ["1.04", "2.0"], 0.0), 1);
        assert_eq!(found("3.3", ["1.00", "2.00"], 0.05), 1);
        assert_eq!(found("3.12", ["1.00", "2.00"], 0.05), 0);
    }
}
