//! A series that is called a total, beside the series that it is made of: rates add up, and its quantiles lie
//! between those of the parts.

use super::ratio;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Axis, Latency, Observation, Table, Tolerances};

/// Names of series that are made of all others.
const TOTALS: [&str; 7] = ["all", "total", "totals", "aggregated", "aggregate", "overall", "sum"];

/// Whether the name of a row says that it is made of all others.
pub fn is_total(row: &Observation) -> bool {
    row.labels.values().any(|text| is_name(text))
}

fn is_name(text: &str) -> bool {
    TOTALS.contains(&text.to_lowercase().trim_matches(['*', ' ']))
}

/// Whether a row is at the place of a total: at the same places on all axes, but for what is in flight where
/// only the total says it, and of the same series but for the label that calls it a total.
fn is_beside(row: &Observation, total: &Observation) -> bool {
    let mut axes = total.axes.clone();
    if row.at(Axis::InFlight).is_none() {
        axes.remove(&Axis::InFlight);
    }
    let others = total.labels.iter().filter(|(_, text)| !is_name(text));
    axes == row.axes && others.into_iter().all(|(label, text)| row.labels.get(label) == Some(text))
}

/// All of a table: it has to have one total, and all other rows at the same place are its parts.
pub fn check(table: &Table, tolerances: &Tolerances) -> Vec<Finding> {
    let totals: Vec<_> = table.rows.iter().filter(|row| is_total(row)).collect();
    let mut findings = Vec::new();
    for total in totals {
        let parts: Vec<_> = table.rows.iter().filter(|row| !is_total(row) && is_beside(row, total)).collect();
        let alone = table.rows.iter().filter(|row| is_total(row) && is_beside(row, total)).count() == 1;
        if parts.len() > 1 && alone {
            findings.extend(quantiles(table, total, &parts));
            findings.extend(extremes(table, total, &parts));
            findings.extend(match follow_each_other(total, &parts, tolerances) {
                true => mean(table, total, &parts, tolerances),
                false => sum(table, total, &parts, tolerances),
            });
        }
    }
    findings
}

fn words(total: &Observation) -> String {
    format!("`{}` (line {})", total.series(), total.line)
}

/// A quantile of the whole lies between the least and the greatest of the parts, and so does the mean.
fn quantiles(table: &Table, total: &Observation, parts: &[&Observation]) -> Vec<Finding> {
    let outside = |(latency, figure): (&Latency, &crate::explain::analysis::input::PrintedFigure)| {
        let of_parts: Option<Vec<_>> = parts.iter().map(|part| part.times.get(latency).copied()).collect();
        let of_parts = of_parts?;
        let low = of_parts.iter().map(|one| one.value - one.rounding).fold(f64::INFINITY, f64::min);
        let high = of_parts.iter().map(|one| one.value + one.rounding).fold(0.0, f64::max);
        let fits = figure.value + figure.rounding >= low && figure.value - figure.rounding <= high;
        let extreme = matches!(latency, Latency::Min | Latency::Max);
        (!fits && !extreme).then(|| {
            let sentence = format!(
                "{latency} of {} is {:.3} us, outside of {:.3} to {:.3} us of its parts",
                words(total),
                figure.value / 1e3,
                low / 1e3,
                high / 1e3
            );
            Finding::new(Section::Contradiction, "whole_outside_parts", &table.name, sentence).with([
                ("whole_us", figure.value / 1e3),
                ("low_us", low / 1e3),
                ("high_us", high / 1e3),
            ])
        })
    };
    total.times.iter().filter_map(outside).collect()
}

/// The maximum of the whole is the greatest of the parts, the minimum the least.
fn extremes(table: &Table, total: &Observation, parts: &[&Observation]) -> Vec<Finding> {
    let differs = |latency: Latency, pick: fn(f64, f64) -> f64| {
        let whole = total.times.get(&latency)?;
        let of_parts: Option<Vec<_>> = parts.iter().map(|part| part.times.get(&latency).copied()).collect();
        let of_parts = of_parts?;
        let slack = of_parts.iter().map(|one| one.rounding).fold(whole.rounding, f64::max) * 2.0;
        let expected = of_parts.iter().map(|one| one.value).reduce(pick)?;
        ((whole.value - expected).abs() > slack).then(|| {
            let sentence = format!(
                "{latency} of {} is {:.3} us, that of its parts {:.3} us",
                words(total),
                whole.value / 1e3,
                expected / 1e3
            );
            Finding::new(Section::Contradiction, "whole_outside_parts", &table.name, sentence)
                .with([("whole_us", whole.value / 1e3), ("parts_us", expected / 1e3)])
        })
    };
    [differs(Latency::Min, f64::min), differs(Latency::Max, f64::max)].into_iter().flatten().collect()
}

/// Whether the parts follow each other: their durations add up to that of the whole.
fn follow_each_other(total: &Observation, parts: &[&Observation], tolerances: &Tolerances) -> bool {
    let sum = parts.iter().map(|part| part.seconds).sum::<Option<f64>>();
    let both = total.seconds.zip(sum);
    parts.len() > 1 && both.is_some_and(|(whole, sum)| (sum / whole - 1.0).abs() <= tolerances.product)
}

/// The rate of the whole is the mean of those of parts that follow each other.
fn mean(table: &Table, total: &Observation, parts: &[&Observation], tolerances: &Tolerances) -> Vec<Finding> {
    let kinds: [(&str, Of); 2] = [
        ("operations per second", |row| row.operations_per_second),
        ("throughput", |row| row.throughput.map(|(figure, _)| figure.value)),
    ];
    let mut findings = Vec::new();
    for (name, of) in kinds {
        let amount = |part: &&Observation| Some(of(part)? * part.seconds?);
        let amounts = parts.iter().map(amount).sum::<Option<f64>>();
        let (Some(whole), Some(amounts), Some(seconds)) = (of(total), amounts, total.seconds) else {
            continue;
        };
        let mean = amounts / seconds;
        if (whole / mean - 1.0).abs() > tolerances.product {
            let sentence = format!(
                "{name} of {} is {} of the mean of its {} parts, which follow each other",
                words(total),
                ratio::words(whole / mean),
                parts.len()
            );
            findings.push(
                Finding::new(Section::Contradiction, "whole_is_no_mean", &table.name, sentence)
                    .with([("whole", whole), ("mean", mean)]),
            );
        }
    }
    findings
}

/// What is read from a row.
type Of = fn(&Observation) -> Option<f64>;

/// Rates of the parts add up to that of the whole.
fn sum(table: &Table, total: &Observation, parts: &[&Observation], tolerances: &Tolerances) -> Vec<Finding> {
    let kinds: [(&str, Of); 3] = [
        ("operations per second", |row| row.operations_per_second),
        ("throughput", |row| row.throughput.map(|(figure, _)| figure.value)),
        ("samples", |row| row.samples),
    ];
    let mut findings = Vec::new();
    for (name, of) in kinds {
        let of_parts: Option<Vec<_>> = parts.iter().map(|part| of(part)).collect();
        let (Some(whole), Some(of_parts)) = (of(total), of_parts) else { continue };
        let sum: f64 = of_parts.iter().sum();
        if (whole / sum - 1.0).abs() > tolerances.product {
            let sentence = format!(
                "{name} of {} is {} of the sum of its {} parts",
                words(total),
                ratio::words(whole / sum),
                parts.len()
            );
            findings.push(
                Finding::new(Section::Contradiction, "whole_is_no_sum", &table.name, sentence)
                    .with([("whole", whole), ("sum", sum)]),
            );
        }
    }
    findings
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
    fn a_total_that_fits_its_parts_passes() {
        assert_eq!(rules("series,ops/s,p50_us,max_us\na,10,1,9\nb,20,3,8\nTotal,30,2,9\n"), [""; 0]);
    }

    #[test]
    fn a_total_outside_of_its_parts_is_named() {
        assert_eq!(rules("series,p50_us\na,1.0\nb,3.0\nall,5.0\n"), ["whole_outside_parts"]);
        assert_eq!(rules("series,max_us\na,1.0\nb,3.0\nall,2.0\n"), ["whole_outside_parts"]);
        assert_eq!(rules("series,ops/s\na,10\nb,20\nTotals,15\n"), ["whole_is_no_sum"]);
        assert_eq!(rules("series,in_flight,ops/s\na,,10\nb,,20\ntotal,8,40\n"), ["whole_is_no_sum"]);
    }

    #[test]
    fn parts_that_follow_each_other_have_a_mean() {
        let intervals = |total: &str| {
            rules(&format!("series,seconds,mbps\n0-1,1.00,200\n1-2,1.00,220\ntotal,2.00,{total}\n"))
        };
        assert_eq!(intervals("210"), [""; 0]);
        assert_eq!(intervals("975"), ["whole_is_no_mean"]);
    }

    #[test]
    fn each_side_has_its_own_total() {
        let text = "side,series,ops/s\nA,a,10\nA,b,20\nA,total,30\nB,a,1\nB,b,2\nB,total,4\n";
        assert_eq!(rules(text), ["whole_is_no_sum"]);
    }
}
