//! Responses.

use super::code::Code;
use super::fields::{Fields, Malformed};
use super::request::items;
use crate::durable::Level;
use crate::store::{CleanerStatistics, Object, ScanNext, StoreStatistics};
use crate::{TABLE_NAME_BYTES_MAX, TableId};

/// The answer to a get: eight bytes of zero when there is no such object, else its version and its value,
/// which is how they lie in the store.
#[inline]
pub fn found(message: &[u8]) -> Result<Option<(u64, &[u8])>, Malformed> {
    let mut fields = Fields(message);
    match fields.u64()? {
        0 => fields.end().map(|()| None),
        version => Ok(Some((version, fields.rest()))),
    }
}

/// The answer to a put or a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteResponse {
    /// [`Code::Done`] or [`Code::WrongVersion`].
    pub code: Code,
    /// The new version; of a deleted object the last one, 0 when there was none; with a wrong version the
    /// right one.
    pub version: u64,
    /// What the write survives, of one that was done.
    pub level: Level,
}

/// This bit of the code of a write that was done says that the others are its level.
const LEVEL: u8 = 0x80;

impl WriteResponse {
    /// Bytes of the message.
    pub const BYTES: usize = 9;

    /// The message.
    ///
    /// It is put together as a word and a byte, which is how it is read when it is put into a slot: a load
    /// across two stores would have to wait until they are done, and all stores before them, such as the last
    /// response.
    #[inline]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let code = match (self.code, self.level) {
            (code, Level::Memory) => code as u8,
            (_, level) => LEVEL | level.to_wire(),
        };
        let mut message = [(self.version >> 56) as u8; Self::BYTES];
        message[..8].copy_from_slice(&(self.version << 8 | u64::from(code)).to_le_bytes());
        message
    }

    /// Reads it from a message.
    #[inline]
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let response = Self::next(&mut fields)?;
        fields.end().map(|()| response)
    }

    #[inline]
    fn next(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let (code, level) = match fields.u8()? {
            code if code & LEVEL == 0 => (Code::from_wire(code), Some(Level::Memory)),
            level => (Some(Code::Done), Level::from_wire(level & !LEVEL)),
        };
        let (code, level) = (code.ok_or(Malformed)?, level.ok_or(Malformed)?);
        Ok(Self { code, version: fields.u64()?, level })
    }
}

/// The answer to an increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncrementResponse {
    /// The object's new version.
    pub version: u64,
    /// The sum.
    pub sum: i64,
    /// What it survives.
    pub level: Level,
}

impl IncrementResponse {
    /// The message about an object in memory.
    pub fn encode(&self) -> [u8; 16] {
        let mut message = [0; 16];
        message[..8].copy_from_slice(&self.version.to_le_bytes());
        message[8..].copy_from_slice(&self.sum.to_le_bytes());
        message
    }

    /// The message about an object of a durable table: one byte more says what it survives.
    pub fn encode_with_level(&self) -> [u8; 17] {
        let mut message = [self.level.to_wire(); 17];
        message[..16].copy_from_slice(&self.encode());
        message
    }

    /// Reads it from a message.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (version, sum) = (fields.u64()?, fields.i64()?);
        let level = if fields.is_empty() { 0 } else { fields.u8()? };
        let response = Self { version, sum, level: Level::from_wire(level).ok_or(Malformed)? };
        fields.end().map(|()| response)
    }
}

/// One object of the answer to a multi-get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiGetItem<'a> {
    /// [`Code::Done`], or why the object was not read.
    pub code: Code,
    /// Its version, 0 when there is no such object.
    pub version: u64,
    /// Its value.
    pub value: &'a [u8],
}

/// The answer to a multi-get.
#[derive(Clone, Copy, Debug)]
pub struct MultiGetResponse<'a>(Fields<'a>);

/// Bytes of an object in the answer to a multi-get, without its value.
const MULTI_GET_ITEM_BYTES: usize = 13;

impl<'a> MultiGetResponse<'a> {
    /// How many objects with values of this many bytes one answer has, if they are asked for.
    pub const fn objects_max(value_bytes: usize) -> usize {
        let others = super::PAGE_BYTES_MAX.saturating_sub(value_bytes) / (MULTI_GET_ITEM_BYTES + value_bytes);
        if others < super::TURN_OBJECTS_MAX { 1 + others } else { super::TURN_OBJECTS_MAX }
    }

    /// Appends one more object, or why there is none.
    pub fn encode_item(found: Result<Option<Object<'_>>, Code>, to: &mut Vec<u8>) {
        let (code, object) = match found {
            Ok(object) => (Code::Done, object),
            Err(code) => (code, None),
        };
        let (version, bytes) = object.map_or((0, 0), |object| (object.version(), object.value_bytes()));
        to.push(code as u8);
        to.extend_from_slice(&version.to_le_bytes());
        to.extend_from_slice(&(bytes as u32).to_le_bytes());
        if let Some(object) = object {
            append_value(&object, to);
        }
    }

    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Self {
        Self(Fields(message))
    }

    /// The objects, in the order in which they were asked for.
    pub fn items(self) -> impl Iterator<Item = Result<MultiGetItem<'a>, Malformed>> {
        items(self.0, |fields| {
            let code = Code::from_wire(fields.u8()?).ok_or(Malformed)?;
            let (version, bytes) = (fields.u64()?, fields.length()?);
            Ok(MultiGetItem { code, version, value: fields.bytes(bytes)? })
        })
    }
}

/// The answer to a multi-put.
#[derive(Clone, Copy, Debug)]
pub struct MultiPutResponse<'a>(Fields<'a>);

impl<'a> MultiPutResponse<'a> {
    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Self {
        Self(Fields(message))
    }

    /// What became of the objects, in their order.
    pub fn items(self) -> impl Iterator<Item = Result<WriteResponse, Malformed>> {
        items(self.0, WriteResponse::next)
    }
}

/// One object of a page of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanItem<'a> {
    /// Its version.
    pub version: u64,
    /// Its key.
    pub key: &'a [u8],
    /// Its value; empty if it is left out.
    pub value: &'a [u8],
    /// Why its value is not here, if it is not.
    pub left_out: Option<LeftOut>,
}

/// Why an object has no value that is read at one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It is a collection of Redis clients.
    Collection,
    /// It is a string of Redis clients that is longer than a message.
    TooLong,
}

impl LeftOut {
    /// What stands in the place of the length of a value: no value is as long.
    const fn to_wire(self) -> u32 {
        match self {
            Self::Collection => u32::MAX,
            Self::TooLong => u32::MAX - 1,
        }
    }

    fn from_wire(value_bytes: u32) -> Option<Self> {
        [Self::Collection, Self::TooLong].into_iter().find(|why| why.to_wire() == value_bytes)
    }
}

/// What stands in the place of a hash when the next page begins behind the last object of this one.
const AFTER_LAST: u64 = u64::MAX;

/// A page of a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanResponse<'a> {
    /// Where the next page begins.
    pub next: ScanNext,
    fields: Fields<'a>,
}

impl<'a> ScanResponse<'a> {
    /// Begins a message; where the next page begins is filled in at its end.
    pub fn begin(to: &mut Vec<u8>) {
        to.extend_from_slice(&[0; 8]);
    }

    /// Appends one more object.
    pub fn encode_item(object: &Object<'_>, to: &mut Vec<u8>) {
        to.extend_from_slice(&(object.key().len() as u32).to_le_bytes());
        to.extend_from_slice(&(object.value_bytes() as u32).to_le_bytes());
        to.extend_from_slice(&object.version().to_le_bytes());
        to.extend_from_slice(object.key());
        append_value(object, to);
    }

    /// Appends the name of an object without its value.
    pub fn encode_left_out(object: &Object<'_>, why: LeftOut, to: &mut Vec<u8>) {
        to.extend_from_slice(&(object.key().len() as u32).to_le_bytes());
        to.extend_from_slice(&why.to_wire().to_le_bytes());
        to.extend_from_slice(&object.version().to_le_bytes());
        to.extend_from_slice(object.key());
    }

    /// Fills in where the next page begins. No next page begins at hash 0, and none at `u64::MAX`, which
    /// stands for "behind the last object".
    pub fn end(next: ScanNext, message: &mut [u8]) {
        let next = match next {
            ScanNext::End => 0,
            ScanNext::Hash(hash) => hash,
            ScanNext::AfterLast => AFTER_LAST,
        };
        message[..8].copy_from_slice(&next.to_le_bytes());
    }

    /// Reads it from a message.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let next = match fields.u64()? {
            0 => ScanNext::End,
            AFTER_LAST if fields.is_empty() => return Err(Malformed),
            AFTER_LAST => ScanNext::AfterLast,
            hash => ScanNext::Hash(hash),
        };
        Ok(Self { next, fields })
    }

    /// The objects.
    pub fn items(self) -> impl Iterator<Item = Result<ScanItem<'a>, Malformed>> {
        items(self.fields, |fields| {
            let (key_bytes, value_bytes, version) = (fields.length()?, fields.u32()?, fields.u64()?);
            let key = fields.bytes(key_bytes)?;
            let left_out = LeftOut::from_wire(value_bytes);
            let value = if left_out.is_some() { &[] } else { fields.bytes(value_bytes as usize)? };
            Ok(ScanItem { version, key, value, left_out })
        })
    }
}

fn append_value(object: &Object<'_>, to: &mut Vec<u8>) {
    let start = to.len();
    to.resize(start + object.value_bytes(), 0);
    object.copy_value_to(&mut to[start..]);
}

/// The answer to a request for a table with a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateTableResponse {
    /// The table's number.
    pub table: TableId,
    /// Its level, which survives what was asked for.
    pub level: Level,
}

impl CreateTableResponse {
    /// The message.
    pub fn encode(&self) -> [u8; 9] {
        let mut message = [self.level.to_wire(); 9];
        message[..8].copy_from_slice(&self.table.0.to_le_bytes());
        message
    }

    /// Reads it from a message.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (table, level) = (TableId(fields.u64()?), Level::from_wire(fields.u8()?).ok_or(Malformed)?);
        fields.end().map(|()| Self { table, level })
    }
}

/// What a shard says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardStatistics {
    /// Its number.
    pub shard: u32,
    /// How many there are.
    pub shards: u32,
    /// What its store holds.
    pub store: StoreStatistics,
    /// The names of its tables.
    pub tables: Vec<String>,
}

impl ShardStatistics {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        let store = &self.store;
        let cleaner = &store.cleaner;
        let mut message = [self.shard.to_le_bytes(), self.shards.to_le_bytes()].concat();
        for number in [
            store.objects,
            store.memory_bytes as u64,
            store.used_bytes as u64,
            store.live_bytes as u64,
            store.live_bytes_max as u64,
            cleaner.visited_bytes,
            cleaner.moved_bytes,
            cleaner.segments_freed,
            cleaner.forced,
        ] {
            message.extend_from_slice(&number.to_le_bytes());
        }
        for name in &self.tables {
            message.push(name.len() as u8);
            message.extend_from_slice(name.as_bytes());
        }
        message
    }

    /// Reads it from a message. What no store has is malformed: a client makes room for as many shards as
    /// this says.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let (shard, shards) = (fields.u32()?, fields.u32()?);
        if shard >= shards || shards > super::SHARDS_MAX {
            return Err(Malformed);
        }
        let mut bytes = || fields.u64().and_then(|bytes| usize::try_from(bytes).map_err(|_| Malformed));
        let objects = bytes()? as u64;
        let (memory_bytes, used_bytes, live_bytes, live_bytes_max) = (bytes()?, bytes()?, bytes()?, bytes()?);
        let cleaner = CleanerStatistics {
            visited_bytes: fields.u64()?,
            moved_bytes: fields.u64()?,
            segments_freed: fields.u64()?,
            forced: fields.u64()?,
        };
        let store =
            StoreStatistics { objects, memory_bytes, used_bytes, live_bytes, live_bytes_max, cleaner };
        let tables = items(fields, |fields| {
            let bytes = usize::from(fields.u8()?);
            if !(1..=TABLE_NAME_BYTES_MAX).contains(&bytes) {
                return Err(Malformed);
            }
            let name = core::str::from_utf8(fields.bytes(bytes)?).map_err(|_| Malformed)?;
            Ok(name.to_owned())
        });
        Ok(Self { shard, shards, store, tables: tables.collect::<Result<_, _>>()? })
    }
}
