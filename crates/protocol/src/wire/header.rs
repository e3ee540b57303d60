//! The common header: a checksum and the eighteen bytes that name what the packet is about.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | CRC-32C of all that follows; 0 without [`Flags::CHECKSUM`] |
//! | 4 | 1 | opcode |
//! | 5 | 1 | flags (low four bits), argument (high four bits) |
//! | 6 | 8 | session, as the packet's *receiver* numbered it |
//! | 14 | 8 | call: slot (16 bits), sequence (48 bits) |

use super::{Head, Malformed, malformed, u64_at};

/// Length of the common header.
pub const HEADER_BYTES: usize = 22;

/// Length of the checksum in front of it.
pub(super) const CHECKSUM_BYTES: usize = 4;

/// The highest sequence number of a slot's calls. At one call a microsecond it lasts for nine years.
pub const SEQUENCE_MAX: u64 = (1 << 48) - 1;

/// Declares the opcodes once, with their meaning on the wire.
macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// What kind of packet it is. Below 16 the packets of sessions, above those of messages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Opcode { $($(#[$doc])* $name = $value,)* }

        impl Opcode {
            /// Every opcode.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            #[inline]
            const fn from_wire(byte: u8) -> Option<Self> {
                match byte { $($value => Some(Self::$name),)* _ => None }
            }
        }
    };
}

opcodes! {
    /// Asks for a session.
    Open = 1,
    /// Agrees to one.
    Accept = 2,
    /// Declines one.
    Refuse = 3,
    /// Ends one.
    Close = 4,
    /// Says that a packet named a session that is not known.
    Reset = 5,
    /// Asks for a sign of life.
    Ping = 6,
    /// Gives it.
    Pong = 7,
    /// Asks the opener of a session to prove its address first.
    Retry = 8,
    /// Asks whether a packet of its length arrives.
    Probe = 9,
    /// Says that it did.
    Probed = 10,
    /// A part of a packet that is too long for the path.
    Part = 11,
    /// A message in one packet.
    Whole = 20,
    /// A piece of a longer message.
    Fragment = 21,
    /// Permits more bytes of a message.
    Grant = 22,
    /// Asks for bytes once more.
    Resend = 24,
    /// Alive, but not there yet.
    Busy = 25,
    /// The caller is done with calls: forget them.
    Acknowledge = 26,
    /// Says which priorities the first bytes of messages should have.
    Cutoffs = 27,
    /// Asks whether the caller is done with a call.
    NeedAcknowledge = 28,
    /// A tagged message, over a library.
    Tagged = 29,
    /// Several tagged messages, over a library.
    TaggedBatch = 30,
    /// How many tagged messages may be sent, over a library.
    TaggedCredit = 31,
}

impl Opcode {
    /// Whether the packet belongs to the session itself and not to one of its messages.
    #[inline]
    pub const fn is_of_session(self) -> bool {
        (self as u8) < 16
    }
}

/// Four bits that go with any opcode, and an argument of four bits that is the opcode's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The sender is the one who made the call.
    pub const FROM_CALLER: Self = Self(1);
    /// These bytes were sent before.
    pub const RETRANSMISSION: Self = Self(2);
    /// With a RESEND: nothing of the request is known here, start over.
    pub const RESTART: Self = Self(4);
    /// The packet begins with its checksum.
    pub const CHECKSUM: Self = Self(8);

    /// These flags with the low four bits of `argument`, which are not set yet.
    #[inline]
    pub const fn with_argument(self, argument: u8) -> Self {
        Self(self.0 | argument << 4)
    }

    /// The argument; 0 where an opcode has none.
    #[inline]
    pub const fn argument(self) -> u8 {
        self.0 >> 4
    }

    /// Both sets of flags.
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags when `condition` holds, else none.
    #[inline]
    pub const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    /// Whether every flag of `other` is set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A session's number on the wire: an index in the low 16 bits, the rest drawn at random. 0 names no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireSession(pub u64);

impl WireSession {
    /// What stands in a packet that belongs to no session yet.
    pub const NONE: Self = Self(0);

    /// Where the receiver keeps the session.
    #[inline]
    pub const fn index(self) -> u16 {
        self.0 as u16
    }
}

/// Names a call within a session: the slot that it occupies and how many calls that slot has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey(u64);

impl CallKey {
    /// What stands in packets that are about no call.
    pub const NONE: Self = Self(0);

    /// The call with number `sequence` in `slot`.
    #[inline]
    pub const fn new(slot: u16, sequence: u64) -> Self {
        debug_assert!(sequence <= SEQUENCE_MAX);
        Self(sequence << 16 | slot as u64)
    }

    /// From the eight bytes of a packet: all values are valid.
    #[inline]
    pub const fn from_wire(wire: u64) -> Self {
        Self(wire)
    }

    /// As eight bytes of a packet.
    #[inline]
    pub const fn to_wire(self) -> u64 {
        self.0
    }

    /// The slot.
    #[inline]
    pub const fn slot(self) -> u16 {
        self.0 as u16
    }

    /// The call's number in its slot, from 1.
    #[inline]
    pub const fn sequence(self) -> u64 {
        self.0 >> 16
    }
}

/// What every packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What kind of packet it is.
    pub opcode: Opcode,
    /// Bits that go with any opcode.
    pub flags: Flags,
    /// The session, as the packet's receiver numbered it.
    pub session: WireSession,
    /// The call, for packets that are about one.
    pub call: CallKey,
}

impl Header {
    /// Reads the header; the checksum is *not* looked at, because whether there must be one depends on the
    /// session.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let Some(bytes) = packet.first_chunk::<HEADER_BYTES>() else {
            return malformed("shorter than a header");
        };
        let Some(opcode) = Opcode::from_wire(bytes[4]) else { return malformed("unknown opcode") };
        let flags = Flags(bytes[5]);
        let session = WireSession(u64_at(bytes, 6)?);
        let call = CallKey::from_wire(u64_at(bytes, 14)?);
        Ok(Self { opcode, flags, session, call })
    }

    /// Whether a packet asks for a session, as far as its opcode says.
    #[inline]
    pub fn is_open(packet: &[u8]) -> bool {
        packet.get(CHECKSUM_BYTES) == Some(&(Opcode::Open as u8))
    }

    #[inline]
    pub(super) fn put(&self, head: &mut Head) {
        head.put([self.opcode as u8, self.flags.0]);
        head.put(self.session.0.to_le_bytes());
        head.put(self.call.to_wire().to_le_bytes());
    }
}

/// Whether a packet is as its sender sealed it.
#[inline]
pub fn checksum_matches(packet: &[u8]) -> bool {
    match packet.split_first_chunk::<CHECKSUM_BYTES>() {
        Some((sum, covered)) => checksum_of(covered) == u32::from_le_bytes(*sum),
        None => false,
    }
}

/// The checksum of everything that follows it in a packet.
#[inline]
pub(crate) fn checksum_of(covered: &[u8]) -> u32 {
    crc32c::crc32c(covered)
}
