//! Endpoints over several transports: which one a session takes, and why.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{LONG, Pair, settings};
use farcall::bootstrap::Bootstrap;
use farcall::{Endpoint, Node, Service, Tag, TransportKind};

const ECHO: Service = Service(1);

fn kind(name: &str) -> TransportKind {
    name.parse().expect("a transport or a list")
}

fn serve(endpoint: &Endpoint) {
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
}

/// Makes a call; which way the session has then, and why not the others.
fn way_of_a_call(pair: &Pair) -> (&'static str, Vec<String>) {
    let answer = pair.client.call(pair.server, ECHO, b"hello").wait().expect("an answer");
    assert_eq!(&*answer, b"hello");
    let taken = pair.client.way(pair.server).expect("it has one");
    (taken.way, taken.not_taken.iter().map(|other| format!("{}: {}", other.way, other.why)).collect())
}

#[test]
fn processes_of_one_machine_share_memory() {
    let (way, why) = way_of_a_call(&Pair::new(TransportKind::AUTO, settings(&[]), serve));
    assert_eq!(way, "ring+shm");
    assert_eq!(why.last().map(String::as_str), Some("basic+udp: ring+shm is preferred"));
}

#[test]
fn where_memory_cannot_be_shared_the_network_is_taken_and_the_reason_is_known() {
    let without_room = settings(&["shm.mapped_bytes_max=1M"]);
    let (way, why) =
        way_of_a_call(&Pair::with_client_settings(TransportKind::AUTO, without_room, settings(&[]), serve));
    assert_eq!(way, "tcp");
    let refused = why.iter().find(|why| why.starts_with("ring+shm: ")).expect("it was tried");
    assert!(refused.contains("over shm.mapped_bytes_max"), "{refused}");
}

#[test]
fn a_list_is_taken_in_its_order_and_its_impossible_ways_are_named() {
    let (way, why) = way_of_a_call(&Pair::new(kind("basic+udp,ring+shm"), settings(&[]), serve));
    assert_eq!((way, why), ("basic+udp", vec!["ring+shm: basic+udp is preferred".to_owned()]));
    let node = Node::new(Bootstrap::alone(), settings(&["udp.bind_address=192.0.2.1"]));
    let error = node.endpoint("ring+shm,basic+udp").map(drop).expect_err("no interface has that address");
    assert!(error.to_string().contains("basic+udp: "), "{error}");
    let (way, _) = way_of_a_call(&Pair::new(TransportKind::AUTO, node.settings().clone(), serve));
    assert_eq!(way, "ring+shm", "auto does without it");
}

#[test]
fn an_endpoint_over_several_and_one_over_a_single_transport_meet_by_name() {
    for (server, client, way) in [
        ("ring+shm", "auto", "ring+shm"),
        ("basic+udp", "auto", "basic+udp"),
        ("auto", "basic+udp", "basic+udp"),
        ("auto", "ring+shm", "ring+shm"),
        ("basic+udp,ring+shm", "auto", "ring+shm"),
    ] {
        let registry = Node::serving_names("127.0.0.1:0").expect("a port of loopback");
        let place = registry.registry_address().expect("it serves names").to_string();
        let stop = Arc::new(AtomicU64::new(0));
        let (stopped, at) = (Arc::clone(&stop), place.clone());
        let thread = std::thread::spawn(move || {
            let node = Node::open_at(&at).expect("the registry is there");
            let endpoint = node.endpoint(server).expect("an endpoint");
            serve(&endpoint);
            let _listener = endpoint.listen("orders").expect("a name");
            endpoint.run_while(|| stopped.load(Ordering::Relaxed) == 0);
        });
        let node = Node::open_at(&place).expect("the registry is there");
        let endpoint = node.endpoint(client).expect("an endpoint");
        let connection = endpoint.connect("orders").expect("a name");
        let answer = connection.call(ECHO, b"hello").within(LONG).wait();
        assert_eq!(&*answer.expect("an answer"), b"hello", "{client} to {server}");
        let peer = connection.peer().expect("it is there");
        assert_eq!(endpoint.way(peer).map(|taken| taken.way), Some(way), "{client} to {server}");
        stop.store(1, Ordering::Relaxed);
        thread.join().expect("no panic");
    }
}

#[test]
fn ends_that_have_no_transport_in_common_say_so() {
    let registry = Node::serving_names("127.0.0.1:0").expect("a port of loopback");
    let place = registry.registry_address().expect("it serves names").to_string();
    let server = registry.endpoint("homa+udp").expect("an endpoint");
    let _listener = server.listen("orders").expect("a name");
    let node = Node::open_at(&place).expect("the registry is there");
    let endpoint = node.endpoint("ring+shm,basic+udp").expect("an endpoint");
    let connection = endpoint.connect("orders").expect("a name");
    let (begun, mut why) = (Instant::now(), String::new());
    let reasons = ["ring+shm", "basic+udp"].map(|way| format!("{way}: the peer does not have it"));
    while !reasons.iter().all(|reason| why.contains(reason)) {
        assert!(begun.elapsed() < LONG, "{why}");
        let error = connection.call(ECHO, b"").within(Duration::from_millis(300)).wait();
        why = error.map(drop).expect_err("no way leads there").to_string();
    }
}

#[test]
fn messages_of_peers_over_different_ways_reach_receives_from_anywhere() {
    let registry = Node::serving_names("127.0.0.1:0").expect("a port of loopback");
    let place = registry.registry_address().expect("it serves names").to_string();
    let server = registry.endpoint("auto").expect("an endpoint");
    let _listener = server.listen("orders").expect("a name");
    let threads: Vec<_> = ["ring+shm", "basic+udp"]
        .into_iter()
        .map(|transport| {
            let place = place.clone();
            std::thread::spawn(move || {
                let node = Node::open_at(&place).expect("the registry is there");
                let endpoint = node.endpoint(transport).expect("an endpoint");
                let connection = endpoint.connect("orders").expect("a name");
                let peer = connection.wait(LONG).expect("it is there");
                for number in 0..200_u32 {
                    let message = [transport.as_bytes(), &number.to_le_bytes()].concat();
                    endpoint.send(peer, Tag(7), &message).wait().expect("it is taken");
                }
            })
        })
        .collect();
    let mut next = std::collections::BTreeMap::<Vec<u8>, u32>::new();
    for _ in 0..400 {
        let message = server.receive(farcall::AnySource, Tag(7)).within(LONG).wait().expect("a message");
        let (transport, number) = message.split_at(message.len() - 4);
        let expected = next.entry(transport.to_vec()).or_default();
        assert_eq!(number, expected.to_le_bytes(), "in the order of their sender");
        *expected += 1;
    }
    assert_eq!(next.len(), 2);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}
