//! What a log has done: group sizes and flush times, in buckets of powers of two.

use core::time::Duration;

/// Buckets of a histogram: bucket n has what is under 2^n, and not in one before.
pub const BUCKETS: usize = 32;

/// How often what size came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram(pub [u64; BUCKETS]);

impl Histogram {
    /// Counts one.
    #[inline]
    pub fn add(&mut self, size: u64) {
        let bucket = (u64::BITS - size.leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)] += 1;
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How many were under 2^bits.
    pub fn under(&self, bits: u32) -> u64 {
        self.0.iter().take(bits as usize + 1).sum()
    }

    /// A size that this share of them does not reach; 0 when there are none.
    pub fn below(&self, share: f64) -> u64 {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.0.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return 1 << bucket;
            }
        }
        0
    }
}

/// What a log has done since its process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStatistics {
    /// Groups that were flushed.
    pub groups: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes that were written for them.
    pub bytes: u64,
    /// Segments that were opened.
    pub segments: u64,
    /// Segments that were cleaned.
    pub cleaned: u64,
    /// Records that survived it.
    pub survivors: u64,
    /// Records of a group.
    pub group_records: Histogram,
    /// Microseconds of a flush.
    pub flush_us: Histogram,
    /// How long all flushes took together.
    pub flush_time: Duration,
}

impl LogStatistics {
    /// A group was flushed.
    pub fn flushed(&mut self, records: u32, bytes: usize, time: Duration) {
        self.groups += 1;
        self.records += u64::from(records);
        self.bytes += bytes as u64;
        self.group_records.add(u64::from(records));
        self.flush_us.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        self.flush_time += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_in_powers_of_two() {
        let mut sizes = Histogram::default();
        assert_eq!((sizes.count(), sizes.below(0.5)), (0, 0));
        [0, 1, 1, 3, 100, u64::MAX].into_iter().for_each(|size| sizes.add(size));
        assert_eq!((sizes.0[0], sizes.0[1], sizes.0[2], sizes.0[7], sizes.0[31]), (1, 2, 1, 1, 1));
        assert_eq!((sizes.count(), sizes.below(0.5), sizes.below(1.0)), (6, 2, 1 << 31));
        assert_eq!([0, 1, 2, 6, 7].map(|bits| sizes.under(bits)), [1, 3, 4, 4, 5]);
    }
}
