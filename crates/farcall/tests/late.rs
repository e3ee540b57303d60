//! Peers that are silent and not dead: one that computes, one that was stopped, one that waits in a barrier.
//! They are late, and their sessions stay; one that is killed meanwhile is reported all the same.

mod common;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::counters::sum_of;
use common::life::{Cluster, MORTAL, alone, mortal, role};
use common::victim::ECHO;
use common::{LONG, pattern, transports_without_launcher};
use farcall::{CallError, DownReason, Endpoint, Event, Peer, Service, TransportKind};
use rustix::process::Signal;

/// Computes for as many milliseconds as it is told, and answers then.
const COMPUTE: Service = Service(10);

/// The limit of silence of these clusters, and a time that is several of it.
const SILENCE: &str = "endpoint.peer_timeout=300ms";
const LATE: Duration = Duration::from_millis(10 * 300);

/// The time in which a death is reported, on a busy machine.
const REPORTED_WITHIN: Duration = Duration::from_secs(10);

/// A server whose handlers may take long.
fn serve_slowly() {
    let (_node, endpoint, _log) = mortal();
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    endpoint.serve(COMPUTE, |request, reply| {
        let millis = u64::from_le_bytes(request.payload().try_into().expect("eight bytes"));
        println!("computing");
        compute_for(Duration::from_millis(millis));
        reply.send(pattern(3, 300_000));
    });
    endpoint.run_while(|| true);
}

fn compute_for(time: Duration) {
    let (begun, mut sum) = (Instant::now(), 0_u64);
    while begun.elapsed() < time {
        sum = std::hint::black_box(sum.wrapping_mul(31) + 7);
    }
}

/// Turns for a time; nothing may happen to the session meanwhile.
fn turn_for(endpoint: &Endpoint, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        endpoint.poll_idle(|_, event| panic!("{event:?} after {:?}", begun.elapsed()));
    }
}

fn echo(endpoint: &Endpoint, peer: Peer) {
    let answer = endpoint.call(peer, ECHO, pattern(1, 200_000)).within(LONG).wait();
    assert!(*answer.expect("it serves") == pattern(1, 200_000)[..]);
}

/// Whether silence says anything over a transport: of lanes the fabric reports deaths.
fn is_judged_by_silence(kind: TransportKind) -> bool {
    !matches!(kind, TransportKind::RING_SHM | TransportKind::RING_VERBS)
}

#[test]
fn a_peer_that_computes_is_late_and_not_dead() {
    if role().is_some() {
        return serve_slowly();
    }
    let _alone = alone();
    for kind in transports_without_launcher() {
        let cluster = Cluster::new("a_peer_that_computes_is_late_and_not_dead", kind, &[SILENCE]);
        let _server = cluster.start("server");
        let peer = cluster.endpoint.peer(MORTAL).expect("it publishes its endpoint");
        echo(&cluster.endpoint, peer);
        let found = sum_of(kind.name(), "lives_found");
        let millis = (LATE.as_millis() as u64).to_le_bytes();
        let computed = cluster.endpoint.call(peer, COMPUTE, &millis).within(LONG).start().expect("room");
        turn_for(&cluster.endpoint, LATE);
        let answer = cluster.endpoint.block_on(computed).expect("it lives");
        assert!(*answer == pattern(3, 300_000)[..]);
        echo(&cluster.endpoint, peer);
        let found = sum_of(kind.name(), "lives_found") - found;
        assert_eq!(found > 0, is_judged_by_silence(kind), "its process was found alive {found} times");
    }
}

#[test]
fn a_stopped_peer_is_late_and_goes_on() {
    if role().is_some() {
        return serve_slowly();
    }
    let _alone = alone();
    for kind in transports_without_launcher() {
        let cluster = Cluster::new("a_stopped_peer_is_late_and_goes_on", kind, &[]);
        let server = cluster.start("server");
        let peer = cluster.endpoint.peer(MORTAL).expect("it publishes its endpoint");
        echo(&cluster.endpoint, peer);
        server.signal(Signal::STOP);
        server.wait_until_stopped();
        // More than the buffers of a kernel or a fabric hold: they stay full for all the time.
        let ask =
            |_| cluster.endpoint.call(peer, ECHO, pattern(2, 250_000)).within(LONG).start().expect("room");
        let asked: Vec<_> = (0..60).map(ask).collect();
        turn_for(&cluster.endpoint, Duration::from_secs(5));
        server.signal(Signal::CONT);
        for asked in asked {
            let answer = cluster.endpoint.block_on(asked).expect("it goes on");
            assert!(*answer == pattern(2, 250_000)[..]);
        }
        echo(&cluster.endpoint, peer);
    }
}

#[test]
fn a_late_peer_that_is_killed_is_reported() {
    if role().is_some() {
        return serve_slowly();
    }
    let _alone = alone();
    for kind in transports_without_launcher() {
        let cluster = Cluster::new("a_late_peer_that_is_killed_is_reported", kind, &[SILENCE]);
        let mut server = cluster.start("server");
        let peer = cluster.endpoint.peer(MORTAL).expect("it publishes its endpoint");
        echo(&cluster.endpoint, peer);
        let hour = 3_600_000_u64.to_le_bytes();
        let computed = cluster.endpoint.call(peer, COMPUTE, &hour).within(LONG).start().expect("room");
        turn_for(&cluster.endpoint, LATE);
        server.kill();
        let killed_at = Instant::now();
        let outcome = cluster.endpoint.block_on(computed).map(drop);
        assert_eq!(outcome, Err(CallError::PeerDown(DownReason::Dead)));
        assert!(killed_at.elapsed() < REPORTED_WITHIN, "reported after {:?}", killed_at.elapsed());
    }
}

#[test]
fn a_limit_for_peers_that_do_not_poll_is_a_parameter_of_its_own() {
    if role().is_some() {
        return serve_slowly();
    }
    let _alone = alone();
    for kind in transports_without_launcher().filter(|kind| is_judged_by_silence(*kind)) {
        let name = "a_limit_for_peers_that_do_not_poll_is_a_parameter_of_its_own";
        let cluster = Cluster::new(name, kind, &[SILENCE, "endpoint.poll_timeout=2s"]);
        let _server = cluster.start("server");
        let peer = cluster.endpoint.peer(MORTAL).expect("it publishes its endpoint");
        echo(&cluster.endpoint, peer);
        let hour = 3_600_000_u64.to_le_bytes();
        let computed = cluster.endpoint.call(peer, COMPUTE, &hour).within(LONG).start().expect("room");
        let begun = Instant::now();
        let mut reports = Vec::new();
        while reports.is_empty() {
            assert!(begun.elapsed() < LONG, "the limit does not hold");
            cluster.endpoint.poll_idle(|_, event| match event {
                Event::PeerDown { peer, reason } => reports.push((peer.rank(), reason)),
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(reports, [(MORTAL, DownReason::NotPolled)]);
        assert!(begun.elapsed() >= Duration::from_secs(2), "after {:?}", begun.elapsed());
        let outcome = cluster.endpoint.block_on(computed).map(drop);
        assert_eq!(outcome, Err(CallError::PeerDown(DownReason::NotPolled)));
    }
}

#[test]
fn a_process_answers_at_the_life_port_that_is_named_and_another_of_its_host_at_the_next() {
    if role().is_some() {
        return serve_slowly();
    }
    let _alone = alone();
    let name = "a_process_answers_at_the_life_port_that_is_named_and_another_of_its_host_at_the_next";
    // Below the ports that systems give away by themselves.
    let port = 20_000 + (std::process::id() % 10_000) as u16;
    let named = format!("net.life_port={port}");
    let cluster = Cluster::new(name, TransportKind::BASIC_UDP, &[SILENCE, &named]);
    let _server = cluster.start("server");
    let peer = cluster.endpoint.peer(MORTAL).expect("it publishes its endpoint");
    echo(&cluster.endpoint, peer);
    for port in [port, port + 1] {
        TcpStream::connect(("127.0.0.1", port)).expect("a process answers there");
    }
    let millis = (LATE.as_millis() as u64).to_le_bytes();
    let computed = cluster.endpoint.call(peer, COMPUTE, &millis).within(LONG).start().expect("room");
    turn_for(&cluster.endpoint, LATE);
    cluster.endpoint.block_on(computed).expect("it lives");
}
