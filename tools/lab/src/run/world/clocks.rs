//! How far the clocks of machines are apart: by the shortest of some round trips, as in Cristian,
//! "Probabilistic clock synchronization", 1989. What is wrong with it is at most half of that round trip.

use farcall::Clock;

use super::{ANSWER_MAX, CLOCK, World, WorldError};

/// Round trips of which the shortest is taken.
const ROUND_TRIPS: usize = 32;

/// Tells the clock of this process from those of others: that of a machine since it was started, unless a
/// container has moved it.
pub(super) fn identity() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let boot = read("/proc/sys/kernel/random/boot_id");
    let moved = read("/proc/self/timens_offsets");
    let moved: Vec<&str> = moved.split_whitespace().filter(|word| *word != "monotonic").collect();
    let moved = moved.split(|word| *word == "boottime").next().unwrap_or_default().join(".");
    format!("{} {moved}", boot.trim())
}

impl World {
    /// How far the clock of a rank is ahead of this one's, and by how much that may be wrong.
    pub(super) fn compare_clocks(&self, rank: u32) -> Result<(i64, u64), WorldError> {
        let clock = Clock::new();
        let mut best = (0, u64::MAX);
        for _ in 0..ROUND_TRIPS {
            let asked = clock.now().as_nanos();
            let answer = self.ask(rank, CLOCK, Vec::new(), ANSWER_MAX)?;
            let lasted = clock.now().as_nanos().saturating_sub(asked);
            let theirs = answer.as_slice().try_into().map_or(0, u64::from_le_bytes);
            if lasted / 2 < best.1 {
                best = (theirs.wrapping_sub(asked + lasted / 2).cast_signed(), lasted / 2);
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_has_one_clock() {
        let identity = super::identity();
        assert!(!identity.trim().is_empty());
        assert_eq!(identity, super::identity());
    }
}
