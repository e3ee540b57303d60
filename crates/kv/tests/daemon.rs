//! Daemons and the processes of their host: requests of slots answered in place and elsewhere, and deaths on
//! all sides.

mod common;

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{LONG, TABLE, endpoint, name, settings, value};
use farcall::TransportKind;
use farcall::bootstrap::{HostPort, Rendezvous};
use farcall_base::Random;
use farcall_kv::daemon::{
    Daemon, DaemonClient, NobodyObserves, SlotFailure, SlotResponse, attach_on_host, call_number,
    listen_on_host,
};
use farcall_kv::slots::{Access, AttachError, SlotLayout, SlotServer};
use farcall_kv::store::{Condition, IncrementError, MEMORY_BYTES_MIN, ReadError, Store, WriteError};
use farcall_kv::wire::{Code, GET, GetRequest, MULTI_GET, shard_of};
use farcall_kv::{Name, Shard, TableId};

const LAYOUT: SlotLayout = SlotLayout { slots: 4, request_bytes: 120, response_bytes: 120 };

/// The abstract name of a daemon of this process.
fn slots_name(test: &str, rank: u32) -> String {
    format!("farcall-test-kv-{}-{test}-{rank}", std::process::id())
}

/// Runs a daemon until told to stop. It does not start before all have published their endpoints.
fn run_daemon(address: &HostPort, test: &str, rank: u32, shards: u32, stop: &AtomicBool) {
    let endpoint = endpoint(address, rank, shards, TransportKind::RING_SHM, &settings(&[]));
    let mut daemon = daemon(&endpoint, test, rank, shards, 2);
    while !stop.load(Ordering::Relaxed) {
        daemon.turn(&mut NobodyObserves);
    }
}

fn daemon<'e>(
    endpoint: &'e farcall::Endpoint,
    test: &str,
    rank: u32,
    shards: u32,
    clients_max: usize,
) -> Daemon<'e> {
    let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), rank, shards);
    shard.create_table(TABLE).expect("the first");
    let slots = SlotServer::bind(&slots_name(test, rank), LAYOUT, clients_max).expect("a free name");
    let mut daemon = Daemon::new(endpoint, shard, (rank, shards), slots);
    daemon.meet_all().expect("the others are known");
    daemon
}

/// Two daemons on threads of their own; stopped when dropped.
struct Pair {
    stop: [Arc<AtomicBool>; 2],
    threads: Vec<Option<std::thread::JoinHandle<()>>>,
    _rendezvous: Rendezvous,
}

impl Pair {
    fn start(test: &'static str) -> Self {
        let rendezvous = Rendezvous::bind("127.0.0.1:0", 2).expect("a rendezvous on loopback");
        let address = HostPort::from(rendezvous.address());
        let stop = [Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false))];
        let threads = [0, 1].map(|rank: u32| {
            let (address, stop) = (address.clone(), Arc::clone(&stop[rank as usize]));
            Some(std::thread::spawn(move || run_daemon(&address, test, rank, 2, &stop)))
        });
        Self { stop, threads: threads.into(), _rendezvous: rendezvous }
    }

    fn end(&mut self, rank: usize) {
        self.stop[rank].store(true, Ordering::Relaxed);
        if let Some(thread) = self.threads[rank].take() {
            let outcome = thread.join();
            assert!(outcome.is_ok() || std::thread::panicking(), "a daemon panicked");
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.end(0);
        self.end(1);
    }
}

/// A key that the shard of that rank has.
fn key_of(rank: u32) -> Vec<u8> {
    (0_u64..)
        .map(|number| number.to_le_bytes().to_vec())
        .find(|key| shard_of(name(key), 2) == rank)
        .expect("some do")
}

#[test]
fn local_and_remote_objects_are_used_alike() {
    let _pair = Pair::start("alike");
    let mut client = DaemonClient::attach(&slots_name("alike", 0), LONG).expect("a place");
    let mut other = DaemonClient::attach(&slots_name("alike", 1), LONG).expect("a place");
    for rank in [0, 1] {
        let key = key_of(rank);
        assert_eq!(client.get(name(&key)), Ok(None));
        let version = client.put(name(&key), value(b"first"), Condition::Absent).expect("absent");
        assert_eq!(other.get(name(&key)), Ok(Some((version, b"first".to_vec()))));
        let wrong = client.put(name(&key), value(b"second"), Condition::Absent);
        assert_eq!(wrong, Err(SlotFailure::Store(WriteError::WrongVersion { version })));
        let second = other.put(name(&key), value(b"second"), Condition::Version(version)).expect("right");
        assert_eq!(client.get(name(&key)), Ok(Some((second, b"second".to_vec()))));
        let nowhere = Name::new(TableId::of("none").expect("short"), &key).expect("a good key");
        // The other table spreads the same keys differently, so both daemons are asked.
        assert_eq!(client.get(nowhere), Err(SlotFailure::Store(ReadError::UnknownTable)));
    }
}

#[test]
fn numbers_are_added_to_and_objects_deleted_wherever_they_are() {
    let _pair = Pair::start("numbers");
    let mut client = DaemonClient::attach(&slots_name("numbers", 0), LONG).expect("a place");
    for rank in [0, 1] {
        let key = key_of(rank);
        let (version, sum) = client.increment(name(&key), 5).expect("none yet");
        assert_eq!(sum, 5);
        assert_eq!(client.increment(name(&key), -7).map(|(_, sum)| sum), Ok(-2));
        let wrong = client.delete(name(&key), Condition::Version(version));
        assert_eq!(wrong, Err(SlotFailure::Store(WriteError::WrongVersion { version: version + 1 })));
        assert_eq!(client.delete(name(&key), Condition::Always), Ok(Some(version + 1)));
        assert_eq!(client.delete(name(&key), Condition::Always), Ok(None));
        client.put(name(&key), value(b"text"), Condition::Always).expect("it serves");
        assert_eq!(client.increment(name(&key), 1), Err(SlotFailure::Store(IncrementError::NotANumber)));
    }
}

#[test]
fn a_daemon_that_stands_still_is_an_error_and_its_late_response_no_answer_to_another_request() {
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 1).expect("a rendezvous on loopback");
    let endpoint = endpoint(&rendezvous.address().into(), 0, 1, TransportKind::RING_SHM, &settings(&[]));
    let mut daemon = daemon(&endpoint, "still", 0, 1, 1);
    let attached = std::thread::spawn(|| DaemonClient::attach(&slots_name("still", 0), LONG));
    turn_until(&mut daemon, |daemon| daemon.clients() == 1);
    let mut client = attached.join().expect("it does not panic").expect("a place");
    let within = Duration::ZERO;
    client.respond_within(within);
    let (one, other) = (key_of(0), key_of(1));
    let put = client.put(name(&one), value(b"late"), Condition::Always);
    assert_eq!(put, Err(SlotFailure::TimedOut { within }));
    assert_eq!(client.get(name(&other)), Err(SlotFailure::TimedOut { within }), "the slot is not free yet");
    turn_until(&mut daemon, |daemon| daemon.counters().slot_requests.get() == 1);
    client.respond_within(LONG);
    let client = std::thread::spawn(move || (client.get(name(&other)), client.get(name(&one))));
    turn_until(&mut daemon, |daemon| daemon.counters().slot_requests.get() == 3);
    let found = client.join().expect("it does not panic");
    assert_eq!(found, (Ok(None), Ok(Some((1, b"late".to_vec())))));
}

#[test]
fn an_idle_daemon_sleeps_and_wakes_for_processes_of_its_host() {
    let stop = Arc::new(AtomicBool::new(false));
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 1).expect("a rendezvous on loopback");
    let endpoint = endpoint(&rendezvous.address().into(), 0, 1, TransportKind::RING_SHM, &settings(&[]));
    let store = slots_name("sleeps", 0);
    let listen = || listen_on_host(&store, &Access::default(), LAYOUT, 1).expect("a free name");
    // Two daemons of a store on a host: the first has no room and refuses, so the second takes the client.
    let (full, slots) =
        (listen_on_host(&store, &Access::default(), LAYOUT, 0).expect("a free name"), listen());
    let refuses = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || run_full(full, &stop)
    });
    let user = std::thread::spawn({
        let (store, stop) = (store.clone(), Arc::clone(&stop));
        move || {
            let put = attach_on_host(&store, &Access::default())
                .map(|mut client| client.put(name(b"k"), value(b"v"), Condition::Always));
            stop.store(true, Ordering::Relaxed);
            put
        }
    });
    let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), 0, 1);
    shard.create_table(TABLE).expect("the first");
    let mut daemon = Daemon::new(&endpoint, shard, (0, 1), slots);
    daemon.wake_for_clients().expect("a descriptor to spare");
    while !stop.load(Ordering::Relaxed) {
        daemon.turn_idle();
    }
    assert_eq!(user.join().expect("it does not panic"), Ok(Ok(1)));
    refuses.join().expect("it does not panic");
    turn_until(&mut daemon, |daemon| daemon.clients() == 0);
    drop(daemon);
    assert_eq!(attach_on_host(&store, &Access::default()).err(), Some(AttachError::NotThere));
}

fn run_full(mut full: SlotServer, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        full.attend();
        std::thread::yield_now();
    }
}

#[test]
fn what_does_not_fit_into_a_slot_is_refused() {
    let _pair = Pair::start("fit");
    let mut client = DaemonClient::attach(&slots_name("fit", 0), LONG).expect("a place");
    for rank in [0, 1] {
        let key = key_of(rank);
        let long = client.put(name(&key), value(&[1; 100]), Condition::Always);
        assert_eq!(long, Err(SlotFailure::RequestTooLong { bytes: 128, bytes_max: 120 }));
        let mut request = Vec::new();
        GetRequest { name: name(&key) }.encode(&mut request);
        client.ask(1, call_number(GET), &request);
        client.ask(2, call_number(MULTI_GET), &request);
        client.ask(3, call_number(GET), &[]);
        let mut found = Vec::new();
        for slot in 1..4 {
            found.push(loop {
                if let Some(response) = client.take(slot) {
                    break format!("{response:?}");
                }
            });
        }
        let malformed = format!("{:?}", SlotResponse::Refused(Code::Malformed));
        assert_eq!(found[1..], [malformed.clone(), malformed]);
        assert_eq!(found[0], format!("{:?}", SlotResponse::Answer(&[0; 8])));
    }
}

#[test]
fn a_dead_shard_is_an_error_and_the_others_serve_on() {
    let mut pair = Pair::start("dead");
    let mut client = DaemonClient::attach(&slots_name("dead", 0), LONG).expect("a place");
    let (here, there) = (key_of(0), key_of(1));
    client.put(name(&there), value(b"there"), Condition::Always).expect("it serves");
    pair.end(1);
    // A request in flight at its end has no answer; later ones go nowhere.
    let first = client.get(name(&there));
    assert!(matches!(first, Err(SlotFailure::NoAnswer | SlotFailure::NotPassedOn)), "{first:?}");
    assert_eq!(client.get(name(&there)), Err(SlotFailure::NotPassedOn));
    client.put(name(&here), value(b"here"), Condition::Always).expect("it serves on");
}

#[test]
fn a_dead_daemon_is_an_error_and_no_hang() {
    let mut pair = Pair::start("ends");
    let mut client = DaemonClient::attach(&slots_name("ends", 0), LONG).expect("a place");
    client.put(name(&key_of(0)), value(b"here"), Condition::Always).expect("it serves");
    pair.end(0);
    assert!(matches!(client.get(name(&key_of(0))), Err(SlotFailure::DaemonGone(_))));
}

const ROLE: &str = "FARCALL_TEST_ROLE";

/// How many clients are killed.
const KILLS: &str = "FARCALL_TEST_KV_KILLS";

/// Writes until it is killed, in all slots.
fn write_until_killed(slots: &str) {
    let mut client = DaemonClient::attach(slots, LONG).expect("a place");
    let contents = [7; 60];
    for number in 0_u64.. {
        let slot = number as usize % client.depth();
        let key = (number % 100).to_le_bytes();
        let mut request = Vec::new();
        let put = farcall_kv::wire::PutRequest {
            name: name(&key),
            value: value(&contents[..(number % 60) as usize]),
            condition: Condition::Always,
        };
        put.encode(&mut request);
        while number >= client.depth() as u64 && client.take(slot).is_none() {
            client.check().expect("the daemon lives");
        }
        client.ask(slot, call_number(farcall_kv::wire::PUT), &request);
    }
}

fn start_writer(test: &str, slots: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--exact", test]).env(ROLE, slots).stdout(Stdio::null()).spawn().expect("it runs again")
}

#[test]
fn clients_killed_while_they_write_leave_their_places() {
    if let Ok(slots) = std::env::var(ROLE) {
        return write_until_killed(&slots);
    }
    let test = "clients_killed_while_they_write_leave_their_places";
    let kills = std::env::var(KILLS).map_or(100, |text| text.parse().expect("a number"));
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 1).expect("a rendezvous on loopback");
    let endpoint = endpoint(&rendezvous.address().into(), 0, 1, TransportKind::RING_SHM, &settings(&[]));
    let mut daemon = daemon(&endpoint, test, 0, 1, 1);
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    for number in 0..kills {
        let mut writer = start_writer(test, &slots_name(test, 0));
        turn_until(&mut daemon, |daemon| daemon.clients() == 1);
        let more = daemon.counters().slot_requests.get() + random.below(200);
        turn_until(&mut daemon, |daemon| daemon.counters().slot_requests.get() >= more);
        writer.kill().expect("it lives");
        writer.wait().expect("it ended");
        // There is one place, so the next client is only let in when this one's is free.
        turn_until(&mut daemon, |daemon| daemon.clients() == 0);
        assert_eq!(daemon.counters().detached.get(), number + 1);
    }
    let statistics = daemon.shard().store().statistics();
    assert!((1..=100).contains(&statistics.objects), "{statistics:?}");
    let whole = daemon.shard().store().get(name(&0_u64.to_le_bytes())).expect("a table").expect("written");
    assert!(whole.to_vec().iter().all(|&byte| byte == 7), "writes are whole or not at all");
}

/// On a busy machine a turn that yields takes as long as all others together.
#[test]
fn an_idle_daemon_with_clients_looks_for_new_ones_however_long_its_turns_take() {
    let test = "an_idle_daemon_with_clients_looks_for_new_ones_however_long_its_turns_take";
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 1).expect("a rendezvous on loopback");
    let endpoint = endpoint(&rendezvous.address().into(), 0, 1, TransportKind::RING_SHM, &settings(&[]));
    let mut daemon = daemon(&endpoint, test, 0, 1, 2);
    let slots = slots_name(test, 0);
    std::thread::scope(|scope| {
        let attach = || scope.spawn(|| DaemonClient::attach(&slots, LONG));
        let first = attach();
        turn_until(&mut daemon, |daemon| daemon.clients() == 1);
        let _first = first.join().expect("no panic").expect("there is room");
        let second = attach();
        let mut turns = 0;
        while !second.is_finished() {
            daemon.turn_idle();
            turns += 1;
            assert!(turns < 2048, "it does not look");
            let end = Instant::now() + Duration::from_millis(4);
            while Instant::now() < end {
                core::hint::spin_loop();
            }
        }
        assert!(second.join().expect("no panic").is_ok());
    });
}

fn turn_until(daemon: &mut Daemon<'_>, done: impl Fn(&Daemon<'_>) -> bool) {
    let deadline = Instant::now() + LONG;
    while !done(daemon) {
        for _ in 0..64 {
            daemon.turn(&mut NobodyObserves);
        }
        assert!(Instant::now() < deadline, "{} clients", daemon.clients());
        std::thread::yield_now();
    }
}
