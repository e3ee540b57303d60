//! Capture files of the pcapng format, written block by block.
//!
//! Source: draft-ietf-opsawg-pcapng. One section, one interface of Ethernet frames, times in nanoseconds, one
//! enhanced packet block per packet. A driver's packets are put into Ethernet, IPv4 and UDP headers, so that
//! everything that reads captures shows them; the checksum of UDP is absent (zero), which IPv4 allows.

use std::io::{self, Write};

/// The UDP port of every captured packet; not assigned to any protocol.
pub const CAPTURE_PORT: u16 = 52_517;
/// The longest payload that fits an IPv4 packet; longer packets are captured up to here.
pub const PAYLOAD_BYTES_MAX: usize = 65_535 - IPV4_BYTES - UDP_BYTES;

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const HEADER_BYTES: usize = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINK_ETHERNET: u16 = 1;

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Received = 1,
    Sent = 2,
}

/// The two ends of a packet, as IPv4 addresses that stand for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    pub source: [u8; 4],
    pub destination: [u8; 4],
}

/// Writes the blocks that come before all packets; `name` and `description` tell what was captured.
pub fn write_start(writer: &mut impl Write, name: &str, description: &str) -> io::Result<()> {
    let mut section = Vec::new();
    section.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
    section.extend_from_slice(&[1, 0, 0, 0]);
    section.extend_from_slice(&u64::MAX.to_le_bytes());
    put_option(&mut section, 4, b"farcall");
    put_option(&mut section, 0, b"");
    write_block(writer, SECTION_HEADER, &[&section])?;
    let mut interface = Vec::new();
    interface.extend_from_slice(&u32::from(LINK_ETHERNET).to_le_bytes());
    interface.extend_from_slice(&0_u32.to_le_bytes());
    put_option(&mut interface, 2, name.as_bytes());
    put_option(&mut interface, 3, description.as_bytes());
    // if_tsresol: times are in units of 10 to the power of -9 seconds.
    put_option(&mut interface, 9, &[9]);
    put_option(&mut interface, 0, b"");
    write_block(writer, INTERFACE_DESCRIPTION, &[&interface])
}

/// Writes one packet, made of `parts`, that passed at `nanos` since 1970.
pub fn write_packet(
    writer: &mut impl Write,
    nanos: u64,
    direction: Direction,
    ends: Ends,
    parts: &[&[u8]],
) -> io::Result<()> {
    let whole_bytes: usize = parts.iter().map(|part| part.len()).sum();
    let payload_bytes = whole_bytes.min(PAYLOAD_BYTES_MAX);
    let header = network_headers(ends, payload_bytes);
    let mut start = [0; 20];
    start[4..8].copy_from_slice(&((nanos >> 32) as u32).to_le_bytes());
    start[8..12].copy_from_slice(&(nanos as u32).to_le_bytes());
    start[12..16].copy_from_slice(&((HEADER_BYTES + payload_bytes) as u32).to_le_bytes());
    start[16..20].copy_from_slice(&((HEADER_BYTES + whole_bytes) as u32).to_le_bytes());
    let mut end = vec![0; padding(HEADER_BYTES + payload_bytes)];
    // epb_flags: the two lowest bits are the direction.
    put_option(&mut end, 2, &(direction as u32).to_le_bytes());
    put_option(&mut end, 0, b"");
    let mut content: Vec<&[u8]> = vec![&start, &header];
    let mut room = payload_bytes;
    for part in parts {
        let taken = part.len().min(room);
        content.push(&part[..taken]);
        room -= taken;
    }
    content.push(&end);
    write_block(writer, ENHANCED_PACKET, &content)
}

fn network_headers(ends: Ends, payload_bytes: usize) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    let (ethernet, rest) = bytes.split_at_mut(ETHERNET_BYTES);
    let (ipv4, udp) = rest.split_at_mut(IPV4_BYTES);
    // Locally administered addresses that repeat the IPv4 ones.
    ethernet[..2].copy_from_slice(&[2, 0]);
    ethernet[2..6].copy_from_slice(&ends.destination);
    ethernet[6..8].copy_from_slice(&[2, 0]);
    ethernet[8..12].copy_from_slice(&ends.source);
    ethernet[12..].copy_from_slice(&[0x08, 0x00]);
    ipv4[0] = 0x45;
    ipv4[2..4].copy_from_slice(&((IPV4_BYTES + UDP_BYTES + payload_bytes) as u16).to_be_bytes());
    // Do not fragment; 64 hops; UDP.
    ipv4[6] = 0x40;
    ipv4[8..10].copy_from_slice(&[64, 17]);
    ipv4[12..16].copy_from_slice(&ends.source);
    ipv4[16..].copy_from_slice(&ends.destination);
    let checksum = internet_checksum(ipv4);
    ipv4[10..12].copy_from_slice(&checksum.to_be_bytes());
    udp[..2].copy_from_slice(&CAPTURE_PORT.to_be_bytes());
    udp[2..4].copy_from_slice(&CAPTURE_PORT.to_be_bytes());
    udp[4..6].copy_from_slice(&((UDP_BYTES + payload_bytes) as u16).to_be_bytes());
    bytes
}

/// RFC 1071 over an even number of bytes.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

fn write_block(writer: &mut impl Write, kind: u32, content: &[&[u8]]) -> io::Result<()> {
    let content_bytes: usize = content.iter().map(|part| part.len()).sum();
    debug_assert_eq!(content_bytes % 4, 0, "blocks are padded to four bytes");
    let block_bytes = ((12 + content_bytes) as u32).to_le_bytes();
    writer.write_all(&kind.to_le_bytes())?;
    writer.write_all(&block_bytes)?;
    content.iter().try_for_each(|part| writer.write_all(part))?;
    writer.write_all(&block_bytes)
}

fn put_option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    block.extend_from_slice(&code.to_le_bytes());
    block.extend_from_slice(&(value.len() as u16).to_le_bytes());
    block.extend_from_slice(value);
    block.resize(block.len() + padding(value.len()), 0);
}

/// Zero bytes that make `bytes` a multiple of four.
fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(4) - bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_rfc() {
        // The example of RFC 1071, section 3.
        assert_eq!(internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        let headers = network_headers(Ends { source: [10, 0, 0, 1], destination: [10, 0, 0, 2] }, 5);
        assert_eq!(internet_checksum(&headers[ETHERNET_BYTES..][..IPV4_BYTES]), 0, "the header sums to zero");
    }

    #[test]
    fn a_packet_block_is_what_the_format_says() {
        let mut block = Vec::new();
        let ends = Ends { source: [10, 0, 0, 1], destination: [10, 0, 0, 2] };
        write_packet(&mut block, 0x1_0000_0002, Direction::Sent, ends, &[b"abc", b"de"])
            .expect("a vector takes all");
        let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four"));
        assert_eq!(
            (word(0), word(4) as usize, word(block.len() - 4) as usize),
            (6, block.len(), block.len())
        );
        assert_eq!((word(8), word(12), word(16), word(20), word(24)), (0, 1, 2, 47, 47));
        assert_eq!(&block[28 + HEADER_BYTES..][..8], b"abcde\0\x02\0", "payload, padding, the flags option");
    }
}
