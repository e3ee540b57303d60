//! Peers that are killed or stopped while a session to them opens.

mod common;

use std::time::Instant;

use common::life::{Cluster, MORTAL, alone, mortal, role};
use common::litter::holdings;
use common::victim::{ECHO, serve};
use common::{LONG, transports_without_launcher};
use farcall::{CallError, DownReason, Event};
use rustix::process::{Signal, getpid, kill_process};

/// Kills of one test, each a little later in the life of the session.
const KILLS: usize = 12;

#[test]
fn a_server_that_is_killed_while_the_session_opens_is_reported() {
    if role().is_some() {
        return serve();
    }
    let _alone = alone();
    let name = "a_server_that_is_killed_while_the_session_opens_is_reported";
    for kind in transports_without_launcher() {
        let cluster = Cluster::new(name, kind, &["endpoint.peer_timeout=200ms"]);
        let (endpoint, before) = (&cluster.endpoint, holdings());
        for kill in 0..KILLS {
            let mut server = cluster.start("server");
            let peer = endpoint.peer(MORTAL).expect("it publishes its endpoint");
            endpoint.call(peer, ECHO, &[7; 50_000]).within(LONG).post(1).expect("calls can wait");
            let (mut ends, mut completions) = (0, 0);
            let mut count = |event: Event<'_>| match event {
                Event::PeerDown { reason: DownReason::Dead | DownReason::Unreachable, .. } => ends += 1,
                Event::Completed { outcome: Ok(_) | Err(CallError::PeerDown(_)), .. } => completions += 1,
                other => panic!("{other:?}"),
            };
            for _ in 0..kill * 16 {
                endpoint.poll(|_, event| count(event));
            }
            server.kill();
            let deadline = Instant::now() + LONG;
            while endpoint.wait_for(peer).is_ok() {
                assert!(Instant::now() < deadline, "it is taken for alive");
                endpoint.poll_idle(|_, event| count(event));
            }
            endpoint.poll(|_, event| count(event));
            assert_eq!((ends, completions), (1, 1), "kill {kill}");
        }
        let deadline = Instant::now() + LONG;
        while holdings() != before {
            assert!(Instant::now() < deadline, "held before: {before:#?}; still held: {:#?}", holdings());
            endpoint.turn();
        }
    }
}

#[test]
fn a_server_that_stands_still_cannot_be_reached_until_it_goes_on() {
    if role().is_some() {
        let (_node, endpoint, _log) = mortal();
        endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
        kill_process(getpid(), Signal::STOP).expect("a process can stop itself");
        return endpoint.run_while(|| true);
    }
    let _alone = alone();
    let name = "a_server_that_stands_still_cannot_be_reached_until_it_goes_on";
    for kind in transports_without_launcher() {
        // A process that goes on first works through what libraries kept for it, which can take half a second
        // on a busy machine.
        let cluster = Cluster::new(name, kind, &["endpoint.peer_timeout=3s"]);
        let server = cluster.start("server");
        server.wait_until_stopped();
        let peer = cluster.endpoint.peer(MORTAL).expect("it has published its endpoint");
        let outcome = cluster.endpoint.call(peer, ECHO, b"x").within(LONG).wait().map(drop);
        assert_eq!(outcome, Err(CallError::PeerDown(DownReason::Unreachable)), "before the call's deadline");
        server.signal(Signal::CONT);
        let answer = cluster.endpoint.call(cluster.meet(), ECHO, b"x").within(LONG).wait();
        assert_eq!(answer.expect("it goes on")[..], *b"x");
    }
}
