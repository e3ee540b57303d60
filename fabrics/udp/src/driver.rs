//! The driver itself: its sockets, its two halves, and the peers that both of them know.

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use farcall_base::{Address, AddressError, Instant, host_number};
use farcall_driver::{
    CounterFile, Datagram, DatagramLimits, Destination, Packet, Peers, STRANGERS_MAX, SendError, Wait,
};

use crate::FORMAT;
use crate::config::{BIND_MTU_BYTES_MAX, UdpConfig};
use crate::counters::UdpCounters;
use crate::interface;
use crate::name::KnownPeers;
use crate::receive::Receiver;
use crate::refusals;
use crate::send::Transmitter;
use crate::socket::BindError;
use crate::sockets::Sockets;

/// The most queued packets, receive buffers or packets of a burst that a configuration can ask for.
const PACKETS_MAX: usize = 1 << 16;
/// The most packets of one system call, which is the kernel's own bound.
const BURST_PACKETS_MAX: usize = 1024;

/// Packets over UDP, at one address.
pub struct UdpDriver {
    sockets: Sockets,
    limits: DatagramLimits,
    peers: KnownPeers,
    receiver: Receiver,
    transmitter: Transmitter,
    counters: UdpCounters,
}

impl UdpDriver {
    /// Opens a socket and makes all memory that the driver will ever need.
    pub fn bind(config: &UdpConfig) -> Result<Self, BindError> {
        check(config)?;
        let explain = |source: io::Error| BindError::System { address: config.bind, source };
        let mtu_bytes = config.mtu_bytes.unwrap_or_else(|| interface::payload_bytes_max(config.bind.ip()));
        let burst_packets = config.burst_packets;
        let sockets = Sockets::open(config).map_err(explain)?;
        let receiver =
            Receiver::new(config.receive_buffers, burst_packets, mtu_bytes, sockets.open.coalescing);
        let queue_packets = config.send_queue_packets;
        Ok(Self {
            receiver: receiver.map_err(explain)?,
            transmitter: Transmitter::new(queue_packets, burst_packets, config.copy_bytes_max, mtu_bytes),
            limits: DatagramLimits { mtu_bytes, priorities: 1, burst_packets, checks_packets: false },
            peers: Peers::new(STRANGERS_MAX),
            counters: UdpCounters::new(CounterFile::process(), &format!("udp {}", sockets.open.local)),
            sockets,
        })
    }

    /// Where the socket is bound.
    pub fn local(&self) -> SocketAddr {
        self.sockets.open.local
    }

    /// The next peer that the network could not deliver a packet to.
    fn next_reported(&mut self) -> Option<Destination> {
        while let Some(address) = refusals::next(self.sockets.open.descriptor()) {
            self.counters.undelivered.increment();
            if let Some(peer) = self.peers.find(address) {
                return Some(peer);
            }
        }
        (self.sockets.open.has_report, self.transmitter.was_refused) = (false, false);
        None
    }

    /// What has happened so far.
    pub fn counters(&self) -> &UdpCounters {
        &self.counters
    }
}

impl Datagram for UdpDriver {
    fn name(&self) -> &'static str {
        FORMAT.driver
    }

    fn limits(&self) -> DatagramLimits {
        self.limits
    }

    fn address(&self) -> Address {
        FORMAT.address_of(self.sockets.open.local)
    }

    fn keep_peer(&mut self, peer: Destination, keep: bool) {
        self.peers.keep(peer, keep);
    }

    fn host_of(&self, peer: Destination) -> Option<u64> {
        self.peers.address(peer).map(|address| host_number(address.ip()))
    }

    fn resolve(&mut self, address: &Address) -> Result<Destination, AddressError> {
        let socket_address = FORMAT.parse(address)?;
        if let Some(why) = interface::out_of_reach(self.sockets.open.local.ip(), socket_address.ip()) {
            return Err(AddressError::OutOfReach { why });
        }
        let (to, replaced) = self.peers.resolve(socket_address, || socket_address.into())?;
        if replaced.is_some() {
            self.counters.peers_replaced.increment();
        }
        Ok(to)
    }

    #[inline]
    fn send(&mut self, to: Destination, _priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        self.transmitter.send(&mut self.sockets, &self.peers, &self.counters, to, parts)
    }

    #[inline]
    fn send_room(&self) -> usize {
        self.transmitter.room()
    }

    #[inline]
    fn flush(&mut self) {
        self.transmitter.flush(&mut self.sockets, &self.peers, &self.counters);
    }

    #[inline]
    fn is_backed_up(&self) -> bool {
        self.transmitter.is_backed_up()
    }

    #[inline]
    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        let Self { sockets, receiver, peers, counters, .. } = self;
        let before = packets.len();
        let received = sockets.receive(|socket| receiver.receive(socket, peers, counters, packets));
        if received > 0 {
            sockets.heard(packets[before].source(), peers, counters);
        }
        received
    }

    #[inline]
    fn release(&mut self, packet: Packet) {
        self.receiver.release(packet);
    }

    #[inline]
    fn next_unreachable(&mut self) -> Option<Destination> {
        let open = &self.sockets.open;
        if open.has_report || self.transmitter.was_refused { self.next_reported() } else { None }
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

impl Wait for UdpDriver {
    fn prepare_wait(&mut self) {}

    fn finish_wait(&mut self) {}

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.sockets.descriptors()
    }
}

fn check(config: &UdpConfig) -> Result<(), BindError> {
    if config.bind.ip().is_unspecified() {
        return Err(BindError::Unspecified { address: config.bind });
    }
    in_range("mtu_bytes", config.mtu_bytes.unwrap_or(1), 1, BIND_MTU_BYTES_MAX)?;
    in_range("send_queue_packets", config.send_queue_packets, 1, PACKETS_MAX)?;
    in_range("copy_bytes_max", config.copy_bytes_max, 0, BIND_MTU_BYTES_MAX)?;
    in_range("receive_buffers", config.receive_buffers, 1, PACKETS_MAX)?;
    in_range("burst_packets", config.burst_packets, 1, BURST_PACKETS_MAX)?;
    in_range("socket_buffer_bytes", config.socket_buffer_bytes, 0, i32::MAX as usize / 2)
}

fn in_range(parameter: &'static str, value: usize, least: usize, most: usize) -> Result<(), BindError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(BindError::OutOfRange { parameter, value, least, most })
}
