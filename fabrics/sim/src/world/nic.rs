//! A machine's network card: stages that each take one packet at a time, in order.
//!
//! Because every stage is first come, first served and takes a known time, a packet's way through the card
//! needs no events: each stage remembers when it will be free. All servers of a machine share its card.

use super::sources::Sources;
use crate::profile::Profile;
use crate::time::{PerByte, Picos};

/// Something that takes one packet at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Stage {
    free_at: Picos,
    usage: StageUsage,
}

/// What a part of a card has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageUsage {
    /// How long it has been at work.
    pub busy: Picos,
    /// How long packets have waited for it, all together.
    pub waited: Picos,
    /// How many packets it has passed.
    pub packets: u64,
}

impl Stage {
    /// Takes a packet that is there at `at` for `span`; returns when it is done with it.
    #[inline]
    fn pass(&mut self, at: Picos, span: Picos) -> Picos {
        self.usage.waited += self.free_at - at;
        self.free_at = self.free_at.max(at) + span;
        self.usage.busy += span;
        self.usage.packets += 1;
        self.free_at
    }
}

/// A network card.
#[derive(Debug)]
pub struct Nic {
    memory_reads: Stage,
    /// How long its requests for memory have occupied PCIe, which is part of the reads.
    read_requests: Picos,
    sending: Stage,
    link: Stage,
    receiving: Stage,
    receive_path: Stage,
    memory_writes: Stage,
    /// Bytes that have arrived and are not in memory yet.
    receiving_bytes: usize,
    sources: Option<Sources>,
}

/// What each part of a card has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicUsage {
    /// Reading packets from memory.
    pub memory_reads: StageUsage,
    /// The requests of these reads, without their data.
    pub read_requests: Picos,
    /// The sending engine.
    pub sending: StageUsage,
    /// The link to the switch.
    pub link: StageUsage,
    /// The receiving engine.
    pub receiving: StageUsage,
    /// The receive path that servers share, where the profile has one.
    pub receive_path: StageUsage,
    /// Writing packets to memory.
    pub memory_writes: StageUsage,
}

impl Nic {
    /// The card of a machine among `hosts` hosts.
    pub fn new(profile: &Profile, hosts: usize) -> Self {
        let stage = Stage::default();
        Self {
            memory_reads: stage,
            read_requests: Picos::ZERO,
            sending: stage,
            link: stage,
            receiving: stage,
            receive_path: stage,
            memory_writes: stage,
            receiving_bytes: 0,
            sources: profile.receive_path.map(|path| Sources::new(hosts, path.source_window)),
        }
    }

    /// A packet of `length` bytes is asked for at `at`; returns when it is ready for the link.
    #[inline]
    pub fn fetch(&mut self, profile: &Profile, length: usize, at: Picos) -> Picos {
        let nic = &profile.nic;
        let there = if length <= nic.inline_bytes {
            at
        } else {
            let requests = nic.dma_read.times(length.div_ceil(nic.dma_read_bytes) as u64);
            self.read_requests += requests;
            self.memory_reads.pass(at, requests + nic.pcie.time(length)) + nic.pcie_round_trip
        };
        self.sending.pass(there, nic.transmit_packet)
    }

    /// Puts `bytes` bytes on the link to the switch; returns when the last bit leaves.
    #[inline]
    pub fn transmit(&mut self, rate: PerByte, bytes: usize, at: Picos) -> Picos {
        self.link.pass(at, rate.time(bytes))
    }

    /// A packet of `source` has arrived; returns when it is in memory, or `None` when it finds no room.
    #[inline]
    pub fn receive(
        &mut self,
        profile: &Profile,
        source: u32,
        length: usize,
        lossless: bool,
        at: Picos,
    ) -> Option<Picos> {
        let nic = &profile.nic;
        if self.receiving_bytes + length > nic.receive_buffer_bytes && !lossless {
            return None;
        }
        self.receiving_bytes += length;
        let mut done = self.receiving.pass(at, nic.receive_packet);
        if let (Some(path), Some(sources)) = (&profile.receive_path, &mut self.sources) {
            let alone = path.rate.time(length);
            let others = sources.heard(source, at);
            let slowdown = 1.0 + path.slowdown_per_source * f64::from(others);
            done = self.receive_path.pass(done, Picos((alone.0 as f64 * slowdown) as u64));
        }
        Some(self.memory_writes.pass(done, nic.pcie.time(length)) + Picos(nic.pcie_round_trip.0 / 2))
    }

    /// A packet of `length` bytes is in memory.
    #[inline]
    pub fn received(&mut self, length: usize) {
        self.receiving_bytes -= length;
    }

    /// How long each part has been at work.
    pub fn usage(&self) -> NicUsage {
        NicUsage {
            memory_reads: self.memory_reads.usage,
            read_requests: self.read_requests,
            sending: self.sending.usage,
            link: self.link.usage,
            receiving: self.receiving.usage,
            receive_path: self.receive_path.usage,
            memory_writes: self.memory_writes.usage,
        }
    }
}
