//! Sending to one peer: packets into the slots that it posted.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use farcall_driver::{Copier, LONG_COPY_BYTES};

use super::hello::Hello;
use super::layout::SlotMemory;
use crate::flags::BadFlag;
use crate::handshake::Accepted;
use crate::ring::wake_sleeper;
use crate::stamps::{stamp, stamped};

/// The sending end of a connection.
#[derive(Debug)]
pub struct Outlet {
    memory: SlotMemory,
    /// The number of the next packet.
    sent: u64,
    copier: Copier,
    /// The peer's wake-up descriptor, if it may sleep at all.
    doorbell: Option<Arc<OwnedFd>>,
}

impl Outlet {
    /// The sending end in what a peer offered, with long packets copied past the caches as
    /// [`ShmDatagramConfig::past_caches`](super::ShmDatagramConfig::past_caches) says; `None` when the peer's memory is smaller
    /// than it says.
    pub fn new(peer: &Accepted, hello: &Hello, past_caches: Option<bool>) -> Option<Self> {
        let memory = SlotMemory::new(Arc::clone(&peer.ring), hello.layout)?;
        let copier = Copier::new(past_caches);
        Some(Self { memory, sent: 0, copier, doorbell: peer.doorbell.clone() })
    }

    /// The longest packet that the peer takes, in bytes.
    #[inline]
    pub fn mtu_bytes(&self) -> usize {
        self.memory.layout.mtu_bytes
    }

    /// Whether the peer has a slot for the next packet. It keeps it until the packet is written.
    pub fn has_slot(&self) -> bool {
        matches!(self.next_slot(), Ok(Some(_)))
    }

    /// Writes a packet of `length` bytes in all, if the peer has a slot for it; says whether.
    ///
    /// # Panics
    /// When the parts are longer than `length`, or that is over the MTU.
    #[inline]
    pub fn send(&mut self, parts: &[&[u8]], length: usize) -> Result<bool, BadFlag> {
        assert!(length <= self.mtu_bytes(), "a packet fits a slot");
        let Some(slot) = self.next_slot()? else { return Ok(false) };
        // SAFETY: the slot has room for a packet of the MTU, which is at least `length`, in a mapping that lives as long as
        // `self`. A correct peer has posted it and does not touch it before it is stamped; a hostile one can change
        // what we write, which only spoils its own input, since nothing here is read back.
        let packet = unsafe { core::slice::from_raw_parts_mut(self.memory.packet(slot).as_ptr(), length) };
        let mut rest = packet;
        for part in parts {
            let (here, after) = rest.split_at_mut(part.len());
            if part.len() >= LONG_COPY_BYTES {
                self.copier.copy(here, part);
            } else {
                here.copy_from_slice(part);
            }
            rest = after;
        }
        stamp(&self.memory, self.memory.layout.slot_at(slot), self.sent, length as u16);
        self.sent += 1;
        Ok(true)
    }

    /// Makes sure that a peer which went to sleep sees what was sent.
    #[inline]
    pub fn ring_doorbell(&self) {
        if let Some(doorbell) = &self.doorbell {
            wake_sleeper(&self.memory.mapping, doorbell);
        }
    }

    /// The slot for the next packet. All slots are free at first, in their order.
    #[inline]
    fn next_slot(&self) -> Result<Option<usize>, BadFlag> {
        let layout = &self.memory.layout;
        if self.sent < layout.slots as u64 {
            return Ok(Some(self.sent as usize));
        }
        match stamped(&self.memory, layout.post_at(self.sent), self.sent)? {
            Some(slot) if usize::from(slot) < layout.slots => Ok(Some(usize::from(slot))),
            Some(_) => Err(BadFlag),
            None => Ok(None),
        }
    }
}
