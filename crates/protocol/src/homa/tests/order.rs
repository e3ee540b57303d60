//! Order: receivers, switches and senders prefer the shortest.

use core::time::Duration;

use super::rack::{LIMIT, RTT_BYTES, Rack, rules};
use crate::calls::tests::world::{ECHO, request};
use crate::calls::{Payload, Policy};
use crate::homa::HomaRules;
use crate::wire::{CallKey, Header, Opcode};

/// How much longer a message of `bytes` takes while four others send a megabyte each.
fn slowdown<P: Policy + Default>(mut rack: Rack<P>, bytes: usize) -> f64 {
    rack.world.run_for(Duration::from_millis(1));
    let alone = rack.time(5, bytes);
    (1..5).for_each(|node| {
        rack.send(node, 1 << 20);
    });
    rack.world.run_for(Duration::from_micros(500));
    rack.time(5, bytes).as_secs_f64() / alone.as_secs_f64()
}

#[test]
fn short_messages_overtake_long_ones() {
    for bytes in [100, 10_000, 50_000] {
        let homa = slowdown(Rack::homa(6, &rules()), bytes);
        let basic = slowdown(Rack::basic(6), bytes);
        println!("{bytes} bytes: {homa:.2} times their best with homa, {basic:.2} with basic");
        assert!(homa < 2.0, "{bytes} bytes took {homa} times as long as alone");
        assert!(basic > homa, "{bytes} bytes: {basic} with basic, {homa} with homa");
    }
}

#[test]
fn messages_that_begin_together_end_in_the_order_of_their_lengths() {
    let mut rack = Rack::homa(6, &HomaRules { overcommit: 1, fifo_permille: 0, ..rules() });
    let lengths = [900_000, 100_000, 500_000, 300_000, 700_000];
    for (node, bytes) in (1..).zip(lengths) {
        rack.send(node, bytes);
    }
    rack.world.run_until(LIMIT, |world| world.nodes[1..].iter().all(|node| node.finished.len() == 1));
    let mut ends: Vec<_> =
        (1..).zip(lengths).map(|(node, bytes)| (rack.world.nodes[node].finished[0].1, bytes)).collect();
    ends.sort();
    let order: Vec<usize> = ends.into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(order, [100_000, 300_000, 500_000, 700_000, 900_000]);
}

#[test]
fn a_sender_sends_its_shortest_message_first() {
    let mut rack = Rack::homa(2, &HomaRules { fifo_permille: 0, ..rules() });
    let (long, short) = (rack.send(1, 1 << 20), rack.send(1, 100_000));
    rack.world.run_until(LIMIT, |world| world.nodes[1].finished.len() == 2);
    let order: Vec<u32> = rack.world.nodes[1].finished.iter().map(|end| end.0).collect();
    assert_eq!(order, [short, long]);
}

#[test]
fn a_long_message_says_that_it_begins_before_others_go_on() {
    let mut rack = Rack::homa(2, &HomaRules { fifo_permille: 0, ..rules() });
    rack.world.run_for(Duration::from_millis(1));
    rack.world.recording = Some(Vec::new());
    let (first, second) = (rack.send(1, 16_000), rack.send(1, 16_000));
    rack.world.run_until(LIMIT, |world| world.nodes[1].finished.len() == 2);
    let sent = rack.world.recording.take().expect("it was recorded");
    let calls = sent.iter().filter_map(|(from, _, packet)| {
        let header = Header::parse(packet).ok()?;
        (*from == 1 && header.opcode == Opcode::Fragment).then_some(header.call)
    });
    let calls: Vec<CallKey> = calls.collect();
    assert!(calls[1] != calls[0], "the second one begins");
    assert!(calls[2..].is_sorted_by_key(|call| *call == calls[1]), "then the first goes on: {calls:?}");
    let order: Vec<u32> = rack.world.nodes[1].finished.iter().map(|end| end.0).collect();
    assert_eq!(order, [first, second]);
}

#[test]
fn short_messages_of_one_packet_leave_before_longer_ones() {
    let mut rack = Rack::homa(2, &rules());
    let long: Vec<u32> = (0..50).map(|_| rack.send(1, 1400)).collect();
    let short = rack.send(1, 100);
    rack.world.run_until(LIMIT, |world| world.nodes[1].finished.len() == 51);
    let place = rack.world.nodes[1].finished.iter().position(|end| end.0 == short);
    assert!(place.is_some_and(|place| place < 5), "it came at place {place:?} of {}", long.len() + 1);
}

#[test]
fn a_paced_sender_gives_the_card_no_more_than_its_backlog() {
    let mut rack = Rack::homa(2, &rules());
    rack.world.run_for(Duration::from_millis(1));
    rack.send(1, RTT_BYTES as usize);
    let packets = rack.world.packets;
    rack.world.run_for(Duration::ZERO);
    // 2 us of a 10 Gb/s link are 2500 bytes; the packet that fills them up is not cut.
    assert_eq!(rack.world.packets - packets, 2);
    assert!(
        rack.world.nodes[1]
            .calls
            .next_deadline()
            .is_some_and(|at| at.since(rack.world.now) < Duration::from_micros(3))
    );
    assert!(!rack.world.nodes[1].calls.wants_transmit(), "it waits for the time, not for a poll");
    rack.world.run_until(LIMIT, |world| world.nodes[1].finished.len() == 1);
}

#[test]
fn control_packets_are_not_held_back() {
    let mut rack = Rack::homa(2, &rules());
    rack.send(1, RTT_BYTES as usize);
    rack.world.run_for(Duration::ZERO);
    let calls = &mut rack.world.nodes[1].calls;
    assert!(!calls.wants_transmit());
    calls.close_all();
    assert!(calls.wants_transmit());
}

/// Whether a long message ends within 6 ms beside short ones of the same node that fill the link.
fn long_beside_short(fifo_permille: u16) -> bool {
    let mut rack = Rack::homa(2, &HomaRules { fifo_permille, ..rules() });
    let long = rack.send(1, 200_000);
    let (session, end) = (rack.sessions[1], rack.world.now + Duration::from_millis(6));
    let short = request(7, 1400, 8);
    while rack.world.now < end {
        let calls = &mut rack.world.nodes[1].calls;
        while calls.call(session, u32::MAX, ECHO, Payload::Slice(&short)).is_ok() {}
        rack.world.run_for(Duration::from_micros(20));
    }
    rack.world.nodes[1].completed.contains_key(&long)
}

#[test]
fn the_oldest_message_of_a_sender_progresses_under_a_stream_of_short_ones() {
    assert!(!long_beside_short(0), "without a share it starves, else this shows nothing");
    assert!(long_beside_short(100));
}
