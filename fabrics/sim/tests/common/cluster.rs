//! A cluster in which every host calls every other, over the shipping transports; each call is checked for running at
//! most once and ending exactly once.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use farcall_base::Random;
use farcall_base::{Entropy, Identity, Instant, Principal};
use farcall_driver::CounterFile;
use farcall_driver::clock::Clock;
use farcall_protocol::basic::BasicPolicy;
use farcall_sim::{Fabric, Host, Outcome, Profile, Program, Schedule, Simulation};
use farcall_transport::{
    CallId, DownReason, MatchedBatch, MessageBatch, MessageId, Outbox, PacketConfig, PacketTransport,
    RequestBatch, Response, ResponseBatch, Ring, RingConfig, SendOutcome, Service, SessionId, Sink, Status,
    Submitted, Transport,
};

/// Unanswered calls of a host.
const WINDOW: usize = 8;
/// Longest payload, some packets long.
const PAYLOAD_BYTES_MAX: u64 = 9000;
/// What a reply adds to a byte of its request.
const REPLY: u8 = 0x5a;

/// Which transport a cluster runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Basic,
    Ring,
}

/// What all hosts report to.
#[derive(Default)]
pub struct Ledger {
    /// How often each call ran, by caller and its life, and call.
    executed: BTreeMap<(u64, u64), u32>,
    /// How often each call was answered.
    answered: BTreeMap<(u64, u64), u32>,
    /// Calls whose session ended.
    lost: u64,
    /// Hosts that have made all of their calls, in their present life.
    finished: Vec<bool>,
}

/// What a run ends with.
pub struct Run {
    pub fabric: Fabric,
    pub answered: usize,
    pub lost: u64,
}

/// Runs a cluster until every host has made its calls, and checks the ledger.
pub fn run(
    protocol: Protocol,
    profile: Profile,
    seed: u64,
    hosts: usize,
    calls: u64,
    schedule: Schedule,
) -> Run {
    println!("{protocol:?}, seed {seed:#x}, {hosts} hosts on {}", profile.name);
    let fabric = Fabric::new(profile, seed, hosts).unwrap_or_else(|error| panic!("{error}"));
    fabric.set_schedule(schedule).unwrap_or_else(|error| panic!("{error}"));
    let ledger = Arc::new(Mutex::new(Ledger { finished: vec![false; hosts], ..Ledger::default() }));
    let mut simulation = Simulation::new(fabric.clone());
    for host in 0..hosts {
        let ledger = ledger.clone();
        simulation.start(host, move |host| node(protocol, host, seed, calls, ledger.clone()));
    }
    let open = || !ledger.lock().expect("no panic").finished.iter().all(|finished| *finished);
    let outcome = simulation.run_while_until(open, Instant::from_nanos(20_000_000_000));
    assert_eq!(outcome, Outcome::Done, "{protocol:?}, seed {seed:#x}: {:?}", fabric.totals());
    let ledger = ledger.lock().expect("no panic");
    for (call, times) in &ledger.executed {
        assert_eq!(*times, 1, "{protocol:?}, seed {seed:#x}: {call:x?} ran {times} times");
    }
    for (call, times) in &ledger.answered {
        let ran = ledger.executed.get(call).copied();
        assert_eq!((*times, ran), (1, Some(1)), "{protocol:?}, seed {seed:#x}: {call:x?}");
    }
    Run { fabric, answered: ledger.answered.len(), lost: ledger.lost }
}

fn node(
    protocol: Protocol,
    host: &Host,
    seed: u64,
    calls: u64,
    ledger: Arc<Mutex<Ledger>>,
) -> Box<dyn Program> {
    let identity =
        Identity { incarnation: u64::from(host.incarnation()) + 1, rank: host.number() as u32, endpoint: 0 };
    let label = format!("cluster {}", host.number());
    let seed = seed ^ (host.number() as u64) << 32 ^ u64::from(host.incarnation());
    let transport: Box<dyn Transport> = match protocol {
        Protocol::Basic => {
            let config = PacketConfig {
                resend_interval: Duration::from_micros(200),
                peer_timeout: Duration::from_millis(20),
                ..PacketConfig::default()
            };
            let (driver, counters) = (host.datagram(), CounterFile::process());
            let made = PacketTransport::new(
                driver,
                BasicPolicy,
                identity,
                Entropy::repeatable(seed),
                &config,
                counters,
                &label,
            );
            Box::new(made.expect("a valid configuration"))
        }
        Protocol::Ring => {
            let config = RingConfig {
                inline_bytes: 2000,
                batch_bytes: 512,
                message_bytes_max: 1 << 20,
                calls_max: 64,
                unexpected_bytes: 1 << 20,
                connect_timeout: Duration::from_millis(20),
                rest_interval: Duration::from_millis(1),
                ranks: u32::MAX,
                numbers: farcall_base::SessionNumbers::ALL,
            };
            let entropy = Entropy::repeatable(seed);
            Box::new(Ring::new(host.lanes(), identity, entropy, config, CounterFile::process(), &label))
        }
    };
    Box::new(Node::new(transport, host, seed, calls, ledger))
}

/// One host: calls all others, and answers them.
struct Node {
    transport: Box<dyn Transport>,
    clock: Clock,
    state: State,
    random: Random,
    calls_left: u64,
}

/// What a node's sink works with.
struct State {
    host: Host,
    /// Host and life, as the ledger knows them.
    caller: u64,
    /// The session to each peer, if there is one.
    sessions: Vec<Option<SessionId>>,
    /// Unanswered calls: where they went, and what their answers must be.
    in_flight: BTreeMap<u32, (SessionId, Vec<u8>)>,
    next_call: u32,
    ledger: Arc<Mutex<Ledger>>,
}

impl Node {
    fn new(
        transport: Box<dyn Transport>,
        host: &Host,
        seed: u64,
        calls: u64,
        ledger: Arc<Mutex<Ledger>>,
    ) -> Self {
        let hosts = host.fabric().host_count();
        ledger.lock().expect("no panic").finished[host.number()] = false;
        let state = State {
            host: host.clone(),
            caller: (host.number() as u64) << 32 | u64::from(host.incarnation()),
            sessions: vec![None; hosts],
            in_flight: BTreeMap::new(),
            next_call: 0,
            ledger,
        };
        Self { transport, clock: host.clock(), state, random: Random::new(seed), calls_left: calls }
    }

    /// Calls a peer, over a new session if there is none.
    fn call(&mut self) {
        let (own, hosts) = (self.state.host.number(), self.state.sessions.len());
        let peer = (own + 1 + self.random.below(hosts as u64 - 1) as usize) % hosts;
        let session = self.state.sessions[peer].unwrap_or_else(|| {
            let address = self.state.host.fabric().host(peer).address();
            self.transport.connect(&address, None, self.clock.now()).expect("an address of this kind")
        });
        self.state.sessions[peer] = Some(session);
        let call = self.state.next_call;
        let mut payload = vec![call as u8; 16 + self.random.below(PAYLOAD_BYTES_MAX) as usize];
        payload[..8].copy_from_slice(&self.state.caller.to_le_bytes());
        payload[8..16].copy_from_slice(&u64::from(call).to_le_bytes());
        let answer = payload.iter().map(|byte| byte.wrapping_add(REPLY)).collect();
        let made = self.transport.call(session, CallId(call), Service(1), &payload);
        if !matches!(made, Submitted::Refused(_)) {
            self.state.next_call += 1;
            self.calls_left -= 1;
            self.state.in_flight.insert(call, (session, answer));
        }
    }
}

impl Program for Node {
    fn turn(&mut self) -> usize {
        let mut made = 0;
        while self.calls_left > 0 && self.state.in_flight.len() < WINDOW {
            self.call();
            made += 1;
        }
        let received = self.transport.poll(self.clock.now(), &mut self.state);
        let done = self.calls_left == 0 && self.state.in_flight.is_empty();
        if done {
            self.state.ledger.lock().expect("no panic").finished[self.state.host.number()] = true;
        }
        received + made
    }

    fn next_deadline(&self) -> Option<Instant> {
        let wants_calls = self.calls_left > 0 && self.state.in_flight.len() < WINDOW;
        if wants_calls { Some(Instant::ZERO) } else { self.transport.next_deadline() }
    }
}

impl Sink for State {
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        requests.for_each(|request, payload| {
            let payload = payload.as_slice();
            let word = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
            *self.ledger.lock().expect("no panic").executed.entry((word(0), word(8))).or_default() += 1;
            let answer: Vec<u8> = payload.iter().map(|byte| byte.wrapping_add(REPLY)).collect();
            self.host.spend_handler();
            outbox.reply(request, Status::Ok, &answer);
        });
    }

    fn responses(&mut self, _: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        let session = responses.session();
        while let Some(Response { call, status, payload }) = responses.take() {
            let (sent_over, answer) = self.in_flight.remove(&call.0).expect("a call ends once");
            assert_eq!((session, status), (sent_over, Status::Ok));
            assert!(payload.as_slice() == answer, "the answer to {call:?} was altered");
            let call = (self.caller, u64::from(call.0));
            *self.ledger.lock().expect("no panic").answered.entry(call).or_default() += 1;
        }
    }

    fn received(&mut self, messages: &mut MatchedBatch<'_, '_>) {
        panic!("no receive was posted, but there are messages of {:?}", messages.session());
    }

    fn messages(&mut self, _: &mut dyn Outbox, _: &mut MessageBatch<'_>) {
        panic!("nobody sends messages");
    }

    fn sent(&mut self, _: &mut dyn Outbox, send: MessageId, _: SendOutcome) {
        panic!("nobody sends messages, but {send:?} ended");
    }

    fn session_up(&mut self, _: &mut dyn Outbox, _: SessionId, _: Identity, _: &Principal) {}

    fn session_down(&mut self, _: &mut dyn Outbox, session: SessionId, _: &DownReason) {
        self.sessions.iter_mut().filter(|known| **known == Some(session)).for_each(|known| *known = None);
        let before = self.in_flight.len();
        self.in_flight.retain(|_, (sent_over, _)| *sent_over != session);
        self.ledger.lock().expect("no panic").lost += (before - self.in_flight.len()) as u64;
    }

    fn session_moved(&mut self, _: &mut dyn Outbox, session: SessionId) {
        panic!("{session:?} has one way only");
    }
}
