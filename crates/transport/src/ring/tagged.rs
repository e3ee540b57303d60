//! Tagged messages: out through the peer's window, in through the matching.
//!
//! A message that nobody expects is left where it lies until the next poll: the receiver may be about to post receives,
//! and what is given to them from the ring is not copied twice. After that it is kept, so that it holds up nothing else
//! for longer than a turn.

use farcall_driver::LaneDriver;
use farcall_protocol::matching::{Overrun, Tag, lines};
use farcall_protocol::ring::{EntryHeader, EntryKind, Violation, WORD_BYTES};

use super::outbound::Outbound;
use super::session::{Message, Stage};
use crate::mail::{Claimed, Verdict, WaitingSend};
use crate::trace::event;
use crate::waiting::WaitingPayload;
use crate::{
    Burst, DownReason, Envelope, Incoming, MessageId, Origin, Outgoing, ReceiveProgress, SendProgress,
    SendRefused, SessionId, ShortMessage, Sink,
};

impl<D: LaneDriver> Outbound<D> {
    #[inline]
    pub fn send_tagged(
        &mut self,
        to: SessionId,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'_>,
    ) -> Result<SendProgress, SendRefused> {
        let slot = self.slot_of(to).ok_or(SendRefused::Down)?;
        let session = &self.sessions[slot];
        let bytes = payload.len();
        if bytes > session.message_bytes_max {
            return Err(SendRefused::TooLong { bytes, bytes_max: session.message_bytes_max });
        }
        Ok(self.send_slowly(slot, send, tag, payload))
    }

    /// Sends a message that goes into a record now; false when it is too long for that or has to wait.
    #[inline]
    pub fn send_short(&mut self, slot: usize, tag: Tag, payload: &[u8]) -> bool {
        let session = &mut self.sessions[slot];
        let counted = lines(payload.len());
        if !session.mail.may_send(counted) || payload.len() > session.inline_bytes {
            return false;
        }
        let header = Message::tagged(tag).inline_header(payload.len()).to_word();
        // This way makes no call, so that there are no registers to be kept.
        if !self.tracer.is_on() && session.append_brief(header, payload) {
            session.mail.send(counted);
            return true;
        }
        self.send_in_record(slot, header, payload)
    }

    #[inline(never)]
    fn send_in_record(&mut self, slot: usize, header: u64, payload: &[u8]) -> bool {
        let submitted = self.tracer.begin();
        if !self.append_to_record(slot, header, payload) {
            return false;
        }
        let session = &mut self.sessions[slot];
        self.tracer.mark_submitted(submitted, session.mail.send(lines(payload.len())), session.id);
        true
    }

    fn send_slowly(&mut self, slot: usize, send: MessageId, tag: Tag, payload: Outgoing<'_>) -> SendProgress {
        let submitted = self.tracer.begin();
        let session = &self.sessions[slot];
        let must_wait = session.stage != Stage::Up || !session.mail.sends.is_empty();
        let refused = match must_wait {
            true => Some(payload),
            false => self.transmit_tagged(slot, tag, payload, submitted).err(),
        };
        let Some(payload) = refused else { return SendProgress::Done };
        let payload = WaitingPayload::in_spare(payload, &mut self.mail.spares);
        let waiting = WaitingSend { send, tag, payload, submitted };
        self.sessions[slot].mail.sends.push_back(waiting);
        self.counters.ring_full.increment();
        self.note_need();
        SendProgress::Pending
    }

    /// Sends a message now, or gives its payload back when it has to wait.
    fn transmit_tagged<'p>(
        &mut self,
        slot: usize,
        tag: Tag,
        payload: Outgoing<'p>,
        submitted: Option<u64>,
    ) -> Result<(), Outgoing<'p>> {
        let session = &self.sessions[slot];
        // A block stays with the sender until somebody reads it: at the receiver it is a few words.
        let counted = if payload.len() > session.inline_bytes { lines(0) } else { lines(payload.len()) };
        if !session.mail.send_window.admits(counted) {
            return Err(payload);
        }
        self.transmit(slot, Message::tagged(tag), payload)?;
        let session = &mut self.sessions[slot];
        let number = session.mail.send(counted);
        self.tracer.mark_submitted(submitted, number, session.id);
        Ok(())
    }

    /// Sends the messages that wait, oldest first, until room or window end again.
    pub fn send_waiting(&mut self, slot: usize) {
        if self.sessions[slot].stage != Stage::Up {
            return;
        }
        while let Some(waiting) = self.sessions[slot].mail.sends.pop_front() {
            let WaitingSend { send, tag, payload, submitted } = waiting;
            match payload.offer(|payload| self.transmit_tagged(slot, tag, payload, submitted)) {
                Ok(spare) => self.mail.has_left(send, spare),
                Err(payload) => {
                    let waiting = WaitingSend { send, tag, payload, submitted };
                    return self.sessions[slot].mail.sends.push_front(waiting);
                }
            }
        }
    }

    /// A session is over, and with it the sends that wait for it.
    pub fn part(&mut self, slot: usize, reason: &DownReason) {
        let session = &mut self.sessions[slot];
        self.mail.part(&mut session.mail, session.id, reason);
    }

    /// Tells the sink which sends have ended.
    #[inline(always)]
    pub fn report_sends(&mut self, sink: &mut dyn Sink) {
        if !self.mail.ended_sends.is_empty() {
            self.report_ended_sends(sink);
        }
    }

    #[inline(never)]
    fn report_ended_sends(&mut self, sink: &mut dyn Sink) {
        let mut ended = core::mem::take(&mut self.mail.ended_sends);
        ended.drain(..).for_each(|(send, outcome)| sink.sent(self, send, outcome));
        self.mail.reuse(ended);
    }

    #[inline]
    pub fn post_receive(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
    ) -> ReceiveProgress {
        let is_down = from.is_some_and(|origin| self.slot_of(origin.session).is_none());
        match self.mail.post(receive, from, tag, is_down) {
            Ok(Claimed { envelope, payload, lines, number }) => {
                self.consumed(envelope.session, lines);
                self.tracer.mark_taken(number, envelope.session);
                ReceiveProgress::Arrived(envelope, payload)
            }
            Err(progress) => progress,
        }
    }

    /// A message came; `leave` says whether it may wait where it lies.
    #[inline]
    pub fn arrive(
        &mut self,
        slot: usize,
        tag: Tag,
        payload: &Incoming<'_>,
        leave: bool,
        sink: &mut dyn Sink,
    ) -> Result<Verdict, DownReason> {
        let session = &mut self.sessions[slot];
        let bytes = payload.as_slice().len();
        let counted = match payload {
            Incoming::Borrowed(_) => lines(bytes),
            Incoming::Owned(_) => lines(0),
        };
        let envelope = Envelope { session: session.id, tag, bytes };
        let number = session.mail.received;
        let verdict = self.mail.arrive(&mut session.mail, envelope, payload, counted, leave);
        let verdict = verdict.map_err(overrun)?;
        match verdict {
            Verdict::Left => return Ok(verdict),
            Verdict::Kept => self.counters.unexpected.increment(),
            Verdict::Receive(receive) => {
                self.tracer.mark(event::MESSAGE_MATCHED, number, envelope.session);
                sink.received(self, receive, envelope, payload);
                self.tracer.mark(event::MESSAGE_COMPLETED, number, envelope.session);
            }
            Verdict::HandOn => self.hand_on(number, envelope, payload, sink),
        }
        self.counters.messages_received.increment();
        Ok(verdict)
    }

    /// Hands messages of a burst to those who wait for them, until one comes that nobody waits for; says where the next
    /// entry is, and how many there were. They are not traced.
    #[inline(always)]
    pub fn hand_on_burst(
        &mut self,
        slot: usize,
        mut burst: Burst<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(usize, u16), DownReason> {
        let session = &self.sessions[slot];
        let (id, source) = (session.id, session.mail.source);
        if self.mail.only_hands_on() {
            // A copy, so that the other way has its own in registers.
            let mut lent = burst;
            sink.messages(self, id, &mut lent);
            burst = lent;
        } else {
            // Where one message cannot be taken at once, the next most likely cannot.
            let mut at_once = true;
            while let Some(message) = burst.peek() {
                let Some(receive) = self.mail.take_receive(source, message.tag) else { break };
                burst.advance(message);
                let ShortMessage { tag, payload } = message;
                at_once = at_once && sink.received_at_once(receive, id, tag, payload);
                if !at_once {
                    let envelope = Envelope { session: id, tag, bytes: payload.len() };
                    sink.received(self, receive, envelope, &Incoming::Borrowed(payload));
                }
            }
        }
        let (at, taken) = burst.end();
        // None of them was kept, so that it is early enough to look at the window now.
        self.sessions[slot].mail.pass(taken).map_err(overrun)?;
        self.counters.messages_received.add(u64::from(taken.messages));
        Ok((at, taken.messages))
    }

    /// Hands the messages that waited to a sink that takes all.
    #[inline(never)]
    pub fn hand_on_kept(&mut self, sink: &mut dyn Sink) {
        while let Some(Claimed { envelope, payload, lines, number }) = self.mail.claim_for_sink() {
            self.consumed(envelope.session, lines);
            self.hand_on(number, envelope, &payload.as_incoming(), sink);
        }
    }

    #[inline]
    fn hand_on(&mut self, number: u32, envelope: Envelope, payload: &Incoming<'_>, sink: &mut dyn Sink) {
        self.tracer.mark(event::MESSAGE_MATCHED, number, envelope.session);
        sink.message(self, envelope, payload);
        self.tracer.mark(event::MESSAGE_COMPLETED, number, envelope.session);
    }

    /// An unexpected message was consumed.
    fn consumed(&mut self, session: SessionId, lines: u32) {
        if let Some(slot) = self.slot_of(session) {
            self.sessions[slot].mail.receive_window.consume(lines);
            self.return_message_credit_if_due(slot);
        }
    }

    /// Widens the peer's window when enough was consumed. Without room in the ring the need stays.
    #[inline]
    pub fn return_message_credit_if_due(&mut self, slot: usize) {
        if self.sessions[slot].mail.receive_window.credit_is_due() {
            self.return_message_credit(slot);
        }
    }

    fn return_message_credit(&mut self, slot: usize) {
        if self.sessions[slot].stage != Stage::Up || !self.make_room(slot, WORD_BYTES) {
            return self.note_need();
        }
        let consumed = self.sessions[slot].mail.receive_window.take_credit();
        let header = EntryHeader { kind: EntryKind::MessageCredit, call: consumed, selector: 0, length: 0 };
        self.append(slot, header, &[]);
    }
}

/// The peer's count is not ours.
pub fn overrun(_: Overrun) -> DownReason {
    Violation("more messages, or more credit for them, than there can be").into()
}
