//! What an endpoint has in flight, over the providers that every machine has.

use core::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use farcall_driver::{Destination, Wait, wait_readable};
use farcall_transport::{Arrival, Library, Outgoing};

use crate::messages::receives::DISOWNED_BYTES_MAX;
use crate::messages::{Ofi, OfiConfig, frame};

const PROVIDERS: [&str; 3] = ["net", "tcp", "shm"];
/// How long a test waits for what must happen before it fails.
const PATIENCE: Duration = Duration::from_secs(20);
const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// Longer than what travels whole.
const LONG_BYTES: usize = 300_000;

fn endpoint(provider: &str, may_sleep: bool) -> Option<Ofi> {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let made = Ofi::new(&OfiConfig {
        provider: Some(provider.to_owned()),
        local: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        payload_bytes_max: PAYLOAD_BYTES_MAX,
        eager_bytes: 8 << 10,
        inject_bytes: 64,
        tx_depth: 16,
        rx_depth: 16,
        may_sleep,
        drawn: DRAWN.fetch_add(1, Ordering::Relaxed),
    });
    made.map_err(|error| println!("unsupported: {error}")).ok()
}

/// Two endpoints that are connected, and the way from the first to the second and back.
fn pair(provider: &str, may_sleep: bool) -> Option<([Ofi; 2], [Destination; 2])> {
    let mut two = [endpoint(provider, may_sleep)?, endpoint(provider, may_sleep)?];
    let addresses = [two[1].address(), two[0].address()];
    let ways = [0, 1].map(|from| two[from].resolve(&addresses[from]).expect("they reach each other"));
    for from in [0, 1] {
        two[from].send(ways[from], b"hello", Outgoing::Slice(&[]));
        work_until(&mut two, |two| {
            let hello = two[1 - from].next_arrival()?;
            assert_eq!(hello.head(), b"hello");
            two[1 - from].release(hello);
            Some(())
        });
    }
    Some((two, ways))
}

fn work(two: &mut [Ofi; 2]) {
    for endpoint in two {
        endpoint.progress();
    }
}

/// Lets both work until something is found.
fn work_until<T>(two: &mut [Ofi; 2], mut find: impl FnMut(&mut [Ofi; 2]) -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find(two) {
            return found;
        }
        assert!(Instant::now() < deadline, "nothing came within {PATIENCE:?}");
        work(two);
        std::thread::yield_now();
    }
}

#[test]
fn sends_to_peers_that_were_forgotten_do_not_count() {
    for provider in PROVIDERS {
        let Some((mut two, [way, _])) = pair(provider, false) else { continue };
        for _ in 0..100 {
            two[0].send(way, b"head", Outgoing::Slice(&[1; LONG_BYTES]));
        }
        two[0].progress();
        assert!(two[0].peers.posted() > 0, "{provider}");
        two[0].presume_dead(way);
        two[0].forget(way);
        assert_eq!(two[0].peers.posted(), 0, "{provider}");
        // Those that end after all have not counted since.
        (0..50).for_each(|_| work(&mut two));
        assert_eq!(two[0].peers.posted(), 0, "{provider}");
    }
}

/// Lets the second endpoint announce payloads of that length, and the first begin to fetch them; gives their
/// tags.
fn announce(two: &mut [Ofi; 2], back: Destination, count: u16, bytes: usize) -> Vec<u64> {
    let tags: Vec<u64> = (0..count).map(|serial| frame::payload_tag(two[1].number, serial)).collect();
    for &tag in &tags {
        let mut announcement = Vec::new();
        frame::put_announcement(&mut announcement, b"head", bytes, tag);
        two[1].send_frame(back, &mut announcement);
    }
    work_until(two, |two| (two[0].fetches.len() == tags.len()).then_some(()));
    tags
}

#[test]
fn what_a_peer_that_stood_still_had_announced_does_not_hold_up_its_next_session() {
    for provider in PROVIDERS {
        let Some((mut two, [way, back])) = pair(provider, false) else { continue };
        let tags = announce(&mut two, back, 2, LONG_BYTES);
        let [receiver, sender] = &mut two;
        receiver.presume_dead(way);
        receiver.forget(way);
        let address = sender.address();
        receiver.resolve(&address).expect("it is still there");
        // It goes on.
        for tag in tags {
            let send = sender.sends.add_payload(back, tag, Outgoing::Slice(&[1; LONG_BYTES]));
            sender.start(back, send);
        }
        sender.send(back, b"next", Outgoing::Slice(&[2; 10]));
        work_until(&mut two, |two| {
            let arrival = two[0].next_arrival()?;
            let is_next = arrival.head() == b"next";
            two[0].release(arrival);
            is_next.then_some(())
        });
        assert_eq!(two[0].next_loss(), None, "{provider}");
    }
}

#[test]
fn what_a_former_session_did_not_get_costs_the_next_one_nothing() {
    for provider in PROVIDERS {
        let Some((mut two, [way, back])) = pair(provider, false) else { continue };
        // More than is kept for those who may be dead.
        let count = DISOWNED_BYTES_MAX / PAYLOAD_BYTES_MAX + 1;
        announce(&mut two, back, count as u16, PAYLOAD_BYTES_MAX);
        let [receiver, sender] = &mut two;
        receiver.presume_dead(way);
        receiver.forget(way);
        let way = receiver.resolve(&sender.address()).expect("it is still there");
        work_until(&mut two, |two| two[0].fetches.is_empty().then_some(()));
        assert_eq!(two[0].next_loss(), None, "{provider}");
        two[0].send(way, b"next", Outgoing::Slice(&[2; 10]));
        let arrived = work_until(&mut two, |two| two[1].next_arrival());
        assert_eq!(arrived.head(), b"next", "{provider}");
    }
}

/// That of `net` stays readable with libfabric 1.17.
#[test]
fn an_endpoint_with_nothing_to_do_is_not_kept_awake_by_its_descriptor() {
    for provider in PROVIDERS {
        let Some((mut two, _)) = pair(provider, true) else { continue };
        let deadline = Instant::now() + PATIENCE;
        loop {
            work(&mut two);
            let idle = &mut two[0];
            idle.prepare_wait();
            let must_look_at = idle.next_deadline(farcall_base::Instant::ZERO);
            let is_awake = must_look_at == Some(farcall_base::Instant::ZERO)
                || wait_readable(&idle.wait_descriptors(), Duration::ZERO);
            idle.finish_wait();
            if !is_awake {
                break;
            }
            assert!(Instant::now() < deadline, "{provider}: it did not sleep within {PATIENCE:?}");
        }
    }
}

#[test]
fn an_endpoint_sleeps_although_messages_wait_for_a_peer_that_stands_still() {
    for provider in ["net", "tcp"] {
        let Some((mut two, [way, _])) = pair(provider, true) else { continue };
        let [sender, _still] = &mut two;
        for _ in 0..100 {
            sender.send(way, b"head", Outgoing::Slice(&[1; LONG_BYTES]));
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            sender.progress();
            sender.prepare_wait();
            let wakes_at = sender.next_deadline(farcall_base::Instant::ZERO);
            sender.finish_wait();
            if wakes_at.is_none() {
                break;
            }
            assert!(Instant::now() < deadline, "{provider}: it did not sleep within {PATIENCE:?}");
        }
        assert!(!sender.blocked.is_empty(), "{provider}");
        work_until(&mut two, |two| {
            while let Some(arrival) = two[1].next_arrival() {
                two[1].release(arrival);
            }
            two[0].sends.is_empty().then_some(())
        });
    }
}
