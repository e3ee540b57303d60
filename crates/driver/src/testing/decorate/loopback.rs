//! A driver that receives what it sends, for the decorators' own tests.

use core::ptr::NonNull;
use std::collections::VecDeque;
use std::os::fd::RawFd;

use crate::{Datagram, DatagramLimits, Destination, Packet, SendError, SendQueueFull, Wait};
use farcall_base::{Address, AddressError, Instant};

/// What a loopback's packets can be.
const MTU_BYTES: usize = 1000;
const BURST_PACKETS: usize = 16;

/// Sends to itself only; every packet arrives, in order, after a flush.
pub struct Loopback {
    room: usize,
    queued: Vec<Vec<u8>>,
    flushed: VecDeque<Vec<u8>>,
    lent: Vec<Option<Box<[u8]>>>,
}

impl Loopback {
    /// A loopback that queues `room` packets until they are flushed.
    pub fn with_room(room: usize) -> Self {
        Self { room, queued: Vec::new(), flushed: VecDeque::new(), lent: Vec::new() }
    }
}

/// Receives everything that has arrived at `driver`, as bytes.
pub fn drain(driver: &mut impl Datagram) -> Vec<Vec<u8>> {
    let (mut packets, mut bytes) = (Vec::new(), Vec::new());
    while driver.receive(&mut packets) > 0 {
        for packet in packets.drain(..) {
            bytes.push(packet.to_vec());
            driver.release(packet);
        }
    }
    bytes
}

impl Datagram for Loopback {
    fn name(&self) -> &'static str {
        "loopback"
    }

    fn limits(&self) -> DatagramLimits {
        DatagramLimits {
            mtu_bytes: MTU_BYTES,
            priorities: 8,
            burst_packets: BURST_PACKETS,
            checks_packets: false,
        }
    }

    fn address(&self) -> Address {
        Address::new(*b"self").expect("short")
    }

    /// There is only one.
    fn keep_peer(&mut self, _peer: Destination, _keep: bool) {}

    fn host_of(&self, _peer: Destination) -> Option<u64> {
        None
    }

    fn resolve(&mut self, address: &Address) -> Result<Destination, AddressError> {
        if address.as_bytes() == b"self" {
            Ok(Destination(0))
        } else {
            Err(AddressError::WrongKind { driver: "loopback" })
        }
    }

    fn send(&mut self, _to: Destination, _priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        let packet = parts.concat();
        if packet.len() > MTU_BYTES {
            return Err(SendError::TooLong { bytes: packet.len(), mtu_bytes: MTU_BYTES });
        }
        if self.send_room() == 0 {
            return Err(SendQueueFull.into());
        }
        self.queued.push(packet);
        Ok(())
    }

    fn send_room(&self) -> usize {
        self.room - self.queued.len()
    }

    fn flush(&mut self) {
        self.flushed.extend(self.queued.drain(..));
    }

    fn is_backed_up(&self) -> bool {
        !self.queued.is_empty()
    }

    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        let count = self.flushed.len().min(BURST_PACKETS);
        for bytes in self.flushed.drain(..count) {
            let slot = self.lent.len() as u32;
            let bytes = bytes.into_boxed_slice();
            let (pointer, length) = (NonNull::from(&*bytes).cast(), bytes.len() as u32);
            self.lent.push(Some(bytes));
            // SAFETY: the bytes stay in `lent`, unchanged, until the packet is released; see also `drop`.
            #[expect(unsafe_code, reason = "the loan of a driver's memory is what packets are for")]
            packets.push(unsafe { Packet::from_raw(pointer, length, Destination(0), slot) });
        }
        count
    }

    fn release(&mut self, packet: Packet) {
        self.lent[packet.slot() as usize] = None;
    }

    fn next_unreachable(&mut self) -> Option<Destination> {
        None
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

impl Wait for Loopback {
    fn prepare_wait(&mut self) {}

    fn finish_wait(&mut self) {}

    fn wait_descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        // Packets that are still out stay readable.
        self.lent.drain(..).flatten().for_each(core::mem::forget);
    }
}
