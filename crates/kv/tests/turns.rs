//! A daemon and two clients, of which one asks for as much as it can: the other waits for a turn at most, and
//! finds room for its tables. All are polled by one thread, so that every run is the same.

mod common;

use std::cell::RefCell;

use common::{LONG, TABLE, endpoint, name, settings, value};
use farcall::bootstrap::{HostPort, Rendezvous};
use farcall::{CallError, Endpoint, Event, Peer, Service, TransportKind};
use farcall_kv::daemon::{Daemon, NobodyObserves};
use farcall_kv::slots::{SlotLayout, SlotServer};
use farcall_kv::store::{Condition, ScanFrom, Store};
use farcall_kv::wire::{
    CREATE_TABLE, Code, DROP_TABLE, GET, GetRequest, MULTI_GET, MULTI_PUT, MultiGetRequest, MultiPutRequest,
    PutRequest, SCAN, ScanRequest,
};
use farcall_kv::{Shard, TableId};

/// A client, and how its calls ended: with an answer, or with the code of a refusal.
struct Client<'e> {
    endpoint: &'e Endpoint,
    peer: Peer,
    ended: RefCell<Vec<Result<usize, u8>>>,
}

impl<'e> Client<'e> {
    fn new(endpoint: &'e Endpoint) -> Self {
        Self { endpoint, peer: endpoint.peer(0).expect("the daemon is known"), ended: RefCell::default() }
    }

    fn ask(&self, service: Service, message: &[u8]) {
        self.endpoint.call(self.peer, service, message).within(LONG).post(0).expect("room");
    }

    fn poll(&self) {
        let mut ended = self.ended.borrow_mut();
        self.endpoint.poll(|_, event| {
            if let Event::Completed { outcome, .. } = event {
                ended.push(match outcome {
                    Ok(answer) => Ok(answer.len()),
                    Err(CallError::Refused { code, .. }) => Err(*code),
                    Err(error) => panic!("{error}"),
                });
            }
        });
    }

    fn count(&self) -> usize {
        self.ended.borrow().len()
    }
}

/// Runs `test` with a daemon of some objects and two clients.
fn with_daemon(name_of_test: &str, test: impl Fn(&mut Daemon<'_>, &Client<'_>, &Client<'_>)) {
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 3).expect("a rendezvous on loopback");
    let address = HostPort::from(rendezvous.address());
    let [server, one, two] =
        [0, 1, 2].map(|rank| endpoint(&address, rank, 3, TransportKind::RING_SHM, &settings(&[])));
    let mut store = Store::new(32 << 20).expect("memory");
    store.create_table(TABLE).expect("the first");
    for number in 0..20_000_u32 {
        store.put(name(&number.to_le_bytes()), value(&[7; 100]), Condition::Always).expect("room");
    }
    let layout = SlotLayout { slots: 1, request_bytes: 56, response_bytes: 56 };
    let slots = format!("farcall-test-turns-{}-{name_of_test}", std::process::id());
    let slots = SlotServer::bind(&slots, layout, 1).expect("a free name");
    let mut daemon = Daemon::new(&server, Shard::new(store, 0, 1), (0, 1), slots);
    let (one, two) = (Client::new(&one), Client::new(&two));
    for client in [&one, &two] {
        client.ask(GET, &get(b"none"));
        until(&mut daemon, &[client], || client.count() == 1);
        client.ended.take();
    }
    test(&mut daemon, &one, &two);
}

/// Polls all until something holds.
fn until(daemon: &mut Daemon<'_>, clients: &[&Client<'_>], holds: impl Fn() -> bool) {
    while !holds() {
        clients.iter().for_each(|client| client.poll());
        daemon.turn(&mut NobodyObserves);
    }
}

fn get(key: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    GetRequest { name: name(key) }.encode(&mut message);
    message
}

fn scan(from: ScanFrom<'_>) -> Vec<u8> {
    let mut message = Vec::new();
    ScanRequest { table: common::table(), page_bytes: 1 << 20, from }.encode(&mut message);
    message
}

#[test]
fn a_get_waits_for_one_page_of_another_client_at_most() {
    with_daemon("pages", |daemon, hostile, honest| {
        (0..60).for_each(|_| hostile.ask(SCAN, &scan(ScanFrom::Hash(0))));
        hostile.poll();
        honest.ask(GET, &get(&7_u32.to_le_bytes()));
        until(daemon, &[hostile, honest], || honest.count() == 1);
        assert_eq!(*honest.ended.borrow(), [Ok(108)]);
        assert!(hostile.count() <= 4, "{} pages came first", hostile.count());
        until(daemon, &[hostile, honest], || hostile.count() == 60);
        assert!(hostile.ended.borrow().iter().all(Result::is_ok), "it gets its pages, one after the other");
    });
}

/// Lists of the first eight objects, to be read and to be written.
fn lists() -> [(Service, Vec<u8>); 2] {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for number in 0..8_u32 {
        let key = number.to_le_bytes();
        MultiGetRequest::encode_item(name(&key), &mut read);
        let put = PutRequest { name: name(&key), value: value(&[7; 100]), condition: Condition::Always };
        MultiPutRequest::encode_item(&put, &mut written);
    }
    [(MULTI_GET, read), (MULTI_PUT, written)]
}

#[test]
fn a_client_of_single_objects_is_answered_within_the_lists_of_others() {
    with_daemon("steps", |daemon, hostile, honest| {
        let requests = lists().into_iter().chain([(SCAN, scan(ScanFrom::Hash(0)))]);
        for (service, message) in requests {
            hostile.ended.take();
            honest.ended.take();
            (0..20).for_each(|_| hostile.ask(service, &message));
            let mut asked = 0;
            while hostile.count() < 20 {
                if honest.count() == asked {
                    honest.ask(GET, &get(&7_u32.to_le_bytes()));
                    asked += 1;
                }
                [hostile, honest].iter().for_each(|client| client.poll());
                daemon.turn(&mut NobodyObserves);
            }
            // Each answer of eight objects is four steps, and two turns bring a request and its answer back.
            assert!(honest.count() >= 2 * hostile.count(), "{service:?}: {} answers", honest.count());
        }
    });
}

#[test]
fn clients_with_long_requests_take_turns() {
    with_daemon("turns", |daemon, hostile, honest| {
        (0..60).for_each(|_| hostile.ask(SCAN, &scan(ScanFrom::Hash(0))));
        hostile.poll();
        daemon.turn(&mut NobodyObserves);
        honest.ask(SCAN, &scan(ScanFrom::Hash(0)));
        until(daemon, &[hostile, honest], || honest.count() == 1);
        assert!(hostile.count() <= 6, "{} pages came first", hostile.count());
    });
}

#[test]
fn what_waits_is_bounded() {
    with_daemon("bound", |daemon, hostile, honest| {
        (0..400).for_each(|_| hostile.ask(SCAN, &scan(ScanFrom::Hash(0))));
        until(daemon, &[hostile, honest], || hostile.count() == 400);
        let refused = hostile.ended.borrow().iter().filter(|ended| **ended == Err(Code::Busy as u8)).count();
        let answered = hostile.ended.borrow().iter().filter(|ended| ended.is_ok()).count();
        assert_eq!(refused + answered, 400, "{:?}", hostile.ended.borrow());
        assert!(answered >= 256, "{answered} were answered");
        honest.ask(SCAN, &scan(ScanFrom::Hash(0)));
        until(daemon, &[hostile, honest], || honest.count() == 1);
        assert!(honest.ended.borrow()[0].is_ok());
    });
}

#[test]
fn no_client_creates_all_tables() {
    with_daemon("tables", |daemon, hostile, honest| {
        let name_of = |number: u32| format!("table {number}").into_bytes();
        let ask = |daemon: &mut Daemon<'_>, client: &Client<'_>, service, name: &[u8]| {
            client.ended.take();
            client.ask(service, name);
            until(daemon, &[client], || client.count() == 1);
            client.ended.borrow()[0]
        };
        let too_many = Err(Code::TooManyTables as u8);
        for number in 0..64 {
            assert_eq!(ask(daemon, hostile, CREATE_TABLE, &name_of(number)), Ok(size_of::<TableId>()));
        }
        assert_eq!(ask(daemon, hostile, CREATE_TABLE, &name_of(64)), too_many);
        assert_eq!(ask(daemon, hostile, CREATE_TABLE, &name_of(7)), Ok(8), "it is there");
        assert_eq!(ask(daemon, honest, CREATE_TABLE, b"mine"), Ok(8));
        assert_eq!(ask(daemon, hostile, DROP_TABLE, &name_of(7)), Ok(1));
        assert_eq!(ask(daemon, hostile, CREATE_TABLE, &name_of(64)), Ok(8));
    });
}
