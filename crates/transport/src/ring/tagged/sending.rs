//! Out: into the open record, or waiting until there is room or the peer's window is wider.

use farcall_driver::LaneDriver;
use farcall_protocol::matching::{Tag, lines};

use crate::mail::WaitingSend;
use crate::ring::entries::BRIEF_BYTES;
use crate::ring::outbound::Outbound;
use crate::ring::session::{Message, Stage};
use crate::waiting::WaitingPayload;
use crate::{DownReason, MessageId, Outgoing, SendProgress, SendRefused, SessionId, Sink};

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
    #[inline(always)]
    pub fn send_short(&mut self, to: SessionId, tag: Tag, payload: &[u8]) -> bool {
        let Some(slot) = self.slot_of(to) else { return false };
        let session = &mut self.sessions[slot];
        let counted = lines(payload.len());
        if !session.mail.may_send(counted) || payload.len() > session.message_inline_bytes {
            return false;
        }
        let header = || Message::tagged(tag).inline_header(payload.len()).to_word();
        // This way makes no call, so that there are no registers to be kept; and a length that is known to be small is put into the
        // header in fewer steps.
        if payload.len() <= BRIEF_BYTES && !self.tracer.is_on() && session.append_brief(header(), payload) {
            session.mail.send(counted);
            return true;
        }
        self.send_in_record(slot, header(), payload)
    }

    /// Sends a message that goes into a record now, most likely into one that is opened for it.
    #[inline(never)]
    fn send_in_record(&mut self, slot: usize, header: u64, payload: &[u8]) -> bool {
        let session = &mut self.sessions[slot];
        if !self.tracer.is_on()
            && session.append_brief_to_new(header, payload, self.config.batch_bytes, &mut self.dirty)
        {
            session.mail.send(lines(payload.len()));
            return true;
        }
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
        if !self.sessions[slot].mail.sends.is_empty() && self.learn_of_room(slot) {
            self.send_waiting(slot);
        }
        let session = &self.sessions[slot];
        let must_wait = session.stage != Stage::Up || !session.mail.sends.is_empty();
        let refused = match must_wait {
            true => Some(payload),
            false => self.transmit_tagged(slot, tag, payload, submitted).err(),
        };
        let Some(payload) = refused else { return SendProgress::Done };
        let payload = WaitingPayload::without_block(payload, &mut self.mail.spares);
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
        let counted =
            if payload.len() > session.message_inline_bytes { lines(0) } else { lines(payload.len()) };
        let is_admitted = session.mail.send_window.admits(counted)
            || self.learn_of_room(slot) && self.sessions[slot].mail.send_window.admits(counted);
        if !is_admitted {
            return Err(payload);
        }
        self.transmit(slot, Message::tagged(tag), payload)?;
        let session = &mut self.sessions[slot];
        let number = session.mail.send(counted);
        self.tracer.mark_submitted(submitted, number, session.id);
        if !session.batch.is_open() {
            // Its record has left, and could not count it.
            self.counters.messages_sent.increment();
        }
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
}
