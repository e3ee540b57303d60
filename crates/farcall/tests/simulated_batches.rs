//! What ships fastest runs on the simulator too: every fast way of rings is taken there, by its counters.

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Outcome, Profile, Program};
use farcall::{Context, Endpoint, Event, Instant, Node, ReceiveOutcome, Service, Tag};

use common::counters::sum_of;

const ECHO: Service = Service(1);
const TAG: Tag = Tag(1);

/// What the sender sends in each of its turns.
const MESSAGES_PER_TURN: u64 = 32;
const CALLS_PER_TURN: u64 = 16;
const TURNS: u64 = 120;

/// Each third of the messages is received in another way.
const MESSAGES: u64 = TURNS * MESSAGES_PER_TURN;

/// Sends messages and calls, many in each turn, once a first call was answered.
struct Sender {
    endpoint: Endpoint,
    turns_left: u64,
    answered: Rc<Cell<u64>>,
}

impl Program for Sender {
    fn turn(&mut self) -> usize {
        let peer = self.endpoint.peer(0).expect("it was started before");
        if self.turns_left == TURNS + 1 {
            self.turns_left -= 1;
            self.endpoint.call(peer, ECHO, b"up?").post(0).expect("under the limit");
        } else if self.turns_left > 0 && self.answered.get() > 0 {
            self.turns_left -= 1;
            for number in 0..MESSAGES_PER_TURN {
                self.endpoint.send(peer, TAG, &number.to_le_bytes()).post(0).expect("there is room");
            }
            for number in 0..CALLS_PER_TURN {
                self.endpoint.call(peer, ECHO, &number.to_le_bytes()).post(0).expect("under the limit");
            }
        }
        self.endpoint.poll(|_, event| {
            if let Event::Completed { outcome, .. } = event {
                assert!(outcome.is_ok());
                self.answered.set(self.answered.get() + 1);
            }
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.turns_left > 0 && self.answered.get() > 0 {
            Some(Instant::ZERO)
        } else {
            self.endpoint.next_deadline()
        }
    }
}

/// Receives a third of the messages with many receives in flight, a third with one, and the rest with a
/// handler.
struct Receiver {
    endpoint: Endpoint,
    posted: u64,
    received: Arc<AtomicU64>,
    is_handling: bool,
}

impl Receiver {
    fn new(node: &Node, received: Arc<AtomicU64>) -> Self {
        let endpoint = node.endpoint("ring+sim").expect("a simulated host");
        endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
        Self { endpoint, posted: 0, received, is_handling: false }
    }

    /// Asks for the next message with a callback, which runs at once if the message is there.
    fn post(&mut self) {
        let received = Arc::clone(&self.received);
        let peer = self.endpoint.peer(1).expect("it has sent a message");
        let callback = move |_: &mut Context<'_>, outcome: &ReceiveOutcome<'_>| {
            assert!(outcome.is_ok());
            received.fetch_add(1, Ordering::Relaxed);
        };
        self.endpoint.receive(peer, TAG).now_or_then(callback).expect("there is room");
        self.posted += 1;
    }

    fn handle_the_rest(&mut self) {
        let received = Arc::clone(&self.received);
        self.endpoint.on_message(move |_, _| _ = received.fetch_add(1, Ordering::Relaxed));
        self.is_handling = true;
    }
}

impl Program for Receiver {
    fn turn(&mut self) -> usize {
        let is_over = |posted, first: u64| posted == first && self.received.load(Ordering::Relaxed) == first;
        let (in_flight_max, until) = match self.posted {
            posted if posted < MESSAGES / 3 => (MESSAGES_PER_TURN, MESSAGES / 3),
            posted if posted == MESSAGES / 3 && !is_over(posted, MESSAGES / 3) => (0, posted),
            _ => (1, MESSAGES / 3 * 2),
        };
        if !self.is_handling && is_over(self.posted, MESSAGES / 3 * 2) {
            self.handle_the_rest();
        }
        while self.posted < until && self.posted - self.received.load(Ordering::Relaxed) < in_flight_max {
            self.post();
        }
        self.endpoint.poll(|_, _| {})
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.endpoint.next_deadline()
    }
}

#[test]
fn every_fast_way_of_rings_is_taken_on_the_simulated_fabric() {
    let profile = Profile::load("ideal").expect("an embedded profile");
    let mut cluster =
        Cluster::new(profile, 2, 1, Settings::load([]).expect("defaults")).expect("it has places");
    let (received, answered) = (Arc::new(AtomicU64::new(0)), Rc::new(Cell::new(0)));
    let of_receiver = Arc::clone(&received);
    cluster.start(0, move |node| Box::new(Receiver::new(&node, Arc::clone(&of_receiver))));
    let of_sender = Rc::clone(&answered);
    cluster.start(1, move |node| {
        let endpoint = node.endpoint("ring+sim").expect("a simulated host");
        Box::new(Sender { endpoint, turns_left: TURNS + 1, answered: Rc::clone(&of_sender) })
    });
    let calls = TURNS * CALLS_PER_TURN + 1;
    let goes_on = || received.load(Ordering::Relaxed) < MESSAGES || answered.get() < calls;
    assert_eq!(cluster.run_while(goes_on), Outcome::Done);
    let count = |name| sum_of("", name);
    for name in ["request_batches", "response_batches", "matched_batches", "message_batches"] {
        assert!(count(name) > 0, "{name}: {}", count(name));
    }
    assert!(count("received_in_place") > 0, "no message was received where it was deferred");
    assert_eq!((count("messages_sent"), count("waited_for_room")), (MESSAGES, 0), "all calls left at once");
    assert!(count("unexpected") < MESSAGES / 4, "receives were posted before their messages were kept");
}
