//! A few versioned values in etcd, for parts of a program that agree on something: the registry of a store's
//! primaries is one.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::gateway::{Gateway, base64, bytes_of, number_of};
use super::registrar::Registrar;
use super::{Compared, EtcdPlace, compared};
use crate::bootstrap::KEYS_PER_RANK_MAX;

/// Why etcd gives no answer: what the member that was asked last says, or what the system says of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EtcdError(String);

/// A value, and the revision at which it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdValue {
    /// Rises with every change, by one or more.
    pub revision: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// The values below a prefix of an etcd.
#[derive(Debug)]
pub struct EtcdValues {
    gateway: Arc<Gateway>,
    prefix: String,
    registrar: Registrar,
    within: Duration,
}

impl EtcdValues {
    /// Those below `prefix/folder/` of a place; each member has `within` for an answer before the next one is
    /// asked. Does not wait for etcd.
    pub fn at(place: &EtcdPlace, folder: &str, within: Duration) -> Self {
        let gateway = Arc::new(Gateway::new(place.members.clone()));
        let registrar = Registrar::new(Arc::clone(&gateway));
        Self { gateway, prefix: format!("{}/{folder}/", place.prefix), registrar, within }
    }

    /// The value of a key, as a majority of the members has it.
    pub fn load(&self, key: &str) -> Result<Option<EtcdValue>, EtcdError> {
        let answer = self.ask("kv/range", &json!({ "key": self.key(key) }))?;
        Ok(answer["kvs"].as_array().and_then(|found| found.first()).map(value_of))
    }

    /// Sets a value if its revision is the expected one, 0 for none. After an error it may be set or not.
    pub fn compare_and_set(&self, key: &str, expected: u64, value: &[u8]) -> Result<Compared, EtcdError> {
        let key = self.key(key);
        let request = json!({
            "compare": [{ "key": key, "target": "MOD", "mod_revision": expected.to_string() }],
            "success": [{ "request_put": { "key": key, "value": base64(value) } }],
            "failure": [{ "request_range": { "key": key } }],
        });
        Ok(compared(&self.ask("kv/txn", &request)?, value))
    }

    /// All values whose keys begin so.
    pub fn list(&self, beginning: &str) -> Result<Vec<EtcdValue>, EtcdError> {
        let first = format!("{}{beginning}", self.prefix).into_bytes();
        let mut end = first.clone();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let range = json!({ "key": base64(&first), "range_end": base64(&end) });
        let answer = self.ask("kv/range", &range)?;
        Ok(answer["kvs"].as_array().into_iter().flatten().map(value_of).collect())
    }

    /// Keeps a value there as long as this process lives: etcd removes it when it has not heard of the
    /// process for a lease. Does not wait; false when no thread can be started for it.
    pub fn keep(&self, key: &str, value: &str, lease: Duration) -> bool {
        self.registrar.register(format!("{}{key}", self.prefix), value.to_owned(), lease, KEYS_PER_RANK_MAX)
    }

    /// Ends what [`EtcdValues::keep`] began. Does not wait.
    pub fn withdraw(&self, key: &str) {
        self.registrar.withdraw(&format!("{}{key}", self.prefix));
    }

    fn key(&self, key: &str) -> String {
        base64(format!("{}{key}", self.prefix).as_bytes())
    }

    fn ask(&self, path: &str, request: &Value) -> Result<Value, EtcdError> {
        self.gateway.ask(path, request, self.within).map_err(EtcdError)
    }
}

fn value_of(stored: &Value) -> EtcdValue {
    EtcdValue { revision: number_of(&stored["mod_revision"]), value: bytes_of(&stored["value"]) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Server;
    use super::*;

    const PLENTY: Duration = Duration::from_secs(60);

    #[test]
    fn one_of_two_sets_a_value_and_the_other_sees_it() {
        let Some(mut server) = Server::start("values") else { return };
        let values = EtcdValues::at(&server.place(), "kv", PLENTY);
        assert_eq!(values.load("shard-0"), Ok(None));
        let first = values.compare_and_set("shard-0", 0, b"one").expect("it answers");
        let other = values.compare_and_set("shard-0", 0, b"two").expect("it answers");
        assert!(first.was_set && !other.was_set);
        assert_eq!((other.revision, &other.value[..]), (first.revision, &b"one"[..]));
        let found = values.load("shard-0").expect("it answers").expect("it was set");
        assert_eq!((found.revision, &found.value[..]), (first.revision, &b"one"[..]));
        assert!(values.compare_and_set("shard-0", found.revision, b"three").expect("it answers").was_set);
        assert!(values.compare_and_set("shard-1", 0, b"beside").expect("it answers").was_set);
        let elsewhere = EtcdValues::at(&server.place(), "kv2", PLENTY);
        assert_eq!(elsewhere.list("shard"), Ok(Vec::new()), "another folder");
        let listed = values.list("shard-").expect("it answers");
        assert_eq!(
            listed.iter().map(|found| &found.value[..]).collect::<Vec<_>>(),
            [&b"three"[..], b"beside"]
        );

        server.kill();
        let hasty = EtcdValues::at(&server.place(), "kv", Duration::from_millis(100));
        let sentence = hasty.load("shard-0").expect_err("it is gone").to_string();
        assert!(sentence.starts_with("etcd at 127.0.0.1:"), "{sentence}");
        server.start_again();
        assert_eq!(values.list("shard-").expect("it answers"), listed, "what was set outlives a restart");
    }

    #[test]
    fn what_a_process_keeps_ends_with_it() {
        let Some(server) = Server::start("kept") else { return };
        let values = EtcdValues::at(&server.place(), "kv", PLENTY);
        let keeper = EtcdValues::at(&server.place(), "kv", PLENTY);
        assert!(keeper.keep("backup-a", "here", Duration::from_secs(30)));
        let count = || values.list("backup-").expect("it answers").len();
        while count() == 0 {
            std::thread::yield_now();
        }
        drop(keeper);
        assert_eq!(count(), 0, "its lease is revoked");
    }
}
