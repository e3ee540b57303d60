//! The thread that keeps the listing of one name up to date.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use farcall_base::{Address, NO_RANK};
use serde_json::{Value, json};

use super::gateway::{Gateway, base64, bytes_of, number_of};
use crate::bootstrap::{Listing, Server, host_name, machine_number};

/// How long a watch may be silent until all is read again, and a thread is found to be of no use any more.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How long it waits after a failure.
pub const RETRY: Duration = Duration::from_millis(200);

/// Changes that come faster than this are read together.
const READS_APART: Duration = Duration::from_millis(20);

/// The longest time that an answer may take.
const WITHIN: Duration = Duration::from_secs(5);

/// What is stored of an endpoint of this process.
pub fn value_of(address: &Address) -> String {
    let (machine, host) = (machine_number().to_string(), host_name());
    json!({ "address": base64(address.as_bytes()), "rank": NO_RANK, "machine": machine, "host": host })
        .to_string()
}

/// The server that is stored at a key, of which this is the end: incarnation, transport and endpoint.
fn server_of(key: &str, value: &[u8]) -> Option<Server> {
    let (incarnation, key) = key.split_once('/')?;
    let (transport, endpoint) = key.split_once('#')?;
    let value: Value = serde_json::from_slice(value).ok()?;
    Some(Server {
        incarnation: u64::from_str_radix(incarnation, 16).ok()?,
        rank: u32::try_from(number_of(&value["rank"])).ok()?,
        machine: number_of(&value["machine"]),
        host: value["host"].as_str()?.to_owned(),
        transport: transport.to_owned(),
        endpoint: endpoint.parse().ok()?,
        address: Address::new(bytes_of(&value["address"])).ok()?,
    })
}

/// Fills a listing with what is below `prefix`, until nothing else uses it.
pub fn keep_up_to_date(listing: &Arc<Listing>, gateway: Arc<Gateway>, prefix: String) {
    let weak = Arc::downgrade(listing);
    let watcher = Watcher { gateway, prefix, known: BTreeMap::new(), numbers_used: 0 };
    if let Err(error) = std::thread::Builder::new().name("names".to_owned()).spawn(move || watcher.run(&weak))
    {
        listing.source_lost(&format!("no thread can be started: {error}"));
    }
}

/// How a watch ended, after which all is read again.
enum End {
    /// A key has changed.
    Changed,
    /// Nothing was heard for long.
    Quiet,
    /// The member has gone, or ended it.
    Broken,
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

struct Watcher {
    gateway: Arc<Gateway>,
    prefix: String,
    /// By key: what was listed, and under which number.
    known: BTreeMap<String, (u64, Server)>,
    numbers_used: u64,
}

impl Watcher {
    fn run(mut self, listing: &Weak<Listing>) {
        while let Some(used) = listing.upgrade() {
            let (began, read) = (Instant::now(), self.read(&used));
            drop(used);
            match read.and_then(|revision| self.wait_for_change(revision)) {
                Ok(End::Changed) => std::thread::sleep(READS_APART.saturating_sub(began.elapsed())),
                Ok(End::Quiet) => {}
                // Another member may do better, and one that ends all watches is not asked all the time.
                Ok(End::Broken) => std::thread::sleep(RETRY),
                Err(trouble) => {
                    let Some(used) = listing.upgrade() else { return };
                    used.source_lost(&trouble);
                    drop(used);
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    /// Reads all keys, and tells the listing; gives the revision.
    fn read(&mut self, listing: &Listing) -> Result<u64, String> {
        let answer = self.gateway.ask("kv/range", &self.range(), WITHIN)?;
        let mut present = BTreeMap::new();
        for stored in answer["kvs"].as_array().into_iter().flatten() {
            let key = String::from_utf8(bytes_of(&stored["key"])).unwrap_or_default();
            let server =
                key.strip_prefix(&self.prefix).and_then(|end| server_of(end, &bytes_of(&stored["value"])));
            present.extend(server.map(|server| (key, server)));
        }
        self.known.retain(|key, (number, server)| {
            let stays = present.get(key) == Some(server);
            if !stays {
                listing.gone(*number);
            }
            stays
        });
        for (key, server) in present {
            if !self.known.contains_key(&key) {
                self.numbers_used += 1;
                listing.listed(self.numbers_used, server.clone());
                self.known.insert(key, (self.numbers_used, server));
            }
        }
        listing.complete();
        Ok(number_of(&answer["header"]["revision"]))
    }

    /// Returns when a key has changed since a revision, or when all should be read again anyway.
    fn wait_for_change(&self, revision: u64) -> Result<End, String> {
        let mut request = self.range();
        request["start_revision"] = (revision + 1).to_string().into();
        let mut lines = self.gateway.follow("watch", &json!({ "create_request": request }), LOOK_AGAIN)?;
        loop {
            let mut line = Vec::new();
            match lines.read_until(b'\n', &mut line) {
                Ok(0) => return Ok(End::Broken),
                Err(error) if is_silence(&error) => return Ok(End::Quiet),
                Err(_) => return Ok(End::Broken),
                Ok(_) => {}
            }
            let result = serde_json::from_slice::<Value>(&line).map(|mut line| line["result"].take());
            match result {
                // The first line says that the watch was made.
                Ok(result) if result["created"] == true && result["canceled"] != true => {}
                Ok(result) if result["events"].is_array() => return Ok(End::Changed),
                // It is cancelled, or nonsense.
                _ => return Ok(End::Broken),
            }
        }
    }

    /// All keys below the prefix: those up to the prefix with its last byte one higher.
    fn range(&self) -> Value {
        let mut end = self.prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        json!({ "key": base64(self.prefix.as_bytes()), "range_end": base64(&end) })
    }
}
