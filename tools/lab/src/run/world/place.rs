//! Which rank gets which process of a measurement: servers first, then clients; daemons and nodes in their
//! order.

use std::collections::BTreeMap;

use super::{RankAbout, WorldError};

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
}

impl core::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let list = || text.split(',').map(|rank| rank.trim().parse().ok()).collect::<Option<Vec<u32>>>();
        match text {
            "pack" => Ok(Self::Pack),
            "spread" => Ok(Self::Spread),
            _ => {
                let none = || format!("`{text}` is none of pack, spread and a list of ranks such as 0,2,1");
                let ranks = list().ok_or_else(none)?;
                let twice = ranks.iter().enumerate().find(|(at, rank)| ranks[..*at].contains(rank));
                twice.map_or(Ok(()), |(_, rank)| Err(format!("`{text}` names rank {rank} twice")))?;
                Ok(Self::Ranks(ranks))
            }
        }
    }
}

impl Place {
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
            Self::Ranks(chosen) => match chosen.iter().find(|&&rank| rank as usize >= ranks.len()) {
                Some(&rank) => Err(WorldError::NoSuchRank { rank, ranks: ranks.len() }),
                None => Ok(chosen.clone()),
            },
        }
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
    }

    #[test]
    fn what_is_no_place_is_refused() {
        assert_eq!(
            order("0,4").expect_err("four ranks"),
            "--place: rank 4 is not one of the 4 that the launcher started"
        );
        assert_eq!(order("1,1").expect_err("twice"), "`1,1` names rank 1 twice");
        assert!(order("near").expect_err("no rule").contains("pack, spread"));
    }
}
