//! Bringing back what a log has: objects with the versions that they had.

use super::{Condition, CreateTableError, Expiry, Store, WriteError};
use crate::{Name, TableId, Value};

impl Store {
    /// The version that was given last.
    pub fn last_version(&self) -> u64 {
        self.last_version
    }

    /// Versions up to this one were given: the next one is higher.
    pub fn count_version(&mut self, version: u64) {
        self.last_version = self.last_version.max(version);
    }

    /// Writes an object with the version that it had, unless one with this version or a higher one is there.
    pub fn restore(
        &mut self,
        name: Name<'_>,
        value: Value<'_>,
        version: u64,
        expiry: Expiry,
    ) -> Result<(), WriteError> {
        let found = self.get(name).map_err(|_| WriteError::UnknownTable)?;
        if found.is_some_and(|object| object.version() >= version) || version == 0 {
            return Ok(());
        }
        let last = core::mem::replace(&mut self.last_version, version - 1);
        let written = self.put_until(name, value, Condition::Always, expiry);
        self.last_version = last.max(version);
        written.map(drop)
    }

    /// Deletes an object of this version or a lower one.
    pub fn bury(&mut self, name: Name<'_>, version: u64) {
        self.count_version(version);
        if matches!(self.get(name), Ok(Some(object)) if object.version() <= version) {
            let buried = self.delete(name, Condition::Always);
            debug_assert!(matches!(buried, Ok(Some(_))), "the object is there");
        }
    }

    /// Takes all objects of a table away, and removes them.
    pub(crate) fn empty_table(&mut self, table: TableId) -> Result<(), CreateTableError> {
        self.clear_table(table)?;
        while self.sweep() {}
        Ok(())
    }

    /// Drops the table with this number; says whether there was one.
    pub fn drop_numbered(&mut self, table: TableId) -> bool {
        let name = self.table_names().find(|name| TableId::of(name) == Ok(table)).map(str::to_owned);
        name.is_some_and(|name| self.drop_table(&name))
    }
}

#[cfg(test)]
mod tests {
    use farcall_base::SipKey;

    use super::*;
    use crate::store::MEMORY_BYTES_MIN;

    #[test]
    fn objects_come_back_with_their_versions_in_any_order() {
        let mut store = Store::with_key(MEMORY_BYTES_MIN, SipKey([1, 2])).expect("enough");
        let table = store.create_table("t").expect("the first");
        let name = |key| Name::new(table, key).expect("a good key");
        let value = |bytes| Value::new(bytes).expect("short");
        let long = vec![7; 40_000];
        store.restore(name(b"a"), value(&long), 9, Expiry::Never).expect("room");
        store.restore(name(b"b"), value(b"late"), 5, Expiry::At(99)).expect("room");
        store.restore(name(b"a"), value(b"older"), 3, Expiry::Never).expect("room");
        let object = store.get(name(b"a")).expect("a table").expect("it is there");
        assert!(object.version() == 9 && object.to_vec() == long);
        assert_eq!(store.get(name(b"b")).expect("a table").map(|object| object.version()), Some(5));
        store.bury(name(b"b"), 4);
        assert!(store.get(name(b"b")).expect("a table").is_some(), "an older tombstone is not its own");
        store.bury(name(b"b"), 12);
        assert!(store.get(name(b"b")).expect("a table").is_none());
        assert_eq!(store.put(name(b"c"), value(b""), Condition::Always), Ok(13), "versions go on");
        assert!(store.drop_numbered(table) && !store.drop_numbered(table));
    }
}
