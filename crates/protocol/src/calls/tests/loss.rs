//! Single losses, duplicates and late packets, one at a time.

use core::time::Duration;

use super::Tested;
use super::world::{ECHO, HELD, NarrowPort, World, request};
use crate::basic::BasicConfig;
use crate::session::{PeerAddress, SessionId};
use crate::wire::{CallKey, Flags, Head, Header, Opcode, put_resend};

const LIMIT: Duration = Duration::from_secs(1);

/// Loses the first `count` packets of `opcode` that `node` sends.
fn lose<P: Tested>(world: &mut World<P>, node: usize, opcode: Opcode, mut count: u32) {
    world.filter = Box::new(move |from, packet| {
        let matches = from == node && Header::parse(packet).is_ok_and(|header| header.opcode == opcode);
        let lost = matches && count > 0;
        count -= u32::from(lost);
        !lost
    });
}

/// A pair in which one kind of packet is lost, and a call that must complete all the same.
fn call_through<P: Tested>(node: usize, opcode: Opcode, count: u32, bytes: usize, answer: u32) -> World<P> {
    let mut world = World::<P>::pair(20);
    let (session, _) = world.connected(0, 1);
    world.run_for(Duration::from_millis(1));
    lose(&mut world, node, opcode, count);
    world.call(0, session, 1, ECHO, &request(1, bytes, answer));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
    world.nodes[0].assert_answered(1, answer as usize);
    assert_eq!(world.nodes[1].ran, [(1, 1)].into());
    world.run_until(LIMIT, World::is_idle);
    world
}

/// Bursts of node 0 overflow a port that has room for four packets, of which each is 280th of the message.
fn through_a_narrow_port<P: Tested>(caller: usize, bytes: usize, answer: u32) {
    let mut world = World::<P>::pair(30);
    let (session, _) = world.connected(caller, 1 - caller);
    world.narrow = Some(NarrowPort { nanos_per_packet: 2_000, packets_max: 4, free_at: 0 });
    world.call(caller, session, 1, ECHO, &request(1, bytes, answer));
    // It was 60 to 100 ticks when each question asked for everything.
    world.run_until(30 * BasicConfig::default().resend_interval, |world| {
        world.nodes[caller].completed.contains_key(&1)
    });
    world.nodes[caller].assert_answered(1, answer as usize);
    let again = world.nodes[0].calls.counters().retransmissions;
    assert!((50..400).contains(&again), "{again} pieces were sent again");
}

fn a_long_request_gets_through_a_port_with_room_for_few_packets<P: Tested>() {
    through_a_narrow_port::<P>(0, 400_000, 30);
}

fn a_long_response_gets_through_a_port_with_room_for_few_packets<P: Tested>() {
    through_a_narrow_port::<P>(1, 30, 400_000);
}

/// With other messages on their way a round says little of the path.
fn many_long_requests_get_through_a_port_with_room_for_few_packets<P: Tested>() {
    const REQUESTS: u32 = 24;
    let mut world = World::<P>::pair(31);
    let (session, _) = world.connected(0, 1);
    world.narrow = Some(NarrowPort { nanos_per_packet: 2_000, packets_max: 4, free_at: 0 });
    (0..REQUESTS).for_each(|number| world.call(0, session, number, ECHO, &request(number, 60_000, 30)));
    world.run_until(300 * BasicConfig::default().resend_interval, |world| {
        world.nodes[0].completed.len() == REQUESTS as usize
    });
}

fn a_lost_request_is_sent_again<P: Tested>() {
    let world = call_through::<P>(0, Opcode::Whole, 3, 30, 30);
    assert_eq!(world.nodes[0].calls.counters().retransmissions, 3);
}

fn a_question_that_brings_the_request_is_answered_while_that_runs<P: Tested>() {
    let mut world = World::<P>::pair(29);
    let (session, _) = world.connected(0, 1);
    lose(&mut world, 0, Opcode::Whole, 1);
    world.call(0, session, 1, HELD, &request(1, 30, 30));
    world.run_until(LIMIT, |world| world.nodes[1].ran.contains_key(&1));
    world.run_for(Duration::from_millis(1));
    assert_eq!(world.nodes[0].calls.counters().retransmissions, 1);
    assert_eq!(world.nodes[1].calls.counters().busy_sent, 1);
}

fn a_question_that_brings_a_request_which_is_answered_at_once_gets_the_answer_alone<P: Tested>() {
    let world = call_through::<P>(0, Opcode::Whole, 1, 30, 30);
    assert_eq!(world.nodes[1].calls.counters().busy_sent, 0);
}

fn a_lost_response_is_sent_again_and_the_request_does_not_run_again<P: Tested>() {
    let world = call_through::<P>(1, Opcode::Whole, 3, 30, 30);
    assert_eq!(world.nodes[1].calls.counters().retransmissions, 3);
}

fn a_long_request_lost_as_a_whole_starts_over<P: Tested>() {
    let world = call_through::<P>(0, Opcode::Fragment, 5, 5 * 1440, 30);
    assert_eq!(world.nodes[1].calls.counters().restarts_sent, 1);
}

fn lost_pieces_of_a_request_are_asked_for<P: Tested>() {
    let world = call_through::<P>(0, Opcode::Fragment, 3, 20_000, 30);
    assert_eq!(world.nodes[0].calls.counters().retransmissions, 3);
    assert_eq!(world.nodes[1].calls.counters().resends_sent, 1);
}

fn the_last_piece_of_a_request_may_be_lost<P: Tested>() {
    let mut world = World::<P>::pair(21);
    let (session, _) = world.connected(0, 1);
    let mut lost = false;
    world.filter = Box::new(move |_, packet| {
        let is_last = packet.len() > 32 && packet[4] == 21 && packet[28..32] == 18_720_u32.to_le_bytes();
        let lose = is_last && !lost;
        lost |= lose;
        !lose
    });
    world.call(0, session, 1, ECHO, &request(1, 18_721, 30));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
}

fn a_long_response_lost_as_a_whole_is_sent_again<P: Tested>() {
    call_through::<P>(1, Opcode::Fragment, 7, 30, 7 * 1440);
}

fn lost_grants_are_made_good<P: Tested>() {
    call_through::<P>(1, Opcode::Grant, 4, 500_000, 30);
    call_through::<P>(0, Opcode::Grant, 4, 30, 500_000);
}

fn lost_questions_are_asked_again<P: Tested>() {
    let mut world = World::<P>::pair(22);
    let (session, _) = world.connected(0, 1);
    let (mut pieces, mut questions) = (2, 3);
    world.filter = Box::new(move |_, packet| {
        let left = match packet[4] {
            21 => &mut pieces,
            24 => &mut questions,
            _ => return true,
        };
        let lose = *left > 0;
        *left -= i32::from(lose);
        !lose
    });
    world.call(0, session, 1, ECHO, &request(1, 20_000, 30_000));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
}

fn lost_acknowledgements_are_made_good<P: Tested>() {
    let world = call_through::<P>(0, Opcode::Acknowledge, 2, 30, 30);
    assert!(world.nodes[0].calls.counters().acknowledges_sent >= 3);
}

/// Every packet of a completed call, from each side.
fn recorded_call<P: Tested>(
    world: &mut World<P>,
    session: SessionId,
    bytes: usize,
) -> Vec<(usize, usize, Vec<u8>)> {
    world.recording = Some(Vec::new());
    world.call(0, session, 1, ECHO, &request(1, bytes, bytes as u32));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
    world.recording.take().expect("it was recording")
}

fn a_request_that_comes_again_does_not_run_again_at_any_later_time<P: Tested>() {
    for bytes in [30, 20_000] {
        let mut world = World::<P>::pair(23);
        let (session, _) = world.connected(0, 1);
        let packets = recorded_call(&mut world, session, bytes);
        let replay = |world: &mut World<P>| {
            packets.iter().for_each(|(from, to, packet)| world.inject(*from, *to, packet));
            world.run_for(Duration::from_millis(1));
            assert_eq!(world.nodes[1].ran[&1], 1);
            assert!(!world.nodes[0].completed_twice);
        };
        replay(&mut world); // while the result is kept
        world.run_until(LIMIT, World::is_idle);
        replay(&mut world); // after it was acknowledged and freed
        world.call(0, session, 2, ECHO, &request(2, 30, 30));
        world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&2));
        replay(&mut world); // after the slot was used again
        world.run_until(LIMIT, World::is_idle);
    }
}

fn duplicates_by_the_network_are_not_answered<P: Tested>() {
    let mut world = World::<P>::pair(24);
    let (session, _) = world.connected(0, 1);
    world.run_for(Duration::from_millis(1));
    world.faults.duplicated = 1000;
    let before = world.packets;
    world.call(0, session, 1, HELD, &request(1, 30, 30));
    world.run_until(LIMIT, |world| world.nodes[1].held.len() == 1);
    world.release_held(1);
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
    world.run_for(Duration::from_micros(100));
    let acknowledges = world.nodes[0].calls.counters().acknowledges_sent;
    assert_eq!(world.packets - before, 2 + acknowledges);
}

fn altered_packets_are_dropped_and_counted<P: Tested>() {
    let mut world = World::<P>::pair(25);
    let (session, _) = world.connected(0, 1);
    let packets = recorded_call(&mut world, session, 30);
    world.run_until(LIMIT, World::is_idle);
    let (from, to, original) = &packets[0];
    let errors_before = errors(&world);
    for bit in 0..8 * original.len() {
        let mut altered = original.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        world.inject(*from, *to, &altered);
    }
    world.run_for(Duration::from_millis(1));
    assert_eq!(errors(&world) - errors_before, 8 * original.len() as u64);
    assert!(world.nodes.iter().all(|node| node.downs.is_empty()));
    assert_eq!(world.nodes[1].ran.len(), 1);
}

fn errors<P: Tested>(world: &World<P>) -> u64 {
    let calls = &world.nodes[1].calls;
    let sessions = calls.sessions().counters();
    calls.counters().malformed
        + sessions.malformed
        + sessions.checksum_errors
        + sessions.unknown_sessions
        + calls.counters().stale
}

fn retransmissions_say_so<P: Tested>() {
    let mut world = World::<P>::pair(26);
    let (session, _) = world.connected(0, 1);
    world.recording = Some(Vec::new());
    lose(&mut world, 0, Opcode::Whole, 1);
    world.call(0, session, 1, ECHO, &request(1, 30, 30));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
    let requests = world.recording.take().expect("it was recording").into_iter().filter(|it| it.0 == 0);
    let flags = requests.filter_map(|it| Header::parse(&it.2).ok()).filter(|it| it.opcode == Opcode::Whole);
    let repeated: Vec<bool> = flags.map(|header| header.flags.has(Flags::RETRANSMISSION)).collect();
    assert_eq!(repeated, [false, true]);
}

fn a_short_request_starts_over_whole_although_its_slot_waited_with_a_long_one<P: Tested>() {
    let mut world = World::<P>::pair(28);
    let (session, there) = world.connected(0, 1);
    world.call(0, session, 1, ECHO, &request(1, 30_000, 30));
    world.nodes[0].calls.cancel(session, 1);
    world.call(0, session, 2, ECHO, &request(2, 30, 30));
    let number = world.nodes[1].calls.link(there).expect("it is up").remote;
    let (now, mut head, caller) = (world.now, Head::new(), &mut world.nodes[0].calls);
    let first = caller.poll_transmit(now, &mut head).map(|packet| packet.head.to_vec());
    let key = Header::parse(&first.expect("the short request is due")).expect("our own").call;
    assert_eq!(key, CallKey::new(0, 2));
    put_resend(&mut head, Flags::CHECKSUM.with(Flags::RESTART), number, key, [(0, 30)]);
    head.seal(&[]);
    let restart = head.as_bytes().to_vec();
    caller.handle(PeerAddress(1), &restart, now);
    let mut sent = Vec::new();
    while let Some(packet) = caller.poll_transmit(now, &mut head) {
        sent.push(Header::parse(packet.head).expect("our own").opcode);
    }
    assert_eq!(sent, [Opcode::Whole]);
}

fn a_result_is_let_go_even_when_the_slots_next_call_was_cancelled_unseen<P: Tested>() {
    let mut world = World::<P>::pair(27);
    let (session, _) = world.connected(0, 1);
    world.call(0, session, 1, ECHO, &request(1, 30, 30));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
    world.cut.insert((0, 1));
    world.call(0, session, 2, ECHO, &request(2, 30, 30));
    world.nodes[0].calls.cancel(session, 2);
    world.run_for(Duration::from_millis(20));
    world.cut.clear();
    assert!(!world.is_idle());
    world.run_until(LIMIT, World::is_idle);
}

for_every_protocol!(
    a_lost_request_is_sent_again,
    a_long_request_gets_through_a_port_with_room_for_few_packets,
    a_long_response_gets_through_a_port_with_room_for_few_packets,
    many_long_requests_get_through_a_port_with_room_for_few_packets,
    a_question_that_brings_the_request_is_answered_while_that_runs,
    a_question_that_brings_a_request_which_is_answered_at_once_gets_the_answer_alone,
    a_lost_response_is_sent_again_and_the_request_does_not_run_again,
    a_long_request_lost_as_a_whole_starts_over,
    lost_pieces_of_a_request_are_asked_for,
    the_last_piece_of_a_request_may_be_lost,
    a_long_response_lost_as_a_whole_is_sent_again,
    lost_grants_are_made_good,
    lost_questions_are_asked_again,
    lost_acknowledgements_are_made_good,
    a_request_that_comes_again_does_not_run_again_at_any_later_time,
    duplicates_by_the_network_are_not_answered,
    altered_packets_are_dropped_and_counted,
    retransmissions_say_so,
    a_short_request_starts_over_whole_although_its_slot_waited_with_a_long_one,
    a_result_is_let_go_even_when_the_slots_next_call_was_cancelled_unseen
);
