//! Faults of packets, paths and hosts, against what must come of them.

mod common;

use core::time::Duration;

use common::{Probe, fabric};
use farcall_base::Instant;
use farcall_driver::{Datagram, LaneDriver, LaneEvent, LaneFault, LaneReceiver, LaneSender, RecordKind};
use farcall_sim::{Action, Fabric, PacketFaults, Picos, Schedule, SimLaneReceiver, SimLaneSender, SimLanes};

fn act(fabric: &Fabric, action: Action) {
    fabric.act(&action).unwrap_or_else(|error| panic!("{error}"));
}

/// Sends a packet of 100 bytes each way, and says which arrived.
fn both_ways(fabric: &Fabric, one: &mut Probe, two: &mut Probe) -> [usize; 2] {
    one.send(two, 1, 100);
    one.driver.flush();
    two.send(one, 1, 100);
    two.driver.flush();
    fabric.settle();
    [two.receive().len(), one.receive().len()]
}

#[test]
fn a_partition_cuts_what_it_names_until_it_heals() {
    let fabric = fabric(&[], 3);
    let [mut a, mut b, mut c] = [0, 1, 2].map(|host| Probe::new(&fabric, host));
    assert_eq!(both_ways(&fabric, &mut a, &mut b), [1, 1]);
    act(&fabric, Action::Partition { from: vec![0], to: vec![1], one_way: true });
    assert_eq!(both_ways(&fabric, &mut a, &mut b), [0, 1]);
    assert_eq!(both_ways(&fabric, &mut a, &mut c), [1, 1]);
    act(&fabric, Action::Partition { from: vec![2], to: vec![0, 1], one_way: false });
    assert_eq!(both_ways(&fabric, &mut b, &mut c), [0, 0]);
    act(&fabric, Action::Heal);
    assert_eq!(both_ways(&fabric, &mut a, &mut b), [1, 1]);
    assert_eq!(both_ways(&fabric, &mut b, &mut c), [1, 1]);
    assert_eq!(fabric.totals().drops_partition, 3);
}

#[test]
fn a_partition_inside_a_machine_holds_too() {
    let fabric = fabric(&["topology.single-switch.servers_per_machine=2"], 2);
    let [mut a, mut b] = [0, 1].map(|host| Probe::new(&fabric, host));
    act(&fabric, Action::Partition { from: vec![0], to: vec![1], one_way: true });
    assert_eq!(both_ways(&fabric, &mut a, &mut b), [0, 1]);
}

#[test]
fn scheduled_actions_happen_at_their_time() {
    let fabric = fabric(&[], 2);
    let [mut a, mut b] = [0, 1].map(|host| Probe::new(&fabric, host));
    let cut = Action::Partition { from: vec![0], to: vec![1], one_way: false };
    let micros = |micros: u64| Instant::from_nanos(micros * 1000);
    let schedule = Schedule::new().at(micros(20), Action::Heal).at(micros(10), cut);
    fabric.set_schedule(schedule).unwrap_or_else(|error| panic!("{error}"));
    // Late enough to meet the heal, unless it came first and the partition after it.
    fabric.settle();
    assert_eq!(fabric.now(), Picos::from(micros(20)));
    assert_eq!(both_ways(&fabric, &mut a, &mut b), [1, 1]);
    let nobody = fabric.set_schedule(Schedule::new().at(micros(1), Action::Pause(vec![2])));
    assert!(nobody.is_err_and(|error| error.to_string().contains("names host 2")));
}

/// What arrives of 1000 packets of 100 bytes under faults.
fn struck(faults: PacketFaults) -> (Vec<(Option<u8>, usize)>, Fabric) {
    let fabric = fabric(&["nic.send_queue_packets=1000"], 2);
    let [mut a, mut b] = [0, 1].map(|host| Probe::new(&fabric, host));
    act(&fabric, Action::Packets(faults));
    for number in 0..1000 {
        a.send(&b, (number % 8) as u8, 100);
    }
    a.driver.flush();
    fabric.settle();
    (b.receive(), fabric)
}

#[test]
fn each_fault_does_what_it_says() {
    let none = PacketFaults::default();
    let (arrived, _) = struck(none);
    assert!(arrived.len() == 1000 && arrived.iter().all(|(_, bytes)| *bytes == 100));
    let (arrived, fabric) = struck(PacketFaults { drop: 0.3, ..none });
    assert_eq!((arrived.len() as u64 + fabric.totals().drops_fault, arrived.len() < 800), (1000, true));
    let (arrived, fabric) = struck(PacketFaults { duplicate: 0.3, ..none });
    assert_eq!((arrived.len() as u64, arrived.len() > 1200), (1000 + fabric.totals().duplicated, true));
    let (arrived, fabric) = struck(PacketFaults { truncate: 0.3, ..none });
    let short = arrived.iter().filter(|(_, bytes)| *bytes < 100).count();
    assert_eq!((arrived.len(), short as u64, short > 200), (1000, fabric.totals().truncated, true));
    let (arrived, fabric) = struck(PacketFaults { corrupt: 1.0, ..none });
    assert_eq!((arrived.len(), fabric.totals().corrupted), (1000, 1000));
}

#[test]
fn faults_towards_a_host_strike_packets_to_it_alone() {
    let fabric = fabric(&["nic.send_queue_packets=1000"], 3);
    let [mut a, mut b, mut c] = [0, 1, 2].map(|host| Probe::new(&fabric, host));
    let half = PacketFaults { drop: 0.5, ..PacketFaults::default() };
    act(&fabric, Action::Towards { hosts: vec![2], packets: half });
    for number in 0..400 {
        a.send(&b, (number % 8) as u8, 100);
        a.send(&c, (number % 8) as u8, 100);
    }
    a.driver.flush();
    fabric.settle();
    let (to_b, to_c) = (b.receive().len(), c.receive().len());
    assert_eq!((to_b, to_c as u64 + fabric.totals().drops_fault), (400, 400));
    assert!((100..300).contains(&to_c), "half of them are lost: {to_c}");
    // Those of all do not come on top.
    act(&fabric, Action::Packets(PacketFaults { drop: 1.0, ..half }));
    act(&fabric, Action::Towards { hosts: vec![2], packets: PacketFaults::default() });
    a.send(&b, 0, 100);
    a.send(&c, 0, 100);
    a.driver.flush();
    fabric.settle();
    assert_eq!((b.receive().len(), c.receive().len()), (0, 1));
}

#[test]
fn a_delay_lets_others_overtake() {
    let delay_max = Picos::from(Duration::from_micros(500));
    let (arrived, fabric) = struck(PacketFaults { delay: 0.1, delay_max, ..PacketFaults::default() });
    assert_eq!(arrived.len(), 1000);
    let in_turn = (0..1000).map(|number| Some((number % 8) as u8));
    let moved = arrived.iter().zip(in_turn).filter(|((first, _), turn)| first != turn).count();
    assert!(moved > 500 && fabric.totals().delayed > 50, "{moved} are not in their place");
    assert!(fabric.now() > Picos::from(Duration::from_micros(300)), "{:?}", fabric.now());
}

/// Two hosts and the lane between them.
struct Lane {
    fabric: Fabric,
    near: SimLanes,
    far: SimLanes,
    sender: SimLaneSender,
    receiver: SimLaneReceiver,
    offset: usize,
}

impl Lane {
    fn new(overrides: &[&str]) -> Self {
        let fabric = fabric(overrides, 2);
        let (mut near, mut far) = (fabric.host(0).lanes(), fabric.host(1).lanes());
        let lane =
            near.connect(&far.address(), b"", Duration::from_secs(1)).expect("an address of this kind");
        // Not `settle`, which would wait for the time-out that does not come.
        while far.poll_event().is_none() {
            fabric.step();
        }
        while near.poll_event().is_none() {
            fabric.step();
        }
        let (sender, _) = near.take(lane).expect("the lane is up");
        let (_, receiver) = far.take(lane).expect("both count from the same number");
        Self { fabric, near, far, sender, receiver, offset: 0 }
    }

    /// Sends a record of eight bytes.
    fn publish(&mut self, number: u64) {
        self.sender.record(self.offset, 16).copy_from_slice(&number.to_le_bytes());
        self.sender.publish(RecordKind::Conversation, self.offset, 16, self.offset + 64);
        self.offset += 64;
    }

    /// The numbers of the records that have arrived.
    fn arrived(&self) -> Vec<u64> {
        let record = |place: usize| self.receiver.peek(place * 64, 0..64).expect("a correct peer");
        (0..).map_while(|place| record(place)?.word(0)).collect()
    }
}

#[test]
fn a_partition_holds_a_lane_up_and_loses_nothing() {
    let mut lane = Lane::new(&[]);
    lane.publish(1);
    lane.fabric.settle();
    act(&lane.fabric, Action::Partition { from: vec![0], to: vec![1], one_way: false });
    (2..50).for_each(|number| lane.publish(number));
    lane.fabric.settle();
    assert_eq!(lane.arrived(), [1]);
    act(&lane.fabric, Action::Heal);
    (50..60).for_each(|number| lane.publish(number));
    lane.fabric.settle();
    assert_eq!(lane.arrived(), (1..60).collect::<Vec<_>>());
}

#[test]
fn packet_faults_do_not_touch_lanes() {
    let mut lane = Lane::new(&[]);
    let faults = PacketFaults { drop: 1.0, corrupt: 1.0, ..PacketFaults::default() };
    act(&lane.fabric, Action::Packets(faults));
    (0..100).for_each(|number| lane.publish(number));
    lane.fabric.settle();
    assert_eq!(lane.arrived(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_crash_is_noticed_after_the_time_that_detection_takes() {
    let mut lane = Lane::new(&["lanes.detection_us=300"]);
    let crashed = lane.fabric.now();
    act(&lane.fabric, Action::Crash(vec![1]));
    lane.publish(1);
    let mut event = None;
    while event.is_none() {
        lane.fabric.step();
        event = lane.near.poll_event();
    }
    assert!(matches!(event, Some(LaneEvent::Down { fault: LaneFault::PeerGone, .. })), "{event:?}");
    assert_eq!(lane.fabric.now() - crashed, Picos::from(Duration::from_micros(300)));
    assert_eq!(lane.arrived(), Vec::<u64>::new(), "what is sent to a dead host does not arrive");
    assert_eq!(lane.far.poll_event(), None, "the dead see nothing");
}

#[test]
fn a_crash_is_noticed_although_a_partition_holds_the_good_bye_up() {
    let mut lane = Lane::new(&["lanes.detection_us=300"]);
    act(&lane.fabric, Action::Partition { from: vec![1], to: vec![0], one_way: true });
    lane.far.close(farcall_driver::LaneId(1));
    lane.fabric.settle();
    assert_eq!(lane.near.poll_event(), None, "the good-bye is held up");
    act(&lane.fabric, Action::Crash(vec![1]));
    let mut event = None;
    for _ in 0..1000 {
        lane.fabric.step();
        event = event.or(lane.near.poll_event());
    }
    assert!(matches!(event, Some(LaneEvent::Down { fault: LaneFault::PeerGone, .. })), "{event:?}");
    act(&lane.fabric, Action::Heal);
    lane.fabric.settle();
    assert_eq!(lane.near.poll_event(), None, "it is lost once");
}

#[test]
fn a_call_to_a_dead_host_fails_in_time() {
    let fabric = fabric(&[], 2);
    let mut near = fabric.host(0).lanes();
    act(&fabric, Action::Crash(vec![1]));
    let called = fabric.now();
    let address = fabric.host(1).address();
    let lane = near.connect(&address, b"", Duration::from_micros(700)).expect("an address of this kind");
    fabric.settle();
    assert_eq!(near.poll_event(), Some(LaneEvent::Down { lane, fault: LaneFault::TimedOut }));
    assert!(fabric.now() - called >= Picos::from(Duration::from_micros(700)));
}

#[test]
fn a_driver_of_an_earlier_life_has_no_effect() {
    let fabric = fabric(&[], 2);
    let [mut a, mut b] = [0, 1].map(|host| Probe::new(&fabric, host));
    a.send(&b, 1, 100);
    act(&fabric, Action::Crash(vec![0]));
    a.driver.flush();
    act(&fabric, Action::Restart(vec![0]));
    a.send(&b, 2, 100);
    a.driver.flush();
    let mut reborn = Probe::new(&fabric, 0);
    reborn.send(&b, 3, 100);
    reborn.driver.flush();
    fabric.settle();
    assert_eq!(b.receive(), [(Some(3), 100)]);
    b.send(&a, 4, 100);
    b.driver.flush();
    fabric.settle();
    assert_eq!((a.receive().len(), reborn.receive().len()), (0, 1));
}

#[test]
fn a_block_travels_ahead_of_the_record_that_names_it() {
    let record_ns = |block_bytes: usize| {
        let mut lane = Lane::new(&["link.gbps=8", "link.header_bytes=0"]);
        let begun = lane.near.host().clock().now();
        if block_bytes > 0 {
            let loan = lane.near.loan(block_bytes).expect("memory");
            lane.near.lend(farcall_driver::LaneId(1), loan).expect("its own loan");
        }
        lane.publish(1);
        while lane.arrived().is_empty() {
            lane.fabric.step();
        }
        lane.fabric.now().instant().since(begun).as_nanos() as usize
    };
    let (without, with) = (record_ns(0), record_ns(150_000));
    // A byte takes a nanosecond on the link, and the last packet of 1500 is stored once before the record can
    // follow it.
    assert!((151_500..151_600).contains(&(with - without)), "{without} ns, with the block {with} ns");
}
