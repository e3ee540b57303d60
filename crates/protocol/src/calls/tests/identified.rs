//! Sessions whose two sides prove who they are, and what others do to them: strangers, and members of the
//! cluster that have its key.

use core::time::Duration;
use std::sync::Arc;

use farcall_base::{Principal, PrivateKey};

use super::Tested;
use super::keyed::{LIMIT, call, counters, ends, give, ring, sent};
use super::world::{Faults, Random, World, request};
use crate::basic::BasicConfig;
use crate::keys::{Identities, IdentityId, Keyring, KnownPeer, public_half};
use crate::session::{EndReason, PeerAddress, SessionId, Sessions};
use crate::wire::{
    Cookie, Head, Header, IdentifiedOpen, Opcode, RefuseReason, SessionPacket, WireSession, checksum_of,
    life_code, parse_identified_retry, put_identified_open, put_identified_retry,
};

const OPEN_BYTES: usize = 260;

fn private(number: u8) -> PrivateKey {
    PrivateKey::new([number; 32])
}

/// The cluster key 1, the identity `own`, and peers by name and the number of their private key.
fn identified(own: u8, peers: &[(&str, u8)]) -> Keyring {
    let known =
        |(name, number): &(&str, u8)| KnownPeer { name: (*name).into(), key: public_half(&private(*number)) };
    let identities = Identities::new(private(own), peers.iter().map(known).collect());
    ring(&[1]).identified_by(Arc::new(identities.expect("they are keys")))
}

fn world<P: Tested>(rings: &[Keyring], seed: u64) -> World<P> {
    let mut world = World::<P>::new(&vec![BasicConfig::default(); rings.len()], seed);
    for (node, ring) in rings.iter().enumerate() {
        give(&mut world, node, ring.clone(), seed);
    }
    world
}

/// Two that know each other as `ann` and `ben`.
fn friends<P: Tested>(seed: u64) -> World<P> {
    let peers = [("ann", 10), ("ben", 11)];
    world(&[identified(10, &peers), identified(11, &peers)], seed)
}

fn principal<P: Tested>(world: &World<P>, node: usize, session: SessionId) -> Principal {
    world.nodes[node].calls.sessions().principal_of(session)
}

fn connect_to<P: Tested>(world: &mut World<P>, name: &str) -> SessionId {
    let now = world.now;
    let calls = &mut world.nodes[0].calls;
    calls.connect_to(PeerAddress(1), Some(name), now).expect("there is room for a session")
}

fn exchange<P: Tested>(world: &mut World<P>, node: usize, ring: Keyring) {
    world.nodes[node].calls.sessions_mut().exchange_keys(ring);
}

/// The packet with its checksum put right.
fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    let sum = checksum_of(&packet[4..]);
    packet[..4].copy_from_slice(&sum.to_le_bytes());
    packet
}

/// Hands a packet to a node as from an address; what it answers there.
fn answered<P: Tested>(world: &mut World<P>, node: usize, from: u32, packet: &[u8]) -> Vec<Vec<u8>> {
    let (mut room, mut head, now) = (Vec::new(), Head::new(), world.now);
    let calls = &mut world.nodes[node].calls;
    if let Some(opened) = calls.sessions_mut().open(PeerAddress(from), packet, &mut room, now) {
        calls.handle_from(PeerAddress(from), || Some(u64::from(from / 1000)), opened, now);
    }
    let mut answers = Vec::new();
    while let Some(answer) = calls.poll_transmit(now, &mut head) {
        if answer.to == PeerAddress(from) {
            answers.push([answer.head, answer.payload].concat());
        }
    }
    answers
}

fn opcode(packet: &[u8]) -> Opcode {
    Header::parse(packet).expect("it has a header").opcode
}

fn each_side_learns_who_the_other_is_and_calls_pass<P: Tested>() {
    let mut world = friends::<P>(1);
    world.recording = Some(Vec::new());
    let (session, at_ben) = world.connected(0, 1);
    assert_eq!(principal(&world, 0, session), Principal::Identity("ben".into()));
    assert_eq!(principal(&world, 1, at_ben), Principal::Identity("ann".into()));
    assert_eq!(sent(&world, 0, Opcode::Open).len(), 2, "the first one asks who is there");
    assert_eq!(sent(&world, 1, Opcode::Retry).len(), 1);
    for (operation, bytes) in [8, 300, 1441, 20_000, 200_000].into_iter().enumerate() {
        call(&mut world, session, operation as u32, bytes, bytes as u32);
    }
    assert_eq!(counters(&world, 0).forged + counters(&world, 1).forged, 0);
}

fn two_packets_are_enough_where_the_acceptor_is_known_before<P: Tested>() {
    let peers = [("ann", 10), ("ben", 11)];
    for (ring, name) in [(identified(10, &[("ben", 11)]), None), (identified(10, &peers), Some("ben"))] {
        let mut world = world::<P>(&[ring, identified(11, &peers)], 2);
        world.recording = Some(Vec::new());
        let session = match name {
            Some(name) => connect_to(&mut world, name),
            None => world.connect(0, 1),
        };
        world.run_until(LIMIT, |world| !world.nodes[1].ups.is_empty());
        assert_eq!((sent(&world, 0, Opcode::Open).len(), sent(&world, 1, Opcode::Accept).len()), (1, 1));
        assert_eq!(principal(&world, 0, session), Principal::Identity("ben".into()));
    }
}

/// Each end with identities against each end without, and the other way round.
fn no_end_falls_back_to_what_the_other_one_has<P: Tested>() {
    let peers = [("ann", 10), ("ben", 11)];
    let [ann, ben] = [10, 11].map(|own| Some(identified(own, &peers)));
    let cases = [
        ([ann.clone(), Some(ring(&[1]))], RefuseReason::Identityless),
        ([ann, None], RefuseReason::Keyless),
        ([Some(ring(&[1])), ben.clone()], RefuseReason::IdentityWanted),
        ([None, ben.clone()], RefuseReason::KeyWanted),
        ([Some(ring(&[2])), ben], RefuseReason::IdentityWanted),
    ];
    for (rings, reason) in cases {
        let mut world = World::<P>::new(&[BasicConfig::default(); 2], 3);
        for (node, ring) in rings.into_iter().enumerate() {
            ring.into_iter().for_each(|ring| give(&mut world, node, ring, 3));
        }
        world.connect(0, 1);
        world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty());
        assert_eq!(ends(&world, 0), [EndReason::Refused(reason)]);
        assert!(world.nodes[1].ups.is_empty());
        let seen = counters(&world, 1);
        assert!(seen.refused_key + seen.refused_identity > 0, "{reason:?}: {seen:?}");
        assert_eq!(seen.refused_identity > 0, reason == RefuseReason::IdentityWanted);
    }
}

/// A peer that is older than identities says only which version it speaks.
fn an_older_acceptor_is_understood_and_its_word_ends_nothing<P: Tested>() {
    for (theirs, reason) in [(4, RefuseReason::Identityless), (3, RefuseReason::Keyless)] {
        let mut world = friends::<P>(14);
        world.recording = Some(Vec::new());
        world.cut.insert((1, 0));
        world.connect(0, 1);
        world.run_for(Duration::from_micros(20));
        let open = sent(&world, 0, Opcode::Open).remove(0);
        let number = WireSession(u64::from_le_bytes(open[24..32].try_into().expect("8 bytes")));
        let mut head = Head::new();
        SessionPacket::Refuse(RefuseReason::Version { theirs }).put(number, &mut head);
        world.inject(1, 0, head.as_bytes());
        world.run_for(Duration::from_micros(50));
        assert!(ends(&world, 0).is_empty(), "anybody could have said it");
        world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty());
        assert_eq!(ends(&world, 0), [EndReason::Refused(reason)]);
    }
}

fn whoever_is_not_known_is_refused_on_either_side<P: Tested>() {
    let peers = [("ann", 10), ("ben", 11)];
    let cases = [
        // Ben does not know Ann.
        ([identified(10, &peers), identified(11, &[("cid", 12)])], true),
        // Somebody else, who has the cluster key, is where Ann looks for Ben.
        ([identified(10, &peers), identified(12, &peers)], false),
        // Somebody else opens, who knows Ben's key.
        ([identified(12, &peers), identified(11, &peers)], true),
    ];
    for (rings, is_refused_by_acceptor) in cases {
        let mut world = world::<P>(&rings, 4);
        world.connect(0, 1);
        world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty());
        let reason = if is_refused_by_acceptor {
            EndReason::Refused(RefuseReason::IdentityUnknown)
        } else {
            EndReason::PeerUnknown
        };
        assert_eq!(ends(&world, 0), [reason]);
        let refused = [0, 1].map(|node| counters(&world, node).refused_identity);
        assert_eq!(refused, if is_refused_by_acceptor { [0, 1] } else { [1, 0] });
        assert!(world.nodes[1].ups.is_empty());
    }
}

fn a_listed_name_is_answered_by_its_own_peer_alone<P: Tested>() {
    let peers = [("ann", 10), ("ben", 11), ("ben", 13), ("cid", 12)];
    for (name, answers, reason) in [
        ("ben", 11, None),
        // The second key of a name counts as the first one does.
        ("ben", 13, None),
        ("cid", 11, Some(EndReason::OtherPeer)),
        // No peer is called so.
        ("orders", 11, None),
    ] {
        let mut world = world::<P>(&[identified(10, &peers), identified(answers, &peers)], 5);
        let session = connect_to(&mut world, name);
        world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty() || !world.nodes[1].ups.is_empty());
        assert_eq!(ends(&world, 0), reason.into_iter().collect::<Vec<_>>(), "{name}");
        if reason.is_none() {
            assert_eq!(principal(&world, 0, session), Principal::Identity("ben".into()));
        }
    }
}

/// A member of the cluster says that it is Ben, whose public key it knows.
fn the_public_key_of_another_is_of_no_use<P: Tested>() {
    let peers = [("ann", 10), ("ben", 11)];
    let mut world = world::<P>(&[identified(10, &peers), identified(12, &peers)], 6);
    world.recording = Some(Vec::new());
    world.cut.insert((1, 0));
    world.connect(0, 1);
    world.run_for(Duration::from_micros(20));
    let open = sent(&world, 0, Opcode::Open).remove(0);
    let number = WireSession(u64::from_le_bytes(open[24..32].try_into().expect("8 bytes")));
    let mut head = Head::new();
    let (cookie, bens) = (Cookie { issued_at_nanos: 1, code: 2 }, public_half(&private(11)));
    put_identified_retry(number, cookie, &bens, ring(&[1]).own(), &mut head);
    world.inject(1, 0, head.as_bytes());
    world.run_for(Duration::from_micros(20));
    let for_ben = sent(&world, 0, Opcode::Open).pop().expect("an OPEN");
    assert_eq!(for_ben[40..48], IdentityId::of(&bens).0, "Ann asks Ben");
    world.cut.clear();
    // Whoever is there cannot read it, and can only say who it is itself.
    let answers = answered(&mut world, 1, 0, &for_ben);
    assert!(answers.iter().all(|answer| opcode(answer) == Opcode::Retry));
    world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty());
    assert_eq!(ends(&world, 0), [EndReason::PeerUnknown]);
    assert!(world.nodes[0].ups.is_empty() && world.nodes[1].ups.is_empty());
}

fn whatever_bit_of_a_handshake_is_flipped_no_session_comes_of_it<P: Tested>() {
    let mut world = friends::<P>(7);
    world.recording = Some(Vec::new());
    world.filter = Box::new(|_, packet| packet[4] != Opcode::Accept as u8);
    let id = world.connect(0, 1);
    world.run_for(Duration::from_micros(40));
    let open = sent(&world, 0, Opcode::Open).pop().expect("one that is made for Ben");
    let retry = sent(&world, 1, Opcode::Retry).remove(0);
    let accept = sent(&world, 1, Opcode::Accept).remove(0);
    assert_eq!((open.len(), retry.len(), accept.len()), (OPEN_BYTES, 86, 156));
    let half_open = |world: &World<P>| world.nodes[1].calls.sessions().half_open();
    let flips = |packet: &[u8], from: usize| -> Vec<Vec<u8>> {
        let flip = |bit: usize| {
            let mut altered = packet.to_vec();
            altered[bit / 8] ^= 1 << (bit % 8);
            with_checksum(altered)
        };
        (8 * from..8 * packet.len()).map(flip).collect()
    };
    let before = half_open(&world);
    for altered in flips(&open, 4) {
        // From elsewhere, so that it is not the OPEN that has been accepted already.
        let answers = answered(&mut world, 1, 50, &altered);
        assert!(answers.iter().all(|answer| opcode(answer) != Opcode::Accept));
        assert!(answers.iter().map(Vec::len).sum::<usize>() <= altered.len());
    }
    assert_eq!(half_open(&world), before);
    // In the header of an ACCEPT only its number is looked at: another one is of no session.
    for altered in flips(&accept, 22).into_iter().chain(flips(&retry, 4)) {
        world.inject(1, 0, &altered);
    }
    (0..accept.len()).for_each(|length| world.inject(1, 0, &accept[..length]));
    world.run_for(Duration::from_micros(20));
    assert!(world.nodes[0].ups.is_empty() && ends(&world, 0).is_empty());
    world.inject(1, 0, &accept);
    world.run_for(Duration::from_micros(20));
    assert_eq!(world.nodes[0].ups[0].0, id, "the packet itself counts");
}

fn an_open_that_comes_again_leads_to_no_second_session<P: Tested>() {
    let mut world = friends::<P>(8);
    world.recording = Some(Vec::new());
    let mut lost = 2;
    world.filter = Box::new(move |_, packet| {
        let is_accept = packet[4] == Opcode::Accept as u8;
        lost -= i32::from(is_accept);
        !is_accept || lost < 0
    });
    let (session, _) = world.connected(0, 1);
    call(&mut world, session, 1, 100, 100);
    assert_eq!(world.nodes[1].ups.len(), 1);
    let open = sent(&world, 0, Opcode::Open).pop().expect("an OPEN");
    world.inject(0, 1, &open);
    world.run_for(Duration::from_millis(1));
    assert_eq!(world.nodes[1].calls.sessions().half_open(), 0, "it is that of the session");
    world.nodes[0].calls.close(session);
    world.run_for(Duration::from_micros(50));
    // Much later its cookie is void, and it counts as an OPEN without one.
    world.inject(0, 1, &open);
    world.inject(0, 1, &open);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.nodes[1].ups.len(), 1, "nobody confirms it");
    assert_eq!(world.nodes[1].calls.sessions().half_open(), 0);
}

/// Whoever repeats OPENs that it saw has as many read as need no cookie, and honest openers get through.
fn repeated_opens_of_members_cost_a_bounded_number_of_agreements<P: Tested>() {
    let mut config = BasicConfig::default();
    config.session.cookies_from = 4;
    let peers = [("ann", 10), ("ben", 11)];
    let mut world = World::<P>::new(&[config; 2], 9);
    give(&mut world, 0, identified(10, &[("ben", 11)]), 9);
    give(&mut world, 1, identified(11, &peers), 9);
    world.recording = Some(Vec::new());
    world.cut.insert((1, 0));
    world.connect(0, 1);
    world.run_for(Duration::from_micros(20));
    let open = sent(&world, 0, Opcode::Open).remove(0);
    let mut answers = Vec::new();
    for from in 100..200 {
        answers.extend(answered(&mut world, 1, from, &open));
    }
    let of = |wanted| answers.iter().filter(|answer| opcode(answer) == wanted).count();
    // The first one that was read was Ann's own.
    assert_eq!((of(Opcode::Accept), of(Opcode::Retry)), (3, 97));
    assert!(answers.iter().all(|answer| answer.len() <= open.len()));
    world.cut.clear();
    world.run_until(LIMIT, |world| !world.nodes[1].ups.is_empty());
    // Copies of what led to a session are not even read.
    let before = counters(&world, 1).retries_sent;
    (0..100).for_each(|_| drop(answered(&mut world, 1, 0, &open)));
    assert_eq!(counters(&world, 1).retries_sent, before);
    // The next second has a number of its own: the OPEN is read, and is that of a session that is up.
    world.run_for(Duration::from_secs(2));
    assert!(answered(&mut world, 1, 300, &open).is_empty());
}

/// A member whose OPENs nobody can read proves its address: its host has so many of them read a second.
fn a_host_with_cookies_has_a_bounded_number_of_opens_read<P: Tested>() {
    let mut config = BasicConfig::default();
    (config.session.cookies_from, config.session.half_open_per_host) = (0, 3);
    let peers = [("ann", 10), ("ben", 11)];
    let mut world = World::<P>::new(&[config; 2], 10);
    (0..2).for_each(|node| give(&mut world, node, identified(10 + node as u8, &peers), 10));
    let cluster = ring(&[1]);
    let bens = IdentityId::of(&public_half(&private(11)));
    let number = WireSession(7 << 16);
    let flood = |world: &mut World<P>, from: u32| {
        let clear = IdentifiedOpen::clear(1, number, cluster.own().id);
        let (mut head, garbage) = (Head::new(), [7; 180]);
        put_identified_open(clear, Some((bens, &garbage)), Cookie::NONE, cluster.own(), &mut head);
        let retry = answered(world, 1, from, head.as_bytes()).pop().expect("a cookie is wanted");
        let (cookie, _) = parse_identified_retry(&retry[..retry.len() - 16]).expect("it is a RETRY");
        for _ in 0..10 {
            put_identified_open(clear, Some((bens, &garbage)), cookie, cluster.own(), &mut head);
            assert!(answered(world, 1, from, head.as_bytes()).is_empty());
        }
    };
    flood(&mut world, 5000);
    assert_eq!((counters(&world, 1).forged, counters(&world, 1).openings_dropped), (3, 7));
    flood(&mut world, 6000);
    assert_eq!((counters(&world, 1).forged, counters(&world, 1).openings_dropped), (6, 14));
    // What leads to sessions is no failure.
    for _ in 0..10 {
        world.connected(0, 1);
    }
    assert_eq!(counters(&world, 1).openings_dropped, 14);
}

/// An OPEN that is read and refused leaves nothing by which a copy of it is known.
fn copies_of_an_open_that_is_refused_have_a_bounded_number_read<P: Tested>() {
    let mut config = BasicConfig::default();
    let session = &mut config.session;
    (session.cookies_from, session.half_open_per_host, session.sessions_max) = (0, 3, 1);
    let peers = [("ann", 10), ("ben", 11)];
    let mut world = World::<P>::new(&[config; 2], 10);
    (0..2).for_each(|node| give(&mut world, node, identified(10 + node as u8, &peers), 10));
    world.connected(0, 1);
    let now = world.now;
    let other = farcall_base::Identity { incarnation: 99, rank: 7, endpoint: 0 };
    let mut opener = Sessions::new(config.session, P::PROTOCOL, other, farcall_base::Entropy::repeatable(5))
        .expect("it is valid");
    opener.set_keys(identified(10, &peers), farcall_base::Entropy::repeatable(6));
    opener.connect_to(PeerAddress(1), Some("ben"), now).expect("there is room");
    let (mut head, mut room, mut last) = (Head::new(), Vec::new(), Vec::new());
    while opener.poll_transmit(&mut head).is_some() {
        last = head.as_bytes().to_vec();
        for answer in answered(&mut world, 1, 2000, &last) {
            let opened = opener.open(PeerAddress(1), &answer, &mut room, now).expect("it is authentic");
            let header = Header::parse(opened.bytes()).expect("it has a header");
            opener.handle(PeerAddress(1), || None, &header, opened.bytes(), now);
        }
    }
    let before = counters(&world, 1);
    assert_eq!((before.refused_full, before.openings_dropped), (1, 0));
    for _ in 0..10 {
        answered(&mut world, 1, 2000, &last);
    }
    let after = counters(&world, 1);
    assert_eq!((after.refused_full, after.openings_dropped), (3, 8));
}

fn a_stranger_to_the_cluster_has_no_agreement_made_and_is_sent_no_more_than_it_sent<P: Tested>() {
    let mut world = friends::<P>(11);
    world.recording = Some(Vec::new());
    let (session, _) = world.connected(0, 1);
    call(&mut world, session, 1, 3000, 3000);
    let seen = world.recording.take().expect("packets are recorded");
    let mut random = Random(12);
    for (.., packet) in seen.iter().filter(|(from, ..)| *from == 0) {
        for _ in 0..100 {
            let mut bytes = packet.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            bytes.truncate(bytes.len() - random.below(1 + bytes.len() as u64 / 2) as usize);
            world.now += Duration::from_millis(2);
            let sent = answered(&mut world, 1, 7700, &bytes).iter().map(Vec::len).sum::<usize>();
            assert!(sent <= bytes.len(), "{sent} bytes for {}", bytes.len());
            let bytes = with_checksum([bytes, vec![0; 4]].concat());
            let sent = answered(&mut world, 1, 7700, &bytes).iter().map(Vec::len).sum::<usize>();
            assert!(sent <= bytes.len(), "{sent} bytes for {}", bytes.len());
        }
    }
    assert_eq!(world.nodes[1].calls.sessions().half_open(), 0);
}

/// A member that is none of the two says that Ben was restarted, and then that it is Ben's next life.
fn no_member_ends_the_session_of_others_by_its_key_alone<P: Tested>() {
    let peers = [("ann", 10), ("ben", 11), ("cid", 12)];
    let rings: Vec<_> = [10, 11, 12].map(|own| identified(own, &peers)).into();
    let mut world = world::<P>(&rings, 12);
    let (session, _) = world.connected(0, 1);
    let link = *world.nodes[0].calls.link(session).expect("it is up");
    let mut head = Head::new();
    let reset = SessionPacket::Reset { life_code: life_code(4711, link.remote) };
    crate::wire::put_coded(&reset, link.remote, ring(&[1]).own(), &link.peer, &mut head);
    world.inject(1, 0, head.as_bytes());
    world.run_for(Duration::from_micros(50));
    assert!(ends(&world, 0).is_empty() && counters(&world, 0).forged == 1);
    // Cid says that it has Ben's rank.
    let (now, entropy) = (world.now, farcall_base::Entropy::repeatable(5));
    let claims = farcall_base::Identity { incarnation: 99_999, ..link.peer };
    let config = BasicConfig::default().session;
    let mut liar = Sessions::new(config, P::PROTOCOL, claims, entropy).expect("it is valid");
    liar.set_keys(rings[2].clone(), farcall_base::Entropy::repeatable(6));
    liar.connect_to(PeerAddress(0), Some("ann"), now).expect("there is room");
    let mut room = Vec::new();
    while liar.poll_transmit(&mut head).is_some() {
        for answer in answered(&mut world, 0, 2000, head.as_bytes()) {
            let opened = liar.open(PeerAddress(0), &answer, &mut room, now).expect("it is authentic");
            let header = Header::parse(opened.bytes()).expect("it has a header");
            liar.handle(PeerAddress(0), || None, &header, opened.bytes(), now);
        }
    }
    world.run_for(Duration::from_millis(300));
    assert!(world.nodes[0].ups.iter().any(|(_, peer)| peer.incarnation == 99_999), "it is let in");
    assert!(ends(&world, 0).is_empty(), "and is not taken for Ben");
    call(&mut world, session, 1, 100, 100);
}

fn a_peer_that_was_restarted_is_noticed_by_silence_or_by_what_it_opens<P: Tested>() {
    for opens in [false, true] {
        let mut world = friends::<P>(15);
        let (session, _) = world.connected(0, 1);
        world.restart(1, BasicConfig::default(), 2);
        give(&mut world, 1, identified(11, &[("ann", 10), ("ben", 11)]), 16);
        world.call(0, session, 1, super::world::ECHO, &request(1, 30, 30));
        world.run_for(Duration::from_millis(10));
        assert!(ends(&world, 0).is_empty());
        if opens {
            world.connect(1, 0);
        }
        world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty());
        assert_eq!(ends(&world, 0), [if opens { EndReason::Restarted } else { EndReason::Dead }]);
    }
}

fn a_key_is_exchanged_without_a_stop_and_one_that_is_taken_away_opens_nothing<P: Tested>() {
    let mut world = friends::<P>(13);
    let (old, _) = world.connected(0, 1);
    // Ben's new key is listed, used, and the old one taken away.
    let both = [("ann", 10), ("ben", 11), ("ben", 21)];
    let new = [("ann", 10), ("ben", 21)];
    let steps = [
        (identified(10, &both), identified(11, &both)),
        (identified(10, &both), identified(21, &both)),
        (identified(10, &new), identified(21, &new)),
    ];
    for (operation, (ann, ben)) in (0..).zip(steps) {
        exchange(&mut world, 0, ann);
        exchange(&mut world, 1, ben);
        for (from, to, name) in [(0, 1, "ben"), (1, 0, "ann")] {
            let (session, _) = world.connected(from, to);
            assert_eq!(principal(&world, from, session), Principal::Identity(name.into()));
        }
        call(&mut world, old, operation, 3000, 3000);
    }
    // Ann's key is taken away at Ben: her sessions go on, new ones do not begin.
    exchange(&mut world, 1, identified(21, &[("ben", 21)]));
    world.connect(0, 1);
    world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty());
    assert_eq!(ends(&world, 0), [EndReason::Refused(RefuseReason::IdentityUnknown)]);
    call(&mut world, old, 10, 3000, 3000);
    // Ben's key is taken away at Ann while she waits for his answer.
    world.cut.insert((1, 0));
    connect_to(&mut world, "ben");
    world.run_for(Duration::from_micros(20));
    exchange(&mut world, 1, identified(21, &new));
    exchange(&mut world, 0, identified(10, &[("ann", 10)]));
    let ups = world.nodes[0].ups.len();
    world.cut.clear();
    world.run_until(LIMIT, |world| world.nodes[0].downs.len() == 2);
    assert_eq!(world.nodes[0].ups.len(), ups);
    call(&mut world, old, 11, 3000, 3000);
}

fn a_key_that_goes_to_another_name_while_it_is_asked_proves_neither<P: Tested>() {
    let both = [("ann", 10), ("ben", 11)];
    for now in [[("ann", 10), ("gone", 11)], [("ann", 10), ("ben", 12)]] {
        let mut world = World::<P>::new(&[BasicConfig::default(); 2], 13);
        give(&mut world, 0, identified(10, &both), 13);
        give(&mut world, 1, identified(11, &both), 13);
        world.cut.insert((1, 0));
        connect_to(&mut world, "ben");
        world.run_for(Duration::from_micros(20));
        exchange(&mut world, 0, identified(10, &now));
        world.cut.clear();
        world.run_until(LIMIT, |world| !world.nodes[0].downs.is_empty());
        assert!(world.nodes[0].ups.is_empty(), "{now:?}");
    }
}

fn damage_loss_and_copies_cost_nothing_but_time<P: Tested>() {
    for seed in 0..6 {
        let mut world = friends::<P>(seed);
        world.faults = Faults {
            lost: 50,
            duplicated: 100,
            corrupted: 100,
            truncated: 50,
            delayed: 100,
            delay_nanos_max: 200_000,
        };
        let (session, _) = world.connected(0, 1);
        for operation in 0..40 {
            let bytes = [8, 100, 3000, 40_000][operation as usize % 4];
            world.call(0, session, operation, super::world::ECHO, &request(operation, bytes, bytes as u32));
        }
        world.run_until(LIMIT, |world| world.nodes[0].completed.len() == 40);
        assert!(!world.nodes[0].completed_twice);
        assert!(world.nodes[1].ran.values().all(|times| *times == 1));
    }
}

for_every_protocol!(
    each_side_learns_who_the_other_is_and_calls_pass,
    two_packets_are_enough_where_the_acceptor_is_known_before,
    no_end_falls_back_to_what_the_other_one_has,
    an_older_acceptor_is_understood_and_its_word_ends_nothing,
    whoever_is_not_known_is_refused_on_either_side,
    a_listed_name_is_answered_by_its_own_peer_alone,
    the_public_key_of_another_is_of_no_use,
    whatever_bit_of_a_handshake_is_flipped_no_session_comes_of_it,
    an_open_that_comes_again_leads_to_no_second_session,
    repeated_opens_of_members_cost_a_bounded_number_of_agreements,
    a_host_with_cookies_has_a_bounded_number_of_opens_read,
    copies_of_an_open_that_is_refused_have_a_bounded_number_read,
    a_stranger_to_the_cluster_has_no_agreement_made_and_is_sent_no_more_than_it_sent,
    no_member_ends_the_session_of_others_by_its_key_alone,
    a_peer_that_was_restarted_is_noticed_by_silence_or_by_what_it_opens,
    a_key_is_exchanged_without_a_stop_and_one_that_is_taken_away_opens_nothing,
    a_key_that_goes_to_another_name_while_it_is_asked_proves_neither,
    damage_loss_and_copies_cost_nothing_but_time,
);
