//! What strangers do to a registry: members are served all the same.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use farcall::bootstrap::{Directory, JoinError, Rendezvous, random_incarnation};
use farcall_base::Address;

/// Generous: reached only when something hangs.
const LONG: Duration = Duration::from_secs(60);

/// Silent connections at a time, as far as descriptors go.
const SILENT: usize = 10_000;

/// One flood at a time: the descriptors are those of one process.
static TURN: Mutex<()> = Mutex::new(());

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a process may look at itself").count()
}

/// Opens connections that say nothing, keeps the last [`SILENT`] of them, until it is told to stop.
fn flood(at: SocketAddr, opened: &AtomicUsize, stop: &AtomicBool) {
    let mut silent = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        match TcpStream::connect(at) {
            Ok(stream) => silent.push_back(stream),
            // The system has no more of them.
            Err(_) => drop(silent.pop_front()),
        }
        if silent.len() > SILENT {
            silent.pop_front();
        }
        opened.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn members_join_while_ten_thousand_connections_are_silent() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let registry = Rendezvous::bind("127.0.0.1:0", 16).expect("a free port");
    let (at, before) = (registry.address(), descriptors());
    let (opened, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| flood(at, &opened, &stop));
        while opened.load(Ordering::Relaxed) < SILENT {
            std::thread::yield_now();
        }
        let members: Result<Vec<Directory>, JoinError> =
            (0..16).map(|rank| Directory::join(&at.into(), rank, 16, random_incarnation(), LONG)).collect();
        let members = members.inspect_err(|_| stop.store(true, Ordering::Relaxed)).expect("all join");
        let here = Address::new(*b"here").expect("short");
        members[15].publish("key", here.clone()).expect("room");
        let resolved = members[0].resolve(15, "key", LONG).map(|(address, _)| address);
        let held = descriptors();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(resolved, Ok(here));
        println!(
            "{} connections opened, {held} descriptors at that time, {before} before",
            opened.load(Ordering::Relaxed)
        );
        // Those of the flood, of the members, and the bounded number that the registry keeps.
        assert!(held < before + SILENT + 2000, "the registry keeps silent connections");
    });
}

/// The times of joins, sorted: one process after the other joins and leaves.
fn joins(at: SocketAddr, count: usize) -> Vec<Duration> {
    let join = |_| {
        let begun = Instant::now();
        let member =
            Directory::open(&at.into(), random_incarnation(), LONG).expect("an honest process joins");
        let time = begun.elapsed();
        drop(member);
        time
    };
    let mut times: Vec<Duration> = (0..count).map(join).collect();
    times.sort();
    times
}

/// The least that a server under such a flood can do: accepts, keeps as many of the newest connections as the
/// registry does of one address, and sends the bytes of the very newest back. Until it is told to stop and a
/// connection comes.
fn bare_server(listener: &TcpListener, stop: &AtomicBool) {
    let (mut kept, mut bytes) = (VecDeque::new(), [0; 64]);
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else { continue };
        stream.set_nonblocking(true).expect("a socket");
        kept.push_front(stream);
        kept.truncate(256);
        for mut stream in kept.iter().take(8) {
            if let Ok(length @ 1..) = stream.read(&mut bytes) {
                let _ = stream.write_all(&bytes[..length]);
            }
        }
    }
}

/// The times of exchanges with a bare server, of a connection each, sorted. One that was dropped is made
/// again, as a join is.
fn exchanges(at: SocketAddr, count: usize) -> Vec<Duration> {
    let attempt = || {
        let mut stream = TcpStream::connect(at)?;
        stream.write_all(&[7; 64])?;
        stream.read_exact(&mut [0; 64])
    };
    let exchange = |_| {
        let begun = Instant::now();
        while attempt().is_err() {}
        begun.elapsed()
    };
    let mut times: Vec<Duration> = (0..count).map(exchange).collect();
    times.sort();
    times
}

/// What an honest process measures while the flood is at `target`; how many connections the flood opened.
fn beside_flood(target: SocketAddr, honest: impl FnOnce() -> Vec<Duration>) -> (Vec<Duration>, usize) {
    let (opened, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let times = std::thread::scope(|scope| {
        scope.spawn(|| flood(target, &opened, &stop));
        while opened.load(Ordering::Relaxed) < SILENT {
            std::thread::yield_now();
        }
        let times = std::panic::catch_unwind(std::panic::AssertUnwindSafe(honest));
        stop.store(true, Ordering::Relaxed);
        times
    });
    (times.expect("an honest process is served"), opened.load(Ordering::Relaxed))
}

/// The times are printed and not judged; `scripts/floods` shows them with optimisation. Beside those of the
/// registry are two controls, with the flood at a bare server: exchanges with that one, which no server can
/// do better, and joins meanwhile at the registry that nobody floods. What strangers take of the cores is in
/// all of them.
#[test]
fn processes_join_and_leave_beside_a_flood_of_silent_connections() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let calls = std::env::var("FARCALL_TEST_FLOOD_CALLS").ok().and_then(|calls| calls.parse().ok());
    let count = calls.unwrap_or(300_usize).div_ceil(10);
    let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
    let at = registry.address();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    // As the registry does: many may come at once.
    rustix::net::listen(&listener, 4096).expect("it listens");
    let bare = listener.local_addr().expect("it is bound");
    let quiet = joins(at, count);
    let stop = AtomicBool::new(false);
    let (exchanged, joined) = std::thread::scope(|scope| {
        scope.spawn(|| bare_server(&listener, &stop));
        let exchanged = beside_flood(bare, || exchanges(bare, count));
        let joined = beside_flood(bare, || joins(at, count));
        stop.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(bare));
        (exchanged, joined)
    });
    let flooded = beside_flood(at, || joins(at, count));
    let show = |times: &[Duration]| (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!(
        "joins, silent connections: p50 and p99 {:?}, without {:?}; control, the flood at a bare server: \
         exchanges with it {:?}, joins {:?}; {}, {} and {} connections",
        show(&flooded.0),
        show(&quiet),
        show(&exchanged.0),
        show(&joined.0),
        flooded.1,
        exchanged.1,
        joined.1
    );
}

#[test]
fn a_connection_that_joins_byte_by_byte_or_never_costs_the_others_nothing() {
    let registry = Rendezvous::bind_open("127.0.0.1:0").expect("a free port");
    let at = registry.address();
    let mut slow: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(at).expect("it listens")).collect();
    for stream in &mut slow {
        stream.write_all(&[69, 0, 0, 0, 1]).expect("the first bytes are taken");
    }
    let member = Directory::open(&at.into(), random_incarnation(), LONG);
    assert!(member.is_ok(), "{member:?}");
    // They are given up in the end.
    for mut stream in slow {
        stream.set_read_timeout(Some(LONG)).expect("a limit");
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
    }
}
