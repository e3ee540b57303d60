//! What a process shows when it takes its place in the registry back.

use core::fmt;

use super::incarnation::random;

/// 128 bits that only a process and its registry know. They travel in the joins of that process and in
/// nothing else, unlike its incarnation, which every peer is told.
#[derive(Clone, Copy)]
pub(super) struct Secret([u8; 16]);

impl Secret {
    pub(super) const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Another one for each process.
    pub(super) fn random() -> Self {
        Self(random())
    }

    pub(super) fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Takes the same time wherever the first difference is.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let differences = self.0.iter().zip(&other.0).fold(0, |found, (a, b)| found | (a ^ b));
        core::hint::black_box(differences) == 0
    }
}

impl Eq for Secret {}

/// Never shown.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
