//! Values that are longer than a message, read and written part by part.

use core::fmt;

use farcall::Payload;

use super::operation::{Operation, Repeat};
use super::{Client, message, written};
use crate::Name;
use crate::store::{ReadError, WriteError};
use crate::wire::{GET_PART, GetPartRequest, PART_BYTES_MAX, PUT_PART, PartResponse, PutPartRequest};

/// A part of the value of an object, as it was when it was read.
#[derive(Clone)]
pub struct FoundPart {
    version: u64,
    value_bytes: u64,
    /// The whole answer, which the part ends.
    answer: Payload,
}

impl FoundPart {
    /// The object's version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The length of its whole value.
    pub fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    /// The part. It is empty behind the value's end, and where the object has another version than the one
    /// that was asked for.
    pub fn bytes(&self) -> &[u8] {
        &self.answer[PartResponse::HEADER_BYTES..]
    }
}

impl fmt::Debug for FoundPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FoundPart(version {}, {} of {} bytes)", self.version, self.bytes().len(), self.value_bytes)
    }
}

impl Client<'_> {
    /// Reads the part of an object's value that begins at `offset`, up to [`PART_BYTES_MAX`] bytes of it;
    /// `None` when there is no object. Parts of one value have one version: ask for the first with version 0,
    /// for the others with the one that it has, and begin again when another one is found.
    ///
    /// Shards of an older version refuse it as [`Failure::Misunderstood`](super::Failure::Misunderstood).
    pub fn get_part(
        &self,
        name: Name<'_>,
        version: u64,
        offset: u64,
    ) -> Operation<'_, Option<FoundPart>, ReadError> {
        let get = GetPartRequest { name, version, offset, bytes: PART_BYTES_MAX as u32 };
        let message = message(|to| get.encode(to));
        self.operation(self.route(name), GET_PART, message, Repeat::Always, |answer| {
            let Some(PartResponse { version, value_bytes, .. }) = PartResponse::decode(&answer)? else {
                return Ok(None);
            };
            Ok(Some(FoundPart { version, value_bytes, answer }))
        })
    }

    /// Writes a part of a value; gives the number of the upload, which the next part names, and with the last
    /// part the version that the object has. Until then it is what it was before.
    ///
    /// The shard drops an upload that gets no part for a minute, and one whose part it refuses, unless as
    /// [`Failure::Busy`](super::Failure::Busy). A part without a byte ends it as well.
    pub fn put_part(&self, part: &PutPartRequest<'_>) -> Operation<'_, u64, WriteError> {
        let message = message(|to| part.encode(to));
        self.operation(self.route(part.name), PUT_PART, message, Repeat::IfNotSent, written)
    }
}
