//! Tagged messages: out through the peer's window and in batches, in through the matching.
//!
//! Short messages gather until the next flush and travel as one message of the library, which costs as much as ten of
//! them. A library may let what is short overtake what is long, so packets are put back in order by their numbers before
//! anything is matched.

use farcall_driver::Destination;
use farcall_protocol::matching::{
    ReceiveWindow, SendWindow, Sequencer, Source, Tag, WINDOW_LINE_BYTES, lines, lines_max,
};
use farcall_protocol::session::{Link, SessionId};
use farcall_protocol::wire::{BATCH_ENTRY_BYTES, Batch, HEADER_BYTES, TaggedPacket, put_entry, put_tagged};

use super::outbound::{Outbound, to_protocol};
use super::seam::{Library, compose};
use crate::mail::{Claimed, Correspondent, Patience, Verdict, WaitingSend};
use crate::{
    Envelope, Incoming, Kept, MessageId, Origin, Outgoing, ReceiveProgress, SendProgress, SendRefused, Sink,
};

/// The longest batch with its head, in bytes: it fits the buffers of 8 KiB in which UCX copies what is short.
const BATCH_BYTES_MAX: usize = 7 << 10;

/// What is in front of the messages of a batch.
const FRONT_BYTES: usize = 1 + HEADER_BYTES;

/// The longest message that is copied into a batch, in bytes.
const SHORT_BYTES_MAX: usize = 2 << 10;

const OVERRUN: &str = "more messages, or more credit for them, than there can be";

/// The tagged messages of one session.
#[derive(Default)]
pub struct Tagged {
    pub mail: Correspondent,
    /// How much the peer has room for; 0 until it has said so.
    lines_of_peer: u32,
    /// Messages that leave with the next flush, composed with room for their head; empty when there are none.
    batch: Vec<u8>,
    batch_bytes_max: usize,
    packets_sent: u32,
    sequencer: Sequencer<Early>,
    /// The payloads of packets that came before those in front of them, in bytes.
    early_bytes: usize,
}

/// A packet that came before those in front of it.
struct Early {
    contents: Contents,
    payload: Kept,
}

/// What is left of a packet with a message that nobody expects yet.
#[derive(Clone, Copy)]
pub struct Rest {
    pub id: SessionId,
    contents: Contents,
    /// Where the next message of a batch begins.
    at: usize,
}

/// What the payload of a packet is.
#[derive(Clone, Copy)]
enum Contents {
    Message(Tag),
    Batch,
}

impl Tagged {
    /// What a message counts, if the peer has room for it, and has said so.
    #[inline]
    fn admitted(&self, bytes: usize) -> Option<u32> {
        let counted = lines(bytes).min(lines_max(self.lines_of_peer));
        (self.lines_of_peer > 0 && self.mail.send_window.admits(counted)).then_some(counted)
    }

    /// The packet whose turn it is, if it has come.
    fn pop(&mut self) -> Option<Early> {
        let early = self.sequencer.pop()?;
        self.early_bytes -= early.payload.len();
        Some(early)
    }

    fn next_number(&mut self) -> u32 {
        let number = self.packets_sent;
        self.packets_sent = number.wrapping_add(1);
        number
    }
}

impl<L: Library> Outbound<L> {
    /// A session is up: says how much may be sent here.
    pub fn open_mail(&mut self, link: &Link, id: SessionId, source: Source) {
        let limit = self.unexpected_lines;
        let Some(channel) = self.channel(id) else { return };
        let batch_bytes_max = BATCH_BYTES_MAX.min(FRONT_BYTES + channel.message_bytes_max());
        let tagged = &mut channel.tagged;
        tagged.mail.source = source;
        tagged.mail.receive_window = ReceiveWindow::new(limit);
        tagged.batch_bytes_max = batch_bytes_max;
        self.transmit_tagged(link, TaggedPacket::Credit { consumed: 0, limit }, Outgoing::Slice(&[]));
    }

    fn transmit_tagged(&mut self, link: &Link, packet: TaggedPacket, payload: Outgoing<'_>) {
        put_tagged(&mut self.head, link.remote, packet);
        self.library.send(Destination(link.to.0), self.head.as_bytes(), payload);
    }

    pub fn send_message(
        &mut self,
        session: crate::SessionId,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'_>,
    ) -> Result<SendProgress, SendRefused> {
        let id = to_protocol(session);
        let channel = self.channel(id).ok_or(SendRefused::Down)?;
        let (bytes, bytes_max) = (payload.len(), channel.message_bytes_max());
        if bytes > bytes_max {
            return Err(SendRefused::TooLong { bytes, bytes_max });
        }
        let must_wait = !channel.tagged.mail.sends.is_empty();
        let refused = if must_wait { Some(payload) } else { self.transmit_message(id, tag, payload).err() };
        let (Some(payload), Some(channel)) = (refused, self.channel(id)) else {
            return Ok(SendProgress::Done);
        };
        channel.tagged.mail.sends.push_back(WaitingSend { send, tag, payload: payload.into() });
        self.counters.window_full.increment();
        Ok(SendProgress::Pending)
    }

    /// Sends a message now, or gives its payload back when the peer has no room for it.
    fn transmit_message<'p>(
        &mut self,
        id: SessionId,
        tag: Tag,
        payload: Outgoing<'p>,
    ) -> Result<(), Outgoing<'p>> {
        if self.append_to_batch(id, tag, payload.as_slice()) {
            return Ok(());
        }
        let Some(channel) = self.channel(id) else { return Err(payload) };
        let (Some(counted), Some(link)) = (channel.tagged.admitted(payload.len()), channel.link) else {
            return Err(payload);
        };
        self.send_batch(id);
        let Some(channel) = self.channel(id) else { return Err(payload) };
        channel.tagged.mail.send_window.send(counted);
        let number = channel.tagged.next_number();
        self.transmit_tagged(&link, TaggedPacket::One { number, tag }, payload);
        Ok(())
    }

    /// Sends a message that is short, if nothing is in its way.
    #[inline]
    pub fn send_short(&mut self, session: crate::SessionId, tag: Tag, payload: &[u8]) -> bool {
        let id = to_protocol(session);
        let is_free = self.channel(id).is_some_and(|channel| channel.tagged.mail.sends.is_empty());
        is_free && self.append_to_batch(id, tag, payload)
    }

    /// Puts a message into the batch, if it is short and the peer has room for it.
    #[inline]
    fn append_to_batch(&mut self, id: SessionId, tag: Tag, payload: &[u8]) -> bool {
        let entry_bytes = BATCH_ENTRY_BYTES + payload.len().next_multiple_of(BATCH_ENTRY_BYTES);
        let Some(channel) = self.channel(id) else { return false };
        let tagged = &mut channel.tagged;
        let is_short =
            payload.len() <= SHORT_BYTES_MAX && FRONT_BYTES + entry_bytes <= tagged.batch_bytes_max;
        let Some(counted) = tagged.admitted(payload.len()).filter(|_| is_short) else { return false };
        if tagged.batch.len() + entry_bytes > tagged.batch_bytes_max {
            self.send_batch(id);
        }
        let Some(channel) = self.channel(id) else { return false };
        let tagged = &mut channel.tagged;
        let is_first = tagged.batch.is_empty();
        if is_first {
            compose(&mut tagged.batch, &[0; HEADER_BYTES]);
        }
        put_entry(&mut tagged.batch, tag, payload);
        tagged.mail.send_window.send(counted);
        if is_first {
            self.open_batches.push(id);
        }
        true
    }

    fn send_batch(&mut self, id: SessionId) {
        let Some(channel) = self.channel(id) else { return };
        let Some(link) = channel.link.filter(|_| !channel.tagged.batch.is_empty()) else { return };
        let number = channel.tagged.next_number();
        let mut batch = core::mem::take(&mut channel.tagged.batch);
        put_tagged(&mut self.head, link.remote, TaggedPacket::Batch { number });
        batch[1..=HEADER_BYTES].copy_from_slice(self.head.as_bytes());
        self.library.send_composed(Destination(link.to.0), &mut batch);
        self.counters.batches_sent.increment();
        if let Some(channel) = self.channel(id) {
            channel.tagged.batch = batch;
        }
    }

    /// Sends every batch; says whether there was one.
    #[inline]
    pub fn send_batches(&mut self) -> bool {
        let any = !self.open_batches.is_empty();
        while let Some(id) = self.open_batches.pop() {
            self.send_batch(id);
        }
        any
    }

    /// Sends the messages that wait, oldest first, until the window ends again.
    fn send_waiting(&mut self, id: SessionId) {
        while let Some(WaitingSend { send, tag, payload }) =
            self.channel(id).and_then(|channel| channel.tagged.mail.sends.pop_front())
        {
            match payload.offer(|payload| self.transmit_message(id, tag, payload)) {
                Ok(()) => self.mail.ended_sends.push((send, Ok(()))),
                Err(payload) => {
                    let waiting = WaitingSend { send, tag, payload };
                    if let Some(channel) = self.channel(id) {
                        channel.tagged.mail.sends.push_front(waiting);
                    }
                    return;
                }
            }
        }
    }

    /// Tells the sink which sends have ended.
    #[inline]
    pub fn report_sends(&mut self, sink: &mut dyn Sink) {
        if !self.mail.ended_sends.is_empty() {
            for (send, outcome) in core::mem::take(&mut self.mail.ended_sends) {
                sink.sent(self, send, outcome);
            }
        }
    }

    #[inline]
    pub fn post_receive(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
    ) -> ReceiveProgress {
        let is_down = from.is_some_and(|origin| self.channel(to_protocol(origin.session)).is_none());
        match self.mail.post(receive, from, tag, is_down) {
            Ok(Claimed { envelope, payload, lines }) => {
                self.consumed(envelope.session, lines);
                ReceiveProgress::Arrived(envelope, payload)
            }
            Err(progress) => progress,
        }
    }

    /// Hands the messages that waited to a sink that takes all.
    pub fn hand_on_kept(&mut self, sink: &mut dyn Sink) {
        while let Some(Claimed { envelope, payload, lines }) = self.mail.claim_for_sink() {
            self.consumed(envelope.session, lines);
            sink.message(self, envelope, &payload.as_incoming());
        }
    }

    /// An unexpected message was consumed.
    fn consumed(&mut self, session: crate::SessionId, lines: u32) {
        let id = to_protocol(session);
        if let Some(channel) = self.channel(id) {
            channel.tagged.mail.receive_window.consume(lines);
            self.return_credit_if_due(id);
        }
    }

    /// Widens the peer's window when enough was consumed.
    #[inline]
    fn return_credit_if_due(&mut self, id: SessionId) {
        let limit = self.unexpected_lines;
        let Some(channel) = self.channel(id) else { return };
        let window = &mut channel.tagged.mail.receive_window;
        if let Some(link) = channel.link
            && window.credit_is_due()
        {
            let consumed = window.take_credit();
            self.transmit_tagged(&link, TaggedPacket::Credit { consumed, limit }, Outgoing::Slice(&[]));
        }
    }

    /// A packet about tagged messages came, of the session at `index`. Gives what is left of it.
    #[inline]
    pub fn take_tagged(
        &mut self,
        index: usize,
        packet: TaggedPacket,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Option<Rest> {
        let channel = self.channel_at(index)?;
        let (id, bytes_max) = (channel.id, channel.message_bytes_max());
        let (number, contents) = match packet {
            TaggedPacket::One { number, tag } => (number, Contents::Message(tag)),
            TaggedPacket::Batch { number } => (number, Contents::Batch),
            TaggedPacket::Credit { consumed, limit } => {
                self.take_credit(id, consumed, limit);
                return None;
            }
        };
        if payload.as_slice().len() > bytes_max {
            self.violated(id, "a message over the agreed limit");
            return None;
        }
        if !channel.tagged.sequencer.skip(number) {
            self.put_aside(id, number, Early { contents, payload: Kept::from(payload) });
            return None;
        }
        self.deliver(Rest { id, contents, at: 0 }, payload, Patience::Once, sink)
    }

    /// Keeps a packet until those in front of it have come.
    #[cold]
    fn put_aside(&mut self, id: SessionId, number: u32, early: Early) {
        let limit = self.unexpected_lines as usize;
        let Some(channel) = self.channel(id) else { return };
        // What is ahead is within the window of its sender. Messages have no more bytes than their lines, batches included, but
        // for one that may be longer than the window and then has most of it for itself; each counts a line at least.
        let bytes_max = limit * WINDOW_LINE_BYTES + channel.message_bytes_max();
        let tagged = &mut channel.tagged;
        tagged.early_bytes += early.payload.len();
        if tagged.early_bytes > bytes_max {
            return self.violated(id, OVERRUN);
        }
        if tagged.sequencer.insert(number, limit, early).is_err() {
            self.violated(id, "a message with a wrong number");
        }
    }

    /// Hands on what is left of a packet whose turn it is, and those that waited for it. Gives what is left then.
    #[inline]
    pub fn deliver(
        &mut self,
        rest: Rest,
        payload: &Incoming<'_>,
        patience: Patience,
        sink: &mut dyn Sink,
    ) -> Option<Rest> {
        let id = rest.id;
        let left = match self.read(rest, payload, patience, sink) {
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
        while let Some(Early { contents, payload }) =
            self.channel(id).and_then(|channel| channel.tagged.pop())
        {
            // They lie here already, so that nothing is won by leaving them.
            self.read(Rest { id, contents, at: 0 }, &payload.as_incoming(), Patience::Never, sink)?;
        }
        Ok(None)
    }

    /// Hands on the messages of a packet; gives where it was left.
    #[inline]
    fn read(
        &mut self,
        rest: Rest,
        payload: &Incoming<'_>,
        mut patience: Patience,
        sink: &mut dyn Sink,
    ) -> Result<Option<Rest>, &'static str> {
        let id = rest.id;
        let bytes = payload.as_slice();
        let mut batch = match rest.contents {
            Contents::Message(tag) => {
                let verdict = self.arrive(id, tag, payload, patience, sink)?;
                return Ok((verdict == Verdict::Left).then_some(rest));
            }
            Contents::Batch => Batch::new(bytes.get(rest.at..).unwrap_or_default()),
        };
        loop {
            let at = bytes.len() - batch.unread();
            let Some(entry) = batch.next() else { return Ok(None) };
            let (tag, message) = entry.map_err(|malformed| malformed.what)?;
            let verdict = self.arrive(id, tag, &Incoming::Borrowed(message), patience, sink)?;
            if verdict == Verdict::Left {
                return Ok(Some(Rest { at, ..rest }));
            }
            patience = patience.after(verdict);
        }
    }

    #[inline]
    fn arrive(
        &mut self,
        id: SessionId,
        tag: Tag,
        payload: &Incoming<'_>,
        patience: Patience,
        sink: &mut dyn Sink,
    ) -> Result<Verdict, &'static str> {
        // Of a session that is over nothing is taken any more.
        let channel = self.channels.get_mut(id.index()).and_then(Option::as_mut);
        let Some(channel) = channel.filter(|channel| channel.id == id) else { return Ok(Verdict::Kept) };
        let bytes = payload.as_slice().len();
        let envelope = Envelope { session: crate::SessionId(id.0), tag, bytes };
        let counted = lines(bytes).min(lines_max(self.unexpected_lines));
        let leave = patience == Patience::Once;
        let verdict = self.mail.arrive(&mut channel.tagged.mail, envelope, payload, counted, leave);
        let verdict = verdict.map_err(|_| OVERRUN)?;
        match verdict {
            Verdict::Left => return Ok(verdict),
            Verdict::Kept => self.counters.unexpected.increment(),
            Verdict::Receive(receive) => sink.received(self, receive, envelope, payload),
            Verdict::HandOn => sink.message(self, envelope, payload),
        }
        self.counters.messages_received.increment();
        Ok(verdict)
    }

    fn take_credit(&mut self, id: SessionId, consumed: u32, limit: u32) {
        let Some(channel) = self.channel(id) else { return };
        let tagged = &mut channel.tagged;
        if tagged.lines_of_peer == 0 {
            tagged.lines_of_peer = limit;
            tagged.mail.send_window = SendWindow::new(limit);
        }
        if tagged.lines_of_peer != limit || tagged.mail.send_window.credit(consumed).is_err() {
            return self.violated(id, OVERRUN);
        }
        self.send_waiting(id);
    }
}
