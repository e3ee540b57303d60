//! The ranks of a launcher: where measurements run instead of on processes of this machine.
//!
//! `mpirun`, `prterun`, `srun` and whoever sets `FARCALL_RANK` start this program once for each rank, all
//! with the same arguments. Rank 0 plans, prints and records ([`World`]). The others are *members*: they
//! start the processes that rank 0 orders, and pass on what those report. So a measurement has fresh
//! processes of its own everywhere, as it has on one machine, and what a rank was ordered to run can die
//! without its member.
//!
//! Members block while there is nothing to do: nothing polls beside what is measured.

mod clocks;
mod cores;
mod member;
mod order;
mod place;

use core::time::Duration;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::Sender;

use farcall::bootstrap::{BarrierError, Bootstrap, JOIN_WITHIN, Launch, Rendezvous};
use farcall::parameters::Settings;
use farcall::{CallError, Client, ClientError, Endpoint, Node, Peer, Service, TransportKind};
use farcall_limit::allowed_cores;
use serde::{Deserialize, Serialize};

pub use member::Member;
use order::Running;
pub(crate) use order::{Order, clock_offset_nanos};
pub use place::{Place, Role};

use crate::explain::recorded::Environment;
use crate::run::beside;

/// Tells who a member is: a [`RankAbout`].
const ABOUT: Service = Service(1);

/// Runs an [`Order`]; answered when its process has ended.
const RUN: Service = Service(2);

/// Ends all processes of a member.
const STOP: Service = Service(3);

/// Lets a member go.
const END: Service = Service(4);

/// Tells the time of a member's clock, in nanoseconds.
const CLOCK: Service = Service(5);

/// The transport of orders and reports.
const CONTROL: TransportKind = TransportKind::BASIC_UDP;

/// How long members may be silent before they are lost: they block, and may share their core with processes
/// that spin.
pub const SILENT_MAX: Duration = Duration::from_secs(5);

/// What the endpoint of orders is like, whatever is measured.
const CONTROL_SETTINGS: [&str; 6] = [
    "endpoint.idle=block",
    "endpoint.peer_timeout=5s",
    "basic.message_bytes_max=64M",
    "basic.checksum=true",
    "fault.drop_permille=0",
    "fault.corrupt_permille=0",
];

/// How long a member may take to answer what needs no work.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Why there is no world, or it is not what a measurement needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// The ranks do not find each other, or this process cannot take part.
    #[error("the ranks of the launcher cannot work together: {why}")]
    NoWorld {
        /// The words of whoever noticed.
        why: String,
    },
    /// A rank has gone.
    #[error("rank {rank}{host} was lost: {why}")]
    Lost {
        /// Which one.
        rank: u32,
        /// Where it was, if it said so: ` on HOST`.
        host: String,
        /// How that was noticed.
        why: String,
    },
    /// More processes are asked for than there are ranks.
    #[error("{what} need {needed} ranks, and there are {ranks}: start more, or ask for fewer")]
    TooFewRanks {
        /// What is asked for.
        what: String,
        /// How many ranks that takes.
        needed: usize,
        /// How many there are, or are named by `--place`.
        ranks: usize,
    },
    /// `--place` names a rank that there is not.
    #[error("--place: rank {rank} is not one of the {ranks} that the launcher started")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// How many there are.
        ranks: usize,
    },
}

/// What a rank says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankAbout {
    /// Its rank.
    pub rank: u32,
    /// The name of its machine.
    pub host: String,
    /// The start of its kernel: containers of one machine have names of their own and share its cores.
    #[serde(default)]
    pub kernel: String,
    /// Its process.
    pub pid: u32,
    /// The cores that it may use.
    pub cores: Vec<usize>,
    /// What its machine is.
    pub environment: Environment,
    /// Which clock it has: ranks with the same one need not compare.
    pub clock: String,
    /// How far that clock was ahead of rank 0's when the ranks met.
    pub clock_offset_ns: i64,
    /// By how much that may be wrong: half of the shortest round trip in which it was asked.
    pub clock_error_ns: u64,
}

impl RankAbout {
    fn of_this_process(rank: u32) -> Self {
        let cores =
            allowed_cores().map_or_else(|_| Vec::new(), |cores| cores.iter().map(|core| core.0).collect());
        Self {
            rank,
            host: host_name(),
            kernel: kernel(),
            pid: std::process::id(),
            cores,
            environment: Environment::probe(),
            clock: clocks::identity(),
            clock_offset_ns: 0,
            clock_error_ns: 0,
        }
    }
}

/// The name that this machine gives itself.
fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// What tells the running kernel from every other one; empty where nothing does.
fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// What this process is under a launcher.
pub enum Entered {
    /// The only one: there is no launcher, or it started one process.
    Alone,
    /// Rank 0.
    Lead(Box<World>),
    /// Another one.
    Member(Box<Member>),
    /// Another one, for which there is no work: some rank did not come, which rank 0 says.
    Excused,
}

/// Where all ranks wait for each other, so that a missing one is named before anything is measured.
const MEETING: &str = "measured";

/// All ranks, seen from rank 0.
pub struct World {
    abouts: Vec<RankAbout>,
    /// The ranks in the order in which processes are placed.
    order: Vec<u32>,
    /// As whom the others reach this machine.
    address: String,
    /// Where rendezvous of measurements listen.
    listens: &'static str,
    client: Client,
    /// By rank; none for this one.
    peers: Vec<Option<Peer>>,
    own: Running,
    /// The first rank that was lost, and why.
    lost: Mutex<Option<WorldError>>,
    // After the client, whose endpoint it made.
    _node: Node,
}

/// Takes this process's place among the ranks of a launcher, if there are several.
pub fn enter(place: &Place) -> Result<Entered, WorldError> {
    let no_world = |why: &dyn core::fmt::Display| WorldError::NoWorld { why: why.to_string() };
    let launch = Launch::from_env().map_err(|error| no_world(&error))?;
    let bootstrap = Bootstrap::from_env().map_err(|error| no_world(&error))?;
    if bootstrap.size <= 1 {
        return Ok(Entered::Alone);
    }
    let settings = Settings::load(CONTROL_SETTINGS.map(str::to_owned)).map_err(|error| no_world(&error))?;
    let (rank, size) = (bootstrap.rank, bootstrap.size);
    let own_ip = bootstrap.directory.local_ip();
    let node = Node::new(bootstrap, settings);
    let endpoint = node.endpoint(CONTROL.name()).map_err(|error| no_world(&error))?;
    match node.barrier(MEETING, JOIN_WITHIN) {
        Ok(()) => {}
        Err(BarrierError::TimedOut { missing, .. }) if rank > 0 && !missing.first.contains(&0) => {
            return Ok(Entered::Excused);
        }
        Err(error) => return Err(no_world(&error)),
    }
    if rank > 0 {
        return Ok(Entered::Member(Box::new(Member::new(rank, node, endpoint)?)));
    }
    let is_here = own_ip.is_some_and(|ip| ip.is_loopback());
    let address = match (launch, own_ip) {
        (_, Some(ip)) => ip.to_string(),
        (Launch::Rendezvous { address, .. }, None) => host_of(&address.to_string()),
        (Launch::Hosts { hosts, .. }, None) => host_of(&hosts.rendezvous().to_string()),
        (Launch::Alone, None) => host_name(),
    };
    let listens = match (is_here, own_ip.is_some_and(|ip| ip.is_ipv6())) {
        (true, false) => "127.0.0.1:0",
        (true, true) => "[::1]:0",
        (false, false) => "0.0.0.0:0",
        (false, true) => "[::]:0",
    };
    let peers = (0..size).map(|rank| (rank > 0).then(|| peer(&endpoint, rank)).transpose());
    let peers: Vec<Option<Peer>> = peers.collect::<Result<_, _>>()?;
    let client = Client::start(endpoint).map_err(|error| no_world(&error))?;
    let mut world = World {
        abouts: vec![RankAbout::of_this_process(0)],
        order: Vec::new(),
        address,
        listens,
        client,
        peers,
        own: Running::default(),
        lost: Mutex::new(None),
        _node: node,
    };
    for rank in 1..size {
        let answer = world.ask(rank, ABOUT, Vec::new(), ANSWER_MAX)?;
        let mut about: RankAbout = serde_json::from_slice(&answer).map_err(|error| no_world(&error))?;
        if about.clock != world.abouts[0].clock {
            (about.clock_offset_ns, about.clock_error_ns) = world.compare_clocks(rank)?;
        }
        world.abouts.push(about);
    }
    world.order = place.order(&world.abouts)?;
    Ok(Entered::Lead(Box::new(world)))
}

fn host_of(address: &str) -> String {
    address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']).to_owned()
}

fn peer(endpoint: &Endpoint, rank: u32) -> Result<Peer, WorldError> {
    let lost = |why: String| WorldError::Lost { rank, host: String::new(), why };
    let peer = endpoint.peer(rank).map_err(|error| lost(error.to_string()))?;
    endpoint.wait_for(peer).map_err(|error| lost(error.to_string()))?;
    Ok(peer)
}

impl core::fmt::Debug for World {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("World").field("order", &self.order).finish_non_exhaustive()
    }
}

impl World {
    /// What the ranks said of themselves, by rank.
    pub fn ranks(&self) -> &[RankAbout] {
        &self.abouts
    }

    /// How many ranks can have a process.
    pub fn places(&self) -> usize {
        self.order.len()
    }

    /// The rank that has the process of this number, of `needed` for `what`.
    pub(crate) fn places_for(&self, needed: usize, what: &str) -> Result<&[u32], WorldError> {
        self.order.get(..needed).ok_or_else(|| WorldError::TooFewRanks {
            what: what.to_owned(),
            needed,
            ranks: self.order.len(),
        })
    }

    /// Refuses what needs more ranks than can have a process.
    pub fn check(&self, needed: usize, what: &str) -> Result<(), WorldError> {
        self.places_for(needed, what).map(drop)
    }

    /// The machine of a rank.
    pub(crate) fn host(&self, rank: u32) -> String {
        self.abouts.get(rank as usize).map_or_else(String::new, |about| about.host.clone())
    }

    /// Where a rank is, for people.
    pub fn words(&self, rank: u32) -> String {
        self.abouts.get(rank as usize).map_or_else(String::new, |about| format!(" on {}", about.host))
    }

    /// How far the clock of a rank is ahead of this one's.
    pub(crate) fn clock_offset_nanos(&self, rank: u32) -> i64 {
        self.abouts.get(rank as usize).map_or(0, |about| about.clock_offset_ns)
    }

    /// The machines of the ranks, each once.
    pub fn hosts(&self) -> Vec<&str> {
        let mut hosts: Vec<&str> = self.abouts.iter().map(|about| about.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// Asks all members whether they are there, and gives those that do not answer in time.
    pub fn missing(&self, within: Duration) -> Vec<WorldError> {
        let asked: Vec<_> = (0..)
            .zip(&self.peers)
            .filter_map(|(rank, peer)| {
                let call = self.client.call((*peer)?, ABOUT, Vec::new()).within(within);
                Some((rank, call.start()))
            })
            .collect();
        let missing = asked.into_iter().filter_map(|(rank, call)| {
            let error = call.and_then(|call| call.wait()).err()?;
            Some(WorldError::Lost { rank, host: self.words(rank), why: why_of(&error) })
        });
        missing.collect()
    }

    /// A rank that was lost while something was measured, and why.
    pub fn lost(&self) -> Option<WorldError> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A rendezvous for the processes of one measurement, and where they reach it.
    pub(crate) fn rendezvous(&self, size: u32) -> Result<(Rendezvous, String), String> {
        let rendezvous = Rendezvous::bind(self.listens, size).map_err(|error| error.to_string())?;
        let address = &self.address;
        let host = if address.contains(':') { format!("[{address}]") } else { address.clone() };
        let address = format!("{host}:{}", rendezvous.address().port());
        Ok((rendezvous, address))
    }

    /// The core of each of these ranks' next process.
    pub(crate) fn cores(&self, ranks: &[u32]) -> Vec<Option<u32>> {
        cores::of_processes(&self.abouts, ranks)
    }

    /// Whether a machine has fewer cores than the processes of these ranks.
    pub(crate) fn share_cores(&self, ranks: &[u32]) -> bool {
        cores::are_shared(&self.abouts, ranks)
    }

    /// Runs an order at a rank, and sends what its process wrote with `number`: an empty text if it wrote
    /// nothing.
    pub(crate) fn run(
        &self,
        rank: u32,
        order: Order,
        within: Duration,
        number: usize,
        reports: Sender<(usize, Result<String, WorldError>)>,
    ) -> Result<(), String> {
        let (own, client, peer, host) =
            (self.own.clone(), self.client.clone(), self.peers[rank as usize], self.words(rank));
        let work = move || {
            let Some(peer) = peer else {
                let text = own.run(&order).unwrap_or_else(|why| failed(&why));
                // Nobody waits any more when another rank has failed.
                return drop(reports.send((number, Ok(text))));
            };
            let order = serde_json::to_vec(&order).expect("an order is JSON");
            let answer = client.call(peer, RUN, order).within(within).wait();
            let text = answer.map(|text| String::from_utf8_lossy(&text).into_owned());
            let text = text.map_err(|error| WorldError::Lost { rank, host, why: why_of(&error) });
            drop(reports.send((number, text)));
        };
        beside::spawn(work).map(drop)
    }

    /// Keeps the first rank that was lost.
    pub fn note(&self, error: &WorldError) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
    }

    /// Ends everything that runs by order.
    pub(crate) fn stop(&self) {
        self.own.stop();
        self.tell_all(STOP);
    }

    fn tell_all(&self, service: Service) {
        let calls = self.peers.iter().flatten().map(|&peer| {
            let call = self.client.call(peer, service, Vec::new()).within(SILENT_MAX);
            call.start()
        });
        // A rank that is gone needs to be told nothing.
        let calls: Vec<_> = calls.flatten().collect();
        calls.into_iter().for_each(|call| drop(call.wait()));
    }

    fn ask(
        &self,
        rank: u32,
        service: Service,
        what: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, WorldError> {
        let lost = |why| WorldError::Lost { rank, host: self.words(rank), why };
        let peer = self.peers[rank as usize].ok_or_else(|| lost("it is this process".to_owned()))?;
        let answer = self.client.call(peer, service, what).within(within).wait();
        answer.map(|answer| answer.to_vec()).map_err(|error| lost(why_of(&error)))
    }
}

/// What the end of a call says of the rank that it went to.
fn why_of(error: &ClientError) -> String {
    match error {
        ClientError::Call(CallError::TimedOut) => "it did not report in time".to_owned(),
        error => error.to_string(),
    }
}

/// The report of a process that could not be started.
fn failed(why: &str) -> String {
    serde_json::to_string(&Err::<(), _>(why)).expect("a report is JSON")
}

impl Drop for World {
    /// The members go with rank 0.
    fn drop(&mut self) {
        self.own.stop();
        self.tell_all(END);
    }
}
