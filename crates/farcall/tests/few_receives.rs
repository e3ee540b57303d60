//! Records and batches with more messages than are expected: a receiver that asks for a message or two at a
//! time gets each of them, in order and no other.

mod common;

use std::collections::VecDeque;

use common::stream::Stream;
use common::{LONG, settings, transports};
use farcall::{AnyTag, ReceiveError, Receiving, Tag, TransportKind};
use farcall_base::Random;

const TAGS: u32 = 3;

/// Short messages, and some that are copied, now and then and one after the other; the first two bytes are
/// the number.
fn message(number: u16) -> Vec<u8> {
    let is_copied = number.is_multiple_of(11) || number / 64 % 3 == 2;
    let length = if is_copied { 40 } else { 2 + usize::from(number % 13) };
    let mut bytes = vec![number as u8; length];
    bytes[..2].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn tag_of(number: u16) -> Tag {
    Tag(u32::from(number) * 7 % TAGS)
}

/// Over every transport that leaves messages where they lie.
fn streams() -> impl Iterator<Item = Stream> {
    let leaves =
        |kind: &_| matches!(*kind, TransportKind::RING_SHM | TransportKind::TCP | TransportKind::Library(_));
    transports().filter(leaves).map(|kind| {
        println!("over {kind}");
        Stream::over(kind, &settings(&[]))
    })
}

fn send(stream: &Stream, numbers: std::ops::Range<u16>) {
    for number in numbers {
        let sent = stream.sender.send(stream.to, tag_of(number), message(number)).within(LONG).start();
        drop(sent.expect("room"));
    }
    stream.sender.flush();
}

#[test]
fn one_receive_at_a_time_gets_every_message_in_order_and_many_without_a_poll() {
    for stream in streams() {
        let mut at_once = 0;
        for first in (0..2000).step_by(200) {
            send(&stream, first..first + 200);
            for number in first..first + 200 {
                let receive = stream.receiver.receive(stream.from, tag_of(number)).start().expect("posted");
                at_once += usize::from(receive.is_complete());
                let received = stream.receive(receive).expect("a message");
                assert_eq!((received.tag(), &received[..]), (tag_of(number), &message(number)[..]));
            }
        }
        assert!(at_once > 1000, "{at_once} of 2000 lay there when they were asked for");
        assert_eq!(stream.receiver.receives_in_flight(), 0);
    }
}

/// Asks for messages one by one until the next one is known to lie there; gives its number.
fn until_one_lies_there(stream: &Stream, first: u16) -> u16 {
    // Places of receives that have ended: where there is none, a receive takes a way that never looks for
    // what lies there.
    drop([(); 4].map(|_| stream.receiver.receive(stream.from, Tag(99)).start().expect("posted")));
    send(stream, first..first + 60);
    for number in first..first + 50 {
        let receive = stream.receiver.receive(stream.from, tag_of(number)).start().expect("posted");
        let lay_there = receive.is_complete();
        let received = stream.receive(receive).expect("a message");
        assert_eq!(received[..], message(number));
        if lay_there {
            return number + 1;
        }
    }
    panic!("every message took a poll");
}

#[test]
fn a_receive_that_takes_anything_goes_before_a_later_one_that_asks_for_what_lies_there() {
    for stream in streams() {
        let next = until_one_lies_there(&stream, 0);
        let receiver = &stream.receiver;
        let anything = receiver.receive(stream.from, AnyTag).within(LONG).start().expect("posted");
        let exact = receiver.receive(stream.from, tag_of(next)).start().expect("posted");
        assert_eq!(stream.receive(anything).expect("a message")[..], message(next));
        let same_tag = (next + 1..).find(|&number| tag_of(number) == tag_of(next)).expect("there is one");
        assert_eq!(stream.receive(exact).expect("a message")[..], message(same_tag));
    }
}

#[test]
fn what_lies_there_and_is_too_long_ends_its_receive_and_the_next_one_is_whole() {
    for stream in streams() {
        let next = until_one_lies_there(&stream, 0);
        let ask = |number, room| {
            let receive = stream.receiver.receive(stream.from, tag_of(number)).at_most(room);
            stream.receive(receive.start().expect("posted"))
        };
        assert!(matches!(ask(next, 1), Err(ReceiveError::Truncated { .. })), "a byte has no room for it");
        assert_eq!(ask(next + 1, 40).expect("a message")[..], message(next + 1));
    }
}

#[test]
fn a_handler_that_comes_late_gets_what_lies_there() {
    for stream in streams() {
        let next = until_one_lies_there(&stream, 0);
        let (numbers, handled) = std::sync::mpsc::channel();
        stream.receiver.on_message(move |_, message| {
            numbers.send(u16::from_le_bytes([message[0], message[1]])).expect("the test waits");
        });
        let mut expected = next..60;
        stream.receiver.run_while(|| {
            stream.sender.poll(|_, _| {});
            handled.try_iter().for_each(|number| assert_eq!(Some(number), expected.next()));
            !expected.is_empty()
        });
    }
}

/// Of one sender's messages, and receives in the order in which they are posted, each receive gets the first
/// message that it wants and no earlier receive did, whenever either comes.
#[test]
fn receives_of_all_kinds_get_what_the_rule_says() {
    let seed = std::env::var("FARCALL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FARCALL_TEST_SEED={seed}");
    for stream in streams() {
        follow_the_rule(&stream, Random::new(seed));
    }
}

fn follow_the_rule(stream: &Stream, mut random: Random) {
    let (mut sent, mut posted) = (0_u16, 0_u16);
    let mut waiting: VecDeque<(Option<Tag>, Receiving<'_>)> = VecDeque::new();
    let mut left: VecDeque<u16> = VecDeque::new();
    let mut few = 1;
    while posted < 6000 {
        if usize::from(sent - posted) < 50 {
            let more = 1 + random.below(120) as u16;
            send(stream, sent..sent + more);
            left.extend(sent..sent + more);
            sent += more;
            few = [1, 1, 1, 2, 4, 9][random.below(6) as usize];
        }
        // Only what is certain to be there, so that nobody waits for what is not sent.
        while waiting.len() < few {
            let tag = (random.below(8) > 0).then(|| tag_of(left[waiting.len().min(left.len() - 1)]));
            let receiver = &stream.receiver;
            let receive = match tag {
                Some(tag) => receiver.receive(stream.from, tag).start(),
                None => receiver.receive(stream.from, AnyTag).within(LONG).start(),
            };
            waiting.push_back((tag, receive.expect("posted")));
            posted += 1;
        }
        let (tag, receive) = waiting.pop_front().expect("posted just now");
        let received = stream.receive(receive).expect("a message");
        let expected = left.iter().position(|&number| tag.is_none_or(|tag| tag == tag_of(number)));
        let number = left.remove(expected.expect("it was sent")).expect("it was found");
        assert_eq!((received.tag(), &received[..]), (tag_of(number), &message(number)[..]));
    }
}
