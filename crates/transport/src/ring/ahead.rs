//! What can be done for the next message while there is nothing else to do, as far as the lane knows something.

use farcall_driver::LaneDriver;

use super::Ring;

/// The next message of some session, expected to be as long as the last.
#[derive(Debug, Default)]
pub struct Ahead {
    /// Whether [`Ring::prepare_ahead`] has something to do. The only word of this that short messages look at.
    pub is_due: bool,
    slot: usize,
    /// Bytes of its record; 0 when nothing is left to do for that.
    record_bytes: usize,
}

impl Ahead {
    /// Expects another record of `record_bytes` bytes, which is longer than lanes prepare by themselves; or, with 0,
    /// another block.
    #[cold]
    pub fn expect(&mut self, slot: usize, record_bytes: usize) {
        *self = Self { is_due: true, slot, record_bytes };
    }
}

impl<D: LaneDriver> Ring<D> {
    /// Prepares a part of what is expected; called when there is nothing else to do. A record is forgotten when its
    /// place is not free: it is long, and a sender of so much has no time to prepare.
    #[cold]
    pub(super) fn prepare_ahead(&mut self) {
        let Ahead { is_due, slot, record_bytes } = &mut self.ahead;
        *is_due = false;
        // The slot may have another session by now, with a smaller ring.
        let Some(session) = self.sessions.get_mut(*slot) else { return };
        if *record_bytes > 0 && session.producer.reserve_at_once(*record_bytes as u64).is_none() {
            *record_bytes = 0;
        }
        if let Some(sender) = &mut session.sender {
            *is_due = self.driver.prepare(sender, *record_bytes);
        }
    }
}
