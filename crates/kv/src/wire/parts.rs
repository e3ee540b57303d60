//! Parts of values that are longer than a message.
//!
//! A part is read by itself: a reader names the version that it has begun with, and begins again when there
//! is another one. A value is written by its parts in their order; the object has it, as a whole, when the
//! last of them has come.

use super::fields::{Fields, Malformed};
use super::request::{condition_of, name, put_lengths, wire_condition};
use crate::store::{Condition, LONG_BYTES_MAX, PIECE_BYTES};
use crate::{Name, VALUE_BYTES_MAX};

/// The most bytes of a part: others are served between two parts.
pub const PART_BYTES_MAX: usize = super::TURN_WRITE_BYTES_MAX;

/// The length of each part that is written, but the last, is a multiple of this.
pub const PART_ALIGN: usize = PIECE_BYTES;

/// Asks for a part of an object's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetPartRequest<'a> {
    /// Which object.
    pub name: Name<'a>,
    /// The version whose value is read; 0 for whichever the object has.
    pub version: u64,
    /// Where the part begins.
    pub offset: u64,
    /// The most bytes that it may have, if that is less than [`PART_BYTES_MAX`].
    pub bytes: u32,
}

impl<'a> GetPartRequest<'a> {
    /// Appends it to a message.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let numbers = [self.name.table().0, self.version, self.offset];
        numbers.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
        to.extend_from_slice(&self.bytes.to_le_bytes());
        to.extend_from_slice(self.name.key());
    }

    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (table, version, offset, bytes) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u32()?);
        Ok(Self { name: name(table, fields.rest())?, version, offset, bytes })
    }
}

/// The answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartResponse<'a> {
    /// The version that the object has.
    pub version: u64,
    /// The length of its value.
    pub value_bytes: u64,
    /// The part; nothing when the object has another version than the one that was asked for.
    pub part: &'a [u8],
}

impl<'a> PartResponse<'a> {
    /// Bytes of the message in front of the part.
    pub const HEADER_BYTES: usize = 16;

    /// The message about an object that does not exist.
    pub const NONE: [u8; 8] = [0; 8];

    /// Begins a message, which the part follows.
    pub fn begin(version: u64, value_bytes: usize, to: &mut Vec<u8>) {
        to.extend_from_slice(&version.to_le_bytes());
        to.extend_from_slice(&(value_bytes as u64).to_le_bytes());
    }

    /// Reads it from a message; `None` when there is no such object.
    pub fn decode(message: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let mut fields = Fields(message);
        let version = fields.u64()?;
        if version == 0 {
            return fields.end().map(|()| None);
        }
        let value_bytes = fields.u64()?;
        Ok(Some(Self { version, value_bytes, part: fields.rest() }))
    }
}

/// Writes a part of a value of more than [`VALUE_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutPartRequest<'a> {
    /// The object that is to have the value.
    pub name: Name<'a>,
    /// What must hold, with each part.
    pub condition: Condition,
    /// The number that the answer to the first part has said; 0 with the first part.
    pub upload: u64,
    /// The length of the whole value.
    pub value_bytes: u64,
    /// Where the part begins: where the one before has ended.
    pub offset: u64,
    /// The part. Without a byte it ends the upload, of which nothing is left.
    pub part: &'a [u8],
}

impl<'a> PutPartRequest<'a> {
    /// Appends it to a message.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let condition = wire_condition(self.condition);
        let numbers = [self.name.table().0, condition, self.upload, self.value_bytes, self.offset];
        numbers.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
        put_lengths(to, &[self.name.key().len()]);
        to.extend_from_slice(self.name.key());
        to.extend_from_slice(self.part);
    }

    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (table, condition) = (fields.u64()?, condition_of(fields.u64()?));
        let (upload, value_bytes, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let key_bytes = fields.length()?;
        let name = name(table, fields.bytes(key_bytes)?)?;
        let put = Self { name, condition, upload, value_bytes, offset, part: fields.rest() };
        if put.is_part() { Ok(put) } else { Err(Malformed) }
    }

    /// Whether it can be a part of a value: a shard takes no other.
    pub fn is_part(&self) -> bool {
        let (bytes, align) = (self.part.len() as u64, PART_ALIGN as u64);
        let is_long = (VALUE_BYTES_MAX as u64 + 1..=LONG_BYTES_MAX as u64).contains(&self.value_bytes);
        let is_within = self.offset.checked_add(bytes).is_some_and(|end| end <= self.value_bytes);
        let is_aligned = self.offset.is_multiple_of(align) && (self.is_last() || bytes.is_multiple_of(align));
        let is_numbered = (self.upload == 0) == (self.offset == 0) && (self.upload != 0 || bytes > 0);
        is_long && is_within && is_aligned && is_numbered && self.part.len() <= PART_BYTES_MAX
    }

    /// Whether the value is whole with it.
    pub fn is_last(&self) -> bool {
        self.offset.checked_add(self.part.len() as u64) == Some(self.value_bytes)
    }
}
