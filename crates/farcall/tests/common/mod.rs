//! A server and a client in one process, on two threads, over any transport.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod counters;
pub mod life;
pub mod litter;
pub mod load;
pub mod network;
#[path = "../../../../tools/cli/tests/common/places.rs"]
pub mod places;
pub mod post;
pub mod stream;
pub mod victim;

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::parameters::Settings;
use farcall::{Endpoint, Node, Peer, Presence, TransportKind};

/// Generous: reached only when something hangs.
pub const LONG: Duration = Duration::from_secs(60);

/// Every transport that connects processes here, or those that `FARCALL_TEST_TRANSPORTS` names. Those whose
/// library or device is absent are named with the reason. `auto`, which is made of others, is there when it
/// is named: see [`and_auto`].
pub fn transports() -> impl Iterator<Item = TransportKind> {
    let asked = std::env::var("FARCALL_TEST_TRANSPORTS").ok();
    let asked: Option<Vec<TransportKind>> =
        asked.map(|names| names.split(',').map(|name| name.parse().expect("a transport")).collect());
    // Those that need a key have tests of their own, and so has what is made of several.
    let is_wanted = |kind: &TransportKind| {
        !kind.is_simulated() && !TransportKind::SECURED.contains(kind) && *kind != TransportKind::AUTO
    };
    let all = move || TransportKind::every().filter(is_wanted).collect();
    asked.unwrap_or_else(all).into_iter().filter(|kind| match kind.presence() {
        Some(Presence::Absent { why }) => {
            println!("over {kind}: unsupported: {why}");
            false
        }
        None | Some(Presence::Here { .. }) => true,
    })
}

/// These, and `auto`, unless others were named.
pub fn and_auto(kinds: impl Iterator<Item = TransportKind>) -> impl Iterator<Item = TransportKind> {
    let is_asked = std::env::var_os("FARCALL_TEST_TRANSPORTS").is_some();
    kinds.chain((!is_asked).then_some(TransportKind::AUTO))
}

/// Those that connect processes although no launcher started them together.
pub fn transports_without_launcher() -> impl Iterator<Item = TransportKind> {
    transports().filter(|&kind| {
        let needs_launcher = kind == TransportKind::MPI;
        if needs_launcher {
            println!("over {kind}: unsupported: it connects only what one launcher started together");
        }
        !needs_launcher
    })
}

/// A cluster of two in this process; rank 0 serves on a thread of its own.
pub struct Pair {
    pub client: Endpoint,
    pub server: Peer,
    pub node: Node,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _rendezvous: Rendezvous,
}

impl Pair {
    /// A pair over `kind`, with handlers that `serve` installs.
    pub fn new(
        kind: TransportKind,
        settings: Settings,
        serve: impl FnOnce(&Endpoint) + Send + 'static,
    ) -> Self {
        Self::with_client_settings(kind, settings.clone(), settings, serve)
    }

    /// A pair whose sides have different settings.
    pub fn with_client_settings(
        kind: TransportKind,
        server_settings: Settings,
        settings: Settings,
        serve: impl FnOnce(&Endpoint) + Send + 'static,
    ) -> Self {
        let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a rendezvous on loopback");
        let address = HostPort::from(rendezvous.address());
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, server_address) = (Arc::clone(&stop), address.clone());
        let thread = std::thread::spawn(move || {
            let bootstrap = Bootstrap::join(&server_address, 0, 2, LONG).expect("rank 0 joins");
            let node = Node::new(bootstrap, server_settings.clone());
            let endpoint = node.endpoint_with(kind, &server_settings).expect("the server's endpoint");
            serve(&endpoint);
            endpoint.run_while(|| !stopped.load(Ordering::Relaxed));
        });
        let node = Node::new(Bootstrap::join(&address, 1, 2, LONG).expect("rank 1 joins"), settings.clone());
        let client = node.endpoint_with(kind, &settings).expect("the client's endpoint");
        let server = client.peer(0).expect("the server is known");
        Self { client, server, node, stop, thread: Some(thread), _rendezvous: rendezvous }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            assert!(outcome.is_ok() || std::thread::panicking(), "the server thread panicked");
        }
    }
}

/// Settings from assignments, after those of `FARCALL_TEST_VERBS`, such as
/// `verbs.connect=cm verbs.device=siw0`.
pub fn settings(assignments: &[&str]) -> Settings {
    let mut settings = Settings::default();
    let of_all_tests = std::env::var("FARCALL_TEST_VERBS").unwrap_or_default();
    for assignment in of_all_tests.split_whitespace().chain(assignments.iter().copied()) {
        settings.assign(assignment).expect("a valid assignment");
    }
    settings
}

/// Sets what is a parameter of every transport, such as `calls_max`.
pub fn assign_to_transports(settings: &mut Settings, parameter: &str, value: impl Display) {
    for transport in ["ring", "basic", "homa", "tcp", "ucx", "mpi", "ofi"] {
        settings.assign(&format!("{transport}.{parameter}={value}")).expect("a valid assignment");
    }
}

/// Bytes that depend on their place and on a seed; made word by word, because tests are not optimised.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    for place in 0..length.div_ceil(8) as u64 {
        let word = (seed << 32 ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.extend_from_slice(&word.rotate_left(29).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
