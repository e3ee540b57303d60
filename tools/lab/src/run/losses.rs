//! What was lost while operations ran, and what that cost: it stands beside every figure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The fewest losses after which a figure that they rule has settled: the chance that a count of 30 is off by
/// more than a third is 1 in 15.
const SETTLED_FROM: u64 = 30;

/// Packets that did not arrive, packets that were sent again, and operations that gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Packets lost: to faults that were asked for, to full buffers, altered on their way.
    pub dropped: u64,
    /// Those of them that `fault.*` dropped on purpose.
    pub injected: u64,
    /// Packets with bytes that were sent before, and packets that asked for some.
    pub resent: u64,
    /// Operations whose deadline passed.
    pub timed_out: u64,
}

/// How counters of losses end; of all parts, since a decorator's packets are lost as well as a driver's.
const DROPPED: [&str; 12] = [
    "dropped",
    "truncated",
    "checksum_errors",
    "packets_unsendable",
    "packets_truncated",
    "stale_destinations",
    "drops_port",
    "drops_nic",
    "drops_receive_queue",
    "drops_host_down",
    "drops_fault",
    "drops_partition",
];
const INJECTED: [&str; 2] = ["dropped", "truncated"];
const RESENT: [&str; 3] = ["retransmissions", "resends_sent", "restarts_sent"];
const TIMED_OUT: [&str; 1] = ["timed_out"];

impl Losses {
    /// Those that these counters counted.
    pub fn of(counters: &BTreeMap<String, u64>) -> Self {
        let sum = |names: &[&str]| {
            let counted = counters.iter().filter(|(counter, _)| {
                let name = counter.rsplit('.').next().unwrap_or_default();
                names.contains(&name)
            });
            counted.map(|(_, count)| count).sum()
        };
        Self {
            dropped: sum(&DROPPED),
            injected: sum(&INJECTED),
            resent: sum(&RESENT),
            timed_out: sum(&TIMED_OUT),
        }
    }

    /// These and others.
    pub fn and(self, other: Self) -> Self {
        Self {
            dropped: self.dropped + other.dropped,
            injected: self.injected + other.injected,
            resent: self.resent + other.resent,
            timed_out: self.timed_out + other.timed_out,
        }
    }

    /// Whether nothing was lost.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// What a row says of them behind its own words; nothing where there are none.
    pub fn words(&self) -> String {
        let kinds = [(self.dropped, "dropped"), (self.resent, "sent again"), (self.timed_out, "timed out")];
        kinds.iter().filter(|kind| kind.0 > 0).map(|(count, kind)| format!("; {count} {kind}")).collect()
    }

    /// That there were so few of them among so many operations that another run would have others; nothing
    /// where there were none, or enough.
    pub fn too_few(&self, operations: u64) -> Option<String> {
        let seen = self.dropped.max(self.resent).max(self.timed_out);
        let wanted = operations.saturating_mul(SETTLED_FROM).checked_div(seen)?;
        (seen < SETTLED_FROM).then(|| {
            format!(
                "only {seen} losses fell, too few to know what they cost: figures settle from about --count \
                 {wanted} on"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counters: &[(&str, u64)]) -> Losses {
        Losses::of(&counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect())
    }

    #[test]
    fn losses_are_those_of_every_part() {
        let found = of(&[
            ("fault basic+udp#0.dropped", 3),
            ("basic+udp#0.checksum_errors", 2),
            ("basic+udp#0.retransmissions", 4),
            ("basic+udp#0.resends_sent", 1),
            ("basic+udp#0.packets_sent", 1000),
            ("endpoint#0.timed_out", 1),
        ]);
        assert_eq!(found, Losses { dropped: 5, injected: 3, resent: 5, timed_out: 1 });
        assert_eq!(found.words(), "; 5 dropped; 5 sent again; 1 timed out");
        assert!(of(&[("basic+udp#0.packets_sent", 9)]).are_none());
    }

    #[test]
    fn few_losses_are_said_to_be_few() {
        assert_eq!(of(&[]).too_few(10_000), None);
        assert_eq!(of(&[("a.dropped", 30)]).too_few(10_000), None);
        let said = of(&[("a.dropped", 3)]).too_few(10_000).expect("three are few");
        assert!(said.contains("--count 100000"), "{said}");
    }
}
