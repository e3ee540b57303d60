//! Programs of others that do what farcall does, measured beside it on the same cores in the same minute.
//!
//! Each prints its own statistic in its own unit. Here everything becomes the round trip in nanoseconds, of which every
//! peer says what it is: a median, a mean, the least of several means. farcall's figure for a ratio is the one of the
//! same kind. What would not be a fair comparison has a reason in the place of a number.

mod launch;
mod libfabric;
mod netpipe;
mod rows;
mod store;
mod ucx;

use core::time::Duration;

use farcall::TransportKind;
use farcall_limit::CorePair;

pub use rows::{CellLine, CellRun, Outcome, PeerPlan};

/// What a peer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Servers run on the responder's core, clients on the initiator's.
    pub cores: CorePair,
    /// Length of the message each way, or of the object that is read.
    pub bytes: usize,
    /// Requests under way at a time; more than one for stores only.
    pub in_flight: usize,
    /// About how long to measure.
    pub lasting: Duration,
}

impl Ask {
    /// How many round trips of about so many nanoseconds, and a nanosecond for every eight bytes each way, fit.
    fn round_trips(&self, nanos: f64) -> u64 {
        const FEWEST: f64 = 100.0;
        let each = nanos + self.bytes as f64 / 4.0;
        (self.lasting.as_nanos() as f64 / each).max(FEWEST) as u64
    }
}

/// What sort of path a peer takes; figures of different sorts are not put beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Path {
    /// Messages through shared memory.
    Memory,
    /// Messages over the loopback interface.
    Loopback,
    /// Reads of a store by a process of the same host.
    LocalStore,
    /// Reads of a store over the loopback interface.
    RemoteStore,
}

/// What a peer's figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerStatistic {
    /// The median of all round trips.
    P50,
    /// The mean of all round trips.
    Mean,
    /// The least of the means of several series, so without what disturbed some of them. farcall's counterpart is the mean
    /// without the shortest and longest tenth, which is not the same and not far from it.
    LeastMean,
}

impl PeerStatistic {
    /// In a few words, with how the figure is printed.
    pub fn words(self) -> &'static str {
        match self {
            Self::P50 => "median",
            Self::Mean => "mean",
            Self::LeastMean => "least of several means",
        }
    }
}

/// A peer's own figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PeerFigure {
    /// The round trip in nanoseconds, or requests per second of a store with many under way.
    pub value: f64,
    /// The step in which it was printed, in the same unit.
    pub step: f64,
}

/// Why there is no figure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The program could not be run at all.
    #[error("{program} cannot be started: {why}")]
    Start {
        /// The program.
        program: String,
        /// The system's own words.
        why: String,
    },
    /// The program ended with an error.
    #[error("{program} failed: {why}")]
    Failed {
        /// The program.
        program: String,
        /// Its last words.
        why: String,
    },
    /// The program printed something else than expected.
    #[error("{program} printed no figure: {printed}")]
    Unreadable {
        /// The program.
        program: &'static str,
        /// What it printed last.
        printed: String,
    },
}

/// A program of others in one of its settings.
#[derive(Clone, Copy)]
pub struct Peer {
    /// A short name, such as `ucx-sysv`; what precedes the first dash names the family.
    pub name: &'static str,
    /// What it is, and how it is set.
    pub description: &'static str,
    /// The programs that must be there.
    pub programs: &'static [&'static str],
    /// The Debian packages that have them.
    pub packages: &'static [&'static str],
    /// Its path.
    pub path: Path,
    /// What its figures are.
    pub statistic: PeerStatistic,
    /// Whether it sleeps while it waits for a single message.
    pub sleeps: bool,
    measure: fn(Ask) -> Result<PeerFigure, PeerError>,
}

impl core::fmt::Debug for Peer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

impl Peer {
    /// farcall over the same library, with the settings by which it takes the same path; `None` where there is no such
    /// transport.
    fn farcall_over_the_same(&self) -> Option<(TransportKind, &'static [&'static str])> {
        match self.name {
            "libfabric-shm" => Some((TransportKind::Ofi, &["ofi.provider=shm"])),
            "libfabric-tcp" => Some((TransportKind::Ofi, &[])),
            _ => None,
        }
    }

    /// The name that several settings of one program share.
    pub fn family(&self) -> &'static str {
        self.name.split('-').next().unwrap_or(self.name)
    }

    /// The first of its programs that is not here.
    pub fn missing(&self) -> Option<&'static str> {
        self.programs.iter().copied().find(|program| !launch::is_here(program))
    }
}

/// The settings in which peers are run.
pub const PEERS: [Peer; 10] = [
    Peer {
        name: "ucx-cma",
        description: "ucx_perftest tag_lat over UCX_TLS=posix,cma,self: long messages are copied by the kernel",
        programs: &["ucx_perftest"],
        packages: &["ucx-utils"],
        path: Path::Memory,
        statistic: PeerStatistic::P50,
        sleeps: false,
        measure: ucx::posix,
    },
    Peer {
        name: "ucx-sysv",
        description: "ucx_perftest tag_lat over UCX_TLS=sysv,self: long messages are copied through shared memory",
        programs: &["ucx_perftest"],
        packages: &["ucx-utils"],
        path: Path::Memory,
        statistic: PeerStatistic::P50,
        sleeps: false,
        measure: ucx::sysv,
    },
    Peer {
        name: "netpipe-openmpi",
        description: "NetPIPE over Open MPI's ob1 and vader",
        programs: &["NPopenmpi", "mpirun.openmpi"],
        packages: &["netpipe-openmpi", "openmpi-bin"],
        path: Path::Memory,
        statistic: PeerStatistic::LeastMean,
        sleeps: false,
        measure: netpipe::open_mpi,
    },
    Peer {
        name: "netpipe-mpich",
        description: "NetPIPE over MPICH",
        programs: &["NPmpich2", "mpirun.mpich"],
        packages: &["netpipe-mpich2", "mpich"],
        path: Path::Memory,
        statistic: PeerStatistic::LeastMean,
        sleeps: false,
        measure: netpipe::mpich,
    },
    Peer {
        name: "libfabric-shm",
        description: "fi_pingpong over the provider shm",
        programs: &["fi_pingpong"],
        packages: &["libfabric-bin"],
        path: Path::Memory,
        statistic: PeerStatistic::Mean,
        sleeps: false,
        measure: libfabric::shm,
    },
    Peer {
        name: "ucx-tcp",
        description: "ucx_perftest tag_lat over UCX_TLS=tcp,self",
        programs: &["ucx_perftest"],
        packages: &["ucx-utils"],
        path: Path::Loopback,
        statistic: PeerStatistic::P50,
        sleeps: false,
        measure: ucx::tcp,
    },
    Peer {
        name: "libfabric-tcp",
        description: "fi_pingpong over the provider tcp",
        programs: &["fi_pingpong"],
        packages: &["libfabric-bin"],
        path: Path::Loopback,
        statistic: PeerStatistic::Mean,
        sleeps: true,
        measure: libfabric::tcp,
    },
    Peer {
        name: "redis-unix",
        description: "redis-server, GET over a Unix socket by a client that polls",
        programs: &["redis-server"],
        packages: &["redis-server"],
        path: Path::LocalStore,
        statistic: PeerStatistic::P50,
        sleeps: true,
        measure: store::redis_unix,
    },
    Peer {
        name: "redis-tcp",
        description: "redis-server, GET over TCP by a client that polls",
        programs: &["redis-server"],
        packages: &["redis-server"],
        path: Path::RemoteStore,
        statistic: PeerStatistic::P50,
        sleeps: true,
        measure: store::redis_tcp,
    },
    Peer {
        name: "memcached-tcp",
        description: "memcached with one thread, get over TCP by a client that polls",
        programs: &["memcached"],
        packages: &["memcached"],
        path: Path::RemoteStore,
        statistic: PeerStatistic::P50,
        sleeps: true,
        measure: store::memcached_tcp,
    },
];

#[cfg(test)]
mod tests;
