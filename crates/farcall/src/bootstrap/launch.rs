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
    /// This process is one of several, and nothing says where they meet.
    #[error(
        "{size}={processes}: a launcher that speaks neither PMIx nor PMI 1 started this process; {better}set \
         FARCALL_RENDEZVOUS and FARCALL_SIZE={processes}, and in each process FARCALL_RANK=${rank}, or unset {size}"
    )]
    NotSpokenTo {
        /// The launcher's variable with the number of processes.
        size: &'static str,
        /// How many there are.
        processes: u32,
        /// The launcher's variable with the number of this one.
        rank: &'static str,
        /// How the launcher is made to speak; empty where it is not.
        better: &'static str,
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
mod tests;
