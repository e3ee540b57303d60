//! What a process knows of the others: the endpoints of all ranks, and the servers under each name.
//!
//! A directory maps a rank and a key, such as `ring+shm#0`, to the address that this rank's endpoint has, and
//! to the incarnation of the process behind it. Asking is rare (once for each peer), so the answers are fresh
//! rather than fast: they come from the registry, and from memory only while that is away. Names are watched:
//! the registry reports every change.

mod backoff;
mod error;
mod in_process;
mod link;
mod member;
mod state;
mod thread;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use farcall_base::{Address, NO_RANK, explained};

pub use self::error::{BarrierError, JoinError, MissingRanks, PublishError, ResolveError};

use self::in_process::InProcess;
use self::link::Opened;
use self::member::{Local, Member, Watching};
use self::state::WaitError;
use super::hosts::HostPort;
use super::incarnation::{host_name, machine_number};
use super::limits::{NAME_BYTES_MAX, RANKS_MAX, VALUE_BYTES_MAX};
use super::listing::Listing;
use super::messages::{Join, Place};
use super::refusal::Refusal;
use super::secret::Secret;

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
    /// To no registry: names come from elsewhere.
    Nowhere,
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
        let join = join_as(Place::Rank { rank, size, hosts_fingerprint }, incarnation);
        let opened = link::reach(address, &join, within)?;
        Self::of_member(address, Some(opened), join)
    }

    /// Joins the registry at `address` without a rank; tries until `within` is over.
    pub fn open(address: &HostPort, incarnation: u64, within: Duration) -> Result<Self, JoinError> {
        let join = join_as(Place::Open, incarnation);
        let opened = link::reach(address, &join, within)?;
        Self::of_member(address, Some(opened), join)
    }

    /// As [`Directory::open`], in the background: until the registry answers, nothing is known.
    pub fn open_later(address: &HostPort, incarnation: u64) -> Result<Self, JoinError> {
        Self::of_member(address, None, join_as(Place::Open, incarnation))
    }

    /// The directory of a process without a rank that has joined nothing.
    pub fn nowhere(incarnation: u64) -> Self {
        Self { rank: NO_RANK, size: 0, incarnation, way: Way::Nowhere }
    }

    fn of_member(address: &HostPort, opened: Option<Opened>, join: Join) -> Result<Self, JoinError> {
        let (rank, size) = match join.place {
            Place::Rank { rank, size, .. } => (rank, size),
            Place::Open => (NO_RANK, 0),
        };
        let incarnation = join.incarnation;
        let member = Member::new(address.clone(), opened, join)
            .map_err(|error| JoinError::Resources { reason: explained(&error) })?;
        Ok(Self { rank, size, incarnation, way: Way::Member(member) })
    }

    /// This process's rank; `u32::MAX` without one.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks; 0 without a world.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// This process's incarnation, never 0.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The address of this machine that leads to the registry, and so to the other processes: loopback when
    /// they are all here. `None` when it is not known: the registry was not joined yet, or it is on this
    /// machine and reached by others too.
    pub fn local_ip(&self) -> Option<IpAddr> {
        match &self.way {
            Way::InProcess(_) => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Way::Nowhere => None,
            Way::Member(member) => {
                let Local { address, beyond_machine } = member.local()?;
                (!beyond_machine || !address.ip().is_loopback()).then_some(address.ip())
            }
        }
    }

    /// Makes an address of this process known under `key`; replaces a former one.
    ///
    /// Does not wait for the others to learn it. While the registry is away, it is told when it is back. Of a
    /// process without a rank nothing is published: others find its endpoints by name.
    pub fn publish(&self, key: &str, address: Address) -> Result<(), PublishError> {
        if !is_name(key) {
            return Err(PublishError::KeyLength { bytes: key.len() });
        }
        if self.rank == NO_RANK {
            return Ok(());
        }
        let published = match &self.way {
            Way::InProcess(ranks) => ranks.publish(key, address),
            Way::Nowhere => true,
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
            Way::Nowhere => Err(ResolveError::NoSuchRank { rank, size: self.size }),
            Way::Member(member) => member.resolve(rank, key, deadline).map_err(|error| match error {
                WaitError::TimedOut { connected: true } => timed_out(),
                WaitError::TimedOut { connected: false } => {
                    ResolveError::Unreachable { rank, key: key.to_owned(), within }
                }
                WaitError::TooMany | WaitError::Occupied => ResolveError::TooManyWaits,
                WaitError::Missing(_) => unreachable!("nobody waits for ranks here"),
                WaitError::Full => ResolveError::RegistryFull,
                WaitError::Refused(refusal) => ResolveError::Refused(refusal),
            }),
        }
    }

    /// Returns when every rank has called it with the same name. The name can then be used again.
    pub fn barrier(&self, name: &str, within: Duration) -> Result<(), BarrierError> {
        if !is_name(name) {
            return Err(BarrierError::NameLength { bytes: name.len() });
        }
        if self.rank == NO_RANK {
            return Err(BarrierError::NoWorld);
        }
        let deadline = deadline_after(within);
        let passed = match &self.way {
            Way::InProcess(ranks) => ranks.barrier(name, deadline),
            Way::Nowhere => return Err(BarrierError::NoWorld),
            Way::Member(member) => member.barrier(name, deadline),
        };
        passed.map_err(|error| match error {
            WaitError::TimedOut { .. } => {
                let missing = MissingRanks::default();
                BarrierError::TimedOut { name: name.to_owned(), within, missing }
            }
            WaitError::Missing(missing) => BarrierError::TimedOut { name: name.to_owned(), within, missing },
            WaitError::TooMany => BarrierError::TooManyWaits,
            WaitError::Occupied => BarrierError::Occupied { name: name.to_owned() },
            WaitError::Full => BarrierError::RegistryFull,
            WaitError::Refused(refusal) => BarrierError::Refused(refusal),
        })
    }

    /// Lets an endpoint of this process listen under `name`, until it is withdrawn, or for `lease` after this
    /// process was heard of last. While the registry is away, it is told when it is back.
    pub(crate) fn register(
        &self,
        name: &str,
        key: &str,
        address: Address,
        lease: Duration,
    ) -> Result<(), PublishError> {
        for text in [name, key] {
            if !is_name(text) {
                return Err(PublishError::KeyLength { bytes: text.len() });
            }
        }
        let registered = match &self.way {
            Way::InProcess(ranks) => ranks.register(name, key, address),
            Way::Nowhere => return Err(PublishError::NoRegistry),
            Way::Member(member) => member.register(name, key, address, lease)?,
        };
        if registered { Ok(()) } else { Err(PublishError::TooManyKeys) }
    }

    /// Ends what [`Directory::register`] began.
    pub(crate) fn withdraw(&self, name: &str, key: &str) {
        match &self.way {
            Way::InProcess(ranks) => ranks.withdraw(name, key),
            Way::Nowhere => {}
            Way::Member(member) => member.withdraw(name, key),
        }
    }

    /// Watches the servers of a name; does not wait.
    pub(crate) fn watch(&self, name: &str) -> Result<NameWatch, ResolveError> {
        if !is_name(name) {
            return Err(ResolveError::KeyLength { bytes: name.len() });
        }
        match &self.way {
            Way::InProcess(ranks) => Ok(NameWatch::Shared(ranks.watch(name))),
            Way::Nowhere => Ok(NameWatch::Shared(Listing::fixed(Vec::new()))),
            Way::Member(member) => member.watch(name).map(NameWatch::Own).ok_or(ResolveError::TooManyWaits),
        }
    }

    /// Sets the register `key` to `value` if its revision is `expected`, 0 for one that does not exist:
    /// whether it was set, and the revision and value that it has now. Registers live as long as their
    /// registry.
    ///
    /// After a lost connection the attempt is repeated, so that the value that another one seems to have set
    /// may be this one's: let values differ.
    pub(crate) fn compare_and_set(
        &self,
        key: &str,
        expected: u64,
        value: &[u8],
        within: Duration,
    ) -> Result<(bool, u64, Vec<u8>), CompareError> {
        if !is_name(key) || value.len() > VALUE_BYTES_MAX {
            return Err(CompareError::TooLong);
        }
        match &self.way {
            Way::InProcess(ranks) => Ok(ranks.compare_and_set(key, expected, value)),
            Way::Nowhere => Err(CompareError::NoRegistry),
            Way::Member(member) => member
                .compare_and_set(key, expected, value, deadline_after(within))
                .map_err(|error| match error {
                    WaitError::TimedOut { .. } => CompareError::Unreachable { within },
                    WaitError::TooMany | WaitError::Occupied => CompareError::TooManyWaits,
                    WaitError::Missing(_) => unreachable!("nobody waits for ranks here"),
                    WaitError::Full => CompareError::Refused(Refusal::Full),
                    WaitError::Refused(refusal) => CompareError::Refused(refusal),
                }),
        }
    }
}

/// The servers of a name, kept up to date until this is dropped.
pub(crate) enum NameWatch {
    /// Of a process that has joined a registry.
    Own(Watching),
    /// Of ranks in one process, and of names that are written down.
    Shared(Arc<Listing>),
}

impl NameWatch {
    /// What is known now.
    pub(crate) fn listing(&self) -> &Listing {
        match self {
            Self::Own(watching) => watching.listing(),
            Self::Shared(listing) => listing,
        }
    }
}

/// Why a register was not compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// Not a possible key or value.
    #[error(
        "a key has 1 to {NAME_BYTES_MAX} bytes and a value at most {VALUE_BYTES_MAX}; choose shorter ones"
    )]
    TooLong,
    /// There are no registers here.
    #[error("names that are written down have no registers; name a registry in FARCALL_NAMES")]
    NoRegistry,
    /// The registry did not answer.
    #[error("the registry did not answer within {within:?}; start it again")]
    Unreachable {
        /// The time limit.
        within: Duration,
    },
    /// Too many threads of this process wait.
    #[error("too many threads of this process wait for the registry; let some finish first")]
    TooManyWaits,
    /// The registry refused this process, or has no room for the register.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The registry cannot be asked.
    #[error(transparent)]
    Join(#[from] JoinError),
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Directory(rank {} of {}, incarnation {:x})", self.rank, self.size, self.incarnation)
    }
}

fn join_as(place: Place, incarnation: u64) -> Join {
    let (secret, machine, host) = (Secret::random(), machine_number(), host_name());
    Join { place, incarnation, secret, machine, process: std::process::id(), host }
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
}

/// A point so far away that a clock can still show it stands for "never".
fn deadline_after(within: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    Instant::now() + within.min(FAR)
}

#[cfg(test)]
mod tests;
