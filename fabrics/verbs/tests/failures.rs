//! What goes wrong on real devices: full queues, hostile peers, cables and devices that go away.

mod common;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::ends::{End, RECEIVES, connect, down, driver_on, is_listed, pair_by, run};
use common::past_a_liar;
use farcall_driver::conformance::until;
use farcall_driver::{Datagram, LaneDriver, LaneEvent, LaneFault, LaneReceiver, LaneSender, Wait};
use farcall_verbs::{
    ConnectBy, DeviceChoice, VerbsDatagram, VerbsDatagramConfig, VerbsLaneConfig, VerbsLanes,
};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Records that fit the ring of a peer that reads none.
const RECORDS_MAX: u64 = 2000;
/// The turn of one test: some take the devices away from the others.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drivers on either end of the cable, connected.
fn pair() -> (VerbsLanes, VerbsLanes, End, End) {
    pair_by(ConnectBy::Bootstrap)
}

#[test]
fn receives_are_refilled_for_ever() {
    let _alone = alone();
    let (_a, _b, mut at_a, mut at_b) = pair();
    for number in 0..65_537 {
        assert!(at_a.send(number), "one write at a time fits");
        assert_eq!(at_b.received(), number);
    }
}

#[test]
fn a_reader_that_stands_still_holds_writes_up_and_loses_none() {
    let _alone = alone();
    let (_a, _b, mut at_a, mut at_b) = pair();
    let mut sent = 0;
    while at_a.send(sent) {
        sent += 1;
        assert!(sent < 10_000, "nothing ever stops the writer");
    }
    assert!(sent > RECEIVES as u64, "more than there are receives for: {sent}");
    for number in 0..=sent {
        at_a.sender.ring_doorbell();
        assert_eq!(at_b.received(), number);
    }
    assert_eq!(at_b.receive(), Ok(None));
}

#[test]
fn receives_of_lanes_that_ended_come_back() {
    let _alone = alone();
    let (mut a, mut b) = (driver_on("rxe0", ConnectBy::Bootstrap), driver_on("rxe1", ConnectBy::Bootstrap));
    let address = b.address();
    // Each lane ends with writes that nobody looked at; together they are many times what the queue holds.
    for _ in 0..20 {
        let (mut at_a, at_b) = connect(&mut a, &mut b, &address);
        (0..RECEIVES as u64 / 2).for_each(|number| assert!(at_a.send(number)));
        a.close(at_a.lane);
        assert_eq!(
            (down(&mut a, at_a.lane), down(&mut b, at_b.lane)),
            (LaneFault::Closed, LaneFault::PeerClosed)
        );
    }
    let (mut at_a, mut at_b) = connect(&mut a, &mut b, &address);
    for number in 0..1000 {
        assert!(at_a.send(number));
        assert_eq!(at_b.received(), number);
    }
}

/// Where an answer has the key to the ring.
const KEY_AT: usize = 3 + 42;

#[test]
fn a_peer_that_reaches_for_memory_with_a_wrong_key_loses_its_lane_only() {
    let _alone = alone();
    let (mut a, mut b) = (driver_on("rxe0", ConnectBy::Bootstrap), driver_on("rxe1", ConnectBy::Bootstrap));
    let address = b.address();
    let mut honest = driver_on("rxe0", ConnectBy::Bootstrap);
    let (mut near, mut far) = connect(&mut honest, &mut b, &address);
    let (mut at_a, at_b) = connect(&mut a, &mut b, &past_a_liar(&address, KEY_AT));
    at_a.send(1);
    let seen_at_a = until("the writer learns of it", || {
        let _nothing_comes = at_a.receiver.peek(0, 0..64);
        a.poll_event()
    });
    let LaneEvent::Down { fault, .. } = seen_at_a else { panic!("{seen_at_a:?}") };
    assert!(matches!(fault, LaneFault::Fabric { .. } | LaneFault::PeerClosed), "{fault:?}");
    // Cards report it to the victim, too; Soft-RoCE leaves it to the writer's good-bye.
    let seen_at_b = down(&mut b, at_b.lane);
    assert!(matches!(seen_at_b, LaneFault::Corrupt { .. } | LaneFault::PeerClosed), "{seen_at_b:?}");
    for number in 0..1000 {
        assert!(near.send(number));
        assert_eq!(far.received(), number, "the honest lane goes on");
    }
}

#[test]
fn a_cable_that_comes_back_is_no_end() {
    let _alone = alone();
    let (mut a, _b, mut at_a, mut at_b) = pair();
    at_a.send(1);
    assert_eq!(at_b.received(), 1);
    run("ip", &["link", "set", "rdma0", "down"]);
    until("the loss is reported", || {
        assert_eq!(a.poll_event(), None);
        (a.counters().port_losses.get() > 0).then_some(())
    });
    run("ip", &["link", "set", "rdma0", "up"]);
    until("the recovery is reported", || {
        assert_eq!(a.poll_event(), None);
        (a.counters().port_recoveries.get() > 0).then_some(())
    });
    at_a.send(2);
    assert_eq!(at_b.received(), 2);
}

#[test]
fn datagrams_count_the_losses_of_their_port_while_they_are_received() {
    let _alone = alone();
    let device = DeviceChoice { device: Some("rxe0".into()), ..DeviceChoice::default() };
    let config = VerbsDatagramConfig { device, ..VerbsDatagramConfig::default() };
    let mut driver = VerbsDatagram::open(&config).expect("the virtual machine has this device");
    let mut packets = Vec::new();
    run("ip", &["link", "set", "rdma0", "down"]);
    until("the loss is counted", || {
        driver.receive(&mut packets);
        (driver.counters().port_losses.get() > 0).then_some(())
    });
    run("ip", &["link", "set", "rdma0", "up"]);
    until("so is the recovery, by one who is about to sleep", || {
        driver.prepare_wait();
        (driver.counters().port_recoveries.get() > 0).then_some(())
    });
}

/// Set in the child process that may pin little memory.
const CHILD_VARIABLE: &str = "FARCALL_TEST_LITTLE_MEMORY";
/// What it may pin.
const LOCKED_BYTES_MAX: u64 = 256 << 10;
/// A user without rights.
const NOBODY: u32 = 65_534;

#[test]
fn a_limit_on_locked_memory_is_named_with_the_bytes_needed() {
    let name = "a_limit_on_locked_memory_is_named_with_the_bytes_needed";
    if std::env::var_os(CHILD_VARIABLE).is_some() {
        let limit = Rlimit { current: Some(LOCKED_BYTES_MAX), maximum: Some(LOCKED_BYTES_MAX) };
        setrlimit(Resource::Memlock, limit).expect("any limit can be lowered");
        let config =
            VerbsLaneConfig { block_bytes: 1 << 20, huge_pages: false, ..VerbsLaneConfig::default() };
        let lanes = VerbsLanes::open(&config).expect_err("more than the limit").to_string();
        let packets = VerbsDatagram::open(&VerbsDatagramConfig { huge_pages: false, ..Default::default() });
        let packets = packets.expect_err("more than the limit").to_string();
        for error in [lanes, packets] {
            println!("{error}");
            assert!(error.contains("locked memory is limited to 262144 bytes"), "{error}");
            assert!(error.contains("ulimit -l"), "{error}");
        }
        return;
    }
    let _alone = alone();
    // Root may pin whatever it wants.
    let mut child = Command::new("/proc/self/exe");
    child.args([name, "--exact", "--nocapture"]).env(CHILD_VARIABLE, "1").uid(NOBODY).gid(NOBODY);
    let output = child.output().expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("cannot pin 1048576 bytes"), "{text}");
}

/// Soft-RoCE devices stay usable for those who use them until the last has let go; cards end their queue
/// pairs. Either way nobody hangs: records pass, or the lane ends for a reason that is told.
#[test]
fn nobody_hangs_when_a_device_is_removed() {
    let _alone = alone();
    let (mut a, mut b, mut at_a, mut at_b) = pair();
    let removal = std::thread::spawn(|| run("rdma", &["link", "delete", "rxe1"]));
    until("the device is not listed any more", || (!is_listed("rxe1")).then_some(()));
    let mut ends = Vec::new();
    for number in 0..RECORDS_MAX {
        at_a.send(number);
        let outcome = until("the record arrives, or the lane ends", || {
            ends.extend([a.poll_event(), b.poll_event()].into_iter().flatten());
            let arrived = at_b.receive().ok().flatten();
            (arrived.is_some() || !ends.is_empty()).then_some(arrived)
        });
        if !ends.is_empty() {
            break;
        }
        assert_eq!(outcome, Some(number));
    }
    assert!(ends.iter().all(|event| matches!(event, LaneEvent::Down { .. })), "{ends:?}");
    drop((b, at_b));
    if ends.is_empty() {
        assert_eq!(down(&mut a, at_a.lane), LaneFault::PeerClosed);
    }
    removal.join().expect("the device goes when nobody uses it any more");
    run("rdma", &["link", "add", "rxe1", "type", "rxe", "netdev", "rdma1"]);
    let (_a, _b, mut at_a, mut at_b) = pair();
    at_a.send(1);
    assert_eq!(at_b.received(), 1, "a new device is as good as ever");
}
