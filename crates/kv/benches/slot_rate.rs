//! How many requests a second a daemon answers through slots, beside the same lines with nothing behind them.
//!
//! Daemon and client run on two cores, the client keeps all of its slots asked, half of the requests read.
//! Every round measures both loops, and the distance of the cores before and after: on a virtual machine they
//! move, and a rate says little without the distance. A round's figures are the medians of short blocks, of
//! which other processes disturb only some.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use farcall::Node;
use farcall_kv::daemon::{Daemon, DaemonClient, NobodyObserves, SlotResponse, call_number};
use farcall_kv::slots::{ShortMessage, SlotLayout, SlotServer};
use farcall_kv::store::{Condition, Store};
use farcall_kv::wire::{GET, GetRequest, PUT, PutRequest};
use farcall_kv::{Name, Shard, TableId, Value};
use farcall_limit::{CorePair, DistanceProbe, pin_to, slot_rate};

const KEYS: u64 = 1024;
const TABLE: &str = "objects";
const PATTERN: u64 = 10_000;
const BLOCKS: usize = 41;
const BLOCK_REQUESTS: usize = 5000;
const ROUNDS: usize = 12;

fn main() {
    let cores = CorePair::first_allowed().expect("two cores");
    let probe = DistanceProbe::new(cores).expect("two cores");
    let distance = || probe.measure().expect("two cores").trimmed_mean_nanos;
    let pattern = pattern();
    for slots in [1, 4, 16, 64] {
        for round in 0..ROUNDS {
            let before = distance();
            let bare = bare_rate(cores, slots) / 1e6;
            let between = distance();
            let store = store_rate(cores, slots, round, &pattern) / 1e6;
            let after = distance();
            println!(
                "{slots:>3} slots: {bare:>6.2} M/s bare, {store:>6.2} M/s of a store; \
                 cores {before:.0}, {between:.0}, {after:.0} ns apart"
            );
        }
    }
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Requests that nobody looks into, answered in a second.
fn bare_rate(cores: CorePair, slots: usize) -> f64 {
    let rate = |_| slot_rate(cores, slots, BLOCK_REQUESTS as u64).expect("two cores");
    median((0..BLOCKS).map(rate).collect())
}

/// Requests that a store answers in a second.
fn store_rate(cores: CorePair, slots: usize, round: usize, pattern: &[(u8, ShortMessage)]) -> f64 {
    let address = format!("farcall-bench-slot-rate-{}-{slots}-{round}", std::process::id());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_to(cores.responder).expect("a core to itself");
            serve(&address, slots, &is_over);
        });
        let client = scope.spawn(|| {
            pin_to(cores.initiator).expect("a core to itself");
            let mut client = DaemonClient::attach(&address, Duration::from_secs(60)).expect("a place");
            let rate = ask(&mut client, pattern);
            is_over.store(true, Ordering::Relaxed);
            rate
        });
        client.join().expect("no panic")
    })
}

fn serve(address: &str, slots: usize, is_over: &AtomicBool) {
    let node = Node::alone().expect("this process");
    let endpoint = node.endpoint("ring+shm").expect("an endpoint");
    let layout = SlotLayout { slots, request_bytes: 56, response_bytes: 56 };
    let slots = SlotServer::bind(address, layout, 1).expect("a free name");
    let mut daemon = Daemon::new(&endpoint, filled_shard(), (0, 1), slots);
    while !is_over.load(Ordering::Relaxed) {
        daemon.turn(&mut NobodyObserves);
    }
}

fn ask(client: &mut DaemonClient, pattern: &[(u8, ShortMessage)]) -> f64 {
    let mut requests = pattern.iter().cycle();
    let mut put = |client: &mut DaemonClient, slot| {
        if let Some((call, request)) = requests.next() {
            client.ask_short(slot, *call, request);
        }
    };
    (0..client.depth()).for_each(|slot| put(client, slot));
    let mut slots = (0..client.depth()).cycle();
    let mut rate = || {
        let begun = Instant::now();
        for slot in slots.by_ref().take(BLOCK_REQUESTS) {
            while !is_answered(client, slot) {}
            put(client, slot);
        }
        BLOCK_REQUESTS as f64 / begun.elapsed().as_secs_f64()
    };
    median((0..BLOCKS).map(|_| rate()).collect())
}

#[inline]
fn is_answered(client: &mut DaemonClient, slot: usize) -> bool {
    let response = client.take(slot);
    assert!(matches!(response, None | Some(SlotResponse::Answer(_))), "a good answer");
    response.is_some()
}

fn name(key: &[u8; 8]) -> Name<'_> {
    static TABLE_ID: LazyLock<TableId> = LazyLock::new(|| TableId::of(TABLE).expect("a short name"));
    Name::new(*TABLE_ID, key).expect("a short key")
}

fn filled_shard() -> Shard {
    let mut store = Store::new(32 << 20).expect("memory");
    store.create_table(TABLE).expect("room for a table");
    for key in 0..KEYS {
        let value = Value::new(&[1; 8]).expect("a short value");
        store.put(name(&key.to_le_bytes()), value, Condition::Always).expect("room");
    }
    Shard::new(store, 0, 1)
}

/// Reads and writes in no order that a processor could foresee.
fn pattern() -> Vec<(u8, ShortMessage)> {
    let request = |number: u64| {
        let random = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let random = (random ^ random >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let key = (random >> 40) % KEYS;
        let (key, mut bytes) = (key.to_le_bytes(), Vec::new());
        let call = if random >> 63 == 0 {
            GetRequest { name: name(&key) }.encode(&mut bytes);
            GET
        } else {
            let value = Value::new(&[2; 8]).expect("a short value");
            PutRequest { name: name(&key), value, condition: Condition::Always }.encode(&mut bytes);
            PUT
        };
        (call_number(call), ShortMessage::new(&bytes).expect("short keys and values"))
    };
    (0..PATTERN).map(request).collect()
}
