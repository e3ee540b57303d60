//! Copies of records of many short messages, and which stores they use.
//!
//! To write and to read such messages takes longer than to bring them over, and much of the copy goes on
//! behind the next messages: what it takes by itself says little. So the stream itself is timed, from record
//! to record, with one kind of stores and the other. Whatever else costs the same with both, or waits for a
//! slow peer, is in both times.

use farcall_driver::clock::read_cycles;

use super::choice::{Choice, Rules};
use super::nontemporal::Stores;

/// What is shorter is copied by cached stores: there is nothing to win.
const NONTEMPORAL_BYTES_MIN: usize = 512;

/// So many records are timed with either stores. The median counts, so that interruptions and pauses of the
/// sender do not.
const RECORDS_TIMED: usize = 32;

/// So much is copied by the other stores before they are timed, since how a line was written still counts
/// for what comes right behind it. With all of a long ring written so before, trials said the same.
const BEFORE_TIMING_BYTES: usize = 256 << 10;

/// When trials come.
static RULES: Rules = Rules { pauses_bytes: 256 << 10..=32 << 20, confirm_bytes: BEFORE_TIMING_BYTES };

/// In how many percent of the usual time the other stores must come, for them to be taken.
const BETTER_PERCENT: u64 = 95;

/// Records have different lengths: their times are those of this many bytes.
const UNIT_BYTES: u64 = 64 << 10;

/// Where a unit takes more cycles, there is no stream: most of that time is something else.
const STREAM_CYCLES_MAX: u64 = 4_000_000;

/// Copies records of short messages to one peer.
#[derive(Debug)]
pub struct StreamCopier {
    choice: Choice,
    sampling: Sampling,
    /// What the records of a trial took so far.
    times: Times,
}

/// How far a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sampling {
    /// There is none.
    Idle,
    /// The stores in use are timed.
    InUse,
    /// The others are in use, but not timed yet, for this many bytes. Those in use before took this time.
    Turning { bytes: usize, in_use: u64 },
    /// The others are timed.
    Others { in_use: u64 },
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
    /// One that uses non-temporal stores or not, as it is told; with `None`, as trials tell.
    pub fn new(nontemporal: Option<bool>) -> Self {
        Self {
            choice: Choice::new(nontemporal, &RULES),
            sampling: Sampling::Idle,
            times: Times { last: 0, cycles: Vec::with_capacity(RECORDS_TIMED) },
        }
    }

    /// Whether `bytes` bytes are copied by non-temporal stores.
    #[inline]
    pub fn is_nontemporal(&self, bytes: usize) -> bool {
        let is_turned = matches!(self.sampling, Sampling::Turning { .. } | Sampling::Others { .. });
        (self.choice.stores() == Stores::NonTemporal) != is_turned && bytes >= NONTEMPORAL_BYTES_MIN
    }

    /// Copies a record.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn copy(&mut self, to: &mut [u8], from: &[u8]) {
        Stores::of(self.is_nontemporal(from.len())).copy(to, from);
        if from.len() < NONTEMPORAL_BYTES_MIN {
            return;
        }
        if self.sampling == Sampling::Idle {
            self.choice.count(from.len());
            if !self.choice.trial_is_due() {
                return;
            }
        }
        self.advance(from.len(), read_cycles());
    }

    /// A trial goes on: a record was copied.
    #[cold]
    fn advance(&mut self, bytes: usize, now: u64) {
        self.sampling = match self.sampling {
            Sampling::Idle => {
                self.times.begin(now);
                Sampling::InUse
            }
            Sampling::InUse => match self.times.add(bytes, now) {
                Some(in_use) => Sampling::Turning { bytes: BEFORE_TIMING_BYTES, in_use },
                None => Sampling::InUse,
            },
            Sampling::Turning { bytes: left, in_use } if left > bytes => {
                Sampling::Turning { bytes: left - bytes, in_use }
            }
            Sampling::Turning { in_use, .. } => {
                self.times.begin(now);
                Sampling::Others { in_use }
            }
            Sampling::Others { in_use } => match self.times.add(bytes, now) {
                Some(others) => {
                    let is_stream = in_use <= STREAM_CYCLES_MAX;
                    self.choice.judge(is_stream && others.saturating_mul(100) < in_use * BETTER_PERCENT);
                    Sampling::Idle
                }
                None => Sampling::Others { in_use },
            },
        };
    }
}

impl Times {
    fn begin(&mut self, now: u64) {
        self.last = now;
        self.cycles.clear();
    }

    /// A record of this many bytes is there. With the last of them, gives the time in the middle.
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

    /// Cycles that a record takes with either stores.
    #[derive(Clone, Copy)]
    struct Cost {
        cached: u64,
        nontemporal: u64,
    }

    const FOR_CACHED: Cost = Cost { cached: 900, nontemporal: 1000 };
    const FOR_NONTEMPORAL: Cost = Cost { cached: 1000, nontemporal: 900 };
    const FOR_NEITHER: Cost = Cost { cached: 1000, nontemporal: 960 };

    /// A stream through a copier, whose records take what they are said to.
    struct Stream {
        copier: StreamCopier,
        now: u64,
    }

    impl Stream {
        fn new() -> Self {
            Self { copier: StreamCopier::new(None), now: 0 }
        }

        fn is_nontemporal(&self) -> bool {
            self.copier.is_nontemporal(RECORD_BYTES)
        }

        fn record(&mut self, cost: Cost) {
            self.now += if self.is_nontemporal() { cost.nontemporal } else { cost.cached };
            self.copier.advance(RECORD_BYTES, self.now);
        }

        /// Waits for the next trial and has it; gives how many records were copied since it began: by
        /// the stores in use, and by the others.
        fn trial(&mut self, mut cost: impl FnMut(usize) -> Cost) -> [usize; 2] {
            self.copier.choice.make_trial_due();
            let in_use = self.copier.choice.stores();
            let mut records = [0; 2];
            loop {
                records[usize::from(self.is_nontemporal() != (in_use == Stores::NonTemporal))] += 1;
                self.record(cost(records[0] + records[1]));
                if self.copier.sampling == Sampling::Idle {
                    return records;
                }
            }
        }
    }

    #[test]
    fn either_stores_are_timed_and_the_others_are_in_use_for_a_while_before() {
        let mut stream = Stream::new();
        let as_usual = 1 + RECORDS_TIMED;
        let other = BEFORE_TIMING_BYTES / RECORD_BYTES + RECORDS_TIMED;
        assert_eq!(stream.trial(|_| FOR_NEITHER), [as_usual, other]);
        assert!(!stream.is_nontemporal());
    }

    #[test]
    fn the_others_are_taken_when_two_trials_in_a_row_speak_for_them() {
        let mut stream = Stream::new();
        stream.trial(|_| FOR_NONTEMPORAL);
        assert!(!stream.is_nontemporal(), "it may have been an accident");
        stream.trial(|_| FOR_NEITHER);
        stream.trial(|_| FOR_NONTEMPORAL);
        assert!(!stream.is_nontemporal(), "not in a row");
        stream.trial(|_| FOR_NONTEMPORAL);
        assert!(stream.is_nontemporal());
        assert!(!stream.copier.is_nontemporal(NONTEMPORAL_BYTES_MIN - 1), "nothing to win");
        stream.trial(|_| FOR_NEITHER);
        stream.trial(|_| FOR_CACHED);
        assert!(stream.is_nontemporal());
        stream.trial(|_| FOR_CACHED);
        assert!(!stream.is_nontemporal());
    }

    #[test]
    fn pauses_and_interruptions_decide_nothing() {
        let interrupted = Cost { cached: 1_000_000, nontemporal: 1_000_000 };
        let mut stream = Stream::new();
        for _ in 0..4 {
            // All of them fall on the stores in use: in an average they would speak for the others.
            let is_interrupted = |record| record <= RECORDS_TIMED && record % 3 == 0;
            stream.trial(|record| if is_interrupted(record) { interrupted } else { FOR_CACHED });
            assert!(!stream.is_nontemporal());
        }
    }

    #[test]
    fn what_comes_slowly_decides_nothing() {
        let slow = |cost: u64| cost * STREAM_CYCLES_MAX / 1000;
        let cost =
            Cost { cached: slow(FOR_NONTEMPORAL.cached), nontemporal: slow(FOR_NONTEMPORAL.nontemporal) };
        let mut stream = Stream::new();
        for _ in 0..4 {
            stream.trial(|_| cost);
            assert!(!stream.is_nontemporal());
        }
    }

    #[test]
    fn the_length_of_records_decides_nothing() {
        let mut stream = Stream::new();
        for _ in 0..4 {
            stream.copier.choice.make_trial_due();
            let begun = stream.now;
            let mut record = 0;
            while stream.now == begun || stream.copier.sampling != Sampling::Idle {
                // Both cost as much for a byte, and the records that are copied by the others are shorter.
                let bytes = if record < RECORDS_TIMED { RECORD_BYTES } else { RECORD_BYTES / 8 };
                record += 1;
                stream.now += bytes as u64;
                stream.copier.advance(bytes, stream.now);
            }
            assert!(!stream.is_nontemporal());
        }
    }

    #[test]
    fn stores_that_are_given_are_not_tried_and_all_is_copied() {
        for nontemporal in [None, Some(false), Some(true)] {
            let mut copier = StreamCopier::new(nontemporal);
            let mut was_tried = false;
            for bytes in (0..200).map(|record| record * 101) {
                let from: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8 + 1).collect();
                let mut to = vec![0; bytes];
                copier.copy(&mut to, &from);
                assert_eq!(to, from);
                was_tried |= copier.is_nontemporal(RECORD_BYTES) != (nontemporal == Some(true));
            }
            assert_eq!(was_tried, nontemporal.is_none());
        }
    }
}
