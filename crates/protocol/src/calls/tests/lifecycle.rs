//! Peers that come, go, die and come back.

use core::time::Duration;

use super::Tested;
use super::world::{ECHO, HELD, LATENCY_NANOS, World, identity, request};
use crate::basic::{BasicConfig, CallError, Payload};
use crate::session::{EndReason, PeerAddress, SessionId};
use crate::wire::{
    Cookie, Head, Offer, OfferPacket, RefuseReason, SessionPacket, VERSION, WireSession, life_code,
};

const LIMIT: Duration = Duration::from_secs(1);
const PEER_TIMEOUT: Duration = Duration::from_secs(1);

fn reasons<P: Tested>(world: &World<P>, node: usize) -> Vec<EndReason> {
    world.nodes[node].downs.iter().map(|down| down.1).collect()
}

fn both_sides_learn_who_the_other_is_and_what_they_agreed_on<P: Tested>() {
    let ours = Offer {
        message_bytes_max: 5000,
        mtu_bytes: 9000,
        unscheduled_bytes: 100_000,
        calls_max: 10,
        checksum: false,
    };
    let theirs = Offer {
        message_bytes_max: 6000,
        mtu_bytes: 1500,
        unscheduled_bytes: 50_000,
        calls_max: 20,
        checksum: false,
    };
    let mut configs = [BasicConfig::default(); 2];
    configs[0].session.offer = ours;
    configs[1].session.offer = theirs;
    let mut world = World::<P>::new(&configs, 30);
    let (here, there) = world.connected(0, 1);
    world.run_for(Duration::from_millis(1));
    assert_eq!(world.nodes[0].ups, [(here, identity(1, 1))]);
    assert_eq!(world.nodes[1].ups, [(there, identity(0, 1))]);
    let agreed = Offer { calls_max: 10, message_bytes_max: 5000, ..theirs };
    for (node, session) in [(0, here), (1, there)] {
        assert_eq!(world.nodes[node].calls.link(session).map(|link| link.agreed), Some(agreed));
    }
    assert_eq!(world.nodes[0].calls.round_trip(here), Duration::from_nanos(2 * LATENCY_NANOS));
}

fn checksums_are_used_when_one_side_wants_them<P: Tested>() {
    let mut without = BasicConfig::default();
    without.session.offer.checksum = false;
    for (configs, expected) in [([without, BasicConfig::default()], true), ([without, without], false)] {
        let mut world = World::<P>::new(&configs, 31);
        let (session, _) = world.connected(0, 1);
        world.recording = Some(Vec::new());
        world.call(0, session, 1, ECHO, &request(1, 30, 30_000));
        world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
        let packets = world.recording.take().expect("it was recording");
        let of_messages = packets.iter().filter(|(_, _, packet)| packet[4] >= 16);
        let sealed: Vec<bool> = of_messages.map(|(_, _, packet)| packet[..4] != [0; 4]).collect();
        assert!(sealed.len() > 20 && sealed.iter().all(|sealed| *sealed == expected));
    }
}

fn nobody_at_the_address_is_reported_within_the_limit<P: Tested>() {
    let mut world = World::<P>::pair(32);
    world.nodes[1].alive = false;
    let session = world.connect(0, 1);
    world.call(0, session, 1, ECHO, &[]);
    world.run_until(PEER_TIMEOUT, |world| !world.nodes[0].downs.is_empty());
    assert_eq!(reasons(&world, 0), [EndReason::Unreachable]);
    assert!(world.nodes[0].calls.sessions().counters().handshakes_resent > 3);
    let refused = world.nodes[0].calls.call(session, 2, ECHO, Payload::Slice(&[]));
    assert_eq!(refused, Err(CallError::Down));
}

fn a_handshake_survives_the_loss_of_any_of_its_packets<P: Tested>() {
    for lost in 0..6 {
        let mut world = World::<P>::pair(33);
        let mut count = 0;
        world.filter = Box::new(move |_, _| {
            count += 1;
            count - 1 != lost
        });
        world.connect(0, 1);
        world.run_until(LIMIT, |world| world.nodes.iter().all(|node| node.ups.len() == 1));
        world.run_for(4 * PEER_TIMEOUT);
        assert!(world.nodes.iter().all(|node| node.downs.is_empty() && node.ups.len() == 1));
    }
}

fn silence_without_calls_keeps_a_session_alive<P: Tested>() {
    let mut world = World::<P>::pair(34);
    world.connected(0, 1);
    world.run_for(Duration::from_secs(60));
    assert!(world.nodes.iter().all(|node| node.downs.is_empty()));
    assert!(world.packets < 60 * 2 * 2 * 4 + 20, "{} packets", world.packets);
}

fn a_peer_that_falls_silent_is_dead_within_the_limit<P: Tested>() {
    for busy in [false, true] {
        let mut world = World::<P>::pair(35);
        let (session, _) = world.connected(0, 1);
        world.run_for(Duration::from_millis(777));
        if busy {
            world.call(0, session, 1, HELD, &request(1, 30, 30));
        }
        world.run_for(Duration::from_micros(100));
        world.nodes[1].alive = false;
        let died = world.now;
        world.run_until(PEER_TIMEOUT, |world| !world.nodes[0].downs.is_empty());
        let (down, reason, at) = world.nodes[0].downs[0];
        assert_eq!((down, reason), (session, EndReason::Dead));
        assert!(at.since(died) <= PEER_TIMEOUT);
        assert!(world.nodes[0].calls.is_idle());
    }
}

fn a_partition_in_one_direction_ends_the_session_for_both<P: Tested>() {
    let mut world = World::<P>::pair(36);
    world.connected(0, 1);
    world.cut.insert((0, 1));
    let limit = PEER_TIMEOUT + Duration::from_millis(300);
    world.run_until(2 * limit, |world| world.nodes.iter().all(|node| !node.downs.is_empty()));
    assert_eq!(reasons(&world, 1), [EndReason::Dead]);
    world.cut.clear();
    let (session, _) = world.connected(0, 1);
    world.call(0, session, 1, ECHO, &request(1, 30, 30));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
}

fn a_process_that_did_not_run_for_a_while_does_not_take_its_peer_for_dead<P: Tested>() {
    let mut world = World::<P>::pair(37);
    let (session, _) = world.connected(0, 1);
    world.run_for(Duration::from_millis(10));
    // Neither end runs, as when the whole machine stands still.
    world.now += Duration::from_secs(10);
    world.run_for(PEER_TIMEOUT);
    assert!(world.nodes.iter().all(|node| node.downs.is_empty()));
    world.call(0, session, 1, ECHO, &request(1, 30, 30));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
}

fn a_process_that_stands_still_while_a_ping_goes_unanswered_asks_again<P: Tested>() {
    let mut world = World::<P>::pair(37);
    world.connected(0, 1);
    // The answer to one ping is lost.
    world.cut.insert((1, 0));
    world.run_for(PEER_TIMEOUT * 2 / 5);
    world.cut.clear();
    world.now += Duration::from_secs(10);
    world.run_for(PEER_TIMEOUT);
    assert!(world.nodes.iter().all(|node| node.downs.is_empty()));
}

fn a_restarted_peer_is_noticed_at_the_next_packet<P: Tested>() {
    let mut world = World::<P>::pair(38);
    let (session, _) = world.connected(0, 1);
    world.call(0, session, 1, HELD, &request(1, 30, 30));
    world.run_for(Duration::from_micros(50));
    world.restart(1, BasicConfig::default(), 2);
    world.call(0, session, 2, ECHO, &request(2, 30, 30));
    world.run_until(Duration::from_micros(50), |world| !world.nodes[0].downs.is_empty());
    assert_eq!(reasons(&world, 0), [EndReason::Restarted]);
    assert!(world.nodes[1].ran.is_empty());
    assert_eq!(world.nodes[1].calls.sessions().counters().resets_sent, 1);
}

fn a_peer_that_opens_a_session_in_a_new_life_ends_those_of_its_former_one<P: Tested>() {
    let mut world = World::<P>::pair(39);
    let (_, before) = world.connected(0, 1);
    world.call(1, before, 1, HELD, &request(1, 30, 30));
    world.run_for(Duration::from_micros(50));
    world.restart(0, BasicConfig::default(), 2);
    world.connected(0, 1);
    assert_eq!(reasons(&world, 1), [EndReason::Restarted]);
    assert_eq!(world.nodes[1].downs[0].0, before);
    assert_eq!(world.nodes[1].ups[1].1, identity(0, 2));
}

fn packets_of_a_former_life_do_nothing_to_the_next<P: Tested>() {
    let mut world = World::<P>::pair(40);
    world.recording = Some(Vec::new());
    let (session, _) = world.connected(0, 1);
    world.call(0, session, 1, ECHO, &request(1, 20_000, 30));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
    let packets = world.recording.take().expect("it was recording");
    world.restart(0, BasicConfig::default(), 2);
    world.restart(1, BasicConfig::default(), 3);
    let (session, _) = world.connected(0, 1);
    world.run_for(Duration::from_millis(1));
    packets.iter().for_each(|(from, to, packet)| world.inject(*from, *to, packet));
    world.run_for(4 * PEER_TIMEOUT);
    for node in &world.nodes {
        assert!(node.downs.is_empty() && node.ran.is_empty() && node.ups.len() == 1);
        assert!(node.calls.sessions().counters().unknown_sessions > 0);
    }
    world.call(0, session, 2, ECHO, &request(2, 30, 30));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&2));
}

fn a_repeated_open_leads_to_the_same_session<P: Tested>() {
    let mut world = World::<P>::pair(41);
    world.faults.duplicated = 1000;
    world.connected(0, 1);
    world.run_for(4 * PEER_TIMEOUT);
    assert!(world.nodes.iter().all(|node| node.ups.len() == 1 && node.downs.is_empty()));
}

fn two_sides_that_connect_at_once_get_two_working_sessions<P: Tested>() {
    let mut world = World::<P>::pair(42);
    let sessions = [world.connect(0, 1), world.connect(1, 0)];
    world.run_until(LIMIT, |world| world.nodes.iter().all(|node| node.ups.len() == 2));
    for (node, session) in sessions.into_iter().enumerate() {
        let all: Vec<SessionId> = world.nodes[node].ups.iter().map(|up| up.0).collect();
        assert!(all.contains(&session));
        for (operation, session) in all.into_iter().enumerate() {
            let operation = operation as u32;
            world.call(node, session, operation, ECHO, &request(operation, 30, 30));
        }
        world.run_until(LIMIT, |world| world.nodes[node].completed.len() == 2);
    }
}

fn an_endpoint_can_connect_to_itself<P: Tested>() {
    let mut world = World::<P>::pair(43);
    let session = world.connect(0, 0);
    world.call(0, session, 1, ECHO, &request(1, 30, 3000));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&1));
    world.nodes[0].assert_answered(1, 3000);
}

fn closing_ends_the_session_on_both_sides_even_when_the_packet_is_lost<P: Tested>() {
    for lost in [false, true] {
        let mut world = World::<P>::pair(44);
        let (here, there) = world.connected(0, 1);
        world.call(0, here, 1, HELD, &request(1, 30, 30));
        world.run_for(Duration::from_micros(50));
        if lost {
            world.cut.insert((0, 1));
        }
        world.nodes[0].calls.close(here);
        world.run_for(Duration::from_micros(50));
        world.cut.clear();
        world.run_until(PEER_TIMEOUT, |world| world.nodes.iter().all(|node| node.downs.len() == 1));
        assert_eq!(world.nodes[0].downs[0].0, here);
        assert_eq!(world.nodes[1].downs[0].0, there);
        assert_eq!(
            (reasons(&world, 0), reasons(&world, 1)),
            (vec![EndReason::Closed], vec![EndReason::Closed])
        );
        // The handler answers all the same; nobody minds.
        world.release_held(1);
        world.run_for(Duration::from_millis(1));
        assert!(world.nodes[0].completed.is_empty() && world.is_idle());
    }
}

fn waiting_calls_over_the_agreed_limit_end_the_session_with_a_reason<P: Tested>() {
    let mut small = BasicConfig::default();
    small.session.offer.message_bytes_max = 100;
    let mut world = World::<P>::new(&[BasicConfig::default(), small], 45);
    let session = world.connect(0, 1);
    world.call(0, session, 1, ECHO, &[0; 101]);
    world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty());
    assert_eq!(reasons(&world, 0), [EndReason::WaitingCallTooLong { bytes: 101, bytes_max: 100 }]);
}

fn a_server_with_all_its_sessions_refuses_more<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.sessions_max = 1;
    let mut world = World::<P>::new(&[BasicConfig::default(), config], 46);
    world.connected(0, 1);
    world.connect(0, 1);
    world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty());
    assert_eq!(reasons(&world, 0), [EndReason::Refused(RefuseReason::Full)]);
    let full = world.nodes[1].calls.connect(PeerAddress(0), world.now);
    assert_eq!(full.err().map(|error| error.sessions_max), Some(1));
}

fn a_server_that_was_full_takes_the_next_when_one_leaves<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.sessions_max = 1;
    let mut world = World::<P>::new(&[BasicConfig::default(), config], 51);
    let (first, _) = world.connected(0, 1);
    world.connect(0, 1);
    world.run_for(PEER_TIMEOUT / 4);
    world.nodes[0].calls.close(first);
    world.run_until(PEER_TIMEOUT / 4, |world| world.nodes.iter().all(|node| node.ups.len() == 2));
}

fn a_client_that_is_seen_at_another_address_goes_on<P: Tested>() {
    let mut world = World::<P>::pair(52);
    let (session, _) = world.connected(0, 1);
    world.call(0, session, 1, HELD, &request(1, 30, 30_000));
    world.run_for(Duration::from_micros(50));
    world.moved.insert(0, 77);
    world.release_held(1);
    world.call(0, session, 2, ECHO, &request(2, 30_000, 30));
    world.run_until(LIMIT, |world| world.nodes[0].completed.len() == 2);
    world.nodes[0].assert_answered(1, 30_000);
    assert_eq!(world.nodes[1].calls.sessions().counters().moved, 1);
    world.run_for(4 * PEER_TIMEOUT);
    assert!(world.nodes.iter().all(|node| node.downs.is_empty()));
}

/// What node 1 answers to a session packet that comes out of the blue.
fn answer_to<P: Tested>(packet: SessionPacket, session: WireSession) -> Vec<SessionPacket> {
    let mut world = World::<P>::pair(47);
    let mut head = Head::new();
    packet.put(session, &mut head);
    world.recording = Some(Vec::new());
    world.inject(0, 1, head.as_bytes());
    world.run_for(Duration::from_millis(1));
    let answers = world.recording.take().expect("it was recording");
    let parse = |packet: &Vec<u8>| {
        let header = crate::wire::Header::parse(packet).expect("the answer is well formed");
        SessionPacket::parse(&header, packet).expect("the answer is of a session")
    };
    answers.iter().map(|(_, _, packet)| parse(packet)).collect()
}

fn another_version_is_refused_with_ours<P: Tested>() {
    let open = SessionPacket::OpenOfVersion { version: 9, reply_session: WireSession(77) };
    let refusal = SessionPacket::Refuse(RefuseReason::Version { theirs: VERSION });
    assert_eq!(answer_to::<P>(open, WireSession::NONE), [refusal]);
}

fn another_protocol_and_unusable_limits_are_refused<P: Tested>() {
    let offer = BasicConfig::default().session.offer;
    let open = |protocol, offer| {
        let (reply_session, sender) = (WireSession(77), identity(0, 1));
        let offer = OfferPacket { protocol, reply_session, sender, offer, life: None };
        SessionPacket::Open(offer, Cookie::NONE)
    };
    let (ours, other) = (P::PROTOCOL as u8, 3 - P::PROTOCOL as u8);
    let refused = RefuseReason::Protocol { theirs: ours };
    assert_eq!(answer_to::<P>(open(other, offer), WireSession::NONE), [SessionPacket::Refuse(refused)]);
    for unusable in [Offer { mtu_bytes: 255, ..offer }, Offer { calls_max: 0, ..offer }] {
        let limits = SessionPacket::Refuse(RefuseReason::Limits);
        assert_eq!(answer_to::<P>(open(ours, unusable), WireSession::NONE), [limits]);
    }
}

fn a_refusal_reaches_the_one_who_asked_with_its_reason<P: Tested>() {
    let mut world = World::<P>::pair(48);
    world.recording = Some(Vec::new());
    world.cut.insert((0, 1));
    world.connect(0, 1);
    world.run_for(Duration::from_micros(1));
    let open = &world.recording.take().expect("it was recording")[0].2;
    let asked = WireSession(u64::from_le_bytes(open[24..32].try_into().expect("eight bytes")));
    let mut head = Head::new();
    SessionPacket::Refuse(RefuseReason::Version { theirs: 3 }).put(asked, &mut head);
    world.inject(1, 0, head.as_bytes());
    world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty());
    assert_eq!(reasons(&world, 0), [EndReason::Refused(RefuseReason::Version { theirs: 3 })]);
}

fn nothing_but_the_right_numbers_ends_a_session<P: Tested>() {
    let mut world = World::<P>::pair(49);
    let (here, _) = world.connected(0, 1);
    let remote = world.nodes[0].calls.link(here).expect("it is up").remote;
    let life = identity(0, 1).incarnation;
    let forged = [
        (SessionPacket::Close { incarnation: life + 1 }, remote),
        (SessionPacket::Close { incarnation: life }, WireSession(remote.0 ^ 1 << 20)),
        (SessionPacket::Reset { life_code: life_code(life, remote) }, remote),
        (SessionPacket::Reset { life_code: life_code(life, remote) }, WireSession::NONE),
        (SessionPacket::Refuse(RefuseReason::Full), remote),
    ];
    for (packet, session) in forged {
        let mut head = Head::new();
        packet.put(session, &mut head);
        world.inject(0, 1, head.as_bytes());
    }
    world.run_for(4 * PEER_TIMEOUT);
    assert!(world.nodes.iter().all(|node| node.downs.is_empty()));
}

fn packets_of_unknown_sessions_are_not_answered_without_bound<P: Tested>() {
    let mut world = World::<P>::pair(50);
    let mut head = Head::new();
    for session in 1..=10_000 {
        SessionPacket::Ping { number: 1 }.put(WireSession(session << 16), &mut head);
        world.inject(0, 1, head.as_bytes());
    }
    world.run_for(Duration::from_micros(100));
    let counters = *world.nodes[1].calls.sessions().counters();
    assert_eq!((counters.unknown_sessions, counters.resets_sent), (10_000, 32));
}

fn many_packets_of_a_forgotten_session_leave_answers_for_those_of_another<P: Tested>() {
    let mut world = World::<P>::pair(51);
    let sessions = [world.connected(0, 1).0, world.connected(0, 1).0];
    world.run_for(Duration::from_millis(1));
    // The second node forgets both, and no good-bye arrives.
    world.cut.insert((1, 0));
    world.nodes[1].calls.close_all();
    world.run_for(Duration::from_micros(100));
    world.cut.clear();
    let bytes = request(0, 30, 30);
    (0..100).for_each(|operation| world.call(0, sessions[0], operation, ECHO, &bytes));
    world.call(0, sessions[1], 100, ECHO, &bytes);
    world.run_for(Duration::from_micros(100));
    assert_eq!(reasons(&world, 0), [EndReason::Closed; 2]);
    assert_eq!(world.nodes[1].calls.sessions().counters().resets_sent, 2);
}

fn a_call_that_is_cancelled_before_its_session_is_up_leaves_nothing_behind<P: Tested>() {
    let mut world = World::<P>::pair(52);
    let session = world.connect(0, 1);
    world.call(0, session, 1, ECHO, &request(1, 30, 30));
    world.nodes[0].calls.cancel(session, 1);
    world.recording = Some(Vec::new());
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.nodes[0].calls.held(), (0, 0));
    let packets = world.recording.take().expect("it was recording");
    assert!(packets.iter().all(|(.., packet)| packet[4] < 16), "no packet is of a call");
    world.call(0, session, 2, ECHO, &request(2, 30, 30));
    world.run_until(LIMIT, |world| world.nodes[0].completed.contains_key(&2));
}

fn a_call_over_the_agreed_limit_takes_the_place_of_one_that_was_cancelled<P: Tested>() {
    let mut configs = [BasicConfig::default(); 2];
    configs[1].session.offer.calls_max = 1;
    let mut world = World::<P>::new(&configs, 54);
    let session = world.connect(0, 1);
    (1..=3).for_each(|operation| world.call(0, session, operation, ECHO, &request(operation, 30, 30)));
    world.nodes[0].calls.cancel(session, 1);
    world.run_until(LIMIT, |world| world.nodes[0].completed.len() == 2);
    world.run_until(LIMIT, World::is_idle);
}

fn a_call_that_is_cancelled_before_its_request_leaves_is_settled<P: Tested>() {
    let mut world = World::<P>::pair(53);
    let (session, _) = world.connected(0, 1);
    world.run_for(Duration::from_millis(1));
    world.call(0, session, 1, ECHO, &request(1, 30, 30));
    world.nodes[0].calls.cancel(session, 1);
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.nodes[0].calls.held(), (0, 0));
}

for_every_protocol!(
    both_sides_learn_who_the_other_is_and_what_they_agreed_on,
    checksums_are_used_when_one_side_wants_them,
    nobody_at_the_address_is_reported_within_the_limit,
    a_handshake_survives_the_loss_of_any_of_its_packets,
    silence_without_calls_keeps_a_session_alive,
    a_peer_that_falls_silent_is_dead_within_the_limit,
    a_partition_in_one_direction_ends_the_session_for_both,
    a_process_that_did_not_run_for_a_while_does_not_take_its_peer_for_dead,
    a_process_that_stands_still_while_a_ping_goes_unanswered_asks_again,
    a_restarted_peer_is_noticed_at_the_next_packet,
    a_peer_that_opens_a_session_in_a_new_life_ends_those_of_its_former_one,
    packets_of_a_former_life_do_nothing_to_the_next,
    a_repeated_open_leads_to_the_same_session,
    two_sides_that_connect_at_once_get_two_working_sessions,
    an_endpoint_can_connect_to_itself,
    closing_ends_the_session_on_both_sides_even_when_the_packet_is_lost,
    waiting_calls_over_the_agreed_limit_end_the_session_with_a_reason,
    a_server_with_all_its_sessions_refuses_more,
    a_server_that_was_full_takes_the_next_when_one_leaves,
    a_client_that_is_seen_at_another_address_goes_on,
    another_version_is_refused_with_ours,
    another_protocol_and_unusable_limits_are_refused,
    a_refusal_reaches_the_one_who_asked_with_its_reason,
    nothing_but_the_right_numbers_ends_a_session,
    packets_of_unknown_sessions_are_not_answered_without_bound,
    many_packets_of_a_forgotten_session_leave_answers_for_those_of_another,
    a_call_that_is_cancelled_before_its_session_is_up_leaves_nothing_behind,
    a_call_that_is_cancelled_before_its_request_leaves_is_settled,
    a_call_over_the_agreed_limit_takes_the_place_of_one_that_was_cancelled
);
