//! Tables that clients create.

use super::{Answer, Shard};
use crate::TableId;
use crate::durable::{Level, When};
use crate::wire::{Code, CreateTableRequest, CreateTableResponse};

impl Shard {
    /// Creates a table in memory, unless there is one of that name.
    pub(super) fn create_named_table(&mut self, message: &[u8], reply: impl Answer) {
        // A copy, because a peer may change what lies in its memory.
        let Ok(name) = String::from_utf8(message.to_vec()) else {
            return self.refuse(reply, Code::Malformed);
        };
        match self.store.create_table(&name) {
            Ok(table) => reply.send(&table.0.to_le_bytes()),
            Err(error) => self.refuse(reply, error.into()),
        }
    }

    /// Creates a table with a level, unless there is one of that name which survives as much. What the shard
    /// cannot give is refused, and never weakened.
    pub(super) fn create_named_table_at(&mut self, message: &[u8], reply: impl Answer) {
        // A copy, as above.
        let message = message.to_vec();
        let Ok(request) = CreateTableRequest::decode(&message) else {
            return self.refuse(reply, Code::Malformed);
        };
        match self.create_at(request) {
            Ok((response, when)) => self.answer_when(when, &response.encode(), reply),
            Err(code) => self.refuse(reply, code),
        }
    }

    fn create_at(&mut self, request: CreateTableRequest<'_>) -> Result<(CreateTableResponse, When), Code> {
        let CreateTableRequest { level, name } = request;
        let table = TableId::of(name).map_err(|_| Code::Malformed)?;
        if self.store.table_names().any(|known| known == name) {
            return self.is_there_at(table, level);
        }
        let response = CreateTableResponse { table, level };
        if level == Level::Memory {
            self.store.create_table(name)?;
            return Ok((response, When::Now));
        }
        let Some(durable) = &mut self.durable else { return Err(Code::NoLog) };
        if !durable.reaches().covers(level) {
            return Err(Code::WeakLog);
        }
        let when = durable.create_table(&mut self.store, name, level)?;
        Ok((response, when))
    }

    /// A table that exists, if it survives what is asked for.
    fn is_there_at(&self, table: TableId, asked: Level) -> Result<(CreateTableResponse, When), Code> {
        let level = self.level_of(table);
        if !level.covers(asked) {
            return Err(Code::WeakTable);
        }
        let when = match &self.durable {
            Some(durable) if level != Level::Memory => {
                durable.may_answer()?;
                durable.when_table()
            }
            _ => When::Now,
        };
        Ok((CreateTableResponse { table, level }, when))
    }
}
