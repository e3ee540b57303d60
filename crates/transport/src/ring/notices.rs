//! Notices about messages that the window holds up: entries of the kind of message credits, which are read
//! wherever room is looked for, and leave when there is room for them.

use farcall_driver::{LaneDriver, LaneSender, Record};
use farcall_protocol::matching::{Notice, Source, Tag};
use farcall_protocol::ring::{EntryHeader, EntryKind, Violation, WORD_BYTES};

use super::Ring;
use super::flow::{CUT_SHORT, overrun};
use super::session::{SendHalf, Session, Shared, Stage};
use crate::DownReason;
use crate::matcher::{Matcher, WaitingSend};
use crate::notices::Due;

impl<D: LaneDriver> Ring<D> {
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
            let slot = self.slot_of(session);
            slot.is_some_and(|slot| Matcher::note_wanted(&mut self.sessions[slot].rx.messages, source, tag))
        });
        self.matcher.unread = unread;
        self.shared.mark_blocked();
    }
}

impl<D: LaneDriver> Session<D> {
    /// Whether the flush must look after notices.
    pub fn has_notices(&self) -> bool {
        !self.rx.messages.notices.is_idle() || self.tx.messages.notices.is_any_announced()
    }

    /// Takes a notice of the peer; what it leads to is for the next flush.
    pub fn take_notice(
        &mut self,
        entry: EntryHeader,
        record: Record<'_>,
        at: usize,
        shared: &mut Shared<D>,
    ) -> Result<(), DownReason> {
        let lines = match entry.length {
            0 => 0,
            _ => record.word(at).ok_or(CUT_SHORT)? as u32,
        };
        let notice = Notice::from_wire(entry.selector, entry.call, lines);
        let notice = notice.ok_or(Violation("an entry of unknown kind"))?;
        shared.mark_blocked();
        match notice {
            Notice::Ask | Notice::Grant(_) => self.tx.messages.notices.take(notice),
            _ => self.rx.messages.take_notice(notice),
        }
        .map_err(overrun)
    }

    /// Sends the notices that are due, and the messages that were granted, as far as there is room.
    pub fn exchange_notices(&mut self, shared: &mut Shared<D>, matcher: &mut Matcher) {
        if self.stage != Stage::Up {
            return;
        }
        matcher.examine(&mut self.rx.messages);
        while let Some(notice) = self.rx.messages.notices.next() {
            if !self.make_room_for_descriptor(shared) {
                return;
            }
            self.tx.append_notice(notice);
            self.rx.messages.notices.sent();
        }
        // Room first: a notice that was given counts as sent.
        while self.may_have_due() && self.make_room_for_descriptor(shared) {
            match self.tx.messages.notices.next(&self.tx.messages.waiting) {
                None => return,
                Some(Due::Notice(notice)) => self.tx.append_notice(notice),
                Some(Due::Beyond(tag, place)) => {
                    if !self.send_beyond(tag, place, shared, matcher) {
                        return;
                    }
                }
            }
        }
    }

    /// Whether the sending half may have something to say; what is not asked says nothing.
    fn may_have_due(&self) -> bool {
        self.tx.messages.notices.is_asked() || self.tx.messages.notices.is_any_announced()
    }

    /// Sends the message of a grant; false when there is no room for it. Its notice leaves before it, for
    /// which there is room.
    fn send_beyond(&mut self, tag: Tag, place: usize, shared: &mut Shared<D>, matcher: &mut Matcher) -> bool {
        let Some(WaitingSend { send, tag: _, payload, submitted }) = self.tx.messages.waiting.remove(place)
        else {
            return false;
        };
        if self.tx.messages.notices.promise(tag) {
            let lines = self.lines_of(payload.len());
            self.tx.append_notice(Notice::Beyond { tag, lines });
        }
        match payload.offer(|payload| self.transmit_counted(tag, payload, 0, submitted, shared)) {
            Ok(spare) => {
                self.tx.messages.notices.passed(place);
                shared.counters.beyond_window.increment();
                matcher.has_left(send, spare);
                true
            }
            Err(payload) => {
                let waiting = WaitingSend { send, tag, payload, submitted };
                self.tx.messages.waiting.insert(place, waiting);
                false
            }
        }
    }
}

impl<S: LaneSender> SendHalf<S> {
    /// Writes a notice into the open record, which has room for a descriptor.
    fn append_notice(&mut self, notice: Notice) {
        let (selector, call, lines) = notice.to_wire();
        let payload = u64::from(lines).to_le_bytes();
        let payload = &payload[..if lines == 0 { 0 } else { WORD_BYTES }];
        let length = payload.len() as u32;
        let header = EntryHeader { kind: EntryKind::MessageCredit, call, selector, length };
        let has_room = self.put_brief(header.to_word(), payload);
        debug_assert!(has_room, "`make_room` was asked");
    }
}
