//! The grammar of the command line. Text becomes typed values here and nowhere else.

pub mod benchkv;
pub mod compare;
pub mod kv;
mod msgrate;
pub mod runs;
pub mod tracing;
mod tune;
pub mod vary;

use core::time::Duration;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use farcall::TransportKind;
use farcall::bootstrap::RANKS_MAX;
use farcall::parameters::Settings;
use farcall::parameters::quantity::parse_duration;
use farcall_lab::collective::{Collective, Push};
use farcall_lab::exchange::Buffers;
use farcall_lab::units::Size;
use farcall_lab::workload::{Reply, SizeMix};

use crate::commands::shuffle::PlacementArgument;
use crate::failure::Failure;
use crate::output::Destination;
use benchkv::BenchKvArguments;
use compare::Compare;
use kv::Kv;
pub use msgrate::Msgrate;
use runs::{Audit, Diff, Explain, ReportArguments, Top};
use tracing::Tracing;
pub use tune::{
    ImportSource, Landscape as TuneLandscape, Merging as TuneMerging, Strategy as TuneStrategy, Tune,
    TuneAction,
};
use vary::Varying;

/// Calls between the processes of a cluster in about a microsecond, and where every nanosecond went.
#[derive(Debug, Parser)]
#[command(name = "farcall", version, about, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measures calls between processes of this machine, beside what the machine can do at best
    Perf(Perf),
    /// Measures all-to-all shuffles and other collective operations, on simulated fabrics and on this machine
    Shuffle(Shuffle),
    /// Measures tagged messages from one process to another
    Msgrate(Msgrate),
    /// Runs simulations that look for faults of farcall itself
    #[command(subcommand)]
    Sim(Sim),
    /// Compares farcall with the limit of this machine and with programs of others, interleaved in one run
    Compare(Compare),
    /// Checks figures that somebody published or recorded: what cannot be true, what limits, and what would tell
    Audit(Audit),
    /// Explains runs that were recorded: the laws of `audit` on our own figures
    Explain(Explain),
    /// Makes one page of recorded runs that needs nothing else: findings, tables, curves and the machine
    Report(ReportArguments),
    /// Tells two recorded runs apart: the machine and parameters first, then every figure
    Diff(Diff),
    /// Lists the transports of this program and the RDMA devices of this machine, and with --parameters everything that can be tuned
    Info(Info),
    /// Prints the counters of a running process
    Stat(Stat),
    /// Shows what running processes do: rates, calls in flight, the use of their poll loops, and stalls
    Top(Top),
    /// Measures a store of polling daemons and clients on shared-memory slots
    Benchkv(Box<BenchKvArguments>),
    /// Serves a key-value store, or uses one
    Kv(Kv),
    /// Finds the settings of a program that cannot be told apart from the best
    Tune(Tune),
}

/// `farcall perf`.
#[derive(Clone, Debug, Args)]
pub struct Perf {
    /// Tests to run [default: echo]
    #[arg(value_name = "TEST")]
    pub tests: Vec<PerfTest>,
    /// Transports, separated by commas [default: all that this program has]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub transport: Vec<TransportKind>,
    /// Lengths of responses or objects, separated by commas [default: 100,1K,10K,100K,1M for echo and basic, else 100]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// Calls of each client, for each transport and size [default: 10000; 1000 on a simulated fabric]
    #[arg(long, value_parser = whole_number::<{ u64::MAX }>)]
    pub count: Option<u64>,
    /// Seconds (of simulated time on a simulated fabric) after which a transport and size are done, however many calls were made
    #[arg(long, default_value = "1.5", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// The fewest calls before measuring begins; it begins once latencies are steady
    #[arg(long, default_value = "0", value_name = "CALLS")]
    pub warmup: u64,
    /// Calls that each client keeps under way
    #[arg(long, default_value = "1", value_parser = whole_number::<4096>)]
    pub concurrent_ops: u64,
    /// Processes that call [default: 1]
    #[arg(long, value_parser = whole_number::<256>)]
    pub clients: Option<u64>,
    /// Processes that answer; clients call them in turn [default: 1]
    #[arg(long, value_parser = whole_number::<256>)]
    pub servers: Option<u64>,
    /// Objects in the store [default: as many as have 200 MB]
    #[arg(long, value_parser = whole_number::<{ u32::MAX as u64 }>)]
    pub objects: Option<u64>,
    /// How long the handler of echo works on each request, such as 500ns
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = handler_time)]
    pub handler: Duration,
    /// How payloads of echo are made and looked at
    #[arg(long, default_value = "copied")]
    pub buffers: BuffersArgument,
    /// Lengths of the messages of echoWorkload: W1, W2, W3, W4, W5, or a file
    #[arg(long, default_value = "W4", value_name = "NAME|FILE")]
    pub workload: SizeMix,
    /// Parts of the links' rate that the messages of echoWorkload are to fill, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "0.8", value_parser = parse_load)]
    pub load: Vec<f64>,
    /// What comes back for a message of echoWorkload
    #[arg(long, default_value = "ack")]
    pub reply: ReplyArgument,
    /// Ranks of echoWorkload that send to all others, instead of clients and servers [default: 16 on a simulated fabric]
    #[arg(long, value_parser = whole_number::<4096>, conflicts_with_all = ["clients", "servers"])]
    pub nodes: Option<u64>,
    /// Rate of the links that the load of echoWorkload is a part of, except on a simulated fabric
    #[arg(long, value_parser = whole_number::<1600>)]
    pub link_gbps: Option<u64>,
    /// The fabric that +sim transports run on; --set fabric.SECTION.FIELD=VALUE changes it [default: ideal]
    #[arg(long, value_name = "NAME|FILE")]
    pub fabric: Option<String>,
    #[command(flatten)]
    pub tracing: Tracing,
    #[command(flatten)]
    pub varying: Varying,
    #[command(flatten)]
    pub tuning: Tuning,
    #[command(flatten)]
    pub recording: Recording,
    #[command(flatten)]
    pub output: Output,
}

/// `farcall shuffle`.
#[derive(Clone, Debug, Args)]
pub struct Shuffle {
    /// Numbers of nodes, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "20", value_parser = node_count)]
    pub nodes: Vec<u32>,
    /// Bytes of the message from each node to each other, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1000,4000,8000,16000,32000,40000")]
    pub sizes: Vec<Size>,
    /// How the size is meant
    #[arg(long, default_value = "fixed")]
    pub growth: Growth,
    /// Operations that count, for each number of nodes, size and way to push
    #[arg(long, default_value = "100", value_parser = whole_number::<1_000_000>)]
    pub ops: u64,
    /// Operations before those, in each launch
    #[arg(long, default_value = "5")]
    pub warmup: u32,
    /// shuffle, broadcast, gather, all-gather, point-to-point, bandwidth or two-way-bandwidth
    #[arg(long, default_value = "shuffle")]
    pub collective: Collective,
    /// Launches of the cluster, each new and with a seed of its own, that the operations are shared among
    #[arg(long, default_value = "2", value_parser = whole_number::<1000>)]
    pub launches: u64,
    /// Which message sends its next chunk: deterministic, random or power-of-two; several are compared launch by launch
    #[arg(long, value_delimiter = ',', default_value = "deterministic")]
    pub push: Vec<Push>,
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
    /// Transports, separated by commas: simulated ones, or real ones on this machine
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "basic+sim")]
    pub transport: Vec<TransportKind>,
    /// A fabric's name or file; its values can be replaced, as in --set fabric.link.gbps=200 [default: ideal]
    #[arg(long, value_name = "PROFILE")]
    pub fabric: Option<String>,
    /// Which node is on which machine: in-order, spread, shuffled:SEED, or a list of machines [default: the profile's]
    #[arg(long)]
    pub placement: Option<PlacementArgument>,
    #[command(flatten)]
    pub tracing: Tracing,
    #[command(flatten)]
    pub varying: Varying,
    #[command(flatten)]
    pub tuning: Tuning,
    #[command(flatten)]
    pub recording: Recording,
    #[command(flatten)]
    pub output: Output,
}

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

/// `farcall sim`.
#[derive(Debug, Subcommand)]
pub enum Sim {
    /// Runs random clusters under random faults, and checks the rules that must hold whatever happens
    Swarm(Swarm),
}

/// `farcall sim swarm`.
#[derive(Debug, Args)]
pub struct Swarm {
    /// How many seeds; a single one is described before it runs
    #[arg(long, default_value = "200", value_parser = whole_number::<{ u32::MAX as u64 }>)]
    pub seeds: u64,
    /// The first of them
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Transports that each seed runs over, separated by commas [default: all simulated ones]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub transport: Vec<TransportKind>,
    #[command(flatten)]
    pub output: Output,
}

/// `farcall info`.
#[derive(Debug, Args)]
pub struct Info {
    /// Lists every parameter with its value here, range, scope and environment variable
    #[arg(long)]
    pub parameters: bool,
    /// Sets a parameter, so that the listing shows it
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Writes one JSON object for each line to a file, or to standard output with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `farcall stat`.
#[derive(Debug, Args)]
pub struct Stat {
    /// The process, by its number
    #[arg(value_name = "PID", value_parser = whole_number::<{ i32::MAX as u64 }>)]
    pub process: u64,
    /// Writes one JSON object for each counter to a file, or to standard output with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// What changes how farcall runs.
#[derive(Clone, Debug, Args)]
pub struct Tuning {
    /// Sets a parameter; can be repeated [measured processes spin unless endpoint.idle is set]
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Decides every random choice
    #[arg(long, default_value = "1")]
    pub seed: u64,
}

/// Where a whole run goes.
#[derive(Clone, Debug, Args)]
pub struct Recording {
    /// Keeps the run in a new folder: what was asked, the machine, and every figure; see `farcall explain`
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
}

/// Where results go.
#[derive(Clone, Debug, Args)]
pub struct Output {
    /// Writes one JSON object for each figure to a file, or to standard output (instead of tables) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
    /// Prints no progress
    #[arg(long)]
    pub quiet: bool,
}

/// The tests of `perf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PerfTest {
    /// A 30-byte request, a response of each size
    Echo,
    /// Messages of many lengths, sent when they are due: slowdown under load
    #[value(name = "echoWorkload")]
    EchoWorkload,
    /// Reads and overwrites of random objects of a key-value store, one size after the other
    Basic,
    /// The distribution of the latencies of reads
    #[value(name = "readDist")]
    ReadDist,
    /// The distribution of the latencies of overwrites
    #[value(name = "writeDist")]
    WriteDist,
    /// Reads per second of 1, 2, 4 … clients, up to --clients
    #[value(name = "readThroughput")]
    ReadThroughput,
    /// Overwrites per second of 1, 2, 4 … clients, up to --clients
    #[value(name = "writeThroughput")]
    WriteThroughput,
    /// Reads of 1, 2, 5 … 100 objects by one call
    #[value(name = "multiRead")]
    MultiRead,
}

/// How payloads are made and looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BuffersArgument {
    /// Sent from the sender's own memory and copied out by the receiver
    Copied,
    /// Sent from the sender's own memory and read where they arrive
    Read,
    /// Loaned responses, which neither side touches
    Loaned,
}

/// What comes back for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReplyArgument {
    /// 8 bytes: nearly the time of one message on its way
    Ack,
    /// The message itself, as in clusterperf
    Echo,
}

impl From<ReplyArgument> for Reply {
    fn from(reply: ReplyArgument) -> Self {
        match reply {
            ReplyArgument::Ack => Self::Ack,
            ReplyArgument::Echo => Self::Echo,
        }
    }
}

impl From<BuffersArgument> for Buffers {
    fn from(buffers: BuffersArgument) -> Self {
        match buffers {
            BuffersArgument::Copied => Self::Copied,
            BuffersArgument::Read => Self::Read,
            BuffersArgument::Loaned => Self::Loaned,
        }
    }
}

/// What measured processes have unless told otherwise: a waiting core that sleeps would measure its waking, and a process
/// that gets no core for a second is slow, not dead. Of one that ended its parent knows at once.
pub const MEASURED: [&str; 2] = ["endpoint.idle=spin", "endpoint.peer_timeout=20s"];

/// What assignments to the values of a simulated fabric begin with.
pub const FABRIC: &str = "fabric.";

impl Tuning {
    /// The assignments to the values of a simulated fabric, without the prefix.
    pub fn of_fabric(&self) -> Vec<&str> {
        self.settings.iter().filter_map(|text| text.strip_prefix(FABRIC)).collect()
    }

    /// The assignments for measured processes, and the settings that they lead to.
    pub fn load(&self) -> Result<(Vec<String>, Settings), Failure> {
        self.load_with(&[])
    }

    /// As `load`, with defaults that the assignments of the command line come after. What is said of the fabric is left
    /// out.
    pub fn load_with(&self, defaults: &[&str]) -> Result<(Vec<String>, Settings), Failure> {
        let defaults = MEASURED.into_iter().chain(defaults.iter().copied()).map(str::to_owned);
        let own = self.settings.iter().filter(|text| !text.starts_with(FABRIC)).cloned();
        let assignments: Vec<String> = defaults.chain(own).collect();
        let settings = load_settings(&assignments)?;
        Ok((assignments, settings))
    }
}

/// The settings of this process with these assignments.
pub fn load_settings(assignments: &[String]) -> Result<Settings, Failure> {
    Settings::load(assignments.iter().cloned()).map_err(|error| Failure::Usage(error.to_string()))
}

/// The path of a file, or standard output.
impl From<&str> for Destination {
    fn from(text: &str) -> Self {
        if text == "-" { Self::StandardOutput } else { Self::File(PathBuf::from(text)) }
    }
}

/// How many nodes a cluster has.
fn node_count(text: &str) -> Result<u32, String> {
    whole_number::<{ RANKS_MAX as u64 }>(text).map(|nodes| nodes as u32)
}

/// A whole number from 1 to `MAX`.
fn whole_number<const MAX: u64>(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX).contains(number));
    number.ok_or_else(|| match MAX {
        u64::MAX => format!("`{text}` is not a whole number above 0"),
        _ => format!("`{text}` is not a whole number from 1 to {MAX}"),
    })
}

/// A part of a link's rate: above 0, and up to 1.
fn parse_load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| *load > 0.0 && *load <= 1.0);
    load.ok_or_else(|| format!("`{text}` is not a part of a link's rate, such as 0.8"))
}

/// What a handler may take: at most a second.
fn handler_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time <= Duration::from_secs(1) { Ok(time) } else { Err(format!("`{text}` is more than 1s")) }
}

/// A positive number of seconds, with or without a fraction, of at most a day.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    const SECONDS_MAX: f64 = 86_400.0;
    let wrong =
        || format!("`{text}` is not a number of seconds above 0 and up to {SECONDS_MAX}, such as 10 or 0.5");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if seconds > 0.0 && seconds <= SECONDS_MAX { Ok(Duration::from_secs_f64(seconds)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn counts_are_whole_numbers_within_their_bounds() {
        assert_eq!((whole_number::<64>("1"), whole_number::<64>("64")), (Ok(1), Ok(64)));
        for text in ["", "0", "65", "-1", "1.5", "1K"] {
            assert!(whole_number::<64>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_are_positive_numbers() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "0", "-1", "nan", "inf", "1e9", "10s"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }
}
