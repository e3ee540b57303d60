//! Out: at once, in a batch, or when the peer's window has room.

use farcall_driver::Destination;
use farcall_protocol::matching::{SendWindow, Tag};
use farcall_protocol::session::{Link, SessionId};
use farcall_protocol::wire::{BATCH_ENTRY_BYTES, HEADER_BYTES, TaggedPacket, put_entry};

use super::{FRONT_BYTES, OVERRUN};
use crate::library::LibraryTransport;
use crate::library::outbound::{live, to_protocol};
use crate::library::seam::{Backlog, Library, compose};
use crate::matcher::WaitingSend;
use crate::trace::{CallTracer, event};
use crate::waiting::WaitingPayload;
use crate::{MessageId, Outgoing, Refused, Sink, Submitted};

/// The longest message that is copied into a batch, in bytes.
const SHORT_BYTES_MAX: usize = 2 << 10;

impl<L: Library> LibraryTransport<L> {
    pub(in crate::library) fn send_message(
        &mut self,
        session: crate::SessionId,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'_>,
    ) -> Submitted {
        let submitted = self.tracer.begin();
        let id = to_protocol(session);
        let Some(channel) = self.channel(id) else { return Submitted::DOWN };
        let bytes_max = channel.message_bytes_max();
        if payload.len() > bytes_max {
            return Submitted::Refused(Refused::TooLong { bytes_max });
        }
        let must_wait = !channel.tagged.sends.waiting.is_empty();
        let refused = match must_wait {
            true => Some(payload),
            false => self.transmit_message(id, tag, payload, submitted).err(),
        };
        let Some(payload) = refused else { return Submitted::Sent };
        let payload = WaitingPayload::in_spare(payload, &mut self.matcher.spares);
        let Some(channel) = self.channel(id) else { return Submitted::Sent };
        let waiting = WaitingSend { send, tag, payload, submitted };
        channel.tagged.sends.waiting.push_back(waiting);
        if channel.tagged.sends.notices.is_asked() {
            self.note_notices(id);
        }
        self.counters.window_full.increment();
        Submitted::Queued
    }

    /// Sends a message now, or gives its payload back when the peer has no room for it.
    fn transmit_message<'p>(
        &mut self,
        id: SessionId,
        tag: Tag,
        payload: Outgoing<'p>,
        submitted: Option<u64>,
    ) -> Result<(), Outgoing<'p>> {
        if self.append_to_batch(id, tag, payload.as_slice(), submitted) {
            if let Outgoing::Loan(loan) = payload {
                self.loans.recycle(loan);
            }
            return Ok(());
        }
        let Some(channel) = self.channel(id) else { return Err(payload) };
        let (Some(counted), Some(link)) = (channel.tagged.admitted(payload.len()), channel.link) else {
            return Err(payload);
        };
        self.transmit_alone(id, &link, tag, payload, counted, submitted);
        Ok(())
    }

    /// Sends a message that counts this many lines, behind all of the batch.
    pub(super) fn transmit_alone(
        &mut self,
        id: SessionId,
        link: &Link,
        tag: Tag,
        payload: Outgoing<'_>,
        counted: u32,
        submitted: Option<u64>,
    ) {
        self.send_batch(id);
        let Some(channel) = live(&mut self.channels, id) else { return };
        let message = channel.tagged.sends.send(counted);
        let number = channel.tagged.next_number();
        self.tracer.mark_submitted(submitted, message, crate::SessionId(id.0));
        self.tracer.mark(event::MESSAGE_TRANSMITTED, message, crate::SessionId(id.0));
        self.counters.messages_sent.increment();
        self.transmit_tagged(link, TaggedPacket::One { number, tag }, payload);
    }

    /// Sends a message that is short, if nothing is in its way.
    #[inline]
    pub(in crate::library) fn send_short(
        &mut self,
        session: crate::SessionId,
        tag: Tag,
        payload: &[u8],
    ) -> bool {
        let submitted = self.tracer.begin();
        let id = to_protocol(session);
        let is_free = self.channel(id).is_some_and(|channel| channel.tagged.sends.waiting.is_empty());
        is_free && self.append_to_batch(id, tag, payload, submitted)
    }

    /// Puts a message into the batch, if it is short and the peer has room for it.
    #[inline]
    fn append_to_batch(&mut self, id: SessionId, tag: Tag, payload: &[u8], submitted: Option<u64>) -> bool {
        let entry_bytes = BATCH_ENTRY_BYTES + payload.len().next_multiple_of(BATCH_ENTRY_BYTES);
        let Some(channel) = self.channel(id) else { return false };
        let tagged = &mut channel.tagged;
        let is_short =
            payload.len() <= SHORT_BYTES_MAX && FRONT_BYTES + entry_bytes <= tagged.batch_bytes_max;
        let Some(counted) = tagged.admitted(payload.len()).filter(|_| is_short) else { return false };
        if tagged.batch.is_empty() || tagged.batch.len() + entry_bytes > tagged.batch_bytes_max {
            self.begin_batch(id);
        }
        let Some(channel) = live(&mut self.channels, id) else { return false };
        put_entry(&mut channel.tagged.batch, tag, payload);
        let message = channel.tagged.sends.send(counted);
        self.tracer.mark_submitted(submitted, message, crate::SessionId(id.0));
        true
    }

    /// Sends the batch that is full, if there is one, and begins the next.
    fn begin_batch(&mut self, id: SessionId) {
        self.send_batch(id);
        let Some(channel) = live(&mut self.channels, id) else { return };
        let tagged = &mut channel.tagged;
        compose(&mut tagged.batch, &[0; HEADER_BYTES]);
        tagged.first_in_batch = tagged.sends.sent;
        if !core::mem::replace(&mut tagged.is_open, true) {
            self.open_batches.push(id);
        }
    }

    pub(super) fn send_batch(&mut self, id: SessionId) {
        let Some(channel) = live(&mut self.channels, id) else { return };
        let tagged = &mut channel.tagged;
        let Some(link) = channel.link.as_ref().filter(|_| !tagged.batch.is_empty()) else { return };
        tagged.end_batch(link.remote, &mut self.head);
        let messages = tagged.sends.sent.wrapping_sub(tagged.first_in_batch);
        mark_transmitted(&self.tracer, id, tagged.first_in_batch, tagged.sends.sent);
        self.library.send_composed(Destination(link.to.0), &mut tagged.batch);
        self.counters.batches_sent.increment();
        self.counters.messages_sent.add(u64::from(messages));
    }

    /// Sends every batch whose way is not backed up; says whether there was one.
    #[inline]
    pub(in crate::library) fn send_batches(&mut self) -> bool {
        self.has_open_batches() && self.send_open_batches()
    }

    fn send_open_batches(&mut self) -> bool {
        let mut any = false;
        let mut place = 0;
        while let Some(&id) = self.open_batches.get(place) {
            if self.backlog(id) > Backlog::None {
                place += 1;
                continue;
            }
            any = true;
            self.open_batches.swap_remove(place);
            self.end_batch(id);
        }
        any
    }

    /// Sends every batch whether its way is backed up or not: there will be no other time.
    pub(in crate::library) fn send_all_batches(&mut self) {
        while let Some(id) = self.open_batches.pop() {
            self.end_batch(id);
        }
    }

    /// Whether short messages wait for the library.
    #[inline]
    pub(in crate::library) fn has_open_batches(&self) -> bool {
        !self.open_batches.is_empty()
    }

    /// Whether a batch would leave now, or nothing tells when it would.
    pub(in crate::library) fn must_poll_for_batches(&self) -> bool {
        self.open_batches.iter().any(|&id| !L::WAKES_FOR_ROOM || self.backlog(id) == Backlog::None)
    }

    #[inline]
    fn backlog(&self, id: SessionId) -> Backlog {
        let channel = self.channels.get(id.index()).and_then(Option::as_ref);
        let link = channel.filter(|channel| channel.id == id).and_then(|channel| channel.link.as_ref());
        link.map_or(Backlog::None, |link| self.library.backlog(Destination(link.to.0)))
    }

    #[inline]
    fn end_batch(&mut self, id: SessionId) {
        self.send_batch(id);
        if let Some(channel) = self.channel(id) {
            channel.tagged.is_open = false;
        }
    }

    /// Sends the messages that wait, oldest first, until the window ends again.
    fn send_waiting(&mut self, id: SessionId) {
        while let Some(WaitingSend { send, tag, payload, submitted }) =
            self.channel(id).and_then(|channel| channel.tagged.sends.waiting.pop_front())
        {
            match payload.offer(|payload| self.transmit_message(id, tag, payload, submitted)) {
                Ok(spare) => {
                    self.matcher.has_left(send, spare);
                    if let Some(channel) = self.channel(id) {
                        channel.tagged.sends.notices.left();
                    }
                }
                Err(payload) => {
                    let waiting = WaitingSend { send, tag, payload, submitted };
                    if let Some(channel) = self.channel(id) {
                        channel.tagged.sends.waiting.push_front(waiting);
                    }
                    return;
                }
            }
        }
    }

    /// Tells the sink which sends have ended.
    #[inline]
    pub(in crate::library) fn report_sends(&mut self, sink: &mut dyn Sink) {
        if !self.matcher.ended_sends.is_empty() {
            let mut ended = core::mem::take(&mut self.matcher.ended_sends);
            ended.drain(..).for_each(|(send, outcome)| sink.sent(self, send, outcome));
            self.matcher.reuse(ended);
        }
    }

    /// The peer has consumed messages, or says how much it has room for.
    pub(in crate::library) fn take_credit(&mut self, id: SessionId, consumed: u32, limit: u32) {
        let Some(channel) = self.channel(id) else { return };
        let tagged = &mut channel.tagged;
        if tagged.lines_of_peer == 0 {
            tagged.lines_of_peer = limit;
            tagged.sends.window = SendWindow::new(limit);
        }
        if tagged.lines_of_peer != limit || tagged.sends.window.credit(consumed).is_err() {
            return self.violated(id, OVERRUN);
        }
        let is_any_announced = tagged.sends.notices.is_any_announced();
        self.send_waiting(id);
        if is_any_announced {
            self.note_notices(id);
        }
    }
}

/// Marks the messages of a batch.
#[inline]
fn mark_transmitted(tracer: &CallTracer, id: SessionId, first: u32, end: u32) {
    let Some(now) = tracer.begin() else { return };
    for message in 0..end.wrapping_sub(first) {
        let number = first.wrapping_add(message);
        tracer.mark_at(now, event::MESSAGE_TRANSMITTED, number, crate::SessionId(id.0));
    }
}
