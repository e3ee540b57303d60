//! What a group of counters is called outside: the part that counts, and what tells it from others.

use crate::commands::processes::change::POLLS;
use farcall::GroupSnapshot;

/// The most characters of a part's name, which another version may choose.
const PART_CHARS_MAX: usize = 40;

/// What the label of a way's group of reasons ends with: each of its counters means by its text why sessions
/// do not take the way.
const NOT_TAKEN: &str = " not taken";

/// A group, as its series are named and labelled.
#[derive(Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// What counts: `endpoint`, `ring`, `packets`, `library`, `udp`, `kv_daemon`, ….
    pub part: String,
    /// The transport, of endpoints and what carries their calls.
    pub transport: Option<&'a str>,
    /// Whether its counters are reasons, which are labels of one series and no series of their own.
    pub is_of_reasons: bool,
}

impl<'a> Group<'a> {
    /// By its label, which the author of the counters chose for people.
    pub fn of(group: &'a GroupSnapshot) -> Self {
        let has = |name: &str| group.counters.iter().any(|counter| counter.name == name);
        let label = group.label.as_str();
        // Hosts of simulations come before it.
        let label = label.rsplit_once('/').map_or(label, |(_, label)| label);
        let named = |part, transport| Self { part, transport, is_of_reasons: false };
        let Some((head, rest)) = label.split_once('#') else {
            return named(part(label.split(' ').next().unwrap_or(label)), None);
        };
        if let Some((_, way)) = rest.strip_suffix(NOT_TAKEN).and_then(|rest| rest.split_once(' ')) {
            return Self { part: "several".to_owned(), transport: Some(way), is_of_reasons: true };
        }
        // One way of several is called `auto#0 ring+shm`.
        let transport = rest.split_once(' ').map_or(head, |(_, way)| way);
        if has(POLLS) {
            return named("endpoint".to_owned(), Some(transport));
        }
        let part_of_transport = match transport.split('+').next().unwrap_or(transport) {
            "ring" => "ring",
            "basic" | "homa" => "packets",
            _ if has("records_sent") => "ring",
            _ if has("attempts") => "several",
            _ if has("batches_sent") => "library",
            _ => return named(part(head), None),
        };
        named(part_of_transport.to_owned(), Some(transport))
    }
}

/// The label of a group, without what says that it is of reasons.
pub fn label(group: &GroupSnapshot) -> &str {
    group.label.strip_suffix(NOT_TAKEN).unwrap_or(&group.label)
}

/// A name that can be part of another.
fn part(head: &str) -> String {
    head.chars().take(PART_CHARS_MAX).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::processes::sample::testing::group;

    fn named(label: &str, counters: &[&str]) -> (String, Option<String>) {
        let group = group(label, &counters.iter().map(|name| (*name, 0)).collect::<Vec<_>>());
        let Group { part, transport, is_of_reasons: _ } = Group::of(&group);
        (part, transport.map(str::to_owned))
    }

    #[test]
    fn groups_are_named_by_the_part_that_counts() {
        let some = |part: &str, transport: &str| (part.to_owned(), Some(transport.to_owned()));
        assert_eq!(named("ring+shm#0", &[POLLS]), some("endpoint", "ring+shm"));
        assert_eq!(named("3/homa+sim#1", &[]), some("packets", "homa+sim"));
        assert_eq!(named("auto#0", &["attempts"]), some("several", "auto"));
        assert_eq!(named("auto#0 ring+shm", &[]), some("ring", "ring+shm"));
        assert_eq!(named("tcp#0", &["batches_sent"]), some("library", "tcp"));
        assert_eq!(named("auto#0 ring+verbs not taken", &["reason_1"]), some("several", "ring+verbs"));
        for (label, part) in [
            ("udp 127.0.0.1:7000", "udp"),
            ("kv-daemon#1", "kv_daemon"),
            ("kv#0", "kv"),
            ("kv-resp", "kv_resp"),
            ("shm 0a1b", "shm"),
        ] {
            assert_eq!(named(label, &[]), (part.to_owned(), None), "{label}");
        }
    }
}
