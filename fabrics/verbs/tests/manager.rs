//! What goes wrong when rdma_cm is to connect queue pairs, on a real device.

mod common;

use std::net::Ipv4Addr;
use std::time::Duration;

use common::{at_ip, past_a_liar, past_a_mortal};
use farcall_base::Address;
use farcall_driver::conformance::until;
use farcall_driver::{LaneDriver, LaneEvent, LaneFault, LaneId};
use farcall_verbs::{CmReach, ConnectBy, VerbsLaneConfig, VerbsLanes, devices, rdma_cm_reach};

const WITHIN: Duration = Duration::from_secs(60);
/// Where an answer has its queue pair, and the port where its rdma_cm listens.
const PAIR_AT: usize = 3 + 26;
const MANAGER_PORT_AT: usize = 3 + 74;
/// The last byte of where that is, which is the last of an answer without a welcome.
const MANAGER_IP_END_AT: usize = 3 + 91;
/// An address of the cable's network that nobody has, and one that no way leads to.
const NOBODYS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 91);
const NOWHERE: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);

fn driver(connect_by: ConnectBy) -> VerbsLanes {
    let config = VerbsLaneConfig { connect_by, block_bytes: 1 << 18, ..VerbsLaneConfig::default() };
    VerbsLanes::open(&config).expect("an RDMA device")
}

/// Why a call of that address leads to no lane.
fn refusal(driver: &mut VerbsLanes, address: &Address) -> LaneFault {
    let called = driver.connect(address, b"", WITHIN).expect("an address of this kind");
    match until("the call ends", || driver.poll_event()) {
        LaneEvent::Down { lane, fault } if lane == called => fault,
        other => panic!("instead of a refusal: {other:?}"),
    }
}

/// Opens a lane, closes it, and returns the bytes that are pinned then.
fn pinned_after_a_lane(a: &mut VerbsLanes, b: &mut VerbsLanes) -> u64 {
    let called = a.connect(&b.address(), b"", WITHIN).expect("an address of this kind");
    let event = until("somebody calls", || b.poll_event());
    let LaneEvent::Accepted { lane, .. } = event else { panic!("instead of a caller: {event:?}") };
    assert!(matches!(until("the call is answered", || a.poll_event()), LaneEvent::Connected { .. }));
    a.close(called);
    let down = |driver: &mut VerbsLanes, lane: LaneId| {
        let event = until("the lane is closed", || driver.poll_event());
        assert!(matches!(event, LaneEvent::Down { lane: down, .. } if down == lane), "{event:?}");
    };
    down(a, called);
    down(b, lane);
    // Whatever the lanes had goes as soon as the drivers' threads come to it.
    let next = a.connect(&a.address(), b"", WITHIN).expect("an address of this kind");
    for _ in 0..2 {
        let event = until("a driver reaches itself", || a.poll_event());
        assert!(matches!(event, LaneEvent::Connected { .. } | LaneEvent::Accepted { .. }), "{event:?}");
    }
    let pinned = a.counters().pinned_bytes.get();
    a.close(next);
    for _ in 0..2 {
        until("both ends of it are closed", || a.poll_event());
    }
    pinned
}

#[test]
fn both_sides_must_connect_alike() {
    let (mut a, mut b) = (driver(ConnectBy::Cm), driver(ConnectBy::Bootstrap));
    let (to_a, to_b) = (a.address(), b.address());
    for fault in [refusal(&mut a, &to_b), refusal(&mut b, &to_a)] {
        let LaneFault::Unacceptable { why } = fault else { panic!("{fault:?}") };
        assert!(why.ends_with("only one of the two connects by rdma_cm; set verbs.connect alike"), "{why}");
    }
}

#[test]
fn a_place_where_no_rdma_cm_listens_is_nobody() {
    let (mut a, b) = (driver(ConnectBy::Cm), driver(ConnectBy::Cm));
    assert_eq!(refusal(&mut a, &past_a_liar(&b.address(), MANAGER_PORT_AT)), LaneFault::NotThere);
}

#[test]
fn a_driver_that_has_gone_is_nobody() {
    let (mut a, b) = (driver(ConnectBy::Cm), driver(ConnectBy::Cm));
    let address = b.address();
    drop(b);
    assert_eq!(refusal(&mut a, &address), LaneFault::NotThere);
}

#[test]
fn a_host_that_nobody_reaches_is_reported_with_the_systems_reason() {
    let (mut a, b) = (driver(ConnectBy::Cm), driver(ConnectBy::Cm));
    for ip in [NOBODYS, NOWHERE] {
        let LaneFault::Unacceptable { why } = refusal(&mut a, &at_ip(&b.address(), ip)) else {
            panic!("another reason")
        };
        assert!(why.contains("unreachable") || why.contains("No route to host"), "{ip}: {why}");
    }
}

/// The last byte alone leads to an address of the same network that nobody has; with the one before it no way
/// leads there.
#[test]
fn an_rdma_cm_that_nobody_reaches_is_reported_as_such() {
    let (mut a, b) = (driver(ConnectBy::Cm), driver(ConnectBy::Cm));
    for damage_at in [MANAGER_IP_END_AT, MANAGER_IP_END_AT - 1] {
        let LaneFault::Unacceptable { why } = refusal(&mut a, &past_a_liar(&b.address(), damage_at)) else {
            panic!("another reason")
        };
        assert!(why.contains("rdma_cm"), "{why}");
        println!("{why}");
    }
}

#[test]
fn a_request_for_a_lane_that_was_not_agreed_on_is_rejected() {
    let (mut a, mut b) = (driver(ConnectBy::Cm), driver(ConnectBy::Cm));
    let LaneFault::Unacceptable { why } = refusal(&mut a, &past_a_liar(&b.address(), PAIR_AT)) else {
        panic!("another reason")
    };
    assert_eq!(why, "its rdma_cm rejected us");
    assert_eq!(b.poll_event(), None, "nobody came");
}

#[test]
fn a_peer_that_dies_while_rdma_cm_connects_leaves_nothing() {
    let (mut a, mut b) = (driver(ConnectBy::Cm), driver(ConnectBy::Cm));
    let before = until("everything has settled", || {
        let pinned = pinned_after_a_lane(&mut a, &mut b);
        (pinned == pinned_after_a_lane(&mut a, &mut b)).then_some(pinned)
    });
    for _ in 0..20 {
        assert_eq!(refusal(&mut a, &past_a_mortal(&b.address())), LaneFault::PeerGone);
        assert_eq!(b.poll_event(), None, "a lane that never came up is not reported to the called side");
    }
    until("no memory stays pinned", || (pinned_after_a_lane(&mut a, &mut b) == before).then_some(()));
}

#[test]
fn the_inventory_says_how_rdma_cm_reaches_a_device() {
    for device in devices().expect("the virtual machine has some") {
        let reach = rdma_cm_reach(&device.name, device.ports[0].number);
        assert!(matches!(reach, CmReach::By(address) if address.is_ipv4()), "{}: {reach:?}", device.name);
    }
}
