//! Tails that stand at the same time whatever the load are timers: something was lost or starved, and waited
//! for one.

use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::analysis::input::{Axis, Latency, Observation, Table};
use crate::units::time_in_words;

/// A tail counts as one when p99 is this many times the median.
const TAIL_RATIO: f64 = 1.5;

/// Excesses within this ratio are of one mode.
const MODE_RATIO: f64 = 1.35;

/// A mode has this share of the tails, and this many rows, or it is chance.
const MODE_SHARE: f64 = 0.06;
const MODE_ROWS_MIN: usize = 5;

/// Who waits for a timer waits long: the excess is this many medians in most rows of a mode. A tail of twice
/// the median is that of any server.
const MEDIANS_MIN: f64 = 2.0;

/// That an excess stays whatever else differs shows only where something does: a median or a load differs
/// between the rows this many times as much as the excess.
const DIFFERS_MIN: f64 = 1.5;

/// A clock that ticks coarsely makes medians one time, and tails whole multiples of it to this part.
const TICK_OFF_MAX: f64 = 0.01;

/// At most this many modes are reported.
const MODES_MAX: usize = 3;

/// A mode stands at a multiple of a timer when one that lies anywhere would come as close in so many cases at
/// most.
const CHANCE_MAX: f64 = 0.05;

/// Finds the modes of the tails.
pub fn check(table: &Table, timers_nanos: &[f64]) -> Vec<Finding> {
    let mut tails: Vec<_> = table.rows.iter().filter_map(tail).collect();
    tails.sort_unstable_by(|a, b| a.excess.total_cmp(&b.excess));
    let mut findings = Vec::new();
    let mut waits = Vec::new();
    let (all, enough) = (tails.len(), mode_rows_min(tails.len()));
    while findings.len() < MODES_MAX {
        let Some((from, count)) = densest(&tails).filter(|(_, count)| *count >= enough) else { break };
        let mode: Vec<_> = tails.drain(from..from + count).collect();
        if is_timer(&mode) {
            findings.push(finding(table, &mode, all, timers_nanos));
            waits.extend(mode);
        }
    }
    findings.extend(loss_share(table, &waits));
    findings
}

struct Tail<'a> {
    row: &'a Observation,
    median: f64,
    /// p99 less the median.
    excess: f64,
    /// The mean less the median.
    mean_excess: Option<f64>,
}

fn tail(row: &Observation) -> Option<Tail<'_>> {
    let (median, high) = (row.nanos(Latency::P50)?, row.nanos(Latency::P99)?);
    let mean_excess = row.nanos(Latency::Mean).map(|mean| mean - median);
    (high > median * TAIL_RATIO).then_some(Tail { row, median, excess: high - median, mean_excess })
}

/// Whether waiting for a timer is what a mode shows, and not the tail of one distribution that was measured
/// several times.
fn is_timer(mode: &[Tail<'_>]) -> bool {
    let long = mode.iter().filter(|tail| tail.excess >= MEDIANS_MIN * tail.median).count();
    let excess = spread(mode.iter().map(|tail| tail.excess));
    let axes = [Axis::Nodes, Axis::Clients, Axis::Servers, Axis::InFlight, Axis::Size];
    let medians = spread(mode.iter().map(|tail| tail.median));
    let rates = spread(mode.iter().filter_map(|tail| tail.row.operations_per_second));
    let bits = spread(mode.iter().filter_map(|tail| tail.row.bits_per_second()));
    let chosen = axes.map(|axis| spread(mode.iter().filter_map(|tail| tail.row.at(axis))));
    let differs = chosen.into_iter().chain([medians, rates, bits]).fold(1.0, f64::max);
    let is_whole = |tail: &Tail<'_>| {
        let ticks = tail.excess / tail.median;
        (ticks - ticks.round()).abs() <= TICK_OFF_MAX
    };
    let ticks = medians <= 1.0 + TICK_OFF_MAX && mode.iter().all(is_whole);
    2 * long > mode.len() && differs >= DIFFERS_MIN * excess && !ticks
}

/// The greatest over the least; 1 of none.
fn spread(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let (least, most) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max));
    if least > 0.0 && most >= least { most / least } else { 1.0 }
}

fn mode_rows_min(tails: usize) -> usize {
    MODE_ROWS_MIN.max((tails as f64 * MODE_SHARE).ceil() as usize)
}

/// Where the most values within [`MODE_RATIO`] begin, and how many they are.
fn densest(sorted: &[Tail<'_>]) -> Option<(usize, usize)> {
    let within =
        |from: usize| sorted[from..].partition_point(|tail| tail.excess <= sorted[from].excess * MODE_RATIO);
    (0..sorted.len()).map(|from| (from, within(from))).max_by_key(|(from, count)| (*count, usize::MAX - from))
}

fn finding(table: &Table, mode: &[Tail<'_>], tails: usize, timers_nanos: &[f64]) -> Finding {
    let middle = mode[mode.len() / 2].excess;
    let (low, high) = (mode[0].excess, mode[mode.len() - 1].excess);
    let timer = match at_timer(middle, timers_nanos) {
        Some((multiple, timer, off)) => {
            format!(", {multiple} times the timer of {} to {:.1} % of it", time_in_words(timer), off * 100.0)
        }
        None => String::new(),
    };
    let sentence = format!(
        "{} of {tails} rows with a tail have p99 {} to {} above the median, whatever else differs{timer}: \
         consistent with a timer after a loss, not with load",
        mode.len(),
        time_in_words(low),
        time_in_words(high)
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
fn loss_share(table: &Table, tails: &[Tail<'_>]) -> Option<Finding> {
    let share = |tail: &Tail<'_>| Some(tail.mean_excess? / tail.excess).filter(|share| *share > 0.0);
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

    fn rules(text: &str) -> Vec<&'static str> {
        let findings = check(&parse("t", text).expect("a table"), &[]);
        findings.iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn what_hardly_differs_stays_for_no_reason() {
        // Tails of one and a half to two medians are those of any server.
        let redis = "rps,avg_ms,p50_ms,p99_ms\n118203,0.224,0.215,0.407\n120772,0.219,0.207,0.375\n\
                     117233,0.226,0.215,0.423\n119617,0.221,0.207,0.391\n116279,0.229,0.223,0.415\n";
        assert_eq!(rules(redis), [""; 0]);
        let sizes = "size,p50_us,p99_us\n14,9.8,15.68\n64,9.9,15.84\n256,10.3,16.48\n1024,11.9,19.04\n1472,12.6,20.16\n";
        assert_eq!(rules(sizes), [""; 0]);
        // Long tails, but nothing was varied.
        let row = |run: usize| format!("{run},{},0.22,40.{run}\n", 10_000 + run);
        let repeats: String = (1..=6).map(row).collect();
        assert_eq!(rules(&format!("run,requests/s,p50_ms,p99_ms\n{repeats}")), [""; 0]);
        let loads: String = (1..=6).map(|load| format!("{load},{},0.22,40.{load}\n", 1000 * load)).collect();
        assert_eq!(rules(&format!("run,requests/s,p50_ms,p99_ms\n{loads}")), ["tail_at_timer"]);
    }

    #[test]
    fn a_coarse_clock_is_no_loss() {
        let at = |p99: usize| {
            let rows: String = (1..=6).map(|load| format!("{},4,{p99}\n", 1000 * load)).collect();
            rules(&format!("ops/s,p50_ms,p99_ms\n{rows}"))
        };
        assert_eq!((at(8), at(16)), (Vec::new(), Vec::new()));
        assert_eq!(at(15), ["tail_at_timer"]);
    }

    #[test]
    fn a_timer_of_microseconds_is_printed_in_them() {
        let rows: String = (1..=6).map(|n| format!("{n},{}.5,{}.5\n", n, 60 + n)).collect();
        let findings = check(&parse("t", &format!("size,p50_us,p99_us\n{rows}")).expect("a table"), &[]);
        assert!(findings[0].sentence.contains("60.00 us to 60.00 us above"), "{findings:?}");
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
