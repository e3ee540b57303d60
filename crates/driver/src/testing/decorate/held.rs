//! Copies of packets that a faulty fabric keeps back for a while.
//!
//! Unless a packet has a time to leave, its time is counted in events: in packets sent after this one and in
//! turns (calls of flush or receive). The same calls then always give the same order.

use farcall_base::Instant;

use crate::Destination;

/// The most packets that are kept back at a time; further ones pass without delay.
pub const HELD_PACKETS_MAX: usize = 256;

/// A packet that is kept back.
pub struct Held {
    pub to: Destination,
    pub priority: u8,
    pub bytes: Vec<u8>,
    /// Packets that may still overtake it.
    pub sends_left: u32,
    /// Turns after which it leaves even if nothing overtakes it.
    pub turns_left: u32,
    /// When it leaves whatever else happens.
    pub leaves_at: Instant,
}

/// The packets that are kept back, in the order of sending, and buffers for more.
#[derive(Default)]
pub struct HeldPackets {
    held: Vec<Held>,
    /// Buffers of packets that have left. Never more than were held at a time.
    spare: Vec<Vec<u8>>,
}

impl HeldPackets {
    /// Whether another packet can be kept back.
    pub fn has_room(&self) -> bool {
        self.held.len() < HELD_PACKETS_MAX
    }

    /// How many packets are kept back.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// A buffer to copy a packet to.
    pub fn buffer(&mut self) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes
    }

    /// Keeps a packet back.
    pub fn hold(&mut self, packet: Held) {
        debug_assert!(self.has_room());
        self.held.push(packet);
    }

    /// A packet was sent.
    pub fn count_send(&mut self) {
        self.held.iter_mut().for_each(|packet| packet.sends_left = packet.sends_left.saturating_sub(1));
    }

    /// The caller flushed or received.
    pub fn count_turn(&mut self) {
        self.held.iter_mut().for_each(|packet| packet.turns_left = packet.turns_left.saturating_sub(1));
    }

    /// When the next packet leaves by time; `None` when none does.
    pub fn next_leave(&self) -> Option<Instant> {
        self.held.iter().map(|packet| packet.leaves_at).min().filter(|at| *at < Instant::NEVER)
    }

    /// Offers each packet that is due to `leave`, which says whether it left.
    pub fn release_due(&mut self, now: Instant, mut leave: impl FnMut(&Held) -> bool) {
        let due = |packet: &Held| packet.sends_left == 0 || packet.turns_left == 0 || packet.leaves_at <= now;
        let mut index = 0;
        while index < self.held.len() {
            if due(&self.held[index]) && leave(&self.held[index]) {
                self.spare.push(self.held.remove(index).bytes);
            } else {
                index += 1;
            }
        }
    }
}
