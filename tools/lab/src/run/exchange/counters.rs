//! What a process counted during a measurement: resends, stalls and the like stand beside the latencies they
//! explain.

use std::collections::BTreeMap;

use farcall::CounterFile;

use crate::run::ways;

/// Units of counters that name something: they are no count, and have no sum.
const NAMING_UNITS: [&str; 2] = ["number", "service"];

/// The values of all counters of this process, each under its group's label and its own name.
#[derive(Default)]
pub(crate) struct OwnCounters {
    counts: BTreeMap<String, u64>,
    /// Which ways sessions take now, and why not others: see [`ways::counted`].
    ways: BTreeMap<String, u64>,
}

impl OwnCounters {
    /// Reads them as another process would. A process without counters has none.
    pub(crate) fn read() -> Self {
        let Ok(snapshot) = CounterFile::open_process(std::process::id()) else { return Self::default() };
        let counts = snapshot.groups.iter().flat_map(|group| {
            let counted = group.counters.iter().filter(|counter| !NAMING_UNITS.contains(&&*counter.unit));
            counted.map(|counter| (format!("{}.{}", group.label, counter.name), counter.value))
        });
        Self { counts: counts.collect(), ways: ways::counted(&snapshot) }
    }

    /// As one group of each kind: simulated hosts count in one process, each under its rank.
    pub(crate) fn of_all_hosts(self) -> Self {
        let summed = |counts: BTreeMap<String, u64>| {
            let mut sums = BTreeMap::new();
            for (name, value) in counts {
                let name = name.split_once('/').map_or(&*name, |(_, name)| name);
                *sums.entry(name.to_owned()).or_default() += value;
            }
            sums
        };
        Self { counts: summed(self.counts), ways: summed(self.ways) }
    }

    /// By how much each counter that moved has grown since `before`; and the ways that sessions take now,
    /// which most have taken before anything is measured.
    pub(crate) fn since(self, before: &Self) -> BTreeMap<String, u64> {
        let grown = |(name, value): (String, u64)| {
            let growth = value.saturating_sub(before.counts.get(&name).copied().unwrap_or(0));
            (growth > 0).then_some((name, growth))
        };
        let ways = self.ways.into_iter().filter(|(_, sessions)| *sessions > 0);
        self.counts.into_iter().filter_map(grown).chain(ways).collect()
    }
}

/// Adds up the counts of several processes or measurements.
pub fn sum_of<'a>(counts: impl IntoIterator<Item = &'a BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let mut total = BTreeMap::new();
    for (name, count) in counts.into_iter().flatten() {
        *total.entry(name.clone()).or_default() += count;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_hosts_are_added_up() {
        let counters = [("0/basic+sim#0.calls", 2), ("1/basic+sim#0.calls", 3), ("basic+udp#0.calls", 5)];
        let counts = counters.map(|(name, value)| (name.to_owned(), value)).into();
        let counters = OwnCounters { counts, ways: BTreeMap::new() };
        let sums = [("basic+sim#0.calls", 5), ("basic+udp#0.calls", 5)];
        assert_eq!(
            counters.of_all_hosts().counts,
            sums.map(|(name, value): (&str, u64)| (name.to_owned(), value)).into()
        );
    }

    #[test]
    fn only_what_grew_is_reported() {
        let ways = BTreeMap::from([("auto#0 tcp.sessions".to_owned(), 1), ("auto#0 none".to_owned(), 0)]);
        let counters = |values: &[(&str, u64)]| OwnCounters {
            counts: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            ways: ways.clone(),
        };
        let before = counters(&[("ring.stalls", 5), ("ring.calls", 10)]);
        let grown = counters(&[("ring.stalls", 5), ("ring.calls", 17), ("udp.drops", 2)]).since(&before);
        let expected = [("auto#0 tcp.sessions", 1), ("ring.calls", 7), ("udp.drops", 2)];
        assert_eq!(grown, expected.map(|(name, value)| (name.to_owned(), value)).into());
        assert_eq!(sum_of([&grown, &grown])["ring.calls"], 14);
    }
}
