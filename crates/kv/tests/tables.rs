//! Tables that clients create with a level: it is reached, or refused; also by shards of an older version.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{LONG, Shards, TABLE, endpoint, settings, value};
use farcall::bootstrap::{HostPort, Rendezvous};
use farcall::{Endpoint, TransportKind};
use farcall_disk::MemoryDisk;
use farcall_kv::durable::{LOG_BYTES_MIN, Level, Parked, Released};
use farcall_kv::store::{Condition, CreateTableError, MEMORY_BYTES_MIN, Store};
use farcall_kv::wire::{CREATE_TABLE, CREATE_TABLE_AT, Code, PutRequest};
use farcall_kv::{Client, CreateTableAtError, Failure, Name, Shard, TableId};

const KIND: TransportKind = TransportKind::RING_SHM;

/// What a shard does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Age {
    /// All that it can.
    New,
    /// It knows no tables with levels.
    Old,
}

fn serve(address: &HostPort, age: Age, is_over: &AtomicBool) {
    let endpoint = endpoint(address, 0, 2, KIND, &settings(&[]));
    let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    shard.open_log(Box::new(MemoryDisk::new()), LOG_BYTES_MIN).expect("memory");
    shard.create_table(TABLE).expect("the first");
    while !is_over.load(Ordering::Relaxed) {
        endpoint.stay_awake(shard.is_flushing());
        let on_request = |request: farcall::Request<'_>, reply: farcall::Reply<'_>| {
            if age == Age::Old && request.service() == CREATE_TABLE_AT {
                return reply.refuse(Code::Malformed as u8);
            }
            shard.handle(request, reply);
        };
        endpoint.poll_requests_idle(on_request, |_, _| ());
        shard.turn_log();
        while let Some(Released { to: Parked::Call(call), answer }) = shard.release() {
            endpoint.reply(call, answer.answer().expect("memory takes it"));
        }
    }
}

fn with_a_log(age: Age, test: impl FnOnce(&Endpoint, &Client<'_>)) {
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a rendezvous on loopback");
    let address = HostPort::from(rendezvous.address());
    let is_over = AtomicBool::new(false);
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|threads| {
        let _over = Over(&is_over);
        threads.spawn(|| serve(&address, age, &is_over));
        let endpoint = endpoint(&address, 1, 2, KIND, &settings(&[]));
        test(&endpoint, &Client::new(&endpoint, [0]));
    });
}

fn level_of_a_put(endpoint: &Endpoint, client: &Client<'_>, table: TableId) -> Level {
    let put = PutRequest {
        name: Name::new(table, b"key").expect("a key"),
        value: value(b""),
        condition: Condition::Always,
    };
    let one = client.put(put.name, put.value, put.condition).with_receipt().wait().expect("room").level;
    let many = endpoint.block_on(client.multi_put_with_receipts(&[put, put]));
    for receipt in many {
        assert_eq!(receipt.expect("room").level, one, "one of many survives as much");
    }
    one
}

fn refusal(failure: Failure<CreateTableAtError>) -> CreateTableAtError {
    match failure {
        Failure::Store(refusal) => refusal,
        other => panic!("{other}"),
    }
}

#[test]
fn a_table_has_the_level_that_its_client_asked_for() {
    with_a_log(Age::New, |endpoint, client| {
        let create = |name, level| endpoint.block_on(client.create_table_at(name, level));
        let orders = create("orders", Level::Flushed).expect("the log is flushed");
        assert_eq!(Ok(orders), TableId::of("orders").map_err(|_| ()));
        assert_eq!(level_of_a_put(endpoint, client, orders), Level::Flushed);
        for level in [Level::Flushed, Level::Memory] {
            assert_eq!(create("orders", level).expect("it survives as much"), orders);
        }
        assert_eq!(level_of_a_put(endpoint, client, orders), Level::Flushed, "it stays what it was");
        let brief = create("brief", Level::Memory).expect("room");
        assert_eq!(level_of_a_put(endpoint, client, brief), Level::Memory);
        // Dropped, it may be created at any level.
        assert_eq!(endpoint.block_on(client.drop_table("orders")), Ok(true));
        create("orders", Level::Memory).expect("the name is free");
        assert_eq!(level_of_a_put(endpoint, client, orders), Level::Memory);
    });
}

#[test]
fn a_level_that_cannot_be_given_is_refused_and_changes_nothing() {
    with_a_log(Age::New, |endpoint, client| {
        let create = |name: &str, level| endpoint.block_on(client.create_table_at(name, level));
        let weak = refusal(create(TABLE, Level::Flushed).expect_err("it is in memory"));
        assert_eq!(weak, CreateTableAtError::WeakTable);
        assert!(weak.to_string().contains("there is a table of that name"));
        assert_eq!(level_of_a_put(endpoint, client, TableId::of(TABLE).expect("short")), Level::Memory);
        for flushed in [false, true] {
            let level = Level::Replicated { replicas: 1, flushed };
            let weak = refusal(create("orders", level).expect_err("the log has no replicas"));
            assert_eq!(weak, CreateTableAtError::WeakLog);
        }
        let long = refusal(create(&"n".repeat(65), Level::Flushed).expect_err("it is too long"));
        assert!(matches!(long, CreateTableAtError::Table(CreateTableError::Limit(_))), "{long}");
        assert_eq!(client.statistics(0).wait().expect("it answers").tables, [TABLE]);
    });
    let shards = Shards::start(KIND, 1, 1, &[]);
    let endpoint = shards.client(0);
    let client = Client::new(&endpoint, [0]);
    let none = endpoint.block_on(client.create_table_at("orders", Level::Flushed));
    let none = refusal(none.expect_err("the shard has no log"));
    assert_eq!(none, CreateTableAtError::NoLog);
    assert!(none.to_string().contains("--data"), "{none}");
    assert_eq!(client.statistics(0).wait().expect("it answers").tables, [TABLE]);
}

#[test]
fn an_older_shard_creates_tables_in_memory_and_no_weaker_ones() {
    with_a_log(Age::Old, |endpoint, client| {
        let create = |name: &str, level| endpoint.block_on(client.create_table_at(name, level));
        create("brief", Level::Memory).expect("it knows that");
        let refused = refusal(create("orders", Level::Flushed).expect_err("it does not know that"));
        assert_eq!(refused, CreateTableAtError::OlderStore);
        let mut tables = client.statistics(0).wait().expect("it answers").tables;
        tables.sort();
        assert_eq!(tables, ["brief", TABLE]);
    });
}

/// What clients of older versions send.
#[test]
fn an_older_client_creates_tables_by_name() {
    with_a_log(Age::New, |endpoint, client| {
        let peer = client.peer(0).expect("it is there");
        let answer = endpoint.call(peer, CREATE_TABLE, b"brief").within(LONG).wait().expect("room");
        let table = TableId::of("brief").expect("short");
        assert_eq!(*answer, table.0.to_le_bytes());
        assert_eq!(level_of_a_put(endpoint, client, table), Level::Memory);
    });
}
