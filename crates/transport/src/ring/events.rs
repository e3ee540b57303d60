//! Sessions that come up, and sessions that end.

use farcall_driver::{LaneDriver, LaneEvent, LaneId};
use farcall_protocol::ring::Hello;

use super::Ring;
use super::session::{Reader, reason_of};
use crate::patience::Patience;
use crate::{DownReason, Sink};

/// How often a ring is looked at for what a peer published before it went: more records than a ring of the default size
/// holds, and a bound on what a peer can do that only says so.
const LAST_LOOKS_MAX: usize = 4096;

impl<D: LaneDriver> Ring<D> {
    /// Learns which sessions came up and which ended.
    #[inline(always)]
    pub(super) fn take_events(&mut self, sink: &mut dyn Sink) {
        if let Some(first) = self.driver.poll_event() {
            self.take_first_and_others(first, sink);
        }
    }

    #[cold]
    fn take_first_and_others(&mut self, first: LaneEvent, sink: &mut dyn Sink) {
        let mut next = Some(first);
        while let Some(event) = next {
            self.take_event(event, sink);
            next = self.driver.poll_event();
        }
    }

    fn take_event(&mut self, event: LaneEvent, sink: &mut dyn Sink) {
        match event {
            LaneEvent::Connected { lane, welcome } => {
                if let Some(slot) = self.slot_of_lane(lane) {
                    self.connected(slot, &welcome, sink);
                }
            }
            LaneEvent::Accepted { lane, hello } => self.accepted(lane, &hello, sink),
            LaneEvent::Down { lane, fault } => {
                if let Some(slot) = self.slot_of_lane(lane) {
                    self.read_last_records(slot, sink);
                    self.session_down(slot, &reason_of(fault), sink);
                }
            }
        }
    }

    /// Reads what a peer published before it went: answers that it has given are given.
    fn read_last_records(&mut self, slot: usize, sink: &mut dyn Sink) {
        if self.readers.len() <= slot {
            return;
        }
        for _ in 0..LAST_LOOKS_MAX {
            if self.is_doomed(slot) || self.receive(slot, Patience::Never, sink) == 0 {
                return;
            }
        }
    }

    /// A session that we asked for. When its lane is down already, that event follows and says why.
    fn connected(&mut self, slot: usize, welcome: &[u8], sink: &mut dyn Sink) {
        let lane = self.sessions[slot].lane;
        match Hello::decode(welcome) {
            Ok(peer) => {
                if let Some(ends) = self.driver.take(lane) {
                    self.session_up(slot, ends, &peer, sink);
                }
            }
            Err(error) => {
                self.driver.close(lane);
                self.session_down(slot, &DownReason::Refused { why: error.to_string() }, sink);
            }
        }
    }

    /// A session that a peer asked for. Nobody is told of one that never comes up.
    fn accepted(&mut self, lane: LaneId, hello: &[u8], sink: &mut dyn Sink) {
        let Some((peer, ends)) = Hello::decode(hello).ok().zip(self.driver.take(lane)) else {
            return self.driver.close(lane);
        };
        match self.open_session(lane) {
            Some(slot) => self.session_up(slot, ends, &peer, sink),
            None => self.driver.close(lane),
        }
    }

    fn session_up(
        &mut self,
        slot: usize,
        (sender, receiver): (D::Sender, D::Receiver),
        peer: &Hello,
        sink: &mut dyn Sink,
    ) {
        let readers = &mut self.readers;
        if readers.len() <= slot {
            readers.resize_with(slot + 1, || None);
        }
        let ring_bytes = self.driver.limits().ring_bytes;
        let unanswered = self.sessions[slot].unanswered_calls.clone();
        readers[slot] = Some(Box::new(Reader { receiver, unanswered }));
        self.begin_session(slot, sender, ring_bytes, peer);
        let session = self.sessions[slot].id;
        sink.session_up(self, session, peer.identity);
        if !self.is_doomed(slot) {
            self.send_backlog(slot);
        }
    }

    fn session_down(&mut self, slot: usize, reason: &DownReason, sink: &mut dyn Sink) {
        let session = self.sessions[slot].id;
        if let Some(reader) = self.readers.get_mut(slot) {
            *reader = None;
        }
        self.part(slot, reason);
        self.forget_session(slot);
        self.report_sends(sink);
        sink.session_down(self, session, reason);
    }

    /// Ends the sessions whose peers broke the rules, or that were closed here.
    #[cold]
    pub(super) fn end_doomed_sessions(&mut self, sink: &mut dyn Sink) {
        while let Some((slot, reason)) = self.next_doomed() {
            self.close_lane(slot);
            self.session_down(slot, &reason, sink);
        }
    }
}
