//! Where UCX is to survive dead peers it must not use shared memory: a peer that is killed while it writes
//! there leaves its place in the queue unfinished, and nothing behind it is ever received.
//!
//! Where all is on one machine it must not listen on its networks either.
//!
//! A file of its own, because it looks at the descriptors of the whole process.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use farcall_transport::{Arrival, Library, Outgoing, Presence};
use farcall_ucx::{Reach, Ucx, UcxConfig, presence};

/// One test at a time: the other's sockets come and go.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sockets of this process.
fn sockets() -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").expect("Linux lists descriptors");
    let links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn messages_within_a_machine_go_over_a_connection() {
    let _alone = alone();
    if let Presence::Absent { why } = presence() {
        return println!("unsupported: {why}");
    }
    let config = UcxConfig {
        payload_bytes_max: 1 << 20,
        may_sleep: false,
        error_handling: true,
        reach: Reach::Loopback,
    };
    let [mut from, mut to] = [(); 2].map(|()| Ucx::new(&config).expect("a worker"));
    let listening = sockets();
    let way = from.resolve(&to.address()).expect("it is an address of UCX");
    from.send(way, b"head", Outgoing::Slice(b"payload"));
    let deadline = Instant::now() + Duration::from_secs(20);
    let arrival = loop {
        assert!(Instant::now() < deadline, "no message came");
        from.progress();
        to.progress();
        if let Some(arrival) = to.next_arrival() {
            break arrival;
        }
    };
    assert_eq!((arrival.head(), arrival.payload().as_slice()), (&b"head"[..], &b"payload"[..]));
    to.release(arrival);
    assert!(sockets() > listening, "no connection was opened");
}

/// The addresses at which this process listens by TCP over IPv4, in the kernel's notation.
fn listening() -> Vec<String> {
    const LISTEN: &str = "0A";
    let descriptors = fs::read_dir("/proc/self/fd").expect("Linux lists descriptors");
    let links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.ok()?.path()).ok());
    let own: Vec<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    let table = fs::read_to_string("/proc/net/tcp").expect("Linux lists sockets");
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[3] == LISTEN && own.contains(&format!("socket:[{}]", row[9])))
        .map(|row| row[1].to_owned())
        .collect()
}

#[test]
fn a_worker_of_this_machine_listens_on_no_network() {
    let _alone = alone();
    if let Presence::Absent { why } = presence() {
        return println!("unsupported: {why}");
    }
    if std::env::var_os("UCX_NET_DEVICES").is_some() {
        return println!("skipped: UCX_NET_DEVICES chooses the networks here");
    }
    let config = UcxConfig {
        payload_bytes_max: 1 << 20,
        may_sleep: false,
        error_handling: true,
        reach: Reach::Loopback,
    };
    let _worker = Ucx::new(&config).expect("a worker");
    // 127.0.0.0/8, whose first byte comes last.
    let elsewhere: Vec<_> = listening().into_iter().filter(|address| !address[..8].ends_with("7F")).collect();
    assert_eq!(elsewhere, [""; 0]);
}
