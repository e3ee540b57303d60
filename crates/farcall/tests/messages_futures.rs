//! What the futures of receives promise: when they are complete, what they hold, and what may wait for them.
//!
//! Over rings, where messages are handed to futures by ways of their own.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::stream::Stream;
use common::{LONG, pattern, settings};
use farcall::{AnySource, AnyTag, Receiving, Tag};

const THERE: Tag = Tag(7);
const BACK: Tag = Tag(8);

/// The copy of a message stands beside the slot of its receive, which the next receive gets.
#[test]
fn a_message_that_was_copied_goes_with_its_future() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    for round in 0..10_u8 {
        let receives = [0, 1, 2].map(|_| receiver.receive(from, THERE).start().expect("posted"));
        for number in 0..3 {
            sender.send(to, THERE, &[3 * round + number; 1000]).wait().expect("sent");
        }
        receiver.run_while(|| !receives.iter().all(Receiving::is_complete));
        let [first, unread, last] = receives;
        drop(unread);
        assert_eq!(first.ready().ok().expect("it is there").expect("a message")[..], [3 * round; 1000]);
        assert_eq!(last.cancel().expect("it was there before")[..], [3 * round + 2; 1000]);
    }
}

/// The next receive gets the slot of the last, whichever way that one went.
#[test]
fn a_receive_is_complete_from_its_message_on_and_no_sooner() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    for length in [0, 8, 100, 100_000] {
        for way in 0..4 {
            let receive = receiver.receive(from, THERE).within(LONG).start().expect("posted");
            assert!(!receive.is_complete(), "{length} bytes, after way {way}");
            if way == 0 {
                drop(receive);
                continue;
            }
            drop(sender.send(to, THERE, pattern(1, length)).within(LONG).start().expect("room"));
            while !receive.is_complete() {
                sender.turn();
                receiver.turn();
            }
            match way {
                1 => drop(receive),
                2 => assert_eq!(receive.ready().ok().expect("it is there").expect("a message").len(), length),
                _ => assert_eq!(receive.wait().expect("a message").len(), length),
            }
        }
    }
}

/// In one record, where receives that say what they want in full would be found by other means.
#[test]
fn futures_that_take_anything_get_messages_that_leave_together_in_order() {
    let Stream { sender, receiver, to, .. } = Stream::with(&settings(&[]));
    let post = |_| receiver.receive(AnySource, AnyTag).within(LONG).start().expect("posted");
    let receives: Vec<_> = (0..40).map(post).collect();
    for number in 0..40_u8 {
        drop(sender.send(to, Tag(number.into()), &[number; 12]).within(LONG).start().expect("room"));
    }
    sender.flush();
    for (number, receive) in (0..40_u8).zip(receives) {
        let message = receive.wait().expect("a message");
        assert_eq!((message.tag(), &message[..]), (Tag(number.into()), &[number; 12][..]));
    }
}

/// The endpoint may not be polled inside an event, which panics; the receive goes with the future.
#[test]
fn a_receive_that_is_waited_for_inside_an_event_is_given_up() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&[]));
    let mut waits = Some(receiver.receive(from, BACK).within(LONG).start().expect("posted"));
    receiver.receive(from, THERE).within(LONG).post(1).expect("posted");
    drop(sender.send(to, THERE, b"").within(LONG).start().expect("room"));
    sender.flush();
    while let Some(receive) = waits.take() {
        let mut receive = Some(receive);
        receiver.poll(|_, _| {
            let wait = AssertUnwindSafe(|| receive.take().map(Receiving::wait));
            assert!(catch_unwind(wait).is_err(), "the endpoint was polled inside a poll");
        });
        waits = receive;
    }
    receiver.turn();
    assert_eq!(receiver.receives_in_flight(), 0);
}
