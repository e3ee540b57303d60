//! What a live screen remembers: the last rates of each endpoint as a line of blocks, and the order of
//! processes.

use std::collections::{HashMap, VecDeque};

use crate::arguments::runs::TopSort;
use crate::commands::processes::change::{BUSY_POLLS, CALLS, Change, IN_FLIGHT, POLLS, REQUESTS};
use crate::commands::processes::sample::Sample;

/// Rates that are remembered of each endpoint: as many as the line has places.
const PLACES: usize = 16;
/// From nothing to the greatest of the line.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The last rates of calls made and served, by process and endpoint; those of a whole process, with what its
/// store was asked, under no name.
#[derive(Debug, Default)]
pub struct History {
    rates: HashMap<(u32, String), VecDeque<f64>>,
}

impl History {
    /// Adds what happened between two readings, and forgets what has gone.
    pub fn add(&mut self, before: &[Sample], after: &[Sample]) {
        self.rates.retain(|(pid, label), _| {
            let has = |sample: &Sample| label.is_empty() || sample.group(label).is_some();
            after.iter().any(|sample| sample.pid == *pid && has(sample))
        });
        for now in after {
            let Some(then) = before.iter().find(|sample| sample.pid == now.pid) else { continue };
            let mut sum = 0.0;
            for change in &Change::of(then, now) {
                sum += change.store_rate();
                if change.is_endpoint() {
                    sum += rate(change);
                    self.push(now.pid, &change.now.label, rate(change));
                }
            }
            self.push(now.pid, "", sum);
        }
    }

    fn push(&mut self, pid: u32, label: &str, rate: f64) {
        let rates = self.rates.entry((pid, label.to_owned())).or_default();
        if rates.len() == PLACES {
            rates.pop_front();
        }
        rates.push_back(rate);
    }

    /// The rates of an endpoint as a line; empty until there are two.
    pub fn line(&self, pid: u32, label: &str) -> String {
        let Some(rates) = self.rates.get(&(pid, label.to_owned())).filter(|rates| rates.len() > 1) else {
            return String::new();
        };
        let most = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let block = |rate: &f64| BLOCKS[((rate / most) * (BLOCKS.len() - 1) as f64).round() as usize];
        rates.iter().map(block).collect()
    }
}

/// Calls made and requests served, a second.
fn rate(change: &Change<'_>) -> f64 {
    [CALLS, REQUESTS].into_iter().filter_map(|name| change.rate(name)).sum()
}

/// Puts the processes into the order that was asked for, the greatest first. One that is stopped is held up
/// most.
pub fn sort(before: &[Sample], after: &mut [Sample], by: TopSort, is_stopped: impl Fn(u32) -> bool) {
    let key = |now: &Sample| -> f64 {
        let Some(then) = before.iter().find(|sample| sample.pid == now.pid) else { return 0.0 };
        let changes = Change::of(then, now);
        let endpoints = changes.iter().filter(|change| change.is_endpoint());
        match by {
            TopSort::Process => 0.0,
            TopSort::Calls => endpoints.map(rate).sum(),
            TopSort::InFlight => {
                endpoints.filter_map(|change| change.value(IN_FLIGHT)).map(|n| n as f64).sum()
            }
            TopSort::Busy => {
                let busy = |change: &Change<'_>| {
                    Some(change.rate(BUSY_POLLS)? / change.rate(POLLS).filter(|rate| *rate > 0.0)?)
                };
                endpoints.filter_map(busy).fold(0.0, f64::max)
            }
            TopSort::Stalls if is_stopped(now.pid) => f64::INFINITY,
            TopSort::Stalls => changes.iter().flat_map(Change::stalls).map(|stall| stall.amount).sum(),
        }
    };
    after.sort_by(|a, b| key(b).total_cmp(&key(a)).then(a.pid.cmp(&b.pid)));
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use farcall::Snapshot;

    use super::*;
    use crate::commands::processes::sample::testing::group;

    fn sample(pid: u32, seconds: u64, begin: Instant, calls: u64, stalls: u64) -> Sample {
        let counters = [
            (CALLS, calls),
            (POLLS, seconds * 10),
            (BUSY_POLLS, seconds * u64::from(pid)),
            ("waited_for_room", stalls),
        ];
        let groups = vec![group("ring+shm#0", &counters)];
        let snapshot = Snapshot { owner: pid.into(), unlisted_groups: 0, groups };
        Sample { pid, at: begin + Duration::from_secs(seconds), snapshot, schedule: None }
    }

    #[test]
    fn a_line_grows_with_the_readings_and_is_forgotten_with_its_process() {
        let (begin, mut history) = (Instant::now(), History::default());
        let readings = [0, 0, 7, 21];
        for second in 1..readings.len() {
            let at = |second: usize| [sample(7, second as u64, begin, readings[second], 0)];
            history.add(&at(second - 1), &at(second));
        }
        assert_eq!(history.line(7, "ring+shm#0"), "▁▅█");
        assert_eq!(history.line(8, "ring+shm#0"), "");
        history.add(&[], &[]);
        assert_eq!(history.line(7, "ring+shm#0"), "");
    }

    #[test]
    fn processes_are_sorted_by_what_was_asked_for() {
        let begin = Instant::now();
        let before = [sample(1, 0, begin, 0, 0), sample(2, 0, begin, 0, 0), sample(3, 0, begin, 0, 0)];
        let order = |by| {
            let mut after = [sample(3, 1, begin, 5, 1), sample(1, 1, begin, 9, 0), sample(2, 1, begin, 7, 2)];
            sort(&before, &mut after, by, |pid| pid == 1);
            after.map(|sample| sample.pid)
        };
        assert_eq!(order(TopSort::Process), [1, 2, 3]);
        assert_eq!(order(TopSort::Calls), [1, 2, 3]);
        assert_eq!(order(TopSort::Busy), [3, 2, 1]);
        assert_eq!(order(TopSort::Stalls), [1, 2, 3], "the first is stopped");
    }
}
