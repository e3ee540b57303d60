//! The datagram driver: packets between UD queue pairs.

mod address;
mod life;
mod receiving;
mod route;
mod sending;
#[cfg(all(test, feature = "device-tests"))]
mod tests;

use core::fmt;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

use farcall_base::{Address, AddressError, Instant};
use farcall_driver::{
    CounterFile, Datagram, DatagramLimits, Destination, Packet, Peers, STRANGERS_MAX, SendError, Wait,
};

pub use address::NAME;
use address::{Place, address_of, parse};
use life::RECEIVES_PER_LOOK;
use receiving::{Arrival, Receiving};
use route::Route;
use sending::Sending;

use crate::config::VerbsDatagramConfig;
use crate::counters::VerbsDatagramCounters;
use crate::device::Device;
use crate::error::VerbsError;
use crate::events;
use crate::gid::Gid;
use crate::pair::{Depths, QueuePair};
use crate::queues::{AddressHandle, CompletionChannel, CompletionQueue};
use crate::sys;

/// Packets over one UD queue pair.
///
/// The order of the fields is that of their drops: the queue pair goes before the memory that it uses.
pub struct VerbsDatagram {
    pair: QueuePair,
    sending: Sending,
    receiving: Receiving,
    peers: Peers<Place, Route>,
    /// Handles of peers that have been replaced, each kept until all packets up to that one have left.
    retired: VecDeque<(u64, AddressHandle)>,
    channel: Arc<CompletionChannel>,
    /// The device does not let the queue pair be used any more: packets are lost, as on a network that is
    /// down.
    is_dead: bool,
    receives_until_look: u32,
    limits: DatagramLimits,
    counters: VerbsDatagramCounters,
    device: Arc<Device>,
}

impl VerbsDatagram {
    /// Opens a device and makes all memory and queues that the driver will ever need.
    pub fn open(config: &VerbsDatagramConfig) -> Result<Self, VerbsError> {
        let device = Device::open(&config.device, false)?;
        config.check(&device)?;
        events::listen(&device)?;
        let mtu_bytes = config.mtu_bytes.unwrap_or(device.port.mtu_bytes());
        let queue_packets = config.send_queue_packets;
        let channel = CompletionChannel::new(&device)?;
        let sends = CompletionQueue::new(&device, queue_packets, None)?;
        let receives = CompletionQueue::new(&device, config.receive_queue_packets, Some(&channel))?;
        let depths = Depths {
            send: queue_packets,
            receive: config.receive_queue_packets,
            inline_bytes: config.inline_bytes,
        };
        let pair = QueuePair::new(&device, sys::IBV_QPT_UD, depths, &sends, &receives, None)?;
        let bounds = [config.receive_buffers, config.receive_queue_packets, config.burst_packets];
        let receiving = Receiving::new(&device, receives, bounds, mtu_bytes, config.huge_pages)?;
        let signal_period = config.signal_period.min(queue_packets / 2).max(1);
        let bounds = sending::Bounds {
            queue_max: queue_packets,
            burst: config.burst_packets,
            signal_period,
            inline_bytes: pair.inline_bytes,
            mtu_bytes,
        };
        let sending = Sending::new(&device, sends, bounds, config.huge_pages)?;
        let burst_packets = config.burst_packets;
        // Every packet of InfiniBand and RoCE has an invariant CRC of 32 bits, from card to card.
        let limits = DatagramLimits { mtu_bytes, priorities: 1, burst_packets, checks_packets: true };
        let counters = VerbsDatagramCounters::new(CounterFile::process(), &format!("verbs {}", device.name));
        let (peers, retired) = (Peers::new(STRANGERS_MAX), VecDeque::new());
        let (is_dead, receives_until_look) = (false, RECEIVES_PER_LOOK);
        let mut this = Self {
            pair,
            sending,
            receiving,
            peers,
            retired,
            channel,
            is_dead,
            receives_until_look,
            limits,
            counters,
            device,
        };
        this.start()?;
        Ok(this)
    }

    /// What has happened so far.
    pub fn counters(&self) -> &VerbsDatagramCounters {
        &self.counters
    }

    /// How a place is known here: within an InfiniBand subnet by its local identifier, since packets name
    /// only that.
    fn canonical(&self, place: Place) -> Place {
        if self.device.is_global(place.gid) {
            Place { lid: 0, ..place }
        } else {
            Place { gid: Gid::default(), ..place }
        }
    }

    /// The number of the peer that sent a packet.
    #[inline]
    fn source(&mut self, place: Place) -> Destination {
        let place = self.canonical(place);
        let (source, replaced) = self.peers.source(place, || Route::to(place));
        if let Some(replaced) = replaced {
            self.retire(replaced);
        }
        source
    }

    #[cold]
    fn retire(&mut self, replaced: Route) {
        self.counters.peers_replaced.increment();
        let gone = self.sending.gone();
        while self.retired.front().is_some_and(|(last, _)| *last <= gone) {
            self.retired.pop_front();
        }
        if let Some(handle) = replaced.handle.into_inner() {
            self.retired.push_back((self.sending.queued(), handle));
        }
    }
}

impl Datagram for VerbsDatagram {
    fn name(&self) -> &'static str {
        NAME
    }

    fn limits(&self) -> DatagramLimits {
        self.limits
    }

    fn address(&self) -> Address {
        address_of(&self.device.port, self.pair.number())
    }

    fn keep_peer(&mut self, peer: Destination, keep: bool) {
        self.peers.keep(peer, keep);
    }

    /// The lower half of an identifier is the port's: of RoCE it has an IPv4 address, of InfiniBand a serial
    /// number.
    fn host_of(&self, peer: Destination) -> Option<u64> {
        self.peers.address(peer).map(|place| place.gid.interface())
    }

    fn resolve(&mut self, address: &Address) -> Result<Destination, AddressError> {
        let place = parse(address, &self.device.port)?;
        let place = self.canonical(place);
        let (to, replaced) = self.peers.resolve(place, || Route::to(place))?;
        if let Some(replaced) = replaced {
            self.retire(replaced);
        }
        // Without a way, packets to it are lost and counted. Looked for now, because it takes long.
        if let Some(route) = self.peers.way(to) {
            route.look(&self.device);
        }
        Ok(to)
    }

    #[inline]
    fn send(&mut self, to: Destination, _priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let mtu_bytes = self.limits.mtu_bytes;
        if bytes > mtu_bytes {
            return Err(SendError::TooLong { bytes, mtu_bytes });
        }
        let Some(route) = self.peers.way(to) else {
            self.counters.stale_destinations.increment();
            return Ok(());
        };
        let Some(way) = route.way(&self.device).filter(|_| !self.is_dead) else {
            self.counters.packets_unsendable.increment();
            return Ok(());
        };
        self.sending.push(way, parts, bytes).map_err(|full| {
            self.counters.queue_full.increment();
            full.into()
        })
    }

    #[inline]
    fn send_room(&self) -> usize {
        self.sending.room()
    }

    #[inline]
    fn flush(&mut self) {
        self.sending.flush(&self.pair, &self.counters);
    }

    /// A dead device takes nothing ever again.
    #[inline]
    fn is_backed_up(&self) -> bool {
        !self.is_dead && self.sending.is_backed_up()
    }

    #[inline]
    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        self.receives_until_look -= 1;
        if self.receives_until_look == 0 {
            self.take_device_events();
        }
        let before = packets.len();
        let mut bytes = 0;
        for index in 0..self.receiving.collect(&self.counters) {
            let Some(arrival) = self.receiving.arrival(index, &self.counters) else { continue };
            let (place, packet) = (place_of(&arrival), arrival.packet);
            bytes += packet.bytes();
            packets.push(packet.lend(self.source(place)));
        }
        let received = packets.len() - before;
        if received > 0 {
            self.counters.packets_received.add(received as u64);
            self.counters.bytes_received.add(bytes);
        }
        if self.is_dead {
            return received;
        }
        if self.receiving.has_failed() || self.sending.has_failed() {
            self.restart();
        }
        self.receiving.refill(&self.pair, &self.counters);
        received
    }

    #[inline]
    fn release(&mut self, packet: Packet) {
        self.receiving.put_back(packet.slot());
    }

    fn next_unreachable(&mut self) -> Option<Destination> {
        None
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

impl Wait for VerbsDatagram {
    fn prepare_wait(&mut self) {
        self.take_device_events();
        self.channel.drain();
        self.receiving.arm();
    }

    fn finish_wait(&mut self) {}

    fn wait_descriptors(&self) -> Vec<RawFd> {
        let mut descriptors = vec![self.channel.descriptor()];
        // That of a device that is gone is readable for ever.
        if !self.is_dead {
            descriptors.push(events::descriptor(&self.device));
        }
        descriptors
    }
}

impl fmt::Debug for VerbsDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerbsDatagram({:?})", self.address())
    }
}

/// Where a packet came from.
#[inline]
fn place_of(arrival: &Arrival<'_>) -> Place {
    let Arrival { completion, header, .. } = arrival;
    let gid =
        if completion.wc_flags & sys::IBV_WC_GRH != 0 { Gid::source_of(header) } else { Gid::default() };
    Place { gid, lid: completion.slid, number: completion.src_qp }
}
