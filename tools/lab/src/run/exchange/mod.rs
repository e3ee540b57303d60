//! Requests and responses in a closed loop, between real processes or simulated hosts: the workload under
//! most measurements here.
//!
//! The measuring process starts this same program again as servers and clients, each pinned to its core, and
//! gives each the same [`Exchange`] as its job. They exist for one measurement only: between measurements
//! nothing polls, so that the bare loops of a limit have the cores for themselves, and each measurement sees
//! fresh memory, whose place in the shared cache makes a difference of its own.

mod backing;
mod client;
mod cluster;
mod counters;
mod instruments;
mod payload;
mod report;
mod requests;
mod server;
mod shard;
mod simulated;
mod store;
mod together;
mod worker;

use core::time::Duration;

use farcall::{Peer, Service};
use farcall_base::seed_of_stream;
use serde::{Deserialize, Serialize};

use backing::{Backing, Part};
pub use cluster::{ExchangeError, Placement, run, run_with};
pub(crate) use cluster::{Report, Seats, Workers, run_by, run_together, run_workers, run_workers_with};
pub(crate) use counters::OwnCounters;
pub use counters::sum_of;
pub(crate) use instruments::KernelAccount;
pub use instruments::{Asides, Instruments};
pub use report::{ClientReport, ExchangeResult, ProcessFound, ProcessRole, Rest};
pub(crate) use shard::{fill_log, memory_for, shard_with_log};
pub use simulated::{simulate, simulate_with};
pub use store::{StoreAccess, StoreWork};
pub(crate) use store::{key, name};
pub(crate) use worker::{OVERHEAD_MAX, pass, pass_with, report_on, settings_of};
pub use worker::{WORKER_COMMAND, work};

/// Answers requests.
const ECHO: Service = Service(1);

/// Answers a client when all clients are warm.
const READY: Service = Service(2);

/// Is told by each client that it will call no more.
const FINISHED: Service = Service(3);

/// What is exchanged, how, and for how long. The same for all processes of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The transport's name, such as `ring+shm`.
    pub transport: String,
    /// Parameters, each as `name=value`.
    pub settings: Vec<String>,
    /// What is asked for.
    pub workload: ExchangeWork,
    /// Length of each request; of those to a store it follows from what they ask for.
    pub request_bytes: usize,
    /// Length of each response, or of each object of a store.
    pub response_bytes: usize,
    /// How payloads are made and looked at.
    pub buffers: Buffers,
    /// What is timed.
    pub timing: Timing,
    /// Calls that each client keeps in flight.
    pub in_flight: usize,
    /// Processes that call.
    pub clients: usize,
    /// Processes that answer; each client calls them in turn.
    pub servers: usize,
    /// The fewest calls of each client before the measurement, which begins once latencies are steady.
    pub warmup_calls: u64,
    /// The most calls of each client in the measurement.
    pub calls: u64,
    /// The longest that the measurement lasts.
    pub lasting: Duration,
    /// Decides what is drawn: objects of a store, and faults.
    #[serde(default)]
    pub seed: u64,
}

impl Exchange {
    /// The same in one of several blocks, each of which draws for itself.
    pub fn in_block(&self, block: u64) -> Self {
        Self { seed: seed_of_stream(self.seed, block), ..self.clone() }
    }

    /// How many backups the logs of its servers have.
    fn backups(&self) -> usize {
        match self.workload {
            ExchangeWork::Echo => 0,
            ExchangeWork::Store(work) => usize::from(work.level().replicas()),
        }
    }
}

/// What a process of a measurement is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Job {
    exchange: Exchange,
    instruments: Instruments,
    /// Whether there are more processes than cores, so that one that has nothing to do must let others run.
    shares_cores: bool,
    /// Where the logs of the servers are replicated to, if they are.
    #[serde(default)]
    backing: Option<Backing>,
}

impl Job {
    /// What the process of a rank does.
    fn part_of(&self, rank: u32) -> Part {
        let (servers, clients) = (self.exchange.servers, self.exchange.clients);
        match &self.backing {
            Some(backing) => backing.part_of(rank as usize, servers, clients),
            None if (rank as usize) < servers => Part::Server,
            None => Part::Client,
        }
    }

    /// Whether a peer of a server is a backup: those are found by their names, clients by their ranks.
    fn is_backup(&self, peer: Peer) -> bool {
        let first_client = self.exchange.servers;
        let clients = first_client..first_client + self.exchange.clients;
        self.backing.is_some() && !clients.contains(&(peer.rank() as usize))
    }
}

/// What requests ask for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExchangeWork {
    /// Responses of a length.
    Echo,
    /// Objects of a key-value store, of which the servers are the shards.
    Store(StoreWork),
}

/// How payloads are made by their sender and looked at by their receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Buffers {
    /// Sent from memory of the sender's own, copied out to memory of the receiver's own.
    Copied,
    /// Sent from memory of the sender's own, read where they arrive.
    Read,
    /// Responses lie in loaned memory; neither side touches their bytes. Requests are sent from memory of the
    /// sender's own.
    Loaned,
}

farcall_base::named!(Buffers:
    Copied = "copied", "Sent from the sender's own memory and copied out by the receiver";
    Read = "read", "Sent from the sender's own memory and read where they arrive";
    Loaned = "loaned", "Loaned responses, which neither side touches";
);

/// What a client times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timing {
    /// Each call, from the completion before it (or its start) to its own completion.
    EachCall,
    /// The measurement as a whole: reading the clock at every call would slow down the fastest of them.
    Window,
}
