//! What is wrong with a call or a cluster is said at once, in one sentence that says what to do.

mod common;

use common::{LONG, Pair, settings, transports};
use farcall::bootstrap::{Bootstrap, Directory, HostPort, Rendezvous};
use farcall::parameters::Settings;
use farcall::{Node, Service, TransportKind};
use rustix::system::uname;

const ECHO: Service = Service(1);
const NOBODY: Service = Service(2);

fn pairs(assignments: &[&str]) -> impl Iterator<Item = Pair> {
    let settings = settings(assignments);
    transports().map(move |kind| {
        println!("over {kind}");
        Pair::new(kind, settings.clone(), |endpoint| {
            endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
        })
    })
}

/// A rendezvous for two, and a node that has one of its ranks.
fn half_a_cluster(rank: u32, settings: Settings) -> (Rendezvous, HostPort, Node) {
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a rendezvous on loopback");
    let address = HostPort::from(rendezvous.address());
    let node = Node::new(Bootstrap::join(&address, rank, 2, LONG).expect("a free rank"), settings);
    (rendezvous, address, node)
}

fn sentence<T>(outcome: Result<T, impl ToString>) -> String {
    outcome.map(drop).expect_err("it is refused").to_string()
}

#[test]
fn an_unknown_transport_is_answered_with_the_known_ones() {
    let node = Node::new(Bootstrap::alone(), Settings::default());
    let known: Vec<_> = TransportKind::every().map(TransportKind::name).collect();
    for unknown in ["rnig+shm", "ring", "", "RING+SHM", "ring+shm "] {
        let expected = format!("unknown transport `{unknown}`; the transports here are {}", known.join(", "));
        assert_eq!(sentence(node.endpoint(unknown)), expected);
    }
}

#[test]
fn wrong_settings_are_answered_with_right_ones() {
    let refusal = |assignment| sentence(Settings::default().assign(assignment));
    assert_eq!(
        refusal("ring.ring_byte=1M"),
        "unknown parameter `ring.ring_byte`; did you mean `ring.ring_bytes`?"
    );
    assert_eq!(
        refusal("basic.calls_max=0"),
        "basic.calls_max=0 is out of range; the nearest valid value is 1"
    );
    assert_eq!(
        refusal("ring.ring_bytes=100000"),
        "ring.ring_bytes=100000 is not a power of two; the nearest valid value is 128K"
    );
    assert_eq!(
        refusal("endpoint.idle=blok"),
        "endpoint.idle=blok is not one of spin, yield, block; did you mean `block`?"
    );
    assert_eq!(refusal("fast"), "`fast` sets nothing; write name=value, such as ring.ring_bytes=1M");
}

#[test]
fn priorities_that_a_driver_does_not_have_are_refused() {
    let node = Node::new(Bootstrap::alone(), Settings::default());
    let cases = [
        (
            "homa.priorities=8",
            "homa.priorities=8 is more than the 1 of this driver; `auto` takes what there is",
        ),
        ("homa.cutoffs=1K,10K", "2 cutoffs part more priorities than the 1 that there are"),
        (
            "homa.unscheduled_priorities=2",
            "2 of 1 priorities for unscheduled bytes leave none for the others",
        ),
    ];
    for (assignment, reason) in cases {
        let refusal = sentence(node.endpoint_with(TransportKind::HOMA_UDP, &settings(&[assignment])));
        assert!(refusal.ends_with(reason), "{refusal}");
    }
}

#[test]
fn a_message_over_the_limit_is_refused_whether_the_session_is_up_or_not() {
    let limit = 1 << 20;
    let groups = ["ring", "basic", "homa", "tcp", "ucx", "mpi", "ofi"];
    let limits = groups.map(|group| format!("{group}.message_bytes_max=1M"));
    let limits = limits.each_ref().map(String::as_str);
    for pair in pairs(&limits) {
        let long = vec![0; limit + 1];
        let expected = "a message of 1048577 bytes is over the limit of 1048576";
        let early = pair.client.call(pair.server, ECHO, &long).within(LONG).wait();
        assert_eq!(sentence(early), expected);
        pair.client.wait_for(pair.server).expect("the server is there");
        assert_eq!(sentence(pair.client.call(pair.server, ECHO, &long).within(LONG).wait()), expected);
        let longest = pair.client.call(pair.server, ECHO, &long[1..]).within(LONG).wait();
        assert_eq!(longest.expect("the longest message is valid").len(), limit);
    }
}

#[test]
fn messages_and_loans_without_bytes_are_valid() {
    for pair in pairs(&[]) {
        let answer = pair.client.call(pair.server, ECHO, b"").within(LONG).wait();
        assert!(answer.expect("an echo").is_empty());
        let nothing = pair.client.loan(0).expect("no bytes are to be had");
        let answer = pair.client.call(pair.server, ECHO, nothing).within(LONG).wait();
        assert!(answer.expect("an echo").is_empty());
    }
}

#[test]
fn a_loan_over_the_limit_is_refused() {
    for pair in pairs(&["shm.block_bytes=1M"]) {
        let bytes = 1 << 40;
        let refusal = sentence(pair.client.loan(bytes));
        assert!(refusal.starts_with("a loan of 1099511627776 bytes is over the limit of "), "{refusal}");
    }
}

#[test]
fn a_service_that_nobody_serves_is_named_as_the_reason() {
    for pair in pairs(&[]) {
        let refusal = sentence(pair.client.call(pair.server, NOBODY, b"x").within(LONG).wait());
        assert_eq!(refusal, "the peer does not serve this service");
    }
}

#[test]
fn a_rank_that_publishes_nothing_is_named_with_the_time_it_had() {
    let (_rendezvous, _address, node) = half_a_cluster(0, settings(&["endpoint.resolve_timeout=50ms"]));
    for kind in transports() {
        let endpoint = node.endpoint(kind.name()).expect("an endpoint");
        let expected = format!(
            "rank 1 did not publish `{kind}#0` within 50ms; check that it runs and uses the same transport"
        );
        assert_eq!(sentence(endpoint.peer(1)), expected);
        let expected = expected.replace("rank 1", "rank 0").replace("#0", "#7");
        assert_eq!(sentence(endpoint.peer_endpoint(0, 7)), expected);
    }
}

#[test]
fn an_address_where_nobody_is_any_more_is_unreachable() {
    // Libraries may refuse such an address at once, as none of theirs.
    for kind in transports().filter(|kind| !TransportKind::LIBRARIES.contains(kind)) {
        println!("over {kind}");
        let short = settings(&["endpoint.peer_timeout=200ms"]);
        let (_rendezvous, address, node) = half_a_cluster(0, short.clone());
        // The rank stays, so what it has published does too.
        drop(node.endpoint_with(kind, &short).expect("an endpoint"));
        let other = Node::new(Bootstrap::join(&address, 1, 2, LONG).expect("a free rank"), short.clone());
        let client = other.endpoint_with(kind, &short).expect("an endpoint");
        let peer = client.peer(0).expect("its address is known");
        let expected = "the call has no answer: nobody answers at the peer's address";
        assert_eq!(sentence(client.call(peer, ECHO, b"x").within(LONG).wait()), expected);
        assert_eq!(sentence(client.call(peer, ECHO, b"x").within(LONG).wait()), expected);
        assert_eq!(sentence(client.wait_for(peer)), expected);
    }
}

#[test]
fn a_rank_that_is_taken_is_refused_with_its_holder() {
    let (_rendezvous, address, _node) = half_a_cluster(1, Settings::default());
    let host = uname().nodename().to_string_lossy().into_owned();
    let expected = format!(
        "rank 1 is already taken by process {} on {host}; give each process a rank of its own",
        std::process::id()
    );
    assert_eq!(sentence(Bootstrap::join(&address, 1, 2, LONG)), expected);
}

#[test]
fn a_rank_outside_of_the_cluster_is_refused_when_it_joins_and_when_it_is_called() {
    let (_rendezvous, address, node) = half_a_cluster(0, Settings::default());
    assert_eq!(
        sentence(Directory::join(&address, 2, 2, 7, LONG)),
        "rank 2 of 2 with incarnation 7 cannot be; see the bounds of each"
    );
    assert_eq!(
        sentence(Bootstrap::join(&address, 2, 3, LONG)),
        "this process was started for 3 ranks and the rendezvous for 2; start all for the same number"
    );
    for kind in transports() {
        let endpoint = node.endpoint(kind.name()).expect("an endpoint");
        let refusal = sentence(endpoint.peer(2));
        assert_eq!(refusal, "rank 2 does not exist; the cluster has 2 ranks, counted from 0");
    }
}
