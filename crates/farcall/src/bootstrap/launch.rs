//! How this process was started, read once from its environment.

use std::ffi::OsString;

use super::RANKS_MAX;
use super::hosts::{HostList, HostPort};
use super::variables::{
    EXTERNAL_VARIABLE, HOSTS_VARIABLE, RANK_VARIABLE, RENDEZVOUS_VARIABLE, SIZE_VARIABLE, read,
};

/// The ways to start a process of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// Rank 0 of 1: nothing said otherwise.
    Alone,
    /// One rendezvous address, known to all.
    Rendezvous {
        /// This process's rank, less than `size`.
        rank: u32,
        /// The number of ranks.
        size: u32,
        /// Where the rendezvous is.
        address: HostPort,
        /// Whether this process serves the rendezvous itself.
        serves: bool,
    },
    /// A list of hosts, the same for all; rank 0 serves the rendezvous at its entry.
    Hosts {
        /// This process's rank, an index of the list.
        rank: u32,
        /// The list.
        hosts: HostList,
    },
}

/// Why the environment does not say how to start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// A variable's value is unusable.
    #[error("{variable}=`{text}` is not {expected}; correct or unset it")]
    Invalid {
        /// The variable.
        variable: &'static str,
        /// Its value.
        text: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A variable that another one requires is not set.
    #[error("{present} is set but {missing} is not; set both or neither")]
    Missing {
        /// The variable that is set.
        present: &'static str,
        /// The variable or variables to set with it.
        missing: &'static str,
    },
    /// Two ways to start at once.
    #[error("FARCALL_HOSTS and FARCALL_RENDEZVOUS are both set; unset one of them")]
    Ambiguous,
    /// The rank is not one of the cluster's.
    #[error("FARCALL_RANK={rank} is not less than the number of ranks, {size}; ranks count from 0")]
    RankTooLarge {
        /// The rank given.
        rank: u32,
        /// The number of ranks.
        size: u32,
    },
    /// The size is not the length of the host list.
    #[error("FARCALL_SIZE={size} differs from the {hosts} entries of FARCALL_HOSTS; unset FARCALL_SIZE")]
    SizeDiffers {
        /// The size given.
        size: u32,
        /// The length of the list.
        hosts: u32,
    },
}

impl Launch {
    /// The way that this process's environment gives.
    pub fn from_env() -> Result<Self, LaunchError> {
        Self::from_lookup(|variable| std::env::var_os(variable))
    }

    /// The way that the variables in `lookup` give.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, LaunchError> {
        let hosts = read(
            &lookup,
            HOSTS_VARIABLE,
            "a list host:port,host:port,… of at most 16384 hosts",
            parse_hosts,
        )?;
        let address = read(&lookup, RENDEZVOUS_VARIABLE, "a host:port", HostPort::parse)?;
        let rank = read(&lookup, RANK_VARIABLE, "a rank such as 0", |text| text.parse().ok())?;
        let size = read(&lookup, SIZE_VARIABLE, "a number of ranks from 1 to 16384", parse_size)?;
        match (hosts, address) {
            (Some(_), Some(_)) => Err(LaunchError::Ambiguous),
            (Some(hosts), None) => with_hosts(hosts, rank, size),
            (None, Some(address)) => {
                let external = read(&lookup, EXTERNAL_VARIABLE, "0 or 1", parse_flag)?.unwrap_or(false);
                with_rendezvous(address, rank, size, external)
            }
            (None, None) if rank.is_some() => {
                Err(missing(RANK_VARIABLE, "FARCALL_RENDEZVOUS or FARCALL_HOSTS"))
            }
            (None, None) if size.is_some() => Err(missing(SIZE_VARIABLE, "FARCALL_RENDEZVOUS")),
            (None, None) => Ok(Self::Alone),
        }
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        match self {
            Self::Alone => 0,
            Self::Rendezvous { rank, .. } | Self::Hosts { rank, .. } => *rank,
        }
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        match self {
            Self::Alone => 1,
            Self::Rendezvous { size, .. } => *size,
            Self::Hosts { hosts, .. } => hosts.size() as u32,
        }
    }
}

fn with_hosts(hosts: HostList, rank: Option<u32>, given_size: Option<u32>) -> Result<Launch, LaunchError> {
    let rank = rank.ok_or_else(|| missing(HOSTS_VARIABLE, RANK_VARIABLE))?;
    let size = hosts.size() as u32;
    match given_size {
        Some(given) if given != size => Err(LaunchError::SizeDiffers { size: given, hosts: size }),
        _ if rank >= size => Err(LaunchError::RankTooLarge { rank, size }),
        _ => Ok(Launch::Hosts { rank, hosts }),
    }
}

fn with_rendezvous(
    address: HostPort,
    rank: Option<u32>,
    size: Option<u32>,
    external: bool,
) -> Result<Launch, LaunchError> {
    let rank = rank.ok_or_else(|| missing(RENDEZVOUS_VARIABLE, RANK_VARIABLE))?;
    let size = size.ok_or_else(|| missing(RENDEZVOUS_VARIABLE, SIZE_VARIABLE))?;
    if rank >= size {
        return Err(LaunchError::RankTooLarge { rank, size });
    }
    Ok(Launch::Rendezvous { rank, size, address, serves: rank == 0 && !external })
}

fn missing(present: &'static str, missing: &'static str) -> LaunchError {
    LaunchError::Missing { present, missing }
}

fn parse_size(text: &str) -> Option<u32> {
    text.parse().ok().filter(|size| (1..=RANKS_MAX).contains(size))
}

fn parse_hosts(text: &str) -> Option<HostList> {
    HostList::parse(text).ok().filter(|hosts| hosts.size() <= RANKS_MAX as usize)
}

fn parse_flag(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(variables: &[(&str, &str)]) -> Result<Launch, LaunchError> {
        Launch::from_lookup(|wanted| find(variables, wanted))
    }

    fn find(variables: &[(&str, &str)], wanted: &str) -> Option<OsString> {
        variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.into())
    }

    fn refusal(variables: &[(&str, &str)]) -> String {
        launch(variables).expect_err("the variables are wrong").to_string()
    }

    #[test]
    fn nothing_set_is_alone() {
        let alone = launch(&[]).expect("nothing is wrong");
        assert_eq!((alone.rank(), alone.size(), &alone), (0, 1, &Launch::Alone));
    }

    #[test]
    fn rank_0_serves_the_rendezvous_unless_it_is_external() {
        let variables = |rank, external| {
            [
                (RENDEZVOUS_VARIABLE, "a:1"),
                (RANK_VARIABLE, rank),
                (SIZE_VARIABLE, "3"),
                (EXTERNAL_VARIABLE, external),
            ]
        };
        for (rank, external, expected) in [("0", "0", true), ("0", "1", false), ("2", "0", false)] {
            let parsed = launch(&variables(rank, external)).expect("nothing is wrong");
            assert!(matches!(parsed, Launch::Rendezvous { size: 3, serves, .. } if serves == expected));
        }
    }

    #[test]
    fn a_host_list_gives_the_size() {
        let parsed = launch(&[(HOSTS_VARIABLE, "a:1,b:2"), (RANK_VARIABLE, "1")]).expect("nothing is wrong");
        assert_eq!((parsed.rank(), parsed.size()), (1, 2));
        let variables = [(HOSTS_VARIABLE, "a:1,b:2"), (RANK_VARIABLE, "1"), (SIZE_VARIABLE, "3")];
        assert_eq!(launch(&variables), Err(LaunchError::SizeDiffers { size: 3, hosts: 2 }));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let complete = (RENDEZVOUS_VARIABLE, "a:1");
        let cases: [(&[(&str, &str)], &str); 8] = [
            (&[(RENDEZVOUS_VARIABLE, "a")], "FARCALL_RENDEZVOUS=`a` is not a host:port; correct or unset it"),
            (&[complete], "FARCALL_RENDEZVOUS is set but FARCALL_RANK is not; set both or neither"),
            (
                &[complete, (RANK_VARIABLE, "0")],
                "FARCALL_RENDEZVOUS is set but FARCALL_SIZE is not; set both or neither",
            ),
            (&[(RANK_VARIABLE, "-1")], "FARCALL_RANK=`-1` is not a rank such as 0; correct or unset it"),
            (
                &[(RANK_VARIABLE, "0")],
                "FARCALL_RANK is set but FARCALL_RENDEZVOUS or FARCALL_HOSTS is not; set both or neither",
            ),
            (
                &[(SIZE_VARIABLE, "2")],
                "FARCALL_SIZE is set but FARCALL_RENDEZVOUS is not; set both or neither",
            ),
            (
                &[(SIZE_VARIABLE, "0")],
                "FARCALL_SIZE=`0` is not a number of ranks from 1 to 16384; correct or unset it",
            ),
            (
                &[complete, (RANK_VARIABLE, "2"), (SIZE_VARIABLE, "2")],
                "FARCALL_RANK=2 is not less than the number of ranks, 2; ranks count from 0",
            ),
        ];
        for (variables, expected) in cases {
            assert_eq!(refusal(variables), expected);
        }
        assert_eq!(launch(&[complete, (HOSTS_VARIABLE, "a:1")]), Err(LaunchError::Ambiguous));
        assert!(refusal(&[(HOSTS_VARIABLE, "a:1,b")]).starts_with("FARCALL_HOSTS=`a:1,b` is not a list"));
        assert!(
            refusal(&[complete, (RANK_VARIABLE, "0"), (SIZE_VARIABLE, "1"), (EXTERNAL_VARIABLE, "yes")])
                .starts_with("FARCALL_RENDEZVOUS_EXTERNAL=`yes` is not 0 or 1")
        );
    }
}
