//! Which way the sessions of an endpoint over several transports take, and why not the others: read from the
//! counters of its process, and kept beside the figures of a run.

use core::fmt;
use std::collections::BTreeMap;

use farcall::{GroupSnapshot, Snapshot};

/// What the label of a way's reasons ends with.
const NOT_TAKEN: &str = " not taken";

/// Where the name under which a reason is kept is cut into way and reason.
const REASON: &str = " not taken: ";

/// The counters of a way.
const OF_A_WAY: [&str; 3] = ["sessions", "taken", "broke"];

/// The ways of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// The endpoint's label, such as `auto#0`.
    pub endpoint: String,
    /// Sessions by the way that they take.
    pub taken: BTreeMap<String, u64>,
    /// By way and reason, the sessions that did not take it for that reason. None of a way that is not there,
    /// if no session was asked for.
    pub not_taken: BTreeMap<(String, String), u64>,
}

/// What the groups of a process say of ways, under names that [`Ways::of`] reads.
pub fn counted(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    snapshot.groups.iter().flat_map(of_group).collect()
}

fn of_group(group: &GroupSnapshot) -> Vec<(String, u64)> {
    let label = &group.label;
    let counter = |name: &str| group.counters.iter().find(|counter| counter.name == name);
    if label.ends_with(NOT_TAKEN) {
        return group.counters.iter().map(|one| (format!("{label}: {}", one.doc), one.value)).collect();
    }
    let sessions = counter(OF_A_WAY[0]).filter(|_| OF_A_WAY.iter().all(|name| counter(name).is_some()));
    sessions.map(|sessions| (format!("{label}.{}", sessions.name), sessions.value)).into_iter().collect()
}

impl Ways {
    /// The endpoints of whose ways these names say something.
    pub fn of<'a>(counted: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<Self> {
        let mut endpoints: BTreeMap<&str, Self> = BTreeMap::new();
        for (name, sessions) in counted {
            let Some((endpoint, rest)) = name.split_once(' ') else { continue };
            let ways = || Self { endpoint: endpoint.to_owned(), ..Self::default() };
            if let Some((way, why)) = rest.split_once(REASON) {
                let ways = endpoints.entry(endpoint).or_insert_with(ways);
                *ways.not_taken.entry((way.to_owned(), why.to_owned())).or_default() += sessions;
            } else if let Some(way) = rest.strip_suffix(".sessions").filter(|_| sessions > 0) {
                *endpoints.entry(endpoint).or_insert_with(ways).taken.entry(way.to_owned()).or_default() +=
                    sessions;
            }
        }
        endpoints.into_values().collect()
    }

    /// Those of a process.
    pub fn of_process(snapshot: &Snapshot) -> Vec<Self> {
        Self::of(counted(snapshot).iter().map(|(name, sessions)| (&**name, *sessions)))
    }
}

/// `auto#0: 2 sessions over ring+shm; not tcp: ring+shm is preferred (2)`.
impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: u64| if count == 1 { "session" } else { "sessions" };
        let over = self.taken.iter().map(|(way, count)| format!("{count} {} over {way}", plural(*count)));
        let over: Vec<_> = over.collect();
        let over = if over.is_empty() { "no sessions".to_owned() } else { over.join(", ") };
        write!(f, "{}: {over}", self.endpoint)?;
        for ((way, why), count) in &self.not_taken {
            write!(f, "; not {way}: {why}")?;
            if *count > 0 {
                write!(f, " ({count})")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_and_reasons_are_read_by_endpoint() {
        let counted = [
            ("auto#0 ring+shm.sessions", 2),
            ("auto#0 tcp.sessions", 1),
            ("auto#0 basic+udp.sessions", 0),
            ("auto#0 tcp not taken: ring+shm is preferred", 2),
            ("auto#0 ring+verbs not taken: no RDMA device is on this machine. Why: not one", 0),
            ("auto#1 ring+shm.sessions", 1),
            ("ring+shm#2.calls", 7),
            ("udp 127.0.0.1:7000.received", 7),
        ];
        let said: Vec<_> = Ways::of(counted).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "auto#0: 2 sessions over ring+shm, 1 session over tcp; not ring+verbs: no RDMA device is on this \
                 machine. Why: not one; not tcp: ring+shm is preferred (2)",
                "auto#1: 1 session over ring+shm",
            ]
        );
    }
}
