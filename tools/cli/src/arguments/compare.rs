//! The grammar of `farcall compare`.

use core::time::Duration;
use std::path::PathBuf;

use clap::Args;
use farcall_lab::units::Size;

use super::given::Given;
use super::measuring::Rehearsal;
use super::{Output, Recording, Tuning, parse_percent, parse_seconds, whole_number};

/// `farcall compare`.
#[derive(Debug, Args)]
pub struct Compare {
    #[command(flatten)]
    pub given: Given,
    /// Compares with the bare loops that show what this machine can do at best, against the performance
    /// budget
    #[arg(long)]
    pub limit: bool,
    /// Compares with the limits, or with another build, in these rows only, such as echo100,callRate8
    /// [default: all rows]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub rows: Vec<String>,
    /// Compares with programs of others: all, or families such as
    /// ucx,netpipe,oomph,aeron,libfabric,redis,memcached, or single settings such as ucx-sysv [default,
    /// without --limit: all, after the limits]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub peers: Vec<String>,
    /// Compares with another build of this program, instead of with the limits
    #[arg(long, value_name = "PATH", conflicts_with = "limit")]
    pub program: Option<PathBuf>,
    /// Calls it a missed budget when the other build differs by more percent than this, either way [default:
    /// has no budget]
    #[arg(long, value_name = "PERCENT", requires = "program", value_parser = parse_percent)]
    pub within: Option<f64>,
    /// Lengths of messages, and of the objects of stores, that peers are compared at [default:
    /// 8,1K,10K,100K,1M]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// Messages that are in flight in streams, and requests to stores beside single ones
    #[arg(
        long = "in-flight",
        alias = "inflight",
        value_delimiter = ',',
        default_value = "16",
        value_parser = whole_number::<16384>
    )]
    pub inflight: Vec<u64>,
    /// Installs peers that are missing, from the packages of the Debian system; only root can
    #[arg(long)]
    pub install: bool,
    /// Blocks of each row; in a block everything that is compared runs once, in random order
    #[arg(long, default_value = "10", value_parser = whole_number::<1000>)]
    pub blocks: u64,
    /// Seconds that each side of a row runs in a block, beside what a peer takes to start
    #[arg(long, default_value = "0.1", value_parser = parse_seconds, value_name = "SECONDS")]
    pub seconds_per_block: Duration,
    /// Seconds to wait, at most, before each block of the limits until nobody else uses the two cores
    /// [default: does not wait]
    #[arg(long, value_parser = parse_seconds, value_name = "SECONDS")]
    pub patience: Option<Duration>,
    #[command(flatten)]
    pub tuning: Tuning,
    #[command(flatten)]
    pub recording: Recording,
    #[command(flatten)]
    pub rehearsal: Rehearsal,
    #[command(flatten)]
    pub output: Output,
}

impl Compare {
    /// Whether the limits, or another build, are compared with.
    pub fn has_limits(&self) -> bool {
        self.asks_for_limits() || self.peers.is_empty()
    }

    /// Whether peers are compared with.
    pub fn has_peers(&self) -> bool {
        !self.asks_for_limits() || !self.peers.is_empty()
    }

    fn asks_for_limits(&self) -> bool {
        self.limit || self.program.is_some() || !self.rows.is_empty()
    }
}
