//! The grammar of `farcall perf`.

use core::time::Duration;
use std::sync::Arc;

use clap::Args;
use farcall::TransportKind;
use farcall::parameters::quantity::parse_duration;
use farcall_kv::durable::Level;
use farcall_lab::run::exchange::Buffers;
use farcall_lab::run::workload::{Recorded, RecordedError, Reply, SizeMix};
use farcall_lab::run::world::Role;
use farcall_lab::units::Size;

use super::given::Given;
use super::measuring::{Faults, Rehearsal, Scaling, Tracing, Varying};
use super::ranks::OverRanks;
use super::{Output, Recording, Tuning, count_or_none, one_of, parse_seconds, whole_number};
use crate::commands::perf::{WORKLOADS, Workload};

/// `farcall perf`.
#[derive(Clone, Debug, Args)]
pub struct Perf {
    #[command(flatten)]
    pub given: Given,
    /// Tests to run [default: echo]
    #[arg(value_name = "TEST", value_parser = one_of(WORKLOADS, |test| test.name(), |test| test.about()))]
    pub tests: Vec<&'static dyn Workload>,
    /// Transports, separated by commas [default: all that this program has]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub transport: Vec<TransportKind>,
    /// Lengths of responses or objects, separated by commas [default: 100,1K,10K,100K,1M for echo and basic,
    /// else 100]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<Size>,
    /// Calls of each client, for each transport and size [default: 10000; 1000 on a simulated fabric]
    #[arg(long, value_parser = whole_number::<{ u64::MAX }>)]
    pub count: Option<u64>,
    /// Seconds (of simulated time on a simulated fabric) after which a transport and size are done, however
    /// many calls were made
    #[arg(long, default_value = "1.5", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// The fewest calls before measuring begins; it begins once latencies are steady
    #[arg(long, default_value = "0", value_name = "CALLS", value_parser = count_or_none)]
    pub warmup: u64,
    /// Calls that each client keeps in flight
    #[arg(
        long = "in-flight",
        alias = "concurrent-ops",
        default_value = "1",
        value_parser = whole_number::<4096>
    )]
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
    /// When writes of the tests of stores are answered: `memory`, at once; `flushed`, when the server's disk
    /// has them, in the folder for temporary files
    #[arg(long, default_value = "memory", value_name = "LEVEL", value_parser = durability)]
    pub durability: Level,
    /// How long the handler of echo works on each request, such as 500ns
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = handler_time)]
    pub handler: Duration,
    /// How payloads of echo are made and looked at
    #[arg(long, default_value = "copied", value_parser = one_of(Buffers::ALL, Buffers::name, Buffers::about))]
    pub buffers: Buffers,
    /// Lengths of the messages of echoWorkload: W1, W2, W3, W4, W5, or a file
    #[arg(long, default_value = "W4", value_name = "NAME|FILE")]
    pub workload: SizeMix,
    /// Parts of the links' rate that the messages of echoWorkload are to fill, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "0.8", value_parser = parse_load)]
    pub load: Vec<f64>,
    /// Replays the messages of a file in echoWorkload: a JSON object a line with `time` (seconds, or a time
    /// such as 12us), `size`, and if it matters `peer` and `from`
    #[arg(
        long,
        value_name = "FILE",
        value_parser = recorded,
        conflicts_with_all = ["workload", "load", "count", "seconds"]
    )]
    pub arrivals: Option<Arc<Recorded>>,
    /// With --arrivals: how many times as fast as they were recorded
    #[arg(long, value_name = "FACTOR", default_value = "1", requires = "arrivals", value_parser = parse_speed)]
    pub speed: f64,
    /// What comes back for a message of echoWorkload
    #[arg(long, default_value = "ack", value_parser = one_of(Reply::ALL, Reply::name, Reply::about))]
    pub reply: Reply,
    /// Ranks of echoWorkload that send to all others, instead of clients and servers [default: 16 on a
    /// simulated fabric]
    #[arg(long, value_parser = whole_number::<4096>, conflicts_with_all = ["clients", "servers"])]
    pub nodes: Option<u64>,
    /// Rate of the links that the load of echoWorkload is a part of, except on a simulated fabric
    #[arg(long, value_parser = whole_number::<1600>)]
    pub link_gbps: Option<u64>,
    /// The fabric that +sim transports run on; --set fabric.SECTION.FIELD=VALUE changes it [default: ideal]
    #[arg(long, value_name = "NAME|FILE")]
    pub fabric: Option<String>,
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

/// What a process can reach by itself.
fn durability(text: &str) -> Result<Level, String> {
    match Level::named(text) {
        Some(level @ (Level::Memory | Level::Flushed)) => Ok(level),
        Some(level) => {
            Err(format!("`{level}` takes backups, which perf does not start; give memory or flushed"))
        }
        None => Err(format!("`{text}` is no level of a table; give memory or flushed")),
    }
}

impl Perf {
    /// The same with as many servers and clients as `--place` names, unless the command line says how many.
    pub fn settled(&self) -> Self {
        let (servers, clients) = (self.over.named(Role::Servers), self.over.named(Role::Clients));
        Self { servers: self.servers.or(servers), clients: self.clients.or(clients), ..self.clone() }
    }
}

fn recorded(path: &str) -> Result<Arc<Recorded>, RecordedError> {
    path.parse().map(Arc::new)
}

/// How much faster or slower than it was: by a thousand times at most.
fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| (1e-3..=1e3).contains(speed));
    speed.ok_or_else(|| format!("`{text}` is not a factor from 0.001 to 1000, such as 2 or 0.5"))
}

/// A part of a link's rate: above 0, and up to 1.
fn parse_load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| *load > 0.0 && *load <= 1.0);
    load.ok_or_else(|| format!("`{text}` is not a part of a link's rate, such as 0.8"))
}

/// What a handler may take: at most a second.
pub fn handler_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time <= Duration::from_secs(1) { Ok(time) } else { Err(format!("`{text}` is more than 1s")) }
}
