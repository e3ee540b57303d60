//! Where UCX is to survive dead peers it must not use shared memory: a peer that is killed while it writes
//! there leaves its place in the queue unfinished, and nothing behind it is ever received.
//!
//! A file of its own, because it looks at the descriptors of the whole process.

use std::fs;
use std::time::{Duration, Instant};

use farcall_transport::{Arrival, Library, Outgoing, Presence};
use farcall_ucx::{Ucx, UcxConfig, presence};

/// The sockets of this process.
fn sockets() -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").expect("Linux lists descriptors");
    let links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn messages_within_a_machine_go_over_a_connection() {
    if let Presence::Absent { why } = presence() {
        return println!("unsupported: {why}");
    }
    let config = UcxConfig { payload_bytes_max: 1 << 20, may_sleep: false, error_handling: true };
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
