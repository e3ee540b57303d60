//! Room: credits and blocks, given and returned, and what is prepared while there is nothing else to do.
//!
//! A sender of more in a poll than there was room for at its beginning would have to let the rest wait, which
//! costs a copy of each message and more, though the peer may have read everything meanwhile. So what the
//! peer says of room is read as soon as it is missed, up to the first record with anything else in it.
//!
//! Long payloads are copied into blocks. How their bytes are copied is the driver's business.

use farcall_base::Instant;
use farcall_driver::{
    BlockDescriptor, LaneDriver, LaneReceiver, LaneSender, Loan, LoanError, Record, RecordKind,
};
use farcall_protocol::matching::Overrun;
use farcall_protocol::ring::{BatchHeader, EntryHeader, EntryKind, Violation, WORD_BYTES, padded};

use super::entry::DESCRIPTOR_BYTES;
use super::session::{Session, Shared, Stage, reason_of, slot_of};
use crate::DownReason;

pub const CUT_SHORT: Violation = Violation("a record with less in it than its header says");

/// Bytes of a record that only reports room, in most cases; what is read at first.
const ROOM_BYTES: usize = 64;

/// After this many bytes were lent it is looked for what came back: a part of what a core's own cache holds.
const LENT_UNSEEN_BYTES_MAX: usize = 256 << 10;

/// The most that is lent to a peer that reads more slowly than we write, before we wait for it a moment.
const LENT_AHEAD_BYTES_MAX: usize = 1 << 20;

/// That moment, in looks for what came back: ten microseconds or some more, as long as the processor's pause
/// is. In these a peer that reads gives back a block.
const LOOKS_MAX: usize = 512;

impl<D: LaneDriver> Session<D> {
    /// Reads what the peer has published last, as far as it only reports room; false when there was nothing
    /// of that. While a record of this peer is being read, its receiver is not here, and nothing is learned.
    ///
    /// It ends: the peer has to be told, too, that its records were read before it can publish more than a
    /// ring of them.
    #[cold]
    pub fn learn_of_room(&mut self, shared: &mut Shared<D>) -> bool {
        let Some(reader) = self.rx.reader.take() else { return false };
        let learned = self.take_room(&reader.receiver, shared);
        self.rx.reader = Some(reader);
        learned.unwrap_or_else(|reason| {
            shared.close_later(slot_of(self.id), reason);
            false
        })
    }

    fn take_room(&mut self, receiver: &D::Receiver, shared: &mut Shared<D>) -> Result<bool, DownReason> {
        let mut learned = false;
        while self.rx.reading.is_none() {
            let offset = self.rx.consumer.offset();
            if !receiver.may_have_record(offset) {
                break;
            }
            match receiver.peek(offset, 0..ROOM_BYTES).map_err(reason_of)? {
                Some(record) if only_reports_room(record)? => self.take_room_of(record, shared)?,
                _ => break,
            }
            learned = true;
        }
        Ok(learned)
    }

    /// The peer could change the record after it was looked at; then it is refused here.
    fn take_room_of(&mut self, record: Record<'_>, shared: &mut Shared<D>) -> Result<(), DownReason> {
        shared.counters.records_received.increment();
        let Some(entries) = self.open_record_of_peer(record)? else { return Ok(()) };
        let mut at = WORD_BYTES;
        for _ in 0..entries {
            let entry = EntryHeader::from_word(record.word(at).ok_or(CUT_SHORT)?)?;
            self.take_returned(entry, record, at + WORD_BYTES, shared)?;
            at += WORD_BYTES + padded(entry.length as usize);
        }
        Ok(self.rx.close_record(record)?)
    }

    /// Takes the header of a record, and the credit in it; gives the number of its entries, or `None` if it
    /// was a wrap, which ends with its header.
    #[inline]
    pub fn open_record_of_peer(&mut self, record: Record<'_>) -> Result<Option<u16>, DownReason> {
        let header = BatchHeader::from_word(record.word(0).ok_or(CUT_SHORT)?)?;
        self.tx.producer.credit(header.released_lines)?;
        if header.wrap {
            self.rx.consumer.advance_to_start()?;
            return Ok(None);
        }
        Ok(Some(header.entries))
    }

    /// Takes an entry that reports room.
    pub fn take_returned(
        &mut self,
        entry: EntryHeader,
        record: Record<'_>,
        at: usize,
        shared: &mut Shared<D>,
    ) -> Result<(), DownReason> {
        match entry.kind {
            EntryKind::BlockReturn => {
                let block = descriptor(entry, record, at)?;
                let lent = self.tx.lent_blocks.checked_sub(1);
                self.tx.lent_blocks = lent.ok_or(Violation("more blocks given back than were lent"))?;
                shared.driver.take_back(self.lane, block).map_err(reason_of)
            }
            EntryKind::MessageCredit if entry.selector != 0 => self.take_notice(entry, record, at, shared),
            EntryKind::MessageCredit => self.tx.messages.window.credit(entry.call).map_err(overrun),
            _ => Err(Violation("a record that changed after it was published").into()),
        }
    }

    /// Widens the peer's window when enough was consumed. Without room in the ring the need stays.
    #[inline]
    pub fn return_message_credit_if_due(&mut self, shared: &mut Shared<D>) {
        if self.rx.messages.window.credit_is_due() {
            self.return_message_credit(shared);
        }
    }

    #[cold]
    fn return_message_credit(&mut self, shared: &mut Shared<D>) {
        // The number of lines is taken when there is room for it.
        let header = |call| EntryHeader { kind: EntryKind::MessageCredit, call, selector: 0, length: 0 };
        if self.stage != Stage::Up || !self.make_room_for_descriptor(shared) {
            return shared.mark_blocked();
        }
        let consumed = self.rx.messages.window.take_credit();
        let has_room = self.append(header(consumed).to_word(), &[], shared);
        debug_assert!(has_room, "there was room for more");
    }

    /// Tells the peer which of its blocks are not read here any more.
    pub fn return_blocks(&mut self, shared: &mut Shared<D>) {
        while self.rx.borrowed_blocks > 0 {
            let due = self.rx.returning.take().or_else(|| shared.driver.due_return(self.lane));
            let Some(block) = due else { return };
            // Only now, or as long as a block is held each flush would open a record, and publish it empty.
            if !self.make_room_for_descriptor(shared) {
                self.rx.returning = Some(block);
                return;
            }
            let length = DESCRIPTOR_BYTES as u32;
            let header = EntryHeader { kind: EntryKind::BlockReturn, call: 0, selector: 0, length };
            self.append_descriptor(header.to_word(), block);
            self.rx.borrowed_blocks -= 1;
        }
    }

    /// Copies a payload into a block for it.
    pub fn fill(&mut self, loan: &mut Loan, payload: &[u8], shared: &mut Shared<D>) {
        // The last block may be on its way back.
        let is_awaited =
            self.unanswered_calls.get() + self.unanswered_requests <= 1 && self.tx.lent_blocks <= 1;
        let kind = if is_awaited { RecordKind::Conversation } else { RecordKind::Stream };
        let sender = self.tx.sender.as_mut().expect("sessions with room are up");
        sender.copy_payload(kind, loan, payload);
        shared.ahead.expect(slot_of(self.id), 0);
    }

    /// A block for a payload. Now and then, and when there is none, it is looked for what the peer has given
    /// back: what was read last is still in a cache, and fresh memory in none. To look costs a line that the
    /// peer may be about to write.
    pub fn block_for(&mut self, bytes: usize, shared: &mut Shared<D>) -> Result<Loan, LoanError> {
        self.tx.lent_unseen_bytes += bytes;
        if self.tx.lent_unseen_bytes >= LENT_UNSEEN_BYTES_MAX {
            self.tx.lent_unseen_bytes = 0;
            self.learn_of_room(shared);
        }
        self.let_peer_catch_up(bytes, shared);
        match shared.driver.loan(bytes) {
            Err(LoanError::Exhausted) if self.learn_of_room(shared) => shared.driver.loan(bytes),
            result => result,
        }
    }

    /// Waits a moment for a peer that has more to read than caches hold, if it reads at all: the further a
    /// sender is ahead, the colder is what both touch, and the slower the peer.
    fn let_peer_catch_up(&mut self, bytes: usize, shared: &mut Shared<D>) {
        // While a record of the peer is being read, nothing can be learned of it.
        if self.rx.reader.is_none() {
            return;
        }
        if self.tx.lent_blocks.saturating_mul(bytes) <= LENT_AHEAD_BYTES_MAX {
            self.tx.is_worth_waiting_for = true;
        } else if self.tx.is_worth_waiting_for {
            for _ in 0..LOOKS_MAX {
                if self.learn_of_room(shared) {
                    return;
                }
                core::hint::spin_loop();
            }
            self.tx.is_worth_waiting_for = false;
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

/// The block that an entry names.
pub fn descriptor(entry: EntryHeader, record: Record<'_>, at: usize) -> Result<BlockDescriptor, DownReason> {
    if entry.length as usize != DESCRIPTOR_BYTES {
        return Err(Violation("a block descriptor of the wrong length").into());
    }
    let offset = record.word(at).ok_or(CUT_SHORT)?;
    let length = record.word(at + WORD_BYTES).ok_or(CUT_SHORT)?;
    Ok(BlockDescriptor { offset, length })
}

/// The peer's count is not ours.
pub fn overrun(_: Overrun) -> DownReason {
    Violation("more messages, or more credit for them, than there can be").into()
}

/// What there is to do when nothing else is: preparing for the next message of some session, expected to be
/// as long as the last; and now and then a look at all sessions.
#[derive(Debug, Default)]
pub struct Ahead {
    /// When there is something to do: at time zero, which is now, if a message is expected. The only word of
    /// this that short messages look at.
    pub due_at: Instant,
    /// When the next look is due, and with which session it begins.
    pub look_at: Instant,
    pub looked: usize,
    /// The message's session.
    slot: usize,
    /// Bytes of its record; 0 when nothing is left to do for that.
    record_bytes: usize,
}

impl Ahead {
    /// Expects another record of `record_bytes` bytes, which is longer than lanes prepare by themselves; or,
    /// with 0, another block.
    #[cold]
    pub fn expect(&mut self, slot: usize, record_bytes: usize) {
        (self.due_at, self.slot, self.record_bytes) = (Instant::ZERO, slot, record_bytes);
    }
}

impl<D: LaneDriver> Shared<D> {
    /// Prepares a part of what is expected; called when there is nothing else to do. A record is forgotten
    /// when its place is not free: it is long, and a sender of so much has no time to prepare.
    pub fn prepare_ahead(&mut self, sessions: &mut [Session<D>]) {
        let Ahead { due_at, look_at, slot, record_bytes, .. } = &mut self.ahead;
        *due_at = *look_at;
        // The slot may have another session by now, with a smaller ring.
        let Some(tx) = sessions.get_mut(*slot).map(|session| &mut session.tx) else { return };
        if *record_bytes > 0 && tx.producer.reserve_at_once(*record_bytes as u64).is_none() {
            *record_bytes = 0;
        }
        if let Some(sender) = &mut tx.sender
            && self.driver.prepare(sender, *record_bytes)
        {
            *due_at = Instant::ZERO;
        }
    }
}
