//! Requests.

use core::iter;

use farcall::Service;

use super::fields::{Fields, Malformed};
use crate::durable::Level;
use crate::store::{Condition, ScanFrom};
use crate::{KEY_BYTES_MAX, Name, TableId, Value};

/// The version that stands for [`Condition::Always`]; no object gets so far.
const ALWAYS: u64 = u64::MAX;

/// A version that no object gets so far either. It stands for the two that mean something else.
const NEVER: u64 = u64::MAX - 1;

pub(super) fn wire_condition(condition: Condition) -> u64 {
    match condition {
        Condition::Always => ALWAYS,
        Condition::Absent => 0,
        Condition::Version(0 | ALWAYS) => NEVER,
        Condition::Version(version) => version,
    }
}

pub(super) fn condition_of(version: u64) -> Condition {
    match version {
        ALWAYS => Condition::Always,
        0 => Condition::Absent,
        version => Condition::Version(version),
    }
}

#[inline(always)]
pub(super) fn name(table: u64, key: &[u8]) -> Result<Name<'_>, Malformed> {
    Name::new(TableId(table), key).map_err(|_| Malformed)
}

pub(super) fn put_lengths(to: &mut Vec<u8>, lengths: &[usize]) {
    lengths.iter().for_each(|&length| to.extend_from_slice(&(length as u32).to_le_bytes()));
}

/// Asks for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetRequest<'a> {
    /// Which.
    pub name: Name<'a>,
}

impl<'a> GetRequest<'a> {
    /// Appends it to a message.
    #[inline]
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.reserve(size_of::<u64>() + self.name.key().len());
        to.extend_from_slice(&self.name.table().0.to_le_bytes());
        to.extend_from_slice(self.name.key());
    }

    /// Reads it from a message.
    #[inline(always)]
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        Ok(Self { name: name(fields.u64()?, fields.rest())? })
    }
}

/// Writes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutRequest<'a> {
    /// Which.
    pub name: Name<'a>,
    /// Its value.
    pub value: Value<'a>,
    /// What must hold.
    pub condition: Condition,
}

/// Bytes of a put without key and value.
const PUT_HEADER_BYTES: usize = 20;

impl<'a> PutRequest<'a> {
    /// Bytes of the message.
    pub fn bytes(&self) -> usize {
        PUT_HEADER_BYTES + self.name.key().len() + self.value.as_bytes().len()
    }

    /// Appends it to a message.
    #[inline]
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.reserve(self.bytes());
        to.extend_from_slice(&self.header());
        to.extend_from_slice(self.name.key());
        to.extend_from_slice(self.value.as_bytes());
    }

    /// Writes it into memory of its length.
    pub fn write(&self, to: &mut [u8]) {
        let (header, rest) = to.split_at_mut(PUT_HEADER_BYTES);
        let (key, value) = rest.split_at_mut(self.name.key().len());
        header.copy_from_slice(&self.header());
        key.copy_from_slice(self.name.key());
        value.copy_from_slice(self.value.as_bytes());
    }

    fn header(&self) -> [u8; PUT_HEADER_BYTES] {
        let mut header = [0; PUT_HEADER_BYTES];
        header[..8].copy_from_slice(&self.name.table().0.to_le_bytes());
        header[8..16].copy_from_slice(&wire_condition(self.condition).to_le_bytes());
        header[16..].copy_from_slice(&(self.name.key().len() as u32).to_le_bytes());
        header
    }

    /// Reads it from a message.
    #[inline(always)]
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (table, version, key_bytes) = (fields.u64()?, fields.u64()?, fields.length()?);
        let name = name(table, fields.bytes(key_bytes)?)?;
        let value = Value::new(fields.rest()).map_err(|_| Malformed)?;
        Ok(Self { name, value, condition: condition_of(version) })
    }
}

/// Deletes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteRequest<'a> {
    /// Which.
    pub name: Name<'a>,
    /// What must hold.
    pub condition: Condition,
}

impl<'a> DeleteRequest<'a> {
    /// Appends it to a message.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.reserve(2 * size_of::<u64>() + self.name.key().len());
        to.extend_from_slice(&self.name.table().0.to_le_bytes());
        to.extend_from_slice(&wire_condition(self.condition).to_le_bytes());
        to.extend_from_slice(self.name.key());
    }

    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (table, version) = (fields.u64()?, fields.u64()?);
        Ok(Self { name: name(table, fields.rest())?, condition: condition_of(version) })
    }
}

/// Adds to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncrementRequest<'a> {
    /// Which object.
    pub name: Name<'a>,
    /// How much.
    pub amount: i64,
}

impl<'a> IncrementRequest<'a> {
    /// Appends it to a message.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.reserve(2 * size_of::<u64>() + self.name.key().len());
        to.extend_from_slice(&self.name.table().0.to_le_bytes());
        to.extend_from_slice(&self.amount.to_le_bytes());
        to.extend_from_slice(self.name.key());
    }

    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (table, amount) = (fields.u64()?, fields.i64()?);
        Ok(Self { name: name(table, fields.rest())?, amount })
    }
}

/// Does a put, a delete or an increment once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnceRequest<'a> {
    /// The identity that the shard has given the client.
    pub client: u64,
    /// The number of the write, from 1.
    pub sequence: u64,
    /// The first write whose result the client may still ask for.
    pub first: u64,
    /// The call.
    pub service: Service,
    /// Its message.
    pub message: &'a [u8],
}

impl<'a> OnceRequest<'a> {
    /// Appends it to a message.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let numbers = [self.client, self.sequence, self.first];
        numbers.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
        to.extend_from_slice(&self.service.0.to_le_bytes());
        to.extend_from_slice(self.message);
    }

    /// Has a message come from another identity.
    pub(crate) fn rename(message: &mut [u8], rename: impl FnOnce(u64) -> u64) {
        if let Some((client, _)) = message.split_first_chunk_mut::<8>() {
            *client = rename(u64::from_le_bytes(*client)).to_le_bytes();
        }
    }

    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (client, sequence, first) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let service = Service(u16::from(fields.u8()?) | u16::from(fields.u8()?) << 8);
        Ok(Self { client, sequence, first, service, message: fields.rest() })
    }
}

/// Creates a table with a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateTableRequest<'a> {
    /// What its writes survive.
    pub level: Level,
    /// Its name.
    pub name: &'a str,
}

impl<'a> CreateTableRequest<'a> {
    /// Appends it to a message.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.push(self.level.to_wire());
        to.extend_from_slice(self.name.as_bytes());
    }

    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let level = Level::from_wire(fields.u8()?).ok_or(Malformed)?;
        let name = core::str::from_utf8(fields.rest()).map_err(|_| Malformed)?;
        TableId::of(name).map_err(|_| Malformed)?;
        Ok(Self { level, name })
    }
}

/// Asks for objects; as many are answered as fit into the answer and a turn, in order, at least one.
#[derive(Clone, Copy, Debug)]
pub struct MultiGetRequest<'a>(Fields<'a>);

impl<'a> MultiGetRequest<'a> {
    /// Appends one more object to a message.
    pub fn encode_item(name: Name<'_>, to: &mut Vec<u8>) {
        to.extend_from_slice(&name.table().0.to_le_bytes());
        put_lengths(to, &[name.key().len()]);
        to.extend_from_slice(name.key());
    }

    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Self {
        Self(Fields(message))
    }

    /// The objects, up to the first that is malformed.
    pub fn items(self) -> impl Iterator<Item = Result<Name<'a>, Malformed>> {
        items(self.0, |fields| {
            let (table, key_bytes) = (fields.u64()?, fields.length()?);
            name(table, fields.bytes(key_bytes)?)
        })
    }
}

/// Writes objects, one after the other and each by itself; as many as fit into a turn, at least one.
#[derive(Clone, Copy, Debug)]
pub struct MultiPutRequest<'a>(Fields<'a>);

impl<'a> MultiPutRequest<'a> {
    /// Appends one more object to a message.
    pub fn encode_item(put: &PutRequest<'_>, to: &mut Vec<u8>) {
        let (key, value) = (put.name.key(), put.value.as_bytes());
        to.extend_from_slice(&put.name.table().0.to_le_bytes());
        to.extend_from_slice(&wire_condition(put.condition).to_le_bytes());
        put_lengths(to, &[key.len(), value.len()]);
        to.extend_from_slice(key);
        to.extend_from_slice(value);
    }

    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Self {
        Self(Fields(message))
    }

    /// The objects, up to the first that is malformed.
    pub fn items(self) -> impl Iterator<Item = Result<PutRequest<'a>, Malformed>> {
        items(self.0, |fields| {
            let (table, condition) = (fields.u64()?, condition_of(fields.u64()?));
            let (key_bytes, value_bytes) = (fields.length()?, fields.length()?);
            let name = name(table, fields.bytes(key_bytes)?)?;
            let value = Value::new(fields.bytes(value_bytes)?).map_err(|_| Malformed)?;
            Ok(PutRequest { name, value, condition })
        })
    }
}

/// Items until the message ends or is malformed.
pub(super) fn items<'a, T>(
    mut fields: Fields<'a>,
    mut item: impl FnMut(&mut Fields<'a>) -> Result<T, Malformed>,
) -> impl Iterator<Item = Result<T, Malformed>> {
    iter::from_fn(move || {
        if fields.is_empty() {
            return None;
        }
        let found = item(&mut fields);
        if found.is_err() {
            fields = Fields(&[]);
        }
        Some(found)
    })
}

/// Asks for a page of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanRequest<'a> {
    /// Which table.
    pub table: TableId,
    /// The most bytes of keys and values, if it is less than [`PAGE_BYTES_MAX`](super::PAGE_BYTES_MAX); and
    /// [`NAMES_LEFT_OUT`], or not.
    pub page_bytes: u32,
    /// Where the page begins.
    pub from: ScanFrom<'a>,
}

/// This bit of the bytes of a page asks that objects are named, too, which have no value that is read at one
/// go. A shard of a version that does not know it leaves them out, as without it.
pub const NAMES_LEFT_OUT: u32 = 1 << 31;

impl<'a> ScanRequest<'a> {
    /// Appends it to a message.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let (hash, key) = match self.from {
            ScanFrom::Hash(hash) => (hash, &[][..]),
            ScanFrom::After(key) => (0, key),
        };
        to.extend_from_slice(&self.table.0.to_le_bytes());
        to.extend_from_slice(&self.page_bytes.to_le_bytes());
        to.extend_from_slice(&hash.to_le_bytes());
        to.extend_from_slice(key);
    }

    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (table, page_bytes, hash) = (TableId(fields.u64()?), fields.u32()?, fields.u64()?);
        let from = match (hash, fields.rest()) {
            (hash, []) => ScanFrom::Hash(hash),
            (0, key) if key.len() <= KEY_BYTES_MAX => ScanFrom::After(key),
            _ => return Err(Malformed),
        };
        Ok(Self { table, page_bytes, from })
    }
}
