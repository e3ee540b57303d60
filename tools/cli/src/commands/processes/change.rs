//! What a group of counters did between two readings: rates, levels, and what held it up.

use farcall::GroupSnapshot;

use super::sample::Sample;

/// Counters of an endpoint.
pub const CALLS: &str = "calls";
pub const ANSWERED: &str = "answered";
pub const REQUESTS: &str = "requests";
pub const IN_FLIGHT: &str = "in_flight";
pub const SESSIONS: &str = "sessions";
pub const POLLS: &str = "polls";
pub const BUSY_POLLS: &str = "busy_polls";
pub const SLEEPS: &str = "sleeps";

/// Counters of what holds calls up, wherever they are counted. Sessions that ended are none: clients leave.
pub const STALLS: [&str; 15] = [
    STALLED_TIME,
    "waited_for_room",
    BACKLOG,
    "credit_records_sent",
    "retransmissions",
    "resends_sent",
    "restarts_sent",
    "busy_sent",
    "stale",
    "assembly_full",
    "requests_refused",
    "send_queue_full",
    "waited_for_session",
    "timed_out",
    "violations",
];

/// For how long no call has been answered although some are in flight, in nanoseconds; 0 while that is short.
pub const STALLED_TIME: &str = "stalled_time";

/// Messages that wait for room now.
const BACKLOG: &str = "backlog";

/// Levels, which have a value and no rate: counters whose sentences say what is there *now*.
pub const LEVELS: [&str; 23] = [
    BACKLOG,
    IN_FLIGHT,
    SESSIONS,
    "behind_bytes",
    "core",
    "established",
    "handler",
    "half_open",
    "held_bytes",
    "incarnation",
    "lease_left",
    "mapped_bytes",
    "objects",
    "orphaned_bytes",
    "path_bytes",
    "pinned_bytes",
    "replicas_wanted",
    "replicas_whole",
    "replication_epoch",
    "stalled_on",
    "stalled_service",
    STALLED_TIME,
    "used_bytes",
];

/// A group at two times.
pub struct Change<'a> {
    then: Option<&'a GroupSnapshot>,
    pub now: &'a GroupSnapshot,
    seconds: f64,
}

/// One counter of a group that held something up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    pub name: &'static str,
    /// How much waits now, of a level; else how often it happened in a second.
    pub amount: f64,
}

impl<'a> Change<'a> {
    /// The groups of a process, as they are now.
    pub fn of(then: &'a Sample, now: &'a Sample) -> Vec<Self> {
        let seconds = seconds(then, now);
        let change = |group: &'a GroupSnapshot| Self { then: then.same_group(group), now: group, seconds };
        now.snapshot.groups.iter().map(change).collect()
    }

    /// Whether it counts for an endpoint.
    pub fn is_endpoint(&self) -> bool {
        self.value(POLLS).is_some()
    }

    /// The name of the endpoint's transport; hosts of simulations come before it in labels.
    pub fn transport(&self) -> &'a str {
        let label = self.now.label.as_str();
        let key = label.rsplit_once('/').map_or(label, |(_, key)| key);
        key.split_once('#').map_or(key, |(transport, _)| transport)
    }

    /// What a counter is now.
    pub fn value(&self, name: &str) -> Option<u64> {
        value(self.now, name)
    }

    /// Per second; since its begin for a group that is new.
    pub fn rate(&self, name: &str) -> Option<f64> {
        let then = self.then.and_then(|group| value(group, name)).unwrap_or(0);
        Some(value(self.now, name)?.saturating_sub(then) as f64 / self.seconds)
    }

    /// Whether it is a part of a store.
    pub fn is_store(&self) -> bool {
        self.now.label.starts_with("kv")
    }

    /// Requests a second of a part of a store: of calls and slots by its shard, and of the doors of other
    /// protocols, each counted once. Nothing of other groups.
    pub fn store_rate(&self) -> f64 {
        let label = self.now.label.as_str();
        let counters: &[&str] = match label.split_once('#').map_or(label, |(part, _)| part) {
            "kv" => &["gets", "puts", "deletes", "increments", "scans"],
            "kv-resp" => &["commands"],
            "kv-memcached" => &["gets", "writes", "deletes", "sums", "touches", "flushes"],
            _ => &[],
        };
        total(counters.iter().filter_map(|name| self.rate(name)))
    }

    /// What held this group up.
    pub fn stalls(&self) -> impl Iterator<Item = Stall> {
        STALLS.iter().filter_map(|name| {
            let amount =
                if is_level(name) { self.value(name).map(|value| value as f64) } else { self.rate(name) };
            amount.filter(|amount| *amount > 0.0).map(|amount| Stall { name, amount })
        })
    }
}

impl Stall {
    /// The same of another group with it: times do not add up.
    pub fn with(self, other: f64) -> f64 {
        if self.name == STALLED_TIME { self.amount.max(other) } else { self.amount + other }
    }

    /// In words.
    pub fn shown(self) -> String {
        let Self { name, amount } = self;
        if name == STALLED_TIME {
            return format!("no answer for {:.1} s", amount / 1e9);
        }
        if is_level(name) { format!("{name} {amount:.0}") } else { format!("{name} {}/s", scaled(amount)) }
    }
}

/// Whether a counter is one of them.
pub fn is_level(name: &str) -> bool {
    LEVELS.contains(&name)
}

/// The time between two readings, never 0.
pub fn seconds(then: &Sample, now: &Sample) -> f64 {
    (now.at - then.at).as_secs_f64().max(1e-9)
}

fn value(group: &GroupSnapshot, name: &str) -> Option<u64> {
    group.counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
}

/// The sum, which is 0 of nothing; that of `Iterator` would be -0, and is shown so.
pub fn total(amounts: impl Iterator<Item = f64>) -> f64 {
    amounts.fold(0.0, |sum, one| sum + one)
}

/// A rate in few characters.
pub fn scaled(rate: f64) -> String {
    match rate {
        most if most >= 1e9 => format!("{:.2}G", most / 1e9),
        many if many >= 1e6 => format!("{:.2}M", many / 1e6),
        some if some >= 1e3 => format!("{:.1}K", some / 1e3),
        few => format!("{few:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::processes::sample::testing::group;

    #[test]
    fn the_transport_is_in_the_label_of_an_endpoint() {
        let transport = |label: &str| {
            let now = group(label, &[]);
            Change { then: None, now: &now, seconds: 1.0 }.transport().to_owned()
        };
        assert_eq!(transport("ring+shm#0"), "ring+shm");
        assert_eq!(transport("3/homa+sim#1"), "homa+sim", "the third host of a simulation");
        assert_eq!(transport("odd"), "odd");
    }

    #[test]
    fn every_request_of_a_store_counts_once() {
        let rate = |label: &str, names: &[&str]| {
            let now = group(label, &names.iter().map(|name| (*name, 10)).collect::<Vec<_>>());
            Change { then: None, now: &now, seconds: 2.0 }.store_rate()
        };
        assert_eq!(rate("kv#3", &["gets", "puts", "refused", "objects"]), 10.0);
        assert_eq!(rate("kv-resp", &["commands", "errors"]), 5.0, "an error is the answer of a command");
        assert_eq!(rate("kv-memcached", &["gets", "hits", "writes"]), 10.0, "a hit is a get");
        for label in ["kv-log#0", "kv-daemon#0", "ring+shm#0", "orders/kv#0"] {
            assert_eq!(rate(label, &["gets", "commands", "slot_requests"]), 0.0, "{label}");
        }
    }

    #[test]
    fn stalls_are_rates_but_for_levels() {
        let stall = |name, amount| Stall { name, amount }.shown();
        assert_eq!(stall("waited_for_room", 1500.0), "waited_for_room 1.5K/s");
        assert_eq!(stall("backlog", 5.0), "backlog 5");
        assert_eq!(stall(STALLED_TIME, 1.25e9), "no answer for 1.2 s");
        assert_eq!(Stall { name: STALLED_TIME, amount: 3.0 }.with(4.0), 4.0, "of two endpoints");
        assert_eq!(Stall { name: "backlog", amount: 3.0 }.with(4.0), 7.0);
    }

    /// Counters that are declared in the sources below a folder, with their sentences.
    fn declared(folder: &std::path::Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).expect("it can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                declared(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).expect("sources are text");
                let counter = |line: &str| {
                    let (head, sentence) = line.trim().split_once("\" => \"")?;
                    Some((head.split_once(": \"")?.0.to_owned(), sentence.to_owned()))
                };
                found.extend(text.lines().filter_map(counter));
            }
        }
    }

    #[test]
    fn levels_are_the_counters_whose_sentences_say_now() {
        let says_now = |sentence: &str| {
            let words: Vec<_> = sentence.split(|c: char| !c.is_alphabetic()).collect();
            words.contains(&"now") || sentence.contains("when ") && sentence.contains(" last ")
        };
        let mut counters = Vec::new();
        for folder in ["../../crates", "../../fabrics"] {
            declared(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut counters);
        }
        assert!(counters.len() > 100, "the declarations are found");
        for (name, sentence) in counters {
            let what = "add it to LEVELS, or say what it counts without `now`";
            assert_eq!(is_level(&name), says_now(&sentence), "{name}: {sentence} {what}");
        }
    }
}
