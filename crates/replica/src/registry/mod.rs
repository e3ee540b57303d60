//! The registry: a few versioned values on which processes agree.
//!
//! Nothing on the way of a write is here: a registry is asked when a primary starts, when one of its replicas
//! fails, and a few times within each lease.

mod file;
mod memory;
mod worker;

use crate::record::BackupEntry;

pub use file::{FileRegistry, Life};
pub use memory::MemoryRegistry;
pub use worker::RegistryWorker;

/// A value, and how often it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// From 1.
    pub revision: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// What became of an attempt to set a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// It is set, and this is its revision.
    Set(u64),
    /// It was another one, which is this; none if there is none.
    Other(Option<Versioned>),
}

/// Why a registry gives no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the registry at {place} does not answer: {reason}")]
pub struct RegistryError {
    /// The registry.
    pub place: String,
    /// What it or the system says.
    pub reason: String,
}

/// Where the records are. Methods may take as long as a disk or a network.
pub trait Registry: Send {
    /// The value of a key.
    fn load(&mut self, key: &str) -> Result<Option<Versioned>, RegistryError>;

    /// Sets a value if its revision is the expected one, 0 for none. After an error it may be set or not.
    fn compare_and_set(&mut self, key: &str, expected: u64, value: &[u8]) -> Result<Compared, RegistryError>;

    /// The backups that have said that they are there.
    fn backups(&mut self) -> Result<Vec<BackupEntry>, RegistryError>;

    /// Whether the process with this incarnation has certainly ended. A registry that cannot tell says no.
    fn has_ended(&mut self, incarnation: u64) -> bool;
}
