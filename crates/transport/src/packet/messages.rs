//! Tagged messages in packets: calls whose response says that the message was taken.
//!
//! A message is the request of a call to a service of its own, with its tag and its number behind the payload. Calls
//! overtake each other; the numbers put messages back in order before they are matched. The receiver answers at once as
//! long as what nobody expects stays within a bound, and beyond it when the message is received: so a sender that is too
//! fast runs out of calls, of which messages take half at most, and keeps the rest.

use farcall_protocol::calls::{CallError, Payload, Policy, Received};
use farcall_protocol::matching::{Pattern, Tag, lines};
use farcall_protocol::session::EndReason;
use farcall_protocol::wire::CallKey;

use super::mailbox::{Early, Held, Withheld};
use super::outbound::{Lent, Outbound, to_protocol};
use crate::mail::WaitingSend;
use crate::payload::WaitingPayload;
use crate::{
    DownReason, Envelope, Incoming, Kept, MessageId, Origin, Outgoing, ReceiveProgress, SendOutcome,
    SendProgress, SendRefused, SessionId, Sink,
};

/// The service that carries messages.
pub const MESSAGES: u16 = u16::MAX;

/// The status that says that a message was taken. No answer to a call has it.
pub const TAKEN: u16 = 4;

/// Tag and number, behind the payload.
pub const TRAILER_BYTES: usize = 8;

/// Messages up to this many bytes are put together in memory that is used again.
const SCRATCH_BYTES_MAX: usize = 2048;

impl<P: Policy> Outbound<P> {
    pub fn send_message(
        &mut self,
        session: SessionId,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'_>,
    ) -> Result<SendProgress, SendRefused> {
        let offer = self.agreed(session).unwrap_or(self.calls.sessions().config().offer);
        let (bytes, bytes_max) = (payload.len(), offer.message_bytes_max as usize);
        if bytes + TRAILER_BYTES > bytes_max {
            let bytes_max = bytes_max.saturating_sub(TRAILER_BYTES);
            return Err(SendRefused::TooLong { bytes, bytes_max });
        }
        let must_wait = self.mail.channels.get(&session).is_some_and(|channel| !channel.waiting.is_empty());
        let refused = if must_wait { Err(Some(payload)) } else { self.transmit(session, send, tag, payload) };
        match refused {
            Ok(()) => {}
            Err(None) => return Err(SendRefused::Down),
            Err(Some(payload)) => {
                let waiting = WaitingSend { send, tag, payload: payload.into() };
                self.mail.channels.entry(session).or_default().waiting.push_back(waiting);
            }
        }
        Ok(SendProgress::Pending)
    }

    /// Makes the call that carries a message. Gives the payload back if it has to wait, nothing if the session is down, or
    /// ends because the message waited for it and is over its limit.
    fn transmit<'p>(
        &mut self,
        session: SessionId,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'p>,
    ) -> Result<(), Option<Outgoing<'p>>> {
        let calls_max = self.agreed(session).unwrap_or(self.calls.sessions().config().offer).calls_max;
        let counted = lines(payload.len());
        let window_lines = self.mail.window_lines;
        let (number, is_free) = match self.mail.channels.get(&session) {
            None => (0, true),
            Some(channel) => {
                let fits = channel.under_way_lines + counted <= window_lines || channel.under_way.is_empty();
                let has_call = channel.under_way.len() < usize::from(calls_max / 2).max(1);
                (channel.next_number, fits && has_call)
            }
        };
        if !is_free {
            return Err(Some(payload));
        }
        let trailer = (u64::from(number) << 32 | u64::from(tag.0)).to_le_bytes();
        let mut bytes = core::mem::take(&mut self.mail.scratch);
        bytes.clear();
        bytes.extend_from_slice(payload.as_slice());
        bytes.extend_from_slice(&trailer);
        let made = if bytes.len() <= SCRATCH_BYTES_MAX {
            let made = self.calls.call(to_protocol(session), send.0, MESSAGES, Payload::Slice(&bytes));
            self.mail.scratch = bytes;
            made
        } else {
            self.calls.call(to_protocol(session), send.0, MESSAGES, Payload::Owned(Lent::Message(bytes)))
        };
        match made {
            Ok(()) => {}
            Err(CallError::TooMany { .. }) => {
                if !self.mail.starved.contains(&session) {
                    self.mail.starved.push(session);
                }
                return Err(Some(payload));
            }
            Err(CallError::TooLong { bytes, bytes_max }) => {
                let reason = EndReason::WaitingCallTooLong { bytes, bytes_max };
                self.calls.end_because(to_protocol(session), reason);
                return Err(None);
            }
            Err(CallError::Down) => return Err(None),
        }
        let channel = self.mail.channels.entry(session).or_default();
        channel.next_number = number.wrapping_add(1);
        channel.under_way.push_back((send, counted));
        channel.under_way_lines += counted;
        Ok(())
    }

    /// The peer has taken a message.
    pub fn message_taken(&mut self, session: SessionId, send: MessageId, sink: &mut dyn Sink) {
        let Some(channel) = self.mail.channels.get_mut(&session) else { return };
        let Some(place) = channel.under_way.iter().position(|(other, _)| *other == send) else { return };
        let (_, counted) = channel.under_way.remove(place).expect("it was found");
        channel.under_way_lines -= counted;
        self.send_waiting(session);
        sink.sent(self, send, Ok(()));
    }

    /// Whether a message could go that waits for a call to end.
    #[inline]
    pub fn can_feed(&self) -> bool {
        self.mail.starved.iter().any(|&session| self.calls.has_free_call(to_protocol(session)))
    }

    /// Sends messages that waited for a call to end, however it ended.
    #[cold]
    pub fn feed_starved(&mut self) {
        // Those for which there are still too few calls come back to the end.
        let mut place = 0;
        for _ in 0..self.mail.starved.len() {
            let session = self.mail.starved[place];
            if self.calls.has_free_call(to_protocol(session)) {
                self.mail.starved.remove(place);
                self.send_waiting(session);
            } else {
                place += 1;
            }
        }
    }

    /// Sends messages that wait, oldest first.
    fn send_waiting(&mut self, session: SessionId) {
        while let Some(WaitingSend { send, tag, payload }) =
            self.mail.channels.get_mut(&session).and_then(|channel| channel.waiting.pop_front())
        {
            let mut is_down = false;
            let sent = payload.offer(|payload| {
                self.transmit(session, send, tag, payload).map_err(|refused| {
                    is_down = refused.is_none();
                    refused.unwrap_or(Outgoing::Slice(&[]))
                })
            });
            if let Err(payload) = sent
                && let Some(channel) = self.mail.channels.get_mut(&session)
            {
                // Of a session that is down the end is reported soon, and with it the end of the send.
                let payload = if is_down { WaitingPayload::Bytes(Vec::new()) } else { payload };
                return channel.waiting.push_front(WaitingSend { send, tag, payload });
            }
        }
    }

    pub fn post_receive(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
    ) -> ReceiveProgress {
        let pattern = Pattern { source: from.map(|origin| origin.source), tag };
        match self.mail.matching.post(receive.0, pattern) {
            Some(expected) => {
                let session = expected.message.session;
                let payload = self.consume(expected.message);
                ReceiveProgress::Arrived(
                    Envelope { session, tag: expected.tag, bytes: payload.len() },
                    payload,
                )
            }
            None if from.is_some_and(|origin| !self.calls.is_open(to_protocol(origin.session))) => {
                self.mail.matching.withdraw(receive.0);
                ReceiveProgress::Down
            }
            None => ReceiveProgress::Posted,
        }
    }

    /// A request came that carries a message.
    pub fn message_came(
        &mut self,
        session: SessionId,
        request: CallKey,
        payload: Received,
        packet: &[u8],
        sink: &mut dyn Sink,
    ) {
        let Some((tag, number, payload)) = split_trailer(payload, packet) else {
            return self.violation(session, "a message without a tag");
        };
        let ahead_max = usize::from(self.calls.sessions().config().offer.calls_max);
        let channel = self.mail.channels.entry(session).or_default();
        if channel.sequencer.skip(number) {
            self.deliver(session, tag, request, number, &payload, sink);
        } else {
            let early = Early { tag, request, number, payload: Kept::from(&payload) };
            if channel.sequencer.insert(number, ahead_max, early).is_err() {
                return self.violation(session, "a message with a wrong number");
            }
        }
        while let Some(early) =
            self.mail.channels.get_mut(&session).and_then(|channel| channel.sequencer.pop())
        {
            let Early { tag, request, number, payload } = early;
            self.deliver(session, tag, request, number, &payload.as_incoming(), sink);
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
        let envelope = Envelope { session, tag, bytes: payload.as_slice().len() };
        let source = self.mail.channels.entry(session).or_default().source;
        if let Some(receive) = self.mail.matching.arrive(source, tag) {
            self.acknowledge(session, request);
            return sink.received(self, MessageId(receive), envelope, payload);
        }
        if self.mail.hands_on {
            self.acknowledge(session, request);
            return sink.message(self, envelope, payload);
        }
        let counted = lines(envelope.bytes);
        let channel = self.mail.channels.entry(session).or_default();
        let has_room = channel.withheld.is_empty() && channel.held_lines + counted <= self.mail.window_lines;
        if has_room {
            channel.held_lines += counted;
        } else {
            channel.withheld.push_back(Withheld { number, request, lines: counted });
        }
        let held = Held { session, payload: Kept::from(payload), lines: counted, number };
        self.mail.matching.keep(source, tag, held);
        if has_room {
            self.acknowledge(session, request);
        }
    }

    /// A message that was held is received: answers it and others, as room allows.
    fn consume(&mut self, held: Held) -> Kept {
        let (session, window_lines) = (held.session, self.mail.window_lines);
        let Some(channel) = self.mail.channels.get_mut(&session) else { return held.payload };
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
    pub fn hand_on_kept(&mut self, sink: &mut dyn Sink) {
        const ANY: Pattern = Pattern { source: None, tag: None };
        while self.mail.hands_on
            && let Some(expected) = self.mail.matching.take(ANY)
        {
            let session = expected.message.session;
            let payload = self.consume(expected.message);
            let envelope = Envelope { session, tag: expected.tag, bytes: payload.len() };
            sink.message(self, envelope, &payload.as_incoming());
        }
    }

    /// Reports the sends of a session that has ended.
    pub fn fail_messages(&mut self, session: SessionId, reason: &DownReason, sink: &mut dyn Sink) {
        for send in self.mail.session_down(session) {
            let outcome: SendOutcome = Err(reason.clone());
            sink.sent(self, send, outcome);
        }
    }

    fn acknowledge(&mut self, session: SessionId, request: CallKey) {
        // Cannot be too long: it is empty.
        let _ = self.calls.reply(to_protocol(session), request, TAKEN, Payload::Slice(&[]));
    }

    fn violation(&mut self, session: SessionId, what: &'static str) {
        self.calls.end_because(to_protocol(session), EndReason::Violation { what });
    }
}

/// Tag, number and payload of a message; `None` when it is too short to have them.
fn split_trailer(payload: Received, packet: &[u8]) -> Option<(Tag, u32, Incoming<'_>)> {
    let (trailer, payload) = match payload {
        Received::InPlace(range) => {
            let (payload, trailer) = packet[range].split_last_chunk::<TRAILER_BYTES>()?;
            (*trailer, Incoming::Borrowed(payload))
        }
        Received::Assembled(mut bytes) => {
            let trailer = *bytes.last_chunk::<TRAILER_BYTES>()?;
            bytes.truncate(bytes.len() - TRAILER_BYTES);
            (trailer, Incoming::Owned(bytes.into()))
        }
    };
    let trailer = u64::from_le_bytes(trailer);
    Some((Tag(trailer as u32), (trailer >> 32) as u32, payload))
}
