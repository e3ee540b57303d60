//! The packet driver: unreliable packets between the processes of one machine.
//!
//! Every pair of processes that talks has a connection, set up by the first packet. Each direction of it is a set of
//! slots in the receiver's memory: the sender copies a packet into a slot and stamps it; the receiver hands the slot out
//! as it is and posts it again when it comes back. Between a copy on one side and a look on the other there is no
//! system call, no lock and no allocation.

mod config;
mod connection;
mod counters;
mod early;
mod hello;
mod inlet;
mod layout;
mod notices;
mod outlet;
mod peers;
mod receiving;
mod sending;

use core::fmt;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use farcall_base::{Address, AddressError};
use farcall_driver::{
    BLOCK_BYTES_MIN, CounterFile, Datagram, DatagramLimits, Destination, LaneId, Packet, SendError,
};

pub use config::ShmDatagramConfig;
use connection::Connections;
pub use counters::ShmDatagramCounters;
use early::EarlyPackets;
use hello::Hello;
use layout::Layout;
use notices::Call;
use peers::Peers;

use crate::conductor::{Command, Conductor, Terms};
use crate::doorbell::Doorbell;
use crate::place;
use crate::segment::{PeerAccess, Segment};

/// The first byte of this driver's addresses; the rest is the abstract name of a Unix socket.
const ADDRESS_TAG: u8 = b'P';

/// The most packets that one receive hands out.
const BURST_PACKETS_MAX: usize = 64;

/// Packets to and from other processes of this machine and user.
pub struct ShmDatagram {
    config: ShmDatagramConfig,
    layout: Layout,
    burst_packets: usize,
    address: Address,
    /// What every peer is told, encoded.
    hello: Vec<u8>,
    conductor: Conductor,
    counters: ShmDatagramCounters,
    peers: Peers,
    connections: Connections,
    /// Where the last receive ended, among the live connections.
    next_place: usize,
    calls: BTreeMap<LaneId, Call>,
    early: Arc<EarlyPackets>,
    /// Packets that wait, anywhere.
    queued: usize,
    /// Whether the queue was full for the last packet that had to wait, since the last flush.
    has_refused: bool,
    /// Buffers of packets that have left; never more than waited at a time.
    spare: Vec<Vec<u8>>,
    /// Connections for whose slots packets wait.
    blocked: Vec<usize>,
    /// Connections whose peer must be woken, if it sleeps, by the next flush.
    bells_due: Vec<usize>,
}

impl ShmDatagram {
    /// Starts the driver and its listening thread.
    pub fn new(config: ShmDatagramConfig) -> io::Result<Self> {
        let layout = config.layout()?;
        let (listener, address) = place::listen_somewhere(ADDRESS_TAG)?;
        let name = place::name_in(&address, ADDRESS_TAG).map_err(io::Error::other)?;
        let hello = Hello { layout, name: name.to_vec() }.encode();
        // Packets are copied, so there is nothing to lend; but every connection begins with an offer of block memory.
        let (blocks, _) = Segment::create("farcall-blocks", BLOCK_BYTES_MIN, PeerAccess::Read)?;
        let early = Arc::new(EarlyPackets::new(config.past_caches));
        let terms = Terms {
            ring_bytes: layout.ring_bytes(),
            blocks,
            block_bytes: BLOCK_BYTES_MIN,
            may_sleep: config.may_sleep,
            doorbell: Doorbell::new()?,
            greeter: Some(Arc::clone(&early) as _),
        };
        let conductor = Conductor::start(terms, listener)?;
        conductor.command(Command::SetWelcome(hello.clone()));
        let label = format!("shm {}", String::from_utf8_lossy(name));
        Ok(Self {
            layout,
            burst_packets: BURST_PACKETS_MAX.min(layout.slots / 2),
            hello,
            conductor,
            counters: ShmDatagramCounters::new(CounterFile::process(), &label),
            peers: Peers::default(),
            connections: Connections::default(),
            next_place: 0,
            calls: BTreeMap::new(),
            early,
            queued: 0,
            has_refused: false,
            spare: Vec::new(),
            blocked: Vec::new(),
            bells_due: Vec::new(),
            config,
            address,
        })
    }

    /// What has happened so far.
    pub fn counters(&self) -> &ShmDatagramCounters {
        &self.counters
    }

    fn doorbell(&self) -> &Doorbell {
        &self.conductor.shared().terms.doorbell
    }

    fn announce_sleep(&self, asleep: bool) {
        self.connections.iter().for_each(|(_, connection)| connection.inlet.announce_sleep(asleep));
    }
}

impl Datagram for ShmDatagram {
    fn name(&self) -> &'static str {
        "shm"
    }

    fn limits(&self) -> DatagramLimits {
        let (mtu_bytes, burst_packets) = (self.layout.mtu_bytes, self.burst_packets);
        DatagramLimits { mtu_bytes, priorities: 1, burst_packets, checks_packets: false }
    }

    fn address(&self) -> Address {
        self.address.clone()
    }

    fn resolve(&mut self, address: &Address) -> Result<Destination, AddressError> {
        Ok(self.peers.resolve(place::name_in(address, ADDRESS_TAG)?))
    }

    #[inline]
    fn send(&mut self, to: Destination, _priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        self.send_packet(to, parts)
    }

    #[inline]
    fn send_room(&self) -> usize {
        self.send_room_now()
    }

    #[inline]
    fn flush(&mut self) {
        self.flush_packets();
    }

    #[inline]
    fn is_backed_up(&self) -> bool {
        !self.blocked.is_empty()
    }

    #[inline]
    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        self.receive_packets(packets)
    }

    #[inline]
    fn release(&mut self, packet: Packet) {
        self.release_packet(&packet);
    }

    fn prepare_wait(&mut self) {
        self.announce_sleep(true);
    }

    fn finish_wait(&mut self) {
        self.announce_sleep(false);
        self.doorbell().drain();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        vec![self.doorbell().descriptor()]
    }
}

impl fmt::Debug for ShmDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShmDatagram({:?}, {} connections)", self.address, self.connections.len())
    }
}
