//! What lies on the disk, byte by byte as `docs/protocol/log.md` shows it.
//!
//! Two superblocks, then frames of [`FRAME_BYTES`]. A frame holds a segment: groups of records, each on
//! blocks of its own, so that no block is ever written twice while it is needed. The header of a group is its
//! certificate: which segment and epoch it is of, where in the segment it lies, and the CRC32C of everything
//! in the segment up to its end. The first group of a segment is its digest: which segments there are besides
//! it and how they end, and which tables.

use farcall_disk::{BLOCK_BYTES, Blocks};

use super::rebuilding;
use crate::store::{CollectionKind, LONG_BYTES_MAX, PIECE_BYTES};
use crate::wire::{Fields, Malformed};
use crate::{KEY_BYTES_MAX, TABLE_NAME_BYTES_MAX, VALUE_BYTES_MAX};

/// The version of all this.
pub const FORMAT_VERSION: u32 = 4;

/// The first version in which hash slots say which shard has a key.
pub const SLOTS_VERSION: u32 = 3;

/// The oldest version that is understood: one without clients, their results, and what Redis clients write.
const OLDEST_VERSION: u32 = 1;

/// Where the superblocks are.
pub const SUPERBLOCKS_AT: [u64; 2] = [0, 64 << 10];

/// Where the first frame is.
pub const FRAMES_AT: u64 = 1 << 20;

/// Bytes of a frame.
pub const FRAME_BYTES: usize = 4 << 20;

/// Bytes of the header of a group, before its records.
pub const GROUP_HEADER_BYTES: usize = 64;

/// Bytes of a record without what it names and holds, at most.
pub const RECORD_BYTES: usize = 41;

/// Bytes of a put without key and value.
const PUT_HEADER_BYTES: usize = 25;

pub(super) const SUPERBLOCK_MAGIC: [u8; 8] = *b"farcalkv";
const GROUP_MAGIC: [u8; 4] = *b"fcGR";

/// Where a frame begins.
pub fn frame_at(frame: u32) -> u64 {
    FRAMES_AT + u64::from(frame) * FRAME_BYTES as u64
}

/// What a log is and where its head was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The version that it was read in; it is always written in the newest.
    pub version: u32,
    /// The shard, and how many there are: which objects belong here.
    pub shard: u32,
    pub shards: u32,
    /// The frame of the head.
    pub head_frame: u32,
    /// Random, drawn when the log was created: what another log left on this disk is not this one's.
    pub log: u64,
    /// How often the log was opened.
    pub epoch: u64,
    /// How often superblocks were written: the higher one counts.
    pub generation: u64,
    /// The head when this was written; no segment before it is the head any more.
    pub head: u64,
}

/// Why a block is no superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSuperblock {
    /// All of it is zero: nothing was written yet.
    Blank,
    /// Of a format that this program does not understand.
    Version(u32),
    /// Damaged, or something else.
    Damaged,
}

impl Superblock {
    /// The block.
    pub fn encode(&self) -> Blocks {
        let mut block = Blocks::new();
        block.extend_from_slice(&SUPERBLOCK_MAGIC);
        for number in [FORMAT_VERSION, self.shard, self.shards, self.head_frame] {
            block.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.log, self.epoch, self.generation, self.head] {
            block.extend_from_slice(&number.to_le_bytes());
        }
        block.extend_from_slice(&0_u32.to_le_bytes());
        let crc = crc32c::crc32c(&block);
        block.extend_from_slice(&crc.to_le_bytes());
        block.pad();
        block
    }

    /// Reads it from a block.
    pub fn decode(block: &[u8]) -> Result<Self, NoSuperblock> {
        if block.iter().all(|&byte| byte == 0) {
            return Err(NoSuperblock::Blank);
        }
        let magic = block.strip_prefix(&SUPERBLOCK_MAGIC);
        let mut fields = Fields(magic.ok_or(NoSuperblock::Damaged)?);
        let damaged = |Malformed| NoSuperblock::Damaged;
        let version = fields.u32().map_err(damaged)?;
        if !(OLDEST_VERSION..=FORMAT_VERSION).contains(&version) {
            return Err(NoSuperblock::Version(version));
        }
        let mut u32 = || fields.u32().map_err(damaged);
        let (shard, shards, head_frame) = (u32()?, u32()?, u32()?);
        let mut u64 = || fields.u64().map_err(damaged);
        let (log, epoch, generation, head) = (u64()?, u64()?, u64()?, u64()?);
        let (_, crc) = (fields.u32().map_err(damaged)?, fields.u32().map_err(damaged)?);
        if crc != crc32c::crc32c(&block[..60]) {
            return Err(NoSuperblock::Damaged);
        }
        Ok(Self { version, shard, shards, head_frame, log, epoch, generation, head })
    }
}

/// The certificate of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// The segment.
    pub segment: u64,
    /// The epoch in which it was written.
    pub epoch: u64,
    /// Where in the segment the group begins: the length of all groups before it.
    pub at: u32,
    /// Bytes of its records.
    pub bytes: u32,
    /// The version that the store had given last.
    pub last_version: u64,
    /// How many records it has.
    pub records: u32,
    /// The CRC32C of the segment up to here, and with this group.
    pub crc_before: u32,
    pub crc: u32,
    /// Whether it counts only with the group after it.
    pub continues: bool,
}

impl GroupHeader {
    /// Bytes of the group on the disk.
    pub fn disk_bytes(&self) -> usize {
        (GROUP_HEADER_BYTES + self.bytes as usize).next_multiple_of(BLOCK_BYTES)
    }

    /// Completes a group of this log, whose records lie behind room for the header; sets `bytes` and `crc`.
    pub fn seal(&mut self, log: u64, group: &mut Blocks) {
        self.bytes = (group.len() - GROUP_HEADER_BYTES) as u32;
        group[..4].copy_from_slice(&GROUP_MAGIC);
        let mut at = 4;
        let mut put = |bytes: &[u8]| {
            group[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&self.at.to_le_bytes());
        [self.segment, self.epoch, log, self.last_version]
            .iter()
            .for_each(|number| put(&number.to_le_bytes()));
        [self.bytes, self.records, self.crc_before, u32::from(self.continues), 0]
            .iter()
            .for_each(|number| put(&number.to_le_bytes()));
        self.crc = crc_of(self.crc_before, group);
        group[CRC_AT..GROUP_HEADER_BYTES].copy_from_slice(&self.crc.to_le_bytes());
        group.pad();
    }

    /// The header of a group of a log at the start of `bytes`, which may be damaged, and the log's bytes from
    /// there on.
    pub fn parse(log: u64, bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut fields = Fields(bytes.strip_prefix(&GROUP_MAGIC)?);
        let at = fields.u32().ok()?;
        let (segment, epoch) = (fields.u64().ok()?, fields.u64().ok()?);
        let (of_log, last_version) = (fields.u64().ok()?, fields.u64().ok()?);
        let (length, records, crc_before) = (fields.u32().ok()?, fields.u32().ok()?, fields.u32().ok()?);
        let (continues, crc) = (fields.u64().ok()? != 0, fields.u32().ok()?);
        let header =
            Self { segment, epoch, at, bytes: length, last_version, records, crc_before, crc, continues };
        (of_log == log).then_some((header, bytes))
    }

    /// The group of a log at the start of `bytes`, which verifies by itself, and its records; `None` when
    /// there is none.
    pub fn verify(log: u64, bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, bytes) = Self::parse(log, bytes)?;
        let group = bytes.get(..GROUP_HEADER_BYTES.checked_add(header.bytes as usize)?)?;
        (crc_of(header.crc_before, group) == header.crc).then_some((header, &group[GROUP_HEADER_BYTES..]))
    }
}

const CRC_AT: usize = GROUP_HEADER_BYTES - 4;

/// The CRC32C of a group and what lies before it, without that of the group itself.
fn crc_of(crc_before: u32, group: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc_before, &group[..CRC_AT]), &group[GROUP_HEADER_BYTES..])
}

/// How a segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The segment.
    pub segment: u64,
    /// Its frame.
    pub frame: u32,
    /// Bytes of its groups.
    pub bytes: u32,
    /// Their CRC32C.
    pub crc: u32,
}

/// One thing that happened, or holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// An object was written.
    Put { table: u64, version: u64, key: &'a [u8], value: &'a [u8] },
    /// An object was deleted, whose last version this was.
    Tombstone { table: u64, version: u64, key: &'a [u8] },
    /// There is a table of this name and level.
    Table { level: u8, name: &'a str },
    /// A table was dropped, with all objects of this version and lower ones.
    Drop { table: u64, version: u64 },
    /// A segment besides this one is needed, and ended so.
    Segment(Ending),
    /// A segment is not needed any more.
    Retired { segment: u64 },
    /// A client has an identity.
    Client { client: u64 },
    /// What the write right before this record was answered with, and the first result that the client may
    /// still ask for.
    Result { client: u64, sequence: u64, first: u64, answer: &'a [u8] },
    /// A client was forgotten.
    Gone { client: u64 },
    /// An object was written that expires.
    PutUntil { table: u64, version: u64, deadline: u64, key: &'a [u8], value: &'a [u8] },
    /// A collection is named so; `number` is what records of its elements call it.
    Collection { kind: CollectionKind, table: u64, version: u64, deadline: u64, number: u64, key: &'a [u8] },
    /// An element of a collection is there.
    Element { number: u64, stamp: u64, name: &'a [u8], value: &'a [u8] },
    /// An element of a collection is gone.
    Removed { number: u64, name: &'a [u8] },
    /// Of a list the elements with these numbers are left.
    Cut { number: u64, first: u64, end: u64 },
    /// All objects of a table are gone, up to this version.
    Cleared { table: u64, version: u64 },
    /// A piece of a long value. Of two for one place the one with the higher stamp counts.
    Piece { id: u64, stamp: u64, number: u32, body: &'a [u8] },
    /// An object was written whose value is this many bytes of these pieces; the deadline is 0 for none.
    Long { table: u64, version: u64, deadline: u64, id: u64, bytes: u32, key: &'a [u8] },
    /// The pieces of a long value are not needed any more.
    Ended { id: u64 },
}

impl<'a> Record<'a> {
    /// Appends it to a group.
    pub fn encode(&self, to: &mut Blocks) {
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| to.extend_from_slice(part));
        match *self {
            Self::Put { table, version, key, value } => put(&[
                &[1],
                &table.to_le_bytes(),
                &version.to_le_bytes(),
                &(key.len() as u32).to_le_bytes(),
                &(value.len() as u32).to_le_bytes(),
                key,
                value,
            ]),
            Self::Tombstone { table, version, key } => put(&[
                &[2],
                &table.to_le_bytes(),
                &version.to_le_bytes(),
                &(key.len() as u32).to_le_bytes(),
                key,
            ]),
            Self::Table { level, name } => put(&[&[3, level, name.len() as u8], name.as_bytes()]),
            Self::Drop { table, version } => put(&[&[4], &table.to_le_bytes(), &version.to_le_bytes()]),
            Self::Segment(Ending { segment, frame, bytes, crc }) => put(&[
                &[5],
                &segment.to_le_bytes(),
                &frame.to_le_bytes(),
                &bytes.to_le_bytes(),
                &crc.to_le_bytes(),
            ]),
            Self::Retired { segment } => put(&[&[6], &segment.to_le_bytes()]),
            Self::Client { client } => put(&[&[7], &client.to_le_bytes()]),
            Self::Result { client, sequence, first, answer } => put(&[
                &[8],
                &client.to_le_bytes(),
                &sequence.to_le_bytes(),
                &first.to_le_bytes(),
                &[answer.len() as u8],
                answer,
            ]),
            Self::Gone { client } => put(&[&[9], &client.to_le_bytes()]),
            Self::PutUntil { table, version, deadline, key, value } => put(&[
                &[10],
                &table.to_le_bytes(),
                &version.to_le_bytes(),
                &deadline.to_le_bytes(),
                &(key.len() as u32).to_le_bytes(),
                &(value.len() as u32).to_le_bytes(),
                key,
                value,
            ]),
            Self::Collection { kind, table, version, deadline, number, key } => put(&[
                &[11, kind_number(kind)],
                &table.to_le_bytes(),
                &version.to_le_bytes(),
                &deadline.to_le_bytes(),
                &number.to_le_bytes(),
                &(key.len() as u32).to_le_bytes(),
                key,
            ]),
            Self::Element { number, stamp, name, value } => put(&[
                &[12],
                &number.to_le_bytes(),
                &stamp.to_le_bytes(),
                &(name.len() as u32).to_le_bytes(),
                &(value.len() as u32).to_le_bytes(),
                name,
                value,
            ]),
            Self::Removed { number, name } => {
                put(&[&[13], &number.to_le_bytes(), &(name.len() as u32).to_le_bytes(), name]);
            }
            Self::Cut { number, first, end } => {
                put(&[&[14], &number.to_le_bytes(), &first.to_le_bytes(), &end.to_le_bytes()]);
            }
            Self::Cleared { table, version } => {
                put(&[&[15], &table.to_le_bytes(), &version.to_le_bytes()]);
            }
            Self::Piece { id, stamp, number, body } => put(&[
                &[30],
                &id.to_le_bytes(),
                &stamp.to_le_bytes(),
                &number.to_le_bytes(),
                &(body.len() as u32).to_le_bytes(),
                body,
            ]),
            Self::Long { table, version, deadline, id, bytes, key } => put(&[
                &[31],
                &table.to_le_bytes(),
                &version.to_le_bytes(),
                &deadline.to_le_bytes(),
                &id.to_le_bytes(),
                &bytes.to_le_bytes(),
                &(key.len() as u32).to_le_bytes(),
                key,
            ]),
            Self::Ended { id } => put(&[&[32], &id.to_le_bytes()]),
        }
    }

    /// Bytes that the record of a dropped table takes: its kind, the table, the version.
    pub const DROP_BYTES: usize = 1 + 8 + 8;

    /// Bytes that the record of an ended value takes.
    pub const ENDED_BYTES: usize = 1 + 8;

    /// Bytes that it takes, or a few more.
    pub fn bytes(&self) -> usize {
        RECORD_BYTES
            + match *self {
                Self::Put { key, value, .. } | Self::PutUntil { key, value, .. } => key.len() + value.len(),
                Self::Tombstone { key, .. } | Self::Collection { key, .. } | Self::Long { key, .. } => {
                    key.len()
                }
                Self::Piece { body, .. } => body.len(),
                Self::Element { name, value, .. } => name.len() + value.len(),
                Self::Removed { name, .. } => name.len(),
                Self::Table { name, .. } => name.len(),
                Self::Result { answer, .. } => answer.len(),
                Self::Drop { .. }
                | Self::Segment(_)
                | Self::Retired { .. }
                | Self::Client { .. }
                | Self::Gone { .. }
                | Self::Cut { .. }
                | Self::Cleared { .. }
                | Self::Ended { .. } => 0,
            }
    }

    /// Bytes that a put takes.
    pub const fn put_bytes(key_bytes: usize, value_bytes: usize) -> usize {
        PUT_HEADER_BYTES + key_bytes + value_bytes
    }

    /// Takes the next record off.
    fn next(fields: &mut Fields<'a>) -> Result<Self, Malformed> {
        let key = |fields: &mut Fields<'a>, bytes: usize| match bytes {
            1..=KEY_BYTES_MAX => fields.bytes(bytes),
            _ => Err(Malformed),
        };
        match fields.u8()? {
            kind @ (1 | 10) => {
                let (table, version) = (fields.u64()?, fields.u64()?);
                let deadline = if kind == 10 { fields.u64()? } else { 0 };
                let (key_bytes, value_bytes) = (fields.length()?, fields.length()?);
                let key = key(fields, key_bytes)?;
                if value_bytes > VALUE_BYTES_MAX || version == 0 {
                    return Err(Malformed);
                }
                let value = fields.bytes(value_bytes)?;
                Ok(match kind {
                    1 => Self::Put { table, version, key, value },
                    _ => Self::PutUntil { table, version, deadline, key, value },
                })
            }
            2 => {
                let (table, version, key_bytes) = (fields.u64()?, fields.u64()?, fields.length()?);
                Ok(Self::Tombstone { table, version, key: key(fields, key_bytes)? })
            }
            3 => {
                let (level, bytes) = (fields.u8()?, usize::from(fields.u8()?));
                if !(1..=TABLE_NAME_BYTES_MAX).contains(&bytes) {
                    return Err(Malformed);
                }
                let name = core::str::from_utf8(fields.bytes(bytes)?).map_err(|_| Malformed)?;
                Ok(Self::Table { level, name })
            }
            4 => Ok(Self::Drop { table: fields.u64()?, version: fields.u64()? }),
            5 => {
                let (segment, frame) = (fields.u64()?, fields.u32()?);
                Ok(Self::Segment(Ending { segment, frame, bytes: fields.u32()?, crc: fields.u32()? }))
            }
            6 => Ok(Self::Retired { segment: fields.u64()? }),
            7 => Ok(Self::Client { client: fields.u64()? }),
            8 => {
                let (client, sequence, first) = (fields.u64()?, fields.u64()?, fields.u64()?);
                let bytes = usize::from(fields.u8()?);
                Ok(Self::Result { client, sequence, first, answer: fields.bytes(bytes)? })
            }
            9 => Ok(Self::Gone { client: fields.u64()? }),
            11 => {
                let kind = kind_numbered(fields.u8()?)?;
                let (table, version, deadline) = (fields.u64()?, fields.u64()?, fields.u64()?);
                let (number, key_bytes) = (fields.u64()?, fields.length()?);
                let key = key(fields, key_bytes)?;
                if version == 0 || number == 0 {
                    return Err(Malformed);
                }
                Ok(Self::Collection { kind, table, version, deadline, number, key })
            }
            12 => {
                let (number, stamp) = (fields.u64()?, fields.u64()?);
                let (name_bytes, value_bytes) = (fields.length()?, fields.length()?);
                let (name, value) = (fields.bytes(name_bytes)?, fields.bytes(value_bytes)?);
                Ok(Self::Element { number, stamp, name, value })
            }
            13 => {
                let (number, name_bytes) = (fields.u64()?, fields.length()?);
                Ok(Self::Removed { number, name: fields.bytes(name_bytes)? })
            }
            14 => Ok(Self::Cut { number: fields.u64()?, first: fields.u64()?, end: fields.u64()? }),
            15 => Ok(Self::Cleared { table: fields.u64()?, version: fields.u64()? }),
            30 => {
                let (id, stamp, number) = (fields.u64()?, fields.u64()?, fields.u32()?);
                let (body_bytes, is_one) = (fields.length()?, (number as usize) < PIECES_MAX);
                if !is_one || !(1..=PIECE_BYTES).contains(&body_bytes) {
                    return Err(Malformed);
                }
                Ok(Self::Piece { id, stamp, number, body: fields.bytes(body_bytes)? })
            }
            31 => {
                let (table, version, deadline) = (fields.u64()?, fields.u64()?, fields.u64()?);
                let (id, bytes, key_bytes) = (fields.u64()?, fields.u32()?, fields.length()?);
                let key = key(fields, key_bytes)?;
                if version == 0 || !(VALUE_BYTES_MAX + 1..=LONG_BYTES_MAX).contains(&(bytes as usize)) {
                    return Err(Malformed);
                }
                Ok(Self::Long { table, version, deadline, id, bytes, key })
            }
            32 => Ok(Self::Ended { id: fields.u64()? }),
            _ => Err(Malformed),
        }
    }
}

/// The most pieces of a value.
const PIECES_MAX: usize = LONG_BYTES_MAX / PIECE_BYTES;

fn kind_number(kind: CollectionKind) -> u8 {
    match kind {
        CollectionKind::List => 0,
        CollectionKind::Hash => 1,
        CollectionKind::Set => 2,
        CollectionKind::Sorted => 3,
    }
}

fn kind_numbered(number: u8) -> Result<CollectionKind, Malformed> {
    Ok(match number {
        0 => CollectionKind::List,
        1 => CollectionKind::Hash,
        2 => CollectionKind::Set,
        3 => CollectionKind::Sorted,
        _ => return Err(Malformed),
    })
}

/// The records of a group that verified, up to the first that is none.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Result<Record<'_>, Malformed>> {
    let mut fields = Fields(bytes);
    core::iter::from_fn(move || {
        if fields.is_empty() {
            return None;
        }
        let record = Record::next(&mut fields);
        if record.is_err() {
            fields = Fields(&[]);
        }
        Some(record)
    })
}

/// Takes any bytes for what lies on a disk; what is read is written to the same bytes.
#[doc(hidden)]
pub fn fuzz_log(bytes: &[u8]) {
    let mut written = Blocks::new();
    for record in records(bytes).map_while(Result::ok) {
        record.encode(&mut written);
    }
    assert_eq!(*written, bytes[..written.len()], "records are one after the other");
    rebuilding::fuzz(bytes);
    if let Ok(superblock) = Superblock::decode(bytes) {
        assert_eq!(superblock.encode()[12..56], bytes[12..56]);
    }
    // A certificate names its log.
    let log = bytes.get(24..32).map_or(0, |log| u64::from_le_bytes(log.try_into().expect("eight")));
    if let Some((header, records)) = GroupHeader::verify(log, bytes) {
        assert_eq!(records.len(), header.bytes as usize);
    }
}
