//! What a write asks for beside the value: what must be there, and when the object expires.

use super::WriteError;
use super::entry::Tail;

/// What an object must be for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Whatever it is, and whether or not it exists.
    Always,
    /// It must not exist.
    Absent,
    /// It must exist and have this version.
    Version(u64),
}

impl Condition {
    /// Whether an object that has `version`, 0 when it does not exist, fulfils it.
    #[inline]
    pub(crate) fn check(self, version: u64) -> Result<(), WriteError> {
        let wanted = match self {
            Self::Always => return Ok(()),
            Self::Absent => 0,
            Self::Version(wanted) => wanted,
        };
        // No object has version 0, so that a condition on it cannot be one on absence by accident.
        let holds = version == wanted && (version != 0 || self == Self::Absent);
        if holds { Ok(()) } else { Err(WriteError::WrongVersion { version }) }
    }
}

/// When an object that is written expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    Never,
    /// When the object did whose place it takes; never if there is none.
    Keep,
    /// At this millisecond of the store's clock.
    At(u64),
}

impl Expiry {
    /// What an object has beside its value that takes the place of one with this.
    #[inline]
    pub(super) fn tail(self, old: Tail) -> Tail {
        match self {
            Self::Never => Tail::default(),
            Self::Keep => Tail { is_stale: false, is_won: false, ..old },
            Self::At(deadline) => Tail::until(Some(deadline)),
        }
    }
}
