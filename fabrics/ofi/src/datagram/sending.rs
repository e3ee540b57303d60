//! Sending: packets are gathered into slots, wait for a flush, and go to the provider in order.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::libfabric::{Context, Endpoint, Posted};
use farcall_driver::SendQueueFull;

use crate::datagram::OfiDatagramCounters;

/// The token of a slot's operation: its number and this.
pub const SEND_TOKEN: u64 = 1 << 32;

struct Slot {
    /// The sender's address and the packet. Its capacity never changes.
    bytes: Vec<u8>,
    to: u64,
    context: Rc<Context>,
}

/// The sending half of a driver.
pub struct Sending {
    slots: Vec<Slot>,
    free: Vec<u32>,
    queued: VecDeque<u32>,
    inject_bytes: usize,
}

impl Sending {
    /// This many slots for packets of this many bytes, addresses included.
    pub fn new(slots: usize, packet_bytes: usize, inject_bytes: usize) -> Self {
        let slot = |number: u32| Slot {
            bytes: Vec::with_capacity(packet_bytes),
            to: 0,
            context: Rc::new(Context::new(SEND_TOKEN | u64::from(number))),
        };
        let numbers = 0..slots as u32;
        Self {
            slots: numbers.clone().map(slot).collect(),
            free: numbers.collect(),
            queued: VecDeque::with_capacity(slots),
            inject_bytes,
        }
    }

    /// How many packets can be queued.
    #[inline]
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Whether nothing is queued or with the provider.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Whether packets wait for the provider.
    #[inline]
    pub fn is_backed_up(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Queues a packet.
    #[inline]
    pub fn push(&mut self, to: u64, from: &[u8], parts: &[&[u8]]) -> Result<(), SendQueueFull> {
        let number = self.free.pop().ok_or(SendQueueFull)?;
        let slot = &mut self.slots[number as usize];
        slot.to = to;
        slot.bytes.clear();
        slot.bytes.extend_from_slice(from);
        parts.iter().for_each(|part| slot.bytes.extend_from_slice(part));
        self.queued.push_back(number);
        Ok(())
    }

    /// Gives queued packets to the provider, as many as it takes.
    #[inline]
    pub fn flush(&mut self, endpoint: &mut Endpoint, header_bytes: usize, counters: &OfiDatagramCounters) {
        while let Some(&number) = self.queued.front() {
            let slot = &self.slots[number as usize];
            let is_short = slot.bytes.len() <= self.inject_bytes;
            let posted = if is_short {
                endpoint.inject(&slot.bytes, slot.to)
            } else {
                // SAFETY: bytes and context are the slot's, and the slot is not free before `end`. The
                // endpoint is closed before the slots are dropped.
                #[expect(unsafe_code, reason = "the provider reads the memory later")]
                unsafe {
                    endpoint.send(&raw const slot.bytes[..], slot.to, &slot.context)
                }
            };
            match posted {
                Posted::Again => return counters.provider_full.increment(),
                Posted::Failed => counters.packets_unsendable.increment(),
                Posted::Taken => {
                    counters.packets_sent.increment();
                    counters.bytes_sent.add((slot.bytes.len() - header_bytes) as u64);
                    if is_short {
                        counters.packets_injected.increment();
                    }
                }
            }
            self.queued.pop_front();
            if is_short || posted == Posted::Failed {
                self.free.push(number);
            }
        }
    }

    /// The provider is done with a slot.
    #[inline]
    pub fn end(&mut self, number: u32) {
        self.free.push(number);
    }
}
