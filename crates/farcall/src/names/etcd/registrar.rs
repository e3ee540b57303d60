//! The thread that keeps what a process has registered in etcd: under one lease, which it keeps alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::gateway::{Gateway, base64, number_of};

/// How long it waits after a failure.
const RETRY: Duration = Duration::from_millis(200);

/// The longest time that the answer of a member may take, as a part of the lease, and at least: members that
/// do not answer are asked in turn, and two of them may leave the lease alive.
const PARTS_OF_LEASE: u32 = 5;
const WITHIN_MIN: Duration = Duration::from_millis(200);

/// What a process wants to be registered.
#[derive(Debug)]
pub struct Registrar {
    gateway: Arc<Gateway>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Wanted {
    /// Values by key.
    keys: BTreeMap<String, String>,
    lease: Duration,
    is_stopped: bool,
    /// Whether the lease runs out by itself, as that of a process that was killed.
    is_abandoned: bool,
    /// Rises with every change.
    version: u64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Wanted)) {
        let mut wanted = self.lock();
        change(&mut wanted);
        wanted.version += 1;
        self.changed.notify_all();
    }
}

impl Registrar {
    /// Nothing is registered; the thread starts with the first key.
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway, shared: Arc::default(), thread: Mutex::default() }
    }

    /// Registers a key under a lease, the shortest of all that were asked for; false when there are as many
    /// as may be, or no thread can be started.
    pub fn register(&self, key: String, value: String, lease: Duration, keys_max: usize) -> bool {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (gateway, shared) = (Arc::clone(&self.gateway), Arc::clone(&self.shared));
            let keeper = std::thread::Builder::new().name("etcd".to_owned());
            let mut registered =
                Keeper { gateway, shared, lease: 0, within: WITHIN_MIN, told: BTreeMap::new() };
            match keeper.spawn(move || registered.run()) {
                Ok(started) => *thread = Some(started),
                Err(_) => return false,
            }
        }
        let has_room = {
            let wanted = self.shared.lock();
            wanted.keys.len() < keys_max || wanted.keys.contains_key(&key)
        };
        if has_room {
            self.shared.change(|wanted| {
                let is_first = wanted.lease.is_zero();
                wanted.lease = if is_first { lease } else { wanted.lease.min(lease) };
                wanted.keys.insert(key, value);
            });
        }
        has_room
    }

    /// Ends what [`Registrar::register`] began.
    pub fn withdraw(&self, key: &str) {
        self.shared.change(|wanted| drop(wanted.keys.remove(key)));
    }

    /// Stops without a word, as a process does that is killed.
    #[cfg(test)]
    pub fn abandon(&self) {
        self.shared.change(|wanted| wanted.is_abandoned = true);
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        self.shared.change(|wanted| wanted.is_stopped = true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // It ends within the time of one answer; what it has registered is gone then.
        thread.map(JoinHandle::join);
    }
}

/// The thread.
struct Keeper {
    gateway: Arc<Gateway>,
    shared: Arc<Shared>,
    /// The lease; 0 without one.
    lease: u64,
    /// The longest time that the answer of a member may take.
    within: Duration,
    /// What etcd has under this lease; no value where it may have one, because it has not answered.
    told: BTreeMap<String, Option<String>>,
}

impl Keeper {
    fn run(&mut self) {
        loop {
            let (version, keys, lease, is_abandoned) = {
                let wanted = self.shared.lock();
                if wanted.is_stopped {
                    break;
                }
                (wanted.version, wanted.keys.clone(), wanted.lease, wanted.is_abandoned)
            };
            self.within = WITHIN_MIN.max(lease / PARTS_OF_LEASE);
            let pause = match is_abandoned || self.bring_up_to_date(&keys, lease).is_ok() {
                true => lease / 3,
                false => RETRY,
            };
            let is_same = |wanted: &mut Wanted| wanted.version == version;
            let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), pause, is_same);
            drop(waited);
        }
        if self.lease != 0 && !self.shared.lock().is_abandoned {
            // What is not revoked runs out.
            let _ = self.ask("lease/revoke", &json!({ "ID": self.lease.to_string() }));
        }
    }

    fn bring_up_to_date(&mut self, keys: &BTreeMap<String, String>, lease: Duration) -> Result<(), String> {
        if self.lease != 0 {
            self.keep_alive()?;
        }
        if self.lease == 0 {
            self.grant(lease)?;
        }
        for (key, value) in keys {
            if self.told.get(key).and_then(Option::as_ref) != Some(value) {
                let (name, bytes) = (base64(key.as_bytes()), base64(value.as_bytes()));
                let put = json!({ "key": name, "value": bytes, "lease": self.lease.to_string() });
                self.told.insert(key.clone(), None);
                self.ask("kv/put", &put)?;
                self.told.insert(key.clone(), Some(value.clone()));
            }
        }
        let gone: Vec<String> = self.told.keys().filter(|key| !keys.contains_key(*key)).cloned().collect();
        for key in gone {
            self.ask("kv/deleterange", &json!({ "key": base64(key.as_bytes()) }))?;
            self.told.remove(&key);
        }
        Ok(())
    }

    /// A lease that etcd does not know any more has taken its keys with it.
    fn keep_alive(&mut self) -> Result<(), String> {
        let answer = self.ask("lease/keepalive", &json!({ "ID": self.lease.to_string() }))?;
        if number_of(&answer["result"]["TTL"]) == 0 {
            self.lease = 0;
            self.told.clear();
        }
        Ok(())
    }

    fn grant(&mut self, lease: Duration) -> Result<(), String> {
        let seconds = lease.as_secs() + u64::from(lease.subsec_nanos() > 0);
        let answer = self.ask("lease/grant", &json!({ "TTL": seconds.max(1).to_string() }))?;
        self.lease = number_of(&answer["ID"]);
        if self.lease == 0 { Err("etcd grants no lease".to_owned()) } else { Ok(()) }
    }

    fn ask(&self, path: &str, request: &Value) -> Result<Value, String> {
        self.gateway.ask(path, request, self.within)
    }
}
