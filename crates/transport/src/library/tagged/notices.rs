//! Notices about messages that the window holds up: packets with numbers, like those of messages, so that
//! they keep their order with these.

use farcall_protocol::matching::{Notice, Source, Tag};
use farcall_protocol::session::{Link, SessionId};
use farcall_protocol::wire::TaggedPacket;

use super::OVERRUN;
use crate::Outgoing;
use crate::library::LibraryTransport;
use crate::library::outbound::{live, to_protocol};
use crate::library::seam::Library;
use crate::matcher::{Matcher, WaitingSend};
use crate::notices::Due;

/// Bytes of what a notice says to be counted, if it says so.
const LINES_BYTES: usize = 4;

impl<L: Library> LibraryTransport<L> {
    /// A receive waits that may be for messages which a peer keeps.
    #[inline]
    pub(super) fn note_wanted(&mut self, source: Option<Source>, tag: Tag) {
        if !self.matcher.unread.is_empty() {
            self.note_wanted_of_all(source, tag);
        }
    }

    fn note_wanted_of_all(&mut self, source: Option<Source>, tag: Tag) {
        let mut unread = core::mem::take(&mut self.matcher.unread);
        unread.retain(|&session| {
            let id = to_protocol(session);
            let Some(channel) = live(&mut self.channels, id) else { return false };
            let is_unread = Matcher::note_wanted(&mut channel.tagged.matching, source, tag);
            self.note_notices(id);
            is_unread
        });
        self.matcher.unread = unread;
    }

    /// The end of the poll looks after the notices of a session.
    pub(super) fn note_notices(&mut self, id: SessionId) {
        if !self.noticed.contains(&id) {
            self.noticed.push(id);
        }
    }

    /// Takes a notice of the peer, in its turn among the messages.
    pub(super) fn take_notice(
        &mut self,
        id: SessionId,
        code: u8,
        tag: Tag,
        payload: &[u8],
    ) -> Result<(), &'static str> {
        let Some(channel) = live(&mut self.channels, id) else { return Ok(()) };
        let lines = payload.first_chunk::<LINES_BYTES>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let notice = Notice::from_wire(code.into(), tag.0, lines).ok_or("a notice of unknown code")?;
        match notice {
            Notice::Ask | Notice::Grant(_) => channel.tagged.sends.notices.take(notice),
            _ => channel.tagged.matching.take_notice(notice),
        }
        .map_err(|_| OVERRUN)?;
        self.note_notices(id);
        Ok(())
    }

    /// Sends the notices that are due, and the messages that were granted.
    #[inline]
    pub(in crate::library) fn exchange_notices(&mut self) {
        while let Some(id) = self.noticed.pop() {
            self.exchange_notices_of(id);
        }
    }

    fn exchange_notices_of(&mut self, id: SessionId) {
        let Some(channel) = live(&mut self.channels, id) else { return };
        let Some(link) = channel.link else { return };
        self.matcher.examine(&mut channel.tagged.matching);
        while let Some(channel) = live(&mut self.channels, id)
            && let Some(notice) = channel.tagged.matching.notices.next()
        {
            channel.tagged.matching.notices.sent();
            self.send_notice(id, &link, notice);
        }
        while let Some(channel) = live(&mut self.channels, id) {
            let sends = &mut channel.tagged.sends;
            match sends.notices.next(&sends.waiting) {
                None => return,
                Some(Due::Notice(notice)) => self.send_notice(id, &link, notice),
                Some(Due::Beyond(tag, place)) => self.send_beyond(id, &link, tag, place),
            }
        }
    }

    /// Sends the message of a grant.
    fn send_beyond(&mut self, id: SessionId, link: &Link, tag: Tag, place: usize) {
        let Some(channel) = live(&mut self.channels, id) else { return };
        let Some(waiting) = channel.tagged.sends.waiting.remove(place) else { return };
        channel.tagged.sends.notices.promise(tag);
        channel.tagged.sends.notices.passed(place);
        let WaitingSend { send, tag: _, payload, submitted } = waiting;
        let lines = channel.tagged.lines_of(payload.len());
        self.send_notice(id, link, Notice::Beyond { tag, lines });
        self.transmit_alone(id, link, tag, payload.into(), 0, submitted);
        self.counters.beyond_window.increment();
        self.matcher.has_left(send, Vec::new());
    }

    /// Sends a notice behind all of the batch.
    fn send_notice(&mut self, id: SessionId, link: &Link, notice: Notice) {
        self.send_batch(id);
        let Some(channel) = live(&mut self.channels, id) else { return };
        let (code, tag, lines) = notice.to_wire();
        let number = channel.tagged.next_number();
        let bytes = lines.to_le_bytes();
        let payload = &bytes[..if lines == 0 { 0 } else { LINES_BYTES }];
        let packet = TaggedPacket::Notice { number, code: code as u8, tag: Tag(tag) };
        self.transmit_tagged(link, packet, Outgoing::Slice(payload));
    }
}
