//! Drivers of the first shape: unreliable, unordered packets up to an MTU.
//!
//! No call blocks. Sending is gathered (a header and a piece of somebody's payload need no common buffer) and
//! takes effect at the latest at `flush`. Received packets are on loan: their memory is the driver's, and
//! goes back with `release`. The trait can be made into an object, so that decorators can wrap any driver.

use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use farcall_base::{Address, AddressError, Instant};

use super::Wait;

/// A peer's address after the driver has resolved it: a small number that is cheap to send to and to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination(pub u32);

/// What a datagram driver can do. Fixed for the life of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramLimits {
    /// The longest packet, in bytes, all parts together.
    pub mtu_bytes: usize,
    /// How many priorities are distinguished, 1 to 8; a higher number is served first.
    pub priorities: u8,
    /// The most packets that one `receive` hands out and one `flush` hands over at a time.
    pub burst_packets: usize,
    /// Whether the fabric checks each packet from end to end, at least as well as a sum of 32 bits would, and
    /// drops those that are damaged. Protocols then need no checksum of their own.
    pub checks_packets: bool,
}

/// The queue of packets that await transmission is full: flush, poll, and try again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the send queue is full; try again after a poll")]
pub struct SendQueueFull;

/// Why a packet was not taken for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Flush, poll and try again later.
    #[error(transparent)]
    QueueFull(#[from] SendQueueFull),
    /// Longer than the driver's MTU: split it.
    #[error("a packet of {bytes} bytes is longer than the MTU of {mtu_bytes}")]
    TooLong {
        /// The packet's length.
        bytes: usize,
        /// The driver's limit.
        mtu_bytes: usize,
    },
}

/// An unreliable packet fabric. See the module's text for the rules that every implementation keeps; the
/// `conformance` module tests them.
pub trait Datagram: Wait + Send {
    /// The name in transport strings and messages, such as `udp`.
    fn name(&self) -> &'static str;

    /// What this driver can do.
    fn limits(&self) -> DatagramLimits;

    /// Where other processes reach this driver.
    fn address(&self) -> Address;

    /// Makes an address usable for sending, until the last session that leads there is over
    /// ([`Datagram::keep_peer`]). The same address gives the same destination as long as it is known.
    fn resolve(&mut self, address: &Address) -> Result<Destination, AddressError>;

    /// Whether a session leads to a peer from now on. A peer that is only known because it sent something
    /// makes room for others unless at least one does.
    fn keep_peer(&mut self, peer: Destination, keep: bool);

    /// A number for what of the network a peer has to itself, in which it can have many addresses: for IPv4
    /// the address, for IPv6 its upper half. `None` where the fabric does not say.
    fn host_of(&self, peer: Destination) -> Option<u64>;

    /// Queues one packet made of `parts` in order. Its bytes are copied or handed to the fabric before this
    /// returns.
    ///
    /// A packet may be lost, duplicated or reordered after that; it is never cut short or altered by an
    /// honest fabric. Packets of a higher `priority` may overtake others; priorities beyond the limit count
    /// as the highest.
    fn send(&mut self, to: Destination, priority: u8, parts: &[&[u8]]) -> Result<(), SendError>;

    /// How many packets can be queued before [`SendQueueFull`].
    fn send_room(&self) -> usize;

    /// Hands all queued packets to the fabric, as far as it takes them now; the rest stays queued.
    fn flush(&mut self);

    /// Whether packets wait here for another flush, because the fabric did not take them in the last one.
    /// Nobody sleeps meanwhile, so it must come to an end. Costs next to nothing: it is asked in every turn.
    fn is_backed_up(&self) -> bool;

    /// Appends packets that have arrived to `packets`, at most a burst, and returns how many.
    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize;

    /// Takes a received packet's memory back. Every packet should come back; one that does not is lost to the
    /// driver.
    fn release(&mut self, packet: Packet);

    /// A destination that cannot be reached, as the fabric says, of a packet that was sent there: each once.
    /// Anybody on the path can say so, which makes it a reason to give up what has not begun, and no other.
    fn next_unreachable(&mut self) -> Option<Destination>;

    /// When the driver next has something to send that no packet announces; `None` when it has not. Call
    /// [`Datagram::receive`] or [`Datagram::flush`] then.
    fn next_deadline(&self) -> Option<Instant>;
}

/// A received packet, on loan from its driver until it is given back with [`Datagram::release`].
///
/// Dropping it instead is safe, but the driver never gets that buffer back.
pub struct Packet {
    bytes: NonNull<u8>,
    length: u32,
    source: Destination,
    slot: u32,
}

// SAFETY: a packet owns the right to its bytes, which `from_raw` promises to be valid from any thread.
#[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
unsafe impl Send for Packet {}

impl Packet {
    /// Lends `length` bytes at `bytes`, received from `source`; `slot` is for the driver's own use.
    ///
    /// # Safety
    /// The bytes must be initialised and stay readable and unchanged by this process until the packet has
    /// been released to the driver that lent it, or for ever if it never is, even when that driver is
    /// dropped.
    #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
    pub unsafe fn from_raw(bytes: NonNull<u8>, length: u32, source: Destination, slot: u32) -> Self {
        Self { bytes, length, source, slot }
    }

    /// Who sent it, as far as the fabric knows.
    pub fn source(&self) -> Destination {
        self.source
    }

    /// The number that the driver gave to [`Packet::from_raw`].
    pub fn slot(&self) -> u32 {
        self.slot
    }
}

impl Deref for Packet {
    type Target = [u8];

    #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
    fn deref(&self) -> &[u8] {
        // SAFETY: `from_raw`'s caller promised that the bytes stay valid while this packet is not released.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr(), self.length as usize) }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({} bytes from {:?})", self.length, self.source)
    }
}
