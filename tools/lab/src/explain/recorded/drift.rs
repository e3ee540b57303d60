//! What the reference around the measurements says of the machine: whether it was the same machine all the
//! time.

use super::{REFERENCE, RecordedRun};
use crate::explain::analysis::finding::{Finding, Section};
use crate::statistics::bootstrap::median;

/// A reference that moves by more than this part says that figures of different minutes do not compare.
const DRIFT_MAX: f64 = 0.2;

/// The reference's figures, in the order in which they were measured.
fn track(run: &RecordedRun) -> Vec<f64> {
    let figures = run.figures.iter().filter(|figure| figure.test == REFERENCE);
    figures.map(|figure| figure.value).filter(|value| value.is_finite() && *value > 0.0).collect()
}

/// Cautions about runs during which, or between which, the reference moved.
pub fn drift(runs: &[RecordedRun]) -> Vec<Finding> {
    let mut findings: Vec<_> = runs.iter().filter_map(within).collect();
    if let Some((first, others)) = runs.split_first() {
        findings.extend(others.iter().filter_map(|other| {
            let (before, after) = medians(first, other)?;
            let apart = (after / before - 1.0).abs();
            (apart > DRIFT_MAX).then(|| {
                let sentence = format!(
                    "the reference was {before:.0} ns in `{}` and {after:.0} ns in `{}`: they were on different machines, as it were, \
                     and differences between them are not only what was changed",
                    first.name, other.name
                );
                let figures = [("before_ns", before), ("after_ns", after)];
                Finding::new(Section::Caution, "reference_differs", &other.name, sentence).with(figures)
            })
        }));
    }
    findings
}

/// The medians of the reference in two runs that have one.
pub fn medians(first: &RecordedRun, other: &RecordedRun) -> Option<(f64, f64)> {
    Some((median(&track(first))?, median(&track(other))?))
}

/// The reference over a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Track {
    /// How often it was measured.
    pub count: usize,
    /// The least, in nanoseconds.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The most.
    pub most: f64,
}

impl Track {
    /// That of a run; `None` when it was not measured.
    pub fn of(run: &RecordedRun) -> Option<Self> {
        let track = track(run);
        let least = track.iter().copied().min_by(f64::total_cmp)?;
        let most = track.iter().copied().max_by(f64::total_cmp)?;
        Some(Self { count: track.len(), least, median: median(&track)?, most })
    }
}

fn within(run: &RecordedRun) -> Option<Finding> {
    let Track { count, least, most, .. } = Track::of(run)?;
    (most / least - 1.0 > DRIFT_MAX).then(|| {
        let sentence = format!(
            "the reference moved between {least:.0} and {most:.0} ns in {count} measurements: figures of different blocks compare \
             only within a block"
        );
        let figures = [("least_ns", least), ("most_ns", most), ("measurements", count as f64)];
        Finding::new(Section::Caution, "reference_drifts", &run.name, sentence).with(figures)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explain::recorded::{RecordedFigure, Run};

    fn run(name: &str, distances: &[f64]) -> RecordedRun {
        let figure = |value: &f64| -> RecordedFigure {
            serde_json::from_value(json!({
                "schema": crate::record::SCHEMA, "command": "perf", "test": REFERENCE, "transport": "limit", "name": "distance",
                "value": value, "unit": "ns", "statistic": "trimmed_mean", "samples": 1, "in_flight": 1,
            }))
            .expect("a figure")
        };
        let run = Run::begin(Vec::new(), 1, Vec::new());
        RecordedRun { name: name.to_owned(), run, figures: distances.iter().map(figure).collect() }
    }

    fn rules(runs: &[RecordedRun]) -> Vec<&'static str> {
        drift(runs).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_reference_that_moves_within_or_between_runs_is_a_caution() {
        let (near, far) = (run("near", &[110.0, 118.0, 112.0]), run("far", &[490.0, 500.0]));
        assert_eq!(rules(&[near.clone(), near.clone()]), [""; 0]);
        assert_eq!(rules(&[run("both", &[110.0, 500.0])]), ["reference_drifts"]);
        assert_eq!(rules(&[near, far]), ["reference_differs"]);
    }

    #[test]
    fn runs_without_a_reference_say_nothing_of_it() {
        assert_eq!(rules(&[run("a", &[]), run("b", &[100.0])]), [""; 0]);
    }

    #[test]
    fn the_reference_is_no_row_of_the_analysis_and_no_figure_of_a_difference() {
        let (one, other) = (run("one", &[100.0]), run("other", &[400.0]));
        assert!(
            crate::explain::recorded::document(std::slice::from_ref(&one))
                .tables
                .iter()
                .all(|table| table.rows.is_empty())
        );
        let difference = crate::explain::recorded::diff(&[one], &[other], 1);
        assert_eq!(difference.cells.len(), 0);
        let named = difference.environment.iter().find(|(name, ..)| name == "reference distance");
        assert_eq!(named.map(|(_, own, others)| (own.as_str(), others.as_str())), Some(("100 ns", "400 ns")));
    }
}
