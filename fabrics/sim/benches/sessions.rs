//! What sessions cost where every host has one to every other: packet events a second, and memory. Hosts run
//! the packet transport; each connects to those behind it, and then all call all, as in a shuffle of short
//! messages.
//!
//! `cargo bench -p farcall-sim --bench sessions -- 100 1000` takes other numbers of hosts.
#![expect(unsafe_code, reason = "an allocator that counts is an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Instant as WallTime;

use farcall_base::{Entropy, Identity, Instant, Principal};
use farcall_driver::CounterFile;
use farcall_driver::clock::Clock;
use farcall_protocol::basic::BasicPolicy;
use farcall_sim::{Fabric, Host, Outcome, Profile, Program, SimDatagram, Simulation};
use farcall_transport::{
    CallId, DownReason, MatchedBatch, MessageBatch, MessageId, Outbox, Owned, PacketConfig, PacketTransport,
    Payload, RequestBatch, ResponseBatch, SendOutcome, Service, SessionId, Sink, Status, Submission,
    Submitted, Transport,
};

/// Calls of each host to each other one.
const ROUNDS: usize = 3;
/// Unanswered calls of a host.
const WINDOW: usize = 8;
/// Sessions that a host opens at a time.
const OPENING_MAX: usize = 16;
const PAYLOAD_BYTES: usize = 1000;
/// Of each packet as much as this is carried: its headers.
const CARRIED_BYTES: usize = 256;

/// Bytes that are allocated, and pieces.
static BYTES: AtomicIsize = AtomicIsize::new(0);
static PIECES: AtomicIsize = AtomicIsize::new(0);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize, 1);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize), -1);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes as isize - layout.size() as isize, 0);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

/// One thread allocates: plain loads and stores do.
fn count(bytes: isize, pieces: isize) {
    BYTES.store(BYTES.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    PIECES.store(PIECES.load(Ordering::Relaxed) + pieces, Ordering::Relaxed);
}

fn main() {
    let given: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let counts = if given.is_empty() { vec![100, 1000] } else { given };
    println!(
        "hosts  packet events/s  wall s  bytes a session end, quiet and after calls  pieces  fingerprint"
    );
    counts.into_iter().for_each(run);
}

fn run(hosts: usize) {
    let profile = Profile::load("connectx2-qdr").expect("an embedded profile").scaled_to(hosts);
    let fabric = Fabric::new(profile, 1, hosts).expect("it has the places");
    fabric.carry_at_most(CARRIED_BYTES);
    let mut simulation = Simulation::new(fabric.clone());
    let shared = Rc::new(Shared::default());
    for host in 0..hosts {
        let shared = Rc::clone(&shared);
        simulation.start(host, move |host| Box::new(Node::new(host, hosts, Rc::clone(&shared))));
    }
    let ends = hosts * (hosts - 1);
    let held = || [&BYTES, &PIECES].map(|counter| counter.load(Ordering::Relaxed) as f64);
    let before = held();
    let a_session_end = |at: usize| (held()[at] - before[at]) / ends as f64;
    let until = Instant::from_nanos(1_000_000_000_000);
    assert_eq!(simulation.run_while_until(|| shared.up.get() < ends, until), Outcome::Done);
    let quiet = a_session_end(0);
    shared.calls.set(true);
    let (began, events) = (WallTime::now(), fabric.totals().packet_events);
    let wanted = ends * ROUNDS;
    assert_eq!(simulation.run_while_until(|| shared.answered.get() < wanted, until), Outcome::Done);
    let wall = began.elapsed().as_secs_f64();
    let rate = (fabric.totals().packet_events - events) as f64 / wall / 1e6;
    println!(
        "{hosts:5} {rate:14.2} M {wall:7.2} {quiet:19.0} {:19.0} {:18.1}  {:016x}",
        a_session_end(0),
        a_session_end(1),
        fabric.trace_hash(),
    );
}

/// What all hosts report to.
#[derive(Default)]
struct Shared {
    /// Ends of sessions that are up.
    up: Cell<usize>,
    /// Whether hosts call each other.
    calls: Cell<bool>,
    answered: Cell<usize>,
}

struct Node {
    transport: PacketTransport<SimDatagram, BasicPolicy>,
    clock: Clock,
    payload: Payload,
    /// The next host to connect to.
    next: usize,
    made: usize,
    state: State,
}

struct State {
    host: Host,
    sessions: Vec<SessionId>,
    opening: usize,
    in_flight: usize,
    shared: Rc<Shared>,
}

impl Node {
    fn new(host: &Host, hosts: usize, shared: Rc<Shared>) -> Self {
        let rank = host.number() as u32;
        let config = PacketConfig {
            sessions_max: 32_000,
            sessions_per_host: 32_000,
            checksum: Some(false),
            ..PacketConfig::default()
        };
        let identity = Identity { incarnation: 1, rank, endpoint: 0 };
        let entropy = Entropy::repeatable(u64::from(rank));
        let (driver, counters) = (host.datagram(), CounterFile::process());
        let made =
            PacketTransport::new(driver, BasicPolicy, identity, entropy, &config, counters, "sessions");
        let sessions = Vec::with_capacity(hosts);
        Self {
            transport: made.expect("a valid configuration"),
            clock: host.clock(),
            payload: Payload::from(vec![7; PAYLOAD_BYTES]),
            next: host.number() + 1,
            made: 0,
            state: State { host: host.clone(), sessions, opening: 0, in_flight: 0, shared },
        }
    }

    fn connect(&mut self) -> usize {
        let mut made = 0;
        let hosts = self.state.host.fabric().host_count();
        while self.next < hosts && self.state.opening < OPENING_MAX {
            let address = self.state.host.fabric().host(self.next).address();
            self.transport.connect(&address, None, self.clock.now()).expect("an address of this kind");
            (self.next, self.state.opening, made) = (self.next + 1, self.state.opening + 1, made + 1);
        }
        made
    }

    fn call(&mut self) -> usize {
        let mut made = 0;
        let peers = self.state.sessions.len();
        while self.wants_calls() {
            let session = self.state.sessions[self.made % peers];
            let submission =
                Submission::Call { session, call: CallId(self.made as u32), service: Service(1) };
            let submitted = self.transport.submit_owned(submission, Owned::Shared(self.payload.clone()));
            assert!(!matches!(submitted, Submitted::Refused(_)), "{submitted:?}");
            (self.made, self.state.in_flight, made) = (self.made + 1, self.state.in_flight + 1, made + 1);
        }
        made
    }

    fn wants_calls(&self) -> bool {
        let wanted = ROUNDS * self.state.sessions.len();
        self.state.shared.calls.get() && self.state.in_flight < WINDOW && self.made < wanted
    }
}

impl Program for Node {
    fn turn(&mut self) -> usize {
        let made = self.connect() + self.call();
        made + self.transport.poll(self.clock.now(), &mut self.state)
    }

    fn next_deadline(&self) -> Option<Instant> {
        // Idle hosts look now and then whether the calls have begun.
        let look = || self.clock.now() + core::time::Duration::from_millis(1);
        let begins = (!self.state.shared.calls.get()).then(look);
        let calls = self.wants_calls().then_some(Instant::ZERO);
        [begins, calls, self.transport.next_deadline()].into_iter().flatten().min()
    }
}

impl Sink for State {
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        requests.for_each(|request, _| {
            self.host.spend_handler();
            outbox.reply(request, Status::Ok, &[]);
        });
    }

    fn responses(&mut self, _: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        while let Some(response) = responses.take() {
            assert_eq!(response.status, Status::Ok);
            self.in_flight -= 1;
            self.shared.answered.set(self.shared.answered.get() + 1);
        }
    }

    fn session_up(&mut self, _: &mut dyn Outbox, session: SessionId, peer: Identity, _: &Principal) {
        self.opening -= usize::from(peer.rank as usize > self.host.number());
        self.sessions.push(session);
        self.shared.up.set(self.shared.up.get() + 1);
    }

    fn session_down(&mut self, _: &mut dyn Outbox, session: SessionId, reason: &DownReason) {
        panic!("{session:?} ended: {reason}");
    }

    fn received(&mut self, _: &mut MatchedBatch<'_, '_>) {
        panic!("nobody receives messages");
    }

    fn messages(&mut self, _: &mut dyn Outbox, _: &mut MessageBatch<'_>) {
        panic!("nobody sends messages");
    }

    fn sent(&mut self, _: &mut dyn Outbox, send: MessageId, _: SendOutcome) {
        panic!("nobody sends messages, but {send:?} ended");
    }

    fn session_moved(&mut self, _: &mut dyn Outbox, session: SessionId) {
        panic!("{session:?} has one way only");
    }
}
