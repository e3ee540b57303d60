//! Quantiles rise, a mean lies where they allow, a deviation too, and a tail needs samples.

use super::lines;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Latency, Observation, PrintedFigure, Table};
use crate::statistics::histogram::samples_needed;

/// Checks the rows of a table.
pub fn check(table: &Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |section, rule, fails: &dyn Fn(&Observation) -> bool, what: &str| {
        let failed: Vec<_> = table.rows.iter().filter(|row| fails(row)).map(|row| row.line).collect();
        if !failed.is_empty() {
            let sentence =
                format!("{what} in {} of {} rows ({})", failed.len(), table.rows.len(), lines(&failed));
            let figures = [("rows", failed.len() as f64), ("of", table.rows.len() as f64)];
            findings.push(Finding::new(section, rule, &table.name, sentence).with(figures));
        }
    };
    let wrong = Section::Contradiction;
    report(wrong, "quantiles_fall", &|row| fall(row).is_some(), &falling(table));
    report(
        wrong,
        "mean_below_quantiles",
        &mean_too_low,
        "the mean is below what the quantiles make the least",
    );
    report(wrong, "mean_above_maximum", &mean_too_high, "the mean is above what the quantiles make the most");
    report(
        wrong,
        "deviation",
        &|row| deviation_too_large(row) || deviation_too_small(row) && !is_of_perftest(table),
        "the standard deviation is not possible with this minimum, mean and maximum",
    );
    report(
        Section::Caution,
        "deviation",
        &|row| is_of_perftest(table) && deviation_too_small(row) && !deviation_too_large(row),
        "the standard deviation does not contain the maximum: perftest leaves the two largest samples out of it, as out of \
         the mean, and prints one of them as t_max,",
    );
    report(
        Section::Caution,
        "too_few_samples",
        &tail_without_samples,
        "a percentile rests on so few samples that it is one of the very largest, not a percentile,",
    );
    findings
}

/// The first two neighbouring quantiles of a row of which the higher is below the lower.
fn fall(row: &Observation) -> Option<(Latency, Latency)> {
    let mut known: Vec<_> = row.times.iter().filter(|(latency, _)| latency.share().is_some()).collect();
    known.sort_by(|a, b| a.0.share().partial_cmp(&b.0.share()).expect("shares are numbers"));
    let falls = |pair: &&[(&Latency, &PrintedFigure)]| {
        let (low, high) = (pair[0].1, pair[1].1);
        low.value - low.rounding > high.value + high.rounding
    };
    known.windows(2).find(falls).map(|pair| (*pair[0].0, *pair[1].0))
}

fn falling(table: &Table) -> String {
    match table.rows.iter().find_map(fall) {
        Some((low, high)) => {
            format!("a higher quantile is below a lower one (as the {high} below the {low})")
        }
        None => String::new(),
    }
}

/// The least mean that quantiles allow: each times the share of samples between it and the next.
pub fn mean_least(quantiles: &[(f64, PrintedFigure)]) -> f64 {
    let next = quantiles.iter().skip(1).map(|(share, _)| *share).chain([1.0]);
    quantiles.iter().zip(next).map(|((share, figure), next)| (next - share) * figure.value).sum()
}

/// The greatest mean that quantiles allow; `None` without a maximum.
pub fn mean_most(quantiles: &[(f64, PrintedFigure)]) -> Option<f64> {
    quantiles.last().filter(|(share, _)| *share >= 1.0)?;
    let before = [0.0].into_iter().chain(quantiles.iter().map(|(share, _)| *share));
    Some(quantiles.iter().zip(before).map(|((share, figure), before)| (share - before) * figure.value).sum())
}

/// How far rounding may put a mean of these figures off.
fn rounding(mean: &PrintedFigure, quantiles: &[(f64, PrintedFigure)]) -> f64 {
    mean.rounding + quantiles.iter().map(|(_, figure)| figure.rounding).fold(mean.rounding, f64::max)
}

fn mean_too_low(row: &Observation) -> bool {
    let Some(mean) = row.times.get(&Latency::Mean) else { return false };
    let known = row.quantiles();
    mean.value + rounding(mean, &known) < mean_least(&known)
}

fn mean_too_high(row: &Observation) -> bool {
    let Some(mean) = row.times.get(&Latency::Mean) else { return false };
    let known = row.quantiles();
    mean_most(&known).is_some_and(|most| mean.value - rounding(mean, &known) > most)
}

/// Whether a table is one of perftest's latencies.
fn is_of_perftest(table: &Table) -> bool {
    table.columns.iter().any(|column| column.heading.starts_with("t_stdev"))
}

/// A variance is at most `(max - mean) (mean - min)` (Bhatia and Davis, 2000).
fn deviation_too_large(row: &Observation) -> bool {
    let (Some(deviation), Some(max)) = (row.deviation, row.times.get(&Latency::Max)) else {
        return false;
    };
    let min = row.nanos(Latency::Min).unwrap_or(0.0);
    let Some(mean) = row.times.get(&Latency::Mean) else {
        // Whatever the mean, it is at most half of the range (Popoviciu, 1935); of few samples a little more.
        let few = if row.samples.is_some_and(|samples| samples < 100.0) { 1.5 } else { 1.01 };
        return deviation.value - deviation.rounding > (max.value + max.rounding - min) / 2.0 * few;
    };
    let (mean_high, max_high) = (mean.value + mean.rounding, max.value + max.rounding);
    // With few samples the printed deviation may be the estimate of the population's.
    let samples = row.samples.unwrap_or(f64::INFINITY);
    let estimate = if samples > 1.0 { (1.0 - 1.0 / samples).recip() } else { 1.0 };
    let most =
        ((max_high - mean.value).max(0.0) * (mean_high - min).max(0.0) * estimate).sqrt() + mean.rounding;
    deviation.value - deviation.rounding > most
}

/// And it is at least what the maximum alone adds to it.
fn deviation_too_small(row: &Observation) -> bool {
    let (Some(deviation), Some(max), Some(mean)) =
        (row.deviation, row.times.get(&Latency::Max), row.times.get(&Latency::Mean))
    else {
        return false;
    };
    let samples = row.samples.unwrap_or(f64::INFINITY);
    let least = (max.value - mean.value - mean.rounding - max.rounding).max(0.0) / samples.sqrt();
    deviation.value + deviation.rounding < least
}

fn tail_without_samples(row: &Observation) -> bool {
    let Some(samples) = row.samples else { return false };
    let shares = row.times.keys().filter_map(|latency| latency.share());
    shares.filter(|share| (0.95..1.0).contains(share)).any(|share| samples < samples_needed(share) as f64)
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
        assert_eq!(rules("min_us,mean_us,stdev_us,max_us\n1,2.0,1.0,9\n"), [""; 0]);
    }

    #[test]
    fn each_contradiction_is_named() {
        assert_eq!(rules("p50_us,p90_us\n2.0,1.0\n"), ["quantiles_fall"]);
        assert_eq!(rules("min_us,p95_us\n2.0,1.0\n"), ["quantiles_fall"]);
        assert_eq!(rules("p50_us,mean_us\n10.0,4.0\n"), ["mean_below_quantiles"]);
        assert_eq!(rules("mean_us,p50_us,max_us\n7,1,10\n"), ["mean_above_maximum"]);
        assert_eq!(rules("ops,p99_us\n100,4\n"), ["too_few_samples"]);
        assert_eq!(rules("min_us,mean_us,stdev_us,max_us\n1,2,9,9\n"), ["deviation"]);
        assert_eq!(rules("min_us,stdev_us,max_us\n200,214.64,500\n"), ["deviation"]);
        assert_eq!(rules("ops,mean_us,stdev_us,max_us\n4,2,1,90\n"), ["deviation"]);
    }

    #[test]
    fn perftest_leaves_its_largest_samples_out_of_the_deviation() {
        let of = |deviation: &str, stdev: &str| {
            let text = format!(
                "bytes,iterations,t_min[usec],t_max[usec],t_avg[usec],{deviation}\n2,100000,1.61,44.51,1.66,{stdev}\n"
            );
            let found = check(&parse("t", &text).expect("a table"));
            found.iter().map(|finding| (finding.section, finding.rule)).collect::<Vec<_>>()
        };
        assert_eq!(of("t_stdev[usec]", "0.04"), [(Section::Caution, "deviation")]);
        assert_eq!(of("stdev_us", "0.04"), [(Section::Contradiction, "deviation")]);
        assert_eq!(of("t_stdev[usec]", "9.00"), [(Section::Contradiction, "deviation")]);
    }

    #[test]
    fn rounding_is_no_contradiction() {
        assert_eq!(rules("min_us,mean_us,p50_us\n1.0,1.0,1.0\n"), [""; 0]);
    }
}
