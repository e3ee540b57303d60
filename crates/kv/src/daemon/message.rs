//! Messages in slots: a byte before the messages of the network.

use farcall::Service;

use crate::Name;
use crate::wire::{
    Code, DELETE, DeleteRequest, GET, GetRequest, INCREMENT, IncrementRequest, Malformed, PUT, PutRequest,
};

/// The first byte of a response: 0, a refusal's code, or one of these.
pub const NO_ANSWER: u8 = 255;

/// The answer is longer than a slot.
pub const TOO_LONG: u8 = 254;

/// There is no session to the shard that has the object.
pub const NOT_PASSED_ON: u8 = 253;

/// The number of a call in a slot is that of its service, less this.
const FIRST_SERVICE: u16 = GET.0;

/// The first byte of a request for a service that slots carry.
#[inline]
pub fn call_number(service: Service) -> u8 {
    (service.0 - FIRST_SERVICE) as u8
}

/// A request of a slot, taken apart: which call, of which object, and the message for the shard that has it.
#[derive(Clone, Copy, Debug)]
pub struct SlotRequest<'a> {
    pub service: Service,
    pub name: Name<'a>,
    pub message: &'a [u8],
}

impl<'a> SlotRequest<'a> {
    /// Reads it. Slots carry calls about one object.
    #[inline]
    pub fn decode(request: &'a [u8]) -> Result<Self, Malformed> {
        let (&call, message) = request.split_first().ok_or(Malformed)?;
        let service = Service(FIRST_SERVICE + u16::from(call));
        let name = match service {
            GET => GetRequest::decode(message)?.name,
            PUT => PutRequest::decode(message)?.name,
            DELETE => DeleteRequest::decode(message)?.name,
            INCREMENT => IncrementRequest::decode(message)?.name,
            _ => return Err(Malformed),
        };
        Ok(Self { service, name, message })
    }
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
    pub fn decode(response: &'a [u8]) -> Self {
        match response.split_first() {
            Some((0, answer)) => Self::Answer(answer),
            Some((&NO_ANSWER, [])) => Self::NoAnswer,
            Some((&NOT_PASSED_ON, [])) => Self::NotPassedOn,
            Some((&TOO_LONG, [])) => Self::TooLong,
            Some((&code, [])) => Code::from_wire(code).map_or(Self::Malformed, Self::Refused),
            _ => Self::Malformed,
        }
    }
}
