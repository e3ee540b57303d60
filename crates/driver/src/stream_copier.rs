//! Which way records of many short messages are copied to a peer: through the caches, or past them.
//!
//! To write and to read such messages takes longer than to bring them over, and much of the copy goes on behind the next
//! messages: what it takes by itself says little. So the stream itself is timed, from record to record, one way and the other.
//! Whatever else costs the same both ways, or waits for a slow peer, is in both times.

use crate::clock::read_cycles;
use crate::copying::Way;

/// What is shorter is copied through the caches: there is nothing to win.
const PAST_CACHES_BYTES_MIN: usize = 512;

/// So many records are timed each way. The time in the middle counts, so that interruptions and pauses of the sender do not.
const RECORDS_TIMED: usize = 32;

/// So much is copied the other way before it is timed, since how a line was written still counts for what comes right behind it.
/// With all of a long ring written so before, trials said the same.
const BEFORE_TIMING_BYTES: usize = 256 << 10;

/// So much is copied between two trials, twice as much each time.
const BETWEEN_TRIALS_BYTES: core::ops::RangeInclusive<usize> = 256 << 10..=32 << 20;

/// In how many percent of the usual time the other way must come, for it to be taken.
const BETTER_PERCENT: u64 = 95;

/// Records have different lengths: their times are those of so many bytes.
const UNIT_BYTES: u64 = 64 << 10;

/// Where a unit takes more cycles, there is no stream: most of that time is something else, whatever the way.
const STREAM_CYCLES_MAX: u64 = 4_000_000;

/// Copies records of short messages to one peer.
#[derive(Debug)]
pub struct StreamCopier {
    /// The way that is taken while nothing is tried.
    way: Way,
    trial: Trial,
    /// Whether the last trial spoke for the other way, which may have been an accident.
    is_doubted: bool,
    /// How much is copied until the trial after the coming one.
    between_trials_bytes: usize,
    /// What the records of a trial took so far.
    times: Times,
}

/// How far a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// There is none: the way is given.
    Never,
    /// It begins when so many bytes more have been copied.
    In { bytes: usize },
    /// The way that is taken is timed.
    Taken,
    /// The other way is gone, but is not timed yet, for so many bytes. The way that is taken took this time.
    Turning { bytes: usize, taken: u64 },
    /// The other way is timed.
    Other { taken: u64 },
}

/// Times of records, each by the length of its record.
#[derive(Debug)]
struct Times {
    /// When the last record was there, in cycles.
    last: u64,
    /// Of each record, cycles for a unit.
    cycles: Vec<u64>,
}

impl StreamCopier {
    /// One that copies past the caches or not, as it is told; with `None`, as trials tell.
    pub fn new(past_caches: Option<bool>) -> Self {
        Self {
            way: Way::of(past_caches == Some(true)),
            trial: if past_caches.is_some() { Trial::Never } else { Trial::In { bytes: 0 } },
            is_doubted: false,
            between_trials_bytes: *BETWEEN_TRIALS_BYTES.start(),
            times: Times { last: 0, cycles: Vec::with_capacity(RECORDS_TIMED) },
        }
    }

    /// Whether `bytes` bytes are copied past the caches.
    #[inline]
    pub fn goes_past_caches(&self, bytes: usize) -> bool {
        let is_turned = matches!(self.trial, Trial::Turning { .. } | Trial::Other { .. });
        (self.way == Way::PastCaches) != is_turned && bytes >= PAST_CACHES_BYTES_MIN
    }

    /// Copies a record.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn copy(&mut self, to: &mut [u8], from: &[u8]) {
        Way::of(self.goes_past_caches(from.len())).copy(to, from);
        if from.len() < PAST_CACHES_BYTES_MIN {
            return;
        }
        match &mut self.trial {
            Trial::Never => {}
            Trial::In { bytes } if *bytes > from.len() => *bytes -= from.len(),
            _ => self.advance(from.len(), read_cycles()),
        }
    }

    /// A trial goes on: a record was copied.
    #[cold]
    fn advance(&mut self, bytes: usize, now: u64) {
        self.trial = match self.trial {
            Trial::Never => Trial::Never,
            Trial::In { .. } => {
                self.times.begin(now);
                Trial::Taken
            }
            Trial::Taken => match self.times.add(bytes, now) {
                Some(taken) => Trial::Turning { bytes: BEFORE_TIMING_BYTES, taken },
                None => Trial::Taken,
            },
            Trial::Turning { bytes: left, taken } if left > bytes => {
                Trial::Turning { bytes: left - bytes, taken }
            }
            Trial::Turning { taken, .. } => {
                self.times.begin(now);
                Trial::Other { taken }
            }
            Trial::Other { taken } => match self.times.add(bytes, now) {
                Some(other) => self.judge(taken, other),
                None => Trial::Other { taken },
            },
        };
    }

    /// Takes the other way when two trials in a row have spoken for it; gives when the next one is.
    fn judge(&mut self, taken: u64, other: u64) -> Trial {
        let is_better = taken <= STREAM_CYCLES_MAX && other.saturating_mul(100) < taken * BETTER_PERCENT;
        if is_better && !self.is_doubted {
            self.is_doubted = true;
            return Trial::In { bytes: BEFORE_TIMING_BYTES };
        }
        if is_better {
            self.way = self.way.other();
        }
        self.is_doubted = false;
        let bytes = self.between_trials_bytes;
        self.between_trials_bytes = (2 * bytes).min(*BETWEEN_TRIALS_BYTES.end());
        Trial::In { bytes }
    }
}

impl Times {
    fn begin(&mut self, now: u64) {
        self.last = now;
        self.cycles.clear();
    }

    /// A record of so many bytes is there. With the last of them, gives the time in the middle.
    fn add(&mut self, bytes: usize, now: u64) -> Option<u64> {
        let cycles = now.saturating_sub(core::mem::replace(&mut self.last, now));
        self.cycles.push(cycles.saturating_mul(UNIT_BYTES) / bytes as u64);
        if self.cycles.len() < RECORDS_TIMED {
            return None;
        }
        let (_, middle, _) = self.cycles.select_nth_unstable(RECORDS_TIMED / 2);
        Some(*middle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD_BYTES: usize = 16 << 10;

    /// Cycles that a record takes each way.
    #[derive(Clone, Copy)]
    struct Cost {
        through_caches: u64,
        past_caches: u64,
    }

    const FOR_THROUGH_CACHES: Cost = Cost { through_caches: 900, past_caches: 1000 };
    const FOR_PAST_CACHES: Cost = Cost { through_caches: 1000, past_caches: 900 };
    const FOR_NEITHER: Cost = Cost { through_caches: 1000, past_caches: 960 };

    /// A stream through a copier, whose records take what they are said to.
    struct Stream {
        copier: StreamCopier,
        now: u64,
    }

    impl Stream {
        fn new() -> Self {
            Self { copier: StreamCopier::new(None), now: 0 }
        }

        fn goes_past_caches(&self) -> bool {
            self.copier.goes_past_caches(RECORD_BYTES)
        }

        fn record(&mut self, cost: Cost) {
            self.now += if self.goes_past_caches() { cost.past_caches } else { cost.through_caches };
            self.copier.advance(RECORD_BYTES, self.now);
        }

        /// Waits for the next trial and has it; gives how many records went each way since it began: as usual, and the other way.
        fn trial(&mut self, mut cost: impl FnMut(usize) -> Cost) -> [usize; 2] {
            self.copier.trial = Trial::In { bytes: 0 };
            let taken = self.copier.way;
            let mut records = [0; 2];
            loop {
                records[usize::from(self.goes_past_caches() != (taken == Way::PastCaches))] += 1;
                self.record(cost(records[0] + records[1]));
                if matches!(self.copier.trial, Trial::In { .. }) {
                    return records;
                }
            }
        }
    }

    #[test]
    fn each_way_is_timed_and_the_other_is_gone_for_a_while_before() {
        let mut stream = Stream::new();
        let as_usual = 1 + RECORDS_TIMED;
        let other = BEFORE_TIMING_BYTES / RECORD_BYTES + RECORDS_TIMED;
        assert_eq!(stream.trial(|_| FOR_NEITHER), [as_usual, other]);
        assert!(!stream.goes_past_caches());
    }

    #[test]
    fn the_other_way_is_taken_when_two_trials_in_a_row_speak_for_it() {
        let mut stream = Stream::new();
        stream.trial(|_| FOR_PAST_CACHES);
        assert!(!stream.goes_past_caches(), "it may have been an accident");
        stream.trial(|_| FOR_NEITHER);
        stream.trial(|_| FOR_PAST_CACHES);
        assert!(!stream.goes_past_caches(), "not in a row");
        stream.trial(|_| FOR_PAST_CACHES);
        assert!(stream.goes_past_caches());
        assert!(!stream.copier.goes_past_caches(PAST_CACHES_BYTES_MIN - 1), "nothing to win");
        stream.trial(|_| FOR_NEITHER);
        stream.trial(|_| FOR_THROUGH_CACHES);
        assert!(stream.goes_past_caches());
        stream.trial(|_| FOR_THROUGH_CACHES);
        assert!(!stream.goes_past_caches());
    }

    #[test]
    fn pauses_and_interruptions_decide_nothing() {
        let interrupted = Cost { through_caches: 1_000_000, past_caches: 1_000_000 };
        let mut stream = Stream::new();
        for _ in 0..4 {
            // All of them fall on the way that is taken: in an average they would speak for the other.
            let is_interrupted = |record| record <= RECORDS_TIMED && record % 3 == 0;
            stream.trial(|record| if is_interrupted(record) { interrupted } else { FOR_THROUGH_CACHES });
            assert!(!stream.goes_past_caches());
        }
    }

    #[test]
    fn what_comes_slowly_decides_nothing() {
        let slow = |cost: u64| cost * STREAM_CYCLES_MAX / 1000;
        let cost = Cost {
            through_caches: slow(FOR_PAST_CACHES.through_caches),
            past_caches: slow(FOR_PAST_CACHES.past_caches),
        };
        let mut stream = Stream::new();
        for _ in 0..4 {
            stream.trial(|_| cost);
            assert!(!stream.goes_past_caches());
        }
    }

    #[test]
    fn the_length_of_records_decides_nothing() {
        let mut stream = Stream::new();
        for _ in 0..4 {
            stream.copier.trial = Trial::In { bytes: 0 };
            let begun = stream.now;
            let mut record = 0;
            while stream.now == begun || !matches!(stream.copier.trial, Trial::In { .. }) {
                // Both ways cost as much for a byte, and the records that go the other way are shorter.
                let bytes = if record < RECORDS_TIMED { RECORD_BYTES } else { RECORD_BYTES / 8 };
                record += 1;
                stream.now += bytes as u64;
                stream.copier.advance(bytes, stream.now);
            }
            assert!(!stream.goes_past_caches());
        }
    }

    #[test]
    fn trials_become_rarer() {
        let mut stream = Stream::new();
        let pauses: Vec<usize> = (0..12)
            .map(|_| {
                stream.trial(|_| FOR_THROUGH_CACHES);
                let Trial::In { bytes } = stream.copier.trial else { panic!("it pauses") };
                bytes
            })
            .collect();
        let (least, most) = BETWEEN_TRIALS_BYTES.into_inner();
        assert_eq!(pauses[..3], [least, 2 * least, 4 * least]);
        assert_eq!(pauses[8..], [most; 4]);
    }

    #[test]
    fn a_way_that_is_given_is_not_tried_and_all_is_copied() {
        for past_caches in [None, Some(false), Some(true)] {
            let mut copier = StreamCopier::new(past_caches);
            let mut was_tried = false;
            for bytes in (0..200).map(|record| record * 101) {
                let from: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8 + 1).collect();
                let mut to = vec![0; bytes];
                copier.copy(&mut to, &from);
                assert_eq!(to, from);
                was_tried |= copier.goes_past_caches(RECORD_BYTES) != (past_caches == Some(true));
            }
            assert_eq!(was_tried, past_caches.is_none());
        }
    }
}
