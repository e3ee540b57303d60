//! Durable tables that clients create.

use super::format::Record;
use super::{Durable, Level, REPLICAS_MAX, When};
use crate::store::Store;
use crate::wire::Code;

impl Durable {
    /// What survives what the log can: that of this process, and as many replicas as its record asks for.
    pub fn reaches(&self) -> Level {
        self.mirror.as_ref().map_or(Level::Flushed, |mirror| {
            let record = mirror.status().record;
            Level::of(record.wanted.try_into().unwrap_or(REPLICAS_MAX), record.flushed)
        })
    }

    /// Creates a durable table whose level the log reaches, and records it; when it may be told.
    pub fn create_table(&mut self, store: &mut Store, name: &str, level: Level) -> Result<When, Code> {
        let record = Record::Table { level: level.to_wire(), name };
        self.admit(record.bytes(), 0)?;
        let id = store.create_table(name)?;
        self.add_table(store, name, id, level);
        self.deleted_in = self.journal.gathering();
        Ok(When::Flushed(self.deleted_in))
    }

    /// When it may be told that a durable table is there.
    pub fn when_table(&self) -> When {
        self.when(0)
    }
}
