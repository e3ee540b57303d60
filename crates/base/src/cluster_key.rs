//! The secret that all processes of a cluster share.

use core::fmt;

use zeroize::Zeroizing;

/// 32 bytes from which the keys of sessions are agreed. Wiped from memory when the last copy is dropped, and
/// shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey(Zeroizing<[u8; ClusterKey::BYTES]>);

impl ClusterKey {
    /// The length of a key.
    pub const BYTES: usize = 32;

    /// The most keys that a process has: one that it uses, and others that are on their way in or out.
    pub const RING_MAX: usize = 8;

    /// A key of these bytes, which nobody else may foretell.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The key that 64 hexadecimal digits stand for.
    pub fn from_digits(digits: &[u8]) -> Option<Self> {
        from_digits(digits).map(Self)
    }

    /// The 64 hexadecimal digits that stand for the key.
    pub fn to_digits(&self) -> Zeroizing<String> {
        to_digits(&self.0)
    }

    /// The secret itself, for the function that derives something from it.
    pub fn expose(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// The 32 bytes that 64 hexadecimal digits stand for.
pub(crate) fn from_digits(digits: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(digits.chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(digits[0])? << 4 | digit(digits[1])?) as u8;
    }
    Some(bytes)
}

/// The 64 hexadecimal digits that stand for 32 bytes.
pub(crate) fn to_digits(bytes: &[u8; 32]) -> Zeroizing<String> {
    let mut digits = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            digits.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    digits
}

/// Shows nothing of the secret.
impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_hexadecimal_digits_and_is_written_as_them() {
        let key = ClusterKey::from_digits(&b"0fA1".repeat(16)).expect("it is a key");
        assert_eq!(key.expose()[..4], [0x0f, 0xa1, 0x0f, 0xa1]);
        assert_eq!(*key.to_digits(), "0fa1".repeat(16));
        for wrong in [&b"0f"[..], &b"0g".repeat(32), &b"0f".repeat(33), b""] {
            assert_eq!(ClusterKey::from_digits(wrong), None);
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", ClusterKey::new([7; 32])), "ClusterKey");
    }
}
