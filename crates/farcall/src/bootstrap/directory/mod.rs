//! Where the endpoints of all ranks are.
//!
//! A directory maps a rank and a key, such as `ring+shm#0`, to the address that this rank's endpoint has, and
//! to the incarnation of the process behind it. Asking is rare (once for each peer), so the answers are fresh
//! rather than fast: they come from the rendezvous, and from memory only while that is away.

mod backoff;
mod error;
mod in_process;
mod link;
mod member;
mod state;

use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use farcall_base::Address;
use rustix::system::uname;

pub use self::error::{BarrierError, JoinError, PublishError, ResolveError};

use self::backoff::Backoff;
use self::in_process::InProcess;
use self::link::LinkError;
use self::member::Member;
use self::state::WaitError;
use super::hosts::HostPort;
use super::limits::{NAME_BYTES_MAX, RANKS_MAX};
use super::messages::Join;

/// The directory as one process sees it. Any thread may use it.
pub struct Directory {
    rank: u32,
    size: u32,
    incarnation: u64,
    way: Way,
}

enum Way {
    InProcess(InProcess),
    Member(Member),
}

/// The ranks of a cluster that lives in one process, as threads or as hosts of a simulated fabric.
pub struct LocalRanks {
    size: u32,
    shared: Arc<in_process::Shared>,
}

impl LocalRanks {
    /// A cluster of `size` ranks.
    pub fn new(size: u32) -> Self {
        Self { size, shared: Arc::default() }
    }

    /// The directory of a rank, for one life of it. Dropping it withdraws what it published.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn directory(&self, rank: u32, incarnation: u64) -> Directory {
        assert!(rank < self.size, "ranks are less than {}", self.size);
        let way = Way::InProcess(InProcess::new(&self.shared, rank, self.size, incarnation));
        Directory { rank, size: self.size, incarnation, way }
    }
}

impl Directory {
    /// The directory of a cluster of one.
    pub fn alone(incarnation: u64) -> Self {
        LocalRanks::new(1).directory(0, incarnation)
    }

    /// Joins the cluster of `size` ranks at the rendezvous `address`, as `rank`; tries until `within` is
    /// over.
    ///
    /// Dropping the directory leaves the cluster; what this process published is withdrawn.
    pub fn join(
        address: &HostPort,
        rank: u32,
        size: u32,
        incarnation: u64,
        within: Duration,
    ) -> Result<Self, JoinError> {
        Self::join_with_hosts(address, rank, size, incarnation, 0, within)
    }

    /// As [`Directory::join`], with the fingerprint of this process's host list.
    pub(super) fn join_with_hosts(
        address: &HostPort,
        rank: u32,
        size: u32,
        incarnation: u64,
        hosts_fingerprint: u64,
        within: Duration,
    ) -> Result<Self, JoinError> {
        if !(1..=RANKS_MAX).contains(&size) || rank >= size || incarnation == 0 {
            return Err(JoinError::Identity { rank, size, incarnation });
        }
        let join = Join {
            rank,
            size,
            incarnation,
            hosts_fingerprint,
            process: std::process::id(),
            host: host_name(),
        };
        let stream = reach(address, &join, within)?;
        let member =
            Member::new(stream, join).map_err(|error| JoinError::Resources { reason: error.to_string() })?;
        Ok(Self { rank, size, incarnation, way: Way::Member(member) })
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// This process's incarnation, never 0.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The address of this machine that leads to the rendezvous, and so to the other ranks; loopback when
    /// they are all here.
    pub fn local_ip(&self) -> IpAddr {
        match &self.way {
            Way::InProcess(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Way::Member(member) => member.local().ip(),
        }
    }

    /// Makes an address of this process known under `key`; replaces a former one.
    ///
    /// Does not wait for the others to learn it. While the rendezvous is away, it is told when it is back.
    pub fn publish(&self, key: &str, address: Address) -> Result<(), PublishError> {
        if !is_name(key) {
            return Err(PublishError::KeyLength { bytes: key.len() });
        }
        let published = match &self.way {
            Way::InProcess(ranks) => ranks.publish(key, address),
            Way::Member(member) => member.publish(key, address)?,
        };
        if published { Ok(()) } else { Err(PublishError::TooManyKeys) }
    }

    /// The address that `rank` has published under `key`, and that process's incarnation.
    ///
    /// Waits until it is published. A process that has died is not found any more, and the one that takes its
    /// rank is. While the rendezvous is away, the answer is the last one that this process got, if any.
    pub fn resolve(&self, rank: u32, key: &str, within: Duration) -> Result<(Address, u64), ResolveError> {
        if !is_name(key) {
            return Err(ResolveError::KeyLength { bytes: key.len() });
        }
        if rank >= self.size {
            return Err(ResolveError::NoSuchRank { rank, size: self.size });
        }
        let timed_out = || ResolveError::TimedOut { rank, key: key.to_owned(), within };
        let deadline = deadline_after(within);
        match &self.way {
            Way::InProcess(ranks) => ranks.resolve(rank, key, deadline).ok_or_else(timed_out),
            Way::Member(member) => member.resolve(rank, key, deadline).map_err(|error| match error {
                WaitError::TimedOut { connected: true } => timed_out(),
                WaitError::TimedOut { connected: false } => {
                    ResolveError::Unreachable { rank, key: key.to_owned(), within }
                }
                WaitError::TooMany | WaitError::Occupied => ResolveError::TooManyWaits,
                WaitError::Refused(refusal) => ResolveError::Refused(refusal),
            }),
        }
    }

    /// Returns when every rank has called it with the same name. The name can then be used again.
    pub fn barrier(&self, name: &str, within: Duration) -> Result<(), BarrierError> {
        if !is_name(name) {
            return Err(BarrierError::NameLength { bytes: name.len() });
        }
        let deadline = deadline_after(within);
        let passed = match &self.way {
            Way::InProcess(ranks) => ranks.barrier(name, deadline),
            Way::Member(member) => member.barrier(name, deadline),
        };
        passed.map_err(|error| match error {
            WaitError::TimedOut { .. } => BarrierError::TimedOut { name: name.to_owned(), within },
            WaitError::TooMany => BarrierError::TooManyWaits,
            WaitError::Occupied => BarrierError::Occupied { name: name.to_owned() },
            WaitError::Refused(refusal) => BarrierError::Refused(refusal),
        })
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Directory(rank {} of {}, incarnation {:x})", self.rank, self.size, self.incarnation)
    }
}

/// Tries all addresses of the rendezvous, again and again until the time is over.
fn reach(address: &HostPort, join: &Join, within: Duration) -> Result<TcpStream, JoinError> {
    let deadline = deadline_after(within);
    let mut backoff = Backoff::default();
    loop {
        let reason = match try_addresses(address, join, deadline) {
            Ok(stream) => return Ok(stream),
            Err(LinkError::Refused(refusal)) => return Err(JoinError::Refused(refusal)),
            Err(LinkError::Unreachable(reason)) => reason,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(JoinError::Unreachable { address: address.to_string(), within, reason });
        }
        std::thread::sleep(backoff.next_pause().min(left));
    }
}

fn try_addresses(address: &HostPort, join: &Join, deadline: Instant) -> Result<TcpStream, LinkError> {
    let addresses = address.look_up().map_err(|error| LinkError::Unreachable(error.to_string()))?;
    let mut outcome = Err(LinkError::Unreachable("the host has no address".to_owned()));
    for address in addresses {
        outcome = link::open(address, join, deadline);
        if !matches!(outcome, Err(LinkError::Unreachable(_))) {
            break;
        }
    }
    outcome
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
}

/// A point so far away that a clock can still show it stands for "never".
fn deadline_after(within: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    Instant::now() + within.min(FAR)
}

fn host_name() -> String {
    let name = uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "an unnamed machine".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
