//! In: packets in the order of their numbers, and their messages to the receive that wants them.

use core::mem;

use farcall_protocol::matching::{ANNOUNCED_MAX, Tag, WINDOW_LINE_BYTES, lines, lines_max};
use farcall_protocol::session::{EndReason, SessionId};
use farcall_protocol::wire::{Batch, TaggedPacket};

use super::{Contents, Early, OVERRUN, Rest};
use crate::library::LibraryTransport;
use crate::library::outbound::to_protocol;
use crate::library::seam::Library;
use crate::matcher::{Deferral, MatchOutcome, Unexpected};
use crate::trace::event;
use crate::{
    Arrived, Deliver, Envelope, Incoming, Kept, Matched, MatchedBatch, Message, MessageBatch, MessageId,
    Origin, Posted, Sink,
};

/// The most notices that come ahead of others: all tags announced, and as many answers and grants.
const NOTICES_AHEAD_MAX: usize = 3 * ANNOUNCED_MAX;

impl<L: Library> LibraryTransport<L> {
    #[inline]
    pub(in crate::library) fn post_receive(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        let is_down = from.is_some_and(|origin| self.channel(to_protocol(origin.session())).is_none());
        if let (Some(from), Some(tag)) = (from, tag)
            && self.deliver_deferred(from.source(), tag, in_place_bytes_max, deliver)
        {
            return Posted::Delivered;
        }
        match self.matcher.post(receive, from, tag, is_down) {
            Ok(Unexpected { envelope, payload, lines, number }) => {
                self.consumed(envelope.session, lines);
                self.tracer.mark_taken(number, envelope.session);
                deliver(self, envelope.session, envelope.tag, Arrived::Kept(payload));
                Posted::Delivered
            }
            Err(posted) => {
                if let (Posted::Waiting, Some(tag)) = (posted, tag) {
                    self.note_wanted(from.map(Origin::source), tag);
                }
                posted
            }
        }
    }

    /// Hands the messages that waited to a sink that takes all.
    pub(in crate::library) fn hand_on_kept(&mut self, sink: &mut dyn Sink) -> usize {
        let mut handed_on = 0;
        while let Some(Unexpected { envelope, payload, lines, number }) = self.matcher.take_for_sink() {
            self.consumed(envelope.session, lines);
            self.hand_on(number, envelope, &payload.as_incoming(), sink);
            handed_on += 1;
        }
        handed_on
    }

    #[inline]
    fn hand_on(&mut self, number: u32, envelope: Envelope, payload: &Incoming<'_>, sink: &mut dyn Sink) {
        self.tracer.mark(event::MESSAGE_MATCHED, number, envelope.session);
        let message = Message { tag: envelope.tag, payload: *payload };
        sink.messages(self, &mut MessageBatch::single(envelope.session, message));
        self.tracer.mark(event::MESSAGE_COMPLETED, number, envelope.session);
    }

    /// An unexpected message was consumed.
    fn consumed(&mut self, session: crate::SessionId, lines: u32) {
        let id = to_protocol(session);
        if let Some(channel) = self.channel(id) {
            channel.tagged.matching.window.consume(lines);
            self.return_credit_if_due(id);
        }
    }

    /// Widens the peer's window when enough was consumed.
    #[inline]
    pub(in crate::library) fn return_credit_if_due(&mut self, id: SessionId) {
        let Some(channel) = self.channel(id) else { return };
        let window = &mut channel.tagged.matching.window;
        if let Some(link) = channel.link
            && window.credit_is_due()
        {
            let consumed = window.take_credit();
            self.transmit_credit(&link, consumed);
        }
    }

    /// A packet about tagged messages came, of the session at `index`, and was found then. Gives what is left
    /// of it.
    #[inline]
    pub(in crate::library) fn take_tagged(
        &mut self,
        index: usize,
        packet: TaggedPacket,
        payload: &Incoming<'_>,
        found: Option<u64>,
        sink: &mut dyn Sink,
    ) -> Option<Rest> {
        let channel = self.channel_at(index)?;
        let (id, bytes_max) = (channel.id, channel.message_bytes_max());
        let (number, contents) = match packet {
            TaggedPacket::One { number, tag } => (number, Contents::Message(tag)),
            TaggedPacket::Notice { number, code, tag } => (number, Contents::Notice(code, tag)),
            TaggedPacket::Batch { number } => (number, Contents::Batch),
            TaggedPacket::Credit { reads_brief, reads_notices, consumed, limit } => {
                channel.tagged.peer_reads_brief = reads_brief;
                channel.tagged.matching.notices.is_understood = reads_notices;
                self.take_credit(id, consumed, limit);
                return None;
            }
        };
        if channel.tagged.matching.is_refused && !matches!(contents, Contents::Notice(..)) {
            self.sessions.end_because(id, EndReason::NotAllowed);
            return None;
        }
        if payload.as_slice().len() > bytes_max {
            self.violated(id, "a message over the agreed limit");
            return None;
        }
        if !channel.tagged.sequencer.skip(number) {
            self.put_aside(id, number, Early { contents, payload: Kept::from(payload), found });
            return None;
        }
        self.deliver(Rest { id, contents, at: 0, found }, payload, sink)
    }

    /// Keeps a packet until those in front of it have come.
    #[cold]
    fn put_aside(&mut self, id: SessionId, number: u32, early: Early) {
        let limit = self.unexpected_lines as usize;
        let Some(channel) = self.channel(id) else { return };
        // What is ahead is within the window of its sender. Messages have no more bytes than their lines,
        // batches included, but for one that may be longer than the window and then has most of it for
        // itself; each counts a line at least.
        let bytes_max = limit * WINDOW_LINE_BYTES + channel.message_bytes_max();
        let tagged = &mut channel.tagged;
        tagged.early_bytes += early.payload.len();
        if tagged.early_bytes > bytes_max {
            return self.violated(id, OVERRUN);
        }
        let ahead_max = limit.saturating_add(NOTICES_AHEAD_MAX);
        if tagged.sequencer.insert(number, ahead_max, early).is_err() {
            self.violated(id, "a message with a wrong number");
        }
    }

    /// Hands on what is left of a packet whose turn it is, and those that waited for it. Gives what is left
    /// then.
    #[inline]
    pub(in crate::library) fn deliver(
        &mut self,
        rest: Rest,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Option<Rest> {
        let id = rest.id;
        let left = match self.read(rest, payload, sink) {
            Ok(None) => self.deliver_early(id, sink),
            left => left,
        };
        match left {
            Ok(left) => {
                self.return_credit_if_due(id);
                left
            }
            Err(what) => {
                self.violated(id, what);
                None
            }
        }
    }

    fn deliver_early(&mut self, id: SessionId, sink: &mut dyn Sink) -> Result<Option<Rest>, &'static str> {
        while let Some(Early { contents, payload, found }) =
            self.channel(id).and_then(|channel| channel.tagged.pop())
        {
            // They lie here already, so that nothing is won by leaving them.
            let deferral = mem::replace(&mut self.deferral, Deferral::Never);
            self.read(Rest { id, contents, at: 0, found }, &payload.as_incoming(), sink)?;
            self.deferral = deferral;
        }
        Ok(None)
    }

    /// Hands on the messages of a packet; gives where it was left.
    #[inline]
    fn read(
        &mut self,
        rest: Rest,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Rest>, &'static str> {
        let bytes = payload.as_slice();
        let mut batch = match rest.contents {
            Contents::Message(tag) => {
                if rest.found.is_none() && self.give_expected(rest.id, tag, payload, sink)? {
                    return Ok(None);
                }
                let outcome = self.arrive(&rest, tag, payload, sink)?;
                return Ok((outcome == MatchOutcome::Deferred).then_some(rest));
            }
            Contents::Batch => Batch::new(bytes.get(rest.at..).unwrap_or_default()),
            Contents::Notice(code, tag) => {
                self.take_notice(rest.id, code, tag, bytes)?;
                return Ok(None);
            }
        };
        let expected = if rest.found.is_none() { self.read_expected(rest.id, &mut batch, sink)? } else { 0 };
        if expected > 0 {
            self.deferral = self.deferral.after_a_receive();
            // The next one was looked for already, and nobody waits for it.
            let is_left = batch.unread() > 0 && self.deferral == Deferral::Once && !self.matcher.hands_on;
            if is_left {
                self.note_left(rest.id, expected, batch);
                return Ok(Some(Rest { at: bytes.len() - batch.unread(), ..rest }));
            }
        }
        loop {
            let at = bytes.len() - batch.unread();
            let Some(entry) = batch.next() else { return Ok(None) };
            let (tag, message) = entry.map_err(|malformed| malformed.what)?;
            let outcome = self.arrive(&rest, tag, &Incoming::Borrowed(message), sink)?;
            if outcome == MatchOutcome::Deferred {
                return Ok(Some(Rest { at, ..rest }));
            }
        }
    }

    #[inline]
    fn arrive(
        &mut self,
        of: &Rest,
        tag: Tag,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Result<MatchOutcome, &'static str> {
        let id = of.id;
        // Of a session that is over nothing is taken any more.
        let channel = self.channels.get_mut(id.index()).and_then(Option::as_mut);
        let Some(channel) = channel.filter(|channel| channel.id == id) else {
            return Ok(MatchOutcome::Unexpected);
        };
        let bytes = payload.as_slice().len();
        let envelope = Envelope { session: crate::SessionId(id.0), tag, bytes };
        let number = channel.tagged.matching.received;
        let counted = lines(bytes).min(lines_max(self.unexpected_lines));
        let leave = self.deferral == Deferral::Once;
        let outcome = self.matcher.arrive(&mut channel.tagged.matching, envelope, payload, counted, leave);
        let outcome = outcome.map_err(|_| OVERRUN)?;
        self.deferral = self.deferral.after(outcome);
        if let Some(found) = of.found.filter(|_| outcome != MatchOutcome::Deferred) {
            self.tracer.mark_at(found, event::MESSAGE_RECEIVED, number, envelope.session);
        }
        match outcome {
            MatchOutcome::Deferred => return Ok(outcome),
            MatchOutcome::Unexpected => {
                self.counters.unexpected.increment();
                if !channel.tagged.matching.notices.is_idle() {
                    self.note_notices(id);
                }
            }
            MatchOutcome::Matched(receive) => {
                self.tracer.mark(event::MESSAGE_MATCHED, number, envelope.session);
                let matched = Matched { receive, tag, payload: *payload };
                sink.received(&mut MatchedBatch::single(self, envelope.session, matched));
                self.tracer.mark(event::MESSAGE_COMPLETED, number, envelope.session);
            }
            MatchOutcome::HandedOn => self.hand_on(number, envelope, payload, sink),
        }
        self.counters.messages_received.increment();
        Ok(outcome)
    }
}
