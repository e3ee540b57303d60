//! Packets to peers whose connection is not up yet.
//!
//! They wait in a place that the driver shares with its conductor: the thread that brings a connection up writes them
//! into the peer's memory itself, because the driver's owner has already been told that they are on their way and may
//! not look at the driver again before there is an answer.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use farcall_driver::LaneId;

use super::hello::Hello;
use super::outlet::Outlet;
use crate::conductor::Greeter;
use crate::handshake::Accepted;

/// The connections that were called and not yet taken over by the driver.
#[derive(Debug)]
pub struct EarlyPackets {
    /// As [`ShmDatagramConfig::past_caches`](super::ShmDatagramConfig::past_caches).
    past_caches: Option<bool>,
    calls: Mutex<BTreeMap<LaneId, Early>>,
    /// Packets that have left and that the driver still counts as waiting. Counted before the peer can see them: once a
    /// packet has arrived, there is room for another.
    departed: AtomicUsize,
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
    /// For connections whose long packets are copied past the caches, or not, or where that is faster.
    pub fn new(past_caches: Option<bool>) -> Self {
        Self { past_caches, calls: Mutex::default(), departed: AtomicUsize::new(0) }
    }

    /// A connection was asked for.
    pub fn open(&self, lane: LaneId) {
        self.lock().insert(lane, Early::default());
    }

    /// Keeps a packet for when the connection is up.
    pub fn keep(&self, lane: LaneId, packet: Vec<u8>) {
        let mut calls = self.lock();
        let early = calls.get_mut(&lane).expect("a connection that was asked for and not taken over");
        early.waiting.push_back(packet);
        early.send_waiting(&self.departed);
    }

    /// How many packets have left that the driver still counts as waiting.
    pub fn departed(&self) -> usize {
        self.departed.load(Ordering::Acquire)
    }

    /// What the driver takes over, because the connection is up or will never be, and how many of the `kept` packets
    /// that it counts as waiting have left.
    pub fn take(&self, lane: LaneId, kept: usize) -> (Early, usize) {
        let early = self.lock().remove(&lane).unwrap_or_default();
        let departed = kept - early.waiting.len();
        self.departed.fetch_sub(departed, Ordering::AcqRel);
        (early, departed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LaneId, Early>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Greeter for EarlyPackets {
    fn connected(&self, lane: LaneId, peer: &Accepted) {
        if let Some(early) = self.lock().get_mut(&lane) {
            let hello = Hello::decode(&peer.hello);
            early.outlet = hello.and_then(|hello| Outlet::new(peer, &hello, self.past_caches));
            early.send_waiting(&self.departed);
        }
    }
}

impl Early {
    /// Sends what the peer has slots for. A peer that breaks the rules gets nothing; the driver finds that out itself.
    fn send_waiting(&mut self, departed: &AtomicUsize) {
        let Some(outlet) = &mut self.outlet else { return };
        while outlet.has_slot() {
            let Some(packet) = self.waiting.pop_front() else { break };
            departed.fetch_add(1, Ordering::Release);
            if packet.len() > outlet.mtu_bytes() {
                self.sent.too_long += 1;
            } else if outlet.send(&[&packet], packet.len()) == Ok(true) {
                self.sent.packets += 1;
                self.sent.bytes += packet.len() as u64;
            }
        }
        outlet.ring_doorbell();
    }
}
