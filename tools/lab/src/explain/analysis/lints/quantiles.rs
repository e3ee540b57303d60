//! Quantiles rise, a mean lies where they allow, and a tail needs samples.

use super::lines;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Latency, Observation, Table};
use crate::statistics::histogram::samples_needed;

/// Checks the rows of a table.
pub fn check(table: &Table) -> Vec<Finding> {
    let failing = |fails: fn(&Observation) -> bool| -> Vec<usize> {
        table.rows.iter().filter(|row| fails(row)).map(|row| row.line).collect()
    };
    let mut findings = Vec::new();
    let mut report = |section, rule, failed: Vec<usize>, what: &str| {
        if !failed.is_empty() {
            let sentence =
                format!("{what} in {} of {} rows ({})", failed.len(), table.rows.len(), lines(&failed));
            let figures = [("rows", failed.len() as f64), ("of", table.rows.len() as f64)];
            findings.push(Finding::new(section, rule, &table.name, sentence).with(figures));
        }
    };
    let contradiction = Section::Contradiction;
    report(contradiction, "quantiles_fall", failing(falls), "a higher quantile is below a lower one");
    report(
        contradiction,
        "mean_below_quantiles",
        failing(mean_too_low),
        "the mean is below what the quantiles make the least",
    );
    report(
        contradiction,
        "mean_above_maximum",
        failing(mean_too_high),
        "the mean is above what the quantiles make the most",
    );
    report(
        Section::Caution,
        "too_few_samples",
        failing(tail_without_samples),
        "p99 or p99.9 rests on so few samples that it is one of the very largest, not a percentile,",
    );
    findings
}

fn falls(row: &Observation) -> bool {
    let known: Vec<_> = Latency::QUANTILES.iter().filter_map(|latency| row.times.get(latency)).collect();
    known.windows(2).any(|pair| pair[0].value - pair[0].rounding > pair[1].value + pair[1].rounding)
}

/// The known quantiles, from low to high: share and nanoseconds.
fn steps(row: &Observation) -> Vec<(f64, f64)> {
    let step = |latency: &Latency| Some((latency.share()?, row.nanos(*latency)?));
    Latency::QUANTILES.iter().filter_map(step).collect()
}

/// The mean is at least the sum of each quantile times the share of samples between it and the next.
fn mean_too_low(row: &Observation) -> bool {
    let Some(mean) = row.times.get(&Latency::Mean) else { return false };
    let steps = steps(row);
    let next = steps.iter().skip(1).map(|(share, _)| *share).chain([1.0]);
    let least: f64 = steps.iter().zip(next).map(|((share, nanos), next)| (next - share) * nanos).sum();
    mean.value + 2.0 * mean.rounding < least
}

/// With a maximum the same from above; it needs to be known.
fn mean_too_high(row: &Observation) -> bool {
    let (Some(mean), Some(_)) = (row.times.get(&Latency::Mean), row.nanos(Latency::Max)) else {
        return false;
    };
    let steps = steps(row);
    let before = [0.0].into_iter().chain(steps.iter().map(|(share, _)| *share));
    let most: f64 = steps.iter().zip(before).map(|((share, nanos), before)| (share - before) * nanos).sum();
    mean.value - 2.0 * mean.rounding > most
}

fn tail_without_samples(row: &Observation) -> bool {
    let Some(samples) = row.samples else { return false };
    [Latency::P99, Latency::P999].iter().any(|latency| {
        let share = latency.share().unwrap_or_default();
        row.times.contains_key(latency) && samples < samples_needed(share) as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    fn rules(text: &str) -> Vec<&'static str> {
        check(&parse("t", text).expect("a table")).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn figures_that_fit_together_pass() {
        assert_eq!(rules("ops,min_us,mean_us,p50_us,p90_us,p99_us,max_us\n1000,1,2.1,2,3,4,9\n"), [""; 0]);
    }

    #[test]
    fn each_contradiction_is_named() {
        assert_eq!(rules("p50_us,p90_us\n2.0,1.0\n"), ["quantiles_fall"]);
        assert_eq!(rules("p50_us,mean_us\n10.0,4.0\n"), ["mean_below_quantiles"]);
        assert_eq!(rules("mean_us,p50_us,max_us\n7,1,10\n"), ["mean_above_maximum"]);
        assert_eq!(rules("ops,p99_us\n100,4\n"), ["too_few_samples"]);
    }

    #[test]
    fn rounding_is_no_contradiction() {
        assert_eq!(rules("min_us,mean_us,p50_us\n1.0,1.0,1.0\n"), [""; 0]);
    }
}
