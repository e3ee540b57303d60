//! Two endpoints over up to three ways of mailboxes, which can be looked into and cut off.

use core::time::Duration;

use farcall_base::{AddressError, Entropy, Identity, Instant, NO_RANK, Principal, SessionNumbers};
use farcall_driver::{CounterFile, ProcessMark, Wait};
use farcall_protocol::matching::{Source, Tag};

use super::{Reach, Several, SeveralConfig, WayConfig};
use crate::library::post::Post;
use crate::{
    Arrived, CallId, DownReason, LibraryConfig, LibraryTransport, Matched, MatchedBatch, Message,
    MessageBatch, MessageId, NotTaken, Origin, Outbox, Posted, Refused, RequestBatch, RequestId, Response,
    ResponseBatch, SendOutcome, Service, SessionId, Sink, Status, Submitted, Transport,
};

const PEER_TIMEOUT: Duration = Duration::from_millis(100);
const SERVICE: Service = Service(1);
const CALLS_MAX: u16 = 4;

/// What one side was told; answers every request with its payload unless it keeps them.
#[derive(Default)]
struct Log {
    up: Vec<SessionId>,
    /// Of the peers of these.
    incarnations: Vec<u64>,
    down: Vec<(SessionId, DownReason)>,
    moved: Vec<SessionId>,
    /// The payloads of requests that ran, and where they came from.
    ran: Vec<(SessionId, Vec<u8>)>,
    kept: Vec<RequestId>,
    keeps_requests: bool,
    answers: Vec<(CallId, Vec<u8>)>,
    received: Vec<(MessageId, Vec<u8>)>,
    /// Receives that are posted when a session has lost its way.
    posts_when_moved: Vec<(MessageId, Origin)>,
    sent: Vec<(MessageId, SendOutcome)>,
}

impl Sink for Log {
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        let session = requests.session();
        requests.for_each(|id, payload| {
            self.ran.push((session, payload.as_slice().to_vec()));
            if self.keeps_requests {
                self.kept.push(id);
            } else {
                outbox.reply(id, Status::Ok, payload.as_slice());
            }
        });
    }

    fn responses(&mut self, _: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        while let Some(Response { call, payload, .. }) = responses.take() {
            self.answers.push((call, payload.as_slice().to_vec()));
        }
    }

    fn received(&mut self, messages: &mut MatchedBatch<'_, '_>) {
        messages.take_while(|Matched { receive, payload, .. }| {
            self.received.push((*receive, payload.as_slice().to_vec()));
            true
        });
    }

    fn messages(&mut self, _: &mut dyn Outbox, messages: &mut MessageBatch<'_>) {
        messages.take_while(|Message { payload, .. }| panic!("{payload:?} has no receive"));
    }

    fn sent(&mut self, _: &mut dyn Outbox, send: MessageId, outcome: SendOutcome) {
        self.sent.push((send, outcome));
    }

    fn session_up(&mut self, _: &mut dyn Outbox, session: SessionId, peer: Identity, _: &Principal) {
        self.up.push(session);
        self.incarnations.push(peer.incarnation);
    }

    fn session_down(&mut self, _: &mut dyn Outbox, session: SessionId, reason: &DownReason) {
        self.down.push((session, reason.clone()));
    }

    fn session_moved(&mut self, outbox: &mut dyn Outbox, session: SessionId) {
        self.moved.push(session);
        for (receive, from) in self.posts_when_moved.drain(..) {
            let posted = outbox.post(receive, Some(from), Some(Tag(4)), 64, &mut |_, _, _, message| {
                panic!("{message:?} is not here yet");
            });
            assert_eq!(posted, Posted::Waiting);
        }
    }
}

/// The fabrics: a post each.
#[derive(Default)]
struct Posts([Post; 3]);

const NAMES: [&str; 3] = ["first", "second", "third"];

struct End {
    transport: Several,
    log: Log,
}

impl Posts {
    /// An endpoint of that life over these ways, on that machine; the first way reaches no other one.
    fn end(&self, rank: u32, incarnation: u64, machine: u64, ways: &[usize]) -> End {
        let identity = Identity { incarnation, rank, endpoint: 0 };
        let bits = Several::part_bits(ways.len());
        let way = |(place, &way): (usize, &usize)| {
            let config = LibraryConfig {
                message_bytes_max: 1000,
                calls_max: CALLS_MAX,
                peer_timeout: PEER_TIMEOUT,
                unexpected_bytes: 64 << 10,
                loan_bytes_max: 1 << 20,
                ranks: u32::MAX,
                sessions_max: 4096,
                sessions_per_host: 1024,
                numbers: SessionNumbers::part(place as u32, bits),
            };
            let (entropy, counters) = (Entropy::repeatable(9 + way as u64), CounterFile::process());
            let library = self.0[way].open();
            let transport = LibraryTransport::new(library, identity, entropy, &config, counters, "way");
            WayConfig {
                name: NAMES[way],
                reach: if way == 0 { Reach::Machine } else { Reach::Network },
                polls_always: false,
                transport: Box::new(transport.expect("a valid configuration")),
            }
        };
        let ways = ways.iter().enumerate().map(way).collect();
        let config =
            SeveralConfig { machine, process: ProcessMark::default(), absent: Vec::new(), part_bits: bits };
        let transport = Several::new(ways, config, CounterFile::process(), "several");
        End { transport: transport.expect("short addresses"), log: Log::default() }
    }

    /// What is sent over this way reaches nobody from now on.
    fn cut(&self, way: usize) {
        self.0[way].boxes().iter_mut().for_each(|mailbox| {
            mailbox.is_deaf = true;
            mailbox.letters.clear();
        });
    }
}

/// A caller and a server, in a world whose time is a number.
struct World {
    posts: Posts,
    caller: End,
    server: End,
    session: SessionId,
    now: Instant,
}

impl World {
    fn new(ranks: [u32; 2], callers: &[usize], servers: &[usize]) -> Self {
        let posts = Posts::default();
        let (mut caller, server) = (posts.end(ranks[0], 5, 1, callers), posts.end(ranks[1], 6, 1, servers));
        let now = Instant::from_nanos(1);
        let session = caller.transport.connect(&server.transport.address(), None, now).expect("a way");
        Self { posts, caller, server, session, now }
    }

    fn with_ranks(callers: &[usize], servers: &[usize]) -> Self {
        Self::new([0, 1], callers, servers)
    }

    /// As a service and its client.
    fn without_ranks(callers: &[usize], servers: &[usize]) -> Self {
        Self::new([NO_RANK; 2], callers, servers)
    }

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

    fn call(&mut self, call: u32, payload: &[u8]) -> Submitted {
        self.caller.transport.call(self.session, CallId(call), SERVICE, payload)
    }

    fn way(&self) -> &'static str {
        self.caller.transport.taken_way(self.session).expect("it has one").way
    }

    fn reasons(&self) -> Vec<NotTaken> {
        self.caller.transport.taken_way(self.session).expect("it has a way").not_taken
    }

    fn answers(&self) -> Vec<(CallId, Vec<u8>)> {
        self.caller.log.answers.clone()
    }
}

fn answer(call: u32, payload: &[u8]) -> (CallId, Vec<u8>) {
    (CallId(call), payload.to_vec())
}

#[test]
fn a_session_takes_the_first_way_and_says_why_not_the_others() {
    let mut world = World::with_ranks(&[0, 1, 2], &[0, 2]);
    world.turn();
    assert_eq!(world.caller.log.up, [world.session]);
    assert_eq!(world.way(), "first");
    let reasons: Vec<_> = world.reasons().into_iter().map(|other| (other.way, other.why)).collect();
    assert_eq!(
        reasons,
        [("second", "the peer does not have it".to_owned()), ("third", "first is preferred".to_owned())]
    );
    assert_eq!(world.call(1, b"hello"), Submitted::Sent);
    world.turn();
    assert_eq!(world.answers(), [answer(1, b"hello")]);
}

#[test]
fn a_way_that_reaches_one_machine_is_not_tried_to_another() {
    let posts = Posts::default();
    let (mut near, far) = (posts.end(0, 5, 1, &[0, 1]), posts.end(1, 6, 2, &[0, 1]));
    let now = Instant::from_nanos(1);
    let session = near.transport.connect(&far.transport.address(), None, now).expect("a way");
    let taken = near.transport.taken_way(session).expect("it has one");
    assert_eq!(taken.way, "second");
    assert_eq!(taken.not_taken[0].why, "it reaches this machine only, and the peer is on another");
}

#[test]
fn ends_without_a_common_way_say_so() {
    let posts = Posts::default();
    let (mut one, two) = (posts.end(0, 5, 1, &[0]), posts.end(1, 6, 2, &[0, 1]));
    let error =
        one.transport.connect(&two.transport.address(), None, Instant::from_nanos(1)).expect_err("no way");
    let AddressError::NoWay { why } = error else { panic!("{error}") };
    assert_eq!(why, "first: it reaches this machine only, and the peer is on another");
}

#[test]
fn calls_made_while_an_attempt_fails_run_once_over_the_next_way() {
    let mut world = World::with_ranks(&[0, 1], &[0, 1]);
    world.posts.cut(0);
    for call in 0..u32::from(CALLS_MAX) {
        assert_eq!(world.call(call, &[call as u8]), Submitted::Queued);
    }
    let calls_max = usize::from(CALLS_MAX);
    assert_eq!(world.call(9, b"one too many"), Submitted::Refused(Refused::TooManyCalls { calls_max }));
    world.caller.transport.cancel(world.session, CallId(2));
    world.pass(4 * PEER_TIMEOUT);
    assert_eq!(world.answers(), [answer(0, &[0]), answer(1, &[1]), answer(3, &[3])]);
    assert_eq!(world.caller.log.up, [world.session]);
    assert_eq!((world.way(), world.caller.log.down.len()), ("second", 0));
    assert_eq!(world.reasons()[0].why, "nobody answers at the peer's address");
    assert_eq!(world.server.log.ran.len(), 3, "each once");
}

#[test]
fn a_session_for_which_no_way_answers_ends_with_all_that_waited() {
    let mut world = World::with_ranks(&[0, 1], &[0, 1]);
    (0..2).for_each(|way| world.posts.cut(way));
    let sent = world.caller.transport.send(world.session, MessageId(3), Tag(1), b"lost");
    assert_eq!(sent, Submitted::Queued);
    world.pass(4 * PEER_TIMEOUT);
    assert_eq!(world.caller.log.down, [(world.session, DownReason::Unreachable)]);
    assert_eq!(world.caller.log.sent, [(MessageId(3), Err(DownReason::Unreachable))]);
    assert_eq!(world.call(1, b""), Submitted::DOWN);
}

#[test]
fn a_session_whose_way_breaks_goes_on_over_another_and_nothing_runs_twice() {
    let mut world = World::without_ranks(&[0, 1], &[0, 1]);
    world.turn();
    world.server.log.keeps_requests = true;
    assert_eq!(world.call(1, b"in flight"), Submitted::Sent);
    world.turn();
    assert_eq!(world.server.log.ran.len(), 1);
    world.posts.cut(0);
    world.pass(4 * PEER_TIMEOUT);
    assert_eq!(world.caller.log.moved, [world.session], "what was in flight is over");
    assert_eq!((world.way(), world.caller.log.down.len()), ("second", 0));
    assert!(world.reasons()[0].why.starts_with("it broke: "), "{:?}", world.reasons());
    world.server.log.keeps_requests = false;
    let late = world.server.log.kept.pop().expect("it was kept");
    world.server.transport.reply(late, Status::Ok, b"too late");
    assert_eq!(world.call(2, b"behind it"), Submitted::Sent);
    world.turn();
    assert_eq!(world.answers(), [answer(2, b"behind it")]);
    let ran: Vec<_> = world.server.log.ran.iter().map(|(_, payload)| payload.clone()).collect();
    assert_eq!(ran, [b"in flight".to_vec(), b"behind it".to_vec()]);
}

#[test]
fn a_reply_to_a_request_of_a_broken_way_goes_nowhere_also_where_the_numbers_are_the_same() {
    // Here the server calls, over the session that the caller has opened.
    let mut world = World::without_ranks(&[0, 1], &[0, 1]);
    world.turn();
    world.caller.log.keeps_requests = true;
    let back = world.server.log.up[0];
    assert_eq!(world.server.transport.call(back, CallId(1), SERVICE, b"old"), Submitted::Sent);
    world.turn();
    world.posts.cut(0);
    world.pass(4 * PEER_TIMEOUT);
    let back = *world.server.log.up.last().expect("it came again");
    assert_eq!(world.server.transport.call(back, CallId(1), SERVICE, b"new"), Submitted::Sent);
    world.turn();
    assert_eq!(world.caller.log.ran.last(), Some(&(world.session, b"new".to_vec())), "of the same peer");
    let old = world.caller.log.kept.remove(0);
    world.caller.transport.reply(old, Status::Ok, b"to the old");
    world.turn();
    assert_eq!(world.server.log.answers, []);
    let new = world.caller.log.kept.remove(0);
    world.caller.transport.reply(new, Status::Ok, b"to the new");
    world.turn();
    assert_eq!(world.server.log.answers, [answer(1, b"to the new")]);
}

#[test]
fn a_peer_that_was_restarted_meanwhile_is_not_taken_for_the_former_one() {
    let mut world = World::with_ranks(&[0, 1], &[0, 1]);
    world.turn();
    // Another life, which gets what is sent to the former one.
    let mut next = world.posts.end(1, 77, 1, &[0, 1]);
    world.posts.cut(0);
    for _ in 0..400 {
        world.now += PEER_TIMEOUT / 50;
        world.caller.transport.poll(world.now, &mut world.caller.log);
        if let [_, former, later, ..] = &mut world.posts.0[1].boxes()[..] {
            later.letters.append(&mut former.letters);
        }
        next.transport.poll(world.now, &mut next.log);
    }
    assert_eq!(world.caller.log.down, [(world.session, DownReason::Restarted)]);
    // Its rights are not those of the former one, in the moment that it is there.
    assert_eq!(world.caller.log.incarnations.last(), Some(&77));
}

#[test]
fn a_peer_that_takes_a_session_and_breaks_it_again_and_again_has_it_end_and_a_poor_network_does_not() {
    for (apart, ends) in [(PEER_TIMEOUT, true), (20 * PEER_TIMEOUT, false)] {
        let mut world = World::without_ranks(&[0, 1], &[0, 1]);
        world.turn();
        for _ in 0..100 {
            for post in &world.posts.0[..2] {
                let caller = &mut post.boxes()[0];
                caller.lost.extend(caller.known.clone());
            }
            world.pass(apart);
        }
        let (moved, down) = (world.caller.log.moved.len(), &world.caller.log.down);
        if ends {
            assert_eq!((moved, &down[..]), (8, &[(world.session, DownReason::Dead)][..]));
        } else {
            assert_eq!((moved, down.len()), (100, 0));
            let former = &world.caller.transport.shared.asked[&world.session].former;
            assert!(former.len() <= 64, "{} ways that it had", former.len());
        }
    }
}

/// All poll until nothing is in flight.
fn turn_all(ends: &mut [&mut End], now: Instant) {
    for _ in 0..8 {
        ends.iter_mut().for_each(|end| {
            end.transport.poll(now, &mut end.log);
        });
    }
}

/// Posts a receive that waits.
fn post(end: &mut End, receive: u32, from: Option<Origin>, tag: u32) {
    let mut deliver = |_: &mut dyn Outbox, _: SessionId, _: Tag, message: Arrived<'_>| {
        panic!("{message:?} is not here yet");
    };
    let posted = end.transport.post(MessageId(receive), from, Some(Tag(tag)), 64, &mut deliver);
    assert_eq!(posted, Posted::Waiting);
}

#[test]
fn a_receive_from_anywhere_gets_one_message_whichever_way_it_comes() {
    let posts = Posts::default();
    let mut server = posts.end(0, 5, 1, &[0, 1]);
    let (mut one, mut two) = (posts.end(1, 6, 1, &[0]), posts.end(2, 7, 1, &[1]));
    let now = Instant::from_nanos(1);
    // Both before any way has a session.
    post(&mut server, 10, None, 4);
    post(&mut server, 11, None, 4);
    let address = server.transport.address();
    let to = [&mut one, &mut two].map(|end| end.transport.connect(&address, None, now).expect("a way"));
    turn_all(&mut [&mut one, &mut two, &mut server], now);
    let _ = two.transport.send(to[1], MessageId(1), Tag(4), b"of two");
    turn_all(&mut [&mut one, &mut two, &mut server], now);
    let _ = one.transport.send(to[0], MessageId(1), Tag(4), b"of one");
    turn_all(&mut [&mut one, &mut two, &mut server], now);
    let expected = [(MessageId(10), b"of two".to_vec()), (MessageId(11), b"of one".to_vec())];
    assert_eq!(server.log.received, expected, "the oldest receive first, each once");
    post(&mut server, 12, None, 4);
    assert!(server.transport.cancel_receive(MessageId(12)), "it waits");
    assert!(!server.transport.cancel_receive(MessageId(12)), "and was taken back everywhere");
}

#[test]
fn a_receive_from_a_peer_gets_its_message_also_when_its_session_was_moved() {
    for (ranks, rank) in [([0, 1], 1), ([NO_RANK; 2], NO_RANK)] {
        let mut world = World::new(ranks, &[0, 1], &[0, 1]);
        world.turn();
        let from = Origin::new(Source::new(rank, 0, world.session.0), world.session);
        post(&mut world.caller, 20, Some(from), 4);
        // This one is here before the way breaks, and is received behind that.
        let back = world.server.log.up[0];
        let _ = world.server.transport.send(back, MessageId(1), Tag(5), b"older");
        world.turn();
        world.posts.cut(0);
        world.pass(4 * PEER_TIMEOUT);
        let back = *world.server.log.up.last().expect("it came again");
        let _ = world.server.transport.send(back, MessageId(2), Tag(4), b"after the move");
        let _ = world.server.transport.send(back, MessageId(3), Tag(5), b"younger");
        world.turn();
        assert_eq!(world.caller.log.received, [(MessageId(20), b"after the move".to_vec())]);
        for expected in [&b"older"[..], b"younger"] {
            let mut got = None;
            let mut deliver = |_: &mut dyn Outbox, session: SessionId, _: Tag, message: Arrived<'_>| {
                got = Some((session, message.as_slice().to_vec()));
            };
            let outbox = &mut world.caller.transport;
            let posted = outbox.post(MessageId(21), Some(from), Some(Tag(5)), 64, &mut deliver);
            assert_eq!(posted, Posted::Delivered);
            assert_eq!(got, Some((world.session, expected.to_vec())));
        }
    }
}

/// The sessions of a caller with these two, opened in this order.
fn connect_both(caller: &mut End, servers: [&mut End; 2], now: Instant) -> [SessionId; 2] {
    servers.map(|server| caller.transport.connect(&server.transport.address(), None, now).expect("a way"))
}

#[test]
fn receives_from_two_peers_wait_while_both_sessions_change_ways_in_one_poll() {
    for (ranks, is_up_before) in
        [([0, 1, 2], false), ([0, 1, 2], true), ([NO_RANK; 3], false), ([NO_RANK; 3], true)]
    {
        let posts = Posts::default();
        let [mut caller, mut one, mut two] = [(ranks[0], 5), (ranks[1], 6), (ranks[2], 7)]
            .map(|(rank, life)| posts.end(rank, life, 1, &[0, 1]));
        let mut now = Instant::from_nanos(1);
        if !is_up_before {
            posts.cut(0);
        }
        let sessions = connect_both(&mut caller, [&mut one, &mut two], now);
        if is_up_before {
            turn_all(&mut [&mut caller, &mut one, &mut two], now);
        }
        for (place, session) in sessions.into_iter().enumerate() {
            let from = Origin::new(Source::new(ranks[place + 1], 0, session.0), session);
            post(&mut caller, 30 + place as u32, Some(from), 4);
        }
        posts.cut(0);
        for _ in 0..400 {
            now += PEER_TIMEOUT / 100;
            turn_all(&mut [&mut caller, &mut one, &mut two], now);
        }
        for (server, text) in [(&mut one, b"one"), (&mut two, b"two")] {
            let back = *server.log.up.last().expect("it came over the other way");
            let _ = server.transport.send(back, MessageId(1), Tag(4), text);
        }
        turn_all(&mut [&mut one, &mut two, &mut caller], now);
        let expected = [(MessageId(30), b"one".to_vec()), (MessageId(31), b"two".to_vec())];
        caller.log.received.sort();
        assert_eq!(caller.log.received, expected, "{ranks:?}, up before: {is_up_before}");
    }
}

#[test]
fn a_receive_that_is_posted_while_its_session_has_no_way_waits_and_can_be_taken_back() {
    let mut world = World::with_ranks(&[0, 1], &[0, 1]);
    world.turn();
    let session = world.session;
    let from = Origin::new(Source::new(1, 0, session.0), session);
    world.caller.log.posts_when_moved = vec![(MessageId(40), from), (MessageId(41), from)];
    world.posts.cut(0);
    world.pass(4 * PEER_TIMEOUT);
    assert_eq!(world.caller.log.moved, [session]);
    assert!(world.caller.transport.cancel_receive(MessageId(40)), "it waits");
    assert!(!world.caller.transport.cancel_receive(MessageId(40)), "and was taken back everywhere");
    let back = *world.server.log.up.last().expect("it came again");
    let _ = world.server.transport.send(back, MessageId(2), Tag(4), b"after the move");
    world.turn();
    assert_eq!(world.caller.log.received, [(MessageId(41), b"after the move".to_vec())]);
}

#[test]
fn a_session_that_is_closed_while_it_opens_is_not_tried_elsewhere() {
    let mut world = World::with_ranks(&[0, 1], &[0, 1]);
    world.posts.cut(0);
    world.caller.transport.close(world.session, world.now);
    world.pass(4 * PEER_TIMEOUT);
    assert_eq!(world.caller.log.down, [(world.session, DownReason::Closed)]);
    assert_eq!(world.server.log.up, []);
}

#[test]
fn a_way_that_is_not_in_use_is_polled_now_and_then_and_before_a_wait() {
    let mut world = World::with_ranks(&[0, 1], &[0, 1]);
    world.turn();
    // Until the second way is not in use any more.
    for _ in 0..5000 {
        world.server.transport.poll(world.now, &mut world.server.log);
    }
    let mut other = world.posts.end(2, 9, 1, &[1]);
    let address = world.server.transport.address();
    let _ = other.transport.connect(&address, None, world.now).expect("a way");
    other.transport.poll(world.now, &mut other.log);
    world.server.transport.poll(world.now, &mut world.server.log);
    assert_eq!(world.server.log.up.len(), 1, "not looked at");
    world.server.transport.prepare_wait();
    for _ in 0..4 {
        world.server.transport.poll(world.now, &mut world.server.log);
        other.transport.poll(world.now, &mut other.log);
    }
    world.server.transport.finish_wait();
    assert_eq!(world.server.log.up.len(), 2);
}
