//! Packets to peers whose connection is not up yet.
//!
//! They wait in a place that the driver shares with its conductor: the thread that brings a connection up writes them
//! into the peer's memory itself, because the driver's owner has already been told that they are on their way and may
//! not look at the driver again before there is an answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use farcall_driver::LaneId;

use super::hello::Hello;
use super::outlet::Outlet;
use crate::conductor::Greeter;
use crate::handshake::Accepted;

/// The connections that were called and not yet taken over by the driver.
#[derive(Debug, Default)]
pub struct EarlyPackets {
    calls: Mutex<BTreeMap<LaneId, Early>>,
}

/// One of them.
#[derive(Debug, Default)]
pub struct Early {
    /// Packets in the order of sending.
    pub waiting: VecDeque<Vec<u8>>,
    /// Once the peer has answered, if its hello is right.
    pub outlet: Option<Outlet>,
    /// Packets that have left since.
    pub sent: Sent,
}

/// What became of packets that waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets that the peer got.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets over the peer's MTU, which were dropped.
    pub too_long: u64,
}

impl EarlyPackets {
    /// A connection was asked for.
    pub fn open(&self, lane: LaneId) {
        self.lock().insert(lane, Early::default());
    }

    /// Keeps a packet for when the connection is up.
    pub fn keep(&self, lane: LaneId, packet: Vec<u8>) {
        let mut calls = self.lock();
        let early = calls.get_mut(&lane).expect("a connection that was asked for and not taken over");
        early.waiting.push_back(packet);
        early.send_waiting();
    }

    /// What the driver takes over, because the connection is up or will never be.
    pub fn take(&self, lane: LaneId) -> Early {
        self.lock().remove(&lane).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LaneId, Early>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Greeter for EarlyPackets {
    fn connected(&self, lane: LaneId, peer: &Accepted) {
        if let Some(early) = self.lock().get_mut(&lane) {
            early.outlet = Hello::decode(&peer.hello).and_then(|hello| Outlet::new(peer, &hello));
            early.send_waiting();
        }
    }
}

impl Early {
    /// Sends what the peer has slots for. A peer that breaks the rules gets nothing; the driver finds that out itself.
    fn send_waiting(&mut self) {
        let Some(outlet) = &mut self.outlet else { return };
        while let Some(packet) = self.waiting.front() {
            if packet.len() > outlet.mtu_bytes() {
                self.sent.too_long += 1;
            } else if outlet.send(&[packet], packet.len()) == Ok(true) {
                self.sent.packets += 1;
                self.sent.bytes += packet.len() as u64;
            } else {
                break;
            }
            self.waiting.pop_front();
        }
        outlet.ring_doorbell();
    }
}
