//! What a rank gave before it left is not lost.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{LONG, pattern};
use farcall::bootstrap::{Bootstrap, LocalRanks};
use farcall::parameters::Settings;
use farcall::{AnySource, Endpoint, Event, Node, Service, Tag, TransportKind};

const ECHO: Service = Service(1);

fn endpoint(ranks: &LocalRanks, rank: u32, kind: TransportKind) -> Endpoint {
    let node = Node::new(Bootstrap::among(ranks, rank, u64::from(rank) + 1), Settings::default());
    node.endpoint(kind.name()).expect("an endpoint")
}

#[test]
fn answers_given_before_a_rank_leaves_arrive() {
    for &kind in TransportKind::ALL {
        for length in [0, 100, 5000] {
            println!("{kind}, {length} bytes");
            let ranks = LocalRanks::new(2);
            let server = endpoint(&ranks, 0, kind);
            let client = endpoint(&ranks, 1, kind);
            let served = Arc::new(AtomicBool::new(false));
            let serving = Arc::clone(&served);
            server.serve(ECHO, move |request, reply| {
                serving.store(true, Ordering::Relaxed);
                reply.send(request.payload());
            });
            let sent = pattern(1, length);
            let peer = client.peer(0).expect("the server is known");
            client.call(peer, ECHO, &sent).within(LONG).post(7).expect("it can be called");
            while !served.load(Ordering::Relaxed) {
                client.turn();
                server.turn();
            }
            drop(server);
            let mut answered = false;
            while !answered {
                client.poll(|_, event| {
                    if let Event::Completed { token: 7, outcome } = event {
                        let answer = outcome.as_ref().expect("it was answered before the server left");
                        assert_eq!(&answer[..], &sent[..]);
                        answered = true;
                    }
                });
            }
        }
    }
}

/// Sends two messages, of which the first is received, and leaves.
fn leave_a_message(sender: Endpoint, receiver: &Endpoint) {
    let peer = sender.peer(0).expect("the receiver is known");
    let first = sender.send(peer, Tag(1), b"first").within(LONG).start().expect("room");
    let second = sender.send(peer, Tag(2), b"second").within(LONG).start().expect("room");
    let posted = receiver.receive(AnySource, Tag(1)).within(LONG).start().expect("room");
    while receiver.receives_in_flight() > 0 || sender.sends_in_flight() > 0 {
        sender.turn();
        receiver.turn();
    }
    assert_eq!((first.wait(), second.wait()), (Ok(()), Ok(())));
    assert_eq!(posted.wait().expect("it is here").peer().rank(), 1);
    drop(sender);
    wait_for_the_end_of_a_session(receiver);
}

fn wait_for_the_end_of_a_session(endpoint: &Endpoint) {
    let mut is_down = false;
    while !is_down {
        endpoint.poll(|_, event| is_down |= matches!(event, Event::PeerDown { .. }));
    }
}

#[test]
fn messages_of_a_rank_that_has_left_say_whom_they_are_from() {
    for &kind in TransportKind::ALL {
        println!("{kind}");
        let ranks = LocalRanks::new(2);
        let receiver = endpoint(&ranks, 0, kind);
        leave_a_message(endpoint(&ranks, 1, kind), &receiver);
        let late = receiver.receive(AnySource, Tag(2)).within(LONG).wait().expect("it was kept");
        assert_eq!((late.peer().rank(), late.peer().endpoint()), (1, 0), "{kind}");
    }
}

/// More than the ended sessions that anybody remembers.
const SESSIONS: u32 = 70;

#[test]
fn messages_of_a_rank_that_is_forgotten_are_forgotten_too() {
    for &kind in TransportKind::ALL {
        println!("{kind}");
        let ranks = LocalRanks::new(3);
        let receiver = endpoint(&ranks, 0, kind);
        leave_a_message(endpoint(&ranks, 1, kind), &receiver);
        let _other = endpoint(&ranks, 2, kind);
        for _ in 0..SESSIONS {
            // Before it is up.
            receiver.close(receiver.peer(2).expect("the other is known"));
            wait_for_the_end_of_a_session(&receiver);
        }
        let late = receiver.receive(AnySource, Tag(2)).within(LONG).start().expect("room");
        receiver.turn();
        if let Ok(late) = late.ready() {
            panic!("{kind}: a message from {:?}", late.map(|late| late.peer()));
        }
    }
}

#[test]
fn what_a_delayed_lane_holds_back_arrives_although_its_rank_leaves_or_closes() {
    for closes in [false, true] {
        let ranks = LocalRanks::new(2);
        let receiver = endpoint(&ranks, 0, TransportKind::RING_SHM);
        let settings = ["fault.delay_permille=1000", "fault.delay_time=1s"];
        let mut delayed = Settings::default();
        settings.iter().for_each(|setting| delayed.assign(setting).expect("a setting"));
        let node = Node::new(Bootstrap::among(&ranks, 1, 2), delayed);
        let sender = node.endpoint("ring+shm").expect("an endpoint");
        let peer = sender.peer(0).expect("the receiver is known");
        let sent = sender.send(peer, Tag(1), b"late").within(LONG).start().expect("room");
        while sender.sends_in_flight() > 0 {
            sender.turn();
            receiver.turn();
        }
        assert_eq!(sent.wait(), Ok(()));
        let late = receiver.receive(AnySource, Tag(1)).within(LONG).start().expect("room");
        if closes {
            sender.close(peer);
            wait_for_the_end_of_a_session(&sender);
        } else {
            drop(sender);
        }
        wait_for_the_end_of_a_session(&receiver);
        assert_eq!(
            &late.ready().ok().expect("it is here").expect("a message")[..],
            b"late",
            "closes: {closes}"
        );
    }
}
