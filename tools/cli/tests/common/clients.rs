//! Clients of the library, of stores whose processes come and go.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use farcall::bootstrap::{Bootstrap, HostPort, RANKS_MAX};
use farcall::parameters::Settings;
use farcall::{Endpoint, Node};
use farcall_kv::store::Condition;
use farcall_kv::wire::PutRequest;
use farcall_kv::{Client, Name, TableId, Value};

use super::stores::LONG;

/// The name of an object of the table `orders`.
pub fn named(key: &str) -> Name<'_> {
    Name::new(TableId::of("orders").expect("short"), key.as_bytes()).expect("short")
}

/// Calls `work` with a patient client of a store of so many shards, again when that is lost.
pub fn with_client(at: &str, shards: u32, mut work: impl FnMut(&Endpoint, &Client<'_>) -> ControlFlow<()>) {
    static RANK: AtomicU32 = AtomicU32::new(10_000);
    let (at, mut lost) = (HostPort::parse(at).expect("a place"), Instant::now());
    loop {
        assert!(lost.elapsed() < LONG, "nobody serves shard 0 any more");
        // Shard 0 may be away; then nobody can join.
        let rank = RANK.fetch_add(1, Ordering::Relaxed);
        let Ok(bootstrap) = Bootstrap::join(&at, rank, RANKS_MAX, Duration::from_secs(1)) else { continue };
        let node = Node::new(bootstrap, Settings::default());
        let Ok(endpoint) = node.endpoint("ring+shm") else { continue };
        let mut client = Client::new(&endpoint, 0..shards);
        client.be_patient(LONG);
        if work(&endpoint, &client).is_break() {
            return;
        }
        lost = Instant::now();
    }
}

/// Writes so many objects, `object0` and so on, again those that a level was not reached for in time.
pub fn fill(at: &str, shards: u32, objects: usize) {
    let (value, begun) = ([7; 600], Instant::now());
    let mut left: Vec<String> = (0..objects).map(|number| format!("object{number}")).collect();
    with_client(at, shards, |endpoint, client| {
        let value = Value::new(&value).expect("short");
        let put = |key| PutRequest { name: named(key), value, condition: Condition::Always };
        let puts: Vec<_> = left.iter().map(|key| put(key)).collect();
        let mut written = endpoint.block_on(client.multi_put(&puts)).into_iter();
        let failed = written.as_slice().iter().find(|outcome| outcome.is_err());
        assert!(failed.is_none() || begun.elapsed() < LONG, "{failed:?}");
        left.retain(|_| written.next().is_none_or(|outcome| outcome.is_err()));
        if left.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
}
