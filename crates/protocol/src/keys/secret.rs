//! Secrets from which others are derived.

use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use zeroize::Zeroizing;

/// 32 bytes that nobody else knows.
pub(super) type Secret = Zeroizing<[u8; 32]>;

/// How many bytes to derive.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// Bytes for a purpose, from which neither the secret nor what it gives for other purposes can be found:
/// HKDF-Expand with SHA-256 (RFC 5869).
pub(super) fn derive<const N: usize>(secret: &[u8; 32], purpose: &[u8]) -> Zeroizing<[u8; N]> {
    let mut derived = Zeroizing::new([0; N]);
    let secret = Prk::new_less_safe(HKDF_SHA256, secret);
    secret
        .expand(&[purpose], Bytes(N))
        .and_then(|bytes| bytes.fill(&mut *derived))
        .expect("HKDF gives up to 8160 bytes, and as many as were asked for");
    derived
}
