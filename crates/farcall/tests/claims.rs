//! A peer that claims a rank: it is believed where the directory confirms it, and nowhere else.

use std::time::Duration;

use farcall::bootstrap::{Bootstrap, LocalRanks, random_incarnation};
use farcall::parameters::Settings;
use farcall::{Endpoint, Node, Service, TransportKind};

/// Generous: reached only when something hangs.
const LONG: Duration = Duration::from_secs(60);
const NAME: Service = Service(1);

fn rank(ranks: &LocalRanks, rank: u32, incarnation: u64) -> Node {
    Node::new(Bootstrap::among(ranks, rank, incarnation), Settings::default())
}

/// An endpoint that answers with its name.
fn endpoint(node: &Node, kind: TransportKind, name: &'static str) -> Endpoint {
    let endpoint = node.endpoint_with(kind, node.settings()).expect("an endpoint");
    endpoint.serve(NAME, move |_, reply| reply.send(name.as_bytes()));
    endpoint
}

/// A process that was told where rank 0 of `world` is, and says that it is a certain rank of another world.
fn stranger(
    world: &LocalRanks,
    kind: TransportKind,
    (claimed, size, incarnation): (u32, u32, u64),
) -> (Node, Endpoint) {
    let key = format!("{kind}#0");
    let (address, _) = world.directory(1, random_incarnation()).resolve(0, &key, LONG).expect("known");
    let own = LocalRanks::new(size);
    let node = rank(&own, claimed, incarnation);
    let endpoint = endpoint(&node, kind, "the stranger");
    // It finds rank 0 where it was told.
    let zero = own.directory(0, 100);
    zero.publish(&key, address).expect("room");
    endpoint.peer(0).expect("it is known");
    (node, endpoint)
}

fn ask(asking: &Endpoint, others: &[&Endpoint], rank: u32) -> String {
    let peer = asking.peer_within(rank, LONG).expect("it is known");
    let call = asking.call(peer, NAME, b"").within(LONG).start().expect("it is sent");
    while !call.is_complete() {
        asking.poll_once();
        for other in others {
            other.poll_once();
        }
    }
    String::from_utf8(call.wait().expect("it is answered").to_vec()).expect("a name")
}

#[test]
fn a_claimed_rank_leads_nowhere_unless_the_directory_confirms_it() {
    for kind in [TransportKind::BASIC_UDP, TransportKind::HOMA_UDP] {
        for knows_incarnation in [false, true] {
            let world = LocalRanks::new(2);
            let zero_node = rank(&world, 0, 100);
            let zero = endpoint(&zero_node, kind, "rank 0");
            let incarnation = if knows_incarnation { 101 } else { 666 };
            let (_stranger_node, liar) = stranger(&world, kind, (1, 2, incarnation));
            // The stranger's session with rank 0 is up, and it says that it is rank 1.
            assert_eq!(ask(&liar, &[&zero], 0), "rank 0");
            assert!(zero.session_with(1).is_none(), "a claim is no session with a rank");

            let one_node = rank(&world, 1, 101);
            let one = endpoint(&one_node, kind, "rank 1");
            assert_eq!(ask(&zero, &[&one, &liar], 1), "rank 1", "over {kind}");
            assert!(zero.session_with(1).is_some());
        }
    }
}

#[test]
fn a_session_that_a_rank_has_opened_is_used_when_the_directory_confirms_it() {
    for kind in [TransportKind::RING_SHM, TransportKind::BASIC_UDP] {
        let world = LocalRanks::new(2);
        let (zero_node, one_node) = (rank(&world, 0, 100), rank(&world, 1, 101));
        let (zero, one) = (endpoint(&zero_node, kind, "rank 0"), endpoint(&one_node, kind, "rank 1"));
        assert_eq!(ask(&one, &[&zero], 0), "rank 0");
        assert_eq!(ask(&zero, &[&one], 1), "rank 1");
        assert_eq!(zero.trace().peers.len(), 1, "one session is enough over {kind}");
    }
}

#[test]
fn ranks_that_the_world_lacks_are_refused_over_every_transport_of_ours() {
    for kind in [TransportKind::RING_SHM, TransportKind::BASIC_UDP, TransportKind::HOMA_UDP] {
        let world = LocalRanks::new(2);
        let zero_node = rank(&world, 0, 100);
        let zero = endpoint(&zero_node, kind, "rank 0");
        let (_node, seven) = stranger(&world, kind, (7, 8, 107));
        let peer = seven.peer(0).expect("it was told");
        let call = seven.call(peer, NAME, b"").within(LONG).start().expect("it waits");
        while !call.is_complete() {
            seven.poll_once();
            zero.poll_once();
        }
        assert!(call.wait().is_err(), "rank 7 of two is refused over {kind}");
        assert!(zero.trace().peers.is_empty());
    }
}
