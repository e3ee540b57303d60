//! Messages in slots: those of the network about one object, and a tag instead of their service and their
//! status.

use crate::slots::SlotMessage;
use farcall::Service;

use crate::wire::{Code, GET};

/// The tag of a response whose shard gave no answer; other tags are 0, a refusal's code, or one of these.
pub const NO_ANSWER: u8 = 255;

/// The answer is longer than a slot.
pub const TOO_LONG: u8 = 254;

/// There is no session to the shard that has the object.
pub const NOT_PASSED_ON: u8 = 253;

/// The number of a call in a slot is that of its service, less this.
const FIRST_SERVICE: u16 = GET.0;

/// The tag of a request for a service that slots carry.
#[inline]
pub fn call_number(service: Service) -> u8 {
    (service.0 - FIRST_SERVICE) as u8
}

/// The service of a request in a slot.
#[inline]
pub fn service_of(request: &SlotMessage<'_>) -> Service {
    Service(FIRST_SERVICE + u16::from(request.tag))
}

/// What a response says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotResponse<'a> {
    /// The answer, as a shard gives it.
    Answer(&'a [u8]),
    /// A shard refused.
    Refused(Code),
    /// The shard that has the object did not answer. The operation may have happened.
    NoAnswer,
    /// The shard that has the object cannot be reached. Nothing was changed.
    NotPassedOn,
    /// The answer is longer than a slot. The operation happened.
    TooLong,
    /// No daemon says so.
    Malformed,
}

impl<'a> SlotResponse<'a> {
    /// Reads it.
    #[inline]
    pub fn decode(response: &SlotMessage<'a>) -> Self {
        match (response.tag, response.bytes) {
            (0, answer) => Self::Answer(answer),
            (NO_ANSWER, []) => Self::NoAnswer,
            (NOT_PASSED_ON, []) => Self::NotPassedOn,
            (TOO_LONG, []) => Self::TooLong,
            (code, []) => Code::from_wire(code).map_or(Self::Malformed, Self::Refused),
            _ => Self::Malformed,
        }
    }
}
