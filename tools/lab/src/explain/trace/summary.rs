//! What calls took, part by part: the waterfall.
//!
//! Medians of parts do not add up to the median of their sum. So beside each part's own median and mean there
//! is what it takes of a typical call and of a slow one: the mean over the calls whose total is near the
//! median, and near the 99th percentile. Those add up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::join::{Joined, TracedCall};
use super::occupancy::{Occupancy, occupancy};

/// The names of the parts, each from one point of a call to the next.
pub const PARTS: [&str; 8] = [
    "submit",
    "request_on_its_way",
    "gather",
    "dispatch",
    "handler",
    "reply",
    "response_on_its_way",
    "complete",
];

/// What happens in each part.
pub const PART_WORDS: [&str; 8] = [
    "from the call to the caller's driver",
    "from driver to the poll that finds the request",
    "the server finds the request's turn, and the rest of it",
    "to its handler",
    "the handler, up to its answer",
    "from the answer to the server's driver",
    "from driver to the poll that finds the response",
    "to the caller's completion",
];

/// Calls whose totals are within this share of all calls around a percentile stand for it.
const BAND: f64 = 0.05;

/// The narrower band around the 99th percentile.
const TAIL_BAND: f64 = 0.005;

/// One part, or the whole of a call, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The median.
    pub p50: f64,
    /// The mean.
    pub mean: f64,
    /// The mean over calls near the median.
    pub typical: f64,
    /// The mean over calls near the 99th percentile.
    pub slow: f64,
    /// The shortest.
    pub least: f64,
}

/// What the traced calls of one measurement took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// Calls with all their points.
    pub calls: u64,
    /// Calls that completed but lack a point.
    pub incomplete: u64,
    /// Calls left out because their points are not in order.
    pub disordered: u64,
    /// By the names of [`PARTS`].
    pub parts: BTreeMap<String, Part>,
    /// From the call to its completion.
    pub total: Part,
    /// The parts that were at work, and those that stood still.
    pub occupancy: Occupancy,
}

impl TraceSummary {
    /// A part by its name; nothing when there is none.
    pub fn part(&self, name: &str) -> Part {
        self.parts.get(name).copied().unwrap_or_default()
    }
}

/// Sums calls up; `None` when there are none.
pub fn summary(joined: &Joined) -> Option<TraceSummary> {
    if joined.calls.is_empty() {
        return None;
    }
    let mut order: Vec<_> = joined.calls.iter().collect();
    order.sort_by_key(|call| call.total_nanos());
    let part = |value: &dyn Fn(&TracedCall) -> u64| part(&order, value);
    let parts: BTreeMap<_, _> = PARTS
        .iter()
        .enumerate()
        .map(|(place, name)| ((*name).to_owned(), part(&|call| call.nanos[place + 1] - call.nanos[place])))
        .collect();
    let total = part(&TracedCall::total_nanos);
    let occupancy = occupancy(&joined.calls);
    let Joined { incomplete, disordered, .. } = *joined;
    Some(TraceSummary { calls: order.len() as u64, incomplete, disordered, parts, total, occupancy })
}

/// `order` are the calls or messages by their totals.
pub(super) fn part<T>(order: &[&T], value: &dyn Fn(&T) -> u64) -> Part {
    let mut values: Vec<_> = order.iter().map(|traced| value(traced)).collect();
    let mean = |values: &[u64]| values.iter().sum::<u64>() as f64 / values.len() as f64;
    let around = |percentile: f64, band: f64| {
        let place = |share: f64| ((order.len() as f64 * share) as usize).min(order.len() - 1);
        let (from, to) = (place(percentile - band), place(percentile + band));
        let near: Vec<_> = order[from..=to].iter().map(|traced| value(traced)).collect();
        mean(&near)
    };
    let (typical, slow, mean) = (around(0.5, BAND), around(0.99, TAIL_BAND), mean(&values));
    values.sort_unstable();
    Part { p50: values[values.len() / 2] as f64, mean, typical, slow, least: values[0] as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::trace::join::POINTS;

    fn call(begin: u64, part: u64) -> TracedCall {
        let nanos: [u64; POINTS] = core::array::from_fn(|point| begin + point as u64 * part);
        TracedCall { client: 1, server: 0, call: 0, nanos, handler_ended_nanos: None }
    }

    #[test]
    fn parts_of_the_mean_the_typical_and_the_slow_call_add_up() {
        let calls = (0..1000).map(|index| call(index * 10_000, 10 + index % 97)).collect();
        let summary = summary(&Joined { calls, ..Joined::default() }).expect("there are calls");
        let sum = |value: fn(&Part) -> f64| summary.parts.values().map(value).sum::<f64>();
        for (name, sum, total) in [
            ("mean", sum(|part| part.mean), summary.total.mean),
            ("typical", sum(|part| part.typical), summary.total.typical),
            ("slow", sum(|part| part.slow), summary.total.slow),
        ] {
            assert!((sum / total - 1.0).abs() < 1e-9, "{name}: {sum} of {total}");
        }
        assert!(summary.total.typical > summary.total.least && summary.total.slow > summary.total.typical);
    }

    #[test]
    fn nothing_traced_has_no_summary() {
        assert_eq!(summary(&Joined::default()), None);
    }
}
