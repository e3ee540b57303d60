//! The pace of grants.
//!
//! What comes frees as much of the window as it is, and so grants follow arrivals by themselves. A new
//! message would be granted a whole window at once, and its sender would give that to the path as fast as its
//! card can. So grants draw on a credit that grows with time, somewhat faster than the path delivers.

use core::time::Duration;

use farcall_base::Instant;

/// The credit grows by so much more than the rate, in percent; twice while the rate still grows itself.
const PACE_PERCENT: u64 = 125;
const GROWING_PERCENT: u64 = 200;

/// Credit is saved up for as long as this: on a fast path, of short round trips, the pace then restricts
/// nothing, and clocks need not be finer.
const SAVED_FOR: Duration = Duration::from_millis(1);

/// However slow the path is, this many bytes are granted at a time.
const TAKEN_BYTES_MIN: u32 = 8 << 10;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The credit for grants. Without a rate there is no pace.
#[derive(Debug, Default)]
pub(super) struct Pace {
    bytes_per_second: u64,
    /// From when on the next grant may leave.
    free_at: Instant,
}

impl Pace {
    /// The path delivers `rate` bytes a second.
    pub(super) fn follow(&mut self, rate: u64, is_growing: bool) {
        let percent = if is_growing { GROWING_PERCENT } else { PACE_PERCENT };
        self.bytes_per_second = rate.saturating_mul(percent) / 100;
    }

    /// Draws what is there of `bytes`, in pieces of half of what can be saved up. What is overdrawn has to be
    /// waited for.
    pub(super) fn take(&mut self, bytes: u32, now: Instant) -> u32 {
        if self.bytes_per_second == 0 {
            return bytes;
        }
        let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(SAVED_FOR.as_nanos() as u64));
        let free_at = self.free_at.max(earliest);
        if free_at > now {
            return 0;
        }
        let at_once = self.bytes_per_second.saturating_mul(SAVED_FOR.as_nanos() as u64) / NANOS_PER_SECOND;
        let taken = bytes.min(u32::try_from(at_once / 2).unwrap_or(u32::MAX).max(TAKEN_BYTES_MIN));
        let nanos = u64::from(taken) * NANOS_PER_SECOND / self.bytes_per_second;
        self.free_at = free_at + Duration::from_nanos(nanos);
        taken
    }

    /// When there is credit again.
    pub(super) fn ready_at(&self) -> Instant {
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much is granted of an endless message within a second from `begun` on, at this rate.
    fn granted_in_a_second(pace: &mut Pace) -> u64 {
        let begun = Instant::from_nanos(NANOS_PER_SECOND);
        let (mut now, mut granted) = (begun, 0);
        while now.since(begun) < Duration::from_secs(1) {
            match pace.take(1 << 20, now) {
                0 => now = pace.ready_at(),
                taken => granted += u64::from(taken),
            }
        }
        granted
    }

    #[test]
    fn grants_keep_to_the_rate_and_what_was_saved() {
        for rate in [1_000_000, 100_000_000, 10_000_000_000] {
            let mut pace = Pace::default();
            pace.follow(rate, false);
            let paced = rate * PACE_PERCENT / 100;
            let granted = granted_in_a_second(&mut pace);
            let most = paced + paced / 1000 + u64::from(TAKEN_BYTES_MIN).max(paced / 1000);
            assert!((paced..=most).contains(&granted), "{granted} at {rate}");
        }
    }

    #[test]
    fn nothing_is_paced_before_a_rate_is_known() {
        assert_eq!(Pace::default().take(u32::MAX, Instant::ZERO), u32::MAX);
    }
}
