//! Rates by their statistics: a least one is not above the mean, and a mean not above the peak.

use super::lines;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Observation, PrintedFigure, Role, Table, words_of};

/// Words by which headings tell statistics of one rate apart, from low to high.
const STATISTICS: [&[&str]; 3] = [
    &["min", "minimum", "worst", "lowest"],
    &["avg", "average", "mean"],
    &["peak", "max", "maximum", "best"],
];

/// A column that has a statistic of a rate.
struct Statistic<'t> {
    column: usize,
    heading: &'t str,
    /// Its place among [`STATISTICS`].
    height: usize,
    /// What one of its unit is.
    unit: f64,
    /// The heading's other words.
    of: Vec<String>,
}

impl Statistic<'_> {
    fn value(&self, row: &Observation) -> Option<PrintedFigure> {
        Some(row.cells.get(&self.column)?.times(self.unit))
    }
}

/// Checks every two statistics of a rate.
pub fn check(table: &Table) -> Vec<Finding> {
    let statistics = statistics(table);
    let pairs = statistics.iter().flat_map(|low| statistics.iter().map(move |high| (low, high)));
    let of_one_rate = pairs.filter(|(low, high)| low.height < high.height && low.of == high.of);
    of_one_rate.filter_map(|(low, high)| compared(table, low, high)).collect()
}

fn statistics(table: &Table) -> Vec<Statistic<'_>> {
    let columns = table.columns.iter().enumerate();
    let found = columns.filter_map(|(column, of)| {
        let unit = match of.role {
            Role::Throughput(unit) => unit.readings()[0],
            Role::Operations(scale) => scale,
            _ => return None,
        };
        let words = words_of(&of.heading);
        let height_of = |word: &String| STATISTICS.iter().position(|words| words.contains(&word.as_str()));
        let height = words.iter().find_map(height_of)?;
        let of_words = words.iter().filter(|word| height_of(word).is_none()).cloned().collect();
        Some(Statistic { column, heading: &of.heading, height, unit, of: of_words })
    });
    found.collect()
}

fn compared(table: &Table, low: &Statistic<'_>, high: &Statistic<'_>) -> Option<Finding> {
    let is_above = |row: &&Observation| {
        let (low, high) = (low.value(row)?, high.value(row)?);
        (low.value - low.rounding > high.value + high.rounding).then_some(row.line)
    };
    let above: Vec<_> = table.rows.iter().filter_map(|row| is_above(&row)).collect();
    let sentence = format!(
        "`{}` is above `{}` in {} of {} rows ({})",
        low.heading,
        high.heading,
        above.len(),
        table.rows.len(),
        lines(&above)
    );
    let figures = [("rows", above.len() as f64), ("of", table.rows.len() as f64)];
    let finding = Finding::new(Section::Contradiction, "peak_below_mean", &table.name, sentence);
    (!above.is_empty()).then(|| finding.with(figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    fn found(text: &str) -> Vec<String> {
        let findings = check(&parse("t", text).expect("a table"));
        findings.into_iter().map(|finding| finding.sentence).collect()
    }

    #[test]
    fn a_peak_is_not_below_the_mean_nor_that_below_the_least() {
        let text = "bytes,BW peak[MB/sec],BW average[MB/sec]\n1024,2451.2,2438.9\n4096,9102.4,9217.8\n";
        assert_eq!(found(text), ["`BW average[MB/sec]` is above `BW peak[MB/sec]` in 1 of 2 rows (line 3)"]);
        let text = "threads,min ops/s,mean ops/s,max ops/s\n1,101,99,120\n2,100,110,105\n4,90,95,99\n";
        assert_eq!(
            found(text),
            [
                "`min ops/s` is above `mean ops/s` in 1 of 3 rows (line 2)",
                "`mean ops/s` is above `max ops/s` in 1 of 3 rows (line 3)",
            ]
        );
    }

    #[test]
    fn others_are_not_compared() {
        for text in [
            // Rounding may make them equal.
            "bytes,peak GB/s,average GB/s\n1,1.2,1.20\n2,1.3,1.34\n",
            // Units make them comparable.
            "bytes,peak GB/s,average MB/s\n1,1.2,1190\n",
            // Of two things.
            "bytes,max read MB/s,average write MB/s\n1,100,200\n",
            "bytes,peak MB/s,MB/s\n1,100,200\n",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
