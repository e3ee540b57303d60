//! Names in etcd, by its JSON gateway (version 3.4 and later).
//!
//! A process has one lease, and its endpoints are keys that end with it. A thread keeps the lease alive and
//! writes again whatever etcd has lost; each name that is watched has a thread, which reads all keys of the
//! name once more whenever etcd reports a change of one, and now and again without that.
//!
//! | key, below the prefix | value |
//! |---|---|
//! | `names/NAME/INCARNATION/TRANSPORT#ENDPOINT` | `{"address": base64, "rank", "machine", "host"}` |
//! | `registers/KEY` | the register |
//!
//! In names `/` and `%` are written as `%2F` and `%25`.

mod gateway;
mod member;
mod registrar;
#[cfg(test)]
mod scripted;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
mod values;
mod watcher;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use farcall_base::Address;
use serde_json::{Value, json};

use self::gateway::{Gateway, base64, bytes_of, number_of};
use self::registrar::Registrar;
pub use self::values::{EtcdError, EtcdValue, EtcdValues};
use super::{Compared, Names};
use crate::bootstrap::{
    CompareError, HostPort, KEYS_PER_RANK_MAX, Listing, NAME_BYTES_MAX, NameWatch, PublishError,
    ResolveError, VALUE_BYTES_MAX,
};

/// What addresses of etcd begin with.
pub const ETCD_SCHEME: &str = "etcd://";

/// The folder of names, and of registers, when no prefix was given.
const PREFIX_DEFAULT: &str = "farcall";

/// How long a compare-and-set that found no member waits until it tries again.
const RETRY: Duration = Duration::from_millis(100);

/// The members of an etcd, and below which prefix names are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdPlace {
    members: Vec<HostPort>,
    prefix: String,
}

impl EtcdPlace {
    /// Reads `etcd://host:port,host:port…/prefix`; the prefix may be left out.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(ETCD_SCHEME)?;
        let (members, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { PREFIX_DEFAULT } else { prefix }.to_owned();
        let members = members.split(',').map(HostPort::parse).collect::<Option<_>>()?;
        Some(Self { members, prefix })
    }
}

impl fmt::Display for EtcdPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<String> = self.members.iter().map(ToString::to_string).collect();
        write!(f, "{ETCD_SCHEME}{}/{}", members.join(","), self.prefix)
    }
}

/// Names in etcd.
#[derive(Debug)]
pub(crate) struct Etcd {
    gateway: Arc<Gateway>,
    prefix: String,
    incarnation: u64,
    registrar: Registrar,
    /// The listings that a thread keeps up to date, by name.
    listings: Mutex<BTreeMap<String, Weak<Listing>>>,
}

impl Etcd {
    /// Names at a place, for a process of this incarnation. Does not wait for etcd.
    pub(crate) fn at(place: &EtcdPlace, incarnation: u64) -> Self {
        let gateway = Arc::new(Gateway::new(place.members.clone()));
        let registrar = Registrar::new(Arc::clone(&gateway));
        let prefix = place.prefix.clone();
        Self { gateway, prefix, incarnation, registrar, listings: Mutex::default() }
    }

    fn key_of_name(&self, name: &str) -> String {
        format!("{}/names/{}/", self.prefix, escaped(name))
    }

    fn key_of(&self, name: &str, key: &str) -> String {
        format!("{}{:016x}/{key}", self.key_of_name(name), self.incarnation)
    }
}

impl Names for Etcd {
    fn register(&self, name: &str, key: &str, address: Address, lease: Duration) -> Result<(), PublishError> {
        for text in [name, key] {
            if !is_name(text) {
                return Err(PublishError::KeyLength { bytes: text.len() });
            }
        }
        let value = watcher::value_of(&address);
        let registered = self.registrar.register(self.key_of(name, key), value, lease, KEYS_PER_RANK_MAX);
        if registered { Ok(()) } else { Err(PublishError::TooManyKeys) }
    }

    fn withdraw(&self, name: &str, key: &str) {
        self.registrar.withdraw(&self.key_of(name, key));
    }

    fn watch(&self, name: &str) -> Result<NameWatch, ResolveError> {
        if !is_name(name) {
            return Err(ResolveError::KeyLength { bytes: name.len() });
        }
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        listings.retain(|_, listing| listing.strong_count() > 0);
        if let Some(listing) = listings.get(name).and_then(Weak::upgrade) {
            return Ok(NameWatch::Shared(listing));
        }
        let listing = Listing::new();
        listings.insert(name.to_owned(), Arc::downgrade(&listing));
        watcher::keep_up_to_date(&listing, Arc::clone(&self.gateway), self.key_of_name(name));
        Ok(NameWatch::Shared(listing))
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: u64,
        value: &[u8],
        within: Duration,
    ) -> Result<Compared, CompareError> {
        if !is_name(key) || value.len() > VALUE_BYTES_MAX {
            return Err(CompareError::TooLong);
        }
        let key = base64(format!("{}/registers/{}", self.prefix, escaped(key)).as_bytes());
        let request = json!({
            "compare": [{ "key": key, "target": "MOD", "mod_revision": expected.to_string() }],
            "success": [{ "request_put": { "key": key, "value": base64(value) } }],
            "failure": [{ "request_range": { "key": key } }],
        });
        let begun = Instant::now();
        loop {
            let left = within.saturating_sub(begun.elapsed());
            match self.gateway.ask("kv/txn", &request, left) {
                Ok(answer) => return Ok(compared(&answer, value)),
                Err(_) if begun.elapsed() + RETRY < within => std::thread::sleep(RETRY),
                Err(_) => return Err(CompareError::Unreachable { within }),
            }
        }
    }
}

/// What etcd answers to a compare-and-set of this value.
fn compared(answer: &Value, value: &[u8]) -> Compared {
    if answer["succeeded"] == Value::Bool(true) {
        let revision = number_of(&answer["header"]["revision"]);
        return Compared { was_set: true, revision, value: value.to_vec() };
    }
    let present = &answer["responses"][0]["response_range"]["kvs"][0];
    let value = bytes_of(&present["value"]);
    Compared { was_set: false, revision: number_of(&present["mod_revision"]), value }
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
}

/// A name as one part of a key, so that none is the beginning of another one.
fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F")
}
