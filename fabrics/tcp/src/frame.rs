//! The bytes of a connection: a preamble each way, then frames. `docs/protocol/tcp.md` specifies them.
//!
//! A frame has four bytes in front: the length of what follows (24 bits, little-endian) and its kind. A short
//! message is one frame. A long one is announced, then comes in pieces, so that others can leave in between.

use farcall_transport::{ARRIVAL_HEAD_BYTES_MAX, COMPOSED_FRONT_BYTES_MAX};

/// What each side sends first: who speaks, and the newest version that it speaks.
pub const PREAMBLE: [u8; 8] = *b"farcall\x01";
/// Where the version is in a preamble.
const VERSION_AT: usize = 7;

/// What is in front of every frame.
pub const FRAME_HEADER_BYTES: usize = 4;
/// The longest payload of a message in one frame.
pub const WHOLE_PAYLOAD_BYTES_MAX: usize = 16 << 10;
/// The longest frame of a whole message behind its header.
pub const WHOLE_BYTES_MAX: usize = WHOLE_PAYLOAD_BYTES_MAX + COMPOSED_FRONT_BYTES_MAX;
/// Behind the header of a frame that announces a long message: the stream, the length of the payload.
const LONG_FIXED_BYTES: usize = 1 + 4;
/// In front of a piece: the frame's header and the stream.
pub const PIECE_FRONT_BYTES: usize = FRAME_HEADER_BYTES + 1;
/// The most bytes in front of the first piece of a message.
pub const LONG_FRONT_BYTES_MAX: usize =
    FRAME_HEADER_BYTES + LONG_FIXED_BYTES + ARRIVAL_HEAD_BYTES_MAX + PIECE_FRONT_BYTES;
/// The most long messages that come in pieces at a time.
pub const STREAMS_MAX: usize = 16;
/// The longest piece that a frame can have.
pub const PIECE_BYTES_MAX: usize = (1 << 24) - 2;

const WHOLE: u8 = 1;
const LONG: u8 = 2;
const PIECE: u8 = 3;

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// What came first is no preamble: the other side is no endpoint of this transport.
    #[error("what answers there does not speak farcall over TCP")]
    NotFarcall,
    /// A frame of a kind that does not exist, or whose length cannot be.
    #[error("a frame that no correct peer sends")]
    Malformed,
    /// A message over the limit that this side has.
    #[error("a message over the limit of this side")]
    TooLong,
    /// There is no memory for a message that was announced.
    #[error("no memory for a message that was announced")]
    NoMemory,
}

/// Whether `bytes` begin as a preamble does; `None` until it is complete.
pub fn check_preamble(bytes: &[u8]) -> Result<bool, FrameFault> {
    let named = bytes.len().min(VERSION_AT);
    if bytes[..named] != PREAMBLE[..named] {
        return Err(FrameFault::NotFarcall);
    }
    match bytes.get(VERSION_AT) {
        None => Ok(false),
        // A later version speaks this one too, as long as it has not heard of a later one.
        Some(0) => Err(FrameFault::NotFarcall),
        Some(_) => Ok(true),
    }
}

/// A frame's first bytes, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'b> {
    /// A composed message.
    Whole(&'b [u8]),
    /// A message of `bytes` bytes with this head comes in pieces.
    Long {
        /// Its number among those that come at a time.
        stream: u8,
        /// The length of the payload.
        bytes: usize,
        /// The head.
        head: &'b [u8],
    },
    /// The next bytes of a long message begin behind [`PIECE_FRONT_BYTES`].
    Piece {
        /// Which message.
        stream: u8,
        /// How many bytes.
        bytes: usize,
    },
}

/// The frame at the start of `bytes`, and how many of them it takes (of a piece its front only); `None` until
/// enough of it is there.
pub fn parse(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameFault> {
    let Some((&header, rest)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else { return Ok(None) };
    let length = (u32::from_le_bytes(header) & 0x00ff_ffff) as usize;
    let kind = header[3];
    let valid = match kind {
        WHOLE => (1..=WHOLE_BYTES_MAX).contains(&length),
        LONG => (LONG_FIXED_BYTES..=LONG_FIXED_BYTES + ARRIVAL_HEAD_BYTES_MAX).contains(&length),
        PIECE => length > 1,
        _ => false,
    };
    if !valid {
        return Err(FrameFault::Malformed);
    }
    if kind == PIECE {
        let Some(&stream) = rest.first() else { return Ok(None) };
        return Ok(Some((Frame::Piece { stream, bytes: length - 1 }, PIECE_FRONT_BYTES)));
    }
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let frame = if kind == WHOLE {
        Frame::Whole(body)
    } else {
        let bytes = u32::from_le_bytes([body[1], body[2], body[3], body[4]]) as usize;
        Frame::Long { stream: body[0], bytes, head: &body[LONG_FIXED_BYTES..] }
    };
    Ok(Some((frame, FRAME_HEADER_BYTES + length)))
}

#[inline]
fn header(kind: u8, length: usize) -> [u8; FRAME_HEADER_BYTES] {
    debug_assert!(length < 1 << 24, "a frame's length has 24 bits");
    (length as u32 | u32::from(kind) << 24).to_le_bytes()
}

/// Appends a message as one frame.
///
/// # Panics
/// With a head longer than [`ARRIVAL_HEAD_BYTES_MAX`].
#[inline]
pub fn put_whole(out: &mut Vec<u8>, head: &[u8], payload: &[u8]) {
    assert!(head.len() <= ARRIVAL_HEAD_BYTES_MAX, "heads are short");
    let length = 1 + head.len() + payload.len();
    out.reserve(FRAME_HEADER_BYTES + length);
    out.extend_from_slice(&header(WHOLE, length));
    out.push(head.len() as u8);
    out.extend_from_slice(head);
    out.extend_from_slice(payload);
}

/// Appends a composed message as one frame.
#[inline]
pub fn put_composed(out: &mut Vec<u8>, message: &[u8]) {
    out.reserve(FRAME_HEADER_BYTES + message.len());
    out.extend_from_slice(&header(WHOLE, message.len()));
    out.extend_from_slice(message);
}

/// What is in front of a piece.
#[derive(Clone, Copy)]
pub struct Front {
    bytes: [u8; LONG_FRONT_BYTES_MAX],
    length: u8,
}

impl Front {
    /// Of the first piece, of `piece_bytes`: the announcement lies before it.
    pub fn first(stream: u8, head: &[u8], total: usize, piece_bytes: usize) -> Self {
        let mut front = Self { bytes: [0; LONG_FRONT_BYTES_MAX], length: 0 };
        front.put(&header(LONG, LONG_FIXED_BYTES + head.len()));
        front.put(&[stream]);
        front.put(&(total as u32).to_le_bytes());
        front.put(head);
        front.put_piece(stream, piece_bytes);
        front
    }

    /// Of a later one.
    pub fn next(stream: u8, piece_bytes: usize) -> Self {
        let mut front = Self { bytes: [0; LONG_FRONT_BYTES_MAX], length: 0 };
        front.put_piece(stream, piece_bytes);
        front
    }

    fn put_piece(&mut self, stream: u8, piece_bytes: usize) {
        self.put(&header(PIECE, 1 + piece_bytes));
        self.put(&[stream]);
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = usize::from(self.length);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len() as u8;
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}
