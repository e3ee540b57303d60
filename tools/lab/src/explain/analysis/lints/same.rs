//! Figures that agree where their names say that they should differ.

use super::lines;
use super::whole::is_total;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Latency, Observation, PrintedFigure, Role, Table, Tolerances};
use crate::statistics::histogram::samples_needed;

/// With fewer cells two series may agree by chance.
const CELLS_MIN: usize = 3;

/// Times of two kinds of operations may be alike; that all of so many rows are is no chance.
const KIND_ROWS_MIN: usize = 5;

/// All of a table.
pub fn check(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let mut findings = statistics(table, tolerances.same);
    findings.extend(kinds(table, tolerances.same));
    findings.extend(series(table, tolerances.same));
    findings
}

/// Whether two figures agree more closely than two measurements do; `None` when too few digits are printed to
/// say.
fn same(left: PrintedFigure, right: PrintedFigure, part: f64) -> Option<bool> {
    let fine = |figure: PrintedFigure| figure.rounding <= part * figure.value;
    (fine(left) && fine(right)).then(|| (left.value / right.value - 1.0).abs() <= part)
}

/// Two statistics of one row that are the same in all rows.
fn statistics(table: &Table, part: f64) -> Vec<Finding> {
    let mut latencies: Vec<_> = table.rows.iter().flat_map(|row| row.times.keys().copied()).collect();
    latencies.sort_unstable();
    latencies.dedup();
    let pairs = latencies
        .iter()
        .enumerate()
        .flat_map(|(index, a)| latencies[index + 1..].iter().map(move |b| (*a, *b)));
    pairs.filter_map(|(a, b)| pair_of_statistics(table, a, b, part)).collect()
}

fn pair_of_statistics(table: &Table, a: Latency, b: Latency, part: f64) -> Option<Finding> {
    // The largest of a few samples is every high percentile.
    let enough = |row: &&Observation| {
        let share =
            [a, b].iter().filter_map(|one| one.share()).filter(|share| *share < 1.0).fold(0.0, f64::max);
        row.samples.is_none_or(|samples| samples >= samples_needed(share.max(0.5)) as f64)
    };
    let both = |row: &Observation| same(*row.times.get(&a)?, *row.times.get(&b)?, part);
    let compared: Vec<_> = table.rows.iter().filter(enough).filter_map(both).collect();
    (compared.len() >= CELLS_MIN && compared.iter().all(|same| *same)).then(|| {
        let sentence = format!(
            "{a} and {b} agree to {:.1} % in all {} rows: is one a copy of the other?",
            part * 100.0,
            compared.len()
        );
        Finding::new(Section::Caution, "same_statistic", &table.name, sentence)
            .with([("rows", compared.len() as f64)])
    })
}

/// Times of two kinds of operations that are the same in all rows.
fn kinds(table: &Table, part: f64) -> Vec<Finding> {
    let of_kind = |(at, column): (usize, &'_ crate::explain::analysis::input::Column)| match column.role {
        Role::TimeOfKind(latency, nanos) => Some((at, latency, nanos)),
        _ => None,
    };
    let columns: Vec<_> = table.columns.iter().enumerate().filter_map(of_kind).collect();
    let mut findings = Vec::new();
    for (index, (at, latency, nanos)) in columns.iter().enumerate() {
        let others = columns[index + 1..].iter().filter(|(_, other, of)| (other, of) == (latency, nanos));
        for (other, ..) in others {
            let both = |row: &Observation| same(*row.cells.get(at)?, *row.cells.get(other)?, part);
            let compared: Vec<_> = table.rows.iter().filter_map(both).collect();
            if compared.len() < KIND_ROWS_MIN || !compared.iter().all(|same| *same) {
                continue;
            }
            let sentence = format!(
                "`{}` and `{}` agree to {:.1} % in all {} rows: is one a copy of the other?",
                table.columns[*at].heading,
                table.columns[*other].heading,
                part * 100.0,
                compared.len()
            );
            let finding = Finding::new(Section::Caution, "same_statistic", &table.name, sentence);
            findings.push(finding.with([("rows", compared.len() as f64)]));
        }
    }
    findings
}

/// Two series whose figures are the same in all cells that both have.
fn series(table: &Table, part: f64) -> Vec<Finding> {
    // A total of one part is that part.
    let mut names: Vec<_> = table.rows.iter().filter(|row| !is_total(row)).map(Observation::series).collect();
    names.sort_unstable();
    names.dedup();
    let of = |name: &str| table.rows.iter().filter(|row| row.series() == name).collect::<Vec<_>>();
    let groups: Vec<_> = names.iter().map(|name| (name, of(name))).collect();
    let mut findings = Vec::new();
    for (index, (name, rows)) in groups.iter().enumerate() {
        for (other_name, others) in &groups[index + 1..] {
            findings.extend(pair_of_series(table, (name, rows), (other_name, others), part));
        }
    }
    findings
}

fn pair_of_series(
    table: &Table,
    (name, rows): (&str, &[&Observation]),
    (other_name, others): (&str, &[&Observation]),
    part: f64,
) -> Option<Finding> {
    let mut agreeing = Vec::new();
    for row in rows {
        let partner = others.iter().find(|other| other.axes == row.axes && other.samples == row.samples)?;
        for (latency, figure) in &row.times {
            agreeing.push((partner.line, same(*figure, *partner.times.get(latency)?, part)?));
        }
        if let (Some((figure, _)), Some((other, _))) = (row.throughput, partner.throughput) {
            agreeing.push((partner.line, same(figure, other, part)?));
        }
    }
    let all = agreeing.len() >= CELLS_MIN && agreeing.iter().all(|(_, same)| *same);
    all.then(|| {
        let found: Vec<_> = agreeing.iter().map(|(line, _)| *line).collect();
        let mut found_lines = found.clone();
        found_lines.dedup();
        let sentence = format!(
            "`{name}` and `{other_name}` agree to {:.1} % in all {} figures ({}): were they measured separately, or is a \
             setting without effect?",
            part * 100.0,
            found.len(),
            lines(&found_lines)
        );
        Finding::new(Section::Caution, "same_series", &table.name, sentence).with([("figures", found.len() as f64)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    fn rules(text: &str) -> Vec<&'static str> {
        let table = parse("t", text).expect("a table");
        check(&table, &Tolerances::default()).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn copies_are_named() {
        assert_eq!(rules("p99_us,max_us\n5012,5012\n6034,6034\n7120,7120\n"), ["same_statistic"]);
        let text =
            "series,size,p50_us\na,1,1234.5\na,2,2345.6\na,4,3456.7\nb,1,1234.6\nb,2,2345.6\nb,4,3456.6\n";
        assert_eq!(rules(text), ["same_series"]);
    }

    #[test]
    fn one_kind_of_operations_that_is_a_copy_of_another_is_named() {
        let text = |write: f64| {
            let row = |n: usize| {
                let read = 88.3 + 3.17 * n as f64;
                format!("{n},{:.2},{:.2}\n", read, read * write)
            };
            format!("iodepth,read_lat_us,write_lat_us\n{}", (1..=6).map(row).collect::<String>())
        };
        assert_eq!((rules(&text(1.0)), rules(&text(1.03))), (vec!["same_statistic"], Vec::new()));
    }

    #[test]
    fn coarse_figures_and_few_samples_prove_nothing() {
        assert_eq!(rules("p99_us,max_us\n5,5\n6,6\n7,7\n"), [""; 0]);
        assert_eq!(rules("ops,p99_us,max_us\n20,5012,5012\n20,6034,6034\n20,7120,7120\n"), [""; 0]);
        assert_eq!(rules("p99_us,max_us\n5012,5012\n6034,6099\n7120,7120\n"), [""; 0]);
    }
}
