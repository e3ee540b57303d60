//! Short texts as values of parameters, such as the name of a device or the path of a folder.

use core::fmt;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 31;

/// The longest path or rule, in bytes.
pub const TEXT_BYTES_MAX: usize = 127;

/// A name of 1 to 31 printable characters of ASCII, without spaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    length: u8,
}

impl Name {
    /// The name that `text` is; `None` for what can be none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; NAME_BYTES_MAX];
        let valid = is_word(text, NAME_BYTES_MAX);
        bytes.get_mut(..text.len()).filter(|_| valid)?.copy_from_slice(text.as_bytes());
        Some(Self { bytes, length: text.len() as u8 })
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).expect("names are ASCII")
    }
}

/// A path or a rule of 1 to 127 printable characters of ASCII, without spaces.
///
/// Values of parameters are small and copied, so each text that was ever read is stored once, for the life of
/// the process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text(&'static str);

impl Text {
    /// The path or rule that `text` is; `None` for what can be none.
    pub fn parse(text: &str) -> Option<Self> {
        static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        if !is_word(text, TEXT_BYTES_MAX) {
            return None;
        }
        let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = texts.get(text).copied();
        Some(Self(stored.unwrap_or_else(|| {
            let stored: &'static str = Box::leak(text.into());
            texts.insert(stored);
            stored
        })))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        self.0
    }
}

fn is_word(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
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

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({})", self.as_str())
    }
}
