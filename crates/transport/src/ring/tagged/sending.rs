//! Out: into the open record, or waiting until there is room or the peer's window is wider.

use farcall_driver::LaneDriver;
use farcall_protocol::matching::{Tag, lines};

use crate::mail::WaitingSend;
use crate::ring::Ring;
use crate::ring::session::{Message, Stage};
use crate::waiting::WaitingPayload;
use crate::{DownReason, MessageId, Outgoing, Refused, Sink, Submitted};

impl<D: LaneDriver> Ring<D> {
    /// Sends a message that goes into a record now, most likely into one that is opened for it.
    #[inline(never)]
    pub(in crate::ring) fn send_in_record(
        &mut self,
        slot: usize,
        send: MessageId,
        tag: Tag,
        payload: &[u8],
    ) -> Submitted {
        let header = Message::tagged(tag).inline_header(payload.len()).to_word();
        let session = &mut self.sessions[slot];
        if !self.tracer.is_on()
            && session.append_brief_to_new(header, payload, self.config.batch_bytes, &mut self.dirty)
        {
            session.mail.send(lines(payload.len()));
            return Submitted::Sent;
        }
        let submitted = self.tracer.begin();
        if !self.append_to_record(slot, header, payload) {
            return self.send_otherwise(slot, send, tag, Outgoing::Slice(payload));
        }
        let session = &mut self.sessions[slot];
        self.tracer.mark_submitted(submitted, session.mail.send(lines(payload.len())), session.id);
        Submitted::Sent
    }

    /// Sends a message as a block, or lets it wait, if it is within the limit.
    #[inline(never)]
    pub(in crate::ring) fn send_otherwise(
        &mut self,
        slot: usize,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'_>,
    ) -> Submitted {
        let bytes_max = self.sessions[slot].message_bytes_max;
        if payload.len() > bytes_max {
            return Submitted::Refused(Refused::TooLong { bytes_max });
        }
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
        let Some(payload) = refused else { return Submitted::Sent };
        let payload = WaitingPayload::without_block(payload, &mut self.mail.spares);
        let waiting = WaitingSend { send, tag, payload, submitted };
        self.sessions[slot].mail.sends.push_back(waiting);
        self.counters.ring_full.increment();
        self.note_need();
        Submitted::Queued
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
    pub(in crate::ring) fn send_waiting(&mut self, slot: usize) {
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
    pub(in crate::ring) fn part(&mut self, slot: usize, reason: &DownReason) {
        let session = &mut self.sessions[slot];
        self.mail.part(&mut session.mail, session.id, reason);
    }

    /// Tells the sink which sends have ended.
    #[inline(always)]
    pub(in crate::ring) fn report_sends(&mut self, sink: &mut dyn Sink) {
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
