//! Writes of one object each, and what is recorded of those who write once.

use farcall_base::canary::{Rule, leaves_out};

use super::format::Record;
use super::{Durable, Level, When};
use crate::store::{Condition, IncrementError, Store, WriteError};
use crate::wire::{Code, WriteResponse};
use crate::{Name, TableId, Value};

impl Durable {
    /// Writes an object of a durable table, and records it.
    pub fn put(
        &mut self,
        store: &mut Store,
        name: Name<'_>,
        value: Value<'_>,
        condition: Condition,
    ) -> Result<(WriteResponse, When), Code> {
        let record_bytes = Record::put_bytes(name.key().len(), value.as_bytes().len());
        self.follow_ended(store);
        self.admit(record_bytes, record_bytes)?;
        match store.put(name, value, condition) {
            Ok(version) => Ok((self.written(name.table(), version), self.recorded(store))),
            Err(error) => self.not_written(error),
        }
    }

    /// Deletes an object of a durable table, and records it.
    pub fn delete(
        &mut self,
        store: &mut Store,
        name: Name<'_>,
        condition: Condition,
    ) -> Result<(WriteResponse, When), Code> {
        self.admit(Record::put_bytes(name.key().len(), 0), 0)?;
        match store.delete(name, condition) {
            Ok(Some(version)) => Ok((self.written(name.table(), version), self.recorded(store))),
            Ok(None) => Ok((self.written(name.table(), 0), self.when(0))),
            Err(error) => self.not_written(error),
        }
    }

    /// Adds to a number of a durable table, and records the sum.
    pub fn increment(
        &mut self,
        store: &mut Store,
        name: Name<'_>,
        amount: i64,
    ) -> Result<((u64, i64), When), Code> {
        /// The longest number has a sign and 19 digits.
        const DIGITS_MAX: usize = 20;
        let record_bytes = Record::put_bytes(name.key().len(), DIGITS_MAX);
        self.follow_ended(store);
        self.admit(record_bytes, record_bytes)?;
        let (version, sum) =
            store.increment(name, amount).map_err(|error: IncrementError| Code::from(error))?;
        Ok(((version, sum), self.recorded(store)))
    }

    /// Records what was just done; when it may be answered.
    fn recorded(&mut self, store: &mut Store) -> When {
        self.record_changes(store).map_or(When::Now, When::Flushed)
    }

    /// A client has an identity now; when it may be told.
    pub fn client_added(&mut self, client: u64) -> When {
        self.journal.append(&Record::Client { client });
        When::Flushed(self.journal.gathering())
    }

    /// A client was forgotten.
    pub fn client_gone(&mut self, client: u64) {
        self.journal.append(&Record::Gone { client });
    }

    /// Records the answer to the write that was recorded last, in the same group: either both survive or
    /// none.
    pub fn record_result(&mut self, client: u64, (sequence, first): (u64, u64), answer: &[u8]) {
        if !leaves_out(Rule::Results) {
            self.journal.append(&Record::Result { client, sequence, first, answer });
        }
    }

    fn written(&self, table: TableId, version: u64) -> WriteResponse {
        WriteResponse { code: Code::Done, version, level: self.level_of(table) }
    }

    /// The answer to a write that the store refused.
    fn not_written(&self, error: WriteError) -> Result<(WriteResponse, When), Code> {
        match error {
            WriteError::WrongVersion { version } => {
                let response = WriteResponse { code: Code::WrongVersion, version, level: Level::Memory };
                Ok((response, self.when(version)))
            }
            error => Err(error.into()),
        }
    }
}
