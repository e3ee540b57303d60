//! Cutoffs from traffic.
//!
//! A receiver counts the bytes that come to it, by the length of their messages, and parts the unscheduled
//! ones so that every priority for them carries as many as the others, the shortest messages at the highest.
//! How many priorities that are follows from the share of unscheduled bytes (Montazeri et al., SIGCOMM 2018,
//! §3.4). Old traffic counts half as much with every epoch.

use crate::wire::{HEADER_BYTES, PRIORITIES_MAX};

/// After this many messages the cutoffs are chosen again.
pub(super) const EPOCH_MESSAGES: u32 = 256;

/// Lengths are told apart by a quarter of an octave.
const BUCKETS_PER_OCTAVE_LOG: u32 = 2;

const BUCKETS: usize = 32 << BUCKETS_PER_OCTAVE_LOG;

/// Room for the lengths that part all priorities.
pub(super) type Lengths = [u32; PRIORITIES_MAX as usize - 1];

/// Bytes received, by the length of their messages.
#[derive(Debug)]
pub(super) struct Traffic {
    unscheduled: Box<[u64; BUCKETS]>,
    total: u64,
    messages: u32,
}

impl Traffic {
    pub(super) fn new() -> Self {
        Self { unscheduled: Box::new([0; BUCKETS]), total: 0, messages: 0 }
    }

    /// Counts a message of `length` bytes, the first `unscheduled` of them unscheduled. True at the end of an
    /// epoch.
    #[inline]
    pub(super) fn count(&mut self, length: u32, unscheduled: u32) -> bool {
        let overhead = HEADER_BYTES as u64;
        self.unscheduled[bucket(length)] += u64::from(unscheduled.min(length)) + overhead;
        self.total += u64::from(length) + overhead;
        self.messages += 1;
        self.messages == EPOCH_MESSAGES
    }

    /// Ends an epoch.
    pub(super) fn fade(&mut self) {
        self.unscheduled.iter_mut().for_each(|bytes| *bytes /= 2);
        self.total /= 2;
        self.messages = 0;
    }

    /// How many of `priorities` the unscheduled bytes should have: one at least, and all but one at most.
    pub(super) fn unscheduled_priorities(&self, priorities: u8) -> u8 {
        let unscheduled: u64 = self.unscheduled.iter().sum();
        let share = u64::from(priorities) * unscheduled + self.total / 2;
        let rounded = share.checked_div(self.total).unwrap_or(1);
        (rounded as u8).clamp(1, (priorities - 1).max(1))
    }

    /// Lengths that part the unscheduled bytes into `parts` of about the same number of bytes, ascending.
    /// There are fewer when messages of one length alone fill more than a part. They are written into
    /// `lengths`.
    pub(super) fn cutoffs<'l>(&self, parts: u8, lengths: &'l mut Lengths) -> &'l [u32] {
        let unscheduled: u64 = self.unscheduled.iter().sum();
        let (mut count, mut below, mut parts_full) = (0, 0, 0);
        for (bucket, &bytes) in self.unscheduled.iter().enumerate() {
            below += bytes;
            let full = (below * u64::from(parts)).checked_div(unscheduled).unwrap_or(0);
            if full > parts_full && below < unscheduled {
                lengths[count] = longest_of(bucket);
                count += 1;
                parts_full = full;
            }
        }
        &lengths[..count]
    }
}

/// The bucket of a length: its octave, and within it which quarter.
#[inline]
fn bucket(length: u32) -> usize {
    let length = length.max(1 << BUCKETS_PER_OCTAVE_LOG);
    let octave = length.ilog2();
    let quarter = (length >> (octave - BUCKETS_PER_OCTAVE_LOG)) & ((1 << BUCKETS_PER_OCTAVE_LOG) - 1);
    ((octave << BUCKETS_PER_OCTAVE_LOG) + quarter) as usize
}

/// The greatest length in a bucket that is in use.
fn longest_of(bucket: usize) -> u32 {
    let (octave, quarter) = (bucket >> BUCKETS_PER_OCTAVE_LOG, bucket & ((1 << BUCKETS_PER_OCTAVE_LOG) - 1));
    let step = (1_u64 << octave) >> BUCKETS_PER_OCTAVE_LOG;
    let next = (1_u64 << octave) + (quarter as u64 + 1) * step;
    u32::try_from(next - 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_at_most_the_longest_of_its_bucket_and_over_those_before() {
        let lengths = (0..=32).flat_map(|octave| {
            let power = 1_u64 << octave;
            [power - 1, power, power + 1, power + power / 4, power + power / 2]
        });
        for length in lengths.filter_map(|length| u32::try_from(length).ok()) {
            let bucket = bucket(length);
            assert!(length <= longest_of(bucket), "{length}");
            assert!(bucket == self::bucket(0) || length > longest_of(bucket - 1), "{length}");
        }
    }

    #[test]
    fn equal_parts_carry_about_the_same_bytes() {
        let mut traffic = Traffic::new();
        let lengths: Vec<u32> = (0..4000).map(|message| 50 + message * 4).collect();
        lengths.iter().for_each(|&length| {
            traffic.count(length, 16 << 10);
        });
        let mut room = Lengths::default();
        let cutoffs = traffic.cutoffs(4, &mut room);
        assert_eq!(cutoffs.len(), 3);
        let mut from = 0;
        let total: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
        for cutoff in cutoffs.iter().copied().chain([u32::MAX]) {
            let part = lengths.iter().filter(|length| (from..=cutoff).contains(*length));
            let bytes: u64 = part.map(|length| u64::from(*length)).sum();
            assert!((total / 6..total / 3).contains(&bytes), "{bytes} of {total} bytes up to {cutoff}");
            from = cutoff.saturating_add(1);
        }
    }

    #[test]
    fn messages_of_one_length_are_not_parted() {
        let mut traffic = Traffic::new();
        (0..1000).for_each(|_| {
            traffic.count(100, 16 << 10);
        });
        assert_eq!(traffic.cutoffs(7, &mut Lengths::default()), []);
        assert_eq!(traffic.unscheduled_priorities(8), 7);
    }

    #[test]
    fn the_priorities_follow_the_share_of_unscheduled_bytes() {
        let mut traffic = Traffic::new();
        traffic.count(1 << 20, 16 << 10);
        assert_eq!(traffic.unscheduled_priorities(8), 1);
        (0..64).for_each(|_| {
            traffic.count(16 << 10, 16 << 10);
        });
        assert_eq!(traffic.unscheduled_priorities(8), 4);
        assert_eq!(traffic.unscheduled_priorities(1), 1);
        (0..20).for_each(|_| traffic.fade());
        assert_eq!(traffic.cutoffs(3, &mut Lengths::default()), []);
    }
}
