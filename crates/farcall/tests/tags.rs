//! Messages that nobody receives do not hold up those of other tags, whatever the window is full of.

mod common;

use common::stream::Stream;
use common::{LONG, and_auto, settings, transports};
use farcall::{AnySource, SendError, SendRefused, Sending, Tag};

/// A tag that is received last, if ever.
const IDLE: Tag = Tag(1);
const URGENT: Tag = Tag(2);

/// More than the windows of both ends have room for, so that the last wait at their sender.
const FLOOD: u16 = 600;
const BYTES: usize = 1000;

fn streams() -> impl Iterator<Item = Stream> {
    and_auto(transports()).map(|kind| {
        println!("over {kind}");
        Stream::over(kind, &settings(&["endpoint.unexpected_bytes=64K"]))
    })
}

fn message(number: u16) -> Vec<u8> {
    let mut bytes = vec![number as u8; BYTES];
    bytes[..2].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn flood(stream: &Stream) -> Vec<Sending<'_>> {
    let send = |number| stream.sender.send(stream.to, IDLE, message(number)).within(LONG).start();
    (0..FLOOD).map(|number| send(number).expect("room")).collect()
}

/// Polls until the window is full and nothing moves any more.
fn settle(stream: &Stream) {
    let mut quiet = 0;
    while quiet < 200 {
        let moved = stream.sender.poll(|_, _| {}) + stream.receiver.poll(|_, _| {});
        quiet = if moved == 0 { quiet + 1 } else { 0 };
    }
}

fn receive_flood(stream: &Stream) {
    for number in 0..FLOOD {
        let receive = stream.receiver.receive(stream.from, IDLE).within(LONG).start().expect("posted");
        assert_eq!(stream.receive(receive).expect("a message")[..], message(number));
    }
}

fn urgent(stream: &Stream, payload: &'static [u8]) {
    drop(stream.sender.send(stream.to, URGENT, payload).within(LONG).start().expect("room"));
}

#[test]
fn a_message_passes_those_of_a_tag_that_nobody_receives() {
    for stream in streams() {
        let _waiting = flood(&stream);
        settle(&stream);
        for payload in [&b"first"[..], b"second"] {
            urgent(&stream, payload);
            settle(&stream);
            let receive = stream.receiver.receive(stream.from, URGENT).within(LONG).start().expect("posted");
            assert_eq!(stream.receive(receive).expect("it passes")[..], *payload);
        }
        receive_flood(&stream);
    }
}

/// The most bytes of one message, as the refusal of a longer one says.
fn longest(stream: &Stream) -> usize {
    match stream.sender.send(stream.to, IDLE, vec![0; 9 << 20]).within(LONG).wait() {
        Err(SendError::NotSent(SendRefused::TooLong { bytes_max, .. })) => bytes_max,
        other => panic!("nine megabytes: {other:?}"),
    }
}

#[test]
fn the_longest_message_passes_as_long_a_one_of_a_tag_that_nobody_receives() {
    for stream in streams() {
        let bytes = longest(&stream);
        let send = |tag, fill| stream.sender.send(stream.to, tag, vec![fill; bytes]).within(LONG).start();
        let (_idle, urgent) = (send(IDLE, 1).expect("room"), send(URGENT, 2).expect("room"));
        settle(&stream);
        for (tag, fill) in [(URGENT, 2), (IDLE, 1)] {
            let receive = stream.receiver.receive(stream.from, tag).within(LONG).start().expect("posted");
            let message = stream.receive(receive).expect("it arrives");
            assert!(message.len() == bytes && message.iter().all(|byte| *byte == fill));
        }
        stream.sender.run_while(|| !urgent.is_complete());
        assert_eq!(urgent.wait(), Ok(()));
    }
}

#[test]
fn a_message_passes_to_a_receive_that_was_posted_before_all() {
    for stream in streams() {
        let from_any = stream.receiver.receive(AnySource, URGENT).within(LONG).start().expect("posted");
        let receive = stream.receiver.receive(stream.from, URGENT).within(LONG).start().expect("posted");
        let _waiting = flood(&stream);
        urgent(&stream, b"first");
        urgent(&stream, b"second");
        assert_eq!(stream.receive(from_any).expect("it passes")[..], *b"first");
        assert_eq!(stream.receive(receive).expect("it passes")[..], *b"second");
        receive_flood(&stream);
    }
}

#[test]
fn messages_of_many_tags_pass_and_keep_their_order() {
    const TAGS: u16 = 50;
    for stream in streams() {
        let _waiting = flood(&stream);
        let tag_of = |number| Tag(u32::from(10 + number % TAGS));
        for number in 0..4 * TAGS {
            let sent = stream.sender.send(stream.to, tag_of(number), message(number)).within(LONG).start();
            drop(sent.expect("room"));
        }
        for tag in (0..TAGS).rev() {
            for number in (tag..4 * TAGS).step_by(TAGS.into()) {
                let from = stream.from;
                let receive =
                    stream.receiver.receive(from, tag_of(tag)).within(LONG).start().expect("posted");
                assert_eq!(stream.receive(receive).expect("it passes")[..], message(number));
            }
        }
        receive_flood(&stream);
    }
}

#[test]
fn a_tag_whose_messages_were_taken_back_passes_when_it_is_sent_again() {
    for stream in streams() {
        let _waiting = flood(&stream);
        let sending = stream.sender.send(stream.to, URGENT, &b"taken back"[..]).within(LONG).start();
        let other = stream.receiver.receive(stream.from, Tag(3)).within(LONG).start().expect("posted");
        settle(&stream);
        let cancelled = sending.expect("room").cancel();
        assert_eq!(cancelled, Err(SendError::Cancelled), "it waits, so that it can be taken back");
        let receive = stream.receiver.receive(stream.from, URGENT).within(LONG).start().expect("posted");
        settle(&stream);
        assert!(!receive.is_complete() && !other.is_complete());
        urgent(&stream, b"again");
        assert_eq!(stream.receive(receive).expect("it passes")[..], *b"again");
        receive_flood(&stream);
    }
}
