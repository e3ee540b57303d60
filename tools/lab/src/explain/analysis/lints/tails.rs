//! Tails that stand at the same time whatever the load are timers: something was lost or starved, and waited
//! for one.

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Latency, Table};

/// A tail counts as one when p99 is this many times the median.
const TAIL_RATIO: f64 = 1.5;

/// Excesses within this ratio are of one mode.
const MODE_RATIO: f64 = 1.35;

/// A mode has this share of the tails, and this many rows, or it is chance.
const MODE_SHARE: f64 = 0.06;
const MODE_ROWS_MIN: usize = 5;

/// At most this many modes are reported.
const MODES_MAX: usize = 3;

/// A mode stands at a multiple of a timer when one that lies anywhere would come as close in so many cases at
/// most.
const CHANCE_MAX: f64 = 0.05;

/// Finds the modes of the tails.
pub fn check(table: &Table, timers_nanos: &[f64]) -> Vec<Finding> {
    let tails: Vec<_> = table.rows.iter().filter_map(tail).collect();
    let mut excesses: Vec<_> = tails.iter().map(|tail| tail.excess).collect();
    excesses.sort_unstable_by(f64::total_cmp);
    let mut findings = Vec::new();
    let (all, enough) = (excesses.len(), mode_rows_min(excesses.len()));
    while findings.len() < MODES_MAX {
        let Some((from, count)) = densest(&excesses).filter(|(_, count)| *count >= enough) else { break };
        let mode: Vec<_> = excesses.drain(from..from + count).collect();
        findings.push(finding(table, &mode, all, timers_nanos));
    }
    if !findings.is_empty() {
        findings.extend(loss_share(table, &tails));
    }
    findings
}

struct Tail {
    /// p99 less the median.
    excess: f64,
    /// The mean less the median.
    mean_excess: Option<f64>,
}

fn tail(row: &crate::explain::analysis::input::Observation) -> Option<Tail> {
    let (median, high) = (row.nanos(Latency::P50)?, row.nanos(Latency::P99)?);
    let mean_excess = row.nanos(Latency::Mean).map(|mean| mean - median);
    (high > median * TAIL_RATIO).then_some(Tail { excess: high - median, mean_excess })
}

fn mode_rows_min(tails: usize) -> usize {
    MODE_ROWS_MIN.max((tails as f64 * MODE_SHARE).ceil() as usize)
}

/// Where the most values within [`MODE_RATIO`] begin, and how many they are.
fn densest(sorted: &[f64]) -> Option<(usize, usize)> {
    let within = |from: usize| sorted[from..].partition_point(|value| *value <= sorted[from] * MODE_RATIO);
    (0..sorted.len()).map(|from| (from, within(from))).max_by_key(|(from, count)| (*count, usize::MAX - from))
}

fn finding(table: &Table, mode: &[f64], tails: usize, timers_nanos: &[f64]) -> Finding {
    let middle = mode[mode.len() / 2];
    let (low, high) = (mode[0], mode[mode.len() - 1]);
    let timer = match at_timer(middle, timers_nanos) {
        Some((multiple, timer, off)) => {
            format!(", {multiple} times the timer of {:.2} ms to {:.1} % of it", timer / 1e6, off * 100.0)
        }
        None => String::new(),
    };
    let sentence = format!(
        "{} of {tails} rows with a tail have p99 {:.2} to {:.2} ms above the median, whatever else differs{timer}: \
         consistent with a timer after a loss, not with load",
        mode.len(),
        low / 1e6,
        high / 1e6
    );
    let figures = [
        ("rows", mode.len() as f64),
        ("of", tails as f64),
        ("low_ms", low / 1e6),
        ("middle_ms", middle / 1e6),
        ("high_ms", high / 1e6),
    ];
    Finding::new(Section::Caution, "tail_at_timer", &table.name, sentence).with(figures)
}

/// The multiple of a timer at which a time stands, and by which part of the timer it is off, if chance would
/// not do as well: a time that lies anywhere is within `off` timers of a multiple in `2 x off` of all cases,
/// for each timer that is tried.
fn at_timer(nanos: f64, timers_nanos: &[f64]) -> Option<(f64, f64, f64)> {
    let tried = timers_nanos.len() as f64;
    let nearest = |timer: &f64| {
        let multiple = (nanos / timer).round().max(1.0);
        (multiple, *timer, (nanos / timer - multiple).abs())
    };
    let best = timers_nanos.iter().map(nearest).min_by(|a, b| a.2.total_cmp(&b.2))?;
    (2.0 * best.2 * tried <= CHANCE_MAX).then_some(best)
}

/// What share of operations waits so long, if the tail is one wait: the mean's excess over the tail's.
fn loss_share(table: &Table, tails: &[Tail]) -> Option<Finding> {
    let share = |tail: &Tail| Some(tail.mean_excess? / tail.excess).filter(|share| *share > 0.0);
    let mut shares: Vec<_> = tails.iter().filter_map(share).collect();
    shares.sort_unstable_by(f64::total_cmp);
    let at =
        |part: f64| shares.get(((shares.len().max(1) - 1) as f64 * part) as usize).map(|share| share * 100.0);
    let (low, high) = (at(0.1)?, at(0.9)?);
    let sentence = format!(
        "in rows with such tails the mean's excess is {low:.1} to {high:.1} % of p99's (the middle 80 % of rows): \
         consistent with that share of operations waiting for a timer"
    );
    let figures = [("low_percent", low), ("high_percent", high)];
    Some(Finding::new(Section::Caution, "tail_share", &table.name, sentence).with(figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::analysis::input::table::parse;

    fn table(high: impl Fn(usize) -> f64) -> Table {
        let rows: Vec<_> = (1..=20).map(|i| format!("{},{}", 10 * i, 10.0 * i as f64 + high(i))).collect();
        parse("t", &format!("p50_us,p99_us\n{}\n", rows.join("\n"))).expect("a table")
    }

    #[test]
    fn tails_at_one_time_are_a_timer() {
        let findings = check(&table(|i| 2_000.0 + i as f64), &[2e6]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].sentence.contains("1 times the timer of 2.00 ms"), "{}", findings[0].sentence);
    }

    #[test]
    fn a_timer_is_named_only_where_chance_would_not_come_as_close() {
        let named = |excess: f64, timers: &[f64]| at_timer(excess, timers).map(|(multiple, _, _)| multiple);
        assert_eq!(named(8.02e6, &[2e6]), Some(4.0));
        assert_eq!(named(3.2e6, &[2e6]), None);
        assert_eq!(named(8.04e6, &[2e6]), Some(4.0));
        assert_eq!(named(8.04e6, &[2e6, 2.3e6]), None);
    }

    #[test]
    fn tails_that_grow_with_the_time_are_load() {
        assert_eq!(check(&table(|i| 3.0 * 1.5_f64.powi(i as i32) + 6.0 * i as f64), &[]), []);
    }
}
