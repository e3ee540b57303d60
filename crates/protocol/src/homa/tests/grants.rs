//! Grants: which message gets how much.

use core::time::Duration;

use super::rack::{LIMIT, RTT_BYTES, Rack, rules};
use crate::calls::tests::world::World;
use crate::homa::{HomaPolicy, HomaRules};
use crate::wire::{Header, Opcode, u32_at};

const SENDERS: usize = 40;

fn policy(world: &World<HomaPolicy>) -> &HomaPolicy {
    world.nodes[0].calls.policy()
}

#[test]
fn an_incast_is_granted_no_more_than_the_overcommitment() {
    let rules = rules();
    let mut rack = Rack::homa(SENDERS + 1, &rules);
    (1..=SENDERS).for_each(|node| {
        rack.send(node, 200_000);
    });
    let window = RTT_BYTES + RTT_BYTES / 4;
    // First come what needs no grant, then what was granted, and the share of the oldest.
    let unscheduled_max = SENDERS as u64 * u64::from(RTT_BYTES);
    let scheduled_max = u64::from(rules.overcommit) * u64::from(window) + u64::from(window);
    let (mut seen_max, mut scheduled_only) = (0, false);
    rack.world.run_until(LIMIT, |world| {
        let outstanding = policy(world).outstanding_bytes();
        scheduled_only |= outstanding > 0 && world.nodes[0].calls.counters().grants_sent > 1000;
        let bound = if scheduled_only { scheduled_max } else { unscheduled_max.max(scheduled_max) };
        assert!(outstanding <= bound, "{outstanding} bytes are granted, {bound} may be");
        seen_max = seen_max.max(outstanding);
        world.nodes[1..].iter().all(|node| node.finished.len() == 1)
    });
    assert!(scheduled_only && seen_max > u64::from(RTT_BYTES));
    let queued = rack.world.links.as_ref().expect("there are links").queued_bytes_max as u64;
    let headers = unscheduled_max / 40;
    assert!(queued <= unscheduled_max + scheduled_max + headers, "{queued} bytes waited at the switch");
    assert!(rack.world.nodes.iter().all(|node| node.calls.counters().retransmissions == 0));
}

#[test]
fn senders_of_equal_messages_get_equal_shares() {
    let mut rack = Rack::homa(SENDERS + 1, &rules());
    let done = |world: &World<HomaPolicy>| {
        world.nodes[1..].iter().map(|node| node.finished.len()).sum::<usize>() >= 20 * SENDERS
    };
    rack.keep_sending(1..SENDERS + 1, 50_000, done);
    let counts: Vec<usize> = rack.world.nodes[1..].iter().map(|node| node.finished.len()).collect();
    assert!(counts.iter().all(|count| (18..=22).contains(count)), "{counts:?}");
}

/// How long a megabyte takes while `stuck` shorter messages of another sender do not come after their first
/// bytes.
fn beside_a_stuck_sender(stuck: usize, overcommit: u16) -> Duration {
    let mut rack = Rack::homa(3, &HomaRules { overcommit, fifo_permille: 0, ..rules() });
    rack.world.run_for(Duration::from_millis(1));
    rack.world.filter = Box::new(|from, packet| {
        let piece = Header::parse(packet).is_ok_and(|header| header.opcode == Opcode::Fragment);
        from != 1 || !piece || u32_at(packet, 28).is_ok_and(|offset| offset < RTT_BYTES)
    });
    (0..stuck).for_each(|_| {
        rack.send(1, 100_000);
    });
    rack.world.run_for(Duration::from_micros(200));
    rack.time(2, 1 << 20)
}

#[test]
fn overcommitment_keeps_the_link_busy_beside_a_sender_that_does_not_send() {
    let alone = Rack::homa(2, &rules()).time(1, 1 << 20);
    let (with_one, with_two) = (beside_a_stuck_sender(1, 1), beside_a_stuck_sender(1, 2));
    println!("alone {alone:?}, overcommitment 1 {with_one:?}, 2 {with_two:?}");
    assert!(with_two < alone * 5 / 4, "{with_two:?} is much more than {alone:?}");
    assert!(with_one > alone * 2, "with a single place the stuck message was in nobody's way: {with_one:?}");
}

#[test]
fn many_messages_of_one_sender_take_one_place() {
    let alone = Rack::homa(2, &rules()).time(1, 1 << 20);
    let beside_many = beside_a_stuck_sender(5, 2);
    assert!(beside_many < alone * 5 / 4, "{beside_many:?} is much more than {alone:?}");
}

#[test]
fn a_sender_that_is_stuck_gives_its_place_back_and_can_go_on() {
    let mut rack = Rack::homa(3, &HomaRules { overcommit: 1, ..rules() });
    rack.world.cut.insert((1, 0));
    let stuck = rack.send(1, 100_000);
    rack.world.run_for(Duration::from_micros(100));
    rack.world.cut.clear();
    rack.time(2, 1 << 20);
    rack.world.run_until(LIMIT, |world| world.nodes[1].completed.contains_key(&stuck));
}

/// Whether a long message ends within 25 ms beside a stream of shorter ones that fills the link.
fn long_beside_shorter(fifo_permille: u16) -> bool {
    let mut rack = Rack::homa(4, &HomaRules { overcommit: 1, fifo_permille, ..rules() });
    let long = rack.send(1, 1 << 20);
    let end = rack.world.now + Duration::from_millis(25);
    rack.keep_sending(2..4, 60_000, |world| world.now >= end);
    rack.world.nodes[1].completed.contains_key(&long)
}

#[test]
fn the_oldest_message_progresses_under_a_stream_of_shorter_ones() {
    assert!(!long_beside_shorter(0), "without a share it starves, else this shows nothing");
    assert!(long_beside_shorter(50));
}

#[test]
fn nothing_is_kept_of_messages_that_are_over() {
    let mut rack = Rack::homa(5, &rules());
    for node in 1..5 {
        (1..20).for_each(|at| {
            rack.send(node, at * 10_000);
        });
    }
    rack.world.run_for(Duration::from_micros(300));
    let session = rack.sessions[1];
    (0..10).for_each(|operation| rack.world.nodes[1].calls.cancel(session, operation));
    rack.world.nodes[2].calls.close_all();
    rack.world.run_until(LIMIT, World::is_idle);
    assert_eq!(policy(&rack.world).outstanding_bytes(), 0);
    assert!(!policy(&rack.world).any_arrives());
}

#[test]
fn a_single_priority_is_enough() {
    let mut rack = Rack::homa(5, &HomaRules { priorities: 1, ..rules() });
    rack.keep_sending(1..5, 60_000, |world| world.nodes[1].finished.len() >= 20);
    let priorities: Vec<u8> = rack.world.sent_bytes.keys().map(|(_, priority)| *priority).collect();
    assert!(priorities.iter().all(|priority| [0, 7].contains(priority)), "{priorities:?}");
    assert_eq!(rack.world.nodes[0].calls.counters().cutoffs_sent, 0);
}

#[test]
fn answers_are_granted_like_requests() {
    let mut rack = Rack::homa(3, &rules());
    for node in 1..3 {
        let session = rack.sessions[node];
        let request = crate::calls::tests::world::request(1, 8, 500_000);
        rack.world.call(node, session, 1, crate::calls::tests::world::ECHO, &request);
    }
    rack.world.run_until(LIMIT, |world| world.nodes[1..].iter().all(|node| node.finished.len() == 1));
    rack.world.nodes[1].assert_answered(1, 500_000);
    assert!(rack.world.nodes[1].calls.counters().grants_sent > 10);
}
