//! The key pair by which a process is known: X25519, of which one half is secret and the other is told.

use core::fmt;

use zeroize::Zeroizing;

use crate::cluster_key::{from_digits, to_digits};

/// The secret half. Wiped from memory when the last copy is dropped, and shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(Zeroizing<[u8; PrivateKey::BYTES]>);

impl PrivateKey {
    /// The length of a key.
    pub const BYTES: usize = 32;

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

    /// The secret itself, for the handshake.
    pub fn expose(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

/// The half that peers are given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; PublicKey::BYTES]);

impl PublicKey {
    /// The length of a key.
    pub const BYTES: usize = 32;

    /// The key that 64 hexadecimal digits stand for.
    pub fn from_digits(digits: &[u8]) -> Option<Self> {
        from_digits(digits).map(|bytes| Self(*bytes))
    }
}

/// As 64 hexadecimal digits.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_digits(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_halves_are_64_hexadecimal_digits_and_only_one_is_shown() {
        let digits = "0fa1".repeat(16);
        let public = PublicKey::from_digits(digits.as_bytes()).expect("it is a key");
        assert_eq!(public.to_string(), digits);
        let private = PrivateKey::from_digits(digits.as_bytes()).expect("it is a key");
        assert_eq!((*private.to_digits()).as_str(), digits);
        assert_eq!(format!("{private:?}"), "PrivateKey");
        for wrong in [&b"0f"[..], &b"0g".repeat(32), &b"0f".repeat(33)] {
            assert!(PublicKey::from_digits(wrong).is_none() && PrivateKey::from_digits(wrong).is_none());
        }
    }
}
