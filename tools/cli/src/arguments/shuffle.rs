//! The grammar of `farcall shuffle`.

use clap::{Args, ValueEnum};
use farcall::TransportKind;
use farcall::bootstrap::RANKS_MAX;
use farcall_lab::run::collective::{Collective, PushPolicy};
use farcall_lab::units::Size;

use super::given::Given;
use super::measuring::{Faults, Rehearsal, Scaling, Tracing, Varying};
use super::ranks::OverRanks;
use super::{Output, Recording, Tuning, whole_number};
use crate::commands::shuffle::PlacementArgument;

/// `farcall shuffle`.
#[derive(Clone, Debug, Args)]
pub struct Shuffle {
    #[command(flatten)]
    pub given: Given,
    /// Numbers of nodes, separated by commas [default: 20; all ranks of a launcher]
    #[arg(long, value_delimiter = ',', value_parser = node_count)]
    pub nodes: Vec<u32>,
    /// Bytes of the message from each node to each other, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1000,4000,8000,16000,32000,40000")]
    pub sizes: Vec<Size>,
    /// How the size is meant
    #[arg(long, default_value = "fixed")]
    pub growth: Growth,
    /// Operations that count, for each number of nodes, size and way to push
    #[arg(long = "count", alias = "ops", default_value = "100", value_parser = whole_number::<1_000_000>)]
    pub ops: u64,
    /// Operations before those, in each launch
    #[arg(long, default_value = "5")]
    pub warmup: u32,
    /// shuffle, broadcast, gather, all-gather, point-to-point, bandwidth or two-way-bandwidth
    #[arg(long, default_value = "shuffle")]
    pub collective: Collective,
    /// Launches of the cluster, each new and with a seed of its own, that the operations are shared among
    #[arg(
        long = "runs",
        alias = "launches",
        default_value = "2",
        value_parser = whole_number::<1000>,
        conflicts_with = "vary"
    )]
    pub launches: u64,
    /// Which message sends its next chunk: deterministic, random or power-of-two; several are compared launch by launch
    #[arg(long, value_delimiter = ',', default_value = "deterministic")]
    pub push: Vec<PushPolicy>,
    /// Chunks of a node that its driver does not have entirely yet
    #[arg(long, default_value = "8", value_parser = whole_number::<1024>)]
    pub max_pending: u64,
    /// Chunks of a node that are not answered yet
    #[arg(long, default_value = "16", value_parser = whole_number::<1024>)]
    pub max_outstanding_chunks: u64,
    /// The longest chunk, in bytes
    #[arg(long, default_value = "40000")]
    pub chunk: Size,
    /// What the nodes are over a real transport
    #[arg(long, default_value = "processes")]
    pub ranks: Ranks,
    /// Transports, separated by commas: simulated ones, or real ones on this machine or at the ranks of a
    /// launcher [default: basic+sim; basic+udp under a launcher]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub transport: Vec<TransportKind>,
    /// A fabric's name or file; its values can be replaced, as in --set fabric.link.gbps=200 [default: ideal]
    #[arg(long, value_name = "PROFILE")]
    pub fabric: Option<String>,
    /// Which node is on which machine: in-order, spread, shuffled:SEED, or a list of machines [default: the profile's]
    #[arg(long)]
    pub placement: Option<PlacementArgument>,
    #[command(flatten)]
    pub scaling: Scaling,
    #[command(flatten)]
    pub faults: Faults,
    #[command(flatten)]
    pub over: OverRanks,
    #[command(flatten)]
    pub tracing: Tracing,
    #[command(flatten)]
    pub varying: Varying,
    #[command(flatten)]
    pub tuning: Tuning,
    #[command(flatten)]
    pub recording: Recording,
    #[command(flatten)]
    pub rehearsal: Rehearsal,
    #[command(flatten)]
    pub output: Output,
}

impl Shuffle {
    /// The same with what depends on where it runs: nodes and transports that the command line leaves open.
    pub fn settled(&self) -> Self {
        let mut settled = self.clone();
        let (nodes, transport) = match self.over.places() {
            Some(places) => (places as u32, TransportKind::BASIC_UDP),
            None => (NODES, TransportKind::BASIC_SIM),
        };
        if settled.nodes.is_empty() {
            settled.nodes = vec![nodes];
        }
        if settled.transport.is_empty() {
            settled.transport = vec![transport];
        }
        settled
    }
}

/// Nodes of a shuffle unless the command line or a launcher says otherwise.
const NODES: u32 = 20;

/// What ranks are on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ranks {
    /// Each a process of its own
    Processes,
    /// Each a thread of this process
    Threads,
}

/// How the sizes of a shuffle are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Growth {
    /// Each message is that long
    Fixed,
    /// Each node sends that much in all, to all others
    Weak,
    /// All nodes together send that much
    Strong,
}

/// How many nodes a cluster has.
fn node_count(text: &str) -> Result<u32, String> {
    whole_number::<{ RANKS_MAX as u64 }>(text).map(|nodes| nodes as u32)
}
