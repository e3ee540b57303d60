//! A server of several threads is one name.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{LONG, and_auto, settings, transports_without_launcher};
use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::{Balance, CallError, NamedCallError, Node, ServeError, Service};

/// Answers with the number of the thread's endpoint.
const WHO: Service = Service(1);
const THREADS: usize = 3;

#[test]
fn calls_to_a_name_reach_all_threads_of_its_server_until_it_leaves() {
    for kind in and_auto(transports_without_launcher()) {
        println!("over {kind}");
        let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
        let place = HostPort::from(registry.address());
        let node = || Node::new(Bootstrap::open(&place, LONG).expect("it is there"), settings(&[]));
        let (server_node, ran, mut threads) = (node(), Arc::new(AtomicU64::new(0)), 0_u64);
        let server = server_node.serve_on(THREADS, kind.name(), "orders", |endpoint| {
            let (ran, number) = (Arc::clone(&ran), threads);
            threads += 1;
            endpoint.serve(WHO, move |_, reply| {
                ran.fetch_add(1, Ordering::Relaxed);
                reply.send(&number.to_le_bytes());
            });
        });
        let server = server.expect("it serves");
        let client_node = node();
        let client = client_node.endpoint_with(kind, client_node.settings()).expect("an endpoint");
        let orders = client.connect("orders").expect("a name").balanced_by(Balance::RoundRobin);
        client.run_while(|| orders.servers().len() < THREADS);
        let mut seen = BTreeSet::new();
        for _ in 0..10 * THREADS {
            let answer = orders.call(WHO, b"").within(LONG).wait().expect("it is served");
            seen.insert(answer[..].to_vec());
        }
        assert_eq!(seen.len(), THREADS, "over {kind}");
        assert!(server.is_whole());
        let leaving = std::thread::spawn(move || server.leave(LONG));
        let mut served = 10 * THREADS as u64;
        let refused = loop {
            match orders.call(WHO, b"").within(std::time::Duration::from_millis(200)).wait() {
                Ok(_) => served += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(leaving.join().expect("no handler panics").unanswered, 0, "over {kind}");
        // On a loaded machine the last call may have run, and its answer come too late.
        let doubtful = u64::from(matches!(refused, NamedCallError::Call(CallError::TimedOut)));
        let ran = ran.load(Ordering::Relaxed);
        assert!(
            (served..=served + doubtful).contains(&ran),
            "over {kind}: {ran} ran, {served}, then {refused}"
        );
    }
}

#[test]
fn a_server_without_threads_or_with_too_many_is_none() {
    let node = Node::alone().expect("alone");
    for threads in [0, 257] {
        let refused = node.serve_on(threads, "ring+shm", "orders", |_| {}).err();
        assert!(matches!(refused, Some(ServeError::Threads { threads: asked }) if asked == threads));
    }
    let refused = node.serve_on(1, "no+such", "orders", |_| {}).err();
    assert!(matches!(refused, Some(ServeError::Endpoint(_))));
}
