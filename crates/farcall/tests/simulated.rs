//! Endpoints on a simulated fabric: the same calls, deadlines and futures, many hosts in one thread.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Outcome, Profile, Tasks};
use farcall::{CallError, Instant, Node, Service, TransportKind};

const ECHO: Service = Service(1);

fn cluster(size: u32, seed: u64) -> Cluster {
    let profile = Profile::load("ideal").expect("an embedded profile");
    Cluster::new(profile, size, seed, Settings::load([]).expect("defaults")).expect("it has places")
}

/// A host that echoes what it is sent, for ever.
fn echo_server(node: &Node) -> Box<Tasks> {
    let endpoint = node.endpoint("basic+sim").expect("a simulated host");
    endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
    Box::new(Tasks::new(endpoint, |_| async {}))
}

/// All hosts call all others, with messages of many lengths. Returns the trace's fingerprint and the time it took.
fn all_to_all(kind: TransportKind, size: u32, seed: u64) -> (u64, u64) {
    let mut cluster = cluster(size, seed);
    let done = Rc::new(Cell::new(0));
    for rank in 0..size {
        let done = Rc::clone(&done);
        cluster.start(rank, move |node| {
            let endpoint = node.endpoint(kind.name()).expect("a simulated host");
            endpoint.serve(ECHO, |request, reply| reply.send(request.payload()));
            let done = Rc::clone(&done);
            Box::new(Tasks::new(endpoint, move |endpoint| async move {
                for distance in 1..size {
                    let to = (rank + distance) % size;
                    let peer = endpoint.peer(to).expect("all endpoints were made before the first turn");
                    let request = vec![to as u8; (to as usize * 977) % 50_000];
                    let answer = endpoint.call(peer, ECHO, &request).await.expect("nothing is lost");
                    assert_eq!(&answer[..], &request[..]);
                }
                done.set(done.get() + 1);
            }))
        });
    }
    let outcome = cluster.run_while(|| done.get() < size);
    assert_eq!(outcome, Outcome::Done);
    (cluster.fabric().trace_hash(), cluster.fabric().now().0)
}

#[test]
fn hosts_call_each_other_and_the_same_seed_gives_the_same_run() {
    for &kind in TransportKind::SIMULATED {
        assert_eq!(all_to_all(kind, 24, 7), all_to_all(kind, 24, 7), "{kind}");
    }
}

#[test]
fn a_deadline_passes_in_simulated_time() {
    let mut cluster = cluster(2, 1);
    cluster.start(0, |node| {
        let endpoint = node.endpoint("basic+sim").expect("a simulated host");
        let mut never_answered = Vec::new();
        endpoint.serve(ECHO, move |_, reply| never_answered.push(reply.defer().0));
        Box::new(Tasks::new(endpoint, |_| async {}))
    });
    let outcome = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&outcome);
    cluster.start(1, move |node| {
        let endpoint = node.endpoint("basic+sim").expect("a simulated host");
        let clock = endpoint.clock();
        let seen = Rc::clone(&seen);
        Box::new(Tasks::new(endpoint, move |endpoint| async move {
            let peer = endpoint.peer(0).expect("it was started before");
            let begun = clock.now();
            let error = endpoint
                .call(peer, ECHO, b"?")
                .within(Duration::from_millis(300))
                .await
                .expect_err("no answer");
            *seen.borrow_mut() = Some((error, clock.now() - begun));
        }))
    });
    assert_eq!(cluster.run_while(|| outcome.borrow().is_none()), Outcome::Done);
    let (error, lasted) = outcome.take().expect("it is there");
    assert_eq!(error, CallError::TimedOut);
    assert!((300..302).contains(&lasted.as_millis()), "{lasted:?}");
}

#[test]
fn an_endpoint_that_was_not_made_is_not_waited_for() {
    let mut cluster = cluster(2, 1);
    let outcome = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&outcome);
    cluster.start(0, |node| echo_server(&node));
    cluster.run_until(Instant::from_nanos(1_000));
    cluster.start(1, move |node| {
        let endpoint = node.endpoint("basic+sim").expect("a simulated host");
        let seen = Rc::clone(&seen);
        Box::new(Tasks::new(endpoint, move |endpoint| async move {
            *seen.borrow_mut() =
                Some(endpoint.peer_endpoint(0, 1).expect_err("it has one endpoint").to_string());
        }))
    });
    assert_eq!(cluster.run_while(|| outcome.borrow().is_none()), Outcome::Done);
    assert!(outcome.take().expect("it is there").contains("basic+sim#1"));
}

#[test]
#[should_panic(expected = "a simulated host cannot wait")]
fn waiting_on_a_simulated_host_is_a_clear_mistake() {
    let mut cluster = cluster(2, 1);
    cluster.start(0, |node| echo_server(&node));
    cluster.start(1, |node| {
        let endpoint = node.endpoint("basic+sim").expect("a simulated host");
        Box::new(Tasks::new(endpoint, |endpoint| async move {
            let peer = endpoint.peer(0).expect("it was started before");
            let _ = endpoint.call(peer, ECHO, b"?").wait();
        }))
    });
    cluster.run_until(Instant::from_nanos(1_000_000_000));
}

#[test]
fn a_process_has_no_simulated_transports_and_a_simulated_host_no_others() {
    let error = Node::alone().expect("alone").endpoint("basic+sim").expect_err("no fabric");
    assert!(error.to_string().contains("needs a simulated fabric"), "{error}");
    let mut cluster = cluster(1, 1);
    cluster.start(0, |node| {
        let error = node.endpoint("ring+shm").expect_err("no shared memory");
        assert!(error.to_string().contains("simulated hosts have no ring+shm"), "{error}");
        echo_server(&node)
    });
}
