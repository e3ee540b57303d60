//! Several queued packets as one system call.
//!
//! The kernel's structures for a burst are kept between calls and rewritten for each. A burst ends before a
//! packet whose destination has been replaced, so that its messages stand for the oldest packets of the
//! queue, without gaps.

use core::mem;
use std::io;
use std::os::fd::RawFd;

use crate::name::{KnownPeers, Name};
use crate::send::queue::SendQueue;
use crate::sockets::Sockets;

/// The most packets of one segmented message; the least that any kernel with `UDP_SEGMENT` allows.
const SEGMENTS_MAX: usize = 64;
/// The most bytes of one segmented message: it is one IP packet until it is cut.
const SEGMENTED_BYTES_MAX: usize = 65_000;
/// A control message with one `u16`.
const CONTROL_BYTES: usize = 24;

/// The kernel's view of a burst. Every pointer in it is rewritten by `load`.
pub struct Burst {
    headers: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    names: Vec<Name>,
    controls: Vec<Control>,
    messages: Vec<Message>,
    packets_max: usize,
    /// The socket that it leaves by.
    descriptor: RawFd,
    /// Whether that needs the names.
    named: bool,
}

/// What a message of the burst stands for.
#[derive(Clone, Copy)]
struct Message {
    packets: usize,
    bytes: usize,
}

/// How much of a burst the kernel took.
#[derive(Default)]
pub struct Taken {
    pub packets: usize,
    pub bytes: usize,
    /// Of the packets, those that were part of a segmented message.
    pub segmented: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

// SAFETY: the pointers inside lead to the vectors beside them and to a queue, and are rewritten before use.
unsafe impl Send for Burst {}

impl Burst {
    /// A burst of at most `packets_max` packets.
    pub fn new(packets_max: usize) -> Self {
        Self {
            headers: Vec::with_capacity(packets_max),
            parts: Vec::with_capacity(packets_max),
            names: Vec::with_capacity(packets_max),
            controls: Vec::with_capacity(packets_max),
            messages: Vec::with_capacity(packets_max),
            packets_max,
            descriptor: -1,
            named: true,
        }
    }

    /// Describes the oldest packets of `queue`, of which the first has a destination. By the direct socket
    /// goes what is for its peer alone: otherwise there would be a call for each change from one to the
    /// other.
    pub fn load(&mut self, queue: &SendQueue, peers: &KnownPeers, sockets: &Sockets) {
        self.clear();
        let direct = sockets.direct_descriptor(|partner| queue.is_all_for(partner));
        self.named = direct.is_none();
        self.descriptor = direct.unwrap_or_else(|| sockets.open.descriptor());
        let mut index = 0;
        let end = queue.len().min(self.packets_max);
        while index < end {
            let (to, packet) = queue.get(index);
            let Some(name) = peers.way(to) else { break };
            let packets = if sockets.open.segmentation { run_length(queue, index, end) } else { 1 };
            self.push(name, queue, index, packets, packet.len());
            index += packets;
        }
        self.link();
    }

    /// Hands the burst to the kernel; returns how many messages it took, at least one.
    pub fn offer(&mut self) -> io::Result<usize> {
        let (headers, count) = (self.headers.as_mut_ptr(), self.headers.len() as u32);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `load` made the headers describe memory that is still there: nothing was changed in
        // between.
        let taken = unsafe { libc::sendmmsg(self.descriptor, headers, count, flags as _) };
        usize::try_from(taken).map_err(|_| io::Error::last_os_error())
    }

    /// What the first `messages` messages stand for.
    pub fn taken(&self, messages: usize) -> Taken {
        let mut taken = Taken::default();
        for message in &self.messages[..messages] {
            taken.packets += message.packets;
            taken.bytes += message.bytes;
            taken.segmented += if message.packets > 1 { message.packets } else { 0 };
        }
        taken
    }

    /// How many packets the first message stands for.
    pub fn first_packets(&self) -> usize {
        self.messages[0].packets
    }

    fn clear(&mut self) {
        self.headers.clear();
        self.parts.clear();
        self.names.clear();
        self.controls.clear();
        self.messages.clear();
    }

    fn push(&mut self, name: &Name, queue: &SendQueue, first: usize, packets: usize, segment_bytes: usize) {
        let mut bytes = 0;
        for index in first..first + packets {
            let (_, packet) = queue.get(index);
            let iov_base = packet.as_ptr().cast_mut().cast();
            self.parts.push(libc::iovec { iov_base, iov_len: packet.len() });
            bytes += packet.len();
        }
        self.names.push(*name);
        self.controls.push(segment_control(segment_bytes as u16));
        self.messages.push(Message { packets, bytes });
    }

    /// Writes the headers, now that everything that they point to has its place.
    fn link(&mut self) {
        let mut part = self.parts.as_mut_ptr();
        for (index, message) in self.messages.iter().enumerate() {
            // SAFETY: a header of zeros is valid: null pointers, zero lengths.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            if self.named {
                header.msg_hdr.msg_name = (&raw mut self.names[index]).cast();
                header.msg_hdr.msg_namelen = self.names[index].bytes();
            }
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = message.packets as _;
            if message.packets > 1 {
                header.msg_hdr.msg_control = (&raw mut self.controls[index]).cast();
                header.msg_hdr.msg_controllen = CONTROL_BYTES as _;
            }
            self.headers.push(header);
            // SAFETY: the messages' packets are exactly the parts, in order.
            part = unsafe { part.add(message.packets) };
        }
    }
}

/// How many packets from `first` on, before `end`, can form one segmented message: all of one length but for
/// a shorter last one, and for one peer.
fn run_length(queue: &SendQueue, first: usize, end: usize) -> usize {
    let (to, packet) = queue.get(first);
    let segment_bytes = packet.len();
    if segment_bytes == 0 {
        return 1;
    }
    let packets_max = SEGMENTS_MAX.min(SEGMENTED_BYTES_MAX / segment_bytes).max(1).min(end - first);
    for packets in 1..packets_max {
        let (next_to, next) = queue.get(first + packets);
        if next_to != to || next.is_empty() || next.len() > segment_bytes {
            return packets;
        }
        if next.len() < segment_bytes {
            return packets + 1;
        }
    }
    packets_max
}

/// The control message that asks for packets of `segment_bytes` bytes.
fn segment_control(segment_bytes: u16) -> Control {
    const { assert!(mem::size_of::<libc::cmsghdr>() + mem::size_of::<u64>() <= CONTROL_BYTES) };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: all fields of a header are integers, for which zeros are valid.
    let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
    // SAFETY: a computation that touches no memory.
    header.cmsg_len = unsafe { libc::CMSG_LEN(mem::size_of::<u16>() as u32) } as _;
    header.cmsg_level = libc::SOL_UDP;
    header.cmsg_type = libc::UDP_SEGMENT;
    // SAFETY: `Control` is aligned for a header, and long enough for it and the number behind it (checked
    // above).
    unsafe { (&raw mut control).cast::<libc::cmsghdr>().write(header) };
    control.0[mem::size_of::<libc::cmsghdr>()..][..2].copy_from_slice(&segment_bytes.to_ne_bytes());
    control
}
