//! A way of an endpoint over several transports that breaks while calls are in flight. The only test of its
//! process, whose descriptors it looks at.

mod common;

use std::collections::BTreeSet;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::counters::sum_of;
use common::{LONG, Pair, settings};
use farcall::{CallError, DownReason, Event, Service, TransportKind};
use rustix::net::{AddressFamily, Shutdown, SocketAddrAny, getpeername, getsockname, shutdown};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

const ECHO: Service = Service(1);

/// The connected Unix sockets of this process that were not there before: the lanes over shared memory.
fn lanes(before: &BTreeSet<RawFd>) -> Vec<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).expect("this process");
    let others = open_descriptors().into_iter().filter(|number| !before.contains(number));
    let copies = others.filter_map(|number| pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok());
    let is_unix = |address: SocketAddrAny| address.address_family() == AddressFamily::UNIX;
    copies.filter(|copy| getsockname(copy).is_ok_and(is_unix) && getpeername(copy).is_ok()).collect()
}

fn open_descriptors() -> BTreeSet<RawFd> {
    let open = std::fs::read_dir("/proc/self/fd").expect("proc is mounted");
    open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Makes the shared memory of both ends unusable.
fn break_lanes(before: &BTreeSet<RawFd>) {
    let lanes = lanes(before);
    assert!(!lanes.is_empty(), "there is a lane");
    for lane in &lanes {
        // The other end of one that was shut down may be gone already.
        let _ = shutdown(lane, Shutdown::Both);
    }
}

#[test]
fn a_way_that_breaks_is_replaced_and_no_call_runs_twice() {
    let before = open_descriptors();
    let ran = Arc::new(Mutex::new(Vec::<u64>::new()));
    let seen = Arc::clone(&ran);
    let pair = Pair::new(TransportKind::AUTO, settings(&[]), move |endpoint| {
        endpoint.serve(ECHO, move |request, reply| {
            let number = u64::from_le_bytes(request.payload().try_into().expect("eight bytes"));
            seen.lock().expect("no panic").push(number);
            reply.send(request.payload());
        });
    });
    let (mut answered, mut moved) = (BTreeSet::new(), 0);
    let (mut sent, mut ended) = (0_u64, 0_u64);
    let deadline = Instant::now() + LONG;
    // Calls go on until enough were answered over the second way.
    let (mut answered_since, mut is_broken) = (0, false);
    while answered_since < 1000 || ended < sent {
        assert!(Instant::now() < deadline, "{answered_since} calls behind the break, {} open", sent - ended);
        while answered_since < 1000 && sent - ended < 16 {
            let call = pair.client.call(pair.server, ECHO, &sent.to_le_bytes()[..]).post(sent);
            call.expect("the session lasts");
            sent += 1;
        }
        pair.client.poll(|_, event| match event {
            Event::Completed { token, outcome } => {
                ended += 1;
                match outcome {
                    Ok(_) => {
                        assert!(answered.insert(token), "{token} was answered twice");
                        answered_since += u64::from(moved > 0);
                    }
                    Err(CallError::PeerDown(DownReason::Moved)) => moved += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
            event => panic!("{event:?}"),
        });
        if answered.len() >= 500 && !is_broken {
            assert_eq!(pair.client.way(pair.server).map(|taken| taken.way), Some("ring+shm"));
            break_lanes(&before);
            is_broken = true;
        }
    }
    let taken = pair.client.way(pair.server).expect("it has a way");
    assert_eq!(taken.way, "basic+udp");
    assert!(taken.not_taken[0].why.starts_with("it broke: "), "{taken:?}");
    let ran = ran.lock().expect("no panic");
    let once: BTreeSet<_> = ran.iter().collect();
    assert_eq!(once.len(), ran.len(), "none ran twice");
    assert!(moved > 0 && moved <= 16, "{moved} were in flight");
    assert_eq!(sum_of("auto#", "moved"), 1);
}
