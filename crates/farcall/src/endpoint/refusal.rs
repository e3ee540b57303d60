//! What a handler says beside the code with which it refuses.

use core::fmt;
use core::ops::Deref;

use farcall_base::printable;

/// Bytes of a reason that are sent. The rest is cut off.
pub const REASON_BYTES_MAX: usize = 1024;

/// Why a handler refused, in its own words; empty where it gave none. It comes from the peer: characters that
/// could control a terminal are escaped.
#[derive(Clone, Default, PartialEq, Eq)]
// One word, so that the outcome of a call has no word more for the rarest of them.
pub struct Reason(Option<Box<Box<str>>>);

impl Reason {
    /// What came with a refusal.
    pub(super) fn received(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::default();
        }
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(REASON_BYTES_MAX)]);
        printable(&text).into_owned().into()
    }
}

/// As much of a reason as is sent.
pub(super) fn sent(why: &str) -> &[u8] {
    let mut end = why.len().min(REASON_BYTES_MAX);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    &why.as_bytes()[..end]
}

impl Deref for Reason {
    type Target = str;

    fn deref(&self) -> &str {
        self.0.as_deref().map_or("", |text| text)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self((!text.is_empty()).then(|| Box::new(text.into_boxed_str())))
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// As the end of a sentence: `: it is closed today`, or nothing.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &**self {
            "" => Ok(()),
            text => write!(f, ": {text}"),
        }
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters() {
        let long = "é".repeat(REASON_BYTES_MAX);
        assert_eq!(sent(&format!("a{long}")).len(), REASON_BYTES_MAX - 1);
        assert_eq!(&*Reason::received(sent(&long)), "é".repeat(REASON_BYTES_MAX / 2));
    }

    #[test]
    fn whatever_a_peer_says_is_text_that_can_be_shown() {
        assert_eq!(&*Reason::received(b"a\x1b[2J\xff"), "a\\u{1b}[2J\u{fffd}");
        assert!(Reason::received(&vec![0; 1 << 20]).len() <= REASON_BYTES_MAX * "\\u{0}".len());
        assert_eq!(Reason::received(b"").to_string(), "");
        assert_eq!(Reason::received(b"closed").to_string(), ": closed");
    }
}
