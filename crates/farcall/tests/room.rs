//! What a sender owes for what it learns of room. By itself in a process, because it reads that process's
//! counters.

mod common;

use common::counters::sum_of;
use common::settings;
use common::stream::Stream;
use farcall::Tag;

/// Longer than what travels inside so small a ring.
const LONG: [u8; 1500] = [7; 1500];
const SHORT: [u8; 400] = [8; 400];

const OF_LONG: Tag = Tag(1);
const OF_SHORT: Tag = Tag(2);

/// A peer whose ring is full of returned blocks could not say anything any more, were it not told that they
/// were read.
#[test]
fn credit_is_returned_for_what_was_learned_though_it_did_not_help() {
    let settings = settings(&["ring.ring_bytes=4K", "endpoint.unexpected_bytes=64K"]);
    let Stream { sender, receiver, to, from } = Stream::with(&settings);
    for _ in 0..24 {
        sender.send(to, OF_LONG, &LONG).start().expect("it may be sent").wait().expect("sent");
        receiver.poll(|_, _| {});
    }
    let fills_window = loop {
        let send = sender.send(to, OF_SHORT, &SHORT).start().expect("it may wait");
        for _ in 0..8 {
            sender.poll(|_, _| {});
            receiver.poll(|_, _| {});
        }
        if !send.is_complete() {
            break send;
        }
    };

    // Too few messages for the window to become wider, but their blocks come back.
    for _ in 0..24 {
        drop(receiver.receive(from, OF_LONG).wait().expect("a message"));
        receiver.poll(|_, _| {});
    }
    let send = sender.send(to, OF_SHORT, &SHORT).start().expect("it may wait");
    let before = sum_of("ring+shm", "credit_records_sent");
    sender.poll(|_, _| {});
    assert!(!send.is_complete() && !fills_window.is_complete());
    assert_eq!(sum_of("ring+shm", "credit_records_sent"), before + 1);
}
