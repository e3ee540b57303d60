//! The packet transport over UDP sockets, honest ones and ones that break packets.

use core::time::Duration;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use farcall_base::{Address, AddressError};
use farcall_base::{Entropy, Identity, Instant, Principal};
use farcall_driver::clock::Clock;
use farcall_driver::decorate::{Fault, FaultConfig};
use farcall_driver::{CounterFile, Datagram, DatagramLimits, Destination, Packet, SendError, Wait};
use farcall_protocol::basic::BasicPolicy;
use farcall_transport::{
    CallId, DownReason, MatchedBatch, MessageBatch, MessageId, Outbox, Owned, PacketConfig, PacketTransport,
    RequestBatch, RequestId, Response, ResponseBatch, SendOutcome, Service, SessionId, Sink, Status,
    Submission, Submitted, Tag, Transport,
};
use farcall_udp::{UdpConfig, UdpDriver};

/// Answers with the same bytes.
const ECHO: Service = Service(1);
/// Answers with a loan of the bytes, reversed.
const REVERSE: Service = Service(2);
/// Answers with more than any session carries.
const TOO_MUCH: Service = Service(3);
/// Makes a call back to the caller before it answers.
const CALL_BACK: Service = Service(4);
/// Answers with bytes that the caller counts and does not keep.
const COUNTED: Service = Service(5);

/// How long a test waits for something that must happen, before it fails. Not a measure of speed.
const HANG_LIMIT: Duration = Duration::from_secs(100);

/// Serves, and keeps what came.
#[derive(Default)]
struct Log {
    ups: Vec<(SessionId, Identity)>,
    downs: Vec<(SessionId, DownReason)>,
    responses: BTreeMap<u32, (Status, Vec<u8>)>,
    served: u32,
    /// Responses to calls of [`COUNTED`].
    counted: u32,
    /// Messages that the peer has taken.
    sent: Vec<MessageId>,
}

impl Log {
    fn serve(&mut self, outbox: &mut dyn Outbox, request: RequestId, service: Service, payload: &[u8]) {
        self.served += 1;
        match service {
            ECHO => outbox.reply(request, Status::Ok, payload),
            REVERSE => {
                let mut loan = outbox.loan(payload.len()).expect("there is memory to lend");
                loan.copy_from_slice(payload);
                loan.reverse();
                let reply = Submission::Reply { request, status: Status::Refused(9) };
                assert_eq!(outbox.submit_owned(reply, Owned::Loan(loan)), Submitted::Sent);
            }
            TOO_MUCH => outbox.reply(request, Status::Ok, &vec![0; 9 << 20]),
            CALL_BACK => {
                let called = outbox.call(request.session, CallId(77), ECHO, payload);
                assert_eq!(called, Submitted::Sent, "sessions have no direction");
                outbox.reply(request, Status::Ok, &[]);
            }
            COUNTED => outbox.reply(request, Status::Refused(1), &[2; 100]),
            _ => outbox.reply(request, Status::UnknownService, &[]),
        }
    }
}

impl Sink for Log {
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        let service = requests.service();
        requests.for_each(|request, payload| self.serve(outbox, request, service, payload.as_slice()));
    }

    fn responses(&mut self, _outbox: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        while let Some(Response { call, status, payload }) = responses.take() {
            if status == Status::Refused(1) {
                self.counted += 1;
                continue;
            }
            let before = self.responses.insert(call.0, (status, payload.as_slice().to_vec()));
            assert!(before.is_none(), "call {call:?} completed twice");
        }
    }

    fn received(&mut self, messages: &mut MatchedBatch<'_, '_>) {
        panic!("no receive was posted, but there are messages of {:?}", messages.session());
    }

    fn messages(&mut self, _outbox: &mut dyn Outbox, _messages: &mut MessageBatch<'_>) {
        panic!("nobody asked for messages that no receive waits for");
    }

    fn sent(&mut self, _outbox: &mut dyn Outbox, send: MessageId, outcome: SendOutcome) {
        assert_eq!(outcome, Ok(()));
        self.sent.push(send);
    }

    fn session_up(&mut self, _outbox: &mut dyn Outbox, session: SessionId, peer: Identity, _: &Principal) {
        self.ups.push((session, peer));
    }

    fn session_down(&mut self, _outbox: &mut dyn Outbox, session: SessionId, reason: &DownReason) {
        self.downs.push((session, reason.clone()));
    }

    fn session_moved(&mut self, _: &mut dyn Outbox, session: SessionId) {
        panic!("{session:?} has one way only");
    }
}

struct End<D: Datagram> {
    transport: PacketTransport<D, BasicPolicy>,
    log: Log,
}

fn identity(rank: u32) -> Identity {
    Identity { incarnation: 100 + u64::from(rank), rank, endpoint: 0 }
}

fn udp(mtu_bytes: usize) -> UdpDriver {
    let config = UdpConfig { mtu_bytes: Some(mtu_bytes), ..UdpConfig::default() };
    UdpDriver::bind(&config).expect("a socket on the loopback interface")
}

fn end<D: Datagram>(driver: D, rank: u32) -> End<D> {
    let config = PacketConfig::default();
    let file = CounterFile::process();
    let transport = PacketTransport::new(
        driver,
        BasicPolicy,
        identity(rank),
        Entropy::repeatable(u64::from(rank)),
        &config,
        file,
        &format!("test {rank}"),
    );
    End { transport: transport.expect("the default configuration is valid"), log: Log::default() }
}

struct Pair<D: Datagram> {
    ends: [End<D>; 2],
    clock: Clock,
}

impl<D: Datagram> Pair<D> {
    fn new(drivers: [D; 2]) -> Self {
        let [first, second] = drivers;
        Self { ends: [end(first, 0), end(second, 1)], clock: Clock::new() }
    }

    fn connect(&mut self) -> SessionId {
        let to = self.ends[1].transport.address();
        let now = self.clock.now();
        self.ends[0].transport.connect(&to, None, now).expect("the address is one of UDP")
    }

    #[track_caller]
    fn poll_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let started = self.clock.now();
        while !done(self) {
            let now = self.clock.now();
            assert!(now.since(started) < HANG_LIMIT, "it did not happen");
            for end in &mut self.ends {
                end.transport.poll(now, &mut end.log);
            }
        }
    }

    fn call(&mut self, session: SessionId, call: u32, service: Service, payload: &[u8]) {
        let called = self.ends[0].transport.call(session, CallId(call), service, payload);
        assert!(!matches!(called, Submitted::Refused(_)), "the call is accepted: {called:?}");
    }

    fn answer_to(&mut self, session: SessionId, service: Service, payload: &[u8]) -> (Status, Vec<u8>) {
        self.call(session, 1, service, payload);
        self.poll_until(|pair| pair.ends[0].log.responses.contains_key(&1));
        self.ends[0].log.responses.remove(&1).expect("it is there")
    }
}

fn pattern(seed: u32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u32).wrapping_mul(seed | 1).to_le_bytes()[1] ^ seed as u8).collect()
}

#[test]
fn messages_of_all_lengths_come_back_as_they_went() {
    for mtu_bytes in [1472, 9000, 60_000] {
        let mut pair = Pair::new([udp(mtu_bytes), udp(mtu_bytes)]);
        let session = pair.connect();
        for bytes in [0, 1, 100, mtu_bytes - 24, mtu_bytes - 23, 100_000, 8 << 20] {
            let payload = pattern(7, bytes);
            assert!(pair.answer_to(session, ECHO, &payload) == (Status::Ok, payload), "{bytes} bytes");
        }
        pair.poll_until(|pair| pair.ends.iter().all(|end| end.transport.is_idle()));
    }
}

#[test]
fn both_ends_are_introduced() {
    let mut pair = Pair::new([udp(1472), udp(1472)]);
    let session = pair.connect();
    pair.poll_until(|pair| pair.ends.iter().all(|end| end.log.ups.len() == 1));
    assert_eq!(pair.ends[0].log.ups, [(session, identity(1))]);
    assert_eq!(pair.ends[1].log.ups[0].1, identity(0));
    assert_eq!(pair.ends[0].transport.agreed(session).map(|offer| offer.mtu_bytes), Some(1472));
}

#[test]
fn loans_and_statuses_travel() {
    let mut pair = Pair::new([udp(1472), udp(1472)]);
    let session = pair.connect();
    for bytes in [100, 100_000] {
        let mut reversed = pattern(3, bytes);
        reversed.reverse();
        assert!(pair.answer_to(session, REVERSE, &pattern(3, bytes)) == (Status::Refused(9), reversed));
    }
    assert_eq!(pair.answer_to(session, Service(99), &[]), (Status::UnknownService, Vec::new()));
    assert_eq!(pair.answer_to(session, TOO_MUCH, &[]), (Status::AnswerTooLong, Vec::new()));
}

#[test]
fn handlers_call_while_the_request_is_read_in_place() {
    let mut pair = Pair::new([udp(1472), udp(1472)]);
    let session = pair.connect();
    assert_eq!(pair.answer_to(session, CALL_BACK, b"who is there"), (Status::Ok, Vec::new()));
    pair.poll_until(|pair| pair.ends[1].log.responses.contains_key(&77));
    assert_eq!(pair.ends[1].log.responses[&77], (Status::Ok, b"who is there".to_vec()));
}

#[test]
fn a_closed_session_is_down_on_both_sides() {
    let mut pair = Pair::new([udp(1472), udp(1472)]);
    let session = pair.connect();
    pair.answer_to(session, ECHO, &[]);
    let now = pair.clock.now();
    pair.ends[0].transport.close(session, now);
    pair.poll_until(|pair| pair.ends.iter().all(|end| !end.log.downs.is_empty()));
    assert_eq!(pair.ends[0].log.downs, [(session, DownReason::Closed)]);
    assert_eq!(pair.ends[1].log.downs[0].1, DownReason::Closed);
}

#[test]
fn a_dropped_transport_says_good_bye() {
    let mut pair = Pair::new([udp(1472), udp(1472)]);
    let session = pair.connect();
    pair.answer_to(session, ECHO, &[]);
    pair.ends[1] = end(udp(1472), 2);
    pair.poll_until(|pair| !pair.ends[0].log.downs.is_empty());
    assert_eq!(pair.ends[0].log.downs, [(session, DownReason::Closed)]);
}

#[test]
fn a_dropped_transport_says_good_bye_to_more_peers_than_it_sends_packets_at_once() {
    const SESSIONS: usize = 900;
    let mut pair = Pair::new([udp(1472), udp(1472)]);
    // In lots, because there is a bound on sessions of one host that open at a time.
    while pair.ends[0].log.ups.len() < SESSIONS {
        let wanted = pair.ends[0].log.ups.len() + 100;
        for _ in 0..100 {
            pair.connect();
        }
        pair.poll_until(|pair| pair.ends.iter().all(|end| end.log.ups.len() == wanted));
    }
    pair.ends[1] = end(udp(1472), 2);
    pair.poll_until(|pair| pair.ends[0].log.downs.len() == SESSIONS);
    assert!(pair.ends[0].log.downs.iter().all(|(_, reason)| *reason == DownReason::Closed));
}

#[test]
fn small_calls_in_the_steady_state_allocate_nothing() {
    let mut pair = Pair::new([udp(1472), udp(1472)]);
    let session = pair.connect();
    let mut call_often = |calls: u32| {
        for _ in 0..calls {
            let before = pair.ends[0].log.counted;
            pair.call(session, 1, COUNTED, &[1; 30]);
            pair.poll_until(|pair| pair.ends[0].log.counted > before);
        }
    };
    call_often(200);
    let allocations = allocation_counter::measure(|| call_often(1000));
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn messages_that_wait_for_a_call_to_end_allocate_nothing_meanwhile() {
    let mut pair = Pair::new([udp(1472), udp(1472)]);
    let session = pair.connect();
    pair.answer_to(session, ECHO, &[]);
    let outbox = &mut pair.ends[0].transport;
    let mut calls = 0;
    while outbox.call(session, CallId(calls), COUNTED, &[]) == Submitted::Sent {
        calls += 1;
    }
    assert_eq!(outbox.send(session, MessageId(calls), Tag(1), b"waits"), Submitted::Queued);
    // From here on no time passes, and only one end takes turns: no call ends.
    let now = pair.clock.now();
    let [near, _] = &mut pair.ends;
    let mut turns = |count: u32| (0..count).for_each(|_| _ = near.transport.poll(now, &mut near.log));
    turns(1000);
    let allocations = allocation_counter::measure(|| turns(1000));
    assert_eq!(allocations.count_total, 0);
    pair.poll_until(|pair| pair.ends[0].log.sent == [MessageId(calls)]);
}

#[test]
fn all_calls_complete_once_with_the_right_bytes_over_a_fabric_that_breaks_packets() {
    let faults = |seed| FaultConfig {
        drop: 0.02,
        duplicate: 0.02,
        reorder: 0.02,
        corrupt: 0.1,
        truncate: 0.01,
        ..FaultConfig::none(seed)
    };
    let broken = |seed: u64| Fault::new(udp(1472), faults(seed), Clock::new(), &format!("fault {seed}"));
    let mut pair = Pair::new([broken(1), broken(2)]);
    let session = pair.connect();
    let (calls, window) = (100_000, 200);
    let length = |call: u32| if call.is_multiple_of(100) { 5000 } else { call as usize % 120 };
    let mut made = 0;
    pair.poll_until(|pair| {
        while made < calls && made < pair.ends[0].log.responses.len() as u32 + window {
            pair.call(session, made, ECHO, &pattern(made, length(made)));
            made += 1;
        }
        pair.ends[0].log.responses.len() as u32 == calls
    });
    for (call, (status, bytes)) in &pair.ends[0].log.responses {
        assert!(*status == Status::Ok && *bytes == pattern(*call, length(*call)), "call {call} was altered");
    }
    assert_eq!(pair.ends[1].log.served, calls, "each request ran once");
    assert!(pair.ends.iter().all(|end| end.log.downs.is_empty()));
    assert!(pair.ends[1].transport.counters().checksum_errors.get() > u64::from(calls) / 20);
}

/// A driver over a fabric that takes nothing as long as it is `stuck`.
struct Stuck {
    inner: UdpDriver,
    stuck: Arc<AtomicBool>,
    queued: bool,
}

impl Datagram for Stuck {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn limits(&self) -> DatagramLimits {
        self.inner.limits()
    }

    fn address(&self) -> Address {
        self.inner.address()
    }

    fn keep_peer(&mut self, _peer: Destination, _keep: bool) {}

    fn host_of(&self, peer: Destination) -> Option<u64> {
        self.inner.host_of(peer)
    }

    fn resolve(&mut self, address: &Address) -> Result<Destination, AddressError> {
        self.inner.resolve(address)
    }

    fn send(&mut self, to: Destination, priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        self.queued = true;
        self.inner.send(to, priority, parts)
    }

    fn send_room(&self) -> usize {
        self.inner.send_room()
    }

    fn flush(&mut self) {
        if !self.stuck.load(Ordering::Relaxed) {
            self.inner.flush();
            self.queued = false;
        }
    }

    fn is_backed_up(&self) -> bool {
        self.queued
    }

    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        self.inner.receive(packets)
    }

    fn release(&mut self, packet: Packet) {
        self.inner.release(packet);
    }

    fn next_unreachable(&mut self) -> Option<Destination> {
        None
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

impl Wait for Stuck {
    fn prepare_wait(&mut self) {}

    fn finish_wait(&mut self) {}

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.inner.wait_descriptors()
    }
}

#[test]
fn what_the_fabric_did_not_take_leaves_when_it_does_and_not_when_a_timer_says_so() {
    let stuck = [false, false].map(|stuck| Arc::new(AtomicBool::new(stuck)));
    let drivers = stuck.each_ref().map(|stuck| {
        let stuck = Arc::clone(stuck);
        Stuck { inner: udp(1500), stuck, queued: false }
    });
    let mut pair = Pair::new(drivers);
    let session = pair.connect();
    pair.answer_to(session, ECHO, b"up");
    // From here on no time passes, so that no timer comes.
    let now = pair.clock.now();
    let turn = |pair: &mut Pair<Stuck>| {
        for end in &mut pair.ends {
            end.transport.poll(now, &mut end.log);
        }
    };
    (0..10).for_each(|_| turn(&mut pair));
    stuck[0].store(true, Ordering::Relaxed);
    pair.call(session, 2, ECHO, b"waits in the driver");
    (0..10).for_each(|_| turn(&mut pair));
    assert!(pair.ends[0].log.responses.is_empty());
    // Nothing wakes who sleeps when the fabric has room again.
    assert_eq!(pair.ends[0].transport.next_deadline(), Some(Instant::ZERO));
    stuck[0].store(false, Ordering::Relaxed);
    (0..10).for_each(|_| turn(&mut pair));
    assert!(pair.ends[0].log.responses.contains_key(&2), "it still waits");
    assert_ne!(pair.ends[0].transport.next_deadline(), Some(Instant::ZERO), "nothing waits any more");
}
