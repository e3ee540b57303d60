//! Names: how servers are found that come and go.
//!
//! An endpoint [listens](crate::Endpoint::listen) under a name; another one
//! [connects](crate::Endpoint::connect) to it and is led to one of the servers that listen there. Where names
//! are kept is behind the seam [`Names`]: in a registry or in etcd, which are told within a lease when a
//! process is gone, or written down by the user. `docs/clusters.md` describes it for users.

mod balance;
mod book;
mod call;
mod connection;
mod etcd;
mod listener;
mod registries;
mod target;
mod written;

use std::fmt;
use std::time::Duration;

use farcall_base::Address;

pub use balance::Balance;
pub use book::WatchError;
pub(crate) use book::{NamesBook, NamesSource};
pub use call::{NamedCall, NamedCallError};
pub(crate) use connection::address_at;
pub use connection::{Connection, NoServer};
pub use etcd::{ETCD_SCHEME, EtcdError, EtcdPlace, EtcdValue, EtcdValues};
pub use listener::{Drained, ListenError, Listener};
pub use target::TargetError;
pub use written::{WrittenDown, WrittenDownError};

use crate::bootstrap::{CompareError, Directory, NameWatch, PublishError, ResolveError};

/// What a register holds after an attempt to set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Whether the attempt set it.
    pub was_set: bool,
    /// The number of its present value; 0 when the register does not exist.
    pub revision: u64,
    /// Its present value.
    pub value: Vec<u8>,
}

/// Where names are registered, watched and looked up. No method blocks, but [`Names::compare_and_set`].
pub(crate) trait Names: Send + Sync + fmt::Debug {
    /// Lists the endpoint `key` (`transport#number`) of this process under `name`, until it is withdrawn, or
    /// for `lease` after this process was heard of last.
    fn register(&self, name: &str, key: &str, address: Address, lease: Duration) -> Result<(), PublishError>;

    /// Ends what [`Names::register`] began.
    fn withdraw(&self, name: &str, key: &str);

    /// Watches the servers of a name until the watch is dropped.
    fn watch(&self, name: &str) -> Result<NameWatch, ResolveError>;

    /// Sets a register if its revision is the expected one, 0 for one that does not exist.
    fn compare_and_set(
        &self,
        key: &str,
        expected: u64,
        value: &[u8],
        within: Duration,
    ) -> Result<Compared, CompareError>;
}

/// Names in a registry, or among the ranks of one process.
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

#[cfg(test)]
mod conformance;
