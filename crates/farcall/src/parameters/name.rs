//! Short texts as values of parameters, such as the name of a device or the path of a folder.

use core::fmt;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 31;

/// The longest path or rule, in bytes.
pub const TEXT_BYTES_MAX: usize = 127;

/// A text of 1 to `MAX` printable characters of ASCII, without spaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word<const MAX: usize> {
    bytes: [u8; MAX],
    length: u8,
}

/// The name of something.
pub type Name = Word<NAME_BYTES_MAX>;

/// A path or a rule.
pub type Text = Word<TEXT_BYTES_MAX>;

impl<const MAX: usize> Word<MAX> {
    /// The word that `text` is; `None` for what can be none.
    pub fn parse(text: &str) -> Option<Self> {
        let valid = (1..=MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        let mut bytes = [0; MAX];
        bytes.get_mut(..text.len()).filter(|_| valid)?.copy_from_slice(text.as_bytes());
        Some(Self { bytes, length: text.len() as u8 })
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).expect("words are ASCII")
    }
}

impl<const MAX: usize> fmt::Display for Word<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<const MAX: usize> fmt::Debug for Word<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}
