//! Messages of a batch that are given to who asks for one after the other.

use farcall_protocol::matching::{Source, Tag};
use farcall_protocol::wire::{TaggedPacket, put_entry};

use super::*;
use crate::{MessageId, Origin, ReceiveProgress, SendProgress};

const TAG: Tag = Tag(4);

/// Polls after which who receives one message at a time is given what was left.
const POLLS: usize = 4;

impl World {
    /// The caller sends very short messages, which are their numbers, in one batch.
    fn send_batch(&mut self, numbers: core::ops::Range<u8>) {
        for number in numbers {
            assert_eq!(self.send(0, TAG.0, &[number]), Ok(SendProgress::Done));
        }
        self.caller.transport.flush();
    }

    /// The server is given the next message, if it was left and is not longer.
    fn take_left(&mut self, bytes_max: usize) -> Option<Vec<u8>> {
        let (mut message, up) = (None, self.server.log.up[0]);
        let is_taken =
            self.server.transport.take_left(Source::new(0, 0), TAG, bytes_max, &mut |session, bytes| {
                assert_eq!(session, up);
                message = Some(bytes.to_vec());
            });
        assert_eq!(is_taken, message.is_some());
        message
    }

    /// As an endpoint does, the server asks for the next message: it is given, or else a receive is posted.
    fn ask(&mut self) -> Option<Vec<u8>> {
        let from = Origin { source: Source::new(0, 0), session: self.server.log.up[0] };
        if self.server.transport.receive_at_once(MessageId(0), from, TAG, usize::MAX) {
            return None;
        }
        let message = self.take_left(usize::MAX);
        if message.is_none() {
            let posted = self.server.transport.outbox().receive(MessageId(0), Some(from), Some(TAG));
            assert!(matches!(posted, ReceiveProgress::Posted));
        }
        message
    }

    /// The server gets its next message, by a poll if need be; gives it, and whether there was one.
    fn next(&mut self) -> (Vec<u8>, bool) {
        assert_eq!(self.take_left(0), None, "it has a byte");
        if let Some(message) = self.ask() {
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
        // What tells of room arrives.
        world.caller.transport.poll(world.now, &mut world.caller.log);
    }
    assert!(polls <= POLLS + 20, "{polls} polls for 20 batches");
    let counters = &world.server.transport.outbound.counters;
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
        let asked = world.server.transport.outbox().receive(MessageId(0), None, Some(TAG));
        assert!(matches!(asked, ReceiveProgress::Arrived(_, payload) if payload[..] == [number]));
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
    assert_eq!(world.take_left(usize::MAX), None);
    for number in given..10 {
        let asked = world.server.transport.outbox().receive(MessageId(0), None, Some(TAG));
        assert!(matches!(asked, ReceiveProgress::Arrived(_, payload) if payload[..] == [number]));
    }
}
