//! Rings at rest: sessions that carry little give back the memory that they had for more.
//!
//! Now and then, when there is nothing else to do, each session is looked at. A writer that has written
//! little since the last look goes through the first pages of the peer's ring only, and gives the others
//! back: it alone knows which are free. For that it has to know what the peer has read, which a peer that
//! answers nothing would not say before it has read a great part of the ring; so a reader of little says it
//! at its own look.

use farcall_base::Instant;
use farcall_driver::{LaneDriver, LaneSender};

use super::Ring;
use super::session::{Session, Shared, Stage};

/// Sessions that are looked at in one poll: each may enter the kernel twice.
const LOOKED_AT_MAX: usize = 16;

impl<D: LaneDriver> Ring<D> {
    /// What is to be done ahead, and the look if it is due.
    #[cold]
    pub(super) fn use_idle_time(&mut self, now: Instant) {
        let is_message_expected = self.shared.ahead.due_at == Instant::ZERO;
        if now >= self.shared.ahead.look_at {
            let first = self.shared.ahead.looked.min(self.sessions.len());
            for session in self.sessions[first..].iter_mut().take(LOOKED_AT_MAX) {
                session.look_for_rest(&mut self.shared);
            }
            self.shared.ahead.looked = first + LOOKED_AT_MAX;
            if self.shared.ahead.looked >= self.sessions.len() {
                self.shared.ahead.looked = 0;
                self.shared.ahead.look_at = now + self.shared.config.rest_interval;
            }
        }
        self.shared.ahead.due_at = self.shared.ahead.look_at;
        if is_message_expected {
            self.shared.prepare_ahead(&mut self.sessions);
        }
    }
}

impl<D: LaneDriver> Session<D> {
    /// Lets the ring of a writer of little rest, and tells one of what has been read. Not while a record is
    /// open, which has its place already.
    fn look_for_rest(&mut self, shared: &mut Shared<D>) {
        if self.stage != Stage::Up || self.tx.record.is_open() {
            return;
        }
        // The place of a record was looked for in the lap that may end now.
        self.tx.place = None;
        if let Some(rest) = self.tx.producer.look()
            && let Some(sender) = &mut self.tx.sender
        {
            self.tx.ready_bytes = rest.used_bytes;
            sender.fit(rest.used_bytes, Some(rest.kept));
        }
        if self.rx.consumer.look() {
            self.return_credit(shared);
        }
    }

    /// Has the memory ready that a lap goes through, if it is longer than those before.
    pub fn make_lap_ready(&mut self) {
        let lap_bytes = self.tx.producer.lap_bytes();
        if lap_bytes > self.tx.ready_bytes {
            self.tx.ready_bytes = lap_bytes;
            if let Some(sender) = &mut self.tx.sender {
                sender.fit(lap_bytes, None);
            }
        }
    }
}
