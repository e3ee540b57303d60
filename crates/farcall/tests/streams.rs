//! How much of a stream of messages one poll takes over a ring.

use std::cell::Cell;

use farcall::{Event, Node, Tag};

/// Too long for two of them to share a record.
const LONG: [u8; 4000] = [7; 4000];

const TAG: Tag = Tag(1);

/// Whoever has many receives open looks at all of them between two polls: with one message a poll, each would cost that.
#[test]
fn a_poll_that_follows_another_which_found_a_message_takes_all_that_somebody_waits_for() {
    let node = Node::alone().expect("this process");
    let endpoint = || node.endpoint("ring+shm").expect("an endpoint");
    let (sender, receiver) = (endpoint(), endpoint());
    let to = sender.peer_endpoint(0, 1).expect("it is there");
    let from = receiver.peer_endpoint(0, 0).expect("it is there");
    sender.wait_for(to).expect("up");
    receiver.wait_for(from).expect("up");

    let send = |messages: usize| {
        for _ in 0..messages {
            sender.send(to, TAG, &LONG).wait().expect("sent");
            sender.poll(|_, _| {});
        }
    };
    let post = |receives: u64| {
        (0..receives).for_each(|token| _ = receiver.receive(from, TAG).post(token).expect("posted"));
    };
    let taken = Cell::new(0);
    let poll = || {
        receiver.poll(|_, event| {
            let Event::Received { outcome, .. } = event else { return };
            assert_eq!(**outcome.as_ref().expect("a message"), LONG);
            taken.set(taken.get() + 1);
        });
        taken.take()
    };
    assert_eq!(poll(), 0);
    post(8);
    send(9);
    assert_eq!(poll(), 1, "it may be a conversation, which would have to wait for the next look");
    assert_eq!(poll(), 7, "it is a stream, of which one is left that nobody waits for");
    post(1);
    assert_eq!((poll(), poll()), (1, 0));
    post(2);
    send(2);
    assert_eq!((poll(), poll()), (1, 1), "after a poll in vain all begins anew");
}
