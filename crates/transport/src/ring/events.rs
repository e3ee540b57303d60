//! Sessions that come up, and sessions that end.

use farcall_driver::{LaneDriver, LaneEvent, LaneId, LaneReceiver};
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
        if let Some(first) = self.outbound.driver.poll_event() {
            self.take_first_and_others(first, sink);
        }
    }

    #[cold]
    fn take_first_and_others(&mut self, first: LaneEvent, sink: &mut dyn Sink) {
        let mut next = Some(first);
        while let Some(event) = next {
            self.take_event(event, sink);
            next = self.outbound.driver.poll_event();
        }
    }

    fn take_event(&mut self, event: LaneEvent, sink: &mut dyn Sink) {
        match event {
            LaneEvent::Connected { lane, welcome } => {
                if let Some(slot) = self.outbound.slot_of_lane(lane) {
                    self.connected(slot, &welcome, sink);
                }
            }
            LaneEvent::Accepted { lane, hello } => self.accepted(lane, &hello, sink),
            LaneEvent::Down { lane, fault } => {
                if let Some(slot) = self.outbound.slot_of_lane(lane) {
                    self.read_last_records(slot, sink);
                    self.session_down(slot, &reason_of(fault), sink);
                }
            }
        }
    }

    /// Reads what a peer published before it went: answers that it has given are given.
    fn read_last_records(&mut self, slot: usize, sink: &mut dyn Sink) {
        if self.outbound.readers.len() <= slot {
            return;
        }
        for _ in 0..LAST_LOOKS_MAX {
            if self.outbound.is_doomed(slot) || self.outbound.receive(slot, Patience::Never, sink) == 0 {
                return;
            }
        }
    }

    /// A session that we asked for. When its lane is down already, that event follows and says why.
    fn connected(&mut self, slot: usize, welcome: &[u8], sink: &mut dyn Sink) {
        let lane = self.outbound.sessions[slot].lane;
        match Hello::decode(welcome) {
            Ok(peer) => {
                if let Some(ends) = self.outbound.driver.take(lane) {
                    self.session_up(slot, ends, &peer, sink);
                }
            }
            Err(error) => {
                self.outbound.driver.close(lane);
                self.session_down(slot, &DownReason::Refused { why: error.to_string() }, sink);
            }
        }
    }

    /// A session that a peer asked for. Nobody is told of one that never comes up.
    fn accepted(&mut self, lane: LaneId, hello: &[u8], sink: &mut dyn Sink) {
        let Some((peer, ends)) = Hello::decode(hello).ok().zip(self.outbound.driver.take(lane)) else {
            return self.outbound.driver.close(lane);
        };
        match self.outbound.open_session(lane) {
            Some(slot) => self.session_up(slot, ends, &peer, sink),
            None => self.outbound.driver.close(lane),
        }
    }

    fn session_up(
        &mut self,
        slot: usize,
        (sender, receiver): (D::Sender, D::Receiver),
        peer: &Hello,
        sink: &mut dyn Sink,
    ) {
        let readers = &mut self.outbound.readers;
        if readers.len() <= slot {
            readers.resize_with(slot + 1, || None);
        }
        let ring_bytes = receiver.ring_bytes();
        let unanswered = self.outbound.sessions[slot].unanswered_calls.clone();
        readers[slot] = Some(Box::new(Reader { receiver, unanswered }));
        self.outbound.session_up(slot, sender, ring_bytes, peer);
        let session = self.outbound.sessions[slot].id;
        sink.session_up(&mut self.outbound, session, peer.identity);
        if !self.outbound.is_doomed(slot) {
            self.outbound.send_backlog(slot);
        }
    }

    fn session_down(&mut self, slot: usize, reason: &DownReason, sink: &mut dyn Sink) {
        let session = self.outbound.sessions[slot].id;
        if let Some(reader) = self.outbound.readers.get_mut(slot) {
            *reader = None;
        }
        self.outbound.part(slot, reason);
        self.outbound.forget_session(slot);
        self.outbound.report_sends(sink);
        sink.session_down(&mut self.outbound, session, reason);
    }

    /// Ends the sessions whose peers broke the rules, or that were closed here.
    #[cold]
    pub(super) fn end_doomed_sessions(&mut self, sink: &mut dyn Sink) {
        while let Some((slot, reason)) = self.outbound.next_doomed() {
            self.outbound.close(slot);
            self.session_down(slot, &reason, sink);
        }
    }
}
