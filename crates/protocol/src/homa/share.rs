//! The share of the oldest.
//!
//! A sender that always serves the shortest message may never come to the longest. A small part of all bytes
//! therefore goes to the message that has waited longest, as in HomaModule, whatever its length.

/// The most bytes that can be saved up for the oldest while there is none.
const SAVED_BYTES_MAX: i64 = 64 << 10;

const PERMILLE: i64 = 1000;

/// Keeps account of the bytes that the oldest should have had.
#[derive(Debug)]
pub(super) struct Share {
    permille: i64,
    /// Bytes due to the oldest, times 1000; negative when it has had more.
    owed: i64,
}

impl Share {
    pub(super) fn new(permille: u16) -> Self {
        Self { permille: i64::from(permille), owed: 0 }
    }

    /// Whether at least `bytes` are due to the oldest.
    #[inline]
    pub(super) fn is_due(&self, bytes: u32) -> bool {
        self.permille > 0 && self.owed >= i64::from(bytes) * PERMILLE
    }

    /// Somebody was served `bytes`, either for being the oldest or for another reason.
    #[inline]
    pub(super) fn served(&mut self, bytes: u32, oldest: bool) {
        let bytes = i64::from(bytes);
        self.owed += bytes * self.permille - if oldest { bytes * PERMILLE } else { 0 };
        self.owed = self.owed.min(SAVED_BYTES_MAX * PERMILLE);
    }
}
