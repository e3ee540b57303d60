//! What waits holds no block: neither end can wait for block memory that only messages behind it, or behind
//! those of its peer, would give back.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Profile, Tasks};
use farcall::{Endpoint, Instant, Loan, Service, Tag};

const PASS_BACK: Service = Service(1);
const BLOCK_MEMORY_BYTES: usize = 64 << 10;
/// Four of them are all of the block memory.
const PAYLOAD_BYTES: usize = BLOCK_MEMORY_BYTES / 4;
const RANKS: u32 = 2;
/// Empty messages that may wait for a receive.
const WINDOW_LINES: usize = 1024;
/// Far more than all of it takes.
const LIMIT: Duration = Duration::from_millis(50);

/// Runs `main` on both hosts of a pair whose blocks are scarce and whose requests come back as they are, and
/// checks that it ends in time and that all of the block memory is returned.
fn on_both<F: Future<Output = ()> + 'static>(main: fn(Rc<Endpoint>, u32) -> F) {
    let overrides = [format!("lanes.block_bytes={BLOCK_MEMORY_BYTES}"), "lanes.ring_bytes=4096".to_owned()];
    let overrides: Vec<_> = overrides.iter().map(String::as_str).collect();
    let profile = Profile::load_with("ideal", &overrides).expect("a profile");
    let settings =
        Settings::load([format!("endpoint.unexpected_bytes={}", WINDOW_LINES * 64)]).expect("settings");
    let mut cluster = Cluster::new(profile, RANKS, 1, settings).expect("places");
    let (done, endpoints) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
    for rank in 0..RANKS {
        let (done, endpoints) = (Rc::clone(&done), Rc::clone(&endpoints));
        cluster.start(rank, move |node| {
            let endpoint = node.endpoint("ring+sim").expect("a simulated host");
            endpoint.serve(PASS_BACK, |request, reply| reply.send(request.take()));
            let (done, endpoints) = (Rc::clone(&done), Rc::clone(&endpoints));
            Box::new(Tasks::new(endpoint, move |endpoint| async move {
                endpoints.borrow_mut().push(Rc::clone(&endpoint));
                main(endpoint, rank).await;
                done.set(done.get() + 1);
            }))
        });
    }
    cluster.run_while_until(|| done.get() < RANKS, Instant::ZERO + LIMIT);
    assert_eq!(done.get(), RANKS, "somebody waits for ever");
    // The last returns are on their way.
    cluster.run_until(cluster.fabric().now().instant() + Duration::from_millis(1));
    for endpoint in endpoints.take() {
        endpoint.loan(BLOCK_MEMORY_BYTES).expect("all memory was returned");
    }
}

/// A payload that needs a block when it leaves.
fn bytes(number: u8) -> Vec<u8> {
    vec![number; PAYLOAD_BYTES]
}

/// The same in a block that it has already.
fn loan(endpoint: &Endpoint, number: u8) -> Loan {
    let mut loan = endpoint.loan(PAYLOAD_BYTES).expect("memory for four");
    loan.fill(number);
    loan
}

#[test]
fn a_message_does_not_wait_for_blocks_of_those_behind_it() {
    on_both(|endpoint, rank| async move {
        let peer = endpoint.peer(1 - rank).expect("both are there");
        // None of them can leave before the session is up.
        let first = endpoint.call(peer, PASS_BACK, bytes(0)).start().expect("room");
        let behind: Vec<_> = (1..5)
            .map(|number| endpoint.call(peer, PASS_BACK, loan(&endpoint, number)).start().expect("room"))
            .collect();
        assert_eq!(&first.await.expect("an answer")[..], bytes(0));
        for (number, call) in (1..).zip(behind) {
            assert_eq!(&call.await.expect("an answer")[..], bytes(number));
        }
    });
}

#[test]
fn a_call_does_not_wait_for_blocks_of_messages_whose_window_is_closed() {
    on_both(|endpoint, rank| async move {
        let peer = endpoint.peer(1 - rank).expect("both are there");
        endpoint.call(peer, PASS_BACK, b"").await.expect("the session is up");
        let fill = || endpoint.send(peer, Tag(1), b"").start().expect("room");
        let fillers: Vec<_> = (0..WINDOW_LINES).map(|_| fill()).collect();
        let in_loan = |number| endpoint.send(peer, Tag(7), loan(&endpoint, number)).start().expect("room");
        let in_loans: Vec<_> = (0..4).map(in_loan).collect();
        assert_eq!(&endpoint.call(peer, PASS_BACK, bytes(9)).await.expect("an answer")[..], bytes(9));
        for _ in 0..WINDOW_LINES {
            endpoint.receive(peer, Tag(1)).await.expect("a message");
        }
        for number in 0..4 {
            assert_eq!(&endpoint.receive(peer, Tag(7)).await.expect("a message")[..], bytes(number));
        }
        for send in fillers.into_iter().chain(in_loans) {
            send.await.expect("it was received");
        }
    });
}

#[test]
fn two_ends_that_pass_back_what_the_other_lent_do_not_wait_for_each_other() {
    on_both(|endpoint, rank| async move {
        let peer = endpoint.peer(1 - rank).expect("both are there");
        endpoint.call(peer, PASS_BACK, b"").await.expect("the session is up");
        // All memory of either end is in requests; each answer is a block of the other's, and needs one of
        // its own.
        let calls: Vec<_> = (0..8)
            .map(|number| endpoint.call(peer, PASS_BACK, bytes(number)).start().expect("room"))
            .collect();
        for (number, call) in (0..).zip(calls) {
            let answer = call.await.expect("an answer");
            assert_eq!(&answer[..], bytes(number));
        }
    });
}
