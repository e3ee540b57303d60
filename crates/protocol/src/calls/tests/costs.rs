//! What a peer may make the other end hold and do: kept results, parts of messages, ticks.

use core::time::Duration;

use super::Tested;
use super::world::{ECHO, World, request};
use crate::basic::BasicConfig;
use crate::session::{Link, SessionId};
use crate::wire::{CallKey, Flags, HEADER_BYTES, Head, Opcode, put_fragment, put_whole};

const LIMIT: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(2);

/// The attacker's node, the one that it attacks, and an honest one.
const HOSTILE: usize = 0;
const TARGET: usize = 1;
const HONEST: usize = 2;

/// A session of the attacker's, whose own protocol knows nothing of what is sent in it.
fn abused<P: Tested>(world: &mut World<P>) -> (SessionId, Link) {
    let (session, _) = world.connected(HOSTILE, TARGET);
    (session, *world.nodes[HOSTILE].calls.link(session).expect("it is up"))
}

/// A request that the attacker never acknowledges the result of.
fn make_it_keep<P: Tested>(world: &mut World<P>, link: &Link, slot: u16, answer_bytes: u32) {
    let payload = request(u32::from(slot), 30, answer_bytes);
    let mut head = Head::new();
    let flags = Flags::FROM_CALLER.with(Flags::CHECKSUM);
    put_whole(&mut head, flags, link.remote, CallKey::new(slot, 1 << 40), ECHO);
    head.seal(&payload);
    let packet = [head.as_bytes(), &payload].concat();
    world.inject(HOSTILE, TARGET, &packet);
}

fn ticks_look_only_at_slots_that_wait<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.offer.calls_max = 2000;
    let mut world = World::<P>::new(&[config; 2], 70);
    let (session, link) = abused(&mut world);
    for operation in 0..1000 {
        world.call(HOSTILE, session, operation, ECHO, &request(operation, 30, 30));
    }
    world.run_until(LIMIT, |world| world.nodes[HOSTILE].completed.len() == 1000 && world.is_idle());
    make_it_keep(&mut world, &link, 7, 30);
    world.run_for(TICK);
    let before = *world.nodes[TARGET].calls.counters();
    world.run_for(100 * TICK);
    let after = world.nodes[TARGET].calls.counters();
    let (ticks, slots) = (after.ticks - before.ticks, after.slots_ticked - before.slots_ticked);
    assert!((90..=101).contains(&ticks) && slots == ticks, "{slots} slots in {ticks} ticks");
}

fn a_session_that_holds_nothing_costs_no_ticks<P: Tested>() {
    let mut world = World::<P>::pair(71);
    let (session, _) = abused(&mut world);
    world.call(HOSTILE, session, 1, ECHO, &request(1, 30, 30));
    world.run_until(LIMIT, |world| world.nodes[HOSTILE].completed.len() == 1 && world.is_idle());
    world.run_for(2 * TICK);
    let before = world.nodes[TARGET].calls.counters().ticks;
    world.run_for(LIMIT);
    // Pings keep the session alive; each may find that nothing waits.
    assert!(world.nodes[TARGET].calls.counters().ticks - before <= 8);
}

fn a_silent_peer_is_not_reminded_and_one_that_speaks_no_more_than_it_says<P: Tested>() {
    let mut world = World::<P>::pair(72);
    let (_, link) = abused(&mut world);
    (0..64).for_each(|slot| make_it_keep(&mut world, &link, slot, 1000));
    world.run_for(2 * TICK);
    world.recording = Some(Vec::new());
    // All that it hears are answers to its own pings.
    world.run_for(20 * Duration::from_secs(1));
    let packets = world.recording.take().expect("it was recording");
    let bytes_from = |node: usize| -> usize {
        packets.iter().filter(|(from, ..)| *from == node).map(|(_, _, packet)| packet.len()).sum()
    };
    assert!(bytes_from(TARGET) <= 2 * bytes_from(HOSTILE) + HEADER_BYTES, "asked, and answered");
    world.cut.insert((HOSTILE, TARGET));
    world.run_for(TICK);
    world.recording = Some(Vec::new());
    world.run_for(Duration::from_millis(900));
    let packets = world.recording.take().expect("it was recording");
    let of_messages = packets.iter().filter(|(from, _, packet)| *from == TARGET && packet[4] >= 16);
    assert!(of_messages.count() <= 1, "a silent peer is sent nothing");
}

fn results_that_nobody_wants_are_dropped_in_the_end<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.keep_time = Duration::from_millis(100);
    let mut world = World::<P>::new(&[config; 2], 73);
    let (session, link) = abused(&mut world);
    (10..20).for_each(|slot| make_it_keep(&mut world, &link, slot, 10_000));
    world.run_for(Duration::from_millis(20));
    let held = world.nodes[TARGET].calls.held_bytes();
    assert!(held >= 100_000 && !world.is_idle());
    world.run_for(Duration::from_millis(200));
    assert!(world.is_idle(), "the results are gone");
    assert_eq!(world.nodes[TARGET].calls.counters().results_abandoned, 10);
    // The session is none the worse, and nothing runs twice: the request is known.
    make_it_keep(&mut world, &link, 13, 10_000);
    world.call(HOSTILE, session, 77, ECHO, &request(77, 30, 30));
    world.run_until(LIMIT, |world| world.nodes[HOSTILE].completed.contains_key(&77));
}

fn a_request_of_which_the_rest_does_not_come_is_dropped_and_can_come_again<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.keep_time = Duration::from_millis(100);
    let mut world = World::<P>::new(&[config; 2], 74);
    let (_, link) = abused(&mut world);
    let before = world.nodes[TARGET].calls.held_bytes();
    let fragment = vec![0; link.agreed.mtu_bytes as usize - 32];
    let mut head = Head::new();
    let flags = Flags::FROM_CALLER.with(Flags::CHECKSUM);
    put_fragment(&mut head, flags, link.remote, CallKey::new(0, 1 << 40), ECHO, (5 << 20, 0));
    head.seal(&fragment);
    let packet = [head.as_bytes(), &fragment].concat();
    world.inject(HOSTILE, TARGET, &packet);
    world.run_for(TICK);
    assert!(world.nodes[TARGET].calls.held_bytes() > before + (5 << 20));
    world.run_for(Duration::from_millis(300));
    assert_eq!(world.nodes[TARGET].calls.counters().requests_abandoned, 1);
    assert!(world.nodes[TARGET].calls.held_bytes() < before + 1000 && world.is_idle());
    world.inject(HOSTILE, TARGET, &packet);
    world.run_for(TICK);
    assert!(world.nodes[TARGET].calls.held_bytes() > before + (5 << 20));
}

fn requests_that_wait_for_grants_are_dropped_together_when_nobody_asks_for_them<P: Tested>() {
    const REQUESTS: u16 = 40;
    let mut config = BasicConfig::default();
    config.session.keep_time = Duration::from_millis(100);
    let mut world = World::<P>::new(&[config; 2], 78);
    let (_, link) = abused(&mut world);
    let before = world.nodes[TARGET].calls.held_bytes();
    let fragment_bytes = link.agreed.mtu_bytes - 32;
    let fragment = vec![0; fragment_bytes as usize];
    for slot in 0..REQUESTS {
        // All that may come unasked: only a few of them can be granted more at a time.
        for offset in (0..link.agreed.unscheduled_bytes).step_by(fragment_bytes as usize) {
            let mut head = Head::new();
            let flags = Flags::FROM_CALLER.with(Flags::CHECKSUM);
            put_fragment(&mut head, flags, link.remote, CallKey::new(slot, 1 << 40), ECHO, (1 << 20, offset));
            head.seal(&fragment);
            world.inject(HOSTILE, TARGET, &[head.as_bytes(), &fragment].concat());
        }
    }
    world.run_for(TICK);
    assert!(world.nodes[TARGET].calls.held_bytes() > before + (usize::from(REQUESTS) << 20));
    world.run_for(Duration::from_millis(190));
    let counters = world.nodes[TARGET].calls.counters();
    assert_eq!(counters.requests_abandoned, u64::from(REQUESTS), "{counters:?}");
    // The slots stay.
    assert!(world.nodes[TARGET].calls.held_bytes() < before + 1000 * usize::from(REQUESTS));
}

fn a_peer_at_its_limit_has_to_wait_and_no_other_has<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.session_bytes_max = 300_000;
    config.session.keep_time = Duration::from_millis(500);
    let mut world = World::<P>::new(&[config; 3], 75);
    let (_, link) = abused(&mut world);
    let (honest, _) = world.connected(HONEST, TARGET);
    (0..200).for_each(|slot| make_it_keep(&mut world, &link, slot, 10_000));
    world.run_for(5 * TICK);
    let target = &world.nodes[TARGET];
    // The last result may be over the limit.
    assert!(target.calls.held_bytes() <= 310_000, "{} bytes", target.calls.held_bytes());
    assert!(target.calls.counters().requests_refused >= 160 && target.keys.len() <= 35);
    for operation in 0..50 {
        world.call(HONEST, honest, operation, ECHO, &request(operation, 30, 5000));
    }
    world.run_until(LIMIT, |world| world.nodes[HONEST].completed.len() == 50);
    // Once what was held is gone, the peer is served like any other.
    world.run_for(LIMIT);
    make_it_keep(&mut world, &link, 199, 10_000);
    world.run_for(TICK);
    assert_eq!(world.nodes[TARGET].ran.get(&199), Some(&1));
}

fn memory_for_results_is_stored_only_while_its_peer_holds_little<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.session_bytes_max = 400_000;
    let mut world = World::<P>::new(&[config; 2], 76);
    let (session, _) = abused(&mut world);
    // More than the limit in all, but never at a time: no call waits for ever.
    for round in 0..20_u32 {
        for call in 0..10 {
            let operation = round * 10 + call;
            world.call(HOSTILE, session, operation, ECHO, &request(operation, 30, 60_000));
        }
        let done = (round as usize + 1) * 10;
        world.run_until(LIMIT, |world| world.nodes[HOSTILE].completed.len() == done);
        assert!(world.nodes[TARGET].calls.held_bytes() <= 460_000);
    }
    world.run_until(LIMIT, World::is_idle);
    assert!(world.nodes[TARGET].calls.held_bytes() <= 300_000, "spare memory");
}

fn a_piece_beyond_what_was_granted_takes_no_memory<P: Tested>() {
    let mut world = World::<P>::pair(77);
    let (_, link) = abused(&mut world);
    let fragment_bytes = link.agreed.mtu_bytes - 32;
    let fragment = vec![0; fragment_bytes as usize];
    let last = (link.agreed.unscheduled_bytes / fragment_bytes + 1) * fragment_bytes;
    let mut head = Head::new();
    let flags = Flags::FROM_CALLER.with(Flags::CHECKSUM);
    put_fragment(&mut head, flags, link.remote, CallKey::new(0, 1 << 40), ECHO, (8 << 20, last));
    head.seal(&fragment);
    world.inject(HOSTILE, TARGET, &[head.as_bytes(), &fragment].concat());
    world.run_for(TICK);
    assert_eq!(world.nodes[TARGET].calls.counters().malformed, 1);
    assert_eq!(head.as_bytes()[4], Opcode::Fragment as u8);
}

for_every_protocol!(
    ticks_look_only_at_slots_that_wait,
    a_session_that_holds_nothing_costs_no_ticks,
    a_silent_peer_is_not_reminded_and_one_that_speaks_no_more_than_it_says,
    results_that_nobody_wants_are_dropped_in_the_end,
    a_request_of_which_the_rest_does_not_come_is_dropped_and_can_come_again,
    requests_that_wait_for_grants_are_dropped_together_when_nobody_asks_for_them,
    a_peer_at_its_limit_has_to_wait_and_no_other_has,
    memory_for_results_is_stored_only_while_its_peer_holds_little,
    a_piece_beyond_what_was_granted_takes_no_memory,
);
