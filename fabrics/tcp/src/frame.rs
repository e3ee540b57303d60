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

/// The first byte of an alert of TLS.
const TLS_ALERT: u8 = 0x15;

const WHOLE: u8 = 1;
const LONG: u8 = 2;
const PIECE: u8 = 3;

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// What came first is no preamble: the other side is no endpoint of this transport.
    #[error("what answers there does not speak farcall over TCP")]
    NotFarcall,
    /// TLS answers where frames were expected.
    #[error("what answers there speaks TLS: use tcp+tls")]
    SpeaksTls,
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
    // What TLS says first to one whose words it does not understand.
    if bytes.first() == Some(&TLS_ALERT) {
        return Err(FrameFault::SpeaksTls);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the page of the protocol.
    fn golden() -> Vec<Vec<u8>> {
        let page = include_str!("../../../docs/protocol/tcp.md");
        let block = page.split("```golden\n").nth(1).and_then(|rest| rest.split("```").next());
        let lines = block.expect("a block").lines();
        let bytes = lines.map(|line| line.split_once(": ").expect("a name and bytes").1);
        bytes
            .map(|bytes| {
                let bytes = bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16));
                bytes.collect::<Result<_, _>>().expect("hexadecimal bytes")
            })
            .collect()
    }

    #[test]
    fn frames_are_those_of_the_page() {
        let mut whole = Vec::new();
        put_whole(&mut whole, &[1, 2, 3], b"hi");
        let first = Front::first(5, &[1, 2, 3], 20_000, 16_384);
        let next = Front::next(5, 3616);
        let written = [PREAMBLE.to_vec(), whole, first.as_bytes().to_vec(), next.as_bytes().to_vec()];
        assert_eq!(golden(), written);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut whole = Vec::new();
        put_composed(&mut whole, &[1, 7, 8, 9]);
        assert_eq!(parse(&whole), Ok(Some((Frame::Whole(&[1, 7, 8, 9]), whole.len()))));
        let front = Front::first(3, b"head", 70_000, 500);
        let (long, taken) = parse(front.as_bytes()).expect("it is valid").expect("it is complete");
        assert_eq!(long, Frame::Long { stream: 3, bytes: 70_000, head: b"head" });
        let rest = &front.as_bytes()[taken..];
        assert_eq!(parse(rest), Ok(Some((Frame::Piece { stream: 3, bytes: 500 }, rest.len()))));
    }

    #[test]
    fn a_frame_that_is_not_complete_is_waited_for() {
        let mut whole = Vec::new();
        put_whole(&mut whole, b"head", &[1; 100]);
        let front = Front::first(3, b"head", 70_000, 500);
        for frame in [&whole[..], front.as_bytes()] {
            let (_, bytes) = parse(frame).expect("valid").expect("complete");
            for cut in 0..bytes {
                assert_eq!(parse(&frame[..cut]), Ok(None), "{cut} bytes");
            }
        }
    }

    #[test]
    fn kinds_and_lengths_that_do_not_exist_are_refused() {
        let over = (WHOLE_BYTES_MAX as u32 + 1).to_le_bytes();
        let wrong: [[u8; 4]; 8] = [
            [1, 0, 0, 0],
            [1, 0, 0, 4],
            [0, 0, 0, 1],
            [over[0], over[1], over[2], 1],
            [4, 0, 0, 2],
            [70, 0, 0, 2],
            [1, 0, 0, 3],
            [0, 0, 0, 255],
        ];
        for header in wrong {
            assert_eq!(parse(&header), Err(FrameFault::Malformed), "{header:?}");
        }
    }

    #[test]
    fn a_preamble_is_recognised_by_its_name_and_any_later_version() {
        assert_eq!(check_preamble(b""), Ok(false));
        assert_eq!(check_preamble(&PREAMBLE[..7]), Ok(false));
        assert_eq!(check_preamble(&PREAMBLE), Ok(true));
        assert_eq!(check_preamble(b"farcall\x02more"), Ok(true));
        for other in [&b"GET / HTTP/1.1"[..], b"f!", b"farcall\0", b"\x16\x03\x01"] {
            assert_eq!(check_preamble(other), Err(FrameFault::NotFarcall), "{other:?}");
        }
    }
}
