//! Endpoints that are turned or waited on sleep when there is nothing to do, and not when there was.

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use common::counters::sum_of;
use common::life::alone;
use common::{LONG, Pair, settings, transports, transports_without_launcher};
use farcall::bootstrap::Bootstrap;
use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Outcome, Profile, Tasks};
use farcall::{Endpoint, Event, Node, Sending, Service, Tag, TransportKind};

const SILENT: Service = Service(1);

const TAG: Tag = Tag(1);
const OTHER_TAG: Tag = Tag(2);

/// More turns than the idle policy lets pass before it sleeps.
const TURNS_MAX: usize = 10_000;

#[test]
fn an_endpoint_that_is_turned_sleeps_again_after_a_peer_left() {
    let _alone = alone();
    let settings = settings(&["endpoint.idle=block", "endpoint.spin_time=0us"]);
    for kind in transports().filter(|kind| !TransportKind::LIBRARIES.contains(kind)) {
        println!("over {kind}");
        let node = Node::new(Bootstrap::alone(), settings.clone());
        let server = node.endpoint_with(kind, &settings).expect("an endpoint");
        let client = node.endpoint_with(kind, &settings).expect("an endpoint");
        let called = client.peer_endpoint(0, 0).expect("it is here");
        let answer = client.call(called, SILENT, b"").within(LONG).start().expect("room");
        while client.calls_in_flight() > 0 {
            server.turn();
            client.turn();
        }
        drop(answer);
        let label = format!("{kind}#0");
        drop(client);
        while sum_of(&label, "peers_lost") == 0 {
            server.turn();
        }
        let before = sum_of(&label, "sleeps");
        let slept = (0..TURNS_MAX).any(|_| {
            server.turn();
            sum_of(&label, "sleeps") > before
        });
        assert!(slept, "{kind}: it polls for ever");
        let mut told = 0;
        server.poll(|_, event| told += usize::from(matches!(event, Event::PeerDown { .. })));
        assert_eq!(told, 1, "{kind}: whoever asks is told all the same");
    }
}

#[test]
fn a_turn_that_ends_a_call_or_a_session_says_that_it_did_something() {
    let _alone = alone();
    let settings = settings(&["endpoint.peer_timeout=200ms"]);
    for kind in transports() {
        println!("over {kind}");
        let pair = Pair::new(kind, settings.clone(), |server| {
            let mut unanswered = Vec::new();
            server.serve(SILENT, move |_, reply| unanswered.push(reply.defer().0));
        });
        let client = &pair.client;
        client.wait_for(pair.server).expect("the server is there");
        let call = client.call(pair.server, SILENT, b"").within(Duration::from_millis(1));
        call.post(1).expect("room");
        let mut ends = 0;
        while ends == 0 {
            let done = client.poll(|_, event| ends += usize::from(matches!(event, Event::Completed { .. })));
            assert!(ends == 0 || done > 0, "a deadline passed in a turn that did nothing");
        }
        client.close(pair.server);
        let mut downs = 0;
        while downs == 0 {
            let done = client.poll(|_, event| downs += usize::from(matches!(event, Event::PeerDown { .. })));
            assert!(downs == 0 || done > 0, "a session ended in a turn that did nothing");
        }
    }
}

/// Two endpoints of this thread that know each other, the sender and the receiver.
fn both_ends(kind: TransportKind, settings: &Settings) -> (Endpoint, Endpoint) {
    let node = Node::new(Bootstrap::alone(), settings.clone());
    let endpoint = || node.endpoint_with(kind, settings).expect("an endpoint");
    (endpoint(), endpoint())
}

#[test]
fn a_turn_that_ends_a_send_says_that_it_did_something() {
    let _alone = alone();
    for kind in transports_without_launcher() {
        println!("over {kind}");
        let (sender, receiver) = both_ends(kind, &settings(&["ring.ring_bytes=16K"]));
        let to = sender.peer_endpoint(0, 1).expect("it is here");
        receiver.on_message(|_, _| {});
        let send = || sender.send(to, TAG, &[7; 4000]).within(LONG).start().expect("it may wait");
        let first = send();
        while !first.is_complete() {
            sender.poll(|_, _| {});
            receiver.poll(|_, _| {});
        }
        let waits = loop {
            let send = send();
            (0..20).for_each(|_| _ = sender.poll(|_, _| {}));
            if !send.is_complete() {
                break send;
            }
        };
        while !waits.is_complete() {
            receiver.poll(|_, _| {});
            let done = sender.poll(|_, _| {});
            assert!(!waits.is_complete() || done > 0, "a send ended in a turn that did nothing");
        }
    }
}

#[test]
fn who_waits_for_what_is_over_does_not_sleep() {
    let _alone = alone();
    let mut tried = Vec::new();
    for kind in transports_without_launcher() {
        println!("over {kind}");
        let settings = settings(&["endpoint.idle=block", "endpoint.spin_time=0us"]);
        let (sender, receiver) = both_ends(kind, &settings);
        let to = sender.peer_endpoint(0, 1).expect("it is here");
        receiver.on_message(|_, _| {});
        let first = sender.send(to, TAG, b"").within(LONG).start().expect("room");
        while !first.is_complete() || receiver.unconfirmed_session_with(0).is_none() {
            sender.poll(|_, _| {});
            receiver.poll(|_, _| {});
        }
        let label = format!("{kind}#0");
        // Where sends are complete when they begin.
        let leaves_at_once = |_| sender.send(to, TAG, b"").within(LONG).start().expect("room").is_complete();
        if !(0..3).all(leaves_at_once) {
            continue;
        }
        let before = sum_of(&label, "sleeps");
        for _ in 0..100 {
            sender.send(to, TAG, b"").within(LONG).wait().expect("it leaves at once");
            sender.wait_all();
            receiver.poll(|_, _| {});
        }
        assert_eq!(sum_of(&label, "sleeps"), before, "it slept with nothing to wait for");
        tried.push(kind);
    }
    assert!(tried.contains(&TransportKind::RING_SHM), "{tried:?}");
}

#[test]
fn a_turn_that_hands_on_what_was_kept_says_that_it_did_something() {
    let _alone = alone();
    for kind in transports_without_launcher() {
        println!("over {kind}");
        let (sender, receiver) = both_ends(kind, &settings(&[]));
        let to = sender.peer_endpoint(0, 1).expect("it is here");
        let from = receiver.peer_endpoint(0, 0).expect("it is here");
        let second = receiver.receive(from, OTHER_TAG).within(LONG).start().expect("room");
        let sends = [TAG, OTHER_TAG].map(|tag| sender.send(to, tag, b"").within(LONG).start().expect("room"));
        while !second.is_complete() {
            sender.poll(|_, _| {});
            receiver.poll(|_, _| {});
        }
        let handed_on = Arc::new(AtomicBool::new(false));
        let happened = Arc::clone(&handed_on);
        receiver.on_message(move |_, _| happened.store(true, Relaxed));
        while !handed_on.load(Relaxed) {
            let done = receiver.poll(|_, _| {});
            assert!(!handed_on.load(Relaxed) || done > 0, "it was handed on in a turn that did nothing");
        }
        while !sends.iter().all(Sending::is_complete) {
            sender.poll(|_, _| {});
            receiver.poll(|_, _| {});
        }
    }
}

#[test]
fn a_turn_in_which_a_session_comes_up_says_that_it_did_something() {
    let _alone = alone();
    for kind in transports_without_launcher() {
        println!("over {kind}");
        let node = Node::new(Bootstrap::alone(), settings(&[]));
        let caller = node.endpoint(kind.name()).expect("an endpoint");
        let called = node.endpoint(kind.name()).expect("an endpoint");
        caller.peer_endpoint(0, 1).expect("it is here");
        while called.unconfirmed_session_with(0).is_none() {
            caller.poll(|_, _| {});
            let done = called.poll(|_, _| {});
            assert!(
                called.unconfirmed_session_with(0).is_none() || done > 0,
                "it came up in a turn that did nothing"
            );
        }
    }
}

#[test]
fn an_endpoint_whose_waits_were_short_waits_on_awake() {
    let _alone = alone();
    // No wait of this test is as long as the most, however busy the machine is.
    let settings = settings(&["endpoint.spin_time=0us", "endpoint.spin_time_max=1s"]);
    let (sender, receiver) = both_ends(TransportKind::RING_SHM, &settings);
    let to = sender.peer_endpoint(0, 1).expect("it is here");
    let arrived = Arc::new(AtomicBool::new(false));
    let arrives = Arc::clone(&arrived);
    receiver.on_message(move |_, _| arrives.store(true, Relaxed));
    receiver.sleep_at_most(Duration::from_micros(100));
    let sleeps = || sum_of("ring+shm#1", "sleeps");
    let waits_asleep = || {
        let before = sleeps();
        receiver.turn();
        let slept = sleeps() > before;
        sender.send(to, TAG, b"").within(LONG).wait().expect("it leaves");
        while !arrived.swap(false, Relaxed) {
            sender.poll_once();
            receiver.turn();
        }
        slept
    };
    // At first it is busy with the session.
    let rounds = (0..1000).map(|_| waits_asleep()).skip_while(|asleep| !asleep);
    let (asleep, awake) = rounds.skip(100).partition::<Vec<bool>, _>(|&asleep| asleep);
    assert!(asleep.is_empty() && !awake.is_empty(), "it slept in {} of {}", asleep.len(), awake.len());
}

#[test]
fn a_simulated_host_that_takes_no_events_comes_to_rest_after_a_peer_left() {
    let profile = Profile::load("ideal").expect("an embedded profile");
    let settings = Settings::load([]).expect("defaults");
    let mut cluster = Cluster::new(profile, 2, 1, settings).expect("it has places");
    let closed = Rc::new(Cell::new(false));
    for rank in 0..2 {
        let closed = Rc::clone(&closed);
        cluster.start(rank, move |node| {
            let endpoint = node.endpoint("basic+sim").expect("a simulated host");
            let closed = Rc::clone(&closed);
            Box::new(Tasks::new(endpoint, move |endpoint| async move {
                if rank == 1 {
                    let peer = endpoint.peer(0).expect("it was started before");
                    endpoint.call(peer, SILENT, b"").await.expect_err("nobody serves it");
                    endpoint.close(peer);
                    closed.set(true);
                }
            }))
        });
    }
    let mut steps = 0;
    let outcome = cluster.run_while(|| {
        steps += 1;
        steps < 1_000_000
    });
    assert!(closed.get());
    assert_eq!(outcome, Outcome::Quiet, "hosts that have nothing to do take turns for ever");
}
