//! The fields of which the messages of the rendezvous are made: little-endian numbers, and bytes after their
//! length.

/// What is wrong with a message; the connection that it came over is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// Reads the fields of a message in order.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// As many bytes as the 16-bit length before them says.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::from(self.u16()?);
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A text of 1 to `bytes_max` bytes.
    pub(super) fn text(&mut self, bytes_max: usize) -> Result<String, Malformed> {
        let bytes = self.bytes()?;
        if bytes.is_empty() || bytes.len() > bytes_max {
            return Err(Malformed("a text is empty or too long"));
        }
        str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed("a text is not UTF-8"))
    }

    /// Exactly `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// Checks that nothing is left.
    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("the message is longer than its fields")) }
    }
}

const TOO_SHORT: Malformed = Malformed("the message is shorter than its fields");

/// Appends bytes after their 16-bit length.
///
/// # Panics
/// When they are longer than such a length can say; callers have checked them against far lower bounds.
pub(super) fn put_bytes(message: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("bounded by the caller");
    message.extend_from_slice(&length.to_le_bytes());
    message.extend_from_slice(bytes);
}
