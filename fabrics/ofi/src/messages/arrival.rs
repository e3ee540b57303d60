//! Messages that have arrived, until they are given back.

use farcall_transport::{Arrival, Incoming, Payload};

/// A message that has arrived.
pub struct OfiArrival(pub Arrived);

pub enum Arrived {
    /// In a buffer for frames, which goes back.
    Frame {
        buffer: u32,
        memory: Vec<u8>,
        head_bytes: usize,
        bytes: usize,
    },
    Fetched {
        head: Vec<u8>,
        payload: Payload,
    },
}

impl Arrival for OfiArrival {
    #[inline]
    fn head(&self) -> &[u8] {
        match &self.0 {
            Arrived::Frame { memory, head_bytes, .. } => &memory[1..1 + head_bytes],
            Arrived::Fetched { head, .. } => head,
        }
    }

    #[inline]
    fn payload(&self) -> Incoming<'_> {
        match &self.0 {
            Arrived::Frame { memory, head_bytes, bytes, .. } => {
                Incoming::Borrowed(&memory[1 + head_bytes..*bytes])
            }
            Arrived::Fetched { payload, .. } => Incoming::Owned(payload),
        }
    }
}
