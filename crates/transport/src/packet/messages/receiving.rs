//! In: back in order, to the receive that wants them or kept, and answered when there is room.

use std::sync::Arc;

use farcall_driver::Datagram;
use farcall_protocol::calls::{Payload, Policy, Received};
use farcall_protocol::matching::{Pattern, Tag, lines};
use farcall_protocol::session::EndReason;
use farcall_protocol::wire::CallKey;

use super::{TAKEN, TRAILER_BYTES};
use crate::home::Home;
use crate::packet::PacketTransport;
use crate::packet::mailbox::{Early, Held, Withheld, stored_bytes};
use crate::packet::outbound::to_protocol;
use crate::trace::event;
use crate::{
    Arrived, Deliver, Envelope, Incoming, Kept, Matched, MatchedBatch, Message, MessageBatch, MessageId,
    Origin, Posted, SessionId, Sink,
};

impl<D: Datagram, P: Policy> PacketTransport<D, P> {
    pub(in crate::packet) fn post_receive(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        let pattern = Pattern { source: from.map(Origin::source), tag };
        match self.mail.matching.post(receive.0, pattern) {
            Some(expected) => {
                let session = expected.message.session;
                self.tracer.mark_taken(expected.message.number, session);
                let payload = self.consume(expected.message);
                deliver(self, session, expected.tag, Arrived::Kept(payload));
                Posted::Delivered
            }
            None if from.is_some_and(|origin| !self.calls.is_open(to_protocol(origin.session()))) => {
                self.mail.matching.withdraw(receive.0);
                Posted::Down
            }
            None => {
                if let Some(tag) = tag.filter(|_| !self.mail.unread.is_empty()) {
                    self.note_wanted(pattern.source, tag);
                }
                Posted::Waiting
            }
        }
    }

    /// A request came that carries a message, or a notice.
    pub(in crate::packet) fn message_came(
        &mut self,
        session: SessionId,
        request: CallKey,
        is_notice: bool,
        payload: Received,
        packet: &[u8],
        sink: &mut dyn Sink,
    ) {
        let mut assembled = None;
        if !self.mail.takes_messages {
            return self.violation(session, "a message to an endpoint that takes none");
        }
        let Some((tag, number, payload)) = split_trailer(payload, packet, &mut assembled, &self.home) else {
            return self.violation(session, "a message without a tag");
        };
        if self.tracer.is_on() {
            self.mark_message_named(event::ARRIVED_AS, session, request, number);
        }
        let ahead_max = usize::from(self.calls.sessions().config().offer.calls_max);
        let channel = self.mail.channels.of(session, || self.calls.peer(to_protocol(session)));
        if channel.is_refused && !is_notice {
            return self.calls.end_because(to_protocol(session), EndReason::NotAllowed);
        }
        if channel.sequencer.skip(number) {
            self.deliver_in_turn(session, (tag, request, number, is_notice), &payload, sink);
        } else {
            let early = Early { tag, request, number, is_notice, payload: Kept::from(&payload) };
            let bytes = stored_bytes(&early.payload);
            if channel.sequencer.insert(number, ahead_max, early).is_err() {
                return self.violation(session, "a message with a wrong number");
            }
            self.calls.hold(to_protocol(session), bytes);
        }
        while let Some(early) =
            self.mail.channels.get_mut(session).and_then(|channel| channel.sequencer.pop())
        {
            let Early { tag, request, number, is_notice, payload } = early;
            self.calls.release(to_protocol(session), stored_bytes(&payload));
            self.deliver_in_turn(session, (tag, request, number, is_notice), &payload.as_incoming(), sink);
        }
    }

    fn deliver_in_turn(
        &mut self,
        session: SessionId,
        (tag, request, number, is_notice): (Tag, CallKey, u32, bool),
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) {
        match is_notice {
            true => self.take_notice(session, request, tag, number, payload.as_slice(), sink),
            false => self.deliver(session, tag, request, number, payload, sink),
        }
    }

    /// Hands a message on whose turn it is, or keeps it.
    fn deliver(
        &mut self,
        session: SessionId,
        tag: Tag,
        request: CallKey,
        number: u32,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) {
        if self.give(session, tag, number, payload, sink) {
            return self.acknowledge(session, request);
        }
        let counted = lines(payload.as_slice().len());
        let channel = self.mail.channels.of(session, || self.calls.peer(to_protocol(session)));
        let has_room = channel.withheld.is_empty() && channel.held_lines + counted <= self.mail.window_lines;
        if has_room {
            channel.held_lines += counted;
        } else {
            channel.withheld.push_back(Withheld { number, request, lines: counted });
        }
        let payload = Kept::from(payload);
        self.hold(tag, Held { session, payload, lines: counted, number, is_beyond: false });
        if has_room {
            self.acknowledge(session, request);
        }
    }

    /// Delivers a message that came beyond the window, and was answered.
    pub(super) fn deliver_beyond(
        &mut self,
        session: SessionId,
        tag: Tag,
        number: u32,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) {
        if self.give(session, tag, number, payload, sink) {
            return;
        }
        let counted = lines(payload.as_slice().len());
        self.mail.channels.of(session, || self.calls.peer(to_protocol(session))).beyond_lines += counted;
        let payload = Kept::from(payload);
        self.hold(tag, Held { session, payload, lines: counted, number, is_beyond: true });
    }

    /// Gives a message to the receive that wants it, or to a sink that takes all; false when there is none.
    fn give(
        &mut self,
        session: SessionId,
        tag: Tag,
        number: u32,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> bool {
        let source = self.mail.channels.of(session, || self.calls.peer(to_protocol(session))).source;
        if let Some(receive) = self.mail.matching.arrive(source, tag) {
            self.tracer.mark(event::MESSAGE_MATCHED, number, session);
            let matched = Matched { receive: MessageId(receive), tag, payload: *payload };
            sink.received(&mut MatchedBatch::single(self, session, matched));
            self.tracer.mark(event::MESSAGE_COMPLETED, number, session);
            return true;
        }
        if self.mail.hands_on {
            let envelope = Envelope { session, tag, bytes: payload.as_slice().len() };
            self.hand_on(number, envelope, payload, sink);
        }
        self.mail.hands_on
    }

    /// Keeps a message that no receive wants.
    fn hold(&mut self, tag: Tag, held: Held) {
        let session = held.session;
        let channel = self.mail.channels.of(session, || self.calls.peer(to_protocol(session)));
        let bytes = stored_bytes(&held.payload);
        channel.stored_bytes += bytes;
        if !core::mem::replace(&mut channel.is_listed, true) {
            self.mail.unread.push(session);
        }
        let has_receives = !self.mail.matching.has_no_receives();
        if has_receives {
            channel.receiving.ask();
        }
        self.calls.hold(to_protocol(session), bytes);
        self.mail.matching.keep(channel.source, tag, held);
        if has_receives {
            self.exchange_notices(session);
        }
    }

    /// A message that was held is received: answers it and others, as room allows.
    fn consume(&mut self, held: Held) -> Kept {
        let (session, window_lines) = (held.session, self.mail.window_lines);
        let bytes = stored_bytes(&held.payload);
        let Some(channel) = self.mail.channels.get_mut(session) else {
            self.mail.orphaned_bytes -= bytes;
            return held.payload;
        };
        channel.stored_bytes -= bytes;
        self.calls.release(to_protocol(session), bytes);
        if held.is_beyond {
            channel.beyond_lines -= held.lines;
            self.exchange_notices(session);
            return held.payload;
        }
        let mut answers = Vec::new();
        match channel.withheld.iter().position(|withheld| withheld.number == held.number) {
            Some(place) => answers.extend(channel.withheld.remove(place)),
            None => channel.held_lines -= held.lines,
        }
        while let Some(withheld) = channel.withheld.front()
            && channel.held_lines + withheld.lines <= window_lines
        {
            channel.held_lines += withheld.lines;
            answers.extend(channel.withheld.pop_front());
        }
        answers.into_iter().for_each(|withheld| self.acknowledge(session, withheld.request));
        held.payload
    }

    /// Hands the messages that waited to a sink that takes all.
    pub(in crate::packet) fn hand_on_kept(&mut self, sink: &mut dyn Sink) -> usize {
        const ANY: Pattern = Pattern { source: None, tag: None };
        let mut handed_on = 0;
        while self.mail.hands_on
            && let Some(expected) = self.mail.matching.take(ANY)
        {
            let Held { session, number, .. } = expected.message;
            let payload = self.consume(expected.message);
            let envelope = Envelope { session, tag: expected.tag, bytes: payload.len() };
            self.hand_on(number, envelope, &payload.as_incoming(), sink);
            handed_on += 1;
        }
        handed_on
    }

    fn hand_on(&mut self, number: u32, envelope: Envelope, payload: &Incoming<'_>, sink: &mut dyn Sink) {
        self.tracer.mark(event::MESSAGE_MATCHED, number, envelope.session);
        let message = Message { tag: envelope.tag, payload: *payload };
        sink.messages(self, &mut MessageBatch::single(envelope.session, message));
        self.tracer.mark(event::MESSAGE_COMPLETED, number, envelope.session);
    }

    pub(super) fn acknowledge(&mut self, session: SessionId, request: CallKey) {
        // Cannot be too long: it is empty.
        let _ = self.calls.reply(to_protocol(session), request, TAKEN, Payload::Slice(&[]));
    }

    pub(super) fn violation(&mut self, session: SessionId, what: &'static str) {
        self.calls.end_because(to_protocol(session), EndReason::Violation { what });
    }
}

/// Tag, number and payload of a message, of which `assembled` is the place if it came in several packets;
/// `None` when it is too short to have them.
fn split_trailer<'a>(
    payload: Received,
    packet: &'a [u8],
    assembled: &'a mut Option<crate::Payload>,
    home: &Arc<Home>,
) -> Option<(Tag, u32, Incoming<'a>)> {
    let (trailer, payload) = match payload {
        Received::InPlace(range) => {
            let (payload, trailer) = packet[range].split_last_chunk::<TRAILER_BYTES>()?;
            (*trailer, Incoming::Borrowed(payload))
        }
        Received::Assembled(mut bytes) => {
            let trailer = *bytes.last_chunk::<TRAILER_BYTES>()?;
            bytes.truncate(bytes.len() - TRAILER_BYTES);
            (trailer, Incoming::Owned(assembled.insert(crate::Payload::with_home(home, bytes))))
        }
    };
    let trailer = u64::from_le_bytes(trailer);
    Some((Tag(trailer as u32), (trailer >> 32) as u32, payload))
}
