//! Everything that sending needs: the driver and the sessions, and the reading ends, where room is looked for.
//!
//! What the seam promises of it is in `outbox.rs`, how a message gets into a record in `messages.rs`, how records get into
//! the ring in `records.rs`, and what is done when there is no room in `room.rs`.

use farcall_driver::{LaneDriver, LaneId, LaneSender, RUNWAY_BYTES};
use farcall_protocol::matching::{self, ReceiveWindow, SendWindow, Source};
use farcall_protocol::ring::{Consumer, Hello, Producer};

use super::ahead::Ahead;
use super::session::{Reader, SESSIONS_MAX, Session, Stage, slot_of};
use super::{RingConfig, RingCounters};
use crate::mail::Mail;
use crate::trace::CallTracer;
use crate::unclaimed::Unclaimed;
use crate::{DownReason, SessionId};

/// Calls over the lanes of one driver.
pub struct Ring<D: LaneDriver> {
    /// Before the driver, so that writing ends go before their lanes are closed: see [`LaneDriver::close`].
    pub(super) sessions: Vec<Session<D::Sender>>,
    /// The reading ends, by session slot. One whose record is being read is not here: as a pointer, because each is taken out and put
    /// back for every record.
    pub(super) readers: Vec<Option<Box<Reader<D::Receiver>>>>,
    pub(super) driver: D,
    pub(super) hello: Hello,
    pub(super) config: RingConfig,
    pub(super) counters: RingCounters,
    /// The slots of sessions with an open record.
    pub(super) dirty: Vec<u16>,
    /// Sessions to be ended at the end of the poll.
    doomed: Vec<(usize, DownReason)>,
    /// Sessions that have a backlog or borrowed blocks, so that flushing must look after them.
    pub(super) needy: usize,
    /// Bytes in the blocks that were taken in since the last look at a peer began.
    pub(super) block_bytes_read: u64,
    pub(super) ahead: Ahead,
    pub(super) mail: Mail,
    /// The session that a receive was posted for last, which is there: most receives are for the same. Nothing when a message was left
    /// since, which the next receive may be for.
    pub(super) receives_from: Option<SessionId>,
    /// What the last record was left for, and the slot of its session.
    pub(super) unclaimed: Unclaimed<u16>,
    pub(super) tracer: CallTracer,
}

impl<D: LaneDriver> Ring<D> {
    pub(super) fn over(driver: D, hello: Hello, config: RingConfig, counters: RingCounters) -> Self {
        Self {
            sessions: Vec::new(),
            readers: Vec::new(),
            driver,
            hello,
            config,
            counters,
            dirty: Vec::new(),
            doomed: Vec::new(),
            needy: 0,
            block_bytes_read: 0,
            ahead: Ahead::default(),
            mail: Mail::new(hello.identity.incarnation),
            receives_from: None,
            unclaimed: Unclaimed::default(),
            tracer: CallTracer::default(),
        }
    }

    /// A slot for the session of a new lane; `None` when all are taken.
    pub(super) fn open_session(&mut self, lane: LaneId) -> Option<usize> {
        let vacant = self.sessions.iter().position(|session| session.stage == Stage::Vacant);
        let slot = vacant.unwrap_or(self.sessions.len());
        if slot == SESSIONS_MAX {
            return None;
        }
        if slot == self.sessions.len() {
            self.sessions.push(Session::vacant(slot));
        }
        let session = &mut self.sessions[slot];
        session.lane = lane;
        session.stage = Stage::Opening;
        session.calls_max = self.config.calls_max;
        session.message_bytes_max = self.config.message_bytes_max;
        Some(slot)
    }

    /// The lane is there: from now on messages flow, within the limits of both sides.
    pub(super) fn begin_session(
        &mut self,
        slot: usize,
        sender: D::Sender,
        receive_ring_bytes: usize,
        peer: &Hello,
    ) {
        let (message_bytes_max, calls_max) = self.hello.limits_with(peer);
        let session = &mut self.sessions[slot];
        let ring_bytes = sender.ring_bytes() as u64;
        let message_bytes_max = usize::try_from(message_bytes_max).unwrap_or(usize::MAX);
        let (of_calls, of_messages) = self.config.inline_bytes_in(sender.ring_bytes());
        session.inline_bytes = of_calls.min(message_bytes_max);
        // A message that is longer than the window would wait for ever; as a block it counts as an empty one.
        let window = matching::message_bytes_max(peer.unexpected_lines);
        session.message_inline_bytes = of_messages.min(message_bytes_max).min(window);
        session.producer = Producer::new(ring_bytes, RUNWAY_BYTES as u64);
        session.consumer = Consumer::new(receive_ring_bytes as u64);
        session.message_bytes_max = message_bytes_max;
        session.calls_max = calls_max as usize;
        session.mail.source = Source::new(peer.identity.rank, peer.identity.endpoint);
        session.mail.send_window = SendWindow::new(peer.unexpected_lines);
        session.mail.receive_window = ReceiveWindow::new(self.hello.unexpected_lines);
        session.sender = Some(sender);
        session.stage = Stage::Up;
        let (bytes_max, calls_max) = (session.message_bytes_max, session.calls_max);
        let calls = session.backlog.iter().map(|waiting| waiting.payload.len());
        let sends = session.mail.sends.iter().map(|waiting| waiting.payload.len());
        if calls.chain(sends).any(|bytes| bytes > bytes_max) {
            let why = format!("a message that waited for it is over its limit of {bytes_max} bytes");
            self.doom(slot, DownReason::Refused { why });
        } else if session.unanswered_calls.get() > calls_max {
            let why = format!("more calls waited for it than its limit of {calls_max}");
            self.doom(slot, DownReason::Refused { why });
        }
    }

    /// Closes the lane of a session that is about to be forgotten.
    pub(super) fn close_lane(&mut self, slot: usize) {
        let session = &mut self.sessions[slot];
        session.sender = None;
        self.driver.close(session.lane);
    }

    pub(super) fn forget_session(&mut self, slot: usize) {
        let last = self.sessions[slot].id;
        self.sessions[slot] = Session::vacant_again(slot, last);
        self.receives_from = None;
        self.dirty.retain(|&dirty| usize::from(dirty) != slot);
        self.doomed.retain(|doomed| doomed.0 != slot);
    }

    pub(super) fn slot_of(&self, session: SessionId) -> Option<usize> {
        let slot = slot_of(session);
        // Nobody has been told the number of a vacant slot yet.
        (self.sessions.get(slot)?.id == session).then_some(slot)
    }

    pub(super) fn slot_of_lane(&self, lane: LaneId) -> Option<usize> {
        self.sessions.iter().position(|session| session.stage != Stage::Vacant && session.lane == lane)
    }

    /// Marks a session for its end; the reason given first counts.
    pub(super) fn doom(&mut self, slot: usize, reason: DownReason) {
        if !self.is_doomed(slot) {
            // What was to leave next does not.
            self.tracer.share(None);
            self.counters.violations.add(u64::from(matches!(reason, DownReason::Violation { .. })));
            self.doomed.push((slot, reason));
        }
    }

    pub(super) fn is_doomed(&self, slot: usize) -> bool {
        self.doomed.iter().any(|doomed| doomed.0 == slot)
    }

    #[inline]
    pub(super) fn any_doomed(&self) -> bool {
        !self.doomed.is_empty()
    }

    pub(super) fn next_doomed(&mut self) -> Option<(usize, DownReason)> {
        self.doomed.pop()
    }
}
