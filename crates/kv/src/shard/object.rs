//! Requests about one object: what slots carry, and most of what the network does.

use farcall::Service;

use crate::Name;
use crate::wire::{
    DELETE, DeleteRequest, GET, GetRequest, INCREMENT, IncrementRequest, Malformed, PUT, PutRequest,
};

/// A request about one object, read and its key hashed.
#[derive(Clone, Copy, Debug)]
pub enum ObjectRequest<'a> {
    /// Reads it.
    Get(GetRequest<'a>),
    /// Writes it.
    Put(PutRequest<'a>),
    /// Deletes it.
    Delete(DeleteRequest<'a>),
    /// Adds to the number that it is.
    Increment(IncrementRequest<'a>),
}

impl<'a> ObjectRequest<'a> {
    /// Reads a message for one of the four services; one for another service is malformed.
    #[inline]
    pub fn decode(service: Service, message: &'a [u8]) -> Result<Self, Malformed> {
        match service {
            GET => GetRequest::decode(message).map(Self::Get),
            PUT => PutRequest::decode(message).map(Self::Put),
            DELETE => DeleteRequest::decode(message).map(Self::Delete),
            INCREMENT => IncrementRequest::decode(message).map(Self::Increment),
            _ => Err(Malformed),
        }
    }

    /// The object.
    #[inline]
    pub fn name(&self) -> Name<'a> {
        match self {
            Self::Get(get) => get.name,
            Self::Put(put) => put.name,
            Self::Delete(delete) => delete.name,
            Self::Increment(increment) => increment.name,
        }
    }
}
