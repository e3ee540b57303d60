//! Peers of which the network says that they cannot be reached.

mod common;

use std::time::{Duration, Instant};

use common::{settings, transports};
use farcall::{CallError, DownReason, Node, Service};

/// The silence after which a peer would be dead, far longer than an answer of the network takes.
const SILENCE: Duration = Duration::from_secs(120);

#[test]
fn a_closed_port_ends_the_opening_of_a_session_at_once() {
    for kind in transports().filter(|kind| kind.name().ends_with("+udp")) {
        println!("over {kind}");
        let node = Node::alone().expect("this process");
        let settings = settings(&["endpoint.peer_timeout=120s"]);
        let endpoint = || node.endpoint_with(kind, &settings).expect("an endpoint");
        let (client, server) = (endpoint(), endpoint());
        drop(server);
        let begun = Instant::now();
        let peer = client.peer_endpoint(0, 1).expect("it was published");
        let outcome = client.call(peer, Service(1), b"").wait().map(drop);
        assert_eq!(outcome, Err(CallError::PeerDown(DownReason::Unreachable)));
        assert!(begun.elapsed() < SILENCE, "it was found out by silence only");
    }
}

#[test]
fn a_peer_that_closes_its_port_while_others_are_opened_harms_none_of_them() {
    for kind in transports().filter(|kind| kind.name().ends_with("+udp")) {
        println!("over {kind}");
        let node = Node::alone().expect("this process");
        let settings = settings(&["endpoint.peer_timeout=120s"]);
        let endpoint = || node.endpoint_with(kind, &settings).expect("an endpoint");
        let (client, gone, server) = (endpoint(), endpoint(), endpoint());
        server.serve(Service(1), |request, reply| reply.send(request.payload()));
        drop(gone);
        let [gone, there] = [1, 2].map(|number| client.peer_endpoint(0, number).expect("it was published"));
        let call = |peer| client.call(peer, Service(1), b"x").start().expect("sent");
        let (lost, answered) = (call(gone), call(there));
        client.run_while(|| {
            server.poll(|_, _| {});
            !lost.is_complete() || !answered.is_complete()
        });
        assert_eq!(lost.wait().map(drop), Err(CallError::PeerDown(DownReason::Unreachable)));
        assert_eq!(answered.wait().expect("an answer")[..], *b"x");
    }
}
