//! Names as values of parameters, such as that of a device.

use core::fmt;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 31;

/// A name of 1 to 31 printable characters of ASCII, without spaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    length: u8,
}

impl Name {
    /// The name that `text` is; `None` for what can be none.
    pub fn parse(text: &str) -> Option<Self> {
        let valid =
            (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes.get_mut(..text.len()).filter(|_| valid)?.copy_from_slice(text.as_bytes());
        Some(Self { bytes, length: text.len() as u8 })
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).expect("names are ASCII")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({})", self.as_str())
    }
}
