//! Sending: small packets are copied to a queue and leave together; long ones leave at once from where they
//! lie.
//!
//! A flush of one packet is one `sendto`, the cheapest way there is. A flush of several is one `sendmmsg`, in
//! which neighbours of equal length for one peer form one message that the kernel cuts (`UDP_SEGMENT`): the
//! network stack is then walked once for all of them.

use std::io;

use farcall_driver::{Destination, SendError, SendQueueFull};

use crate::UdpCounters;
use crate::name::KnownPeers;
use crate::send::burst::Burst;
use crate::send::queue::SendQueue;
use crate::sockets::{Route, Sockets};

mod burst;
mod queue;

/// Parts that a packet can have without being copied together first.
const PARTS_MAX: usize = 16;

/// The sending half of a driver.
pub struct Transmitter {
    queue: SendQueue,
    burst: Burst,
    mtu_bytes: usize,
    copy_bytes_max: usize,
    /// Where a long packet of very many parts is put together.
    scratch: Vec<u8>,
    /// Whether the kernel has refused something since this was looked at, perhaps for an earlier packet.
    pub was_refused: bool,
}

/// What became of a packet or burst that was offered to the kernel.
enum Offer {
    Taken,
    /// Its buffer is full; try again later.
    Blocked,
    /// It was only told that nobody was there for an earlier one; try again at once.
    Informed,
    /// It will never take this.
    Refused,
}

impl Transmitter {
    /// A transmitter that queues at most `queue_packets` packets of up to `copy_bytes_max` bytes.
    pub fn new(queue_packets: usize, burst_packets: usize, copy_bytes_max: usize, mtu_bytes: usize) -> Self {
        let copy_bytes_max = copy_bytes_max.min(mtu_bytes);
        let queue = SendQueue::new(queue_packets, copy_bytes_max);
        let scratch = Vec::with_capacity(mtu_bytes);
        Self {
            queue,
            burst: Burst::new(burst_packets),
            mtu_bytes,
            copy_bytes_max,
            scratch,
            was_refused: false,
        }
    }

    /// How many packets can still be queued.
    #[inline]
    pub fn room(&self) -> usize {
        self.queue.room()
    }

    /// Whether packets wait.
    #[inline]
    pub fn is_backed_up(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Queues a packet, or sends it when it is long.
    #[inline]
    pub fn send(
        &mut self,
        sockets: &mut Sockets,
        peers: &KnownPeers,
        counters: &UdpCounters,
        to: Destination,
        parts: &[&[u8]],
    ) -> Result<(), SendError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > self.mtu_bytes {
            return Err(SendError::TooLong { bytes, mtu_bytes: self.mtu_bytes });
        }
        if bytes > self.copy_bytes_max {
            return self.send_long(sockets, peers, counters, to, parts, bytes);
        }
        if !self.queue.push(to, parts, bytes) {
            counters.queue_full.increment();
            return Err(SendQueueFull.into());
        }
        Ok(())
    }

    /// Hands the queue to the kernel, as far as it takes it.
    #[inline]
    pub fn flush(&mut self, sockets: &mut Sockets, peers: &KnownPeers, counters: &UdpCounters) {
        while !self.queue.is_empty() {
            let (to, packet) = self.queue.get(0);
            let Some(route) = sockets.route(peers, to) else {
                counters.stale_destinations.increment();
                self.queue.pop(1);
                continue;
            };
            let blocked = if self.queue.len() == 1 {
                let (bytes, offer) = (packet.len(), offer_one(route, packet));
                self.settle(counters, offer, bytes, 1)
            } else {
                self.flush_burst(sockets, peers, counters)
            };
            if blocked {
                return;
            }
        }
    }

    /// Offers up to a burst of queued packets, of which the first can be sent; true when the kernel is full.
    fn flush_burst(&mut self, sockets: &mut Sockets, peers: &KnownPeers, counters: &UdpCounters) -> bool {
        self.burst.load(&self.queue, peers, sockets);
        let error = match self.burst.offer() {
            Ok(messages) => {
                self.count_taken(counters, messages);
                return false;
            }
            Err(error) => error,
        };
        let first_packets = self.burst.first_packets();
        if is_blocked(&error) {
            counters.send_blocked.increment();
            return true;
        }
        self.was_refused = true;
        if is_about_another(&error) {
            return false;
        }
        if first_packets > 1 && is_of_the_segmented(&error) {
            // The kernel can cut in general, but not for this route or length; or a firewall has looked at
            // the length before the cut. Each by itself from now on.
            sockets.open.segmentation = false;
            return false;
        }
        counters.packets_unsendable.add(first_packets as u64);
        self.queue.pop(first_packets);
        false
    }

    fn count_taken(&mut self, counters: &UdpCounters, messages: usize) {
        let taken = self.burst.taken(messages);
        counters.send_calls.increment();
        counters.packets_sent.add(taken.packets as u64);
        counters.bytes_sent.add(taken.bytes as u64);
        counters.packets_segmented.add(taken.segmented as u64);
        self.queue.pop(taken.packets);
    }

    /// Sends a packet from where its parts lie. What was queued before goes first.
    fn send_long(
        &mut self,
        sockets: &mut Sockets,
        peers: &KnownPeers,
        counters: &UdpCounters,
        to: Destination,
        parts: &[&[u8]],
        bytes: usize,
    ) -> Result<(), SendError> {
        self.flush(sockets, peers, counters);
        let Some(route) = sockets.route(peers, to) else {
            counters.stale_destinations.increment();
            return Ok(());
        };
        let scratch = &mut self.scratch;
        let mut offer = || {
            if parts.len() <= PARTS_MAX {
                return offer_gathered(route, parts);
            }
            scratch.clear();
            parts.iter().for_each(|part| scratch.extend_from_slice(part));
            offer_gathered(route, &[scratch])
        };
        let offer = match offer() {
            Offer::Informed => offer(),
            other => other,
        };
        if self.settle(counters, offer, bytes, 0) {
            counters.queue_full.increment();
            return Err(SendQueueFull.into());
        }
        Ok(())
    }

    /// Counts what became of one packet, which leaves the queue (`queued` is 1 or 0) when its fate is known;
    /// true when the kernel was full.
    #[inline]
    fn settle(&mut self, counters: &UdpCounters, offer: Offer, bytes: usize, queued: usize) -> bool {
        self.was_refused |= matches!(offer, Offer::Informed | Offer::Refused);
        match offer {
            Offer::Taken => {
                counters.send_calls.increment();
                counters.packets_sent.increment();
                counters.bytes_sent.add(bytes as u64);
            }
            Offer::Refused => counters.packets_unsendable.increment(),
            Offer::Informed if queued > 0 => return false,
            Offer::Informed => counters.packets_unsendable.increment(),
            Offer::Blocked => {
                counters.send_blocked.increment();
                return true;
            }
        }
        self.queue.pop(queued);
        false
    }
}

#[inline]
fn offer_one(route: Route<'_>, packet: &[u8]) -> Offer {
    let (name, name_bytes) = route.name();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the packet and the name, both of the lengths given.
    judge(unsafe {
        libc::sendto(route.descriptor, packet.as_ptr().cast(), packet.len(), flags, name, name_bytes)
    })
}

fn offer_gathered(route: Route<'_>, parts: &[&[u8]]) -> Offer {
    let mut vectors = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS_MAX];
    for (vector, part) in vectors.iter_mut().zip(parts) {
        *vector = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
    }
    // SAFETY: a header of zeros is valid: null pointers, zero lengths.
    let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
    let (name, name_bytes) = route.name();
    header.msg_name = name.cast_mut().cast();
    header.msg_namelen = name_bytes;
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = parts.len().min(PARTS_MAX) as _;
    // SAFETY: the kernel reads the name and the parts, which live until the call returns, and writes nothing.
    judge(unsafe {
        libc::sendmsg(route.descriptor, &raw const header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    })
}

#[inline]
fn judge(result: libc::ssize_t) -> Offer {
    if result >= 0 {
        return Offer::Taken;
    }
    match io::Error::last_os_error() {
        error if is_blocked(&error) => Offer::Blocked,
        error if is_about_another(&error) => Offer::Informed,
        _ => Offer::Refused,
    }
}

/// A segmented message may be refused of which each packet is taken.
fn is_of_the_segmented(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO | libc::EPERM | libc::EMSGSIZE))
}

/// A connected socket is told with a later packet that nobody was there for one before, and that one is not
/// sent.
#[cold]
fn is_about_another(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECONNREFUSED)
}

/// The kernel has no room now. `ENOBUFS` is the network card's queue, which drains like any other.
#[cold]
fn is_blocked(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR))
}
