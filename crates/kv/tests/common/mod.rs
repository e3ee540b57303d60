//! Shards and a client in one process, each on a thread of its own, over any transport.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::parameters::Settings;
use farcall::{Endpoint, Node, TransportKind};
use farcall_kv::store::{MEMORY_BYTES_MIN, Store};
use farcall_kv::{Name, Shard, TableId, Value};

/// Generous: reached only when something hangs.
pub const LONG: Duration = Duration::from_secs(60);

/// The table of most tests.
pub const TABLE: &str = "table";

/// Some shards, and room for clients.
pub struct Shards {
    pub shards: u32,
    pub size: u32,
    pub kind: TransportKind,
    pub settings: Settings,
    address: HostPort,
    running: Vec<Option<Running>>,
    _rendezvous: Rendezvous,
}

impl Shards {
    /// `shards` shards as the first ranks, and room for `clients` clients.
    pub fn start(kind: TransportKind, shards: u32, clients: u32, assignments: &[&str]) -> Self {
        println!("{shards} shards over {kind}");
        let rendezvous = Rendezvous::bind("127.0.0.1:0", shards + clients).expect("a rendezvous on loopback");
        let mut this = Self {
            shards,
            size: shards + clients,
            kind,
            settings: settings(assignments),
            address: rendezvous.address().into(),
            running: Vec::new(),
            _rendezvous: rendezvous,
        };
        this.running = (0..shards).map(|rank| Some(this.start_shard(rank))).collect();
        this
    }

    /// Ends a shard, with all that it has.
    pub fn end(&mut self, shard: u32) {
        self.running[shard as usize] = None;
    }

    /// Starts a shard that was ended again, with nothing, and waits until it can be found.
    pub fn start_again(&mut self, shard: u32) {
        self.running[shard as usize] = Some(self.start_shard(shard));
    }

    /// An endpoint of the rank after the shards' and `client` others.
    pub fn client(&self, client: u32) -> Endpoint {
        self.endpoint(self.shards + client)
    }

    fn endpoint(&self, rank: u32) -> Endpoint {
        endpoint(&self.address, rank, self.size, self.kind, &self.settings)
    }

    fn start_shard(&self, rank: u32) -> Running {
        let (address, size, kind, settings) =
            (self.address.clone(), self.size, self.kind, self.settings.clone());
        let shards = self.shards;
        let (published, is_published) = mpsc::channel();
        let running = Running::start(move |stop| {
            let endpoint = endpoint(&address, rank, size, kind, &settings);
            published.send(()).expect("somebody waits");
            let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), rank, shards);
            shard.create_table(TABLE).expect("the first");
            while !stop.load(Ordering::Relaxed) {
                endpoint.poll_requests_idle(|request, reply| shard.handle(request, reply), |_, _| ());
            }
        });
        is_published.recv().expect("it starts");
        running
    }
}

/// A thread that serves; told to stop, and waited for, when dropped.
struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(serve: impl FnOnce(&AtomicBool) + Send + 'static) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || serve(&stop)
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let outcome = self.thread.take().map(JoinHandle::join);
        assert!(matches!(outcome, Some(Ok(()))) || std::thread::panicking(), "a shard panicked");
    }
}

/// What goes wrong in a faulty network.
pub const FAULTS: [&str; 6] = [
    "fault.drop_permille=30",
    "fault.duplicate_permille=30",
    "fault.reorder_permille=30",
    "fault.delay_permille=30",
    "fault.corrupt_permille=10",
    "basic.resend_interval=1ms",
];

/// The seed of a test over faults, which is the process's number unless it is given.
pub fn fault_seed() -> u64 {
    let given = std::env::var("FARCALL_TEST_FAULT_SEED").ok();
    let seed = given.map_or(u64::from(std::process::id()), |text| text.parse().expect("a number"));
    println!("FARCALL_TEST_FAULT_SEED={seed}");
    seed
}

/// Two shards over a faulty network, and room for clients.
pub fn faulty_shards(clients: u32, seed: u64) -> Shards {
    let fault_seed = format!("fault.seed={seed}");
    let assignments = [fault_seed.as_str(), "endpoint.peer_timeout=60s"];
    let assignments: Vec<&str> = FAULTS.into_iter().chain(assignments).collect();
    Shards::start(TransportKind::BASIC_UDP, 2, clients, &assignments)
}

pub fn endpoint(
    address: &HostPort,
    rank: u32,
    size: u32,
    kind: TransportKind,
    settings: &Settings,
) -> Endpoint {
    let bootstrap = Bootstrap::join(address, rank, size, LONG).expect("it joins");
    // The directory lives as long as the endpoint does.
    let node = Node::new(bootstrap, settings.clone());
    node.endpoint_with(kind, settings).expect("an endpoint")
}

/// Settings from assignments.
pub fn settings(assignments: &[&str]) -> Settings {
    let mut settings = Settings::default();
    for assignment in assignments {
        settings.assign(assignment).expect("a valid assignment");
    }
    settings
}

/// An object of the table of most tests.
pub fn name(key: &[u8]) -> Name<'_> {
    Name::new(table(), key).expect("a good key")
}

pub fn table() -> TableId {
    TableId::of(TABLE).expect("short")
}

pub fn value(bytes: &[u8]) -> Value<'_> {
    Value::new(bytes).expect("a good value")
}
