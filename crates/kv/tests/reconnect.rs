//! Shards that are started again while their client has nothing in flight: what it asks for next reaches
//! them.

mod common;

use std::sync::mpsc;
use std::time::Instant;

use common::{LONG, Shards, name, value};
use farcall::{CallError, CallRefused, Endpoint, TransportKind};
use farcall_kv::store::Condition;
use farcall_kv::{Client, Failure};

const SILENCE: [&str; 1] = ["endpoint.peer_timeout=500ms"];

/// Over packets and over lanes: a client that has learnt that its shard is gone, and the shard, which is
/// back.
fn with_a_shard_that_came_back(test: impl Fn(&Endpoint, &Client<'_>)) {
    for kind in [TransportKind::BASIC_UDP, TransportKind::RING_SHM] {
        let mut shards = Shards::start(kind, 1, 1, &SILENCE);
        let endpoint = shards.client(0);
        let client = Client::new(&endpoint, [0]);
        client.put(name(b"k"), value(b"v"), Condition::Always).wait().expect("it serves");
        shards.end(0);
        let deadline = Instant::now() + LONG;
        while endpoint.session_with(0).is_some() {
            endpoint.poll(|_, _| ());
            assert!(Instant::now() < deadline, "the end of a shard is noticed");
        }
        shards.start_again(0);
        test(&endpoint, &client);
    }
}

#[test]
fn a_write_that_was_never_sent_is_repeated() {
    with_a_shard_that_came_back(|_, client| {
        assert_eq!(client.put(name(b"k"), value(b"new"), Condition::Absent).wait(), Ok(1));
    });
    with_a_shard_that_came_back(|endpoint, client| {
        let increment = async { client.increment(name(b"n"), 7).await };
        assert_eq!(endpoint.block_on(increment), Ok((1, 7)));
    });
}

#[test]
fn a_write_with_a_callback_says_that_it_was_not_sent_and_the_next_one_is() {
    with_a_shard_that_came_back(|endpoint, client| {
        let put = || client.put(name(b"k"), value(b"new"), Condition::Absent).within(LONG);
        let refused = put().then(|_, _| panic!("it was refused"));
        assert_eq!(refused, Err(Failure::NoAnswer(CallError::NotSent(CallRefused::Down))));
        let (outcomes, outcome) = mpsc::channel();
        put().then(move |_, put| outcomes.send(put).expect("the test waits")).expect("it connects again");
        let mut written = None;
        endpoint.run_while(|| {
            written = outcome.try_recv().ok();
            written.is_none()
        });
        assert_eq!(written, Some(Ok(1)));
    });
}
