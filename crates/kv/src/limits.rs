//! What can be stored: names and values within their limits, checked once where they come in.

use core::fmt;

use sha2::{Digest, Sha256};

/// The longest key, in bytes. The shortest has one.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// The longest value, in bytes. The shortest has none.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// The longest name of a table, in bytes. The shortest has one.
pub const TABLE_NAME_BYTES_MAX: usize = 64;

/// The most tables of a store.
pub const TABLES_MAX: usize = 1024;

/// Which object: its table and its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name<'a> {
    table: TableId,
    key: &'a [u8],
}

impl<'a> Name<'a> {
    /// The object of a table with a key of 1 to [`KEY_BYTES_MAX`] bytes.
    #[inline]
    pub fn new(table: TableId, key: &'a [u8]) -> Result<Self, LimitError> {
        match key.len() {
            1..=KEY_BYTES_MAX => Ok(Self { table, key }),
            bytes => Err(LimitError::Key { bytes }),
        }
    }

    /// The table.
    #[inline]
    pub fn table(self) -> TableId {
        self.table
    }

    /// The key.
    #[inline]
    pub fn key(self) -> &'a [u8] {
        self.key
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({} of table {:016x})", self.key.escape_ascii(), self.table.0)
    }
}

/// The contents of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Value<'a>(&'a [u8]);

impl<'a> Value<'a> {
    /// A value of at most [`VALUE_BYTES_MAX`] bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, LimitError> {
        if bytes.len() > VALUE_BYTES_MAX {
            return Err(LimitError::Value { bytes: bytes.len() });
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.0.len())
    }
}

/// The number of a table. It follows from the table's name, so that all shards agree about it without asking,
/// and nobody can find another name that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u64);

impl TableId {
    /// The number of the table of that name: the first eight bytes of the name's SHA-256 hash, little-endian.
    pub fn of(name: &str) -> Result<Self, LimitError> {
        match name.len() {
            1..=TABLE_NAME_BYTES_MAX => {
                let hash = Sha256::digest(name.as_bytes());
                let (first, _) = hash.split_first_chunk().expect("the hash has 32 bytes");
                Ok(Self(u64::from_le_bytes(*first)))
            }
            bytes => Err(LimitError::TableName { bytes }),
        }
    }
}

/// Something is longer, or shorter, than what can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Shorten the key, or give it a byte.
    #[error("a key of {bytes} bytes is not one of 1 to {KEY_BYTES_MAX}")]
    Key {
        /// Its length.
        bytes: usize,
    },
    /// Shorten the value, or store it in pieces.
    #[error("a value of {bytes} bytes is over the limit of {VALUE_BYTES_MAX}")]
    Value {
        /// Its length.
        bytes: usize,
    },
    /// Give the table another name.
    #[error("a table's name of {bytes} bytes is not one of 1 to {TABLE_NAME_BYTES_MAX}")]
    TableName {
        /// Its length.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive() {
        let name = |bytes: usize| Name::new(TableId(1), &vec![0; bytes]).map(drop);
        assert_eq!((name(1), name(KEY_BYTES_MAX)), (Ok(()), Ok(())));
        for bytes in [0, KEY_BYTES_MAX + 1] {
            assert_eq!(name(bytes), Err(LimitError::Key { bytes }));
        }
        let bytes = vec![0; VALUE_BYTES_MAX + 1];
        assert!(Value::new(&[]).is_ok() && Value::new(&bytes[1..]).is_ok());
        assert_eq!(Value::new(&bytes), Err(LimitError::Value { bytes: VALUE_BYTES_MAX + 1 }));
        assert!(TableId::of(&"n".repeat(TABLE_NAME_BYTES_MAX)).is_ok());
        for bytes in [0, TABLE_NAME_BYTES_MAX + 1] {
            assert_eq!(TableId::of(&"n".repeat(bytes)), Err(LimitError::TableName { bytes }));
        }
    }
}
