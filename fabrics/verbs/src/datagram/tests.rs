//! What happens to packets when their queue pair or their cable fails, on real devices.

use std::process::Command;

use farcall_driver::Datagram;
use farcall_driver::conformance::until;

use super::*;
use crate::DeviceChoice;

fn driver_on(device: &str) -> VerbsDatagram {
    let device = DeviceChoice { device: Some(device.into()), ..DeviceChoice::default() };
    let config = VerbsDatagramConfig { device, ..VerbsDatagramConfig::default() };
    VerbsDatagram::open(&config).expect("the virtual machine has this device")
}

/// Sends a packet again and again until one arrives.
fn get_through(from: &mut VerbsDatagram, to: Destination, at: &mut VerbsDatagram) {
    until("a packet arrives", || {
        // A full queue empties itself.
        let _full = from.send(to, 0, &[b"packet"]);
        from.flush();
        drain(from);
        (drain(at) > 0).then_some(())
    });
}

/// Receives and releases what is there; returns how many packets.
fn drain(driver: &mut VerbsDatagram) -> usize {
    let mut packets = Vec::new();
    driver.receive(&mut packets);
    let count = packets.len();
    packets.into_iter().for_each(|packet| driver.release(packet));
    count
}

fn break_pair(driver: &VerbsDatagram) {
    let error = sys::ibv_qp_attr { qp_state: sys::IBV_QPS_ERR, ..sys::ibv_qp_attr::default() };
    driver.pair.modify("end a queue pair", error, sys::IBV_QP_STATE).expect("any queue pair can be ended");
}

#[test]
fn a_queue_pair_that_fails_is_set_up_again_with_all_of_its_buffers() {
    let (mut a, mut b) = (driver_on("rxe0"), driver_on("rxe1"));
    let (to_b, to_a) = (a.resolve(&b.address()).expect("an address"), b.resolve(&a.address()).expect("one"));
    for _ in 0..3 {
        get_through(&mut a, to_b, &mut b);
        get_through(&mut b, to_a, &mut a);
        break_pair(&a);
    }
    get_through(&mut a, to_b, &mut b);
    get_through(&mut b, to_a, &mut a);
    assert_eq!((a.counters().restarts.get(), b.counters().restarts.get()), (3, 0));
    assert_eq!(a.receiving.buffers_out(), 0, "no buffer is lost");
    assert_eq!(a.send_room(), VerbsDatagramConfig::default().send_queue_packets, "no slot is lost");
}

#[test]
fn a_way_that_was_not_there_is_found_when_the_cable_comes_back() {
    let (mut a, mut b) = (driver_on("rxe0"), driver_on("rxe1"));
    let link = |state| {
        let status = Command::new("ip").args(["link", "set", "rdma0", state]).status();
        assert!(status.expect("ip is there").success(), "the cable goes {state}");
    };
    link("down");
    let to_b = a.resolve(&b.address()).expect("an address");
    a.send(to_b, 0, &[b"lost"]).expect("there is room");
    a.flush();
    link("up");
    get_through(&mut a, to_b, &mut b);
    assert!(a.counters().packets_unsendable.get() > 0, "without a cable there was no way");
}

#[test]
fn nothing_waits_for_a_device_that_is_gone() {
    let (mut a, b) = (driver_on("rxe0"), driver_on("rxe1"));
    let to_b = a.resolve(&b.address()).expect("an address");
    a.send(to_b, 0, &[b"too late"]).expect("there is room");
    assert!(a.is_backed_up(), "it waits for a flush");
    a.is_dead = true;
    assert!(!a.is_backed_up());
}
