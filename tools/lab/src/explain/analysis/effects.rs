//! What a change did, cell by cell, beside what repeating does.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Finding, Section};
use super::input::{Axis, Cause, Comparison, Document, Observation, Table};
use super::normal::student_95;

/// Below this an effect is none, however sure.
const INDIFFERENCE: f64 = 0.01;

/// With more noise than this an effect that does not show may still be there.
const POWER: f64 = 0.1;

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
    /// Labels that differ between the rows before and after beside the one that names the change.
    pub confounders: Vec<String>,
}

impl ChangeEffect {
    /// Whether the change of a cell is more than noise.
    pub fn is_real(&self, growth: f64) -> bool {
        growth.abs() > self.noise.unwrap_or(0.0).max(INDIFFERENCE)
    }

    /// Whether nothing else that is recorded changed, so that the effect is that of the change.
    pub fn is_clean(&self) -> bool {
        self.confounders.is_empty()
    }

    /// Whether a gain that matters would have shown.
    pub fn has_power(&self) -> bool {
        self.noise.is_some_and(|noise| noise <= POWER)
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
        let others = match self.confounders.as_slice() {
            [] => String::new(),
            labels => format!(
                "; {} changed with it, so what is the effect of which cannot be told: measure one change at a time",
                labels.join(" and ")
            ),
        };
        let sentence = format!("by {}: {}; {noise}{others}", self.axis, cells.join(", "));
        let ends = [("first_percent", self.cells.first()), ("last_percent", self.cells.last())];
        let figures = ends.into_iter().filter_map(|(name, cell)| Some((name, cell?.1 * 100.0)));
        let mut finding =
            Finding::new(Section::Effect, "effect", format!("{}, {}", self.table, self.change), sentence)
                .with(figures);
        finding.figures.extend(self.noise.map(|noise| ("noise_percent", noise * 100.0)));
        finding
    }
}

/// What a comparison says where its sides have no cell in common.
pub fn without_common_cells(comparison: &Comparison, document: &Document) -> Option<Finding> {
    let table = document.table(&comparison.table)?;
    let values = |labels: &BTreeMap<String, String>, axis: Axis| -> BTreeSet<u64> {
        matching(table, labels).filter_map(|row| row.at(axis)).map(f64::to_bits).collect()
    };
    let axes: BTreeSet<Axis> = table.rows.iter().flat_map(|row| row.axes.keys().copied()).collect();
    let apart =
        |axis: &&Axis| values(&comparison.before, **axis).is_disjoint(&values(&comparison.after, **axis));
    let apart: Vec<_> = axes.iter().filter(apart).map(Axis::to_string).collect();
    let why = if apart.is_empty() { "combinations".to_owned() } else { apart.join(" and ") };
    let sentence =
        format!("rows before and after have no cell in common: they differ in {why}, so nothing is compared");
    let about = format!("{}, {}", table.name, comparison.change);
    Some(Finding::new(Section::NotIdentifiable, "no_common_cell", about, sentence))
}

/// Measures a comparison on the cells that both sides have; `None` if there are none.
pub fn measure(comparison: &Comparison, document: &Document) -> Option<ChangeEffect> {
    let table = document.table(&comparison.table)?;
    let (before, after) = (cells(table, &comparison.before), cells(table, &comparison.after));
    let pairs: Vec<_> = before.iter().filter_map(|(cell, row)| Some((*row, *after.get(cell)?))).collect();
    // Where other labels never agree, rows are compared nevertheless, and the labels are said.
    let (before, after) = (by_place(&before), by_place(&after));
    let pairs = if pairs.is_empty() {
        before.iter().filter_map(|(place, row)| Some((*row, *after.get(place)?))).collect()
    } else {
        pairs
    };
    let places: Vec<_> = pairs.iter().map(|(row, _)| place(row)).collect();
    let both: Vec<_> = places
        .iter()
        .zip(&pairs)
        .filter_map(|(place, (before, after))| Some((place, (before.merit()?, after.merit()?))))
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
        confounders: confounders(&pairs),
    })
}

/// Labels that differ within pairs of rows before and after, when there are more than the one that names the
/// change.
fn confounders(pairs: &[(&Observation, &Observation)]) -> Vec<String> {
    let differing = |(before, after): &(&Observation, &Observation)| -> Vec<String> {
        let other = |(label, text): &(&String, &String)| after.labels.get(*label) != Some(*text);
        before.labels.iter().filter(other).map(|(label, _)| format!("`{label}`")).collect()
    };
    let labels: BTreeSet<String> = pairs.iter().flat_map(differing).collect();
    if labels.len() > 1 { labels.into_iter().collect() } else { Vec::new() }
}

fn matching<'a>(
    table: &'a Table,
    labels: &BTreeMap<String, String>,
) -> impl Iterator<Item = &'a Observation> {
    table
        .rows
        .iter()
        .filter(move |row| labels.iter().all(|(label, text)| row.labels.get(label) == Some(text)))
}

/// The coordinates of a cell, each as an axis and its value.
type Place = Vec<(Axis, u64)>;

fn place(row: &Observation) -> Place {
    row.axes.iter().map(|(axis, value)| (*axis, value.to_bits())).collect()
}

fn place_on(place: &Place, axis: Axis) -> Option<f64> {
    place.iter().find(|(own, _)| *own == axis).map(|(_, bits)| f64::from_bits(*bits))
}

/// A place, and the labels that do not name the change.
type Cell<'a> = (Place, Vec<(&'a String, &'a String)>);

/// Rows with these labels by their cells; of several in one the one with the most samples.
fn cells<'a>(table: &'a Table, labels: &BTreeMap<String, String>) -> BTreeMap<Cell<'a>, &'a Observation> {
    let mut cells: BTreeMap<Cell<'a>, &Observation> = BTreeMap::new();
    for row in matching(table, labels) {
        let others = row.labels.iter().filter(|(label, _)| !labels.contains_key(*label)).collect();
        let kept = cells.entry((place(row), others)).or_insert(row);
        if row.samples > kept.samples {
            *kept = row;
        }
    }
    cells
}

/// Cells by their places only.
fn by_place<'a>(cells: &BTreeMap<Cell<'_>, &'a Observation>) -> BTreeMap<Place, &'a Observation> {
    cells.iter().map(|((place, _), row)| (place.clone(), *row)).collect()
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
    fn what_changed_too_is_named() {
        let rows =
            "set,machine,size_bytes,throughput_gbps\na,slow,1,10\na,slow,2,10\nb,fast,1,14\nb,fast,2,14\n";
        let table = parse("t", rows).expect("a table");
        let labels = |text: &str| BTreeMap::from([("set".to_owned(), text.to_owned())]);
        let comparison = Comparison {
            change: "on".to_owned(),
            table: "t".to_owned(),
            before: labels("a"),
            after: labels("b"),
            tests: None,
        };
        let document = |table: Table| Document { tables: vec![table], ..Document::default() };
        let confounded = measure(&comparison, &document(table)).expect("an effect");
        assert_eq!(confounded.confounders, ["`machine`", "`set`"]);
        let both = format!("{rows}a,fast,1,14\nb,slow,1,10\n");
        let clean = measure(&comparison, &document(parse("t", &both).expect("a table"))).expect("an effect");
        assert!(clean.is_clean() && clean.cells.iter().all(|(_, growth)| *growth == 0.0), "{clean:?}");
    }

    #[test]
    fn noise_comes_from_repeats() {
        let effect =
            effect("a,1,10,10\na,1,20,10.2\nb,1,10,10.3\na,2,10,10\na,2,20,9.9\n").expect("a common cell");
        let noise = effect.noise.expect("repeats");
        assert!(noise > 0.04 && !effect.is_real(effect.cells[0].1), "{effect:?}");
    }
}
