//! Messages of a batch that are given to the receive that asks for one after the other.

use farcall_protocol::matching::{Source, Tag};
use farcall_protocol::wire::{TaggedPacket, put_entry};

use super::*;
use crate::{Arrived, MessageId, Origin, Posted};

const TAG: Tag = Tag(4);

/// Polls after which who receives one message at a time is given what was left.
const POLLS: usize = 4;

impl World {
    /// The caller sends very short messages, which are their numbers, in one batch.
    fn send_batch(&mut self, numbers: core::ops::Range<u8>) {
        for number in numbers {
            assert_eq!(self.send(0, TAG.0, &[number]), Submitted::Sent);
        }
        self.caller.transport.flush();
    }

    /// As an endpoint does, the server asks for the next message: it is given where it lies if it has at most
    /// this many bytes, or else the receive waits.
    fn ask(&mut self, in_place_bytes_max: usize) -> Option<Vec<u8>> {
        let (mut message, up) = (None, self.server.log.up[0]);
        let from = Origin::new(Source::new(0, 0, up.0), up);
        let mut deliver = |_: &mut dyn Outbox, session, tag, arrived: Arrived<'_>| {
            assert_eq!((session, tag), (up, TAG));
            assert!(matches!(arrived, Arrived::InPlace(_)));
            message = Some(arrived.as_slice().to_vec());
        };
        let transport = &mut self.server.transport;
        let posted = transport.post(MessageId(0), Some(from), Some(TAG), in_place_bytes_max, &mut deliver);
        assert_eq!(posted, if message.is_some() { Posted::Delivered } else { Posted::Waiting });
        message
    }

    /// The oldest unexpected message.
    fn take_kept(&mut self) -> Option<Vec<u8>> {
        self.post_at_server(0, Some(TAG.0)).map(|(_, message)| message)
    }

    /// The server gets its next message, by a poll if need be; gives it, and whether there was one.
    fn next(&mut self) -> (Vec<u8>, bool) {
        assert_eq!(self.ask(0), None, "it has a byte");
        assert!(self.server.transport.cancel_receive(MessageId(0)));
        if let Some(message) = self.ask(usize::MAX) {
            return (message, false);
        }
        self.server.transport.poll(self.now, &mut self.server.log);
        let (.., message) = self.server.log.received.pop().expect("it was sent");
        (message, true)
    }
}

#[test]
fn who_asks_for_one_message_after_the_other_is_given_most_without_a_poll() {
    // Room for not much more than a batch: who sends must be told what was given.
    let mut world = World::new(CONFIG, LibraryConfig { unexpected_bytes: 28 * 64, ..CONFIG });
    world.turn();
    let mut polls = 0;
    for first in (0..200).step_by(10) {
        world.send_batch(first..first + 10);
        for number in first..first + 10 {
            let (message, polled) = world.next();
            assert_eq!(message, [number]);
            polls += usize::from(polled);
        }
        // What reports room arrives.
        world.caller.transport.poll(world.now, &mut world.caller.log);
    }
    assert!(polls <= POLLS + 20, "{polls} polls for 20 batches");
    let counters = &world.server.transport.counters;
    assert_eq!((counters.messages_received.get(), counters.unexpected.get()), (200, 0));
}

#[test]
fn what_overtook_a_batch_follows_it_although_that_was_given_away() {
    let mut world = World::with_mail();
    for first in [0, 10, 20] {
        world.send_batch(first..first + 10);
    }
    world.post.boxes()[1].letters.make_contiguous().reverse();
    // Two of the three are put aside.
    let messages: Vec<_> = (0..10).map(|_| world.next().0).collect();
    assert_eq!(messages, (0..10).map(|number| vec![number]).collect::<Vec<_>>());
    world.turn();
    for number in 10..30 {
        assert_eq!(world.take_kept(), Some(vec![number]));
    }
}

#[test]
fn what_is_wrong_behind_what_was_given_ends_the_session() {
    let mut world = World::with_mail();
    let mut batch = Vec::new();
    (0..8).for_each(|number| put_entry(&mut batch, TAG, &[number]));
    batch.extend([0; 7]);
    world.put_packet_into_servers_mailbox(TaggedPacket::Batch { number: 0 }, &batch);
    for number in 0..8 {
        assert_eq!(world.next().0, [number]);
    }
    world.turn();
    let what = "a batch that ends in the middle of a message";
    assert_eq!(world.server.log.down, [(world.server.log.up[0], DownReason::Violation { what })]);
}

#[test]
fn what_was_left_when_its_session_ended_is_received_and_not_given() {
    let mut world = World::with_mail();
    world.send_batch(0..10);
    let given = (0..10).find(|_| !world.next().1).expect("the fifth at the latest") + 1;
    let session = world.server.log.up[0];
    world.server.transport.close(session, world.now);
    world.turn();
    assert_eq!(world.server.log.down.len(), 1);
    for number in given..10 {
        assert_eq!(world.take_kept(), Some(vec![number]));
    }
}
