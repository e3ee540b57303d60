//! What a read of the store costs over an echo of the same bytes: both through one endpoint over `ring+shm`,
//! in turns.
//!
//! The first arguments are the number of objects and the two cores, 10000, 0 and 1 unless given.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::parameters::Settings;
use farcall::{Clock, Endpoint, Event, Node, Peer, Service, TransportKind};
use farcall_base::Random;
use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store};
use farcall_kv::wire::{GET, GetRequest, found};
use farcall_kv::{Name, Shard, TableId, Value};
use rustix::thread::{CpuSet, sched_setaffinity};

const ECHO: Service = Service(1);
const KEY_BYTES: usize = 30;
const VALUE_BYTES: usize = 100;
const BLOCKS: usize = 40;
const CALLS_PER_BLOCK: usize = 20_000;

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let argument = |place: usize, default| arguments.get(place).copied().unwrap_or(default);
    let (objects, server_core, client_core) = (argument(0, 10_000), argument(1, 0), argument(2, 1));
    local(objects);
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a rendezvous");
    let address = HostPort::from(rendezvous.address());
    let stop = Arc::new(AtomicBool::new(false));
    let server = {
        let (address, stop) = (address.clone(), Arc::clone(&stop));
        std::thread::spawn(move || serve(&address, objects, server_core, &stop))
    };
    call(&address, objects, client_core);
    stop.store(true, Ordering::Relaxed);
    server.join().expect("the server ends");
}

fn key(number: usize) -> Vec<u8> {
    format!("{number:030}").into_bytes()
}

fn table() -> TableId {
    static TABLE_ID: LazyLock<TableId> = LazyLock::new(|| TableId::of("bench").expect("short"));
    *TABLE_ID
}

fn name(key: &[u8]) -> Name<'_> {
    Name::new(table(), key).expect("a good key")
}

fn filled(objects: usize) -> Store {
    let mut store = Store::new(MEMORY_BYTES_MIN.max(objects * 512)).expect("enough memory");
    store.create_table("bench").expect("the first");
    let contents = [7; VALUE_BYTES];
    for number in 0..objects {
        let value = Value::new(&contents).expect("short");
        store.put(name(&key(number)), value, Condition::Always).expect("room");
    }
    store
}

/// The store by itself.
fn local(objects: usize) {
    let mut store = filled(objects);
    let keys: Vec<_> = (0..objects).map(key).collect();
    let mut random = Random::new(1);
    let order: Vec<usize> = (0..1_000_000).map(|_| random.below(objects as u64) as usize).collect();
    for what in ["get", "put in place", "put of another length"] {
        let begun = Instant::now();
        for (turn, &place) in order.iter().enumerate() {
            let name = name(&keys[place]);
            let contents = [turn as u8; VALUE_BYTES + 16];
            let length = match what {
                "get" => {
                    black_box(store.get(name).expect("a table").expect("an object").version_and_value());
                    continue;
                }
                "put in place" => VALUE_BYTES,
                _ => VALUE_BYTES + turn % 2 * 16,
            };
            let value = Value::new(&contents[..length]).expect("short");
            store.put(name, value, Condition::Always).expect("room");
        }
        let nanos = begun.elapsed().as_nanos() as f64 / order.len() as f64;
        println!("store, {objects} objects, {what}: {nanos:.1} ns");
    }
}

fn endpoint(address: &HostPort, rank: u32, core: usize) -> Endpoint {
    let settings = Settings::load(["endpoint.idle=spin".to_owned()]).expect("settings");
    let bootstrap = Bootstrap::join(address, rank, 2, Duration::from_secs(10)).expect("it joins");
    let node = Node::new(bootstrap, settings.clone());
    let endpoint = node.endpoint_with(TransportKind::RING_SHM, &settings).expect("an endpoint");
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).expect("a core of this machine");
    endpoint
}

fn serve(address: &HostPort, objects: usize, core: usize, stop: &AtomicBool) {
    let endpoint = endpoint(address, 0, core);
    let response = [7; 8 + VALUE_BYTES];
    endpoint.serve(ECHO, move |request, reply| {
        black_box(request.payload());
        reply.send(&response);
    });
    let mut shard = Shard::new(filled(objects), 0, 1);
    while !stop.load(Ordering::Relaxed) {
        endpoint.poll_requests(|request, reply| shard.handle(request, reply), |_, _| ());
    }
}

fn call(address: &HostPort, objects: usize, core: usize) {
    let endpoint = endpoint(address, 1, core);
    let peer = endpoint.peer(0).expect("the server is there");
    endpoint.wait_for(peer).expect("it answers");
    let keys: Vec<_> = (0..objects).map(key).collect();
    let mut random = Random::new(1);
    let (mut echo, mut get) = (Vec::new(), Vec::new());
    for block in 0..BLOCKS {
        let order: Vec<usize> = (0..CALLS_PER_BLOCK).map(|_| random.below(objects as u64) as usize).collect();
        let mut arms = [(ECHO, &mut echo), (GET, &mut get)];
        if block % 2 == 1 {
            arms.reverse();
        }
        for (service, medians) in arms {
            medians.push(median_nanos(&endpoint, peer, service, &keys, &order));
        }
    }
    let differences: Vec<f64> = get.iter().zip(&echo).map(|(get, echo)| get - echo).collect();
    let sorted = |mut nanos: Vec<f64>| {
        nanos.sort_unstable_by(f64::total_cmp);
        format!(
            "median of {BLOCKS} blocks {:.1} ns, from {:.1} to {:.1}",
            nanos[BLOCKS / 2],
            nanos[0],
            nanos[BLOCKS - 1]
        )
    };
    println!("echo, {} B to {} B: {}", 4 + KEY_BYTES, 8 + VALUE_BYTES, sorted(echo));
    println!("get, {KEY_BYTES} B key, {VALUE_BYTES} B value: {}", sorted(get));
    println!("get over echo: {}", sorted(differences));
}

fn median_nanos(endpoint: &Endpoint, peer: Peer, service: Service, keys: &[Vec<u8>], order: &[usize]) -> f64 {
    let clock = Clock::new();
    let (mut message, mut nanos) = (Vec::with_capacity(64), Vec::with_capacity(order.len()));
    for &place in order {
        let begun = clock.now();
        message.clear();
        GetRequest { name: name(&keys[place]) }.encode(&mut message);
        endpoint.call(peer, service, &message).post(0).expect("room");
        let mut done = false;
        while !done {
            endpoint.poll(|_, event| {
                if let Event::Completed { outcome, .. } = event {
                    let answer = outcome.as_ref().expect("an answer");
                    assert!(
                        service == ECHO
                            || matches!(found(answer), Ok(Some((_, value))) if value.len() == VALUE_BYTES)
                    );
                    done = true;
                }
            });
        }
        nanos.push((clock.now().as_nanos() - begun.as_nanos()) as f64);
    }
    nanos.sort_unstable_by(f64::total_cmp);
    nanos[nanos.len() / 2]
}
