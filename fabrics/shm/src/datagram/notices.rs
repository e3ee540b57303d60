//! The life of connections: called, accepted, up, and gone.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use farcall_driver::{Destination, LaneFault, LaneId};

use super::ShmDatagram;
use super::connection::{Connection, Stage};
use super::early::Early;
use super::hello::Hello;
use super::inlet::Inlet;
use super::outlet::Outlet;
use super::peers::Route;
use crate::conductor::{Command, Established, Notice};

/// How long packets to a peer are dropped after its connection failed, before the next one is tried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A connection that we asked for and that is not up yet.
#[derive(Debug)]
pub(super) struct Call {
    pub to: Destination,
    /// Packets of our queue that wait for it.
    pub kept: usize,
}

impl ShmDatagram {
    /// Learns what the conductor did. Costs one load when that is nothing.
    #[inline]
    pub(super) fn take_notices(&mut self) {
        while let Some(notice) = self.conductor.take_notice() {
            self.take_notice(notice);
        }
    }

    /// Asks for a connection to a peer that is known.
    pub(super) fn call(&mut self, to: Destination) -> LaneId {
        let lane = self.conductor.shared().new_lane();
        let peer = self.peers.get(to).expect("a known peer");
        peer.route = Route::Calling(lane);
        let (name, hello, within) = (peer.name.clone(), self.hello.clone(), self.config.connect_within);
        self.calls.insert(lane, Call { to, kept: 0 });
        self.early.open(lane);
        self.conductor.command(Command::Connect { lane, name, hello, within });
        lane
    }

    /// Ends a connection whose peer broke the rules.
    #[cold]
    pub(super) fn break_off(&mut self, index: usize) {
        let connection = self.connections.at(index);
        connection.stage = Stage::Broken;
        let lane = connection.lane;
        self.counters.connections_corrupt.increment();
        self.conductor.command(Command::Close(lane));
        self.let_go(index, Route::Failed { retry_at: Instant::now() + RETRY_AFTER });
    }

    /// Removes a connection from which nothing more will come, unless packets of it are still out.
    pub(super) fn remove_if_done(&mut self, index: usize) {
        if self.connections.at(index).inlet.is_lending() {
            return;
        }
        let peer = self.connections.remove(index).peer;
        if self.connections.iter().all(|(_, connection)| connection.peer != peer) {
            self.peers.forget_stranger(peer);
        }
    }

    #[cold]
    fn take_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Connected(lane, established) => self.call_answered(lane, established),
            Notice::Accepted(lane, established) => self.accept(lane, established),
            Notice::Down(lane, fault) => match self.connections.of_lane(lane) {
                Some(index) => self.down(index),
                None => self.call_failed(lane, &fault),
            },
            // We lend nothing.
            Notice::Released(_) => {}
        }
    }

    fn call_answered(&mut self, lane: LaneId, established: Established) {
        let Some(call) = self.calls.remove(&lane) else { return };
        let Early { waiting, outlet, .. } = self.take_early(lane, call.kept);
        match outlet {
            Some(outlet) => self.add(lane, call.to, established, outlet, waiting),
            None => {
                self.queued -= waiting.len();
                self.give_up(
                    call.to,
                    lane,
                    waiting.len(),
                    Route::Failed { retry_at: Instant::now() + RETRY_AFTER },
                );
                self.refuse(lane);
            }
        }
    }

    fn accept(&mut self, lane: LaneId, established: Established) {
        let hello = Hello::decode(&established.peer.hello);
        let past_caches = self.config.past_caches;
        let outlet = hello.as_ref().and_then(|hello| Outlet::new(&established.peer, hello, past_caches));
        let (Some(hello), Some(outlet)) = (hello, outlet) else { return self.refuse(lane) };
        let peer = self.peers.learn(&hello.name);
        self.add(lane, peer, established, outlet, VecDeque::new());
    }

    fn add(
        &mut self,
        lane: LaneId,
        peer: Destination,
        established: Established,
        outlet: Outlet,
        waiting: VecDeque<Vec<u8>>,
    ) {
        let is_blocked = !waiting.is_empty();
        let index = self.connections.add(Connection {
            lane,
            peer,
            stage: Stage::Up,
            inlet: Inlet::new(established.ring, self.layout),
            outlet: Some(outlet),
            waiting,
            bell_due: false,
            full_since: None,
            stalled: false,
            link: Some(established.link),
        });
        let Some(index) = index else { return self.refuse(lane) };
        self.counters.connections_up.increment();
        if is_blocked {
            self.blocked.push(index);
        }
        if let Some(peer) = self.peers.get(peer)
            && !matches!(peer.route, Route::Up(_))
        {
            peer.route = Route::Up(index);
        }
    }

    fn refuse(&mut self, lane: LaneId) {
        self.counters.connections_corrupt.increment();
        self.conductor.command(Command::Close(lane));
    }

    /// A connection that was up has ended. What the peer sent before is still received.
    fn down(&mut self, index: usize) {
        let connection = self.connections.at(index);
        if connection.stage == Stage::Up {
            connection.stage = Stage::Draining;
            self.let_go(index, Route::Idle);
        }
    }

    /// Ends the sending side of a connection; its peer's next route is another connection or else `route`.
    fn let_go(&mut self, index: usize, route: Route) {
        let connection = self.connections.at(index);
        (connection.outlet, connection.link) = (None, None);
        let lost = core::mem::take(&mut connection.waiting).len();
        self.queued -= lost;
        self.counters.dropped_gone.add(lost as u64);
        self.counters.connections_down.increment();
        let to = connection.peer;
        let mut others = self.connections.iter();
        let other = others.find(|(_, other)| other.peer == to && other.stage == Stage::Up);
        let route = other.map_or(route, |(index, _)| Route::Up(index));
        if let Some(peer) = self.peers.get(to)
            && peer.route == Route::Up(index)
        {
            peer.route = route;
        }
    }

    fn call_failed(&mut self, lane: LaneId, fault: &LaneFault) {
        let Some(call) = self.calls.remove(&lane) else { return };
        let lost = self.take_early(lane, call.kept).waiting.len();
        let route = match fault {
            LaneFault::NotThere => Route::Gone,
            _ => Route::Failed { retry_at: Instant::now() + RETRY_AFTER },
        };
        self.queued -= lost;
        self.give_up(call.to, lane, lost, route);
    }

    /// Takes over what the conductor has not sent, and counts what it has.
    fn take_early(&mut self, lane: LaneId, kept: usize) -> Early {
        let (early, departed) = self.early.take(lane, kept);
        self.queued -= departed;
        self.counters.packets_sent.add(early.sent.packets);
        self.counters.bytes_sent.add(early.sent.bytes);
        self.counters.dropped_too_long.add(early.sent.too_long);
        early
    }

    /// What was to go over a call is lost.
    fn give_up(&mut self, to: Destination, lane: LaneId, lost: usize, route: Route) {
        self.counters.connections_down.increment();
        self.counters.dropped_gone.add(lost as u64);
        if let Some(peer) = self.peers.get(to)
            && peer.route == Route::Calling(lane)
        {
            peer.route = route;
        }
    }
}
