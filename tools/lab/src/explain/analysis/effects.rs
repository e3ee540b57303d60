//! What a change did, cell by cell, beside what repeating does.

use std::collections::BTreeMap;

use super::finding::{Finding, Section};
use super::input::{Axis, Cause, Comparison, Document, Observation, Table};
use super::normal::student_95;

/// Below this an effect is none, however sure.
const INDIFFERENCE: f64 = 0.01;

/// A change that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeEffect {
    /// The change, in words.
    pub change: String,
    /// The table.
    pub table: String,
    /// What it tests.
    pub tests: Option<Cause>,
    /// The axis along which it was measured.
    pub axis: Axis,
    /// The place on the axis, and by which part the figure grew.
    pub cells: Vec<(f64, f64)>,
    /// By which part two measurements of one cell differ in 19 of 20 cases; `None` when none was repeated.
    pub noise: Option<f64>,
}

impl ChangeEffect {
    /// Whether the change of a cell is more than noise.
    pub fn is_real(&self, growth: f64) -> bool {
        growth.abs() > self.noise.unwrap_or(0.0).max(INDIFFERENCE)
    }

    /// The effect in the cell that is farthest out, where limits show.
    pub fn at_end(&self) -> Option<f64> {
        self.cells.last().map(|(_, growth)| *growth)
    }

    /// The effect in words.
    pub fn finding(&self) -> Finding {
        let cell = |(place, growth): &(f64, f64)| {
            let real = if self.is_real(*growth) { "" } else { " (none)" };
            format!("{place}: {:+.1} %{real}", growth * 100.0)
        };
        let cells: Vec<_> = self.cells.iter().map(cell).collect();
        let noise = match self.noise {
            Some(noise) => format!("repeats differ by up to {:.1} %", noise * 100.0),
            None => "nothing was repeated, so how much of this is noise is not known".to_owned(),
        };
        let sentence = format!("by {}: {}; {noise}", self.axis, cells.join(", "));
        let ends = [("first_percent", self.cells.first()), ("last_percent", self.cells.last())];
        let figures = ends.into_iter().filter_map(|(name, cell)| Some((name, cell?.1 * 100.0)));
        let mut finding =
            Finding::new(Section::Effect, "effect", format!("{}, {}", self.table, self.change), sentence)
                .with(figures);
        finding.figures.extend(self.noise.map(|noise| ("noise_percent", noise * 100.0)));
        finding
    }
}

/// Measures a comparison on the cells that both sides have; `None` if there are none.
pub fn measure(comparison: &Comparison, document: &Document) -> Option<ChangeEffect> {
    let table = document.table(&comparison.table)?;
    let (before, after) = (cells(table, &comparison.before), cells(table, &comparison.after));
    let both: Vec<_> = before
        .iter()
        .filter_map(|(place, row)| Some((place, (row.merit()?, after.get(place)?.merit()?))))
        .collect();
    let axis = varied(&both)?;
    let mut cells: Vec<_> = both
        .iter()
        .filter_map(|(place, (before, after))| Some((place_on(place, axis)?, after / before - 1.0)))
        .collect();
    cells.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    Some(ChangeEffect {
        change: comparison.change.clone(),
        table: table.name.clone(),
        tests: comparison.tests,
        axis,
        cells,
        noise: noise(table),
    })
}

/// The coordinates of a cell, each as an axis and its value.
type Place = Vec<(Axis, u64)>;

fn place(row: &Observation) -> Place {
    row.axes.iter().map(|(axis, value)| (*axis, value.to_bits())).collect()
}

fn place_on(place: &Place, axis: Axis) -> Option<f64> {
    place.iter().find(|(own, _)| *own == axis).map(|(_, bits)| f64::from_bits(*bits))
}

/// Rows with these labels by their places; of several at one the one with the most samples.
fn cells<'a>(table: &'a Table, labels: &BTreeMap<String, String>) -> BTreeMap<Place, &'a Observation> {
    let mut cells: BTreeMap<Place, &Observation> = BTreeMap::new();
    let wanted = |row: &&Observation| labels.iter().all(|(label, text)| row.labels.get(label) == Some(text));
    for row in table.rows.iter().filter(wanted) {
        let kept = cells.entry(place(row)).or_insert(row);
        if row.samples > kept.samples {
            *kept = row;
        }
    }
    cells
}

/// The axis with the most places; the first for a single cell.
fn varied<T>(cells: &[(&Place, T)]) -> Option<Axis> {
    let axes = cells.first()?.0.iter().map(|(axis, _)| *axis);
    let places = |axis: Axis| {
        let mut values: Vec<_> =
            cells.iter().filter_map(|(place, _)| place_on(place, axis)).map(f64::to_bits).collect();
        values.sort_unstable();
        values.dedup();
        values.len()
    };
    axes.max_by_key(|axis| places(*axis))
}

/// By which part the figures of repeated cells differ in 19 of 20 cases, from pairs of rows with the same
/// labels.
fn noise(table: &Table) -> Option<f64> {
    let mut repeats: BTreeMap<(String, Place), Vec<f64>> = BTreeMap::new();
    for row in &table.rows {
        if let Some(merit) = row.merit() {
            repeats.entry((row.series(), place(row))).or_default().push(merit.ln());
        }
    }
    let differences: Vec<_> = repeats
        .values()
        .flat_map(|logs| logs.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>())
        .collect();
    let squares: f64 = differences.iter().map(|difference| difference.powi(2)).sum();
    Some(student_95(differences.len())? * (squares / differences.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    fn effect(rows: &str) -> Option<ChangeEffect> {
        let table = parse("t", &format!("set,size_bytes,ops,throughput_gbps\n{rows}")).expect("a table");
        let labels = |text: &str| BTreeMap::from([("set".to_owned(), text.to_owned())]);
        let comparison = Comparison {
            change: "on".to_owned(),
            table: "t".to_owned(),
            before: labels("a"),
            after: labels("b"),
            tests: None,
        };
        measure(&comparison, &Document { tables: vec![table], ..Document::default() })
    }

    #[test]
    fn effects_are_measured_where_both_sides_were() {
        let effect = effect("a,1,10,10\na,2,10,10\na,3,10,10\nb,1,10,11\nb,2,10,10\n").expect("common cells");
        assert_eq!(effect.axis, Axis::Size);
        assert_eq!(effect.cells.len(), 2);
        assert!((effect.cells[0].1 - 0.1).abs() < 1e-9 && effect.noise.is_none());
    }

    #[test]
    fn noise_comes_from_repeats() {
        let effect =
            effect("a,1,10,10\na,1,20,10.2\nb,1,10,10.3\na,2,10,10\na,2,20,9.9\n").expect("a common cell");
        let noise = effect.noise.expect("repeats");
        assert!(noise > 0.04 && !effect.is_real(effect.cells[0].1), "{effect:?}");
    }
}
