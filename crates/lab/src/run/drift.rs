//! What the reference around the measurements says of the machine: whether it was the same machine all the time.

use super::{REFERENCE, RecordedRun};
use crate::analysis::finding::{Finding, Section};
use crate::bootstrap::median;

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

fn within(run: &RecordedRun) -> Option<Finding> {
    let track = track(run);
    let least = track.iter().copied().min_by(f64::total_cmp)?;
    let most = track.iter().copied().max_by(f64::total_cmp)?;
    let count = track.len();
    (most / least - 1.0 > DRIFT_MAX).then(|| {
        let sentence = format!(
            "the reference moved between {least:.0} and {most:.0} ns in {count} measurements: figures of different blocks compare \
             only within a block"
        );
        let figures = [("least_ns", least), ("most_ns", most), ("measurements", count as f64)];
        Finding::new(Section::Caution, "reference_drifts", &run.name, sentence).with(figures)
    })
}
