//! What comes of requests through slots, as C sees it.

use core::ffi::c_void;

use farcall_kv::daemon::{SlotCallFailure, SlotFailure, SlotOutcome, SlotRefusal};
use farcall_kv::durable::Level;
use farcall_kv::store::{IncrementError, WriteError};

use crate::status::Status::{
    self, FARCALL_ANSWER_TOO_LONG, FARCALL_MISUNDERSTOOD, FARCALL_NO_OBJECT, FARCALL_NOT_ALLOWED,
    FARCALL_NOT_CONNECTED, FARCALL_OK, FARCALL_PEER_DEAD, FARCALL_TIMED_OUT, FARCALL_TOO_LONG,
    FARCALL_TOO_MANY,
};
use crate::store::{Refusal, of_not_replicated};

/// What has come of a request that was begun. The library's memory, valid until the next function of the
/// slots.
#[repr(C)]
pub struct SlotOutcomeView {
    /// `sizeof(farcall_slot_outcome_t)` of the library, which may be larger than the program's.
    pub size: usize,
    /// What the request was begun with.
    pub token: u64,
    /// FARCALL_OK, FARCALL_NO_OBJECT of a read, or what went wrong.
    pub status: Status,
    /// What a write survives, as `farcall_store_level` has it.
    pub level: u32,
    /// That of the object afterwards; of a removed one that which it had, 0 if there was none; with
    /// FARCALL_WRONG_VERSION that of the one that is there, 0 if there is none.
    pub version: u64,
    /// The sum, of an addition.
    pub sum: i64,
    /// The value that was read; null otherwise.
    pub value: *const c_void,
    /// Its length in bytes.
    pub length: usize,
}

pub const NO_OUTCOME: SlotOutcomeView = SlotOutcomeView {
    size: size_of::<SlotOutcomeView>(),
    token: 0,
    status: FARCALL_OK,
    level: 0,
    version: 0,
    sum: 0,
    value: core::ptr::null(),
    length: 0,
};

impl SlotOutcomeView {
    pub fn of(outcome: &Result<SlotOutcome<'_>, SlotCallFailure>) -> Self {
        let level = |level: &Level| u32::from(level.to_wire());
        match outcome {
            Ok(SlotOutcome::Found { version, value }) => {
                let (value, length) = (value.as_ptr().cast(), value.len());
                Self { version: *version, value, length, ..NO_OUTCOME }
            }
            Ok(SlotOutcome::Nothing) => Self { status: FARCALL_NO_OBJECT, ..NO_OUTCOME },
            Ok(SlotOutcome::Written { version, level: of } | SlotOutcome::Deleted { version, level: of }) => {
                Self { version: *version, level: level(of), ..NO_OUTCOME }
            }
            Ok(SlotOutcome::Counted { version, sum, level: of }) => {
                Self { version: *version, sum: *sum, level: level(of), ..NO_OUTCOME }
            }
            Err(failure) => {
                let version = wrong_version(failure).unwrap_or(0);
                Self { status: status_of(failure), version, ..NO_OUTCOME }
            }
        }
    }
}

/// The version that is there instead of the expected one.
pub fn wrong_version(failure: &SlotCallFailure) -> Option<u64> {
    match failure {
        SlotFailure::Store(SlotRefusal::Write(IncrementError::Write(WriteError::WrongVersion {
            version,
        }))) => Some(*version),
        _ => None,
    }
}

pub fn status_of(failure: &SlotCallFailure) -> Status {
    match failure {
        SlotFailure::Store(SlotRefusal::Read(error)) => error.status(),
        SlotFailure::Store(SlotRefusal::Write(error)) => error.status(),
        SlotFailure::RequestTooLong { .. } => FARCALL_TOO_LONG,
        SlotFailure::Full { .. } | SlotFailure::Busy => FARCALL_TOO_MANY,
        SlotFailure::AnswerTooLong => FARCALL_ANSWER_TOO_LONG,
        SlotFailure::NotAllowed => FARCALL_NOT_ALLOWED,
        SlotFailure::NotReplicated(why) => of_not_replicated(*why),
        SlotFailure::NoAnswer | SlotFailure::TimedOut { .. } => FARCALL_TIMED_OUT,
        SlotFailure::NotPassedOn => FARCALL_NOT_CONNECTED,
        SlotFailure::DaemonGone(_) => FARCALL_PEER_DEAD,
        SlotFailure::Misunderstood => FARCALL_MISUNDERSTOOD,
    }
}
