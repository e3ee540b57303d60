//! How much of a stream of messages or requests, and of the room that is made by reading it, one poll takes
//! over a ring, and how much of that room is found between two polls.

mod common;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::settings;
use common::stream::Stream;
use farcall::parameters::Settings;
use farcall::{Event, Pending, Sending, Service, Tag};

/// Too long for two of them to share a record.
const LONG: [u8; 4000] = [7; 4000];

const TAG: Tag = Tag(1);

/// Whoever has many receives open looks at all of them between two polls: with one message a poll, each would
/// cost that.
#[test]
fn a_poll_that_follows_another_which_found_a_message_takes_all_that_somebody_waits_for() {
    let Stream { sender, receiver, to, from } = Stream::with(&Settings::default());
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
    assert_eq!((poll(), poll()), (1, 1), "after a poll that found nothing all begins again");
}

/// What lies behind the last message that somebody waits for is not even looked at, so that it is left as
/// often as if it had come later.
#[test]
fn a_poll_ends_with_the_last_message_that_somebody_waits_for() {
    let Stream { sender, receiver, to, from } = Stream::with(&Settings::default());
    for _ in 0..2 {
        let pair: Vec<_> = (0..2).map(|_| sender.send(to, TAG, b"short").start().expect("sent")).collect();
        sender.poll(|_, _| {});
        pair.into_iter().for_each(|sending| sending.wait().expect("it has left"));
    }
    let ask = || receiver.receive(from, TAG).start().expect("posted");
    let (first, second) = (ask(), ask());
    receiver.poll(|_, _| {});
    assert!(first.is_complete() && second.is_complete());
    receiver.poll(|_, _| {});
    let third = ask();
    assert!(!third.is_complete(), "the third message was left in the ring");
    receiver.poll(|_, _| {});
    assert!(third.is_complete());
    receiver.poll(|_, _| {});
    receiver.poll(|_, _| {});
    assert!(ask().is_complete(), "the fourth was kept at last");
}

/// How many requests of that length one poll serves of eight that are there.
fn requests_of_a_poll(bytes: usize) -> u64 {
    const SERVICE: Service = Service(1);
    let Stream { sender, receiver, to, .. } = Stream::with(&settings(&[]));
    let served = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&served);
    receiver.serve(SERVICE, move |_, reply| {
        count.fetch_add(1, Ordering::Relaxed);
        reply.send(b"");
    });
    let call = |payload: &[u8]| sender.call(to, SERVICE, payload).start().expect("it may be called");
    let finish = |call: Pending<'_>| {
        while !call.is_complete() {
            receiver.poll(|_, _| {});
            sender.poll(|_, _| {});
        }
        assert!(call.wait().expect("an answer").is_empty());
    };
    // That a session is up is known to the one who asked for it before it is to the other.
    finish(call(b"first"));
    served.store(0, Ordering::Relaxed);
    let payload = vec![7; bytes];
    let calls: Vec<_> = (0..8).map(|_| call(&payload)).collect();
    sender.flush();
    receiver.poll(|_, _| {});
    let of_a_poll = served.load(Ordering::Relaxed);
    calls.into_iter().for_each(finish);
    assert_eq!(served.load(Ordering::Relaxed), 8);
    of_a_poll
}

/// Their answers leave one by one, so that nobody waits for those behind.
#[test]
fn a_poll_serves_requests_in_blocks_up_to_a_megabyte() {
    assert_eq!(requests_of_a_poll(64 << 10), 8);
    assert_eq!(requests_of_a_poll(512 << 10), 2);
    assert_eq!(requests_of_a_poll(2 << 20), 1);
}

/// Sends as many messages, lets the receiver read all that have left, one by one, and then the sender poll
/// once. Gives how many had left before and after that.
fn left_before_and_after_a_poll(settings: &Settings, bytes: usize, messages: usize) -> (usize, usize) {
    let Stream { sender, receiver, to, from } = Stream::with(settings);
    let payload = vec![7; bytes];
    let sends: Vec<Sending<'_>> =
        (0..messages).map(|_| sender.send(to, TAG, &payload).start().expect("it may wait")).collect();
    let left = || sends.iter().filter(|send| send.is_complete()).count();
    let before = left();
    assert!(before < messages, "all {messages} left at once");
    sender.flush();
    for _ in 0..before {
        drop(receiver.receive(from, TAG).wait().expect("a message"));
        receiver.poll(|_, _| {});
    }
    sender.poll(|_, _| {});
    (before, left())
}

/// A receiver reports what it has read time and again. A sender that heard one of that in a poll would lag
/// behind for ever, with all of its messages waiting for room that is there.
#[test]
fn a_poll_learns_of_all_the_room_in_the_ring() {
    let (before, after) = left_before_and_after_a_poll(&Settings::default(), LONG.len(), 1000);
    assert!(after - before > before * 2 / 3, "{before}, and then {after}");
}

#[test]
fn a_poll_learns_of_all_the_blocks_that_were_given_back() {
    let settings = settings(&["shm.block_bytes=1M"]);
    let (before, after) = left_before_and_after_a_poll(&settings, 100_000, 100);
    assert!(before > 2 && after >= 2 * before, "{before}, and then {after}");
}

/// Sends by this many at a time what a receiver then reads, without a poll of the sender in between; none may
/// have to wait.
fn send_without_a_poll(settings: &Settings, bytes: usize, at_a_time: usize) {
    let Stream { sender, receiver, to, from } = Stream::with(settings);
    let payload = vec![7; bytes];
    for round in 0..50 {
        for _ in 0..at_a_time {
            let send = sender.send(to, TAG, &payload).start().expect("it may be sent");
            assert!(send.is_complete(), "round {round}");
            send.wait().expect("sent");
        }
        sender.flush();
        for _ in 0..at_a_time {
            drop(receiver.receive(from, TAG).wait().expect("a message"));
            receiver.poll(|_, _| {});
        }
    }
}

#[test]
fn a_sender_learns_of_room_in_the_ring_and_in_the_window_before_it_polls() {
    send_without_a_poll(&Settings::default(), LONG.len(), 40);
}

#[test]
fn a_sender_learns_of_blocks_that_were_given_back_before_it_polls() {
    let settings = settings(&["shm.block_bytes=1M"]);
    send_without_a_poll(&settings, 100_000, 4);
}

/// A sender that is far ahead waits for its peer for a moment, in which one that reads would give something
/// back.
#[test]
fn a_sender_goes_on_though_nobody_reads_what_it_has_lent() {
    let Stream { sender, receiver, to, from } = Stream::with(&Settings::default());
    let payload = |number: u8| vec![number; 64 << 10];
    for number in 0..40 {
        sender.send(to, TAG, payload(number)).wait().expect("there is block memory for all");
    }
    for number in 0..40 {
        let message = receiver.receive(from, TAG).wait().expect("it was sent");
        assert_eq!(*message, *payload(number));
    }
}

/// Between two polls that find nothing, the place of the next long record is made ready, as far as it is
/// free.
#[test]
fn a_sender_that_prepares_for_more_leaves_alone_what_was_not_read() {
    let Stream { sender, receiver, to, from } = Stream::with(&settings(&["ring.ring_bytes=16K"]));
    let payload = |number: usize| vec![number as u8; 600 + number * 577 % 2500];
    let (mut sent, mut read) = (0, 0);
    for _ in 0..50 {
        let waits = loop {
            let send = sender.send(to, TAG, payload(sent)).start().expect("it may wait");
            sent += 1;
            for _ in 0..8 {
                sender.poll(|_, _| {});
            }
            if !send.is_complete() {
                break send;
            }
        };
        while read + 1 < sent {
            let message = receiver.receive(from, TAG).within(common::LONG).wait().expect("a message");
            assert!(*message == *payload(read), "message {read}");
            read += 1;
        }
        // Its last return of room is still to leave.
        receiver.poll(|_, _| {});
        waits.wait().expect("there is room");
    }
}
