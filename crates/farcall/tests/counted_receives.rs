//! What is counted of messages that futures get, however they come to them. Alone in its file, because it
//! counts what the whole process does.

mod common;

use common::counters::sum_of;
use common::stream::Stream;
use common::{settings, transports};
use farcall::{Receiving, Tag};

const MESSAGES: u32 = 60;

/// A length that needs no memory of its own, one that is copied, and one that no record takes.
const LENGTHS: [usize; 3] = [8, 1000, 100_000];

fn send(stream: &Stream, bytes: usize) {
    for tag in 0..MESSAGES {
        drop(stream.sender.send(stream.to, Tag(tag), vec![tag as u8; bytes]).start().expect("room"));
    }
    stream.sender.flush();
}

fn post(stream: &Stream, tag: u32) -> Receiving<'_> {
    stream.receiver.receive(stream.from, Tag(tag)).start().expect("posted")
}

fn take(stream: &Stream, bytes: usize, tag: u32, receive: Receiving<'_>) {
    let received = stream.receive(receive).expect("a message");
    assert_eq!((received.len(), received[0]), (bytes, tag as u8));
}

/// Receives that wait for messages, and messages that wait for receives.
#[test]
fn every_message_that_a_future_gets_is_counted_once() {
    for kind in transports() {
        let stream = Stream::over(kind, &settings(&[]));
        for bytes in LENGTHS {
            let before = sum_of(kind.name(), "received");
            let posted: Vec<_> = (0..MESSAGES).map(|tag| post(&stream, tag)).collect();
            send(&stream, bytes);
            (0..).zip(posted).for_each(|(tag, receive)| take(&stream, bytes, tag, receive));
            send(&stream, bytes);
            (0..MESSAGES).for_each(|tag| take(&stream, bytes, tag, post(&stream, tag)));
            let received = sum_of(kind.name(), "received") - before;
            assert_eq!(received, 2 * u64::from(MESSAGES), "{kind}: {bytes} bytes");
        }
    }
}
