//! What tagged messages promise, over every transport: all sizes, all owners, their order, and those that
//! nobody expects.

mod common;

use std::time::Instant;

use common::litter::resident_bytes;
use common::post::{BACK, MESSAGE_BYTES_MAX, THERE, ask_to_count, pairs, start_echo};
use common::{LONG, pattern};
use farcall::{AnySource, AnyTag, SendError, Sending, Tag};

/// Messages of one byte, of which a receiver keeps a fraction; fewer where they are slow.
const UNEXPECTED_MESSAGES: u32 = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };

/// What a million messages may take that wait for a receive: the window of 64 KiB and the operations of an
/// endpoint, beside what other tests of this process do meanwhile, and what a sanitizer adds. If all were
/// kept, at either end, it would be more.
const UNEXPECTED_GROWTH_BYTES_MAX: u64 = 64 << 20;

#[test]
fn messages_of_all_sizes_arrive_whole() {
    for pair in pairs() {
        start_echo(&pair);
        for length in [0, 1, 8, 15, 16, 63, 64, 100, 8183, 8184, 8185, 65_536, 100_000, MESSAGE_BYTES_MAX] {
            let sent = pattern(length as u64, length);
            pair.client.send(pair.server, THERE, &sent).within(LONG).wait().expect("sent");
            let message = pair.client.receive(pair.server, BACK).within(LONG).wait().expect("a message");
            assert!(*message == sent[..], "{length} bytes");
            assert_eq!((message.peer(), message.tag()), (pair.server, BACK));
        }
    }
}

/// They share records or packets, which those that wait for each other never do.
#[test]
fn short_messages_that_leave_together_arrive_whole() {
    for pair in pairs() {
        start_echo(&pair);
        for length in 0..40 {
            let sent = pattern(length as u64, length);
            drop(pair.client.send(pair.server, THERE, &sent).within(LONG).start().expect("sent"));
        }
        for length in 0..40 {
            let message = pair.client.receive(pair.server, BACK).within(LONG).wait().expect("a message");
            assert!(*message == pattern(length as u64, length)[..], "{length} bytes");
        }
    }
}

#[test]
fn the_three_ways_to_own_what_is_sent_come_to_the_same() {
    for pair in pairs() {
        start_echo(&pair);
        for length in [8, 3000, 200_000] {
            let sent = pattern(5, length);
            let mut loan = pair.client.loan(length).expect("memory");
            loan.copy_from_slice(&sent);
            pair.client.send(pair.server, THERE, loan).within(LONG).wait().expect("sent");
            let moved = farcall::Payload::from(sent.clone());
            pair.client.send(pair.server, THERE, moved.clone()).within(LONG).wait().expect("sent");
            let mut borrowed = vec![0; length];
            for _ in 0..2 {
                let got = pair.client.receive(AnySource, BACK).within(LONG).wait_into(&mut borrowed);
                assert_eq!(got, Ok(length));
                assert!(borrowed == sent);
            }
            let back = moved.into_vec().expect("a send that is complete has let go");
            assert!(back == sent);
        }
    }
}

#[test]
fn messages_with_one_tag_arrive_in_order_whatever_their_sizes() {
    for pair in pairs() {
        let counted = ask_to_count(&pair, Tag(3), 200);
        for number in 0..200_u8 {
            let length = [1, 9000, 40, 30_000][usize::from(number % 4)];
            pair.client.send(pair.server, Tag(3), vec![number; length]).within(LONG).wait().expect("sent");
        }
        let numbers = counted.wait().expect("all came");
        assert_eq!(*numbers, (0..200).collect::<Vec<u8>>()[..]);
    }
}

#[test]
fn unexpected_messages_wait_and_wildcards_take_the_oldest() {
    for pair in pairs() {
        start_echo(&pair);
        for number in 0..10_u8 {
            pair.client.send(pair.server, THERE, &[number]).within(LONG).wait().expect("sent");
        }
        // The echo is in order, so when the last is here the others are too.
        pair.client.send(pair.server, THERE, b"").within(LONG).wait().expect("sent");
        let first = pair.client.receive(AnySource, AnyTag).within(LONG).wait().expect("a message");
        assert_eq!((&first[..], first.tag()), (&[0][..], BACK));
        let second = pair.client.receive(pair.server, AnyTag).within(LONG).wait().expect("a message");
        let third = pair.client.receive(AnySource, BACK).within(LONG).wait().expect("a message");
        assert_eq!((&second[..], &third[..]), (&[1][..], &[2][..]));
        for number in 3..10 {
            let next = pair.client.receive(pair.server, BACK).within(LONG).wait().expect("a message");
            assert_eq!(next[..], [number]);
        }
    }
}

#[test]
fn far_more_unexpected_messages_than_fit_wait_at_their_sender_and_none_is_lost() {
    for pair in pairs() {
        pair.client.wait_for(pair.server).expect("up");
        let (mut refused, mut last, resident_before) = (0, None, resident_bytes());
        for number in 0..UNEXPECTED_MESSAGES {
            // Nobody receives yet: what finds no room is given up, and what was given up is not sent.
            let sending = pair.client.send(pair.server, Tag(1), &[number as u8]).within(LONG).start();
            match sending {
                Ok(sending) => last = Some(sending),
                Err(SendError::TooMany { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            pair.client.poll(|_, _| {});
        }
        let growth = resident_bytes().saturating_sub(resident_before);
        println!("{refused} of {UNEXPECTED_MESSAGES} were refused, and {growth} bytes more are used");
        assert!(growth < UNEXPECTED_GROWTH_BYTES_MAX, "{growth} bytes");
        // Where the sends that wait are all that an endpoint may have in flight, the last of them makes room
        // for a call.
        let is_taken_back = last.map(Sending::cancel) == Some(Err(SendError::Cancelled));
        let sent = UNEXPECTED_MESSAGES - refused - u32::from(is_taken_back);
        let counted = ask_to_count(&pair, Tag(1), sent);
        assert_eq!(counted.wait().expect("all came").len(), sent as usize);
        // Where packets are lost, the sender may learn of it later than the receiver answers.
        let deadline = Instant::now() + LONG;
        while pair.client.sends_in_flight() > 0 {
            assert!(Instant::now() < deadline, "{} sends never end", pair.client.sends_in_flight());
            pair.client.turn();
        }
    }
}

#[test]
fn a_message_to_several_peers_ends_once() {
    for pair in pairs() {
        start_echo(&pair);
        let peers = [pair.server, pair.server, pair.server];
        pair.client.send_multi(&peers, THERE, b"all").within(LONG).wait().expect("sent to all");
        for _ in peers {
            let message = pair.client.receive(AnySource, BACK).within(LONG).wait().expect("a message");
            assert_eq!(&message[..], b"all");
        }
        pair.client.wait_all();
        assert_eq!((pair.client.sends_in_flight(), pair.client.receives_in_flight()), (0, 0));
    }
}
