//! How long an object of a store that runs is waited for through a slot: the 50th, 99th and 99.9th percentile
//! of as many gets as there is time for. Redis clients, or whatever else asks the store meanwhile, are
//! started beside it: `scripts/bench-redis --slots`.
//!
//! Arguments: the store's HOST:PORT, seconds, and the client's core.

use std::time::{Duration, Instant};

use farcall::HostAccess;
use farcall_kv::daemon::attach_on_host;
use farcall_kv::store::Condition;
use farcall_kv::{Name, TableId, Value};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Keys that are asked for in turn.
const KEYS: usize = 1000;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let (Some(place), seconds, core) = (arguments.next(), arguments.next(), arguments.next()) else {
        return println!("no store named: HOST:PORT [SECONDS] [CORE]");
    };
    let seconds: u64 = seconds.and_then(|text| text.parse().ok()).unwrap_or(2);
    if let Some(core) = core.and_then(|text| text.parse().ok()) {
        let mut set = CpuSet::new();
        set.set(core);
        sched_setaffinity(None, &set).expect("the core is there");
    }
    let mut client = attach_on_host(&place, &HostAccess::default()).expect("it runs on this machine");
    let table = TableId::of("default").expect("the table of database 0");
    let keys: Vec<String> = (0..KEYS).map(|key| format!("key:{key:012}")).collect();
    let value = Value::new(&[7; 16]).expect("a short value");
    for key in &keys {
        let name = Name::new(table, key.as_bytes()).expect("a short key");
        client.put(name, value, Condition::Always).expect("the table is there");
    }
    let (end, mut nanos) = (Instant::now() + Duration::from_secs(seconds), Vec::new());
    let mut last = Instant::now();
    while last < end {
        for key in &keys {
            let name = Name::new(table, key.as_bytes()).expect("a short key");
            client.get(name).expect("the store goes on").expect("it was written");
            let now = Instant::now();
            nanos.push((now - last).as_nanos() as u64);
            last = now;
        }
    }
    nanos.sort_unstable();
    let at = |permille: usize| nanos[(nanos.len() - 1) * permille / 1000];
    println!("{} gets, ns: p50 {}, p99 {}, p99.9 {}", nanos.len(), at(500), at(990), at(999));
}
