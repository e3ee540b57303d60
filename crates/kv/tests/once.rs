//! Writes that happen once, and whose answers nobody waits for any more.

mod common;

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use common::{LONG, Shards, name};
use farcall::TransportKind;
use farcall_kv::Client;

/// More than a shard keeps results for.
const WRITES: i64 = 100;

#[test]
fn a_write_that_was_given_up_does_not_keep_its_client_from_others() {
    let shards = Shards::start(TransportKind::RING_SHM, 1, 1, &[]);
    let endpoint = shards.client(0);
    let client = Client::new(&endpoint, [0]);
    let add = || client.once(client.increment(name(b"sum"), 1).within(LONG));
    assert_eq!(endpoint.block_on(add()), Ok((1, 1)));
    {
        let mut given_up = pin!(add());
        endpoint.block_on(poll_fn(|context| {
            assert!(given_up.as_mut().poll(context).is_pending(), "it is asked for, and has no answer");
            Poll::Ready(())
        }));
    }
    let before = endpoint.block_on(add()).expect("others happen").1;
    for number in 1..=WRITES {
        assert_eq!(endpoint.block_on(add()).expect("its results are not in the way").1, before + number);
    }
    // The one that nobody waits for has happened, or has not.
    assert!((2..=3).contains(&before), "{before}");
}
