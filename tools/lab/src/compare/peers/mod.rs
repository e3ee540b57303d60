//! Programs of others that do what farcall does, measured beside it on the same cores in the same minute.
//!
//! Each prints its own statistic in its own unit. Here everything becomes the round trip in nanoseconds, of
//! which every peer says what it is: a median, a mean, the least of several means. farcall's figure for a
//! ratio is the one of the same kind. What would not be a fair comparison has a reason in the place of a
//! number.

mod aeron;
mod arm;
mod launch;
mod libfabric;
mod list;
mod netpipe;
mod oomph;
mod outcome;
mod path;
mod rows;
mod store;
mod ucx;

use core::time::Duration;

use farcall::TransportKind;
use farcall_limit::CorePair;

pub use list::PEERS;
pub use outcome::{CellLine, PeerOutcome};
pub use path::Path;
pub use rows::{CellRun, PeerPlan};

/// The values of all objects of a store together are no longer than this, so that every store may keep all of
/// them in memory.
const OBJECTS_BYTES: usize = 256 << 20;

/// What a peer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Servers run on the responder's core, clients on the initiator's.
    pub cores: CorePair,
    /// Length of the message each way, or of the object that is read.
    pub bytes: usize,
    /// Requests or messages in flight at a time; more than one for stores and streams only.
    pub in_flight: usize,
    /// About how long to measure.
    pub lasting: Duration,
}

impl Ask {
    /// How many messages of a stream one way fit: a short one takes tens of nanoseconds, and a long one a
    /// nanosecond for every ten bytes.
    pub(crate) fn stream_messages(&self) -> u64 {
        const FEWEST: f64 = 200.0;
        let each = 60.0 + self.bytes as f64 / 10.0;
        (self.lasting.as_nanos() as f64 / each).max(FEWEST) as u64
    }

    /// How many objects a store is filled with: of long ones no more than fit into [`OBJECTS_BYTES`].
    pub(crate) fn objects(&self) -> usize {
        const FEWEST: usize = 16;
        const MOST: usize = 10_000;
        (OBJECTS_BYTES / self.bytes.max(1)).clamp(FEWEST, MOST)
    }

    /// How many round trips of about this many nanoseconds, and a nanosecond for every eight bytes each way,
    /// fit.
    fn round_trips(&self, nanos: f64) -> u64 {
        const FEWEST: f64 = 100.0;
        let each = nanos + self.bytes as f64 / 4.0;
        (self.lasting.as_nanos() as f64 / each).max(FEWEST) as u64
    }
}

/// What a peer's figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerStatistic {
    /// The median of all round trips.
    P50,
    /// Messages a second over the whole run.
    Rate,
    /// Messages a second over the whole run, of both directions together: each side sends and receives at
    /// once.
    RateBothWays,
    /// Messages a second of the best of several series.
    BestRate,
    /// The mean of all round trips.
    Mean,
    /// The least of the means of several series, so without what disturbed some of them. farcall's
    /// counterpart is the mean without the shortest and longest tenth, which is not the same and not far from
    /// it.
    LeastMean,
}

impl PeerStatistic {
    /// In a few words, with how the figure is printed.
    pub fn words(self) -> &'static str {
        match self {
            Self::P50 => "median",
            Self::Rate => "rate of the whole run",
            Self::RateBothWays => "rate of both directions together",
            Self::BestRate => "best of several rates",
            Self::Mean => "mean",
            Self::LeastMean => "least of several means",
        }
    }
}

/// A peer's own figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PeerFigure {
    /// The round trip in nanoseconds, or with many in flight requests or messages per second.
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

/// Where a peer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Packages of Debian.
    Debian(&'static [&'static str]),
    /// A Python wheel.
    Wheel,
    /// A Java archive, and Java to run it.
    Maven,
    /// A repository of sources that its user builds.
    Sources,
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
    /// What has them.
    pub origin: Origin,
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
    /// farcall over the same library, with the settings by which it takes the same path; `None` where there
    /// is no such transport.
    fn farcall_over_the_same(&self) -> Option<(TransportKind, &'static [&'static str])> {
        match self.name {
            "libfabric-shm" => Some((TransportKind::OFI, &["ofi.provider=shm"])),
            "libfabric-tcp" => Some((TransportKind::OFI, &[])),
            _ => None,
        }
    }

    /// The name that several settings of one program share.
    pub fn family(&self) -> &'static str {
        self.name.split('-').next().unwrap_or(self.name)
    }

    /// The first of what it needs that is not here.
    pub fn missing(&self) -> Option<&'static str> {
        let program = || self.programs.iter().copied().find(|program| !launch::is_here(program));
        match self.origin {
            Origin::Debian(_) | Origin::Sources => program(),
            Origin::Wheel => ucx::wheel().is_none().then_some(WHEEL),
            Origin::Maven => program().or_else(|| aeron::jar().is_none().then_some(JAR)),
        }
    }

    /// The Debian packages that have it.
    pub fn packages(&self) -> &'static [&'static str] {
        match self.origin {
            Origin::Debian(packages) => packages,
            Origin::Wheel | Origin::Maven | Origin::Sources => &[],
        }
    }

    /// What would install it.
    pub fn source(&self) -> String {
        match self.origin {
            Origin::Debian(packages) => format!("--install fetches {}", packages.join(" and ")),
            Origin::Wheel => format!("`pip install --no-deps {WHEEL}` has it for python3"),
            Origin::Maven => format!("`mvn dependency:get -Dartifact={JAR}` has it for Java 11 or later"),
            Origin::Sources => {
                format!("{SOURCES}, built with its benchmarks and their folder on the search path, has it")
            }
        }
    }
}

/// The Python wheel that has a newer UCX than Debian.
const WHEEL: &str = "libucx-cu12";

/// The Java archive that has Aeron with its samples; any version of it will do.
const JAR: &str = "io.aeron:aeron-all:1.44.1";

/// The sources that have oomph with its benchmarks.
const SOURCES: &str = "github.com/ghex-org/oomph";

#[cfg(test)]
mod tests;
