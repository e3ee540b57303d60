//! Clients and shards over every transport: what each operation gives, and how it fails.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{LONG, Shards, TABLE, name, table, value};
use farcall::{CallError, Endpoint, Reason, TransportKind};
use farcall_kv::store::{Condition, CreateTableError, IncrementError, ReadError, WriteError};
use farcall_kv::wire::{self, PutRequest};
use farcall_kv::{Client, Failure, FoundObject, Name, ScanPosition, TableId, VALUE_BYTES_MAX};

/// Runs a test with two shards over every transport.
fn over_every_transport(test: impl Fn(&Shards, &Endpoint, &Client<'_>)) {
    for &kind in TransportKind::ALL {
        let shards = Shards::start(kind, 2, 1, &[]);
        let endpoint = shards.client(0);
        let client = Client::new(&endpoint, 0..2);
        test(&shards, &endpoint, &client);
    }
}

fn contents(found: &Option<FoundObject>) -> Option<&[u8]> {
    found.as_ref().map(FoundObject::value)
}

#[test]
fn objects_are_written_read_and_deleted() {
    over_every_transport(|_, endpoint, client| {
        for bytes in [0, 5, 100, 16 << 10, (16 << 10) + 1, VALUE_BYTES_MAX] {
            let written: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            for key in [&b"one"[..], b"two", b"three", b"four"] {
                let version = client.put(name(key), value(&written), Condition::Always).wait().expect("room");
                let found = client.get(name(key)).wait().expect("a table").expect("an object");
                assert!((found.version(), found.value()) == (version, &written[..]), "{bytes} bytes");
                let awaited = endpoint.block_on(async { client.get(name(key)).await }).expect("a table");
                assert!(contents(&awaited) == Some(&written[..]));
            }
        }
        assert!(client.delete(name(b"one"), Condition::Always).wait().expect("a table").is_some());
        assert_eq!(client.delete(name(b"one"), Condition::Always).wait(), Ok(None));
        assert!(client.get(name(b"one")).wait().expect("a table").is_none());
        let shards = [0, 1].map(|shard| client.statistics(shard).wait().expect("it answers"));
        assert_eq!(shards.iter().map(|shard| shard.store.objects).sum::<u64>(), 3);
        assert!(shards.iter().all(|shard| shard.tables == [TABLE] && shard.shards == 2));
    });
}

#[test]
fn callbacks_get_outcomes() {
    over_every_transport(|_, endpoint, client| {
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..3 {
            let outcomes = Arc::clone(&outcomes);
            let increment = client.increment(name(b"n"), 2);
            let note = move |sum| outcomes.lock().expect("no panic").push(sum);
            increment.then(move |_, outcome| note(outcome.expect("a number").1)).expect("sent");
        }
        endpoint.run_while(|| outcomes.lock().expect("no panic").len() < 3);
        assert_eq!(*outcomes.lock().expect("no panic"), [2, 4, 6]);
    });
}

#[test]
fn refusals_are_typed() {
    over_every_transport(|_, endpoint, client| {
        let version = client.put(name(b"k"), value(b"seven"), Condition::Absent).wait().expect("absent");
        let wrong = Err(Failure::Store(WriteError::WrongVersion { version }));
        assert_eq!(client.put(name(b"k"), value(b""), Condition::Absent).wait(), wrong);
        assert_eq!(client.put(name(b"k"), value(b""), Condition::Version(version + 1)).wait(), wrong);
        let deleted = client.delete(name(b"k"), Condition::Version(version + 1)).wait();
        assert_eq!(deleted.map(drop), wrong.map(|_| ()));
        let refused = client.increment(name(b"k"), 1).wait();
        assert_eq!(refused, Err(Failure::Store(IncrementError::NotANumber)));
        client
            .put(name(b"k"), value(i64::MAX.to_string().as_bytes()), Condition::Always)
            .wait()
            .expect("room");
        assert_eq!(client.increment(name(b"k"), 1).wait(), Err(Failure::Store(IncrementError::Overflow)));

        let none = TableId::of("none").expect("short");
        let nowhere = Name::new(none, b"k").expect("a good key");
        assert_eq!(client.get(nowhere).wait().map(drop), Err(Failure::Store(ReadError::UnknownTable)));
        let put = client.put(nowhere, value(b""), Condition::Always).wait();
        assert_eq!(put, Err(Failure::Store(WriteError::UnknownTable)));
        let scan = endpoint.block_on(client.scan(none, ScanPosition::default(), 1));
        assert_eq!(scan.map(drop), Err(Failure::Store(ReadError::UnknownTable)));
        assert_eq!(endpoint.block_on(client.create_table("none")), Ok(none));
        assert!(client.get(nowhere).wait().expect("now it exists").is_none());
        let long = endpoint.block_on(client.create_table(&"n".repeat(65)));
        assert!(matches!(long, Err(Failure::Store(CreateTableError::Limit(_)))), "{long:?}");
    });
}

#[test]
fn a_client_that_counts_shards_differently_is_told() {
    let shards = Shards::start(TransportKind::RING_SHM, 2, 1, &[]);
    let endpoint = shards.client(0);
    let client = Client::new(&endpoint, [0]);
    let outcomes = (0..20_u8).map(|number| client.get(name(&[number])).wait());
    let (here, elsewhere): (Vec<_>, Vec<_>) = outcomes.partition(Result::is_ok);
    assert!(!here.is_empty() && !elsewhere.is_empty());
    assert!(elsewhere.into_iter().all(|outcome| outcome.err() == Some(Failure::WrongShard)));
}

#[test]
fn nonsense_is_refused_and_the_shard_goes_on() {
    over_every_transport(|_, endpoint, client| {
        let peer = client.peer(0).expect("it is there");
        for service in (wire::GET.0..=wire::CREATE_TABLE.0).chain([wire::DROP_TABLE.0]) {
            for message in [&b""[..], b"\xff", b"\xff\xff\xff\xff"] {
                let refusal = endpoint.call(peer, farcall::Service(service), message).within(LONG).wait();
                let refusal = refusal.map(|answer| answer.to_vec());
                let empty_list =
                    message.is_empty() && [wire::MULTI_GET.0, wire::MULTI_PUT.0].contains(&service);
                let expected = if empty_list {
                    Ok(Vec::new())
                } else {
                    Err(CallError::Refused { code: 1, why: Reason::default() })
                };
                assert_eq!(refusal, expected, "service {service}, {message:?}");
            }
        }
        let unknown = endpoint.call(peer, farcall::Service(9999), b"").within(LONG).wait();
        assert_eq!(unknown.map(drop), Err(CallError::Refused { code: 1, why: Reason::default() }));
        assert!(client.statistics(0).wait().is_ok(), "it serves on");
    });
}

#[test]
fn many_objects_are_written_read_and_scanned() {
    over_every_transport(|_, endpoint, client| {
        let objects: BTreeMap<Vec<u8>, Vec<u8>> = (0..500_usize)
            .map(|number| (format!("object {number}").into_bytes(), vec![number as u8; number * 37 % 9000]))
            .collect();
        let puts: Vec<PutRequest<'_>> = objects
            .iter()
            .map(|(key, contents)| PutRequest {
                name: name(key),
                value: value(contents),
                condition: Condition::Absent,
            })
            .collect();
        let written = endpoint.block_on(client.multi_put(&puts));
        assert!(written.iter().all(Result::is_ok), "{written:?}");
        let again = endpoint.block_on(client.multi_put(&puts[..2]));
        let versions = written[..2].iter().map(|version| *version.as_ref().expect("written"));
        let wrong = versions.map(|version| Err(Failure::Store(WriteError::WrongVersion { version })));
        assert_eq!(again, wrong.collect::<Vec<_>>());

        let none = TableId::of("none").expect("short");
        let mut names: Vec<Name<'_>> = objects.keys().map(|key| name(key)).collect();
        names.extend([name(b"missing"), Name::new(none, b"k").expect("a good key")]);
        let mut found = endpoint.block_on(client.multi_get(&names));
        assert_eq!(
            found.pop().map(|last| last.map(drop)),
            Some(Err(Failure::Store(ReadError::UnknownTable)))
        );
        assert!(matches!(found.pop(), Some(Ok(None))));
        for (found, contents) in found.iter().zip(objects.values()) {
            let found = found.as_ref().expect("a table").as_ref().expect("an object");
            assert!(found.value() == contents);
        }

        let (mut position, mut seen) = (Some(ScanPosition::default()), BTreeMap::new());
        while let Some(from) = position {
            let page = endpoint.block_on(client.scan(table(), from, 20_000)).expect("a page");
            for object in page.objects() {
                let twice = seen.insert(object.key.to_vec(), object.value.to_vec());
                assert!(twice.is_none(), "an object is met once");
            }
            position = page.next;
        }
        assert!(seen == objects, "{} of {} objects", seen.len(), objects.len());
    });
}

#[test]
fn an_answer_has_as_many_objects_as_it_says() {
    let shards = Shards::start(TransportKind::RING_SHM, 1, 1, &[]);
    let endpoint = shards.client(0);
    let client = Client::new(&endpoint, [0]);
    let peer = client.peer(0).expect("it is there");
    for bytes in [100_000, 500_000, (1 << 20) - 13, VALUE_BYTES_MAX] {
        client.put(name(b"k"), value(&vec![7; bytes]), Condition::Always).wait().expect("room");
        let most = wire::MultiGetResponse::objects_max(bytes);
        let mut request = Vec::new();
        (0..most + 1).for_each(|_| wire::MultiGetRequest::encode_item(name(b"k"), &mut request));
        let answer = endpoint.call(peer, wire::MULTI_GET, &request).within(LONG).wait().expect("an answer");
        assert_eq!(wire::MultiGetResponse::decode(&answer).items().count(), most, "{bytes} bytes");
    }
}

#[test]
fn a_full_shard_refuses_and_serves_on() {
    let shards = Shards::start(TransportKind::RING_SHM, 1, 1, &[]);
    let endpoint = shards.client(0);
    let client = Client::new(&endpoint, [0]);
    let contents = vec![7; VALUE_BYTES_MAX];
    let put = |number: u8| client.put(name(&[number]), value(&contents), Condition::Always).wait();
    let fitted = (0..)
        .map_while(|number| {
            put(number)
                .map_err(|error| {
                    assert_eq!(error, Failure::Store(WriteError::OutOfMemory));
                })
                .ok()
        })
        .count();
    assert!(fitted > 0);
    for number in 0..fitted {
        let found = client.get(name(&[number as u8])).wait().expect("a table");
        assert!(contents == self::contents(&found).expect("it was written"));
    }
    client.delete(name(&[0]), Condition::Always).wait().expect("a table");
    put(0).expect("there is room again");
}

/// Increments of several threads on one key, by their times: a sum that came back before another increment
/// was asked for is smaller than that one's. With sums that are all different this is what linearizability
/// means for a counter.
#[test]
fn concurrent_increments_are_linearizable() {
    for &kind in TransportKind::ALL {
        let shards = Shards::start(kind, 1, 3, &[]);
        let clock = &farcall::Clock::new();
        let mut history: Vec<(u64, u64, i64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|number| {
                    let shards = &shards;
                    scope.spawn(move || {
                        let endpoint = shards.client(number);
                        let client = Client::new(&endpoint, [0]);
                        let increment = |_| {
                            let asked = clock.now().as_nanos();
                            let (_, sum) =
                                client.increment(name(b"n"), 1).within(LONG).wait().expect("an answer");
                            (asked, clock.now().as_nanos(), sum)
                        };
                        (0..300).map(increment).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect()
        });
        history.sort_unstable_by_key(|&(_, _, sum)| sum);
        assert!(history.iter().map(|&(_, _, sum)| sum).eq(1..=900), "every increment happened once");
        let mut latest_asked = 0;
        for (asked, answered, sum) in history {
            latest_asked = latest_asked.max(asked);
            assert!(
                latest_asked <= answered,
                "increment {sum} was over before one with a smaller sum was asked for"
            );
        }
    }
}
