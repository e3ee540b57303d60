//! Sessions with keys, and what attackers do to them.

use core::time::Duration;

use farcall_base::{ClusterKey, Entropy};

use super::Tested;
use super::world::{ECHO, Faults, Random, World, identity, request};
use crate::basic::BasicConfig;
use crate::keys::Keyring;
use crate::session::{EndReason, PeerAddress, SessionCounters, SessionId};
use crate::wire::{Head, Header, Opcode, RefuseReason, SessionPacket};

pub(super) const LIMIT: Duration = Duration::from_secs(20);

pub(super) fn ring(keys: &[u8]) -> Keyring {
    Keyring::new(keys.iter().map(|key| ClusterKey::new([*key; 32])).collect()).expect("one to eight keys")
}

/// A world of which each node has these keys; none without any.
fn world<P: Tested>(keys: &[&[u8]], seed: u64) -> World<P> {
    let mut world = World::<P>::new(&vec![BasicConfig::default(); keys.len()], seed);
    for (node, keys) in keys.iter().enumerate().filter(|(_, keys)| !keys.is_empty()) {
        give(&mut world, node, ring(keys), seed);
    }
    world
}

pub(super) fn give<P: Tested>(world: &mut World<P>, node: usize, ring: Keyring, seed: u64) {
    let entropy = Entropy::repeatable(seed * 100 + node as u64);
    world.nodes[node].calls.sessions_mut().set_keys(ring, entropy);
}

pub(super) fn counters<P: Tested>(world: &World<P>, node: usize) -> SessionCounters {
    *world.nodes[node].calls.sessions().counters()
}

/// The reasons for which sessions of a node ended.
pub(super) fn ends<P: Tested>(world: &World<P>, node: usize) -> Vec<EndReason> {
    world.nodes[node].downs.iter().map(|(_, reason, _)| *reason).collect()
}

pub(super) fn call<P: Tested>(
    world: &mut World<P>,
    session: SessionId,
    operation: u32,
    bytes: usize,
    answer: u32,
) {
    world.call(0, session, operation, ECHO, &request(operation, bytes, answer));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&operation));
    world.nodes[0].assert_answered(operation, answer as usize);
}

/// What one side sent, of those packets.
pub(super) fn sent<P: Tested>(world: &World<P>, node: usize, opcode: Opcode) -> Vec<Vec<u8>> {
    let recording = world.recording.as_ref().expect("packets are recorded");
    let of_node = recording.iter().filter(|(from, ..)| *from == node).map(|(.., packet)| packet);
    let is_one = |packet: &&Vec<u8>| Header::parse(packet).is_ok_and(|header| header.opcode == opcode);
    of_node.filter(is_one).cloned().collect()
}

fn calls_of_any_length_pass_and_nothing_of_them_is_readable<P: Tested>() {
    let mut world = world::<P>(&[&[1], &[1]], 1);
    world.recording = Some(Vec::new());
    let (session, _) = world.connected(0, 1);
    for (operation, bytes) in [8, 300, 1400, 1441, 20_000, 200_000].into_iter().enumerate() {
        call(&mut world, session, operation as u32, bytes, bytes as u32);
    }
    let recording = world.recording.take().expect("packets are recorded");
    let mtu_bytes = BasicConfig::default().session.offer.mtu_bytes as usize;
    for operation in 0..6 {
        let payload = request(operation, 40, 300);
        for (.., packet) in &recording {
            assert!(packet.len() <= mtu_bytes, "{} bytes", packet.len());
            assert!(!packet.windows(24).any(|window| *window == payload[16..40]), "a payload is readable");
        }
    }
    assert_eq!(counters(&world, 1).forged + counters(&world, 0).forged, 0);
}

fn damage_loss_and_copies_cost_nothing_but_time<P: Tested>() {
    for seed in 0..6 {
        let mut world = world::<P>(&[&[1], &[1]], seed);
        world.faults = Faults {
            lost: 50,
            duplicated: 100,
            corrupted: 100,
            truncated: 50,
            delayed: 100,
            delay_nanos_max: 200_000,
        };
        let (session, _) = world.connected(0, 1);
        for operation in 0..60 {
            let bytes = [8, 100, 3000, 40_000][operation as usize % 4];
            world.call(0, session, operation, ECHO, &request(operation, bytes, bytes as u32));
        }
        world.run_until(LIMIT, |world| world.nodes[0].completed.len() == 60);
        assert!(!world.nodes[0].completed_twice);
        assert!(world.nodes[1].ran.values().all(|times| *times == 1));
        let seen = counters(&world, 1);
        assert!(seen.forged > 0 && seen.replayed > 0, "{seen:?}");
    }
}

fn a_session_uses_one_key_after_the_other_while_packets_are_lost_and_overtake<P: Tested>() {
    let mut world = world::<P>(&[&[], &[]], 3);
    (0..2).for_each(|node| give(&mut world, node, ring(&[1]).with_phase_packets(64), 3));
    world.faults = Faults { lost: 30, delayed: 100, delay_nanos_max: 30_000, ..Faults::default() };
    let (session, _) = world.connected(0, 1);
    for round in 0..4 {
        for operation in 100 * round..100 * (round + 1) {
            world.call(0, session, operation, ECHO, &request(operation, 5000, 5000));
        }
        let done = 100 * (round as usize + 1);
        world.run_until(LIMIT, |world| world.nodes[0].completed.len() == done);
    }
    assert!(world.packets > 50 * 64, "there were {} packets", world.packets);
    assert!(ends(&world, 0).is_empty() && ends(&world, 1).is_empty());
}

fn a_packet_that_comes_again_does_nothing<P: Tested>() {
    let mut world = world::<P>(&[&[1], &[1]], 4);
    world.recording = Some(Vec::new());
    let (session, _) = world.connected(0, 1);
    call(&mut world, session, 1, 100, 100);
    let before = world.packets;
    for packet in world.recording.take().expect("packets are recorded") {
        if packet.0 == 0 && !matches!(packet.2[4], 1) {
            world.inject(0, 1, &packet.2);
        }
    }
    world.run_for(Duration::from_micros(50));
    assert_eq!(world.packets, before, "a copy was answered");
    assert!(counters(&world, 1).replayed >= 2);
    call(&mut world, session, 2, 100, 100);
}

fn whatever_bit_is_flipped_a_packet_counts_for_nothing<P: Tested>() {
    let mut world = world::<P>(&[&[1], &[1]], 5);
    let (session, _) = world.connected(0, 1);
    world.run_for(Duration::from_millis(1));
    world.recording = Some(Vec::new());
    // The packet is lost, so that its number is still new.
    world.filter = Box::new(|from, packet| from != 0 || packet[4] != Opcode::Whole as u8);
    world.call(0, session, 1, ECHO, &request(1, 30, 30));
    world.run_for(Duration::from_micros(20));
    let packet = sent(&world, 0, Opcode::Whole).remove(0);
    for bit in 0..8 * packet.len() {
        let mut altered = packet.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        world.inject(0, 1, &altered);
    }
    for length in 0..packet.len() {
        world.inject(0, 1, &packet[..length]);
    }
    world.run_for(Duration::from_micros(20));
    assert!(world.nodes[1].ran.is_empty(), "an altered packet ran");
    assert!(ends(&world, 0).is_empty() && ends(&world, 1).is_empty());
    world.inject(0, 1, &packet);
    world.run_for(Duration::from_micros(20));
    assert_eq!(world.nodes[1].ran, [(1, 1)].into(), "the packet itself counts");
}

/// The attacker sees all packets, can send from any address, and knows the format.
fn nobody_without_the_key_ends_a_session<P: Tested>() {
    let mut world = world::<P>(&[&[1], &[1]], 6);
    let (session, _) = world.connected(0, 1);
    let link = *world.nodes[0].calls.link(session).expect("it is up");
    let incarnation = identity(0, 1).incarnation;
    let forged = [
        SessionPacket::Close { incarnation },
        SessionPacket::Reset { life_code: crate::wire::life_code(incarnation, link.remote) },
        SessionPacket::Refuse(RefuseReason::Rank),
        SessionPacket::Ping { number: 7 },
        SessionPacket::Pong { number: 7 },
    ];
    world.run_for(Duration::from_millis(1));
    let before = counters(&world, 1).forged;
    let (packets, mut head) = (world.packets, Head::new());
    for packet in forged {
        packet.put(link.remote, &mut head);
        for end in [Vec::new(), vec![0; 8], vec![0; 16]] {
            let mut forged = [head.as_bytes(), &end].concat();
            let sum = crate::wire::checksum_of(&forged[4..]);
            forged[..4].copy_from_slice(&sum.to_le_bytes());
            world.inject(0, 1, &forged);
        }
    }
    world.run_for(Duration::from_micros(50));
    assert_eq!(world.packets, packets, "a forged packet was answered");
    assert!(counters(&world, 1).forged >= before + 9);
    call(&mut world, session, 1, 100, 100);
    assert!(ends(&world, 0).is_empty() && ends(&world, 1).is_empty());
}

/// The attacker asks another process of the cluster, which rightly says that it does not know the session.
fn no_other_process_of_the_cluster_can_be_made_to_end_a_session<P: Tested>() {
    let mut world = world::<P>(&[&[1], &[1], &[1]], 17);
    let (session, _) = world.connected(0, 1);
    call(&mut world, session, 1, 100, 100);
    world.recording = Some(Vec::new());
    let mut head = Head::new();
    let remote = world.nodes[0].calls.link(session).expect("it is up").remote;
    SessionPacket::Ping { number: 7 }.put(remote, &mut head);
    // As if from node 0, whose session it is.
    world.cut.insert((2, 0));
    world.inject(0, 2, &[head.as_bytes(), &[0; 16]].concat());
    world.run_for(Duration::from_micros(50));
    let resets = sent(&world, 2, Opcode::Reset);
    assert_eq!(resets.len(), 1);
    world.inject(1, 0, &resets[0]);
    world.run_for(Duration::from_micros(50));
    assert!(ends(&world, 0).is_empty() && counters(&world, 0).forged == 1);
    call(&mut world, session, 2, 100, 100);
}

fn a_session_that_is_closed_or_whose_peer_was_restarted_ends_at_once<P: Tested>() {
    let mut world = world::<P>(&[&[1], &[1]], 7);
    let (session, _) = world.connected(0, 1);
    world.nodes[0].calls.close(session);
    world.run_for(Duration::from_micros(50));
    assert_eq!(ends(&world, 1), [EndReason::Closed]);
    let (session, _) = world.connected(0, 1);
    world.restart(1, BasicConfig::default(), 2);
    give(&mut world, 1, ring(&[1]), 8);
    world.call(0, session, 1, ECHO, &request(1, 30, 30));
    world.run_for(Duration::from_micros(50));
    assert_eq!(ends(&world, 0), [EndReason::Closed, EndReason::Restarted]);
}

fn each_side_is_told_when_the_other_has_no_key_or_another_one<P: Tested>() {
    let cases: [([&[u8]; 2], RefuseReason); 3] = [
        ([&[1], &[]], RefuseReason::Keyless),
        ([&[], &[1]], RefuseReason::KeyWanted),
        ([&[1], &[2]], RefuseReason::OtherKey),
    ];
    for (keys, reason) in cases {
        let mut world = world::<P>(&keys, 9);
        let id = world.connect(0, 1);
        world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty());
        assert_eq!(ends(&world, 0), [EndReason::Refused(reason)], "{id:?}");
        assert!(world.nodes[1].ups.is_empty());
        assert!(counters(&world, 1).refused_key > 0);
    }
}

fn a_forged_refusal_of_an_open_does_not_end_it<P: Tested>() {
    let mut world = world::<P>(&[&[1], &[1]], 10);
    world.recording = Some(Vec::new());
    world.cut.insert((1, 0));
    let id = world.connect(0, 1);
    world.run_for(Duration::from_micros(20));
    let open = sent(&world, 0, Opcode::Open).remove(0);
    let number = crate::wire::WireSession(u64::from_le_bytes(open[24..32].try_into().expect("8 bytes")));
    let mut head = Head::new();
    for reason in [RefuseReason::Rank, RefuseReason::OtherKey, RefuseReason::Version { theirs: 2 }] {
        SessionPacket::Refuse(reason).put(number, &mut head);
        world.inject(1, 0, head.as_bytes());
    }
    // Without keys this would be an ACCEPT.
    let mut accept = open[..64].to_vec();
    accept[4] = Opcode::Accept as u8;
    accept[6..14].copy_from_slice(&number.0.to_le_bytes());
    world.inject(1, 0, &accept);
    world.run_for(Duration::from_micros(50));
    assert!(ends(&world, 0).is_empty());
    world.cut.clear();
    world.run_until(LIMIT, |world| !world.nodes[0].ups.is_empty());
    assert_eq!(world.nodes[0].ups[0].0, id);
}

fn an_open_that_is_lost_or_comes_again_leads_to_one_session<P: Tested>() {
    let mut world = world::<P>(&[&[1], &[1]], 11);
    world.recording = Some(Vec::new());
    let mut lost = 2;
    world.filter = Box::new(move |_, packet| {
        let is_accept = packet[4] == Opcode::Accept as u8;
        lost -= i32::from(is_accept);
        !is_accept || lost < 0
    });
    let (session, _) = world.connected(0, 1);
    let opens = sent(&world, 0, Opcode::Open);
    let accepts = sent(&world, 1, Opcode::Accept);
    assert!(opens.len() == 3 && opens.iter().all(|open| *open == opens[0]), "an OPEN is repeated as it was");
    assert!(accepts.iter().all(|accept| *accept == accepts[0]), "so is its ACCEPT");
    world.inject(0, 1, &opens[0]);
    world.run_for(Duration::from_millis(1));
    assert_eq!(sent(&world, 1, Opcode::Accept).len(), accepts.len(), "who has confirmed is told no more");
    assert_eq!(world.nodes[1].ups.len(), 1);
    call(&mut world, session, 1, 100, 100);
}

fn no_stranger_is_answered_with_more_than_it_sent<P: Tested>() {
    let mut world = world::<P>(&[&[1], &[1]], 12);
    world.recording = Some(Vec::new());
    let (session, _) = world.connected(0, 1);
    call(&mut world, session, 1, 3000, 3000);
    let seen = world.recording.take().expect("packets are recorded");
    let mut random = Random(12);
    for (.., packet) in seen.iter().filter(|(from, ..)| *from == 0) {
        for _ in 0..200 {
            let mut bytes = packet.clone();
            // Some other session, and whatever else.
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            bytes.truncate(bytes.len() - random.below(1 + bytes.len() as u64 / 2) as usize);
            let (mut room, mut head) = (Vec::new(), Head::new());
            let node = &mut world.nodes[1].calls;
            // Each a moment of its own, so that no limit of a millisecond hides an answer.
            world.now += Duration::from_millis(2);
            let stranger = PeerAddress(77);
            if let Some(opened) = node.sessions_mut().open(stranger, &bytes, &mut room, world.now) {
                node.handle_from(stranger, || None, opened, world.now);
            }
            let mut answered = 0;
            while let Some(answer) = node.poll_transmit(world.now, &mut head) {
                answered += usize::from(answer.to == stranger) * (answer.head.len() + answer.payload.len());
            }
            assert!(answered <= bytes.len(), "{answered} bytes for {}", bytes.len());
        }
    }
}

fn an_honest_opener_gets_through_a_flood_with_a_cookie<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.cookies_from = 0;
    let mut world = World::<P>::new(&[config; 2], 13);
    (0..2).for_each(|node| give(&mut world, node, ring(&[1]), 13));
    world.recording = Some(Vec::new());
    let (session, _) = world.connected(0, 1);
    let lengths: Vec<usize> = sent(&world, 0, Opcode::Open).iter().map(Vec::len).collect();
    assert_eq!(lengths, [172, 188]);
    assert_eq!(counters(&world, 1).retries_sent, 1);
    call(&mut world, session, 1, 100, 100);
}

fn keys_are_exchanged_under_load_without_a_stop<P: Tested>() {
    let mut world = world::<P>(&[&[1], &[1]], 14);
    let (old, _) = world.connected(0, 1);
    // The new key is spread, then used, then the old one is taken away: on one side before the other.
    let steps: [[&[u8]; 2]; 6] = [
        [&[1, 2], &[1]],
        [&[1, 2], &[1, 2]],
        [&[2, 1], &[1, 2]],
        [&[2, 1], &[2, 1]],
        [&[2], &[2, 1]],
        [&[2], &[2]],
    ];
    for (operation, keys) in (0..).zip(steps) {
        for (node, keys) in keys.into_iter().enumerate() {
            world.nodes[node].calls.sessions_mut().exchange_keys(ring(keys));
        }
        for (from, to) in [(0, 1), (1, 0)] {
            world.connected(from, to);
        }
        call(&mut world, old, operation, 3000, 3000);
    }
    assert!(ends(&world, 0).is_empty() && ends(&world, 1).is_empty());
}

fn a_peer_that_moves_is_followed_as_without_keys<P: Tested>() {
    let mut world = world::<P>(&[&[1], &[1]], 16);
    let (session, _) = world.connected(0, 1);
    call(&mut world, session, 1, 100, 100);
    world.moved.insert(0, 40);
    call(&mut world, session, 2, 100, 100);
    assert_eq!(counters(&world, 1).moved, 1);
}

for_every_protocol!(
    calls_of_any_length_pass_and_nothing_of_them_is_readable,
    damage_loss_and_copies_cost_nothing_but_time,
    a_session_uses_one_key_after_the_other_while_packets_are_lost_and_overtake,
    a_packet_that_comes_again_does_nothing,
    whatever_bit_is_flipped_a_packet_counts_for_nothing,
    nobody_without_the_key_ends_a_session,
    no_other_process_of_the_cluster_can_be_made_to_end_a_session,
    a_session_that_is_closed_or_whose_peer_was_restarted_ends_at_once,
    each_side_is_told_when_the_other_has_no_key_or_another_one,
    a_forged_refusal_of_an_open_does_not_end_it,
    an_open_that_is_lost_or_comes_again_leads_to_one_session,
    no_stranger_is_answered_with_more_than_it_sent,
    an_honest_opener_gets_through_a_flood_with_a_cookie,
    keys_are_exchanged_under_load_without_a_stop,
    a_peer_that_moves_is_followed_as_without_keys,
);
