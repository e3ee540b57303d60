//! Values that are longer than a message, part by part.
//!
//! Reads keep nothing between two parts: who reads names a version, and is told when there is another one. A
//! value that is written lies in the store as it comes, like those of Redis clients, and is nobody's before
//! its last part. An upload that is refused a part is dropped, unless the part may come again; so is one
//! that gets none for a while. It belongs to no session: its number, which nobody can guess, is enough.

use core::time::Duration;
use std::time::Instant;

use super::{Answer, Shard, write_response};
use crate::TableId;
use crate::durable::{Durable, Level, When, fresh_number};
use crate::store::{Expiry, Held, WriteError, long_record_bytes};
use crate::wire::{Code, GetPartRequest, PART_BYTES_MAX, PartResponse, PutPartRequest, WriteResponse};

/// The most uploads of a shard at a time.
const UPLOADS_MAX: usize = 64;

/// An upload that gets no part for so long is dropped: as long as a Redis client may take.
const UPLOAD_IDLE_MAX: Duration = Duration::from_secs(60);

/// A value that comes.
#[derive(Debug)]
struct Upload {
    number: u64,
    table: TableId,
    key: Vec<u8>,
    value_bytes: u64,
    held: Held,
    heard_at: Instant,
}

impl Upload {
    /// Whether a part is the next one.
    fn is_continued_by(&self, part: &PutPartRequest<'_>) -> bool {
        let of = (self.number, self.table, &*self.key, self.value_bytes, self.held.len() as u64);
        of == (part.upload, part.name.table(), part.name.key(), part.value_bytes, part.offset)
    }
}

/// The values that come.
#[derive(Debug, Default)]
pub(super) struct Uploads(Vec<Upload>);

impl Uploads {
    /// Drops those that get no parts.
    #[inline]
    pub(super) fn drop_idle(&mut self) {
        if !self.0.is_empty() {
            self.0.retain(|upload| upload.heard_at.elapsed() < UPLOAD_IDLE_MAX);
        }
    }

    /// The upload that a part continues. It is dropped unless it comes back.
    fn take(&mut self, part: &PutPartRequest<'_>) -> Option<Upload> {
        let place = self.0.iter().position(|upload| upload.is_continued_by(part))?;
        Some(self.0.swap_remove(place))
    }
}

impl Shard {
    /// Reads a part of a value, however long that is.
    pub(super) fn get_part(&mut self, message: &[u8], reply: impl Answer) {
        match self.read_part(message) {
            Ok((answer, when)) => self.answer_when(when, &answer, reply),
            Err(code) => self.refuse(reply, code),
        }
    }

    fn read_part(&mut self, message: &[u8]) -> Result<(Vec<u8>, When), Code> {
        let get = self.mine(GetPartRequest::decode(message), |get| get.name)?;
        self.counters.gets.increment();
        let table = get.name.table();
        self.may_answer_of(self.is_durable(table))?;
        let Some(object) = self.store.get(get.name)? else {
            return Ok((PartResponse::NONE.to_vec(), self.when_told(table, 0)));
        };
        if object.is_collection() {
            return Err(Code::Collection);
        }
        let (version, value_bytes) = (object.version(), object.value_bytes());
        let from = usize::try_from(get.offset).map_or(value_bytes, |offset| offset.min(value_bytes));
        let most = if get.version == 0 || get.version == version { get.bytes as usize } else { 0 };
        let end = value_bytes.min(from + most.min(PART_BYTES_MAX));
        let mut answer = Vec::with_capacity(PartResponse::HEADER_BYTES + end - from);
        PartResponse::begin(version, value_bytes, &mut answer);
        object.pieces(from, end, |piece| answer.extend_from_slice(piece));
        Ok((answer, self.when_told(table, version)))
    }

    /// Writes a part of a value that is longer than a message.
    pub(super) fn put_part(&mut self, message: &[u8], reply: impl Answer) {
        match self.take_part(message) {
            Ok((response, when)) => self.answer_when(when, &response.encode(), reply),
            Err(code) => self.refuse(reply, code),
        }
    }

    fn take_part(&mut self, message: &[u8]) -> Result<(WriteResponse, When), Code> {
        let part = self.mine(PutPartRequest::decode(message), |part| part.name)?;
        let table = part.name.table();
        self.may_answer_of(self.is_durable(table))?;
        let version = self.store.get(part.name)?.map_or(0, |object| object.version());
        if let Err(refused @ WriteError::WrongVersion { .. }) = part.condition.check(version) {
            self.uploads.take(&part);
            return Ok((write_response(Err(refused)), self.when_told(table, version)));
        }
        let mut upload = match part.upload {
            0 => self.begin_upload(&part)?,
            _ => self.uploads.take(&part).ok_or(Code::ClientForgotten)?,
        };
        let number = upload.number;
        if part.part.is_empty() {
            return Ok((write_response(Ok(number)), When::Now));
        }
        match self.extend_upload(&mut upload, &part) {
            Ok((Some(version), when)) => {
                self.counters.puts.increment();
                let level = self.level_of(table);
                Ok((WriteResponse { code: Code::Done, version, level }, when))
            }
            Ok((None, when)) => {
                self.uploads.0.push(upload);
                Ok((WriteResponse { code: Code::Done, version: number, level: Level::Memory }, when))
            }
            // Nothing of the part was taken. Of a first one nobody knows the number.
            Err(Code::Busy) if part.upload != 0 => {
                self.uploads.0.push(upload);
                Err(Code::Busy)
            }
            Err(code) => Err(code),
        }
    }

    fn begin_upload(&mut self, part: &PutPartRequest<'_>) -> Result<Upload, Code> {
        self.uploads.drop_idle();
        if self.uploads.0.len() >= UPLOADS_MAX {
            return Err(Code::Busy);
        }
        let (table, value_bytes) = (part.name.table(), part.value_bytes);
        if !self.store.could_hold(value_bytes as usize) {
            return Err(Code::OutOfMemory);
        }
        self.admit_long(table, value_bytes as usize)?;
        let (number, key, heard_at) = (fresh_number().max(1), part.name.key().to_vec(), Instant::now());
        Ok(Upload { number, table, key, value_bytes, held: self.begin_long(table), heard_at })
    }

    /// Takes a part, and with the last one writes the object, whose version it gives; and says when either
    /// may be told.
    fn extend_upload(
        &mut self,
        upload: &mut Upload,
        part: &PutPartRequest<'_>,
    ) -> Result<(Option<u64>, When), Code> {
        let is_durable = self.is_durable(part.name.table());
        if is_durable != self.store.is_logged(&upload.held) {
            // The table was dropped, and is another one now.
            return Err(Code::ClientForgotten);
        }
        if is_durable {
            let record_bytes = long_record_bytes(part.part.len()) + Durable::DELETE_BYTES_MAX;
            self.admit(record_bytes, record_bytes)?;
        }
        let written = self.write_part(upload, part);
        // Also where the store refused: what it took by then goes to the log, and ends there.
        let group = self.record_changes();
        Ok((written?, group.map_or(When::Now, When::Flushed)))
    }

    fn write_part(
        &mut self,
        upload: &mut Upload,
        part: &PutPartRequest<'_>,
    ) -> Result<Option<u64>, WriteError> {
        self.store.extend_long(&mut upload.held, part.part)?;
        upload.heard_at = Instant::now();
        if part.is_last() {
            self.store.put_long(part.name, &upload.held, Expiry::Never).map(Some)
        } else {
            Ok(None)
        }
    }

    /// When a version of an object of a table may be told, 0 if there is none.
    fn when_told(&self, table: TableId, version: u64) -> When {
        match &self.durable {
            Some(durable) if self.is_durable(table) => durable.when(version),
            _ => When::Now,
        }
    }
}
