//! Entries into the open record.
//!
//! Most payloads are a word or two. Written in place, without the call of a function that copies, they leave their callers
//! nothing to come back to, so that these keep no registers.

use farcall_driver::{LaneSender, RECORD_HEADER_BYTES};
use farcall_protocol::ring::{WORD_BYTES, padded};

use super::session::Session;

/// Payloads from this on may go to their place at once, if the driver knows that this is faster.
const LONG_BYTES_MIN: usize = 512;

/// Payloads up to this are copied in place: two words.
pub const BRIEF_BYTES: usize = 2 * WORD_BYTES;

impl<S: LaneSender> Session<S> {
    /// Whether a call or an answer with this payload goes into records, and none waits that must go before it.
    #[inline(always)]
    pub fn may_append(&self, payload: &[u8]) -> bool {
        payload.len() <= self.inline_bytes && self.backlog.is_empty()
    }

    /// Writes an entry into the open record; false when none is open, or it has no room.
    #[inline(always)]
    pub fn append(&mut self, header: u64, payload: &[u8]) -> bool {
        self.append_as::<false>(header, payload)
    }

    /// As [`Session::append`], without the call of a function that copies; false also when the payload is too long for that.
    #[inline(always)]
    pub fn append_brief(&mut self, header: u64, payload: &[u8]) -> bool {
        payload.len() <= BRIEF_BYTES && self.append_as::<true>(header, payload)
    }

    #[inline(always)]
    fn append_as<const IS_BRIEF: bool>(&mut self, header: u64, payload: &[u8]) -> bool {
        let batch = &mut self.batch;
        let end = batch.used + WORD_BYTES + padded(payload.len());
        if end > batch.room {
            return false;
        }
        let sender = self.sender.as_mut().expect("sessions with an open record are up");
        // No further than it is filled now: one bound less than of all that it may hold.
        let record = sender.record(batch.offset, end);
        let at = batch.used - RECORD_HEADER_BYTES;
        let (word, place) =
            record[at..].split_first_chunk_mut::<WORD_BYTES>().expect("it begins with its header");
        *word = header.to_le_bytes();
        if IS_BRIEF {
            copy_brief(place, payload);
        } else if payload.len() < LONG_BYTES_MIN {
            place[..payload.len()].copy_from_slice(payload);
        } else {
            sender.write_payload(batch.offset, at + WORD_BYTES, payload);
        }
        batch.used = end;
        batch.entries += 1;
        true
    }
}

/// Copies up to [`BRIEF_BYTES`] to a place of as many whole words: two pieces that are the same, or overlap, or meet.
#[inline(always)]
fn copy_brief(place: &mut [u8], payload: &[u8]) {
    match payload.len() {
        0 => {}
        1..4 => {
            for at in [0, payload.len() / 2, payload.len() - 1] {
                place[at] = payload[at];
            }
        }
        4..8 => copy_ends::<4>(place, payload),
        _ => copy_ends::<8>(place, payload),
    }
}

/// Copies the first `N` bytes and the last.
#[inline(always)]
fn copy_ends<const N: usize>(place: &mut [u8], payload: &[u8]) {
    let place = &mut place[..payload.len()];
    let (Some(first), Some(last)) = (payload.first_chunk::<N>(), payload.last_chunk::<N>()) else { return };
    place[..N].copy_from_slice(first);
    place[payload.len() - N..].copy_from_slice(last);
}
