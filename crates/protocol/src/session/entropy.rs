//! Session numbers that a former life, or an outsider, does not hit by accident.

use crate::wire::WireSession;

/// A stream of numbers from the caller's seed (SplitMix64, Steele et al. 2014). Not secret, but well spread.
#[derive(Clone, Debug)]
pub(super) struct Entropy(u64);

impl Entropy {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number for the session at `index`: the index below, 48 drawn bits above, never 0.
    pub(super) fn wire_session(&mut self, index: u16) -> WireSession {
        loop {
            let drawn = self.next() & !0xffff;
            if drawn != 0 {
                return WireSession(drawn | u64::from(index));
            }
        }
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
