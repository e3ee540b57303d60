//! Paths that drop long packets without a word.

use core::time::Duration;

use farcall_base::{ClusterKey, Entropy};

use super::Tested;
use super::world::{ECHO, Faults, World, request};
use crate::keys::Keyring;
use crate::session::{PeerAddress, SessionCounters, SessionId};
use crate::wire::{CallKey, Flags, Head, Header, Opcode, Part, put_part};

/// A good part of a second, where a call without loss takes some microseconds.
const LIMIT: Duration = Duration::from_millis(500);

/// From now on longer packets than these are lost, whoever sends them.
fn carry<P: Tested>(world: &mut World<P>, bytes_max: usize) {
    world.filter = Box::new(move |_, packet| packet.len() <= bytes_max);
}

fn call<P: Tested>(world: &mut World<P>, session: SessionId, operation: u32, bytes: usize, answer: u32) {
    world.call(0, session, operation, ECHO, &request(operation, bytes, answer));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&operation));
    world.nodes[0].assert_answered(operation, answer as usize);
    assert_eq!(world.nodes[1].ran.get(&operation), Some(&1));
}

fn counters<P: Tested>(world: &World<P>, node: usize) -> SessionCounters {
    *world.nodes[node].calls.sessions().counters()
}

fn messages_of_any_length_pass<P: Tested>(keyed: bool) {
    for bytes_max in [1471, 1400, 1280, 600, 256] {
        let mut world = World::<P>::pair(40);
        for node in 0..if keyed { 2 } else { 0 } {
            let ring = Keyring::new(vec![ClusterKey::new([7; 32])]).expect("one key");
            world.nodes[node].calls.sessions_mut().set_keys(ring, Entropy::repeatable(40 + node as u64));
        }
        carry(&mut world, bytes_max);
        let (session, _) = world.connected(0, 1);
        for (operation, bytes) in [30, 1430, 20_000, 200_000].into_iter().enumerate() {
            call(&mut world, session, 2 * operation as u32, bytes, 30);
            call(&mut world, session, 2 * operation as u32 + 1, 30, bytes as u32);
        }
        for node in 0..2 {
            let counters = counters(&world, node);
            assert_eq!(counters.paths_shortened, 1, "{bytes_max}: {counters:?}");
            assert!(counters.parts_sent > 0 && counters.parts_received > 0, "{counters:?}");
            assert!(world.nodes[node].calls.sessions().shortest_path_bytes() <= bytes_max as u32);
        }
        world.run_until(LIMIT, World::is_idle);
    }
}

fn a_path_that_drops_long_packets_works_with_shorter_ones<P: Tested>() {
    messages_of_any_length_pass::<P>(false);
}

fn sealed_packets_pass_a_short_path_too<P: Tested>() {
    messages_of_any_length_pass::<P>(true);
}

fn a_path_that_becomes_short_and_long_again_is_found_out<P: Tested>() {
    let mut world = World::<P>::pair(41);
    let (session, _) = world.connected(0, 1);
    call(&mut world, session, 1, 100_000, 100_000);
    assert_eq!(counters(&world, 0).path_probes, 0);
    world.call(0, session, 2, ECHO, &request(2, 1_000_000, 30));
    world.run_for(Duration::from_micros(50));
    carry(&mut world, 1400);
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&2));
    assert_eq!(world.nodes[0].calls.sessions().shortest_path_bytes(), 1372);
    // It becomes shorter still.
    world.run_for(Duration::from_secs(1));
    carry(&mut world, 700);
    call(&mut world, session, 5, 100_000, 30);
    assert_eq!(world.nodes[0].calls.sessions().shortest_path_bytes(), 548);
    world.filter = Box::new(|_, _| true);
    world.run_for(Duration::from_secs(31));
    // This one still leaves in parts, and puts the matter to the test.
    call(&mut world, session, 3, 1430, 30);
    world.run_for(Duration::from_millis(20));
    assert_eq!(world.nodes[0].calls.sessions().shortest_path_bytes(), 0);
    let before = counters(&world, 0).parts_sent;
    call(&mut world, session, 4, 100_000, 30);
    assert_eq!(counters(&world, 0).parts_sent, before);
}

fn packets_that_are_lost_by_chance_shorten_no_path<P: Tested>() {
    for seed in 0..10 {
        let mut world = World::<P>::pair(seed);
        let (session, _) = world.connected(0, 1);
        world.faults =
            Faults { lost: 50, duplicated: 20, delayed: 100, delay_nanos_max: 50_000, ..Faults::default() };
        for operation in 0..20 {
            call(&mut world, session, operation, 20_000, 20_000);
        }
        for node in 0..2 {
            assert_eq!(counters(&world, node).paths_shortened, 0, "seed {seed}");
        }
    }
}

fn loss_on_a_short_path_costs_nothing_but_time<P: Tested>() {
    for seed in 0..5 {
        let mut world = World::<P>::pair(seed);
        let (session, _) = world.connected(0, 1);
        let mut lots = super::world::Random(seed);
        world.filter = Box::new(move |_, packet| packet.len() <= 1300 && lots.below(20) > 0);
        for operation in 0..10 {
            world.call(0, session, operation, ECHO, &request(operation, 20_000, 20_000));
        }
        world.run_until(4 * LIMIT, |world| world.nodes[0].completed.len() == 10);
        assert!(world.nodes[1].ran.values().all(|times| *times == 1), "seed {seed}");
    }
}

/// As a peer of a former version: it drops what it does not know.
fn a_peer_that_knows_no_probes_is_sent_no_parts<P: Tested>() {
    let mut world = World::<P>::pair(42);
    let (session, _) = world.connected(0, 1);
    world.filter = Box::new(|_, packet| {
        let known = Header::parse(packet).is_ok_and(|header| header.opcode != Opcode::Probe);
        known && packet.len() <= 1400
    });
    world.call(0, session, 1, ECHO, &request(1, 20_000, 30));
    world.run_for(LIMIT);
    assert_eq!(counters(&world, 0).parts_sent, 0);
    call(&mut world, session, 2, 30, 30);
}

fn parts_of_strangers_and_impossible_ones_change_nothing<P: Tested>() {
    let mut world = World::<P>::pair(43);
    world.recording = Some(Vec::new());
    let (session, _) = world.connected(0, 1);
    call(&mut world, session, 1, 30, 30);
    let recording = world.recording.take().expect("packets are recorded");
    let whole = |(from, _, packet): &&(usize, usize, Vec<u8>)| {
        *from == 0 && Header::parse(packet).is_ok_and(|header| header.opcode == Opcode::Whole)
    };
    let request = recording.iter().find(whole).expect("there was a request").2.clone();
    let number = Header::parse(&request).expect("it was sent").session;
    let part = |total, count, index, bytes: &[u8]| {
        let mut head = Head::new();
        put_part(&mut head, number, &Part { number: 9, total, count, index, bytes });
        [head.as_bytes(), bytes].concat()
    };
    let half = request.len().div_ceil(2);
    let total = request.len() as u32;
    // More parts than there may be, an index beyond them, a length that does not fit, a packet that is too
    // long.
    for packet in [
        part(total, 129, 0, &request[..1]),
        part(total, 1, 0, &request),
        part(total, 2, 2, &request[..half]),
        part(total, 2, 0, &request[..half - 1]),
        part(3000, 2, 0, &[0; 1500]),
        part(0, 2, 0, &[]),
    ] {
        world.inject(0, 1, &packet);
    }
    world.run_for(Duration::from_millis(1));
    assert_eq!(counters(&world, 1).malformed, 6);
    // From elsewhere.
    world.nodes[1].calls.handle(PeerAddress(9), &part(total, 2, 0, &request[..half]), world.now);
    world.nodes[1].calls.handle(PeerAddress(9), &part(total, 2, 1, &request[half..]), world.now);
    assert_eq!(counters(&world, 1).parts_received, 0);
    // Of a session itself: nothing but messages travels in parts.
    let mut close = Head::new();
    close.start(&Header {
        opcode: Opcode::Ping,
        flags: Flags::CHECKSUM,
        session: number,
        call: CallKey::NONE,
    });
    close.seal(&[]);
    let ping = close.as_bytes().to_vec();
    let half_ping = ping.len().div_ceil(2);
    world.inject(0, 1, &part(ping.len() as u32, 2, 0, &ping[..half_ping]));
    world.inject(0, 1, &part(ping.len() as u32, 2, 1, &ping[half_ping..]));
    world.run_for(Duration::from_millis(1));
    assert_eq!(world.nodes[1].calls.counters().malformed, 1);
    // The request once more, in parts, in another order and twice: it does not run again.
    for (index, bytes) in [(1, &request[half..]), (1, &request[half..]), (0, &request[..half])] {
        let mut head = Head::new();
        put_part(&mut head, number, &Part { number: 10, total, count: 2, index, bytes });
        world.inject(0, 1, &[head.as_bytes(), bytes].concat());
    }
    world.run_for(Duration::from_millis(1));
    assert_eq!(world.nodes[1].ran, [(1, 1)].into());
    call(&mut world, session, 2, 20_000, 20_000);
}

for_every_protocol! {
    a_path_that_drops_long_packets_works_with_shorter_ones,
    sealed_packets_pass_a_short_path_too,
    a_path_that_becomes_short_and_long_again_is_found_out,
    packets_that_are_lost_by_chance_shorten_no_path,
    loss_on_a_short_path_costs_nothing_but_time,
    a_peer_that_knows_no_probes_is_sent_no_parts,
    parts_of_strangers_and_impossible_ones_change_nothing,
}
