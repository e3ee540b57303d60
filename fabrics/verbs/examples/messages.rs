//! Messages of 100 bytes from one driver to another in one thread, for `scripts/bench-verbs-instructions` to
//! count what they cost: `messages lane COUNT` and `messages datagram COUNT` send this many with each
//! doorbell; without a count they look for messages and find none.

use std::hint::black_box;
use std::time::Duration;

use farcall_driver::{
    Datagram, Destination, LaneDriver, LaneEvent, LaneId, LaneReceiver, LaneSender, Packet, RecordKind,
};
use farcall_verbs::{
    VerbsDatagram, VerbsDatagramConfig, VerbsLaneConfig, VerbsLanes, VerbsReceiver, VerbsSender,
};

/// Messages, or looks, of each kind; also the divisor of what is counted.
const MESSAGES: usize = 64_000;
const MESSAGE: [u8; 100] = [7; 100];
/// Bytes of a record with such a message, and from one to the next.
const RECORD_BYTES: usize = 108;
const STRIDE_BYTES: usize = 128;

fn event(driver: &mut VerbsLanes) -> LaneEvent {
    loop {
        if let Some(event) = driver.poll_event() {
            return event;
        }
        std::thread::yield_now();
    }
}

fn end(driver: &mut VerbsLanes) -> LaneId {
    match event(driver) {
        LaneEvent::Connected { lane, .. } | LaneEvent::Accepted { lane, .. } => lane,
        LaneEvent::Down { fault, .. } => panic!("{fault:?}"),
    }
}

/// Places in the ring: where the next record is written and read.
struct Lane {
    sender: VerbsSender,
    receiver: VerbsReceiver,
    offset: usize,
}

#[inline(never)]
fn lane_messages(lane: &mut Lane, doorbells: usize, records: usize) {
    let ring_bytes = lane.sender.ring_bytes();
    for _ in 0..doorbells {
        let mut offset = lane.offset;
        for _ in 0..records {
            let next = (offset + STRIDE_BYTES) % ring_bytes;
            lane.sender.record(offset, RECORD_BYTES).copy_from_slice(&MESSAGE);
            lane.sender.publish(RecordKind::Conversation, offset, RECORD_BYTES, next);
            offset = next;
        }
        assert!(lane.sender.ring_doorbell());
        for _ in 0..records {
            let record =
                lane.receiver.peek(lane.offset, 0..64).expect("a correct peer").expect("it is there");
            black_box(record.word(0));
            lane.offset = (lane.offset + STRIDE_BYTES) % ring_bytes;
        }
    }
}

#[inline(never)]
fn lane_looks(lane: &Lane) {
    for _ in 0..MESSAGES {
        assert!(lane.receiver.peek(lane.offset, 0..64).expect("a correct peer").is_none());
    }
}

#[inline(never)]
fn datagram_messages(
    from: &mut VerbsDatagram,
    to: Destination,
    at: &mut VerbsDatagram,
    packets: &mut Vec<Packet>,
    bursts: usize,
    burst: usize,
) {
    for _ in 0..bursts {
        for _ in 0..burst {
            from.send(to, 0, &[&MESSAGE]).expect("there is room");
        }
        from.flush();
        assert_eq!(at.receive(packets), burst);
        for packet in packets.drain(..) {
            black_box(packet[0]);
            at.release(packet);
        }
    }
}

#[inline(never)]
fn datagram_looks(at: &mut VerbsDatagram, packets: &mut Vec<Packet>) {
    for _ in 0..MESSAGES {
        assert_eq!(at.receive(packets), 0);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().expect("lane or datagram");
    let count = arguments.next().map(|count| count.parse().expect("messages for each doorbell"));
    match kind.as_str() {
        "lane" => over_lanes(count),
        "datagram" => over_datagrams(count),
        other => panic!("nothing is known about {other}"),
    }
    println!("{MESSAGES}");
}

fn over_lanes(count: Option<usize>) {
    let config = VerbsLaneConfig { block_bytes: 1 << 16, ..VerbsLaneConfig::default() };
    let open = || VerbsLanes::open(&config).expect("an RDMA device");
    let (mut a, mut b) = (open(), open());
    a.connect(&b.address(), b"", Duration::from_secs(60)).expect("an address");
    let (at_b, at_a) = (end(&mut b), end(&mut a));
    let (sender, _) = a.take(at_a).expect("it is up");
    let (_, receiver) = b.take(at_b).expect("it is up");
    let mut lane = Lane { sender, receiver, offset: 0 };
    match count {
        Some(count) => lane_messages(&mut lane, MESSAGES / count, count),
        None => lane_looks(&lane),
    }
}

fn over_datagrams(count: Option<usize>) {
    let open = || VerbsDatagram::open(&VerbsDatagramConfig::default()).expect("an RDMA device");
    let (mut a, mut b) = (open(), open());
    let to = a.resolve(&b.address()).expect("an address");
    let mut packets = Vec::with_capacity(64);
    match count {
        Some(count) => datagram_messages(&mut a, to, &mut b, &mut packets, MESSAGES / count, count),
        None => datagram_looks(&mut b, &mut packets),
    }
}
