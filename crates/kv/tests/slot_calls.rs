//! Requests in flight through slots: their outcomes come with their tokens, also those of a daemon that ends.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{LONG, TABLE, endpoint, name, settings, value};
use farcall::bootstrap::Rendezvous;
use farcall::{Endpoint, TransportKind};
use farcall_kv::daemon::{
    Daemon, DaemonClient, NobodyObserves, SlotCall, SlotCallFailure, SlotCalls, SlotFailure, SlotOutcome,
    SlotRefusal,
};
use farcall_kv::durable::Level;
use farcall_kv::slots::{DaemonGone, SlotLayout, SlotServer};
use farcall_kv::store::{Condition, IncrementError, MEMORY_BYTES_MIN, ReadError, Store, WriteError};
use farcall_kv::{Name, Shard, TableId};

const LAYOUT: SlotLayout = SlotLayout { slots: 4, request_bytes: 120, response_bytes: 120 };

/// A daemon that turns when it is told to, and a client of it.
fn with_daemon(test: &str, run: impl FnOnce(Daemon<'_>, SlotCalls)) {
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 1).expect("a rendezvous on loopback");
    let endpoint: Endpoint =
        endpoint(&rendezvous.address().into(), 0, 1, TransportKind::RING_SHM, &settings(&[]));
    let slots_name = format!("farcall-test-calls-{}-{test}", std::process::id());
    let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    shard.create_table(TABLE).expect("the first");
    let slots = SlotServer::bind(&slots_name, LAYOUT, 1).expect("a free name");
    let mut daemon = Daemon::new(&endpoint, shard, (0, 1), slots);
    let attached = std::thread::spawn(move || DaemonClient::attach(&slots_name, LONG));
    while daemon.clients() == 0 {
        daemon.turn(&mut NobodyObserves);
    }
    let client = attached.join().expect("it does not panic").expect("a place");
    run(daemon, SlotCalls::new(client));
}

fn put<'a>(key: &'a [u8], bytes: &'a [u8]) -> SlotCall<'a> {
    SlotCall::Put(name(key), value(bytes), Condition::Always)
}

type Outcome = Result<String, SlotCallFailure>;

/// What has come of everything that was asked, by token.
fn outcomes(daemon: &mut Daemon<'_>, calls: &mut SlotCalls) -> BTreeMap<u64, Outcome> {
    let mut outcomes = BTreeMap::new();
    while calls.in_flight() > 0 {
        daemon.turn(&mut NobodyObserves);
        while let Some((token, outcome)) = calls.next() {
            outcomes.insert(token, outcome.map(|outcome| format!("{outcome:?}")));
        }
    }
    outcomes
}

fn written(version: u64) -> Outcome {
    Ok(format!("{:?}", SlotOutcome::Written { version, level: Level::Memory }))
}

#[test]
fn as_many_are_in_flight_as_there_are_slots() {
    with_daemon("many", |mut daemon, mut calls| {
        assert_eq!((calls.depth(), calls.next().is_none()), (4, true));
        for round in 0..5_u64 {
            for number in 0..4 {
                calls.begin(&put(b"key", b"value"), number).expect("a free slot");
            }
            let full = calls.begin(&put(b"key", b"value"), 4);
            assert_eq!(full, Err(SlotFailure::Full { depth: 4 }));
            let long = calls.begin(&put(b"key", &[0; 200]), 4);
            assert_eq!(long, full, "requests are looked at when there is room for one");
            let expected = (0..4).map(|number| (number, written(round * 4 + number + 1)));
            assert_eq!(outcomes(&mut daemon, &mut calls), expected.collect());
        }
    });
}

#[test]
fn each_request_has_the_outcome_of_its_kind() {
    with_daemon("kinds", |mut daemon, mut calls| {
        let key = &b"key"[..];
        let mut one = |call: SlotCall<'_>| {
            calls.begin(&call, 7).expect("a free slot");
            outcomes(&mut daemon, &mut calls).remove(&7).expect("its token")
        };
        let said = |outcome: SlotOutcome<'_>| Ok(format!("{outcome:?}"));
        let level = Level::Memory;
        assert_eq!(one(SlotCall::Get(name(key))), said(SlotOutcome::Nothing));
        assert_eq!(one(put(key, b"41")), written(1));
        assert_eq!(one(SlotCall::Get(name(key))), said(SlotOutcome::Found { version: 1, value: b"41" }));
        let wrong = IncrementError::Write(WriteError::WrongVersion { version: 1 });
        let wrong = Err(SlotFailure::Store(SlotRefusal::Write(wrong)));
        assert_eq!(one(SlotCall::Put(name(key), value(b""), Condition::Absent)), wrong);
        assert_eq!(one(SlotCall::Delete(name(key), Condition::Version(9))), wrong);
        let counted = SlotOutcome::Counted { version: 2, sum: 42, level };
        assert_eq!(one(SlotCall::Increment(name(key), 1)), said(counted));
        let deleted = SlotOutcome::Deleted { version: 2, level };
        assert_eq!(one(SlotCall::Delete(name(key), Condition::Version(2))), said(deleted));
        let none = SlotOutcome::Deleted { version: 0, level };
        assert_eq!(one(SlotCall::Delete(name(key), Condition::Always)), said(none));
        one(put(key, b"words")).expect("room");
        let words = Err(SlotFailure::Store(SlotRefusal::Write(IncrementError::NotANumber)));
        assert_eq!(one(SlotCall::Increment(name(key), 1)), words);
        let nowhere = Name::new(TableId::of("none").expect("short"), key).expect("a key");
        let unknown = Err(SlotFailure::Store(SlotRefusal::Read(ReadError::UnknownTable)));
        assert_eq!(one(SlotCall::Get(nowhere)), unknown);
        let long = calls.begin(&put(key, &[0; 200]), 8);
        assert!(matches!(long, Err(SlotFailure::RequestTooLong { bytes_max: 120, .. })), "{long:?}");
    });
}

#[test]
fn what_is_waited_for_leaves_others_in_flight() {
    with_daemon("waits", |mut daemon, mut calls| {
        calls.begin(&put(b"one", b"1"), 1).expect("a free slot");
        let late = calls.call(&put(b"late", b"late"), Some(Duration::ZERO)).map(|_| ());
        assert_eq!(late, Err(SlotFailure::TimedOut { within: Duration::ZERO }));
        calls.begin(&put(b"two", b"2"), 2).expect("a free slot");
        assert_eq!(outcomes(&mut daemon, &mut calls), BTreeMap::from([(1, written(1)), (2, written(3))]));
        let get = std::thread::scope(|threads| {
            let waits = threads.spawn(|| {
                let found = calls.call(&SlotCall::Get(name(b"late")), Some(LONG));
                found.map(|found| format!("{found:?}"))
            });
            while !waits.is_finished() {
                daemon.turn(&mut NobodyObserves);
            }
            waits.join().expect("it does not panic")
        });
        assert_eq!(get, Ok(format!("{:?}", SlotOutcome::Found { version: 2, value: b"late" })));
        calls.begin(&put(b"one", b"1"), 7).expect("a free slot");
        calls.forget(7);
        calls.forget(8);
        assert_eq!(calls.in_flight(), 0);
        while daemon.counters().slot_requests.get() < 5 {
            daemon.turn(&mut NobodyObserves);
        }
        assert!(calls.next().is_none(), "what is forgotten has no outcome");
        // The slots whose responses nobody waited for are free again.
        (0..4).for_each(|token| calls.begin(&put(b"one", b"1"), token).expect("a free slot"));
        assert_eq!(outcomes(&mut daemon, &mut calls).len(), 4);
    });
}

#[test]
fn requests_of_a_daemon_that_ends_end_with_it() {
    with_daemon("ends", |mut daemon, mut calls| {
        calls.begin(&put(b"one", b"1"), 1).expect("a free slot");
        while daemon.counters().slot_requests.get() == 0 {
            daemon.turn(&mut NobodyObserves);
        }
        calls.begin(&put(b"two", b"2"), 2).expect("a free slot");
        assert_eq!(calls.check(), Ok(()));
        drop(daemon);
        let mut outcomes = BTreeMap::new();
        while calls.in_flight() > 0 {
            if let Some((token, outcome)) = calls.next() {
                outcomes.insert(token, outcome.map(|outcome| format!("{outcome:?}")));
            }
        }
        let gone = || Err(SlotFailure::DaemonGone(DaemonGone));
        assert_eq!(outcomes, BTreeMap::from([(1, written(1)), (2, gone())]), "what had come is not lost");
        assert_eq!(calls.check(), Err(DaemonGone));
        assert_eq!(calls.begin(&put(b"one", b"1"), 3), gone().map(|_: String| ()));
        assert_eq!(calls.call(&put(b"one", b"1"), None).map(|_| ()), gone().map(|_: String| ()));
        assert!(calls.next().is_none());
    });
}
