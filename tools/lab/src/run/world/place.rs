//! Which rank gets which process of a measurement: servers first, then clients; daemons and nodes in their
//! order.

use std::collections::BTreeMap;

use farcall::bootstrap::RANKS_MAX;

use super::{RankAbout, WorldError};

/// What a process of a measurement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Answers calls.
    Servers,
    /// Makes calls.
    Clients,
    /// Has a shard of a store, and clients at its rank.
    Daemons,
    /// Sends messages.
    Sender,
    /// Receives them.
    Receiver,
}

farcall_base::named!(Role:
    Servers = "servers",
    Clients = "clients",
    Daemons = "daemons",
    Sender = "sender",
    Receiver = "receiver",
);

/// A rule for the ranks of a launcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// As the launcher counts them: one machine after the other, as most do.
    #[default]
    Pack,
    /// The first rank of every machine, then the second ones, and so on.
    Spread,
    /// These ranks, in this order.
    Ranks(Vec<u32>),
    /// For each role its ranks, in the order in which roles get processes. A rank may have several roles.
    Roles(BTreeMap<Role, Vec<u32>>),
}

impl core::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "pack" => Ok(Self::Pack),
            "spread" => Ok(Self::Spread),
            _ if text.contains('=') => roles(text).map(Self::Roles),
            _ => ranks(text).map(Self::Ranks),
        }
    }
}

/// Roles with their ranks: `servers=0,1/clients=2-5`.
fn roles(text: &str) -> Result<BTreeMap<Role, Vec<u32>>, String> {
    let mut roles = BTreeMap::new();
    for part in text.split('/') {
        let (name, list) = part.split_once('=').unwrap_or((part, ""));
        let role = Role::ALL.into_iter().find(|role| role.name() == name).ok_or_else(|| {
            let known = Role::ALL.map(Role::name).join(", ");
            format!("there is no role `{name}`; choose from {known}")
        })?;
        if roles.insert(role, ranks(list)?).is_some() {
            return Err(format!("`{text}` has {name} twice"));
        }
    }
    Ok(roles)
}

/// Ranks, each once: `0,2,4-7`.
fn ranks(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || {
        format!(
            "`{text}` is none of pack, spread, a list of ranks such as 0,2-5, and lists of roles such as servers=0/clients=1,2"
        )
    };
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let rank = |text: &str| text.trim().parse::<u32>().ok().filter(|rank| *rank < RANKS_MAX);
        let (first, last) = rank(first).zip(rank(last)).ok_or_else(wrong)?;
        if last < first {
            return Err(wrong());
        }
        ranks.extend(first..=last);
    }
    let twice = ranks.iter().enumerate().find(|(at, rank)| ranks[..*at].contains(rank));
    twice.map_or(Ok(()), |(_, rank)| Err(format!("`{text}` names rank {rank} twice")))?;
    Ok(ranks)
}

impl Place {
    /// The ranks of each role, if roles are what it names.
    pub fn roles(&self) -> Option<&BTreeMap<Role, Vec<u32>>> {
        match self {
            Self::Roles(roles) => Some(roles),
            Self::Pack | Self::Spread | Self::Ranks(_) => None,
        }
    }

    /// The ranks that get processes, in the order in which they do.
    pub(super) fn order(&self, ranks: &[RankAbout]) -> Result<Vec<u32>, WorldError> {
        match self {
            Self::Pack => Ok(ranks.iter().map(|about| about.rank).collect()),
            Self::Spread => {
                let mut on_host: BTreeMap<&str, usize> = BTreeMap::new();
                let mut turns: Vec<(usize, u32)> = ranks
                    .iter()
                    .map(|about| {
                        let turn = on_host.entry(&about.host).or_default();
                        *turn += 1;
                        (*turn, about.rank)
                    })
                    .collect();
                turns.sort_unstable();
                Ok(turns.into_iter().map(|(_, rank)| rank).collect())
            }
            Self::Ranks(chosen) => there_are(chosen.clone(), ranks.len()),
            Self::Roles(roles) => there_are(roles.values().flatten().copied().collect(), ranks.len()),
        }
    }
}

/// Refuses ranks that there are not.
fn there_are(chosen: Vec<u32>, ranks: usize) -> Result<Vec<u32>, WorldError> {
    match chosen.iter().find(|&&rank| rank as usize >= ranks) {
        Some(&rank) => Err(WorldError::NoSuchRank { rank, ranks }),
        None => Ok(chosen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::recorded::Environment;

    fn ranks(hosts: &[&str]) -> Vec<RankAbout> {
        let about = |(rank, host): (usize, &&str)| RankAbout {
            rank: rank as u32,
            host: (*host).to_owned(),
            kernel: String::new(),
            pid: 1,
            cores: vec![0],
            environment: Environment::default(),
            clock: String::new(),
            clock_offset_ns: 0,
            clock_error_ns: 0,
        };
        hosts.iter().enumerate().map(about).collect()
    }

    fn order(text: &str) -> Result<Vec<u32>, String> {
        let place: Place = text.parse()?;
        place.order(&ranks(&["a", "a", "b", "b"])).map_err(|error| error.to_string())
    }

    #[test]
    fn ranks_are_taken_in_order_machine_by_machine_or_as_listed() {
        assert_eq!(order("pack"), Ok(vec![0, 1, 2, 3]));
        assert_eq!(order("spread"), Ok(vec![0, 2, 1, 3]));
        assert_eq!(order("3, 1"), Ok(vec![3, 1]));
        assert_eq!(order("3,0-2"), Ok(vec![3, 0, 1, 2]));
    }

    #[test]
    fn roles_have_their_ranks_in_the_order_in_which_they_get_processes() {
        assert_eq!(order("clients=0,1/servers=3"), Ok(vec![3, 0, 1]));
        assert_eq!(order("servers=2/clients=2,3"), Ok(vec![2, 2, 3]), "a rank may have two roles");
        for (text, expected) in [
            (
                "server=0",
                "there is no role `server`; choose from servers, clients, daemons, sender, receiver",
            ),
            ("servers=0/servers=1", "`servers=0/servers=1` has servers twice"),
            ("servers=1,1", "`1,1` names rank 1 twice"),
            ("servers=", "`` is none of pack"),
            ("clients=4", "--place: rank 4 is not one of the 4"),
        ] {
            let refused = order(text).expect_err(text);
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        assert_eq!(
            order("0,4").expect_err("four ranks"),
            "--place: rank 4 is not one of the 4 that the launcher started"
        );
        assert_eq!(order("1,1").expect_err("twice"), "`1,1` names rank 1 twice");
        for text in ["near", "2-1", "1-", "0-4000000000", ""] {
            assert!(order(text).expect_err("no rule").contains("pack, spread"), "{text}");
        }
    }
}
