//! What a request through a slot costs its two sides: a daemon and its client in one thread, so that nobody
//! waits for anybody.
//!
//! Each figure is the least of many rounds of one batch, which other load on the machine can hardly disturb.
//! It says what the code costs; what distance between cores adds is seen by `farcall benchkv`.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use farcall::Node;
use farcall_kv::daemon::{Daemon, DaemonClient, NobodyObserves, SlotResponse, call_number};
use farcall_kv::slots::{SlotLayout, SlotServer};

use farcall_kv::store::{Condition, Store};
use farcall_kv::wire::{GET, GetRequest, PUT, PutRequest};
use farcall_kv::{Name, Shard, TableId, Value};

const KEYS: u64 = 1024;
const TABLE: &str = "objects";
const LAYOUT: SlotLayout = SlotLayout { slots: 16, request_bytes: 120, response_bytes: 120 };
const ROUNDS: usize = 20_000;

fn name(key: &[u8; 8]) -> Name<'_> {
    static TABLE_ID: LazyLock<TableId> = LazyLock::new(|| TableId::of(TABLE).expect("a short name"));
    Name::new(*TABLE_ID, key).expect("a short key")
}

fn filled_shard() -> Shard {
    let mut store = Store::new(32 << 20).expect("memory");
    store.create_table(TABLE).expect("room for a table");
    let value = Value::new(&[1; 8]).expect("a short value");
    for key in 0..KEYS {
        store.put(name(&key.to_le_bytes()), value, Condition::Always).expect("room");
    }
    Shard::new(store, 0, 1)
}

fn main() {
    let node = Node::alone().expect("this process");
    let endpoint = node.endpoint("ring+shm").expect("an endpoint");
    let address = format!("farcall-bench-slots-{}", std::process::id());
    let slots = SlotServer::bind(&address, LAYOUT, 1).expect("a free name");
    let mut daemon = Daemon::new(&endpoint, filled_shard(), (0, 1), slots);
    let mut client = std::thread::scope(|scope| {
        let client = scope.spawn(|| DaemonClient::attach(&address, Duration::from_secs(60)));
        while !client.is_finished() {
            daemon.turn(&mut NobodyObserves);
        }
        client.join().expect("no panic").expect("a place")
    });
    let gets: Vec<Vec<u8>> = (0..KEYS)
        .map(|key| {
            let mut bytes = Vec::new();
            GetRequest { name: name(&key.to_le_bytes()) }.encode(&mut bytes);
            bytes
        })
        .collect();
    let puts: Vec<Vec<u8>> = (0..KEYS)
        .map(|key| {
            let mut bytes = Vec::new();
            let value = Value::new(&[2; 8]).expect("a short value");
            PutRequest { name: name(&key.to_le_bytes()), value, condition: Condition::Always }
                .encode(&mut bytes);
            bytes
        })
        .collect();
    for batch in [1, 4, 16] {
        measure("get", batch, call_number(GET), &gets, &mut daemon, &mut client);
        measure("put", batch, call_number(PUT), &puts, &mut daemon, &mut client);
    }
}

/// The least time of a request in each of its three steps.
fn measure(
    what: &str,
    batch: usize,
    call: u8,
    requests: &[Vec<u8>],
    daemon: &mut Daemon<'_>,
    client: &mut DaemonClient,
) {
    let mut least = [u128::MAX; 3];
    let mut requests = requests.iter().cycle().step_by(17);
    let mut slots = (0..LAYOUT.slots).cycle();
    for _ in 0..ROUNDS {
        let slots: Vec<usize> = slots.by_ref().take(batch).collect();
        let begun = Instant::now();
        for (&slot, request) in slots.iter().zip(&mut requests) {
            client.ask(slot, call, request);
        }
        let asked = Instant::now();
        let mut answered = 0;
        while answered < batch {
            answered += daemon.turn(&mut NobodyObserves);
        }
        let served = Instant::now();
        for &slot in &slots {
            assert!(matches!(black_box(client.take(slot)), Some(SlotResponse::Answer(_))), "a good answer");
        }
        let steps = [asked - begun, served - asked, served.elapsed()];
        least.iter_mut().zip(steps).for_each(|(least, step)| *least = (*least).min(step.as_nanos()));
    }
    let [ask, serve, take] = least.map(|nanos| nanos as f64 / batch as f64);
    println!(
        "{what} {batch:>3} at a time: asking {ask:>6.1} ns, serving {serve:>6.1} ns, taking {take:>6.1} ns"
    );
}
