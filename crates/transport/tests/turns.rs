//! What an honest request waits for while others ask for as much as they can: packets that are handled and
//! sent between its arrival and its answer. Counted and not timed, in one thread, so that every run is the
//! same.

use core::time::Duration;

use farcall_base::{Address, Entropy, Identity, Instant, Principal};
use farcall_driver::clock::Clock;
use farcall_driver::decorate::Count;
use farcall_driver::{Counter, CounterFile, Datagram};
use farcall_protocol::basic::BasicPolicy;
use farcall_protocol::calls::Policy;
use farcall_protocol::homa::{HomaPolicy, HomaRules};
use farcall_transport::{
    CallId, DownReason, MatchedBatch, MessageBatch, MessageId, Outbox, PacketConfig, PacketTransport,
    RequestBatch, ResponseBatch, SendOutcome, Service, SessionId, Sink, Status, Submitted, Transport,
};
use farcall_udp::{UdpConfig, UdpDriver};

/// Answers with the same bytes.
const ECHO: Service = Service(1);
/// Answers with many packets.
const LONG: Service = Service(2);
const LONG_BYTES: usize = 8 << 10;

/// Bytes of long messages that leave in a poll which receives something.
const BYTES_OF_TURN: usize = 16 << 10;

/// What a network of Ethernet carries.
const MTU_BYTES: usize = 1472;

/// How long a test waits for something that must happen, before it fails. Not a measure of speed.
const HANG_LIMIT: Duration = Duration::from_secs(100);

/// Packets that passed a driver.
struct Passed {
    received: Counter,
    sent: Counter,
}

impl Passed {
    fn both(&self) -> (u64, u64) {
        (self.received.get(), self.sent.get())
    }
}

/// Serves, and counts what was answered.
#[derive(Default)]
struct Log {
    ups: usize,
    answered: usize,
}

impl Sink for Log {
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        let service = requests.service();
        requests.for_each(|request, payload| match service {
            LONG => outbox.reply(request, Status::Ok, &[7; LONG_BYTES]),
            _ => outbox.reply(request, Status::Ok, payload.as_slice()),
        });
    }

    fn responses(&mut self, _outbox: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        while let Some(response) = responses.take() {
            assert_eq!(response.status, Status::Ok);
            self.answered += 1;
        }
    }

    fn received(&mut self, _messages: &mut MatchedBatch<'_, '_>) {
        panic!("no receive was posted");
    }

    fn messages(&mut self, _outbox: &mut dyn Outbox, _messages: &mut MessageBatch<'_>) {
        panic!("nobody asked for messages that no receive waits for");
    }

    fn sent(&mut self, _outbox: &mut dyn Outbox, _send: MessageId, _outcome: SendOutcome) {
        panic!("nobody sends messages");
    }

    fn session_up(&mut self, _: &mut dyn Outbox, _: SessionId, _: Identity, _: &Principal) {
        self.ups += 1;
    }

    fn session_down(&mut self, _: &mut dyn Outbox, _: SessionId, reason: &DownReason) {
        panic!("no session ends: {reason:?}");
    }

    fn session_moved(&mut self, _: &mut dyn Outbox, session: SessionId) {
        panic!("{session:?} has one way only");
    }
}

struct End<D: Datagram, P: Policy> {
    transport: PacketTransport<D, P>,
    log: Log,
    session: SessionId,
    calls: u32,
}

impl<D: Datagram, P: Policy> End<D, P> {
    fn new(driver: D, policy: P, rank: u32) -> Self {
        let identity = Identity { incarnation: 100 + u64::from(rank), rank, endpoint: 0 };
        let (entropy, config) = (Entropy::repeatable(u64::from(rank)), PacketConfig::default());
        let (file, label) = (CounterFile::process(), format!("turns {rank}"));
        let transport = PacketTransport::new(driver, policy, identity, entropy, &config, file, &label);
        let transport = transport.expect("the default configuration is valid");
        Self { transport, log: Log::default(), session: SessionId(0), calls: 0 }
    }

    fn poll(&mut self, now: Instant) {
        self.transport.poll(now, &mut self.log);
    }

    /// Asks for a session, and says no more.
    fn open(&mut self, to: &Address, now: Instant) {
        self.session = self.transport.connect(to, None, now).expect("an address of UDP");
        self.poll(now);
    }

    /// Sends a request.
    fn ask(&mut self, service: Service, now: Instant) {
        self.calls += 1;
        let called = self.transport.call(self.session, CallId(self.calls), service, b"?");
        assert_eq!(called, Submitted::Sent);
        self.poll(now);
    }
}

/// A server, an honest client, and others, which have sessions as well.
struct Site<P: Policy> {
    server: End<Count<UdpDriver>, P>,
    passed: Passed,
    honest: End<UdpDriver, P>,
    others: Vec<End<UdpDriver, P>>,
    clock: Clock,
    policy: fn() -> P,
}

fn udp() -> UdpDriver {
    // One socket: which of two is looked at follows the clock.
    let config = UdpConfig { mtu_bytes: Some(MTU_BYTES), connect: false, ..UdpConfig::default() };
    UdpDriver::bind(&config).expect("a socket on the loopback interface")
}

impl<P: Policy> Site<P> {
    fn new(policy: fn() -> P, others: u32) -> Self {
        let server = Count::new(udp(), "turns");
        let counted = server.counters();
        let passed = Passed { received: counted.packets_received, sent: counted.packets_sent };
        let mut site = Self {
            server: End::new(server, policy(), 0),
            passed,
            honest: End::new(udp(), policy(), 1),
            others: (0..others).map(|other| End::new(udp(), policy(), 2 + other)).collect(),
            clock: Clock::new(),
            policy,
        };
        let (address, now) = (site.server.transport.address(), site.clock.now());
        site.clients().for_each(|client| client.open(&address, now));
        site.poll_until(|site| site.clients().all(|client| client.log.ups > 0));
        // So that both ends know that it is up, and where.
        let now = site.clock.now();
        site.clients().for_each(|client| client.ask(ECHO, now));
        site.poll_until(|site| site.clients().all(|client| client.log.answered == 1));
        site
    }

    fn clients(&mut self) -> impl Iterator<Item = &mut End<UdpDriver, P>> {
        core::iter::once(&mut self.honest).chain(&mut self.others)
    }

    #[track_caller]
    fn poll_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let started = self.clock.now();
        while !done(self) {
            let now = self.clock.now();
            assert!(now.since(started) < HANG_LIMIT, "it did not happen");
            self.server.poll(now);
            self.clients().for_each(|client| client.poll(now));
        }
    }

    /// Lets the server answer everything.
    #[track_caller]
    fn settle(&mut self) {
        self.poll_until(|site| site.server.transport.next_deadline() != Some(Instant::ZERO));
    }

    /// The packets that the server receives and sends from the beginning of its next poll, in which an honest
    /// request comes too late to be received, until it has answered it.
    #[track_caller]
    fn waits_for(&mut self) -> (u64, u64) {
        let before = self.passed.both();
        let (now, answered) = (self.clock.now(), self.honest.log.answered);
        self.server.poll(now);
        self.honest.ask(ECHO, now);
        // No time passes, so that no timer comes.
        for _ in 0..1000 {
            self.server.poll(now);
            // It receives the first packet after a silence alone.
            (0..4).for_each(|_| self.honest.poll(now));
            if self.honest.log.answered > answered {
                let after = self.passed.both();
                return (after.0 - before.0, after.1 - before.1);
            }
        }
        panic!("an honest request is answered");
    }
}

/// Packets that one receive hands out.
fn burst() -> u64 {
    UdpConfig::default().burst_packets as u64
}

fn long_results_of_others<P: Policy>(policy: fn() -> P) {
    let mut site = Site::new(policy, 20);
    for _ in 0..5 {
        site.settle();
        let now = site.clock.now();
        site.others.iter_mut().for_each(|other| (0..3).for_each(|_| other.ask(LONG, now)));
        let (received, sent) = site.waits_for();
        assert!(received <= burst() + 20, "{received} packets came first");
        // A poll for each receive, of which each asks for twice as many packets.
        let most = (u64::from(burst().ilog2()) + 1) * (BYTES_OF_TURN / MTU_BYTES) as u64;
        assert!(sent <= most, "{sent} packets left first of {}", 60 * LONG_BYTES / MTU_BYTES);
    }
}

fn openings_of_others<P: Policy>(policy: fn() -> P) {
    let mut site = Site::new(policy, 0);
    let address = site.server.transport.address();
    for round in 0..5 {
        site.settle();
        let now = site.clock.now();
        let opened = |stranger| {
            let mut stranger = End::new(udp(), (site.policy)(), 2 + round * 64 + stranger);
            stranger.open(&address, now);
            stranger
        };
        let _strangers: Vec<_> = (0..burst() as u32).map(opened).collect();
        let (received, sent) = site.waits_for();
        assert!(received <= burst() + 20, "{received} packets came first");
        assert!(sent <= 10, "{sent} of {} strangers were answered first", burst());
    }
}

fn homa() -> HomaPolicy {
    HomaPolicy::new(HomaRules::default()).expect("the default rules are valid")
}

#[test]
fn an_honest_request_waits_for_a_part_of_the_results_of_others() {
    long_results_of_others(|| BasicPolicy);
    long_results_of_others(homa);
}

#[test]
fn an_honest_request_waits_for_few_of_the_strangers_that_came_first() {
    openings_of_others(|| BasicPolicy);
    openings_of_others(homa);
}
