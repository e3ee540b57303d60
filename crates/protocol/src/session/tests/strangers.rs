//! What anybody may send to sessions: floods of OPEN, forged sources, numbers that were guessed.

use super::super::hosts::Host;
use super::*;
use crate::wire::{CallKey, Cookie, Flags, Header, OfferPacket, life_code};

const NOW: Instant = Instant::from_nanos(1_000_000_000);

/// Packets that an endpoint sends, with where to.
fn sent(sessions: &mut Sessions) -> Vec<(PeerAddress, WireSession, SessionPacket, usize)> {
    let mut head = Head::new();
    let next = || sessions.poll_transmit(&mut head).map(|to| (to, head.as_bytes().to_vec()));
    let packets: Vec<(PeerAddress, Vec<u8>)> = core::iter::from_fn(next).collect();
    let parse = |(to, bytes): &(PeerAddress, Vec<u8>)| {
        let header = Header::parse(bytes).expect("it has a header");
        let packet = SessionPacket::parse(&header, bytes).expect("it is of a session");
        (*to, header.session, packet, bytes.len())
    };
    packets.iter().map(parse).collect()
}

/// Addresses above these are of hosts that have a thousand each; the driver does not know those below.
const HOSTS_FROM: u32 = 10_000_000;

fn host_of(address: u32) -> Option<u64> {
    (address >= HOSTS_FROM).then_some(u64::from(address / 1000))
}

/// Delivers a packet; gives its length.
fn deliver(
    sessions: &mut Sessions,
    from: u32,
    session: WireSession,
    packet: SessionPacket,
    now: Instant,
) -> usize {
    let mut head = Head::new();
    packet.put(session, &mut head);
    let header = Header::parse(head.as_bytes()).expect("it has a header");
    sessions.handle(PeerAddress(from), || host_of(from), &header, head.as_bytes(), now);
    head.as_bytes().len()
}

fn open(number: u64, rank: u32) -> OfferPacket {
    OfferPacket {
        protocol: Protocol::Basic as u8,
        reply_session: WireSession(number),
        sender: Identity { incarnation: number, rank, endpoint: 0 },
        offer: SessionConfig::default().offer,
        life: None,
    }
}

fn acceptor() -> Sessions {
    sessions(SessionConfig::default()).expect("the configuration is valid")
}

#[test]
fn two_numbers_do_not_give_away_the_next() {
    let mut sessions = acceptor();
    let numbers: Vec<u64> = (0..3).map(|index| sessions.draw_number(index).0 >> 16).collect();
    // The generator that was used once: its state follows from an output, of which 16 bits are not shown.
    let unshifted = |mut mixed: u64, shift: u32| {
        let shown = mixed;
        (0..64 / shift).for_each(|_| mixed = shown ^ (mixed >> shift));
        mixed
    };
    let inverse =
        |odd: u64| (0..6).fold(1_u64, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))));
    let state_of = |output: u64| {
        let mixed = unshifted(output, 31).wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
        let mixed = unshifted(mixed, 27).wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9));
        unshifted(mixed, 30)
    };
    let foretold = (0..1_u64 << 16).map(|low| state_of(numbers[0] << 16 | low)).find(|state| {
        let mut random = farcall_base::Random::new(*state);
        random.bits() >> 16 == numbers[1] && random.bits() >> 16 == numbers[2]
    });
    assert_eq!(foretold, None);
}

#[test]
fn an_open_gets_one_accept_and_nothing_more() {
    let mut sessions = acceptor();
    let received =
        deliver(&mut sessions, 1, WireSession::NONE, SessionPacket::Open(open(77, 0), Cookie::NONE), NOW);
    let mut bytes = 0;
    let mut now = NOW;
    for _ in 0..2000 {
        bytes += sent(&mut sessions).iter().map(|(.., length)| length).sum::<usize>();
        now += Duration::from_millis(1);
        sessions.handle_timeout(now);
    }
    assert!(bytes <= received, "{bytes} bytes for {received}");
    assert_eq!((sessions.half_open(), sessions.next_deadline()), (0, None), "it was forgotten");
}

#[test]
fn a_flood_of_forged_opens_costs_a_bounded_table_and_gets_no_more_than_it_sends() {
    let mut sessions = acceptor();
    let config = *sessions.config();
    let (mut received, mut bytes) = (0, 0);
    for number in 1..=100_000_u32 {
        let now = NOW + Duration::from_micros(10) * number;
        let packet = SessionPacket::Open(open(u64::from(number), 0), Cookie::NONE);
        received += deliver(&mut sessions, number, WireSession::NONE, packet, now);
        bytes += sent(&mut sessions).iter().map(|(.., length)| length).sum::<usize>();
        sessions.handle_timeout(now);
        while sessions.poll_address().is_some() {}
        assert!(sessions.half_open() <= usize::from(config.cookies_from));
    }
    assert!(bytes <= received, "{bytes} bytes for {received}");
    let places = usize::from(config.cookies_from) + 1;
    assert!(sessions.slots.len() <= places && sessions.by_remote.len() <= places);
    assert!(sessions.half_open_ages.len() <= 2 * usize::from(config.half_open_max));
    assert!(!sessions.has_events(), "nothing of it was reported");
}

#[test]
fn an_honest_opener_gets_through_a_flood_with_a_cookie() {
    let mut acceptor = acceptor();
    let flood = |acceptor: &mut Sessions, from: u32, now: Instant| {
        for number in from..from + 1000 {
            let packet = SessionPacket::Open(open(u64::from(number), 0), Cookie::NONE);
            deliver(acceptor, number, WireSession::NONE, packet, now);
        }
        sent(acceptor);
    };
    let identity = Identity { incarnation: 9, rank: 1, endpoint: 0 };
    let mut opener =
        Sessions::new(SessionConfig::default(), Protocol::Basic, identity, Entropy::repeatable(8))
            .expect("the configuration is valid");
    flood(&mut acceptor, 1000, NOW);
    opener.connect(PeerAddress(7), NOW).expect("there is room");
    let (mut rounds, mut now) = (0, NOW);
    while !acceptor.has_events() {
        rounds += 1;
        now += Duration::from_micros(50);
        flood(&mut acceptor, 1000 + rounds * 1000, now);
        for (_, session, packet, _) in sent(&mut opener) {
            deliver(&mut acceptor, 3, session, packet, now);
        }
        for (to, session, packet, _) in sent(&mut acceptor) {
            assert_eq!(to, PeerAddress(3));
            deliver(&mut opener, 7, session, packet, now);
        }
    }
    // OPEN, OPEN with the cookie, PING.
    assert_eq!(rounds, 3);
    assert!(acceptor.counters().retries_sent > 1000);
}

#[test]
fn a_cookie_of_another_address_opens_nothing() {
    let mut sessions = acceptor();
    for number in 1..=64 {
        let packet = SessionPacket::Open(open(u64::from(number), 0), Cookie::NONE);
        deliver(&mut sessions, number, WireSession::NONE, packet, NOW);
    }
    sent(&mut sessions);
    deliver(&mut sessions, 900, WireSession::NONE, SessionPacket::Open(open(900, 0), Cookie::NONE), NOW);
    let [(to, session, SessionPacket::Retry(cookie), _)] = sent(&mut sessions)[..] else {
        panic!("RETRY was expected")
    };
    assert_eq!((to, session), (PeerAddress(900), WireSession(900)));
    deliver(&mut sessions, 901, WireSession::NONE, SessionPacket::Open(open(900, 0), cookie), NOW);
    assert!(matches!(sent(&mut sessions)[..], [(PeerAddress(901), _, SessionPacket::Retry(_), _)]));
    deliver(&mut sessions, 900, WireSession::NONE, SessionPacket::Open(open(900, 0), cookie), NOW);
    assert!(matches!(sent(&mut sessions)[..], [(PeerAddress(900), _, SessionPacket::Accept(_), _)]));
}

#[test]
fn the_oldest_half_open_session_makes_room_and_one_address_has_a_share() {
    let config = SessionConfig {
        half_open_max: 8,
        half_open_per_host: 2,
        cookies_from: 100,
        ..SessionConfig::default()
    };
    let mut sessions = sessions(config).expect("the configuration is valid");
    for number in 1..=20 {
        let packet = SessionPacket::Open(open(number, 0), Cookie::NONE);
        deliver(&mut sessions, 1, WireSession::NONE, packet, NOW);
    }
    assert_eq!(sessions.half_open(), 2, "the limit of a host");
    for number in 21..=40 {
        let packet = SessionPacket::Open(open(number, 0), Cookie::NONE);
        deliver(&mut sessions, number as u32, WireSession::NONE, packet, NOW);
    }
    assert_eq!((sessions.half_open(), sessions.counters().half_open_replaced), (8, 14));
    let numbers: Vec<u64> = sessions.by_remote.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (33..=40).collect::<Vec<u64>>());
}

#[test]
fn half_open_sessions_use_up_no_numbers() {
    let config = SessionConfig { sessions_max: 1, half_open_max: 1, ..SessionConfig::default() };
    let mut sessions = sessions(config).expect("the configuration is valid");
    for number in 1..=200_000_u64 {
        let packet = SessionPacket::Open(open(number, 0), Cookie::NONE);
        deliver(&mut sessions, number as u32, WireSession::NONE, packet, NOW);
        sent(&mut sessions);
        while sessions.poll_address().is_some() {}
    }
    assert!(sessions.connect(PeerAddress(1), NOW).is_ok());
}

#[test]
fn a_rank_that_does_not_exist_is_refused() {
    let config = SessionConfig { ranks: 4, ..SessionConfig::default() };
    let mut sessions = sessions(config).expect("the configuration is valid");
    for (rank, is_refused) in [(3, false), (4, true), (65_536 + 1, true)] {
        let packet = SessionPacket::Open(open(u64::from(rank) + 1, rank), Cookie::NONE);
        deliver(&mut sessions, rank, WireSession::NONE, packet, NOW);
        let refusal = SessionPacket::Refuse(RefuseReason::Rank);
        assert_eq!(sent(&mut sessions)[0].2 == refusal, is_refused, "rank {rank}");
    }
}

/// Opens a session from each of these addresses and confirms those that are accepted: how many there are.
fn opened(sessions: &mut Sessions, addresses: impl Iterator<Item = u32>) -> usize {
    let mut up = 0;
    for address in addresses {
        // Each is a rank by itself: of one rank a new life would end the former.
        let packet = SessionPacket::Open(open(u64::from(address), address % 60_000), Cookie::NONE);
        deliver(sessions, address, WireSession::NONE, packet, NOW);
        let [(_, _, SessionPacket::Accept(accept), _)] = sent(sessions)[..] else { continue };
        deliver(sessions, address, accept.reply_session, SessionPacket::Ping { number: 1 }, NOW);
        up += sent(sessions).len();
        while sessions.poll_event().is_some() || sessions.poll_address().is_some() {}
    }
    up
}

#[test]
fn one_host_cannot_take_all_sessions_whatever_addresses_it_has() {
    let config = SessionConfig { sessions_max: 40, sessions_per_host: 10, ..SessionConfig::default() };
    let mut sessions = sessions(config).expect("the configuration is valid");
    assert_eq!(opened(&mut sessions, HOSTS_FROM..HOSTS_FROM + 1000), 10);
    assert_eq!((sessions.counters().refused_host, sessions.counters().refused_full), (990, 0));
    assert_eq!(opened(&mut sessions, HOSTS_FROM + 1000..HOSTS_FROM + 1001), 1, "another host");
    assert_eq!(opened(&mut sessions, 1..2), 1, "one that the driver does not know");
    // What leaves makes room for the host again, and nothing of it stays.
    sessions.close(SessionId(3));
    sent(&mut sessions);
    assert_eq!(opened(&mut sessions, HOSTS_FROM + 20..HOSTS_FROM + 30), 1);
    for index in 0..12 {
        let id = sessions.slots[index as usize].id(index);
        sessions.close(id);
    }
    assert_eq!((sessions.hosts.len(), sessions.established()), (0, 0));
}

#[test]
fn half_open_sessions_of_one_host_count_together() {
    let config = SessionConfig { half_open_per_host: 5, ..SessionConfig::default() };
    let mut sessions = sessions(config).expect("the configuration is valid");
    for address in HOSTS_FROM..HOSTS_FROM + 50 {
        let packet = SessionPacket::Open(open(u64::from(address), 0), Cookie::NONE);
        deliver(&mut sessions, address, WireSession::NONE, packet, NOW);
    }
    assert_eq!((sessions.half_open(), sent(&mut sessions).len()), (5, 5));
}

#[test]
fn a_peer_whose_messages_would_count_as_anothers_is_refused() {
    // A rank beyond those that sources tell apart has a source for each of its sessions.
    let mut sessions = acceptor();
    let sender = |rank: u32, endpoint: u32| Identity { incarnation: 5, rank, endpoint };
    let peers = [sender(3, 7), sender(65_536 + 3, 7), sender(3, 65_536 + 7)];
    for (number, (sender, is_refused)) in (1..).zip(peers.into_iter().zip([false, false, true])) {
        let packet = SessionPacket::Open(OfferPacket { sender, ..open(number, 0) }, Cookie::NONE);
        deliver(&mut sessions, number as u32, WireSession::NONE, packet, NOW);
        let refusal = SessionPacket::Refuse(RefuseReason::Rank);
        assert_eq!(sent(&mut sessions)[0].2 == refusal, is_refused, "{sender:?}");
    }
}

#[test]
fn an_acceptor_whose_messages_would_count_as_anothers_is_not_taken() {
    for (endpoint, comes_up) in [(65_535, true), (65_536, false), (u32::MAX, false)] {
        let mut opener = acceptor();
        opener.connect(PeerAddress(1), NOW).expect("there is room");
        let [(_, _, SessionPacket::Open(opened, _), _)] = sent(&mut opener)[..] else {
            panic!("OPEN was expected")
        };
        let sender = Identity { incarnation: 5, rank: 3, endpoint };
        let accept = SessionPacket::Accept(OfferPacket { sender, ..open(77 << 16, 0) });
        deliver(&mut opener, 1, opened.reply_session, accept, NOW);
        assert_eq!((opener.has_events(), opener.counters().malformed), (comes_up, u64::from(!comes_up)));
    }
}

#[test]
fn copies_of_an_open_count_against_the_host_that_sends_them() {
    let config = SessionConfig { half_open_per_host: 2, ..SessionConfig::default() };
    let mut sessions = sessions(config).expect("the configuration is valid");
    let (honest, reader) = (HOSTS_FROM, HOSTS_FROM + 1000);
    // Who reads the OPENs of one host sends them again, from another: first, between, and afterwards.
    for number in [77, 78] {
        let packet = || SessionPacket::Open(open(number, 0), Cookie::NONE);
        for from in [reader, honest, reader, honest] {
            deliver(&mut sessions, from, WireSession::NONE, packet(), NOW);
            let [(to, session, SessionPacket::Accept(_), _)] = sent(&mut sessions)[..] else {
                panic!("ACCEPT was expected")
            };
            assert_eq!((to, session), (PeerAddress(from), WireSession(number)));
        }
    }
    let half_open =
        |address: u32| sessions.hosts.of(Host::new(PeerAddress(address), host_of(address))).half_open;
    assert_eq!((half_open(honest), half_open(reader), sessions.half_open()), (2, 2, 4));
    // Copies do not move what is there: each is confirmed from its own address only.
    let places: Vec<PeerAddress> = sessions.by_address.iter().map(|(address, _)| *address).collect();
    assert_eq!(places, [honest, honest, reader, reader].map(PeerAddress));
}

#[test]
fn sessions_are_found_by_address_wherever_they_go() {
    let mut sessions = acceptor();
    let up = opened(&mut sessions, 10..1010);
    assert_eq!((up, sessions.by_address.len()), (1000, 1000));
    assert!(sessions.any_to(PeerAddress(500)) && !sessions.any_to(PeerAddress(1010)));
    sessions.lost(PeerAddress(500));
    assert!(!sessions.any_to(PeerAddress(500)) && sessions.established() == 999);
    let ids: Vec<SessionId> = (0..1000).map(|index| sessions.slots[usize::from(index)].id(index)).collect();
    ids.into_iter().for_each(|id| sessions.close(id));
    assert!(sessions.by_address.is_empty() && sessions.by_remote.is_empty());
}

/// A session that is up at the acceptor, opened from address 3: the acceptor's number, and the opener's.
fn connected(sessions: &mut Sessions) -> (WireSession, WireSession) {
    deliver(sessions, 3, WireSession::NONE, SessionPacket::Open(open(333, 0), Cookie::NONE), NOW);
    let [(_, _, SessionPacket::Accept(accept), _)] = sent(sessions)[..] else {
        panic!("ACCEPT was expected")
    };
    deliver(sessions, 3, accept.reply_session, SessionPacket::Ping { number: 1 }, NOW);
    assert!(matches!(sent(sessions)[..], [(PeerAddress(3), _, SessionPacket::Pong { number: 1 }, _)]));
    assert!(matches!(sessions.poll_event(), Some(SessionEvent::Up { .. })));
    (accept.reply_session, WireSession(333))
}

#[test]
fn a_half_open_session_is_confirmed_only_from_where_its_number_was_sent() {
    let mut sessions = acceptor();
    deliver(&mut sessions, 3, WireSession::NONE, SessionPacket::Open(open(333, 0), Cookie::NONE), NOW);
    let [(_, _, SessionPacket::Accept(accept), _)] = sent(&mut sessions)[..] else {
        panic!("ACCEPT was expected")
    };
    deliver(&mut sessions, 4, accept.reply_session, SessionPacket::Ping { number: 1 }, NOW);
    assert!(!sessions.has_events() && sent(&mut sessions).is_empty());
}

/// As after SIGSTOP: the poll that answers OPEN still has the time from before.
#[test]
fn a_half_open_session_outlives_a_standstill_of_its_own_process() {
    let mut sessions = acceptor();
    deliver(&mut sessions, 3, WireSession::NONE, SessionPacket::Open(open(333, 0), Cookie::NONE), NOW);
    let [(_, _, SessionPacket::Accept(accept), _)] = sent(&mut sessions)[..] else {
        panic!("ACCEPT was expected")
    };
    let now = NOW + Duration::from_secs(60);
    sessions.handle_timeout(now);
    deliver(&mut sessions, 3, accept.reply_session, SessionPacket::Ping { number: 1 }, now);
    assert!(matches!(sent(&mut sessions)[..], [(PeerAddress(3), _, SessionPacket::Pong { number: 1 }, _)]));
    assert!(matches!(sessions.poll_event(), Some(SessionEvent::Up { .. })));
}

#[test]
fn nothing_from_elsewhere_reaches_a_session_though_it_names_all_numbers() {
    let mut sessions = acceptor();
    let (here, there) = connected(&mut sessions);
    let forged = [
        (here, SessionPacket::Close { incarnation: 333 }),
        (there, SessionPacket::Reset { life_code: life_code(333, there) }),
        (there, SessionPacket::Reset { life_code: 0 }),
    ];
    for (session, packet) in forged {
        deliver(&mut sessions, 4, session, packet, NOW);
        assert!(!sessions.has_events());
    }
    let mut head = Head::new();
    crate::wire::put_whole(&mut head, Flags::FROM_CALLER.with(Flags::CHECKSUM), here, CallKey::new(0, 1), 1);
    head.seal(&[]);
    let header = Header::parse(head.as_bytes()).expect("it has a header");
    assert_eq!(sessions.admit(PeerAddress(4), &header, head.as_bytes(), NOW), None);
    assert_eq!(sessions.admit(PeerAddress(3), &header, head.as_bytes(), NOW), Some(0));
}

#[test]
fn an_address_is_asked_for_what_only_it_can_read_before_a_session_moves_there() {
    let mut sessions = acceptor();
    let (here, there) = connected(&mut sessions);
    for _ in 0..100 {
        deliver(&mut sessions, 4, here, SessionPacket::Ping { number: 1 }, NOW);
    }
    let asked = sent(&mut sessions);
    let [(PeerAddress(4), session, SessionPacket::Ping { number }, _)] = asked[..] else {
        panic!("one PING was expected, not {asked:?}")
    };
    assert_eq!(session, there);
    deliver(&mut sessions, 4, here, SessionPacket::Pong { number: number ^ 1 }, NOW);
    deliver(&mut sessions, 5, here, SessionPacket::Pong { number }, NOW);
    assert!(!sessions.has_events());
    deliver(&mut sessions, 4, here, SessionPacket::Pong { number }, NOW);
    let id = SessionId(0);
    assert_eq!(sessions.poll_event(), Some(SessionEvent::Moved { id, to: PeerAddress(4) }));
    let addresses: Vec<AddressUse> = core::iter::from_fn(|| sessions.poll_address()).collect();
    let [first, fourth] = [PeerAddress(3), PeerAddress(4)];
    let expected = [AddressUse::Needed(first), AddressUse::Needed(fourth), AddressUse::Released(first)];
    assert_eq!(addresses, expected);
    assert!(sessions.any_to(fourth) && !sessions.any_to(first));
    // It answers there now, and the former address is elsewhere.
    deliver(&mut sessions, 4, here, SessionPacket::Ping { number: 2 }, NOW);
    assert!(matches!(sent(&mut sessions)[..], [(PeerAddress(4), _, SessionPacket::Pong { number: 2 }, _)]));
}

#[test]
fn a_reset_says_nothing_about_the_incarnation_and_yet_tells_lives_apart() {
    let mut sessions = acceptor();
    deliver(&mut sessions, 9, WireSession(99 << 16), SessionPacket::Ping { number: 1 }, NOW);
    let [(_, session, SessionPacket::Reset { life_code: code }, _)] = sent(&mut sessions)[..] else {
        panic!("RESET was expected")
    };
    assert_eq!(code, life_code(1, session));
    assert_ne!(code, life_code(2, session));
    for (life, reason) in [(333, EndReason::Closed), (334, EndReason::Restarted)] {
        let (_, there) = connected(&mut sessions);
        deliver(&mut sessions, 3, there, SessionPacket::Reset { life_code: life_code(life, there) }, NOW);
        let Some(SessionEvent::Down { reason: told, .. }) = sessions.poll_event() else {
            panic!("the session is over")
        };
        assert_eq!(told, reason);
    }
}

#[test]
fn an_opener_that_is_told_full_tries_again_until_it_gives_up() {
    let mut opener = acceptor();
    let id = opener.connect(PeerAddress(1), NOW).expect("there is room");
    let (mut now, mut opens) = (NOW, 0);
    while !opener.has_events() {
        for (_, _, packet, _) in sent(&mut opener) {
            let SessionPacket::Open(open, _) = packet else { panic!("OPEN was expected") };
            opens += 1;
            let refusal = SessionPacket::Refuse(RefuseReason::Full);
            deliver(&mut opener, 1, open.reply_session, refusal, now);
        }
        now = opener.next_deadline().expect("it tries again");
        opener.handle_timeout(now);
    }
    let reason = EndReason::Refused(RefuseReason::Full);
    assert_eq!(opener.poll_event(), Some(SessionEvent::Down { id, reason }));
    assert!(opens > 3 && now.since(NOW) >= SessionConfig::default().peer_timeout);
}
