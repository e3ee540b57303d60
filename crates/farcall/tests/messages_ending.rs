//! Messages that do not end as they were meant to: too long, cancelled, too late.

mod common;

use std::time::Duration;

use common::LONG;
use common::post::{BACK, LIMIT, MESSAGE_BYTES_MAX, THERE, ask_to_count, pairs, start_echo};
use farcall::{Cancellation, Event, ReceiveError, SendError, SendRefused, Tag};

#[test]
fn a_message_longer_than_its_receive_ends_it_and_others_go_on() {
    for pair in pairs() {
        start_echo(&pair);
        let short = pair.client.receive(pair.server, BACK).at_most(99).within(LONG).start().expect("posted");
        pair.client.send(pair.server, THERE, &[1; 100]).within(LONG).wait().expect("sent");
        let error = short.wait().map(drop);
        let expected = ReceiveError::Truncated { peer: pair.server, tag: BACK, bytes: 100, bytes_max: 99 };
        assert_eq!(error, Err(expected));
        pair.client.send(pair.server, THERE, &[2; 99]).within(LONG).wait().expect("sent");
        let fitting =
            pair.client.receive(pair.server, BACK).at_most(99).within(LONG).wait().expect("a message");
        assert_eq!(fitting[..], [2; 99]);
    }
}

#[test]
fn a_message_over_the_limit_is_refused_and_says_the_limit() {
    for pair in pairs() {
        pair.client.wait_for(pair.server).expect("up");
        let long = vec![0; LIMIT + 1];
        let refused = pair.client.send(pair.server, THERE, &long).wait();
        let Err(SendError::NotSent(SendRefused::TooLong { bytes, bytes_max })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(bytes, long.len());
        assert!((MESSAGE_BYTES_MAX..=LIMIT).contains(&bytes_max), "{bytes_max}");
    }
}

#[test]
fn receives_are_cancelled_once_and_lose_nothing() {
    for pair in pairs() {
        start_echo(&pair);
        let receive = pair.client.receive(pair.server, BACK).within(LONG).post(1).expect("posted");
        assert_eq!(pair.client.cancel(receive), Cancellation::Cancelled);
        assert_eq!(pair.client.cancel(receive), Cancellation::Over);
        let mut ends = 0;
        pair.client.poll(|_, event| {
            let Event::Received { token: 1, outcome: Err(ReceiveError::Cancelled) } = event else {
                panic!("{event:?}")
            };
            ends += 1;
        });
        assert_eq!(ends, 1);
        let future = pair.client.receive(pair.server, BACK).within(LONG).start().expect("posted");
        assert_eq!(future.cancel().map(drop), Err(ReceiveError::Cancelled));
        drop(pair.client.receive(pair.server, BACK).within(LONG).start().expect("posted"));
        assert_eq!(pair.client.receives_in_flight(), 0);
        pair.client.send(pair.server, THERE, b"x").within(LONG).wait().expect("sent");
        let message = pair.client.receive(pair.server, BACK).within(LONG).wait().expect("a message");
        assert_eq!(&message[..], b"x");
    }
}

#[test]
fn sends_that_wait_can_be_cancelled_and_those_that_left_cannot() {
    for pair in pairs() {
        pair.client.wait_for(pair.server).expect("up");
        // Nobody receives: at some time messages wait here.
        let mut posted = Vec::new();
        let mut waiting = None;
        for number in 0..60_000_u32 {
            let payload = [number as u8; 100];
            let send = pair.client.send(pair.server, Tag(1), &payload).within(LONG);
            match send.post(u64::from(number)).expect("room for operations") {
                Some(send) if pair.client.sends_in_flight() > 40_000 => {
                    waiting = Some((send, number));
                    break;
                }
                _ => posted.push(number),
            }
            pair.client.poll(|_, _| {});
        }
        let (waiting, number) = waiting.expect("the peer's memory is bounded");
        assert_eq!(pair.client.cancel(waiting), Cancellation::Cancelled);
        assert_eq!(pair.client.cancel(waiting), Cancellation::Over);
        let mut cancelled = Vec::new();
        pair.client.poll(|_, event| {
            if let Event::Sent { token, outcome: Err(SendError::Cancelled) } = event {
                cancelled.push(token);
            }
        });
        assert_eq!(cancelled, [u64::from(number)]);
        let counted = ask_to_count(&pair, Tag(1), posted.len() as u32);
        assert_eq!(counted.wait().expect("all others came").len(), posted.len());
    }
}

#[test]
fn a_deadline_ends_a_receive_and_the_message_that_comes_later_goes_to_the_next() {
    for pair in pairs() {
        start_echo(&pair);
        let late = pair.client.receive(pair.server, BACK).within(Duration::from_millis(20)).wait().map(drop);
        assert_eq!(late, Err(ReceiveError::TimedOut));
        pair.client.send(pair.server, THERE, b"late").within(LONG).wait().expect("sent");
        let message = pair.client.receive(pair.server, BACK).within(LONG).wait().expect("a message");
        assert_eq!(&message[..], b"late");
    }
}
