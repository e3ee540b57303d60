//! Collective operations have two bandwidths: bytes over time (`algbw`), and what each link carries for it
//! (`busbw`). Their ratio depends on the operation and the number of ranks, and on nothing else.
//!
//! The factors are those of NCCL's tests: 2(n - 1)/n of an all-reduce, (n - 1)/n of operations in which each
//! byte passes a link once, 1 of operations with a root.

use super::lines;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Observation, Role, Table, Tolerances};
use crate::statistics::bootstrap::median;

/// The most ranks that a factor is looked up for.
const RANKS_MAX: u32 = 1 << 16;

/// One finding: that all rows have one factor that is known, or what is odd.
pub fn check(table: &Table, tolerances: &Tolerances) -> Option<Finding> {
    let column = |name: &str| {
        let is_it = |column: &crate::explain::analysis::input::Column| {
            matches!(column.role, Role::Throughput(_)) && column.heading.to_lowercase().starts_with(name)
        };
        table.columns.iter().position(is_it)
    };
    let (algorithm, bus) = (column("algbw")?, column("busbw")?);
    let ratio = |row: &Observation| {
        let (algorithm, bus) = (row.cells.get(&algorithm)?, row.cells.get(&bus)?);
        let off = algorithm.rounding / algorithm.value + bus.rounding / bus.value + tolerances.product;
        Some((row.line, bus.value / algorithm.value, off))
    };
    let rows: Vec<_> = table.rows.iter().filter_map(ratio).collect();
    let factor = median(&rows.iter().map(|(_, ratio, _)| *ratio).collect::<Vec<_>>())?;
    let is_off = |(_, ratio, off): &&(usize, f64, f64)| (ratio / factor - 1.0).abs() > *off;
    let others: Vec<_> = rows.iter().filter(is_off).map(|(line, ..)| *line).collect();
    // The rows with the most digits say the most.
    let off = rows.iter().map(|(.., off)| off - tolerances.product).fold(f64::INFINITY, f64::min);
    let (section, sentence) = match (others.is_empty(), meaning(factor, off)) {
        (false, _) => {
            let (count, others) = (others.len(), lines(&others));
            (
                Section::Contradiction,
                format!("busbw is {factor:.4} times algbw, but not in {count} rows ({others})"),
            )
        }
        (true, Some(meaning)) => (
            Section::Agreement,
            format!("busbw is {factor:.4} times algbw in all {} rows: {meaning}", rows.len()),
        ),
        (true, None) => (
            Section::Contradiction,
            format!(
                "busbw is {factor:.4} times algbw in all {} rows, which is the factor of no operation",
                rows.len()
            ),
        ),
    };
    let figures = [("factor", factor), ("rows", others.len() as f64), ("of", rows.len() as f64)];
    Some(Finding::new(section, "bus_factor", &table.name, sentence).with(figures))
}

/// Which operation of how many ranks has that factor, to such a part of it.
fn meaning(factor: f64, off: f64) -> Option<String> {
    let meets = |own: f64| (own / factor - 1.0).abs() <= off.max(f64::EPSILON);
    if meets(1.0) {
        return Some(
            "an operation with a root, an exchange of pairs, or an all-reduce of 2 ranks".to_owned(),
        );
    }
    let ranks = |twice: f64| (2..=RANKS_MAX).find(|n| meets(twice * f64::from(n - 1) / f64::from(*n)));
    match (ranks(2.0), ranks(1.0)) {
        (Some(n), _) => Some(format!("2(n - 1)/n of an all-reduce of {n} ranks")),
        (_, Some(n)) => {
            Some(format!("(n - 1)/n of an all-gather, reduce-scatter or all-to-all of {n} ranks"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    fn found(rows: &str) -> (Section, String) {
        let table = parse("t", &format!("size,algbw (GB/s),busbw (GB/s)\n{rows}")).expect("a table");
        let finding = check(&table, &Tolerances::default()).expect("two bandwidths");
        (finding.section, finding.sentence)
    }

    #[test]
    fn the_factor_names_operation_and_ranks() {
        let (section, said) = found("1024,28.07,52.63\n4096,77.83,145.93\n");
        assert!(section == Section::Agreement && said.contains("all-reduce of 16 ranks"), "{said}");
        assert!(found("1024,40.00,30.00\n").1.contains("all-to-all of 4 ranks"));
        assert!(found("1024,40.00,40.00\n").1.contains("root"));
    }

    #[test]
    fn rows_and_factors_that_cannot_be_are_named() {
        let (section, said) = found("1,28.07,52.63\n2,77.83,145.93\n4,79.46,79.46\n");
        assert!(section == Section::Contradiction && said.contains("line 4"), "{said}");
        assert!(found("1,40.000,120.000\n").1.contains("no operation"));
    }
}
