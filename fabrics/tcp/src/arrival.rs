//! Messages that have arrived, until they are given back.

use std::sync::Arc;

use farcall_transport::{ARRIVAL_HEAD_BYTES_MAX, Arrival, Incoming, Payload};

/// The longest message that is copied out of the buffer into which it was read: the copy costs less than a
/// buffer that cannot be read into meanwhile.
pub const COPIED_BYTES_MAX: usize = 256;

/// A head that is kept apart from its payload.
#[derive(Clone, Copy)]
pub struct HeadBytes {
    bytes: [u8; ARRIVAL_HEAD_BYTES_MAX],
    length: u8,
}

impl HeadBytes {
    /// A copy.
    ///
    /// # Panics
    /// With more than [`ARRIVAL_HEAD_BYTES_MAX`] bytes.
    pub fn copy(head: &[u8]) -> Self {
        let mut bytes = [0; ARRIVAL_HEAD_BYTES_MAX];
        bytes[..head.len()].copy_from_slice(head);
        Self { bytes, length: head.len() as u8 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A message that has arrived.
pub struct TcpArrival {
    /// The number of the connection.
    pub(crate) from: u32,
    pub(crate) body: Body,
}

/// Where it is.
pub enum Body {
    /// A composed message, copied into memory that is used again. Its head is known to be complete.
    Copied(Vec<u8>),
    /// A composed message in the buffer into which it was read.
    InBuffer { buffer: Arc<Vec<u8>>, begin: usize, end: usize },
    /// What came in pieces.
    Long { head: HeadBytes, payload: Payload },
}

/// Head and payload of a composed message that was found to have both.
#[inline]
fn split(message: &[u8]) -> (&[u8], &[u8]) {
    let (&head_bytes, rest) = message.split_first().expect("a composed message has a first byte");
    rest.split_at(usize::from(head_bytes))
}

impl Arrival for TcpArrival {
    #[inline]
    fn head(&self) -> &[u8] {
        match &self.body {
            Body::Copied(message) => split(message).0,
            Body::InBuffer { buffer, begin, end } => split(&buffer[*begin..*end]).0,
            Body::Long { head, .. } => head.as_bytes(),
        }
    }

    #[inline]
    fn payload(&self) -> Incoming<'_> {
        match &self.body {
            Body::Copied(message) => Incoming::Borrowed(split(message).1),
            Body::InBuffer { buffer, begin, end } => Incoming::Borrowed(split(&buffer[*begin..*end]).1),
            Body::Long { payload, .. } => Incoming::Owned(payload),
        }
    }
}
