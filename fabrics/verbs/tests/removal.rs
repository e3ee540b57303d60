//! A device that is removed while rdma_cm has connections over it.
//!
//! librdmacm keeps devices open until its process ends, and the kernel removes none before. So the lanes are
//! another process's.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::ends::{down, is_listed, pair_by, run};
use farcall_driver::conformance::until;
use farcall_driver::{LaneDriver, LaneEvent, LaneFault};
use farcall_verbs::ConnectBy;

const NAME: &str = "lanes_of_rdma_cm_end_when_their_device_is_removed_and_new_ones_come_up";
/// Set in the process that has the lanes.
const CHILD_VARIABLE: &str = "FARCALL_TEST_REMOVAL";
/// What that says when records pass.
const UP: &str = "records pass";

#[test]
fn lanes_of_rdma_cm_end_when_their_device_is_removed_and_new_ones_come_up() {
    if std::env::var_os(CHILD_VARIABLE).is_some() {
        return converse_until_the_device_goes();
    }
    let mut child = Command::new("/proc/self/exe");
    child.args([NAME, "--exact", "--nocapture"]).env(CHILD_VARIABLE, "1").stdout(Stdio::piped());
    let mut child = child.spawn().expect("this program runs");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with(UP)), "the child ended early");
    let removal = std::thread::spawn(|| run("rdma", &["link", "delete", "rxe1"]));
    let said: Vec<String> = lines.collect();
    assert!(child.wait().expect("it ends").success(), "{said:#?}");
    removal.join().expect("the device goes when nobody uses it any more");
    assert!(!is_listed("rxe1"));
    run("rdma", &["link", "add", "rxe1", "type", "rxe", "netdev", "rdma1"]);
    let (_a, _b, mut at_a, mut at_b) = pair_by(ConnectBy::Cm);
    assert!(at_a.send(1));
    assert_eq!(at_b.received(), 1, "a new device is as good as ever");
}

/// The device is that of the driver which is called; the caller learns of it from the good-bye.
fn converse_until_the_device_goes() {
    let (mut a, mut b, mut at_a, mut at_b) = pair_by(ConnectBy::Cm);
    assert!(at_a.send(0));
    assert_eq!(at_b.received(), 0);
    println!("{UP}");
    let (mut end, mut number) = (None, 1);
    while end.is_none() {
        at_a.send(number);
        number += 1;
        until("the record arrives, or the lane ends", || {
            end = b.poll_event();
            (end.is_some() || at_b.receive().ok().flatten().is_some()).then_some(())
        });
    }
    let fault = LaneFault::Fabric { why: "the device failed or was removed" };
    assert_eq!(end, Some(LaneEvent::Down { lane: at_b.lane, fault }));
    assert_eq!(down(&mut a, at_a.lane), LaneFault::PeerClosed);
}
