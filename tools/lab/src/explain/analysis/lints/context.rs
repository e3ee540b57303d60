//! The same cell measured in several series: how far they are apart is what the columns do not say.

use std::collections::BTreeMap;

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Observation, Table};

/// A wider spread than this is worth a word.
const SPREAD_MIN: f64 = 1.3;

/// A cell counts when that many series have it.
const SERIES_MIN: usize = 3;

/// Names the cell with the widest spread.
pub fn spread(table: &Table) -> Option<Finding> {
    let mut cells: BTreeMap<String, Vec<&Observation>> = BTreeMap::new();
    for row in table.rows.iter().filter(|row| row.throughput.is_some() && is_opaque(row)) {
        let cell: Vec<_> = row.axes.iter().map(|(axis, value)| format!("{value} {axis}")).collect();
        cells.entry(cell.join(", ")).or_default().push(row);
    }
    let spread = |rows: &[&Observation]| {
        let merits = || rows.iter().filter_map(|row| row.merit());
        let (low, high) = (merits().min_by(f64::total_cmp)?, merits().max_by(f64::total_cmp)?);
        let mut series: Vec<_> = rows.iter().map(|row| row.series()).collect();
        series.sort_unstable();
        series.dedup();
        (series.len() >= SERIES_MIN).then_some((high / low, low, high, series.len()))
    };
    let spreads = cells.iter().filter_map(|(cell, rows)| Some((cell, spread(rows)?)));
    let (cell, (ratio, low, high, series)) = spreads.max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    (ratio >= SPREAD_MIN).then(|| {
        let sentence = format!(
            "{cell}: {low} to {high} in {series} series, {ratio:.1} times apart; what else differs between them (machines, \
             placement, environment) is in no column, so its share cannot be told from that of the scale"
        );
        let figures = [("ratio", ratio), ("low", low), ("high", high), ("series", series as f64)];
        Finding::new(Section::NotIdentifiable, "same_cell_differs", &table.name, sentence).with(figures)
    })
}

/// Whether nothing but a name tells the row's series from others; other labels say what differs.
fn is_opaque(row: &Observation) -> bool {
    row.labels.keys().eq(["series"])
}
