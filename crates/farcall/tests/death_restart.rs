//! A peer that comes back is another peer: restarted after a kill, or running again after it was taken for
//! dead.

mod common;

use std::collections::HashMap;
use std::time::Duration;

use common::life::{Cluster, alone, role};
use common::victim::{ECHO, LOGGED, serve, talk_until_death};
use common::{LONG, transports_without_launcher};
use farcall::{CallError, DownReason, Peer, TransportKind};
use rustix::process::Signal;

/// The first number of the calls to the second life.
const SECOND_LIFE: u64 = 1 << 32;
/// Calls to each life, at least.
const CALLS: u64 = 1000;

/// Calls the second life, and sees that the handle of the first stays dead.
fn call_second_life(cluster: &Cluster, first: Peer, reason: DownReason) {
    let second = cluster.meet();
    assert_ne!(first, second);
    for number in SECOND_LIFE..SECOND_LIFE + CALLS {
        let answer = cluster.endpoint.call(second, LOGGED, &number.to_le_bytes()).within(LONG).wait();
        assert_eq!(answer.expect("an answer")[..], number.to_le_bytes());
    }
    let to_first = cluster.endpoint.call(first, ECHO, b"").wait().map(drop);
    assert_eq!(to_first, Err(CallError::PeerDown(reason)), "the handle stays dead");
}

/// The process that ran each request, after a check that none ran twice.
fn runs(cluster: &Cluster) -> HashMap<u64, u32> {
    let mut runs = HashMap::new();
    for line in cluster.log.lines() {
        let (number, process) = line.split_once(' ').expect("a number and a process");
        let number = number.parse().expect("the number of a call");
        let former = runs.insert(number, process.parse().expect("a process"));
        assert_eq!(former, None, "request {number} ran twice");
    }
    runs
}

#[test]
fn a_restarted_server_gets_no_request_of_its_former_life() {
    if role().is_some() {
        return serve();
    }
    let _alone = alone();
    for kind in transports_without_launcher() {
        // On a busy machine a process that runs may be silent for a second.
        let settings = ["endpoint.peer_timeout=3s"];
        let cluster = Cluster::new("a_restarted_server_gets_no_request_of_its_former_life", kind, &settings);
        let mut first = cluster.start("server");
        let first_process = first.process();
        let (first_peer, mut second) = (cluster.meet(), None);
        let end = talk_until_death(&cluster.endpoint, first_peer, 0, CALLS, || {
            first.kill();
            second = Some(cluster.start("server"));
        });
        assert_eq!((end.peer, end.reason), (first_peer, DownReason::Dead));
        call_second_life(&cluster, first_peer, DownReason::Dead);

        let second_process = second.expect("it was started").process();
        let runs = runs(&cluster);
        for (number, process) in &runs {
            let expected = if *number < SECOND_LIFE { first_process } else { second_process };
            assert_eq!(*process, expected, "request {number} ran in the wrong life");
        }
        assert_eq!(runs.values().filter(|process| **process == second_process).count() as u64, CALLS);
    }
}

#[test]
fn a_stopped_peer_is_reported_and_its_session_stays_dead_when_it_goes_on() {
    if role().is_some() {
        return serve();
    }
    let _alone = alone();
    let name = "a_stopped_peer_is_reported_and_its_session_stays_dead_when_it_goes_on";
    // On a busy machine a process that runs may be silent for a second.
    let limit = Duration::from_secs(3);
    let notices = |kind: &TransportKind| !kind.name().ends_with("+shm") && !kind.name().starts_with("ring+");
    for kind in transports_without_launcher().filter(notices) {
        let settings = ["endpoint.peer_timeout=1s", "endpoint.poll_timeout=3s"];
        let cluster = Cluster::new(name, kind, &settings);
        let server = cluster.start("server");
        let first_peer = cluster.meet();
        let end = talk_until_death(&cluster.endpoint, first_peer, 0, CALLS, || server.signal(Signal::STOP));
        assert_eq!((end.peer, end.reason), (first_peer, DownReason::NotPolled));
        assert!(end.after < limit + Duration::from_secs(9), "reported after {:?}", end.after);
        server.signal(Signal::CONT);
        call_second_life(&cluster, first_peer, DownReason::NotPolled);

        let late = cluster.endpoint.calls_in_flight();
        cluster.endpoint.poll(|_, event| panic!("{event:?} of the dead session"));
        assert_eq!(late, 0);
        assert!(runs(&cluster).values().all(|process| *process == server.process()));
    }
}
