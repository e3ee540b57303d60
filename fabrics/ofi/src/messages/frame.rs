//! What travels in a tagged message of libfabric: whole messages, and the announcements of long payloads.
//!
//! | byte | |
//! |---|---|
//! | 0 | length of the head; the uppermost bit says that the payload follows with a tag of its own |
//! | 1… | the head |
//! | then | the payload; or its length and its tag, eight bytes each, little endian |
//!
//! A message that travels whole is thus a composed one, as it is.
//!
//! Tags use 48 bits, which every provider for clusters has: 0 for frames; for payloads the uppermost bit, the
//! number of the sender's endpoint and a number that counts on.

use farcall_transport::{ARRIVAL_HEAD_BYTES_MAX, COMPOSED_FRONT_BYTES_MAX};

/// The bits of a tag that are used.
pub const TAG_BITS: u32 = 48;
/// The tag of all frames.
pub const FRAME_TAG: u64 = 0;

const PAYLOAD_TAG: u64 = 1 << (TAG_BITS - 1);
const SERIAL_BITS: u32 = 16;
/// The bits of an endpoint's number.
const NUMBER_MASK: u32 = u32::MAX >> 1;

const ANNOUNCES: u8 = 0x80;
const ANNOUNCEMENT_BYTES: usize = 16;

/// What a frame has besides the payload, at most, in bytes.
pub const FRAME_OVERHEAD_MAX: usize = COMPOSED_FRONT_BYTES_MAX + ANNOUNCEMENT_BYTES;

/// The number of an endpoint, from a number drawn at random.
pub const fn endpoint_number(drawn: u64) -> u32 {
    drawn as u32 & NUMBER_MASK
}

/// The tag of the payload with that serial number.
pub fn payload_tag(endpoint: u32, serial: u16) -> u64 {
    PAYLOAD_TAG | u64::from(endpoint) << SERIAL_BITS | u64::from(serial)
}

/// The number of the endpoint that sends the payload with that tag.
pub fn sender_of(tag: u64) -> u32 {
    (tag >> SERIAL_BITS) as u32 & NUMBER_MASK
}

/// What a frame brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A composed message, whose payload is the rest.
    Whole,
    /// A message whose payload of this many bytes follows.
    Announced { bytes: usize, tag: u64 },
}

/// The length of the head, which begins at byte 1, and what else there is; `None` for what no correct peer
/// sends.
pub fn parse(frame: &[u8]) -> Option<(usize, Contents)> {
    let (&first, rest) = frame.split_first()?;
    let head_bytes = usize::from(first & !ANNOUNCES);
    let rest = rest.get(head_bytes..).filter(|_| head_bytes <= ARRIVAL_HEAD_BYTES_MAX)?;
    if first & ANNOUNCES == 0 {
        return Some((head_bytes, Contents::Whole));
    }
    let rest: &[u8; ANNOUNCEMENT_BYTES] = rest.try_into().ok()?;
    let word = |at: usize| u64::from_le_bytes(rest[at..at + 8].try_into().expect("eight bytes"));
    let (bytes, tag) = (usize::try_from(word(0)).ok()?, word(8));
    let is_payload = tag & PAYLOAD_TAG != 0 && tag >> TAG_BITS == 0;
    is_payload.then_some((head_bytes, Contents::Announced { bytes, tag }))
}

/// Writes the announcement of a payload.
pub fn put_announcement(frame: &mut Vec<u8>, head: &[u8], bytes: usize, tag: u64) {
    frame.clear();
    frame.push(ANNOUNCES | head.len() as u8);
    frame.extend_from_slice(head);
    frame.extend_from_slice(&(bytes as u64).to_le_bytes());
    frame.extend_from_slice(&tag.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use farcall_transport::compose;

    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut frame = Vec::new();
        compose(&mut frame, b"head");
        frame.extend_from_slice(b"payload");
        assert_eq!(parse(&frame), Some((4, Contents::Whole)));
        assert_eq!((&frame[1..5], &frame[5..]), (&b"head"[..], &b"payload"[..]));
        let tag = payload_tag(endpoint_number(u64::MAX), 9);
        put_announcement(&mut frame, b"", 1 << 20, tag);
        assert_eq!(parse(&frame), Some((0, Contents::Announced { bytes: 1 << 20, tag })));
        assert_eq!(sender_of(tag), endpoint_number(u64::MAX));
        assert_eq!(sender_of(payload_tag(3, u16::MAX)), 3);
        assert_eq!(tag >> TAG_BITS, 0);
    }

    #[test]
    fn frames_that_no_peer_sends_are_refused() {
        let mut frame = Vec::new();
        put_announcement(&mut frame, b"head", 5, payload_tag(1, 2));
        for length in 0..frame.len() {
            assert_eq!(parse(&frame[..length]), None, "cut at {length}");
        }
        put_announcement(&mut frame, b"head", 5, FRAME_TAG);
        assert_eq!(parse(&frame), None, "a tag that is no payload's");
        put_announcement(&mut frame, b"head", 5, payload_tag(1, 2) | 1 << TAG_BITS);
        assert_eq!(parse(&frame), None, "a tag that is too long");
        assert_eq!(parse(&[65; 100]), None, "a head that is too long");
        assert_eq!(parse(&[4, 0, 0]), None, "a head that is cut off");
    }
}
