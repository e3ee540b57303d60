//! Learning of room between two polls.
//!
//! Who sends more in a turn than there was room for at its beginning would have to let the rest wait, which
//! costs a copy of each message and more, though the peer may have read everything meanwhile. So what the
//! peer says of room is read as soon as it is missed, up to the first record with anything else in it.

use farcall_driver::{LaneDriver, LaneReceiver, Record};
use farcall_protocol::ring::{BatchHeader, EntryHeader, EntryKind, Violation, WORD_BYTES, padded};

use super::Ring;
use super::deliver::{descriptor, overrun};
use super::receive::CUT_SHORT;
use super::session::reason_of;
use crate::DownReason;

/// Bytes of a record that only reports room, in most cases; what is read at first.
const ROOM_BYTES: usize = 64;

impl<D: LaneDriver> Ring<D> {
    /// Reads what the peer has published last, as far as it only reports room; false when there was nothing
    /// of that. While a record of this peer is being read, its receiver is not here, and nothing is learned.
    ///
    /// It ends: the peer has to be told, too, that its records were read before it can publish more than a
    /// ring of them.
    #[inline(never)]
    pub(super) fn learn_of_room(&mut self, slot: usize) -> bool {
        let Some(reader) = self.readers.get_mut(slot).and_then(Option::take) else { return false };
        let learned = self.take_room(slot, &reader.receiver);
        self.readers[slot] = Some(reader);
        learned.unwrap_or_else(|reason| {
            self.close_later(slot, reason);
            false
        })
    }

    fn take_room(&mut self, slot: usize, receiver: &D::Receiver) -> Result<bool, DownReason> {
        let mut learned = false;
        while self.sessions[slot].reading.is_none() {
            let offset = self.sessions[slot].consumer.offset();
            if !receiver.may_have_record(offset) {
                break;
            }
            match receiver.peek(offset, 0..ROOM_BYTES).map_err(reason_of)? {
                Some(record) if only_reports_room(record)? => self.take_room_of(slot, record)?,
                _ => break,
            }
            learned = true;
        }
        Ok(learned)
    }

    /// The peer could change the record after it was looked at; then it is refused here.
    fn take_room_of(&mut self, slot: usize, record: Record<'_>) -> Result<(), DownReason> {
        self.counters.records_received.increment();
        let Some(entries) = self.open_record_of_peer(slot, record)? else { return Ok(()) };
        let mut at = WORD_BYTES;
        for _ in 0..entries {
            let entry = EntryHeader::from_word(record.word(at).ok_or(CUT_SHORT)?)?;
            self.apply_returned(slot, entry, record, at + WORD_BYTES)?;
            at += WORD_BYTES + padded(entry.length as usize);
        }
        self.close_record_of_peer(slot, record)
    }

    /// Takes an entry that reports room.
    pub(super) fn apply_returned(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        record: Record<'_>,
        at: usize,
    ) -> Result<(), DownReason> {
        let session = &mut self.sessions[slot];
        match entry.kind {
            EntryKind::BlockReturn => {
                let block = descriptor(entry, record, at)?;
                let lent = session.lent_blocks.checked_sub(1);
                session.lent_blocks = lent.ok_or(Violation("more blocks given back than were lent"))?;
                self.driver.take_back(session.lane, block).map_err(reason_of)
            }
            EntryKind::MessageCredit => session.mail.send_window.credit(entry.call).map_err(overrun),
            _ => Err(Violation("a record that changed after it was published").into()),
        }
    }
}

fn only_reports_room(record: Record<'_>) -> Result<bool, Violation> {
    let header = BatchHeader::from_word(record.word(0).ok_or(CUT_SHORT)?)?;
    let mut at = WORD_BYTES;
    for _ in 0..header.entries {
        let entry = EntryHeader::from_word(record.word(at).ok_or(CUT_SHORT)?)?;
        if !entry.kind.reports_room() {
            return Ok(false);
        }
        at += WORD_BYTES + padded(entry.length as usize);
    }
    Ok(true)
}
