//! A registry in memory: for tests and simulations, in which it can fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Compared, Registry, RegistryError, Versioned};
use crate::record::BackupEntry;

#[derive(Debug, Default)]
struct Values {
    values: BTreeMap<String, Versioned>,
    backups: Vec<BackupEntry>,
    ended: Vec<u64>,
    is_silent: bool,
}

/// A registry in memory; all handles are of one.
#[derive(Clone, Debug, Default)]
pub struct MemoryRegistry(Arc<Mutex<Values>>);

impl MemoryRegistry {
    fn lock(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it gives no answer from now on.
    pub fn set_silent(&self, is_silent: bool) {
        self.lock().is_silent = is_silent;
    }

    /// A backup says that it is there.
    pub fn announce(&self, backup: BackupEntry) {
        let mut values = self.lock();
        values.backups.retain(|other| other.at != backup.at);
        values.backups.push(backup);
    }

    /// The process with this incarnation has ended, as everybody can see.
    pub fn ended(&self, incarnation: u64) {
        self.lock().ended.push(incarnation);
    }

    /// The values, unless it is silent.
    fn asked(&self) -> Result<MutexGuard<'_, Values>, RegistryError> {
        let values = self.lock();
        if values.is_silent {
            let (place, reason) = ("memory".to_owned(), "it is silent".to_owned());
            return Err(RegistryError { place, reason });
        }
        Ok(values)
    }
}

impl Registry for MemoryRegistry {
    fn load(&mut self, key: &str) -> Result<Option<Versioned>, RegistryError> {
        Ok(self.asked()?.values.get(key).cloned())
    }

    fn compare_and_set(&mut self, key: &str, expected: u64, value: &[u8]) -> Result<Compared, RegistryError> {
        let mut values = self.asked()?;
        let found = values.values.get(key).cloned();
        if found.as_ref().map_or(0, |found| found.revision) != expected {
            return Ok(Compared::Other(found));
        }
        let revision = expected + 1;
        values.values.insert(key.to_owned(), Versioned { revision, value: value.to_vec() });
        Ok(Compared::Set(revision))
    }

    fn backups(&mut self) -> Result<Vec<BackupEntry>, RegistryError> {
        Ok(self.asked()?.backups.clone())
    }

    fn has_ended(&mut self, incarnation: u64) -> bool {
        self.lock().ended.contains(&incarnation)
    }
}
