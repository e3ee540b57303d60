//! Calls and tagged messages over a library of mailboxes, which can be looked into and cut off.

mod claims;
mod tagged;

use core::time::Duration;

use farcall_base::{Entropy, Identity, Instant, Principal};
use farcall_driver::{CounterFile, Destination};
use farcall_protocol::wire::{CallKey, Flags, HEADER_BYTES, Head, WireSession, put_whole};

use super::post::{Counter, Letter, Post};
use super::{LibraryConfig, LibraryTransport};
use crate::{
    Backlog, CallId, DownReason, Matched, MatchedBatch, Message, MessageBatch, MessageId, Outbox, Refused,
    RequestBatch, RequestId, Response, ResponseBatch, SendOutcome, Service, SessionId, Sink, Status,
    Submitted, Transport,
};

/// What one side was told; answers every request with its payload.
#[derive(Default)]
struct Log {
    up: Vec<SessionId>,
    down: Vec<(SessionId, DownReason)>,
    requests: Vec<RequestId>,
    answers: Vec<(CallId, Status, Vec<u8>)>,
    keeps_requests: bool,
    /// Receives that ended, with the tags and payloads of their messages.
    received: Vec<(MessageId, u32, Vec<u8>)>,
    handed_on: Vec<(u32, Vec<u8>)>,
    sent: Vec<(MessageId, SendOutcome)>,
}

impl Sink for Log {
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        requests.for_each(|id, payload| {
            self.requests.push(id);
            if !self.keeps_requests {
                outbox.reply(id, Status::Ok, payload.as_slice());
            }
        });
    }

    fn responses(&mut self, _: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        while let Some(Response { call, status, payload }) = responses.take() {
            self.answers.push((call, status, payload.as_slice().to_vec()));
        }
    }

    fn received(&mut self, messages: &mut MatchedBatch<'_, '_>) {
        messages.take_while(|Matched { receive, tag, payload }| {
            self.received.push((*receive, tag.0, payload.as_slice().to_vec()));
            true
        });
    }

    fn messages(&mut self, _: &mut dyn Outbox, messages: &mut MessageBatch<'_>) {
        messages.take_while(|Message { tag, payload }| {
            self.handed_on.push((tag.0, payload.as_slice().to_vec()));
            true
        });
    }

    fn sent(&mut self, _: &mut dyn Outbox, send: MessageId, outcome: SendOutcome) {
        self.sent.push((send, outcome));
    }

    fn session_up(&mut self, _: &mut dyn Outbox, session: SessionId, _: Identity, _: &Principal) {
        self.up.push(session);
    }

    fn session_down(&mut self, _: &mut dyn Outbox, session: SessionId, reason: &DownReason) {
        self.down.push((session, reason.clone()));
    }

    fn session_moved(&mut self, _: &mut dyn Outbox, session: SessionId) {
        panic!("{session:?} has one way only");
    }
}

struct Side {
    transport: LibraryTransport<Counter>,
    log: Log,
}

const PEER_TIMEOUT: Duration = Duration::from_millis(100);

const CONFIG: LibraryConfig = LibraryConfig {
    message_bytes_max: 1000,
    calls_max: 4,
    peer_timeout: PEER_TIMEOUT,
    unexpected_bytes: 64 << 10,
    loan_bytes_max: 1 << 20,
    ranks: u32::MAX,
    sessions_max: 4096,
    sessions_per_host: 1024,
    numbers: farcall_base::SessionNumbers::ALL,
};

fn side(post: &Post, rank: u32, config: LibraryConfig) -> Side {
    let identity = Identity { incarnation: 5, rank, endpoint: 0 };
    let label = format!("library test {rank}");
    let transport = LibraryTransport::new(
        post.open(),
        identity,
        Entropy::repeatable(9),
        &config,
        CounterFile::process(),
        &label,
    );
    Side { transport: transport.expect("the configuration is valid"), log: Log::default() }
}

/// A caller with rank 0 and a server with rank 1, in a world whose time is a number.
struct World {
    post: Post,
    caller: Side,
    server: Side,
    session: SessionId,
    now: Instant,
}

impl World {
    fn new(caller: LibraryConfig, server: LibraryConfig) -> Self {
        let post = Post::default();
        let (mut caller, server) = (side(&post, 0, caller), side(&post, 1, server));
        let (to, now) = (server.transport.address(), Instant::from_nanos(1));
        let session = caller.transport.connect(&to, None, now).expect("there is room");
        Self { post, caller, server, session, now }
    }

    /// A world in which the session is up.
    fn connected() -> Self {
        let mut world = Self::new(CONFIG, CONFIG);
        world.turn();
        assert_eq!((world.caller.log.up.len(), world.server.log.up.len()), (1, 1));
        world
    }

    /// Both sides poll until nothing is in flight.
    fn turn(&mut self) {
        for _ in 0..8 {
            self.caller.transport.poll(self.now, &mut self.caller.log);
            self.server.transport.poll(self.now, &mut self.server.log);
        }
    }

    fn pass(&mut self, time: Duration) {
        for _ in 0..100 {
            self.now += time / 100;
            self.turn();
        }
    }

    fn call(&mut self, call: u32, payload: &[u8]) -> Result<(), Refused> {
        match self.caller.transport.call(self.session, CallId(call), Service(1), payload) {
            Submitted::Refused(refused) => Err(refused),
            Submitted::Sent | Submitted::Queued => Ok(()),
        }
    }

    /// The number that messages to the server carry, read out of a call.
    fn number_at_server(&mut self) -> WireSession {
        self.call(99, b"").expect("under the limit");
        let letter = self.post.boxes()[1].letters.back().cloned().expect("it was sent");
        let number = letter.head[6..14].try_into().expect("eight bytes");
        assert!(letter.head.len() > HEADER_BYTES);
        WireSession(u64::from_le_bytes(number))
    }

    fn put_into_servers_mailbox(&mut self, number: WireSession, flags: Flags, tag: u16, payload: &[u8]) {
        let mut head = Head::new();
        put_whole(&mut head, flags, number, CallKey::from_wire(7), tag);
        let letter = Letter { head: head.as_bytes().to_vec(), payload: payload.to_vec() };
        self.post.boxes()[1].letters.push_back(letter);
    }
}

#[test]
fn calls_that_wait_for_the_session_are_answered_in_order() {
    let mut world = World::new(CONFIG, CONFIG);
    for call in 0..4 {
        world.call(call, &[call as u8; 10]).expect("under the limit");
    }
    assert_eq!(world.call(4, b""), Err(Refused::TooManyCalls { calls_max: 4 }));
    world.turn();
    let answers = &world.caller.log.answers;
    let expected: Vec<_> = (0..4).map(|call| (CallId(call), Status::Ok, vec![call as u8; 10])).collect();
    assert_eq!(*answers, expected);
}

#[test]
fn a_waiting_call_that_is_cancelled_is_not_sent_and_its_place_is_free() {
    let mut world = World::new(CONFIG, CONFIG);
    for call in 0..4 {
        world.call(call, b"").expect("under the limit");
    }
    let session = world.session;
    let outbox = &mut world.caller.transport;
    assert!(!outbox.is_transmitted(session, CallId(2)));
    outbox.cancel(session, CallId(2));
    assert!(outbox.is_transmitted(session, CallId(2)));
    world.call(4, b"").expect("one was cancelled");
    world.turn();
    let calls: Vec<_> = world.caller.log.answers.iter().map(|answer| answer.0.0).collect();
    assert_eq!(calls, [0, 1, 3, 4]);
}

#[test]
fn calls_wait_while_too_much_waits_for_their_peer_and_leave_in_order() {
    let mut world = World::connected();
    world.post.boxes()[0].backlog = Backlog::Full;
    for call in 0..4 {
        world.call(call, &[call as u8; 10]).expect("under the limit");
    }
    assert_eq!(world.call(4, b""), Err(Refused::TooManyCalls { calls_max: 4 }));
    world.turn();
    assert_eq!(world.caller.log.answers, []);
    let (session, outbox) = (world.session, &mut world.caller.transport);
    assert!(!outbox.is_transmitted(session, CallId(1)));
    outbox.cancel(session, CallId(1));
    assert_eq!(outbox.counters.held_up.get(), 4);
    world.post.boxes()[0].backlog = Backlog::Some;
    world.turn();
    let calls: Vec<_> = world.caller.log.answers.iter().map(|answer| answer.0.0).collect();
    assert_eq!(calls, [0, 2, 3]);
    world.call(5, b"").expect("under the limit");
    world.turn();
    assert_eq!(world.caller.log.answers.last().map(|answer| answer.0), Some(CallId(5)));
}

#[test]
fn what_led_to_an_opener_that_was_refused_is_forgotten_also_without_any_other_session() {
    for full in [false, true] {
        let post = Post::default();
        let mut server = side(
            &post,
            0,
            LibraryConfig { ranks: if full { u32::MAX } else { 2 }, sessions_max: 1, ..CONFIG },
        );
        let mut others = [side(&post, 1, CONFIG), side(&post, 2, CONFIG)];
        let (to, now) = (server.transport.address(), Instant::from_nanos(1));
        let openers = if full { &mut others[..] } else { &mut others[1..] };
        for opener in openers {
            opener.transport.connect(&to, None, now).expect("there is room");
            for _ in 0..8 {
                opener.transport.poll(now, &mut opener.log);
                server.transport.poll(now, &mut server.log);
            }
        }
        assert_eq!(others[1].log.up, []);
        let expected: &[Destination] = if full { &[Destination(1)] } else { &[] };
        assert_eq!(post.boxes()[0].known, expected);
    }
}

#[test]
fn the_smaller_limits_hold_and_end_a_session_whose_waiting_calls_are_over_them() {
    let small = LibraryConfig { message_bytes_max: 100, calls_max: 2, ..CONFIG };
    let mut world = World::new(CONFIG, small);
    world.turn();
    let too_long = Refused::TooLong { bytes_max: 100 };
    assert_eq!(world.call(1, &[0; 101]), Err(too_long));

    for (payload, calls, words) in [(101, 1, "over its limit of 100 bytes"), (1, 3, "its limit of 2")] {
        let mut world = World::new(CONFIG, small);
        for call in 0..calls {
            world.call(call, &vec![0; payload]).expect("the limits are not known yet");
        }
        world.turn();
        let [(session, DownReason::Refused { why })] = &world.caller.log.down[..] else {
            panic!("{:?}", world.caller.log.down)
        };
        assert!(*session == world.session && why.contains(words), "{why}");
        assert!(world.server.log.requests.is_empty());
    }
}

#[test]
fn a_lost_destination_ends_its_session_at_once_and_is_forgotten() {
    let mut world = World::connected();
    assert_eq!(world.post.boxes()[0].known, [Destination(1)]);
    world.server.log.keeps_requests = true;
    world.call(1, b"").expect("up");
    world.post.boxes()[0].lost.push_back(Destination(1));
    world.post.boxes()[1].is_deaf = true;
    world.turn();
    assert_eq!(world.caller.log.down, [(world.session, DownReason::Dead)]);
    assert!(world.post.boxes()[0].known.is_empty());
    assert_eq!(world.call(2, b""), Err(Refused::Down));
}

#[test]
fn the_loss_of_what_led_to_a_peer_spares_the_session_that_it_opened_since() {
    let mut world = World::connected();
    let again = world.caller.transport.connect(&world.server.transport.address(), None, world.now);
    world.session = again.expect("there is room");
    world.turn();
    world.post.boxes()[1].lost.push_back(Destination(0));
    world.turn();
    let [first, second] = world.server.log.up[..] else { panic!("{:?}", world.server.log.up) };
    assert_eq!(world.server.log.down, [(first, DownReason::Dead)]);
    assert_ne!(first, second);
    world.call(1, b"x").expect("up");
    world.turn();
    assert_eq!(world.caller.log.answers, [(CallId(1), Status::Ok, b"x".to_vec())]);
}

#[test]
fn a_destination_lost_while_the_session_opens_is_unreachable() {
    let mut world = World::new(CONFIG, CONFIG);
    world.post.boxes()[1].is_deaf = true;
    world.post.boxes()[0].lost.push_back(Destination(1));
    world.turn();
    assert_eq!(world.caller.log.down, [(world.session, DownReason::Unreachable)]);
}

#[test]
fn silence_ends_a_session_even_if_the_library_says_nothing() {
    let mut world = World::connected();
    world.post.boxes()[0].is_deaf = true;
    world.pass(PEER_TIMEOUT / 2);
    assert!(world.caller.log.down.is_empty());
    world.pass(PEER_TIMEOUT);
    assert_eq!(world.caller.log.down, [(world.session, DownReason::Dead)]);
}

#[test]
fn an_idle_session_stays_up_by_its_signs_of_life() {
    let mut world = World::connected();
    world.pass(PEER_TIMEOUT * 10);
    assert!(world.caller.log.down.is_empty() && world.server.log.down.is_empty());
}

#[test]
fn a_transport_that_is_dropped_says_good_bye() {
    let mut world = World::connected();
    let World { caller, server, now, .. } = &mut world;
    let elsewhere = side(&Post::default(), 2, CONFIG);
    drop(core::mem::replace(&mut caller.transport, elsewhere.transport));
    server.transport.poll(*now, &mut server.log);
    assert_eq!(server.log.down.len(), 1);
    assert_eq!(server.log.down[0].1, DownReason::Closed);
    assert!(world.post.boxes()[1].known.is_empty(), "nothing leads to it any more");
}

#[test]
fn a_peer_that_breaks_a_rule_loses_its_session() {
    type Break = (Flags, u16, usize, usize, &'static str);
    let rules: [Break; 4] = [
        (Flags::FROM_CALLER, 1, 1001, 1, "a message over the agreed limit"),
        (Flags::FROM_CALLER, 1, 0, 5, "more calls than agreed"),
        (Flags::NONE, 0, 0, 1, "a response without a call"),
        (Flags::NONE, 0, 1001, 1, "a message over the agreed limit"),
    ];
    for (flags, tag, bytes, times, what) in rules {
        let mut world = World::connected();
        world.server.log.keeps_requests = true;
        let number = world.number_at_server();
        for _ in 0..times {
            world.put_into_servers_mailbox(number, flags, tag, &vec![0; bytes]);
        }
        world.turn();
        assert_eq!(world.server.log.down.len(), 1, "{what}");
        assert_eq!(world.server.log.down[0].1, DownReason::Violation { what });
        assert_eq!(world.caller.log.down.len(), 1, "the peer is told");
    }
}

#[test]
fn what_is_not_of_a_session_is_dropped_and_counted() {
    let mut world = World::connected();
    world.put_into_servers_mailbox(WireSession(0x1234_0000), Flags::FROM_CALLER, 1, b"x");
    let junk = Letter { head: vec![0xff; 30], payload: Vec::new() };
    world.post.boxes()[1].letters.push_back(junk);
    world.turn();
    let counters = &world.server.transport.counters;
    assert_eq!((counters.unknown_sessions.get(), counters.malformed.get()), (1, 1));
    assert!(world.server.log.requests.is_empty() && world.server.log.down.is_empty());
}
