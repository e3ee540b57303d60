//! How long an honest client waits for an object of 100 bytes while another client asks for as much as it
//! can: pages, lists of keys that were made to have one public hash, tables. Both on one core, in one thread;
//! the daemon on another. The control asks for as many single objects: an honest client under load.
//!
//! Arguments: the daemon's core and the clients', 0 and 1 unless given.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use farcall::bootstrap::{Bootstrap, HostPort, Rendezvous};
use farcall::parameters::Settings;
use farcall::{Clock, Endpoint, Event, HostAccess, Node, Peer, Service, TransportKind};
use farcall_kv::daemon::{Daemon, listen_on_host};
use farcall_kv::slots::SlotLayout;
use farcall_kv::store::{Condition, ScanFrom, Store};
use farcall_kv::wire::{
    CREATE_TABLE, GET, GetRequest, MULTI_GET, MULTI_PUT, MultiGetRequest, MultiPutRequest, PutRequest, SCAN,
    ScanRequest,
};
use farcall_kv::{Name, Shard, TableId, Value};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Hostile requests in flight.
const IN_FLIGHT: usize = 64;
/// Gets of the honest client under each flood, in each of some rounds: what else the machine does changes.
const GETS: usize = 500;
const ROUNDS: usize = 20;
const OBJECTS: u32 = 100_000;
const VALUE: [u8; 100] = [7; 100];

fn main() {
    let cores: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let core = |place: usize| cores.get(place).copied().unwrap_or(place);
    for kind in [TransportKind::RING_SHM, TransportKind::BASIC_UDP] {
        let rendezvous = Rendezvous::bind("127.0.0.1:0", 3).expect("a rendezvous");
        let address = HostPort::from(rendezvous.address());
        let stop = Arc::new(AtomicBool::new(false));
        let server = {
            let (address, stop, core) = (address.clone(), Arc::clone(&stop), core(0));
            std::thread::spawn(move || serve(kind, &address, core, &stop))
        };
        measure(kind, &address, core(1));
        stop.store(true, Ordering::Relaxed);
        server.join().expect("the server ends");
    }
}

fn table() -> TableId {
    static TABLE_ID: LazyLock<TableId> = LazyLock::new(|| TableId::of("bench").expect("short"));
    *TABLE_ID
}

fn name(key: &[u8]) -> Name<'_> {
    Name::new(table(), key).expect("a good key")
}

fn endpoint(kind: TransportKind, address: &HostPort, rank: u32, core: usize) -> Endpoint {
    let settings = Settings::load(["endpoint.idle=spin".to_owned()]).expect("settings");
    let bootstrap = Bootstrap::join(address, rank, 3, Duration::from_secs(10)).expect("it joins");
    let node = Node::new(bootstrap, settings.clone());
    let endpoint = node.endpoint_with(kind, &settings).expect("an endpoint");
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).expect("a core of this machine");
    endpoint
}

fn serve(kind: TransportKind, address: &HostPort, core: usize, stop: &AtomicBool) {
    let endpoint = endpoint(kind, address, 0, core);
    let mut store = Store::new(256 << 20).expect("memory");
    store.create_table("bench").expect("the first");
    for number in 0..OBJECTS {
        let value = Value::new(&VALUE).expect("short");
        store.put(name(&number.to_le_bytes()), value, Condition::Always).expect("room");
    }
    let layout = SlotLayout { slots: 1, request_bytes: 56, response_bytes: 56 };
    let slots =
        listen_on_host(&format!("bench-{}-{kind}", std::process::id()), &HostAccess::default(), layout, 1)
            .expect("a name");
    let mut daemon = Daemon::new(&endpoint, Shard::new(store, 0, 1), (0, 1), slots);
    while !stop.load(Ordering::Relaxed) {
        daemon.turn_idle();
    }
}

/// The keys of `crates/kv/src/store/tests/hostile.rs`: 256 bytes, one public hash.
fn key_of_one_hash(number: u32) -> Vec<u8> {
    const SECRET: [u64; 2] = [0xbe4b_a423_396c_feb8, 0x1cad_21f7_2c81_017c];
    let low = [SECRET[0].wrapping_add(table().0) as u32, SECRET[1].wrapping_sub(table().0) as u32];
    let mut key = vec![0; 256];
    for (stripe, high) in [(0, number), (1, number.wrapping_neg())] {
        let word = u64::from(high) << 32 | u64::from(low[stripe]);
        key[64 * stripe..64 * stripe + 8].copy_from_slice(&word.to_le_bytes());
    }
    key
}

/// The next request of a flood.
type Flood = fn(u32) -> (Service, Vec<u8>);

const FLOODS: [(&str, Option<Flood>); 7] = [
    ("nothing", None),
    (
        "control: gets of single objects",
        Some(|number| {
            let mut to = Vec::new();
            GetRequest { name: name(&(number.wrapping_mul(31) % OBJECTS).to_le_bytes()) }.encode(&mut to);
            (GET, to)
        }),
    ),
    (
        "scans, pages of 1 MiB",
        Some(|number| {
            let from = ScanFrom::Hash(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let mut to = Vec::new();
            ScanRequest { table: table(), page_bytes: 1 << 20, from }.encode(&mut to);
            (SCAN, to)
        }),
    ),
    (
        "multi-puts of 128 keys of one hash",
        Some(|number| {
            let mut to = Vec::new();
            for place in 0..128 {
                let key = key_of_one_hash(number * 128 % 100_000 + place);
                let value = Value::new(b"").expect("short");
                let put = PutRequest { name: name(&key), value, condition: Condition::Always };
                MultiPutRequest::encode_item(&put, &mut to);
            }
            (MULTI_PUT, to)
        }),
    ),
    (
        "gets of absent keys of one hash",
        Some(|number| {
            let mut to = Vec::new();
            GetRequest { name: name(&key_of_one_hash(1 << 31 | number)) }.encode(&mut to);
            (GET, to)
        }),
    ),
    (
        "multi-gets of 128 objects",
        Some(|number| {
            let mut to = Vec::new();
            for place in 0..128 {
                let key = ((number * 128 + place) % OBJECTS).to_le_bytes();
                MultiGetRequest::encode_item(name(&key), &mut to);
            }
            (MULTI_GET, to)
        }),
    ),
    ("new tables", Some(|number| (CREATE_TABLE, format!("table {number}").into_bytes()))),
];

fn measure(kind: TransportKind, address: &HostPort, core: usize) {
    let honest = endpoint(kind, address, 1, core);
    let hostile = endpoint(kind, address, 2, core);
    let (peer, hostile_peer) = (honest.peer(0).expect("it is there"), hostile.peer(0).expect("it is there"));
    honest.wait_for(peer).expect("it answers");
    hostile.wait_for(hostile_peer).expect("it answers");
    println!("{kind}: gets of {} B, {IN_FLIGHT} hostile requests in flight", VALUE.len());
    let mut times = FLOODS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, flood), times) in FLOODS.iter().zip(&mut times) {
            times.extend(under(*flood, &honest, peer, &hostile, hostile_peer));
        }
    }
    for ((what, _), mut nanos) in FLOODS.into_iter().zip(times) {
        nanos.sort_unstable();
        let quantile = |share: f64| nanos[(share * (nanos.len() - 1) as f64) as usize] as f64 / 1e3;
        println!(
            "  {what}: p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us",
            quantile(0.5),
            quantile(0.99),
            quantile(0.999)
        );
    }
}

fn under(
    flood: Option<Flood>,
    honest: &Endpoint,
    peer: Peer,
    hostile: &Endpoint,
    hostile_peer: Peer,
) -> Vec<u64> {
    let (clock, mut nanos) = (Clock::new(), Vec::with_capacity(GETS));
    let (mut asked, mut in_flight) = (0, 0_usize);
    let mut message = Vec::new();
    for number in 0..GETS as u32 {
        // A few at a time: to make them takes time of the same core.
        let few = in_flight + 4;
        while let Some(next) = flood.filter(|_| in_flight < IN_FLIGHT.min(few)) {
            let (service, message) = next(asked);
            asked = asked.wrapping_add(1);
            if hostile.call(hostile_peer, service, &message).within(Duration::from_secs(60)).post(0).is_err()
            {
                break;
            }
            in_flight += 1;
        }
        in_flight -= completed(hostile);
        message.clear();
        let key = (number.wrapping_mul(7919) % OBJECTS).to_le_bytes();
        GetRequest { name: name(&key) }.encode(&mut message);
        let begun = clock.now();
        honest.call(peer, GET, &message).post(0).expect("room");
        while completed(honest) == 0 {}
        nanos.push(clock.now().as_nanos() - begun.as_nanos());
    }
    while in_flight > 0 {
        in_flight -= completed(hostile);
    }
    nanos
}

fn completed(endpoint: &Endpoint) -> usize {
    let mut completed = 0;
    endpoint.poll(|_, event| {
        if let Event::Completed { .. } = event {
            completed += 1;
        }
    });
    completed
}
