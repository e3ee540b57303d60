//! The probes between two doctors, version 1: datagrams that begin with a header and are padded with zeros.
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | 8 bytes | `FCDOCTOR` |
//! | 8 | u8 | version, 1 |
//! | 9 | u8 | 1 of a probe, 2 of its echo |
//! | 10 | u16 | length of a datagram: of a probe the one wanted back, of an echo that of the probe |
//! | 12 | u32 | number of the probe |
//! | 16 | u64 | the asking process, at random |
//!
//! Numbers are little-endian. An echo is never longer than its probe, so that nobody can be made to flood
//! others.

/// What they begin with.
const MAGIC: [u8; 8] = *b"FCDOCTOR";
const VERSION: u8 = 1;

/// The length of the header, and of the shortest probe.
pub const HEADER_BYTES: usize = 24;

/// The longest payload of a datagram.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Probe,
    Echo,
}

/// The begin of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    /// Of a probe the length of the echo that it wants, of an echo that of the probe that arrived.
    pub bytes: u16,
    pub number: u32,
    pub asker: u64,
}

impl Header {
    /// As the first bytes of a datagram.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let Self { kind, bytes, number, asker } = self;
        let mut encoded = [0; HEADER_BYTES];
        encoded[..8].copy_from_slice(&MAGIC);
        encoded[8] = VERSION;
        encoded[9] = match kind {
            Kind::Probe => 1,
            Kind::Echo => 2,
        };
        encoded[10..12].copy_from_slice(&bytes.to_le_bytes());
        encoded[12..16].copy_from_slice(&number.to_le_bytes());
        encoded[16..].copy_from_slice(&asker.to_le_bytes());
        encoded
    }

    /// The header of a datagram; `None` if it is none of ours.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let header = datagram.first_chunk::<HEADER_BYTES>()?;
        if header[..8] != MAGIC || header[8] != VERSION {
            return None;
        }
        let kind = match header[9] {
            1 => Kind::Probe,
            2 => Kind::Echo,
            _ => return None,
        };
        Some(Self {
            kind,
            bytes: u16::from_le_bytes([header[10], header[11]]),
            number: u32::from_le_bytes(*header[12..].first_chunk()?),
            asker: u64::from_le_bytes(*header[16..].first_chunk()?),
        })
    }

    /// The header of the echo of a probe of this many bytes, and the length of the echo.
    pub fn echo(self, probe_bytes: usize) -> (Self, usize) {
        let wanted = usize::from(self.bytes).clamp(HEADER_BYTES, probe_bytes.max(HEADER_BYTES));
        (Self { kind: Kind::Echo, bytes: probe_bytes as u16, ..self }, wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Header = Header { kind: Kind::Probe, bytes: 1472, number: 7, asker: 9 };

    #[test]
    fn headers_are_read_as_they_were_written() {
        for header in [PROBE, Header { kind: Kind::Echo, ..PROBE }] {
            assert_eq!(Header::decode(&header.encode()), Some(header));
        }
        let mut other = PROBE.encode();
        other[9] = 3;
        assert_eq!(Header::decode(&other), None);
        assert_eq!(Header::decode(&PROBE.encode()[1..]), None);
    }

    #[test]
    fn an_echo_is_never_longer_than_its_probe() {
        let length = |wanted, probe_bytes| Header { bytes: wanted, ..PROBE }.echo(probe_bytes).1;
        assert_eq!((length(1472, 1472), length(24, 1472)), (1472, 24));
        assert_eq!(length(u16::MAX, 100), 100);
        assert_eq!(length(0, 100), HEADER_BYTES);
    }
}
