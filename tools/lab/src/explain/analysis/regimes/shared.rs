//! Where many nodes share a limit: the rate of bytes no longer depends on the size, and what it does with the
//! number of nodes hints at what they share.

use std::collections::BTreeMap;

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::fit::{FirstPiece, FittedLine, mean, pieces, variation};
use crate::explain::analysis::input::{Axis, Observation, Table};
use crate::units::bits_in_words;

/// Rates vary by less than this part over sizes where bytes alone count.
const SAME_RATE: f64 = 0.03;

/// Sizes that have to agree, the longest of the series.
const SIZES_MIN: usize = 3;

/// Numbers of nodes that the range has to have.
const NODES_MIN: usize = 3;

/// The range of one series in which only bytes count.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedRange {
    /// The series.
    pub series: String,
    /// The smallest number of nodes of the range.
    pub from_nodes: f64,
    /// The smallest size of the range.
    pub from_bytes: f64,
    /// For each number of nodes, its Gb/s of a node, the mean over the sizes.
    pub rates: Vec<(f64, f64)>,
    /// For each number of nodes, how the rate varies over the sizes.
    pub variations: Vec<f64>,
}

impl SharedRange {
    /// What the rate of a node does as nodes are added: the slope in logarithms.
    pub fn slope(&self) -> Option<f64> {
        let points: Vec<_> = self.rates.iter().map(|(nodes, rate)| (nodes.ln(), rate.ln())).collect();
        FittedLine::through(&points).map(|line| line.slope)
    }
}

/// The shared range of every series that has one.
pub fn shared_range(table: &Table) -> Vec<SharedRange> {
    let mut series: BTreeMap<String, BTreeMap<u64, Vec<&Observation>>> = BTreeMap::new();
    for row in &table.rows {
        if let Some(nodes) =
            row.at(Axis::Nodes).filter(|_| row.throughput.is_some() && row.at(Axis::Size).is_some())
        {
            series.entry(row.series()).or_default().entry(nodes as u64).or_default().push(row);
        }
    }
    series.into_iter().filter_map(|(name, by_nodes)| range(name, &by_nodes)).collect()
}

fn range(series: String, by_nodes: &BTreeMap<u64, Vec<&Observation>>) -> Option<SharedRange> {
    let mut range =
        SharedRange { series, from_nodes: 0.0, from_bytes: 0.0, rates: Vec::new(), variations: Vec::new() };
    for (nodes, rows) in by_nodes.iter().rev() {
        let mut rows = rows.clone();
        rows.sort_by(|a, b| {
            b.at(Axis::Size).unwrap_or_default().total_cmp(&a.at(Axis::Size).unwrap_or_default())
        });
        rows.truncate(SIZES_MIN);
        let rates: Vec<_> =
            rows.iter().filter_map(|row| row.bits_per_second().map(|bits| bits / 1e9)).collect();
        if rates.len() < SIZES_MIN {
            // Sizes that were not measured say nothing of the range.
            continue;
        }
        let varies = variation(&rates);
        let Some(varies) = varies.filter(|varies| *varies < SAME_RATE) else { break };
        range.from_bytes = rows.last().and_then(|row| row.at(Axis::Size)).unwrap_or_default();
        range.from_nodes = *nodes as f64;
        range.rates.push((*nodes as f64, mean(rates)?));
        range.variations.push(varies);
    }
    range.rates.reverse();
    range.variations.reverse();
    leave_transition_out(&mut range);
    (range.rates.len() >= NODES_MIN).then_some(range)
}

/// Just beyond the border another limit still has its part in the rate; where a break shows, the range begins
/// behind it.
fn leave_transition_out(range: &mut SharedRange) {
    let points: Vec<_> = range.rates.iter().map(|(nodes, rate)| (nodes.ln(), rate.ln())).collect();
    if let Some((before, _)) = pieces(&points, FirstPiece::Flat).and_then(|pieces| pieces.first) {
        range.rates.drain(..before);
        range.variations.drain(..before);
        range.from_nodes = range.rates[0].0;
    }
}

/// The ranges in words.
pub fn findings(table: &Table) -> Vec<Finding> {
    shared_range(table).iter().filter_map(|range| finding(table, range)).collect()
}

fn finding(table: &Table, range: &SharedRange) -> Option<Finding> {
    let slope = range.slope()?;
    let totals: Vec<_> = range.rates.iter().map(|(nodes, rate)| nodes * rate / 1e3).collect();
    let (total, total_varies) = (mean(totals.iter().copied())?, variation(&totals)?);
    let rate = mean(range.rates.iter().map(|(_, rate)| *rate))?;
    let worst = range.variations.iter().copied().fold(0.0, f64::max);
    let name = if range.series.is_empty() { String::new() } else { format!("{}: ", range.series) };
    let sentence = format!(
        "{name}from {} nodes and {} bytes on the rate of bytes does not depend on the size (it varies by at most {:.1} %): \
         {} a node, {} +- {} in all, a node's rate going as nodes^{slope:.2}{}",
        range.from_nodes,
        range.from_bytes,
        worst * 100.0,
        bits_in_words(rate * 1e9),
        bits_in_words(total * 1e12),
        bits_in_words(total_varies * total * 1e12),
        table
            .rows
            .iter()
            .find_map(|row| row.throughput)
            .map_or(String::new(), |(_, unit)| unit.reading_taken()),
    );
    let figures = [
        ("from_nodes", range.from_nodes),
        ("from_bytes", range.from_bytes),
        ("variation_percent", worst * 100.0),
        ("gbps_of_node", rate),
        ("total_tbps", total),
        ("total_tbps_deviation", total_varies * total),
        ("slope", slope),
    ];
    Some(Finding::new(Section::Regime, "shared_by_bytes", &table.name, sentence).with(figures))
}
