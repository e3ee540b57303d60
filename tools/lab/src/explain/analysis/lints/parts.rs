//! A column of what each part has and a column of the total: the total is the number of parts times what each
//! has, as `nodes`, `GB/s per node` and `total GB/s`.

use super::agreement::{Law, Pair, Reading, holds_mostly, judge};
use super::rates::quantity;
use crate::explain::analysis::finding::Finding;
use crate::explain::analysis::input::{
    Observation, PARTS, PrintedFigure, Role, Table, Tolerances, counted_parts, words_of,
};

/// Words by which a heading says that its figures are of all parts together.
const TOTALS: [&str; 7] = ["total", "aggregate", "aggregated", "overall", "sum", "all", "cumulative"];

/// Words that change nothing about what is multiplied by the number of parts.
const MEANS: [&str; 3] = ["mean", "avg", "average"];

/// A column of rates.
struct Rates<'t> {
    column: usize,
    heading: &'t str,
    /// What one of its unit is, in bytes or operations per second, and whether it is bytes.
    unit: (f64, bool),
    words: Vec<String>,
}

impl Rates<'_> {
    /// The part of which this is the rate of one.
    fn part(&self) -> Option<(&'static str, &'static str)> {
        let names = |part: &str| self.words.windows(2).any(|pair| pair[0] == "per" && pair[1] == part);
        PARTS.into_iter().find(|(one, _)| names(one))
    }

    fn is_total(&self) -> bool {
        self.words.iter().any(|word| TOTALS.contains(&word.as_str()))
    }

    /// What it is a rate of, besides its unit and who has it.
    fn subject(&self) -> Vec<String> {
        let part = self.part().map(|(one, _)| one);
        let is_beside = |word: &String| {
            let word = word.as_str();
            part != Some(word) && !TOTALS.contains(&word) && !MEANS.contains(&word)
        };
        quantity(self.heading).into_iter().filter(is_beside).collect()
    }

    fn value(&self, row: &Observation) -> Option<PrintedFigure> {
        row.cells.get(&self.column).copied()
    }
}

fn rates(table: &Table) -> Vec<Rates<'_>> {
    let columns = table.columns.iter().enumerate();
    let found = columns.filter_map(|(column, of)| {
        let unit = match of.role {
            Role::Throughput(unit) => (unit.readings()[0], true),
            Role::Operations(scale) => (scale, false),
            Role::RateOfEach(unit, is_bytes) => (unit, is_bytes),
            _ => return None,
        };
        Some(Rates { column, heading: &of.heading, unit, words: words_of(&of.heading) })
    });
    found.collect()
}

/// How many parts a row has, by a column that is called so.
fn count(table: &Table, row: &Observation, part: (&str, &str)) -> Option<f64> {
    let column = table.columns.iter().position(|column| counted_parts(&column.heading) == Some(part))?;
    match table.columns[column].role {
        Role::Axis(axis) => row.at(axis),
        _ => row.cells.get(&column).map(|number| number.value),
    }
}

/// The number of parts x the rate of each = the total rate.
pub fn check(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let rates = rates(table);
    let wholes: Vec<&Rates<'_>> = rates.iter().filter(|rates| rates.part().is_none()).collect();
    let mut findings = Vec::new();
    for each in &rates {
        let Some(part) = each.part() else { continue };
        let is_of_kind =
            |whole: &&&Rates<'_>| whole.unit.1 == each.unit.1 && whole.subject() == each.subject();
        let of_kind = || wholes.iter().filter(is_of_kind);
        // Without a column that is called a total, the only other one is of all.
        let Some(whole) = of_kind()
            .find(|whole| whole.is_total())
            .or_else(|| of_kind().next().filter(|_| of_kind().count() == 1))
        else {
            continue;
        };
        let pair = |row: &Observation| {
            let (each_of, all) = (each.value(row)?, whole.value(row)?);
            let number = count(table, row, part).filter(|number| *number > 0.0)?;
            let ratio = all.value * whole.unit.0 / (number * each_of.value * each.unit.0);
            let rounding = all.rounding / all.value + each_of.rounding / each_of.value;
            Some(Pair { line: row.line, ratio, rounding })
        };
        let pairs: Vec<_> = table.rows.iter().filter_map(pair).collect();
        let words = format!("`{}` is {} x `{}`", whole.heading, part.1, each.heading);
        let law =
            Law { rule: "total_of_each", table: &table.name, words: &words, tolerance: tolerances.product };
        // Names alone bind the two: where most rows are not by that, another number is meant.
        let found = judge(law, &pairs, &both_directions());
        if found.first().is_some_and(holds_mostly) {
            findings.extend(found);
        }
    }
    findings
}

fn both_directions() -> [Reading; 2] {
    let counted = |ratio: f64, words: &str| Reading { ratio, words: words.to_owned(), is_unit: false };
    [
        counted(2.0, "one of them counts both directions"),
        counted(0.5, "one of them counts both directions, the other one"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::finding::Section;
    use crate::explain::analysis::input::table::parse;

    fn found(text: &str) -> Vec<(Section, String)> {
        let findings = check(&parse("t", text).expect("a table"), &Tolerances::default());
        findings.into_iter().map(|finding| (finding.section, finding.sentence)).collect()
    }

    #[test]
    fn a_total_that_is_not_what_the_parts_have_is_named_by_its_row() {
        let text = "nodes,per_node_GBps,total_GBps\n2,10.1,20.2\n4,10.0,40.0\n8,9.7,77.6\n16,9.6,173.6\n";
        let sections: Vec<_> = found(text).into_iter().collect();
        assert_eq!(sections[0].0, Section::Agreement);
        assert_eq!(sections[1].0, Section::Contradiction);
        assert!(sections[1].1.contains("line 5"), "{sections:?}");
        assert_eq!(found(&text.replace("173.6", "153.6")).len(), 1);
    }

    #[test]
    fn parts_have_many_names_and_totals_none() {
        let text = "threads;ops/s per thread;ops/s\n1;1000.0;1000.0\n2;950.0;1900.0\n4;900.0;3600.0\n8;800.0;7400.0\n";
        assert!(found(text)[1].1.contains("line 5"), "{:?}", found(text));
        assert!(found("threads;Mops/s/thread;latency_us\n1;10.0;2.0\n").is_empty(), "nothing is of all");
        assert!(
            found("ranks,ops/s per thread,ops/s\n4,10.0,80.0\n").is_empty(),
            "of threads nothing is said"
        );
    }

    #[test]
    fn both_directions_are_known() {
        let found = found("hosts,MB/s per host,total MB/s\n2,100.0,400.0\n3,100.0,600.0\n4,90.0,720.0\n");
        assert!(found[0].0 == Section::Caution && found[0].1.contains("both directions"), "{found:?}");
    }

    /// Each was accused once.
    #[test]
    fn honest_tables_are_not_accused() {
        for text in [
            "port,GB/s per port,total GB/s\n1,10.1,40.4\n2,10.0,40.4\n3,10.2,40.4\n4,10.1,40.4\n",
            "rank,MB/s per rank,total MB/s\n0,100.0,400.0\n1,101.0,400.0\n2,99.0,400.0\n3,100.0,400.0\n",
            "threads,min ops/s per thread,total ops/s\n2,90.0,200.0\n4,80.0,400.0\n8,70.0,800.0\n",
            "threads,get ops/s per thread,total ops/s\n2,80.0,200.0\n4,80.0,400.0\n8,80.0,800.0\n",
            "clients,ops/s per client,ops/s\n2,103.0,200.0\n4,104.0,400.0\n8,102.0,800.0\n",
            "nodes,GB/s per node,storage total GB/s\n2,10.0,90.0\n4,10.0,95.0\n8,10.0,99.0\n",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }
}
