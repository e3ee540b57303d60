//! What the two ends of a packet connection tell each other: who they are and where their packets may go.

use super::layout::Layout;
use crate::place::is_name;

const MAGIC: [u8; 4] = *b"fDGM";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 12;

/// One end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// How its slots lie in its segment.
    pub layout: Layout,
    /// The name of the socket at which it takes connections.
    pub name: Vec<u8>,
}

impl Hello {
    /// The hello on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.name.len());
        bytes.extend(MAGIC);
        bytes.extend([VERSION, 0, 0, 0]);
        bytes.extend((self.layout.slots as u16).to_le_bytes());
        bytes.extend((self.layout.mtu_bytes as u16).to_le_bytes());
        bytes.extend(&self.name);
        bytes
    }

    /// The hello that the bytes mean; `None` when a correct peer of this version does not send them.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (header, name) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        if header[..4] != MAGIC || header[4] != VERSION || !is_name(name) {
            return None;
        }
        let number = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        Some(Self { layout: Layout::new(number(8), number(10))?, name: name.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &[u8] = b"farcall-00112233445566778899aabbccddeeff";

    fn hello() -> Hello {
        Hello { layout: Layout::new(256, 8192).expect("a layout"), name: NAME.to_vec() }
    }

    #[test]
    fn a_hello_has_these_bytes() {
        let golden = [b"fDGM\x01\x00\x00\x00\x00\x01\x00\x20", NAME].concat();
        assert_eq!(hello().encode(), golden);
        assert_eq!(Hello::decode(&golden), Some(hello()));
    }

    #[test]
    fn anything_else_is_refused() {
        let golden = hello().encode();
        for length in 0..golden.len() {
            assert_eq!(Hello::decode(&golden[..length]), None, "cut to {length}");
        }
        for (place, value) in [(0, b'x'), (4, 2), (12, b'F'), (20, b'g')] {
            let mut wrong = golden.clone();
            wrong[place] = value;
            assert_eq!(Hello::decode(&wrong), None, "{value} at {place}");
        }
        let mut no_slots = golden;
        no_slots[8..10].fill(0);
        assert_eq!(Hello::decode(&no_slots), None);
    }
}
