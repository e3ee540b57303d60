//! Tagged messages over mailboxes, whose letters a test can turn round.

use farcall_driver::clock::Clock;
use farcall_protocol::matching::{Tag, lines};
use farcall_protocol::wire::{BRIEF_HEAD_BYTES, TaggedPacket, put_tagged};

use super::*;
use crate::trace::{CallTracer, event};
use crate::{Arrived, Backlog, MessageId, Posted};

impl World {
    pub(super) fn send(&mut self, send: u32, tag: u32, payload: &[u8]) -> Submitted {
        self.caller.transport.send(self.session, MessageId(send), Tag(tag), payload)
    }

    /// Asks for a message from anybody; gives its tag and its bytes if it was kept, and otherwise the receive
    /// waits.
    pub(super) fn post_at_server(&mut self, receive: u32, tag: Option<u32>) -> Option<(u32, Vec<u8>)> {
        let mut message = None;
        let mut deliver = |_: &mut dyn Outbox, _, tag: Tag, arrived: Arrived<'_>| {
            assert!(matches!(arrived, Arrived::Kept(_)));
            message = Some((tag.0, arrived.as_slice().to_vec()));
        };
        let receive = MessageId(receive);
        let posted = self.server.transport.post(receive, None, tag.map(Tag), usize::MAX, &mut deliver);
        assert_eq!(posted, if message.is_some() { Posted::Delivered } else { Posted::Waiting });
        message
    }

    /// Tags and payloads of what was received at the server.
    fn received(&self) -> Vec<(u32, Vec<u8>)> {
        self.server.log.received.iter().map(|(_, tag, bytes)| (*tag, bytes.clone())).collect()
    }

    pub(super) fn put_packet_into_servers_mailbox(&mut self, packet: TaggedPacket, payload: &[u8]) {
        let number = self.number_at_server();
        let mut head = Head::new();
        put_tagged(&mut head, number, packet);
        let letter = Letter { head: head.as_bytes().to_vec(), payload: payload.to_vec() };
        self.post.boxes()[1].letters.push_back(letter);
    }

    /// A world in which the caller may send messages.
    pub(super) fn with_mail() -> Self {
        let mut world = Self::connected();
        world.turn();
        world
    }
}

#[test]
fn messages_that_wait_for_the_session_leave_when_it_has_room_and_in_order() {
    let mut world = World::new(CONFIG, CONFIG);
    for number in 0..5 {
        assert_eq!(world.send(number, 9, &[number as u8; 3]), Submitted::Queued);
        assert_eq!(world.post_at_server(number, Some(9)), None);
    }
    assert_eq!(world.caller.transport.cancel_send(MessageId(2)), 1);
    assert_eq!(world.caller.transport.cancel_send(MessageId(2)), 0);
    world.turn();
    let expected: Vec<_> = [0, 1, 3, 4].map(|number| (9, vec![number; 3])).into();
    assert_eq!(world.received(), expected);
    let sent: Vec<_> =
        world.caller.log.sent.iter().map(|(send, outcome)| (send.0, outcome.is_ok())).collect();
    assert_eq!(sent, [0, 1, 3, 4].map(|number| (number, true)));
}

#[test]
fn nothing_is_sent_before_the_peer_has_said_how_much_it_has_room_for() {
    let mut world = World::new(CONFIG, CONFIG);
    let World { caller, server, now, .. } = &mut world;
    caller.transport.poll(*now, &mut caller.log);
    server.transport.poll(*now, &mut server.log);
    caller.transport.poll(*now, &mut caller.log);
    assert_eq!(caller.log.up.len(), 1);
    assert_eq!(world.send(0, 1, b"short"), Submitted::Queued);
    assert_eq!(world.send(1, 1, &[1; 1000]), Submitted::Queued);
    world.turn();
    assert_eq!(world.caller.log.sent.len(), 2);
}

#[test]
fn short_messages_share_a_message_of_the_library() {
    let mut world = World::with_mail();
    for number in 0..100_u8 {
        assert_eq!(world.send(0, 1, &[number]), Submitted::Sent);
    }
    let before = world.post.boxes()[1].letters.len();
    assert!(world.caller.transport.flush() && !world.caller.transport.flush());
    // A hundred entries of 16 bytes are more than the agreed 1000 bytes, less than two thousand.
    assert_eq!(world.post.boxes()[1].letters.len() - before, 1);
    world.turn();
    for number in 0..100_u8 {
        assert_eq!(world.post_at_server(0, None), Some((1, vec![number])));
    }
}

#[test]
fn messages_that_nobody_expects_hold_up_the_others_for_a_turn_and_not_for_one_each() {
    let mut world = World::with_mail();
    for number in 0..10 {
        assert_eq!(world.post_at_server(number, Some(1)), None);
    }
    for _ in 0..10 {
        for tag in [1, 2] {
            assert_eq!(world.send(0, tag, b"alone"), Submitted::Sent);
            assert!(world.caller.transport.flush());
        }
    }
    for _ in 0..2 {
        world.server.transport.poll(world.now, &mut world.server.log);
    }
    assert_eq!(world.received().len(), 10);
    assert_eq!(world.post.boxes()[1].letters.len(), 0);
}

#[test]
fn a_very_short_message_alone_travels_without_a_batch_around_it() {
    let mut world = World::with_mail();
    let mut last_letter = |messages: &[&[u8]]| {
        for message in messages {
            assert_eq!(world.send(0, 3, message), Submitted::Sent);
        }
        assert!(world.caller.transport.flush());
        let letter = world.post.boxes()[1].letters.back().expect("it was sent").clone();
        (letter.head.len(), letter.payload)
    };
    assert_eq!(last_letter(&[&[7]]), (BRIEF_HEAD_BYTES, vec![7]));
    assert_eq!(last_letter(&[&[1; 64]]), (BRIEF_HEAD_BYTES, vec![1; 64]));
    let bytes = |(head_bytes, payload): (usize, Vec<u8>)| (head_bytes, payload.len());
    assert_eq!(bytes(last_letter(&[&[2; 65]])), (HEADER_BYTES, 8 + 72));
    assert_eq!(bytes(last_letter(&[&[3], &[4]])), (HEADER_BYTES, 32));
    world.turn();
    for first in [7, 1, 2, 3, 4] {
        let arrived = world.post_at_server(0, Some(3));
        assert!(arrived.is_some_and(|(_, payload)| payload[0] == first));
    }
}

#[test]
fn who_does_not_read_brief_heads_gets_none() {
    let mut world = World::with_mail();
    let credit = TaggedPacket::Credit { reads_brief: false, reads_notices: false, consumed: 0, limit: 1024 };
    world.put_packet_into_servers_mailbox(credit, b"");
    world.turn();
    let (to, outbox) = (world.server.log.up[0], &mut world.server.transport);
    assert_eq!(outbox.send(to, MessageId(0), Tag(3), &[7]), Submitted::Sent);
    assert!(world.server.transport.flush());
    let letter = world.post.boxes()[0].letters.back().expect("it was sent").clone();
    assert_eq!((letter.head.len(), letter.payload), (HEADER_BYTES, vec![7]));
}

#[test]
fn short_messages_gather_while_the_library_has_a_backlog_until_a_batch_is_full() {
    let mut world = World::with_mail();
    world.post.boxes()[0].backlog = Backlog::Some;
    let letters = |world: &World| world.post.boxes()[1].letters.len();
    let before = letters(&world);
    for number in 0..3_u8 {
        assert_eq!(world.send(0, 1, &[number]), Submitted::Sent);
        assert!(!world.caller.transport.flush());
    }
    assert_eq!(letters(&world), before);
    assert_eq!(world.caller.transport.next_deadline(), Some(Instant::ZERO), "nobody sleeps on it");
    assert_eq!(world.send(0, 1, &[3; 960]), Submitted::Sent, "that fits no more");
    assert_eq!(letters(&world), before + 1);
    world.post.boxes()[0].backlog = Backlog::None;
    assert!(world.caller.transport.flush() && !world.caller.transport.flush());
    assert_eq!(letters(&world), before + 2);
    world.turn();
    for number in 0..4_u8 {
        let arrived = world.post_at_server(0, Some(1));
        assert!(arrived.is_some_and(|(_, payload)| payload[0] == number));
    }
}

#[test]
fn what_gathered_behind_a_backlog_leaves_before_the_good_bye() {
    for closes in [true, false] {
        let mut world = World::with_mail();
        world.post.boxes()[0].backlog = Backlog::Some;
        assert_eq!(world.send(0, 7, b"last"), Submitted::Sent);
        let World { mut caller, mut server, session, now, .. } = world;
        caller.transport.poll(now, &mut caller.log);
        if closes {
            caller.transport.close(session, now);
        }
        drop(caller);
        let never = &mut |_: &mut dyn Outbox, _, _, _: Arrived<'_>| unreachable!("nothing is there yet");
        let posted = server.transport.post(MessageId(0), None, Some(Tag(7)), usize::MAX, never);
        assert_eq!(posted, Posted::Waiting);
        server.transport.poll(now, &mut server.log);
        assert_eq!(server.log.received, [(MessageId(0), 7, b"last".to_vec())]);
    }
}

#[test]
fn packets_that_overtake_each_other_are_matched_in_the_order_of_their_sending() {
    let mut world = World::with_mail();
    for (number, length) in [900, 1, 950, 2, 999].into_iter().enumerate() {
        assert_eq!(world.send(0, 5, &vec![number as u8; length]), Submitted::Sent);
        world.caller.transport.flush();
    }
    world.post.boxes()[1].letters.make_contiguous().reverse();
    world.turn();
    for (number, length) in [900, 1, 950, 2, 999].into_iter().enumerate() {
        assert_eq!(world.post_at_server(0, Some(5)), Some((5, vec![number as u8; length])));
    }
}

#[test]
fn what_nobody_expects_is_bounded_and_the_sender_keeps_the_rest() {
    let small = LibraryConfig { unexpected_bytes: 640, ..CONFIG };
    let mut world = World::new(CONFIG, small);
    world.turn();
    let accepted = (0..20).filter(|&number| world.send(number, 1, &[1; 64]) == Submitted::Sent);
    let accepted = accepted.count();
    assert_eq!(accepted, 10 / lines(64) as usize, "two lines each, of ten");
    // Longer than the window, and not before everything else is consumed.
    assert_eq!(world.send(20, 2, &[2; 1000]), Submitted::Queued);
    world.turn();
    assert_eq!(world.server.transport.counters.unexpected.get(), 5);
    for _ in 0..20 {
        assert!(world.post_at_server(0, Some(1)).is_some());
        world.turn();
    }
    let (_, long) = world.post_at_server(0, None).expect("the long one");
    assert_eq!(long.len(), 1000);
    assert_eq!(world.caller.log.sent.len(), 16);
}

#[test]
fn the_end_of_a_session_ends_its_sends_and_leaves_what_has_arrived() {
    let mut world = World::new(CONFIG, LibraryConfig { unexpected_bytes: 64, ..CONFIG });
    world.turn();
    assert_eq!(world.send(1, 1, b"arrives"), Submitted::Sent);
    assert_eq!(world.send(2, 1, b"waits"), Submitted::Queued);
    world.turn();
    let (session, now) = (world.session, world.now);
    world.caller.transport.close(session, now);
    world.turn();
    assert_eq!(world.caller.log.sent, [(MessageId(2), Err(DownReason::Closed))]);
    assert_eq!(world.send(3, 1, b"late"), Submitted::DOWN);
    assert_eq!(world.post_at_server(0, Some(1)), Some((1, b"arrives".to_vec())), "it was there");
}

#[test]
fn what_waits_for_a_session_ends_with_it_although_the_next_one_has_its_place() {
    let mut world = World::new(CONFIG, CONFIG);
    assert_eq!(world.send(0, 1, b"waits"), Submitted::Queued);
    let (first, now) = (world.session, world.now);
    world.caller.transport.close(first, now);
    let to = world.server.transport.address();
    world.session = world.caller.transport.connect(&to, None, now).expect("there is room");
    assert_eq!(world.session.0 as u16, first.0 as u16, "the same place");
    assert_eq!(world.send(1, 2, b"arrives"), Submitted::Queued);
    world.turn();
    assert_eq!(world.caller.log.down, [(first, DownReason::Closed)]);
    let sent = [(MessageId(0), Err(DownReason::Closed)), (MessageId(1), Ok(()))];
    assert_eq!(world.caller.log.sent, sent);
    assert!(world.post_at_server(0, Some(2)).is_some());
}

#[test]
fn what_was_sent_before_a_session_is_closed_leaves_although_the_next_one_has_its_place() {
    let mut world = World::with_mail();
    assert_eq!(world.send(0, 1, b"in a batch"), Submitted::Sent);
    let (first, now) = (world.session, world.now);
    world.caller.transport.close(first, now);
    let to = world.server.transport.address();
    world.session = world.caller.transport.connect(&to, None, now).expect("there is room");
    world.turn();
    assert!(world.post_at_server(0, Some(1)).is_some());
}

#[test]
fn a_peer_whose_messages_break_a_rule_loses_its_session() {
    let one = |number| TaggedPacket::One { number, tag: Tag(1) };
    let (reads_brief, reads_notices) = (true, true);
    let credit = |consumed, limit| TaggedPacket::Credit { reads_brief, reads_notices, consumed, limit };
    let (overrun, number) =
        ("more messages, or more credit for them, than there can be", "a message with a wrong number");
    let rules: [(TaggedPacket, &[u8], &str); 6] = [
        (one(0), &[0; 1001], "a message over the agreed limit"),
        (one(1 << 20), b"", number),
        (one(u32::MAX), b"", number),
        (TaggedPacket::Batch { number: 0 }, &[0; 7], "a batch that ends in the middle of a message"),
        (credit(1, 1024), b"", overrun),
        (credit(0, 1023), b"", overrun),
    ];
    for (packet, payload, what) in rules {
        let mut world = World::with_mail();
        world.put_packet_into_servers_mailbox(packet, payload);
        world.turn();
        assert_eq!(world.server.log.down.len(), 1, "{what}");
        assert_eq!(world.server.log.down[0].1, DownReason::Violation { what });
    }
}

#[test]
fn a_peer_that_sends_more_than_it_may_loses_its_session() {
    let mut world = World::new(CONFIG, LibraryConfig { unexpected_bytes: 640, ..CONFIG });
    world.turn();
    for number in 0..11 {
        world.put_packet_into_servers_mailbox(TaggedPacket::One { number, tag: Tag(1) }, b"");
        world.turn();
    }
    let what = "more messages, or more credit for them, than there can be";
    assert_eq!(world.server.log.down, [(world.server.log.up[0], DownReason::Violation { what })]);
}

#[test]
fn what_comes_before_its_turn_is_kept_within_the_window_and_one_long_message_only() {
    // The window has 640 bytes and a message at most 1000, so that two of these may be ahead, and the third
    // may not.
    let mut world = World::new(CONFIG, LibraryConfig { unexpected_bytes: 640, ..CONFIG });
    world.turn();
    for number in 1..4 {
        assert!(world.server.log.down.is_empty(), "message {number}");
        let packet = TaggedPacket::One { number, tag: Tag(1) };
        world.put_packet_into_servers_mailbox(packet, &[0; 800]);
        world.turn();
    }
    let what = "more messages, or more credit for them, than there can be";
    assert_eq!(world.server.log.down, [(world.server.log.up[0], DownReason::Violation { what })]);
}

#[test]
fn a_handler_gets_what_waited_and_what_comes() {
    let mut world = World::with_mail();
    assert_eq!(world.send(0, 1, b"before"), Submitted::Sent);
    world.turn();
    world.server.transport.hand_on_unexpected(true);
    world.turn();
    assert_eq!(world.send(0, 2, b"after"), Submitted::Sent);
    world.turn();
    assert_eq!(world.server.log.handed_on, [(1, b"before".to_vec()), (2, b"after".to_vec())]);
}

#[test]
fn messages_are_traced_by_their_numbers_as_they_leave_and_as_they_come() {
    let mut world = World::new(CONFIG, CONFIG);
    let tracers = [(); 2].map(|()| CallTracer::new(Clock::new()));
    tracers.iter().for_each(|tracer| tracer.switch(true));
    world.caller.transport.trace_to(tracers[0].clone());
    world.server.transport.trace_to(tracers[1].clone());
    // One that is taken back before it leaves has no number.
    (0..3).for_each(|number| _ = world.send(number, 9, &[1; 8]));
    assert_eq!(world.caller.transport.cancel_send(MessageId(1)), 1);
    assert_eq!(world.post_at_server(0, Some(9)), None);
    world.turn();
    // A batch, and a long one that overtakes it on the way.
    (3..5).for_each(|number| _ = world.send(number, 9, &[2; 8]));
    assert_eq!(world.send(5, 9, &[3; 999]), Submitted::Sent);
    world.post.boxes()[1].letters.make_contiguous().reverse();
    world.turn();
    let numbers = |tracer: &CallTracer, of: u16| -> Vec<u32> {
        let records = tracer.records().into_iter().filter(|record| record.event == of);
        records.map(|record| record.operation).collect()
    };
    for event in [event::MESSAGE_SUBMITTED, event::MESSAGE_TRANSMITTED] {
        assert_eq!(numbers(&tracers[0], event), [0, 1, 2, 3, 4], "event {event:#x}");
    }
    assert_eq!(numbers(&tracers[1], event::MESSAGE_RECEIVED), [0, 1, 2, 3, 4]);
    // Only one was asked for before it came.
    assert_eq!(numbers(&tracers[1], event::MESSAGE_COMPLETED), [0]);
    (1..5).for_each(|number| drop(world.post_at_server(number, Some(9))));
    for event in [event::MESSAGE_MATCHED, event::MESSAGE_COMPLETED] {
        assert_eq!(numbers(&tracers[1], event), [0, 1, 2, 3, 4], "event {event:#x}");
    }
}
