//! What survivors see when a process of their cluster is killed, and what it leaves behind: nothing.

mod common;

use std::time::{Duration, Instant};

use common::counters::sum_of;
use common::life::{Cluster, MORTAL, SURVIVOR, alone, mortal, role};
use common::litter::{all_socket_names, holdings, named_shared_memory, socket_names};
use common::victim::{ECHO, KEEP, serve, talk_until_death};
use common::{LONG, and_auto, pattern, transports_without_launcher};
use farcall::{CallError, DownReason, Endpoint, Event};

/// The default limit of silence, and time for a busy machine.
const REPORTED_WITHIN: Duration = Duration::from_secs(1 + 9);

/// Turns until this process holds no more than `before`: letting go may take a moment after the report.
fn wait_until_let_go(endpoint: &Endpoint, before: &std::collections::BTreeMap<String, usize>) {
    let deadline = Instant::now() + LONG;
    while holdings() != *before {
        assert!(Instant::now() < deadline, "held before: {before:#?}; still held: {:#?}", holdings());
        endpoint.turn();
    }
}

#[test]
fn a_killed_server_is_reported_and_all_calls_to_it_end() {
    if role().is_some() {
        return serve();
    }
    let _alone = alone();
    for kind in and_auto(transports_without_launcher()) {
        let cluster = Cluster::new("a_killed_server_is_reported_and_all_calls_to_it_end", kind, &[]);
        let before = holdings();
        let mut server = cluster.start("server");
        let peer = cluster.endpoint.peer(MORTAL).expect("it publishes its endpoint");
        let (mut names, mut during) = (Vec::new(), before.clone());
        let end = talk_until_death(&cluster.endpoint, peer, 0, 2000, || {
            (names, during) = (socket_names(server.process()), holdings());
            server.kill();
        });
        println!("{end:?}");
        assert!(end.answered >= 2000 && end.lost >= 1, "{end:?}");
        assert_eq!((end.peer, end.reason), (peer, DownReason::Dead));
        assert!(end.after < REPORTED_WITHIN, "reported after {:?}", end.after);
        let again = cluster.endpoint.call(peer, ECHO, b"").wait().map(drop);
        assert_eq!(again, Err(CallError::PeerDown(DownReason::Dead)), "the handle stays dead");

        if kind.name().ends_with("+shm") {
            assert!(during != before && !names.is_empty(), "shared memory takes descriptors and a socket");
        }
        wait_until_let_go(&cluster.endpoint, &before);
        let left = all_socket_names();
        assert!(names.iter().all(|name| !left.contains(name)), "{names:?} are left");
        assert_eq!(named_shared_memory(), Vec::<String>::new());
    }
}

/// Calls the survivor until it is killed, with long payloads and calls that are never answered.
fn call_until_killed() {
    let (_node, endpoint, _log) = mortal();
    let peer = endpoint.peer(SURVIVOR).expect("it publishes its endpoint");
    let _never = endpoint.call(peer, KEEP, pattern(1, 300_000)).within(LONG).start().expect("room");
    loop {
        let page = endpoint.loan(100_000).expect("loans come back");
        endpoint.call(peer, ECHO, page).within(LONG).wait().expect("the survivor answers");
    }
}

#[test]
fn a_server_outlives_killed_clients_and_serves_others() {
    match role().as_deref() {
        None => (),
        Some("victim") => return call_until_killed(),
        Some(_) => {
            let (_node, endpoint, _log) = mortal();
            let peer = endpoint.peer(SURVIVOR).expect("it publishes its endpoint");
            let answer = endpoint.call(peer, ECHO, pattern(2, 200_000)).within(LONG).wait();
            return assert!(*answer.expect("the survivor serves others") == pattern(2, 200_000)[..]);
        }
    }
    let _alone = alone();
    for kind in and_auto(transports_without_launcher()) {
        let cluster = Cluster::new("a_server_outlives_killed_clients_and_serves_others", kind, &[]);
        let requests = sum_of(kind.name(), "requests");
        cluster.endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
        let mut kept = Vec::new();
        let (keep, to_keep) = std::sync::mpsc::channel();
        cluster.endpoint.serve(KEEP, move |request, reply| {
            keep.send((request.take(), reply.defer().0)).expect("the test listens");
        });
        let before = holdings();
        let mut client = cluster.start("victim");
        cluster.endpoint.run_while(|| sum_of(kind.name(), "requests") < requests + 200);
        kept.extend(to_keep.try_iter());
        let (payload, deferred) = kept.pop().expect("the first request is kept");
        client.kill();
        let (killed_at, mut reports) = (Instant::now(), Vec::new());
        while reports.is_empty() {
            cluster.endpoint.poll_idle(|_, event| match event {
                Event::PeerDown { peer, reason } => reports.push((peer.rank(), reason)),
                other => panic!("{other:?}"),
            });
        }
        assert!(killed_at.elapsed() < REPORTED_WITHIN, "reported after {:?}", killed_at.elapsed());
        assert_eq!(reports, [(MORTAL, DownReason::Dead)]);
        assert!(*payload == pattern(1, 300_000)[..], "what was taken stays readable");
        cluster.endpoint.reply(deferred, b"to nobody");
        drop(payload);
        wait_until_let_go(&cluster.endpoint, &before);

        let other = cluster.start("other");
        other.end_well(&cluster.endpoint);
    }
}

#[test]
fn a_client_asleep_in_a_wait_is_woken_by_the_death_of_its_peer() {
    if role().is_some() {
        return serve();
    }
    let _alone = alone();
    for kind in and_auto(transports_without_launcher()) {
        let name = "a_client_asleep_in_a_wait_is_woken_by_the_death_of_its_peer";
        let cluster = Cluster::new(name, kind, &["endpoint.idle=block", "endpoint.spin_time=0us"]);
        let mut server = cluster.start("server");
        let peer = cluster.endpoint.peer(MORTAL).expect("it publishes its endpoint");
        let sleeps = sum_of(kind.name(), "sleeps");
        let killer = std::thread::spawn(move || {
            server.wait_for_line("kept");
            let deadline = Instant::now() + LONG;
            while sum_of(kind.name(), "sleeps") <= sleeps {
                assert!(Instant::now() < deadline, "it does not sleep");
                std::thread::yield_now();
            }
            server.kill();
        });
        let outcome = cluster.endpoint.call(peer, KEEP, b"").within(LONG).wait().map(drop);
        killer.join().expect("no panic");
        assert_eq!(outcome, Err(CallError::PeerDown(DownReason::Dead)), "before the call's deadline");
    }
}
