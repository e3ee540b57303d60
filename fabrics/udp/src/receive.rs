//! Receiving: the cheapest single call while packets come one by one, bursts when they come in bursts.
//!
//! On loopback a `recvmmsg` costs a small round trip about a tenth more than `recvfrom`, and a burst is worth
//! it only when there is one. So the first packet after silence is fetched alone; only when the call after a
//! successful one comes, a burst is asked for, for twice as many packets as that one brought: each costs a
//! header to fill in. A ping-pong pays one short failed burst per packet, while it waits anyway.

use core::mem;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use farcall_driver::{Destination, Packet};

use crate::UdpCounters;
use crate::arena::Arena;
use crate::name::{KnownPeers, NAME_BYTES_MAX, Name};
use crate::socket::Socket;

/// The longest buffer that the kernel joins packets into.
const COALESCED_BYTES_MAX: usize = 65_535;
/// The fewest packets that a burst is asked for.
const BURST_MIN: usize = 8;
/// Room for the one control message that is asked for: the size of the joined packets.
const CONTROL_BYTES: usize = 64;

/// The receiving half of a driver.
pub struct Receiver {
    arena: Arena,
    burst_packets: usize,
    mtu_bytes: usize,
    coalescing: bool,
    /// What the caller's burst had no room for. At most one entry for each message of a burst.
    rest: VecDeque<Buffer>,
    messages: Messages,
}

/// A slot with one packet, or several of `segment_bytes` and a last one that may be shorter.
#[derive(Clone, Copy)]
struct Buffer {
    slot: u32,
    offset: usize,
    end: usize,
    segment_bytes: usize,
    source: Destination,
}

/// The kernel's view of a burst. Every pointer in it is rewritten before each call.
struct Messages {
    headers: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    names: Vec<Name>,
    controls: Vec<Control>,
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

// SAFETY: the pointers inside lead to the vectors beside them and to the arena, and are rewritten before use.
unsafe impl Send for Messages {}

impl Receiver {
    /// A receiver with `buffers` buffers that hands out at most `burst_packets` at a time.
    pub fn new(buffers: usize, burst_packets: usize, mtu_bytes: usize, coalescing: bool) -> io::Result<Self> {
        let slot_bytes = if coalescing { COALESCED_BYTES_MAX } else { mtu_bytes };
        let arena = Arena::new(buffers, slot_bytes)?;
        let messages = Messages::new(burst_packets);
        let rest = VecDeque::with_capacity(burst_packets);
        Ok(Self { arena, burst_packets, mtu_bytes, coalescing, rest, messages })
    }

    /// Takes a packet's memory back.
    #[inline]
    pub fn release(&mut self, packet: Packet) {
        self.arena.take_back(packet);
    }

    /// Appends at most a burst of packets that have arrived.
    #[inline]
    pub fn receive(
        &mut self,
        socket: &mut Socket,
        peers: &mut KnownPeers,
        counters: &UdpCounters,
        packets: &mut Vec<Packet>,
    ) -> usize {
        let before = packets.len();
        if !self.rest.is_empty() {
            self.hand_out_rest(packets, before);
        } else if self.arena.free_slots() == 0 {
            counters.buffers_exhausted.increment();
        } else if socket.last_received > 0 || self.coalescing {
            self.receive_burst(socket, peers, counters, packets);
        } else {
            self.receive_one(socket, peers, counters, packets);
        }
        let received = packets.len() - before;
        if received > 0 {
            socket.last_received = received;
            let bytes: usize = packets[before..].iter().map(|packet| packet.len()).sum();
            counters.packets_received.add(received as u64);
            counters.bytes_received.add(bytes as u64);
        }
        received
    }

    #[inline]
    fn receive_one(
        &mut self,
        socket: &mut Socket,
        peers: &mut KnownPeers,
        counters: &UdpCounters,
        packets: &mut Vec<Packet>,
    ) {
        let mut name = Name::empty();
        let mut name_bytes = NAME_BYTES_MAX;
        // `MSG_TRUNC` makes the call return the packet's true length, however much of it fits.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the free slot may be written for `slot_bytes`, and the name for `name_bytes`.
        let length = unsafe {
            let (slot, slot_bytes) = (self.arena.free_slot(0).as_ptr().cast(), self.arena.slot_bytes());
            let name = (&raw mut name).cast();
            libc::recvfrom(socket.descriptor(), slot, slot_bytes, flags, name, &raw mut name_bytes)
        };
        let Ok(length) = usize::try_from(length) else { return note_error(socket, counters) };
        counters.receive_calls.increment();
        if length > self.arena.slot_bytes() {
            return counters.packets_truncated.increment();
        }
        let Some(source) = source(peers, counters, name) else { return };
        let slot = self.arena.claim(0);
        // SAFETY: the kernel wrote `length` bytes to the slot, which is claimed now.
        packets.push(unsafe { self.arena.lend(slot, 0..length, true, source) });
    }

    fn receive_burst(
        &mut self,
        socket: &mut Socket,
        peers: &mut KnownPeers,
        counters: &UdpCounters,
        packets: &mut Vec<Packet>,
    ) {
        let before = packets.len();
        let wanted = self.wanted(socket.last_received);
        self.messages.aim(&self.arena, wanted, self.coalescing);
        let headers = self.messages.headers.as_mut_ptr();
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: `aim` made the first `wanted` headers point to memory that may be written, of the lengths
        // they say.
        let count = unsafe {
            libc::recvmmsg(socket.descriptor(), headers, wanted as u32, flags, core::ptr::null_mut())
        };
        let Ok(count) = usize::try_from(count) else { return note_error(socket, counters) };
        counters.receive_calls.increment();
        // From the deepest slot up, so that claiming one moves none of those still to be claimed.
        for index in (0..count).rev() {
            if let Some(buffer) = self.accept(index, peers, counters) {
                self.rest.push_front(buffer);
            }
        }
        self.hand_out_rest(packets, before);
    }

    /// How many messages the next burst is asked for after one that returned this many packets, at least one
    /// slot being free.
    fn wanted(&self, last_received: usize) -> usize {
        match last_received {
            0 => 1,
            last => (2 * last).max(BURST_MIN).min(self.burst_packets).min(self.arena.free_slots()),
        }
    }

    /// Claims the slot of a received message, unless the message is of no use.
    fn accept(&mut self, index: usize, peers: &mut KnownPeers, counters: &UdpCounters) -> Option<Buffer> {
        let header = &self.messages.headers[index];
        let end = header.msg_len as usize;
        let segment_bytes = segment_bytes(&header.msg_hdr).filter(|bytes| *bytes < end).unwrap_or(end);
        if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 || segment_bytes > self.mtu_bytes {
            counters.packets_truncated.increment();
            return None;
        }
        let source = source(peers, counters, self.messages.names[index])?;
        if segment_bytes < end {
            counters.packets_coalesced.add(end.div_ceil(segment_bytes) as u64);
        }
        Some(Buffer { slot: self.arena.claim(index), offset: 0, end, segment_bytes, source })
    }

    /// Cuts the buffers that have arrived into packets, as far as the caller's burst has room.
    fn hand_out_rest(&mut self, packets: &mut Vec<Packet>, before: usize) {
        while packets.len() - before < self.burst_packets {
            let Some(buffer) = self.rest.front_mut() else { return };
            let end = buffer.end.min(buffer.offset + buffer.segment_bytes);
            let last = end == buffer.end;
            // SAFETY: the kernel wrote the slot up to `buffer.end`, and the claim holds it until its last
            // packet is back.
            packets.push(unsafe { self.arena.lend(buffer.slot, buffer.offset..end, last, buffer.source) });
            buffer.offset = end;
            if last {
                self.rest.pop_front();
            }
        }
    }
}

impl Drop for Receiver {
    /// Frees what was never handed out, so that the arena can tell it from packets that are out.
    fn drop(&mut self) {
        for buffer in self.rest.drain(..) {
            self.arena.let_go(buffer.slot);
        }
    }
}

impl Messages {
    fn new(burst_packets: usize) -> Self {
        // SAFETY: a header and a part of zeros are valid: null pointers, zero lengths.
        let (header, part) = unsafe { (mem::zeroed::<libc::mmsghdr>(), mem::zeroed::<libc::iovec>()) };
        Self {
            headers: vec![header; burst_packets],
            parts: vec![part; burst_packets],
            names: vec![Name::empty(); burst_packets],
            controls: vec![Control([0; CONTROL_BYTES]); burst_packets],
        }
    }

    /// Points the first `count` messages to the next free slots of `arena`.
    fn aim(&mut self, arena: &Arena, count: usize, control: bool) {
        for index in 0..count {
            let slot: NonNull<u8> = arena.free_slot(index);
            self.parts[index] = libc::iovec { iov_base: slot.as_ptr().cast(), iov_len: arena.slot_bytes() };
            let header = &mut self.headers[index].msg_hdr;
            header.msg_name = (&raw mut self.names[index]).cast();
            header.msg_namelen = NAME_BYTES_MAX;
            header.msg_iov = &raw mut self.parts[index];
            header.msg_iovlen = 1;
            header.msg_control =
                if control { (&raw mut self.controls[index]).cast() } else { core::ptr::null_mut() };
            header.msg_controllen = if control { CONTROL_BYTES } else { 0 };
            header.msg_flags = 0;
        }
    }
}

fn source(peers: &mut KnownPeers, counters: &UdpCounters, name: Name) -> Option<Destination> {
    let address: SocketAddr = name.to_socket_address()?;
    let (source, replaced) = peers.source(address, || address.into());
    if replaced.is_some() {
        counters.peers_replaced.increment();
    }
    Some(source)
}

/// The size of the packets that the kernel joined into a message, if it did.
fn segment_bytes(header: &libc::msghdr) -> Option<usize> {
    if header.msg_controllen == 0 {
        return None;
    }
    // SAFETY: the kernel wrote `msg_controllen` bytes of control messages to `msg_control`.
    let control = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
    if (control.cmsg_level, control.cmsg_type) != (libc::SOL_UDP, libc::UDP_GRO) {
        return None;
    }
    // SAFETY: the data of this message is one integer, not necessarily aligned.
    let bytes = unsafe { libc::CMSG_DATA(control).cast::<libc::c_int>().read_unaligned() };
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// Nothing there is no error; anything else is a loss that the protocols repair. That a port is closed is
/// told before what came from it is handed out, and again for each packet that is sent there: it is no
/// silence, and what lies behind it is received as a burst.
#[cold]
fn note_error(socket: &mut Socket, counters: &UdpCounters) {
    match io::Error::last_os_error().kind() {
        io::ErrorKind::WouldBlock => {
            return (socket.last_received, socket.is_over) = (0, socket.was_refused);
        }
        io::ErrorKind::ConnectionRefused => (socket.was_refused, socket.has_report) = (true, true),
        _ => socket.has_report = true,
    }
    counters.receive_errors.increment();
}
