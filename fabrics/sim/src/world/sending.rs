//! What drivers do: send, flush, receive. All of it happens at the host's own time and costs it.

use std::os::fd::RawFd;

use farcall_driver::{Destination, SendError, SendQueueFull};

use super::packets::{Cargo, NONE, Packet};
use super::{Work, World};
use crate::bell::Bell;
use crate::queue::Event;
use crate::time::Picos;

/// A packet that its host takes over.
pub struct Received {
    /// The sender.
    pub source: Destination,
    /// The payload and what is left of its buffer.
    pub bytes: Box<[u8]>,
    /// Bytes of payload.
    pub length: u32,
}

impl World {
    /// Whether a driver of that life of a host still has any effect.
    #[inline]
    pub fn is_current(&self, host: u32, incarnation: u32) -> bool {
        let state = self.host(host);
        state.up && state.incarnation == incarnation
    }

    /// The processor of a host is at work.
    #[inline]
    pub fn spend(&mut self, host: u32, work: Work, span: Picos) {
        let state = &mut self.hosts[host as usize];
        state.catch_up(self.now);
        state.spend(work, span);
    }

    /// How many packets the send queue has room for.
    #[inline]
    pub fn send_room(&mut self, host: u32) -> usize {
        let state = &mut self.hosts[host as usize];
        state.catch_up(self.now);
        state.reap(self.profile.nic.send_queue_packets);
        self.profile.nic.send_queue_packets - state.send_places
    }

    /// Puts a packet into the send queue.
    #[inline]
    pub fn send(
        &mut self,
        host: u32,
        to: Destination,
        priority: u8,
        parts: &[&[u8]],
    ) -> Result<(), SendError> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        let mtu_bytes = self.profile.nic.mtu_bytes;
        if bytes > mtu_bytes {
            return Err(SendError::TooLong { bytes, mtu_bytes });
        }
        if self.send_room(host) == 0 {
            self.hosts[host as usize].usage.send_queue_full += 1;
            return Err(SendQueueFull.into());
        }
        let packet = Packet {
            source: host,
            destination: to.0,
            priority: priority.min(super::PRIORITIES as u8 - 1),
            length: bytes as u32,
            bytes: self.packets.buffers().filled(bytes, parts),
            cargo: Cargo::Datagram,
            spread: Picos::ZERO,
            next: NONE,
        };
        self.enqueue(host, packet);
        self.totals.packets_sent += 1;
        Ok(())
    }

    /// Puts a packet for which there is room into the send queue, at the processor's expense.
    fn enqueue(&mut self, host: u32, packet: Packet) {
        let (costs, nic) = (&self.profile.host, &self.profile.nic);
        let bytes = packet.length as usize;
        let state = &mut self.hosts[host as usize];
        state.spend(Work::MakePackets, costs.send_packet);
        state.spend(Work::CopyOut, costs.send_byte.time(bytes));
        state.spend(Work::Descriptors, nic.descriptor);
        state.usage.packets_sent += 1;
        state.usage.bytes_sent += bytes as u64;
        state.send_places += 1;
        if state.send_places == nic.send_queue_packets {
            state.full_at = state.local();
        }
        state.gathered += 1;
        let number = self.packets.insert(packet);
        self.hosts[host as usize].queued.push_back(number);
    }

    /// Rings the doorbell for all packets that were gathered.
    #[inline]
    pub fn flush(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        let count = core::mem::take(&mut state.gathered);
        if count > 0 {
            state.catch_up(self.now);
            state.spend(Work::Doorbells, self.profile.nic.doorbell);
            let at = state.local() + Picos(self.profile.nic.pcie_round_trip.0 / 2);
            self.queue.schedule(at, Event::Doorbell { host, incarnation: state.incarnation, count });
        }
    }

    /// Takes the next packet that is in the host's memory.
    #[inline]
    pub fn receive(&mut self, host: u32) -> Option<Received> {
        let state = &mut self.hosts[host as usize];
        let packet = self.packets.remove(state.inbox.pop_front()?);
        if let Some(bell) = state.bell.as_ref().filter(|_| state.inbox.is_empty()) {
            bell.silence();
        }
        let costs = &self.profile.host;
        let bytes = packet.length as usize;
        state.catch_up(self.now);
        state.unread.leave(state.local());
        state.spend(Work::TakePackets, costs.receive_packet);
        state.spend(Work::CopyIn, costs.receive_byte.time(bytes));
        Some(Received { source: Destination(packet.source), bytes: packet.bytes, length: packet.length })
    }

    /// The descriptor that rings when something arrives for a host; there is one from the first call on.
    pub fn bell(&mut self, host: u32) -> std::io::Result<RawFd> {
        let state = &mut self.hosts[host as usize];
        if state.bell.is_none() {
            state.bell = Some(Bell::new()?);
        }
        let bell = state.bell.as_ref().map(Bell::descriptor);
        Ok(bell.expect("it was just made"))
    }

    /// All that waited for a host have seen what there was.
    pub fn silence_bell(&mut self, host: u32) {
        if let Some(bell) = &self.hosts[host as usize].bell {
            bell.silence();
        }
    }

    /// From now on only the first `bytes` bytes of each packet are carried.
    pub fn carry_at_most(&mut self, bytes: usize) {
        self.packets.buffers().carry_at_most(bytes);
    }

    /// Takes the memory of received packets back.
    pub fn keep_buffers(&mut self, buffers: impl Iterator<Item = Box<[u8]>>) {
        buffers.for_each(|buffer| self.packets.buffers().keep(buffer));
    }

    /// The memory of a received packet will never come back.
    pub fn forget_buffer(&mut self, bytes: usize) {
        self.packets.buffers().forget(bytes);
    }
}
