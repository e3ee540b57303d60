//! Drivers on either end of the virtual machine's cable, and records between them.

use std::process::Command;
use std::time::Duration;

use farcall_base::Address;
use farcall_driver::conformance::until;
use farcall_driver::{LaneDriver, LaneEvent, LaneFault, LaneId, LaneReceiver, LaneSender, RecordKind};
use farcall_verbs::{
    ConnectBy, DeviceChoice, VerbsLaneConfig, VerbsLanes, VerbsReceiver, VerbsSender, devices,
};

const WITHIN: Duration = Duration::from_secs(60);
const LINE_BYTES: usize = 64;
const RECORD_BYTES: usize = 16;
/// Receives of a driver, all of its lanes together.
pub const RECEIVES: usize = 64;

pub fn driver_on(device: &str, connect_by: ConnectBy) -> VerbsLanes {
    let device = DeviceChoice { device: Some(device.into()), ..DeviceChoice::default() };
    let (block_bytes, receives) = (1 << 18, RECEIVES);
    let config = VerbsLaneConfig { device, connect_by, block_bytes, receives, ..VerbsLaneConfig::default() };
    VerbsLanes::open(&config).expect("the virtual machine has this device")
}

fn next_event(driver: &mut VerbsLanes) -> LaneEvent {
    until("something happens to a connection", || driver.poll_event())
}

/// A lane's ends, and the offset of the next record.
pub struct End {
    pub lane: LaneId,
    pub sender: VerbsSender,
    pub receiver: VerbsReceiver,
    write_at: usize,
    read_at: usize,
}

impl End {
    fn of(driver: &mut VerbsLanes, lane: LaneId) -> Self {
        let (sender, receiver) = driver.take(lane).expect("a lane that is up");
        Self { lane, sender, receiver, write_at: 0, read_at: 0 }
    }

    /// Publishes a record; false when the doorbell must be rung again.
    pub fn send(&mut self, number: u64) -> bool {
        let next = (self.write_at + LINE_BYTES) % self.sender.ring_bytes();
        self.sender.record(self.write_at, RECORD_BYTES).copy_from_slice(&number.to_le_bytes());
        self.sender.publish(RecordKind::Conversation, self.write_at, RECORD_BYTES, next);
        self.write_at = next;
        self.sender.ring_doorbell()
    }

    /// The next record, if it is there.
    pub fn receive(&mut self) -> Result<Option<u64>, LaneFault> {
        let number = self.receiver.peek(self.read_at, 0..64)?.and_then(|record| record.word(0));
        if number.is_some() {
            self.read_at = (self.read_at + LINE_BYTES) % self.sender.ring_bytes();
        }
        Ok(number)
    }

    pub fn received(&mut self) -> u64 {
        until("a record arrives", || self.receive().expect("a correct peer"))
    }
}

/// Connects `a` to `b`, at the address given.
pub fn connect(a: &mut VerbsLanes, b: &mut VerbsLanes, address: &Address) -> (End, End) {
    let called = a.connect(address, b"", WITHIN).expect("an address of this kind");
    let LaneEvent::Accepted { lane: accepted, .. } = next_event(b) else { panic!("no caller") };
    assert!(matches!(next_event(a), LaneEvent::Connected { lane, .. } if lane == called));
    (End::of(a, called), End::of(b, accepted))
}

/// Drivers on either end of the cable, connected.
pub fn pair_by(connect_by: ConnectBy) -> (VerbsLanes, VerbsLanes, End, End) {
    let (mut a, mut b) = (driver_on("rxe0", connect_by), driver_on("rxe1", connect_by));
    let address = b.address();
    let (at_a, at_b) = connect(&mut a, &mut b, &address);
    (a, b, at_a, at_b)
}

pub fn down(driver: &mut VerbsLanes, lane: LaneId) -> LaneFault {
    match next_event(driver) {
        LaneEvent::Down { lane: down, fault } if down == lane => fault,
        other => panic!("instead of the end of {lane:?}: {other:?}"),
    }
}

pub fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().expect("the program is there");
    assert!(status.success(), "{program} {arguments:?}");
}

pub fn is_listed(name: &str) -> bool {
    devices().unwrap_or_default().iter().any(|device| device.name == name)
}
