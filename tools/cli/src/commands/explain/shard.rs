//! What a shard's durable writes wait for, where the time went until it was the primary, and what its
//! replicas lack: read from the counters of its log and of its replicas.

use farcall_lab::explain::analysis::finding::{Finding, Section};

use crate::commands::processes::change::Change;
use crate::commands::processes::sample::Sample;

/// The labels of the two groups of a shard begin so, and end in its number.
const LOG: &str = "kv-log#";
const REPLICAS: &str = "kv-replicas#";

/// Replicas that take this part of a flush may be what it waits for.
const REPLICA_MIN: f64 = 0.5;

/// A takeover that was shorter is not worth a sentence.
const TAKEOVER_NANOS_MIN: u64 = 1_000_000;

/// A shard between two readings of its process.
pub struct Shard {
    /// The process, and the shard.
    about: String,
    /// Groups of writes that became durable in a second, and records in them.
    groups: f64,
    records: f64,
    /// The share of the time for which there was one in flight.
    busy: f64,
    /// How long a group and an answer of a replica took, in nanoseconds.
    flush_nanos: f64,
    trip_nanos: f64,
    /// How long the log took to be read and replayed.
    opening_nanos: u64,
    replicas: Option<Replicas>,
}

/// What the primary knows of its replicas.
struct Replicas {
    wanted: u64,
    whole: u64,
    behind_bytes: u64,
    /// Where the time went until it was the primary: `waiting`, `fetching`, `replaying`, and copying since.
    takeover_nanos: [u64; 3],
    copy_nanos: u64,
}

impl Shard {
    /// The shards of a process that have a log.
    pub fn of(then: &Sample, now: &Sample) -> Vec<Self> {
        let changes = Change::of(then, now);
        let numbered =
            |prefix: &str, change: &Change<'_>| change.now.label.strip_prefix(prefix).map(str::to_owned);
        let shard = |log: &Change<'_>| {
            let number = numbered(LOG, log)?;
            let replicas = changes.iter().find(|change| numbered(REPLICAS, change).as_ref() == Some(&number));
            Some(Self::new(format!("{} shard {number}", now.pid), log, replicas))
        };
        changes.iter().filter_map(shard).collect()
    }

    fn new(about: String, log: &Change<'_>, replicas: Option<&Change<'_>>) -> Self {
        let rate = |change: &Change<'_>, name: &str| change.rate(name).unwrap_or(0.0);
        let mean = |time: f64, count: f64| if count > 0.0 { time / count } else { 0.0 };
        let (groups, flush_time) = (rate(log, "groups"), rate(log, "flush_time"));
        let trip_nanos =
            replicas.map_or(0.0, |change| mean(rate(change, "round_trip_time"), rate(change, "round_trips")));
        Self {
            about,
            groups,
            records: rate(log, "records"),
            busy: (flush_time / 1e9).min(1.0),
            flush_nanos: mean(flush_time, groups),
            trip_nanos,
            opening_nanos: log.value("opening_time").unwrap_or(0),
            replicas: replicas.map(Replicas::of),
        }
    }

    /// The part of a flush that its replicas take; none where they cannot be what it waits for.
    fn of_replicas(&self) -> f64 {
        let part = if self.flush_nanos > 0.0 { (self.trip_nanos / self.flush_nanos).min(1.0) } else { 0.0 };
        if part >= REPLICA_MIN { part } else { 0.0 }
    }

    fn groups_in_words(&self) -> String {
        format!(
            "{:.0} groups a second of {:.1} writes each, {:.0} us each, {:.0} % of the time",
            self.groups,
            self.records / self.groups,
            self.flush_nanos / 1e3,
            self.busy * 100.0
        )
    }

    /// The share of the time that the disk takes, and the figures.
    pub fn disk(&self) -> Option<(f64, String)> {
        (self.groups > 0.0).then(|| (self.busy * (1.0 - self.of_replicas()), self.groups_in_words()))
    }

    /// The same of the replicas.
    pub fn replicas(&self) -> Option<(f64, String)> {
        let share = self.busy * self.of_replicas();
        (self.groups > 0.0 && share > 0.0).then(|| {
            (
                share,
                format!("{}; a replica answers in {:.0} us", self.groups_in_words(), self.trip_nanos / 1e3),
            )
        })
    }

    /// What is so and no cause of the time that is watched: how it began, and what replicas lack.
    pub fn said(&self) -> Vec<Finding> {
        match &self.replicas {
            Some(replicas) => {
                [replicas.takeover(self), replicas.lacking(self)].into_iter().flatten().collect()
            }
            None => self.opening().into_iter().collect(),
        }
    }

    /// How long a shard without replicas did not answer when it began.
    fn opening(&self) -> Option<Finding> {
        (self.opening_nanos >= TAKEOVER_NANOS_MIN).then(|| {
            let seconds = self.opening_nanos as f64 / 1e9;
            let sentence = format!("its log was read and replayed in {seconds:.3} s before it answered");
            Finding::new(Section::Agreement, "recovery", &self.about, sentence).with([("replay_s", seconds)])
        })
    }
}

impl Replicas {
    fn of(change: &Change<'_>) -> Self {
        let value = |name: &str| change.value(name).unwrap_or(0);
        Self {
            wanted: value("replicas_wanted"),
            whole: value("replicas_whole"),
            behind_bytes: value("behind_bytes"),
            takeover_nanos: ["takeover_wait", "takeover_fetch", "takeover_replay"].map(value),
            copy_nanos: value("takeover_copy"),
        }
    }

    /// Where the time went until the shard answered, the longest part first.
    fn takeover(&self, shard: &Shard) -> Option<Finding> {
        const PARTS: [(&str, &str); 3] = [
            (
                "waiting until the last primary's lease was over",
                "a shorter `--lease`, which also is what a pause may last",
            ),
            (
                "reading a replica",
                "`--data` on a disk that stays, so that the log is here, or a faster path to the backups",
            ),
            ("replaying the log", "more shards, each with a part of what is in it"),
        ];
        let total: u64 = self.takeover_nanos.iter().sum();
        if total < TAKEOVER_NANOS_MIN {
            return None;
        }
        let mut parts: Vec<_> = self.takeover_nanos.iter().zip(PARTS).collect();
        parts.sort_by_key(|(nanos, _)| core::cmp::Reverse(**nanos));
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let words = |(nanos, (what, _)): &(&u64, (&str, &str))| {
            format!("{:.3} s ({:.0} %) {what}", seconds(**nanos), **nanos as f64 / total as f64 * 100.0)
        };
        let shown: Vec<_> = parts.iter().map(words).collect();
        let copied = match self.copy_nanos {
            0 => "; its replicas do not have everything since".to_owned(),
            nanos => format!("; {:.1} s later its replicas had everything", seconds(nanos)),
        };
        let next = parts.first().map_or("", |(_, (_, next))| *next);
        let sentence = format!(
            "it became the primary in {:.3} s: {}{copied}; what would make it sooner: {next}",
            seconds(total),
            shown.join(", ")
        );
        let [wait, fetch, replay] = self.takeover_nanos.map(seconds);
        Some(Finding::new(Section::Agreement, "takeover", &shard.about, sentence).with([
            ("wait_s", wait),
            ("fetch_s", fetch),
            ("replay_s", replay),
            ("copy_s", seconds(self.copy_nanos)),
        ]))
    }

    /// Replicas that writes do not wait for yet, or that are gone.
    fn lacking(&self, shard: &Shard) -> Option<Finding> {
        (self.whole < self.wanted).then(|| {
            let sentence = format!(
                "{} of {} replicas have everything, and the slowest lacks {:.1} MB: the loss of another process may lose what was \
                 written",
                self.whole,
                self.wanted,
                self.behind_bytes as f64 / 1e6
            );
            let figures = [("whole", self.whole as f64), ("wanted", self.wanted as f64)];
            Finding::new(Section::Caution, "replicas_lacking", &shard.about, sentence).with(figures)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(flush_us: f64, trip_us: f64, takeover_ms: [u64; 3]) -> Shard {
        Shard {
            about: "1 shard 0".to_owned(),
            groups: 100.0,
            records: 400.0,
            busy: 0.8,
            flush_nanos: flush_us * 1e3,
            trip_nanos: trip_us * 1e3,
            opening_nanos: 0,
            replicas: Some(Replicas {
                wanted: 2,
                whole: 1,
                behind_bytes: 3_000_000,
                takeover_nanos: takeover_ms.map(|ms| ms * 1_000_000),
                copy_nanos: 0,
            }),
        }
    }

    #[test]
    fn a_flush_is_shared_out_among_disk_and_replicas() {
        let share = |taken: Option<(f64, String)>| taken.map(|(share, _)| (share * 100.0).round());
        let slow_disk = shard(8000.0, 100.0, [0; 3]);
        assert_eq!((share(slow_disk.disk()), share(slow_disk.replicas())), (Some(80.0), None));
        let slow_replica = shard(8000.0, 7000.0, [0; 3]);
        assert_eq!((share(slow_replica.disk()), share(slow_replica.replicas())), (Some(10.0), Some(70.0)));
        assert!(slow_replica.replicas().is_some_and(|(_, said)| said.contains("4.0 writes each, 8000 us")));
    }

    #[test]
    fn the_longest_part_of_a_takeover_is_named_first() {
        let said = shard(0.0, 0.0, [900, 50, 50]).said();
        assert_eq!(
            said.iter().map(|finding| finding.rule).collect::<Vec<_>>(),
            ["takeover", "replicas_lacking"]
        );
        assert!(said[0].sentence.contains("in 1.000 s: 0.900 s (90 %) waiting"), "{said:?}");
        assert!(said[0].sentence.ends_with("a pause may last"), "{said:?}");
        let replay = shard(0.0, 0.0, [10, 0, 700]).said();
        assert!(replay[0].sentence.contains("(99 %) replaying the log"), "{replay:?}");
    }
}
