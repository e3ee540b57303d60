//! Calls over a network without faults.

use core::time::Duration;

use super::Tested;
use super::world::{ECHO, HELD, World, request};
use crate::basic::{BasicConfig, CallError, Payload, ReplyTooLong};

const LIMIT: Duration = Duration::from_secs(1);

/// Makes one call and checks its answer; how many packets it took.
fn call_once<P: Tested>(world: &mut World<P>, bytes: usize, answer: u32) -> u64 {
    let (session, _) = world.connected(0, 1);
    world.run_for(Duration::from_millis(1));
    let before = world.packets;
    world.call(0, session, 5, ECHO, &request(5, bytes, answer));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&5));
    world.nodes[0].assert_answered(5, answer as usize);
    world.packets - before
}

fn a_small_call_is_two_packets<P: Tested>() {
    assert_eq!(call_once(&mut World::<P>::pair(1), 30, 100), 2);
}

fn calls_one_after_another_need_no_other_packets<P: Tested>() {
    let mut world = World::<P>::pair(2);
    let (session, _) = world.connected(0, 1);
    world.run_for(Duration::from_millis(1));
    let before = world.packets;
    for operation in 0..1000 {
        world.call(0, session, operation, ECHO, &request(operation, 30, 100));
        world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&operation));
    }
    assert_eq!(world.packets - before, 2000);
}

fn results_of_idle_callers_are_acknowledged_in_the_end<P: Tested>() {
    let mut world = World::<P>::pair(3);
    call_once(&mut world, 30, 100);
    assert!(!world.is_idle(), "the result is kept at first");
    world.run_until(LIMIT, World::is_idle);
    assert_eq!(world.nodes[0].calls.counters().acknowledges_sent, 1);
    assert_eq!(world.nodes[1].calls.counters().retransmissions, 0);
}

fn empty_messages_arrive<P: Tested>() {
    let mut world = World::<P>::pair(4);
    let (session, _) = world.connected(0, 1);
    world.call(0, session, 9, ECHO, &[]);
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&9));
    assert_eq!(world.nodes[0].completed[&9], (7, Vec::new()));
}

fn messages_at_every_seam_arrive<P: Tested>() {
    let mtu = BasicConfig::default().session.offer.mtu_bytes as usize;
    let (whole, piece, unscheduled) = (mtu - 24, mtu - 32, 64 << 10);
    for bytes in
        [whole - 1, whole, whole + 1, 2 * piece, 2 * piece + 1, unscheduled, unscheduled + 1, 300_000]
    {
        call_once(&mut World::<P>::pair(5), bytes, 10);
        call_once(&mut World::<P>::pair(5), 10, bytes as u32);
    }
}

fn messages_of_the_maximum_length_arrive<P: Tested>() {
    let max = BasicConfig::default().session.offer.message_bytes_max;
    call_once(&mut World::<P>::pair(6), max as usize, max);
}

fn long_messages_need_no_repetition_without_loss<P: Tested>() {
    let mut world = World::<P>::pair(7);
    call_once(&mut world, 1 << 20, 1 << 20);
    for node in &world.nodes {
        let counters = node.calls.counters();
        assert_eq!((counters.retransmissions, counters.resends_sent, counters.stale), (0, 0, 0));
        assert!(counters.grants_sent > 0);
    }
}

fn requests_over_the_limit_are_refused<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.offer.message_bytes_max = 1000;
    let mut world = World::<P>::new(&[BasicConfig::default(), config], 8);
    let (session, _) = world.connected(0, 1);
    let refused = world.nodes[0].calls.call(session, 1, ECHO, Payload::Slice(&[0; 1001]));
    assert_eq!(refused, Err(CallError::TooLong { bytes: 1001, bytes_max: 1000 }));
}

fn answers_over_the_limit_are_refused_and_can_be_replaced<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.offer.message_bytes_max = 1000;
    let mut world = World::<P>::new(&[config; 2], 9);
    let (session, _) = world.connected(0, 1);
    world.call(0, session, 1, HELD, &request(1, 20, 20));
    world.run_until(LIMIT, |world| !world.nodes[1].held.is_empty());
    let (session, key, _) = world.nodes[1].held.pop().expect("one is held");
    let server = &mut world.nodes[1].calls;
    let refused = server.reply(session, key, 0, Payload::Slice(&[0; 1001]));
    assert_eq!(refused, Err(ReplyTooLong { bytes: 1001, bytes_max: 1000 }));
    server.reply(session, key, 3, Payload::Slice(&[])).expect("an empty answer is short enough");
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
    assert_eq!(world.nodes[0].completed[&1].0, 3);
}

fn one_call_too_many_is_refused_until_another_completes<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.offer.calls_max = 4;
    let mut world = World::<P>::new(&[BasicConfig::default(), config], 10);
    let (session, _) = world.connected(0, 1);
    for operation in 0..4 {
        world.call(0, session, operation, HELD, &request(operation, 20, 20));
    }
    let refused = world.nodes[0].calls.call(session, 4, HELD, Payload::Slice(&[]));
    assert_eq!(refused, Err(CallError::TooMany { calls_max: 4 }));
    assert_eq!(world.nodes[0].calls.counters().calls, 4, "what was refused is no call");
    world.run_until(LIMIT, |world| world.nodes[1].held.len() == 4);
    world.release_held(1);
    world.run_until(LIMIT, |world| world.nodes[0].completed.len() == 4);
    world.call(0, session, 4, ECHO, &request(4, 20, 20));
    world.run_until(LIMIT, |world| world.nodes[0].completed.len() == 5);
}

fn calls_made_before_the_session_is_up_wait_for_it<P: Tested>() {
    let mut world = World::<P>::pair(11);
    let session = world.connect(0, 1);
    for operation in 0..256 {
        world.call(0, session, operation, ECHO, &request(operation, 30, 30));
    }
    world.run_until(LIMIT, |world| world.nodes[0].completed.len() == 256);
}

fn waiting_calls_beyond_the_peers_slots_get_their_turn<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.offer.calls_max = 3;
    let mut world = World::<P>::new(&[BasicConfig::default(), config], 12);
    let session = world.connect(0, 1);
    for operation in 0..20 {
        world.call(0, session, operation, ECHO, &request(operation, 30, 2000));
    }
    world.nodes[0].calls.cancel(session, 11);
    world.run_until(LIMIT, |world| world.nodes[0].completed.len() == 19);
    assert!(!world.nodes[0].completed.contains_key(&11));
    (0..20).filter(|operation| *operation != 11).for_each(|it| world.nodes[0].assert_answered(it, 2000));
    world.run_until(LIMIT, World::is_idle);
}

fn both_sides_call_over_one_session<P: Tested>() {
    let mut world = World::<P>::pair(13);
    let (ours, theirs) = world.connected(0, 1);
    for operation in 0..50 {
        world.call(0, ours, operation, ECHO, &request(operation, 3000, 50));
        world.call(1, theirs, 100 + operation, ECHO, &request(100 + operation, 50, 3000));
    }
    world.run_until(LIMIT, |world| world.nodes.iter().all(|node| node.completed.len() == 50));
    (0..50).for_each(|it| world.nodes[0].assert_answered(it, 50));
    (100..150).for_each(|it| world.nodes[1].assert_answered(it, 3000));
}

fn handlers_that_take_long_keep_their_callers_waiting_but_run_once<P: Tested>() {
    let mut world = World::<P>::pair(14);
    let (session, _) = world.connected(0, 1);
    world.call(0, session, 1, HELD, &request(1, 30, 30));
    world.call(0, session, 2, HELD, &request(2, 30_000, 30));
    world.run_for(Duration::from_secs(5));
    assert!(world.nodes[1].calls.counters().busy_sent > 10);
    world.release_held(1);
    world.run_until(LIMIT, |world| world.nodes[0].completed.len() == 2);
    assert_eq!(world.nodes[1].ran, [(1, 1), (2, 1)].into());
}

fn a_cancelled_call_is_not_answered_and_its_result_is_not_kept<P: Tested>() {
    let mut world = World::<P>::pair(15);
    let (session, _) = world.connected(0, 1);
    world.call(0, session, 1, HELD, &request(1, 30, 30));
    world.call(0, session, 2, HELD, &request(2, 30, 30_000));
    world.run_until(LIMIT, |world| world.nodes[1].held.len() == 2);
    world.nodes[0].calls.cancel(session, 1);
    world.nodes[0].calls.cancel(session, 2);
    world.release_held(1);
    world.run_until(LIMIT, World::is_idle);
    assert!(world.nodes[0].completed.is_empty());
}

fn a_long_request_cancelled_on_its_way_is_forgotten_by_both<P: Tested>() {
    let mut world = World::<P>::pair(16);
    let (session, _) = world.connected(0, 1);
    world.call(0, session, 1, ECHO, &request(1, 4 << 20, 30));
    world.run_for(Duration::from_micros(50));
    world.nodes[0].calls.cancel(session, 1);
    world.run_until(LIMIT, World::is_idle);
    assert!(world.nodes[1].ran.is_empty());
    world.call(0, session, 2, ECHO, &request(2, 30, 30));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&2));
}

fn a_slot_used_again_before_its_cancelled_call_left_sends_the_new_call<P: Tested>() {
    let mut world = World::<P>::pair(17);
    let (session, _) = world.connected(0, 1);
    for (first, second) in [(30, 30_000), (30_000, 30)] {
        world.nodes[0].completed.clear();
        let retransmissions = world.nodes[0].calls.counters().retransmissions;
        world.call(0, session, 1, ECHO, &request(1, first, 30));
        world.nodes[0].calls.cancel(session, 1);
        world.call(0, session, 2, ECHO, &request(2, second, 30));
        world.run_until(Duration::from_millis(1), |world| world.nodes[0].completed.contains_key(&2));
        assert_eq!(world.nodes[0].calls.counters().retransmissions, retransmissions);
    }
    assert!(!world.nodes[1].ran.contains_key(&1));
}

for_every_protocol!(
    a_small_call_is_two_packets,
    calls_one_after_another_need_no_other_packets,
    results_of_idle_callers_are_acknowledged_in_the_end,
    empty_messages_arrive,
    messages_at_every_seam_arrive,
    messages_of_the_maximum_length_arrive,
    long_messages_need_no_repetition_without_loss,
    requests_over_the_limit_are_refused,
    answers_over_the_limit_are_refused_and_can_be_replaced,
    one_call_too_many_is_refused_until_another_completes,
    calls_made_before_the_session_is_up_wait_for_it,
    waiting_calls_beyond_the_peers_slots_get_their_turn,
    both_sides_call_over_one_session,
    handlers_that_take_long_keep_their_callers_waiting_but_run_once,
    a_cancelled_call_is_not_answered_and_its_result_is_not_kept,
    a_long_request_cancelled_on_its_way_is_forgotten_by_both,
    a_slot_used_again_before_its_cancelled_call_left_sends_the_new_call
);
