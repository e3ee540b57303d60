//! A fingerprint of a run: every event goes into it, so that two runs with the same one were the same run.
//!
//! It is for comparing runs of one program, not a check against malice; what counts is that it costs little.

use crate::time::Picos;

/// The multiplier of FxHash, of rustc: odd, and its bits well mixed.
const MULTIPLIER: u64 = 0x51_7c_c1_b7_27_22_0a_95;

/// What has been noted so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceHash(u64);

impl TraceHash {
    /// Notes that something of a `kind` happened.
    #[inline]
    pub fn note(&mut self, at: Picos, kind: u8, who: u32, what: u64) {
        self.word(at.0);
        self.word(u64::from(kind) << 32 | u64::from(who));
        self.word(what);
    }

    /// The fingerprint so far.
    pub fn value(self) -> u64 {
        self.0
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    }
}
