//! Names in a registry, or among the ranks of one process.

use std::time::Duration;

use farcall_base::Address;

use super::{Compared, Names};
use crate::bootstrap::{CompareError, Directory, NameWatch, PublishError, ResolveError};

impl Names for Directory {
    fn register(&self, name: &str, key: &str, address: Address, lease: Duration) -> Result<(), PublishError> {
        Self::register(self, name, key, address, lease)
    }

    fn withdraw(&self, name: &str, key: &str) {
        Self::withdraw(self, name, key);
    }

    fn watch(&self, name: &str) -> Result<NameWatch, ResolveError> {
        Self::watch(self, name)
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: u64,
        value: &[u8],
        within: Duration,
    ) -> Result<Compared, CompareError> {
        let (was_set, revision, value) = Self::compare_and_set(self, key, expected, value, within)?;
        Ok(Compared { was_set, revision, value })
    }
}
