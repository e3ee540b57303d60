//! What rank 0 orders and what ranks answer: the times of an operation, and a rank's end of it.

use farcall::{Deferred, Instant};

/// When all ranks begin, and when they may report the end: not before the slowest is likely to be done,
/// because what they tell would keep rank 0 from its own part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) start: Instant,
    pub(super) report: Instant,
}

/// What is to be done.
pub(super) struct Order {
    pub(super) times: Times,
    /// Whom to tell about the end; nobody when the root itself runs this member.
    pub(super) root: Option<Deferred>,
}

/// A rank's end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finish {
    /// When all that it expects had arrived; the start if it only sends.
    pub(super) at: Instant,
    /// Whether it learnt of the operation only after its start.
    pub(super) late: bool,
}

/// An instant of one machine's clock, as another machine's clock shows it.
fn shifted(at: Instant, by_nanos: i64) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_add_signed(by_nanos))
}

impl Times {
    const BYTES: usize = 16;

    /// The same times by a clock that is so much ahead.
    pub(super) fn shifted(self, by_nanos: i64) -> Self {
        Self { start: shifted(self.start, by_nanos), report: shifted(self.report, by_nanos) }
    }

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.start.as_nanos().to_le_bytes());
        bytes[8..].copy_from_slice(&self.report.as_nanos().to_le_bytes());
        bytes
    }

    /// The times in a payload; `None` if it is none of theirs.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (start, report) = bytes.split_first_chunk()?;
        let nanos = |bytes| Instant::from_nanos(u64::from_le_bytes(bytes));
        Some(Self { start: nanos(*start), report: nanos(report.try_into().ok()?) })
    }
}

impl Finish {
    const BYTES: usize = 9;

    /// The same end by a clock that is so much ahead.
    pub(super) fn shifted(self, by_nanos: i64) -> Self {
        Self { at: shifted(self.at, by_nanos), ..self }
    }

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.at.as_nanos().to_le_bytes());
        bytes[8] = self.late.into();
        bytes
    }

    /// The end in a payload; `None` if it is none.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (at, late) = bytes.split_first_chunk()?;
        let [late @ (0 | 1)] = late else { return None };
        Some(Self { at: Instant::from_nanos(u64::from_le_bytes(*at)), late: *late == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ends_come_back_and_others_are_refused() {
        let (start, report) = (Instant::from_nanos(7), Instant::from_nanos(1 << 40));
        let times = Times { start, report };
        assert_eq!(Times::from_bytes(&times.to_bytes()), Some(times));
        assert_eq!(times.shifted(5).shifted(-5), times);
        assert_eq!(times.shifted(-3).start, Instant::from_nanos(4));
        for late in [false, true] {
            let finish = Finish { at: report, late };
            assert_eq!(Finish::from_bytes(&finish.to_bytes()), Some(finish));
        }
        assert_eq!((Times::from_bytes(&[0; 15]), Finish::from_bytes(&[2; 9])), (None, None));
        assert_eq!(Finish::from_bytes(&[0; 10]), None);
    }
}
