//! The datagram driver: packets from and to one host of a simulated fabric.

use core::ptr::NonNull;
use std::os::fd::RawFd;

use farcall_base::{Address, AddressError, Instant};
use farcall_driver::{Datagram, DatagramLimits, Destination, Packet, SendError, Wait};

use crate::fabric::Fabric;
use crate::host::{Host, NAME, host_at};
use crate::world::{PRIORITIES, Received};

/// Packets over a simulated fabric. What it sends and receives costs its host the time that the profile says.
///
/// A driver of a host that has crashed does nothing any more: what is sent with it disappears.
pub struct SimDatagram {
    host: Host,
    limits: DatagramLimits,
    lent: Lent,
    /// Memory of packets that came back, to be used again.
    returned: Vec<Box<[u8]>>,
}

impl SimDatagram {
    pub(crate) fn new(host: Host) -> Self {
        let profile = host.fabric().profile();
        let limits = DatagramLimits {
            mtu_bytes: profile.nic.mtu_bytes,
            priorities: PRIORITIES as u8,
            burst_packets: profile.host.burst_packets,
            checks_packets: false,
        };
        Self { host, limits, lent: Lent::default(), returned: Vec::new() }
    }

    /// The host that it is on.
    pub fn host(&self) -> &Host {
        &self.host
    }

    fn fabric(&self) -> &Fabric {
        self.host.fabric()
    }
}

impl Datagram for SimDatagram {
    fn name(&self) -> &'static str {
        NAME
    }

    fn limits(&self) -> DatagramLimits {
        self.limits
    }

    fn address(&self) -> Address {
        self.host.address()
    }

    /// All hosts of a simulation are known.
    fn keep_peer(&mut self, _peer: Destination, _keep: bool) {}

    fn host_of(&self, peer: Destination) -> Option<u64> {
        Some(u64::from(peer.0))
    }

    fn resolve(&mut self, address: &Address) -> Result<Destination, AddressError> {
        host_at(address, self.fabric().host_count()).map(Destination)
    }

    fn send(&mut self, to: Destination, priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        let mut world = self.host.fabric().lock();
        if !world.is_current(self.host.id(), self.host.incarnation()) {
            return Ok(());
        }
        world.send(self.host.id(), to, priority, parts)
    }

    fn send_room(&self) -> usize {
        self.fabric().lock().send_room(self.host.id())
    }

    fn flush(&mut self) {
        let mut world = self.host.fabric().lock();
        if world.is_current(self.host.id(), self.host.incarnation()) {
            world.flush(self.host.id());
        }
    }

    /// The simulated card takes what was queued, and sends it as its link becomes free.
    fn is_backed_up(&self) -> bool {
        false
    }

    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        let mut world = self.host.fabric().lock();
        world.keep_buffers(self.returned.drain(..));
        if !world.is_current(self.host.id(), self.host.incarnation()) {
            return 0;
        }
        let before = packets.len();
        while packets.len() - before < self.limits.burst_packets {
            let Some(received) = world.receive(self.host.id()) else { break };
            packets.push(self.lent.lend(received));
        }
        packets.len() - before
    }

    fn release(&mut self, packet: Packet) {
        self.returned.push(self.lent.take_back(packet.slot()));
    }

    fn next_unreachable(&mut self) -> Option<Destination> {
        None
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

impl Wait for SimDatagram {
    fn prepare_wait(&mut self) {}

    fn finish_wait(&mut self) {}

    fn wait_descriptors(&self) -> Vec<RawFd> {
        vec![self.host.bell()]
    }
}

impl Drop for SimDatagram {
    fn drop(&mut self) {
        let mut world = self.host.fabric().lock();
        world.keep_buffers(self.returned.drain(..));
        self.lent.lengths().for_each(|bytes| world.forget_buffer(bytes));
    }
}

/// The memory of packets that are out, by slot. What is still out when the driver goes stays readable for ever.
#[derive(Default)]
struct Lent {
    slots: Vec<Option<NonNull<[u8]>>>,
    vacant: Vec<u32>,
}

// SAFETY: the pointers own their memory as boxes would; meanwhile packets only read it.
#[expect(unsafe_code, reason = "the loan of a driver's memory is what packets are for")]
unsafe impl Send for Lent {}

impl Lent {
    fn lend(&mut self, received: Received) -> Packet {
        let Received { source, bytes, length } = received;
        assert!(length as usize <= bytes.len(), "a packet lies within its buffer");
        let memory = NonNull::from(Box::leak(bytes));
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(memory);
        // SAFETY: the buffer is initialised and at least `length` bytes long. It is leaked until `take_back` makes a box
        // of it again, which the slot allows once, when the packet is given up.
        #[expect(unsafe_code, reason = "the loan of a driver's memory is what packets are for")]
        unsafe {
            Packet::from_raw(memory.cast(), length, source, slot)
        }
    }

    fn take_back(&mut self, slot: u32) -> Box<[u8]> {
        let memory = self.slots.get_mut(slot as usize).and_then(Option::take);
        let memory = memory.expect("a packet goes back to the driver that lent it, once");
        self.vacant.push(slot);
        // SAFETY: the pointer came from `Box::leak` in `lend`, and was taken out of its slot, so it is used once. The
        // packet that read it has been given up.
        #[expect(unsafe_code, reason = "the loan of a driver's memory is what packets are for")]
        unsafe {
            Box::from_raw(memory.as_ptr())
        }
    }

    /// The lengths of all buffers that are out.
    fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        self.slots.iter().flatten().map(|memory| memory.len())
    }
}
