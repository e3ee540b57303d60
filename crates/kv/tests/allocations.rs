//! Reading an object costs the shard and the daemon no allocation, and neither does overwriting it by one as
//! long.

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

mod common;

use common::{LONG, TABLE, endpoint, name, settings, value};
use farcall::TransportKind;
use farcall::bootstrap::Rendezvous;
use farcall_kv::daemon::{Daemon, DaemonClient, NobodyObserves, SlotResponse, call_number};
use farcall_kv::durable::Parked;
use farcall_kv::slots::{SlotLayout, SlotServer};
use farcall_kv::store::{Condition, MEMORY_BYTES_MIN, Store};
use farcall_kv::wire::{Code, GET, GetRequest, PUT, PutRequest, found};
use farcall_kv::{Answer, Shard};

/// Requests made while allocations are counted: fewer than the turns after which a daemon looks after its
/// clients.
const REQUESTS: usize = 3000;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting by thread: that of the test's runner allocates when it likes.
struct Counting;

#[expect(unsafe_code, reason = "an allocator cannot be written otherwise")]
// SAFETY: every request is passed on to the system's allocator unchanged; the count allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is the system allocator's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` allocates, all of which it does on this thread.
fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// An answer that looks at what it gets and keeps none of it.
struct Checked;

impl Answer for Checked {
    fn send(self, message: &[u8]) {
        let (_, contents) = found(message).expect("an answer").expect("an object");
        assert!(contents.iter().all(|&byte| byte == 7));
    }

    fn send_filled(self, _: usize, _: impl FnOnce(&mut [u8])) {
        panic!("short values lie in one piece");
    }

    fn refuse(self, code: Code) {
        panic!("refused: {code:?}");
    }

    fn park(self) -> Parked {
        panic!("tables in memory are answered at once");
    }
}

/// A get and a put of each of a few objects, as messages.
fn requests() -> Vec<(u8, Vec<u8>)> {
    let request = |number: u8| {
        let (key, mut get, mut put) = ([number; 30], Vec::new(), Vec::new());
        GetRequest { name: name(&key) }.encode(&mut get);
        PutRequest { name: name(&key), value: value(&[7; 100]), condition: Condition::Always }
            .encode(&mut put);
        [(call_number(PUT), put), (call_number(GET), get)]
    };
    (0..8).flat_map(request).collect()
}

fn shard() -> Shard {
    let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    shard.create_table(TABLE).expect("the first");
    shard
}

/// Shard, daemon and client take turns on one thread.
#[test]
fn reads_and_overwrites_allocate_nothing() {
    let mut shard = shard();
    let requests = requests();
    for (_, put) in requests.iter().step_by(2) {
        let put = PutRequest::decode(put).expect("a request");
        shard.store_mut().put(put.name, put.value, put.condition).expect("room");
    }
    let reads = allocations_of(|| {
        for (_, get) in requests.iter().skip(1).step_by(2).cycle().take(REQUESTS) {
            shard.answer(GET, get, Checked);
        }
    });
    assert_eq!(reads, 0, "allocations by a shard");

    let rendezvous = Rendezvous::bind("127.0.0.1:0", 1).expect("a rendezvous on loopback");
    let endpoint = endpoint(&rendezvous.address().into(), 0, 1, TransportKind::RING_SHM, &settings(&[]));
    let slots_name = format!("farcall-test-kv-allocations-{}", std::process::id());
    let layout = SlotLayout { slots: 4, request_bytes: 184, response_bytes: 120 };
    let slots = SlotServer::bind(&slots_name, layout, 1).expect("a free name");
    let mut daemon = Daemon::new(&endpoint, shard, (0, 1), slots);
    let attached = std::thread::spawn(move || DaemonClient::attach(&slots_name, LONG));
    while daemon.clients() == 0 {
        daemon.turn(&mut NobodyObserves);
    }
    let mut client = attached.join().expect("it does not panic").expect("a place");
    let in_slots = allocations_of(|| {
        for (number, (call, request)) in requests.iter().cycle().take(REQUESTS).enumerate() {
            let slot = number % layout.slots;
            client.ask(slot, *call, request);
            let response = loop {
                daemon.turn(&mut NobodyObserves);
                if let Some(response) = client.take(slot) {
                    break response;
                }
            };
            assert!(matches!(response, SlotResponse::Answer(_)), "{response:?}");
        }
    });
    assert_eq!(in_slots, 0, "allocations by a daemon and its client");
}
