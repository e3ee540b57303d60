//! Packets of sessions with keys, byte by byte, as `docs/protocol/keys.md` and
//! `identities.md` there show them.

use std::collections::BTreeMap;
use std::sync::Arc;

use farcall_base::{ClusterKey, PrivateKey};

use super::super::*;
use crate::keys::{Identities, Keyring, KnownPeer, public_half};
use crate::wire::tests::{documented, hex};
use crate::wire::{Cookie, Header, IDENTIFIED_VERSION, Opcode, put_coded};

const KEYS_DOC: &str = include_str!("../../../../../docs/protocol/keys.md");
const IDENTITIES_DOC: &str = include_str!("../../../../../docs/protocol/identities.md");

fn ring() -> Keyring {
    Keyring::new(vec![ClusterKey::new([7; 32])]).expect("it is one key")
}

fn identified(number: u64) -> Keyring {
    let private = |number: u64| PrivateKey::new([number as u8; 32]);
    let known = |number| KnownPeer { name: format!("{number}").into(), key: public_half(&private(number)) };
    let identities = Identities::new(private(number), [1, 2, 3].map(known).into());
    ring().identified_by(Arc::new(identities.expect("they are keys")))
}

fn side(number: u64, ring: Keyring) -> Sessions {
    let identity = Identity { incarnation: 0x0102_0304_0506_0700 + number, rank: number as u32, endpoint: 0 };
    let entropy = Entropy::repeatable(number);
    let made = Sessions::new(SessionConfig::default(), Protocol::Basic, identity, entropy);
    let mut sessions = made.expect("the configuration is valid");
    sessions.set_keys(ring, Entropy::repeatable(100 + number));
    sessions
}

/// Hands all that `from` sends to `to`, and writes it down.
fn pass(from: &mut Sessions, to: &mut Sessions, address: u32, seen: &mut Vec<Vec<u8>>) {
    let (mut head, now) = (Head::new(), Instant::from_nanos(1));
    while from.poll_transmit(&mut head).is_some() {
        let (packet, mut room) = (head.as_bytes().to_vec(), Vec::new());
        let opened = to.open(PeerAddress(address), &packet, &mut room, now).expect("it is authentic");
        let header = Header::parse(opened.bytes()).expect("it has a header");
        to.handle(PeerAddress(address), || None, &header, opened.bytes(), now);
        seen.push(packet);
    }
}

#[test]
fn packets_with_keys_are_as_documented() {
    let (mut opener, mut acceptor, mut seen) = (side(1, ring()), side(2, ring()), Vec::new());
    let id = opener.connect(PeerAddress(2), Instant::from_nanos(1)).expect("there is room");
    for _ in 0..2 {
        pass(&mut opener, &mut acceptor, 1, &mut seen);
        pass(&mut acceptor, &mut opener, 2, &mut seen);
    }
    opener.close(id);
    pass(&mut opener, &mut acceptor, 1, &mut seen);
    let session = WireSession(0x1122_3344_5566_0007);
    let cookie = Cookie { issued_at_nanos: 1_000_000_007, code: 0x1020_3040_5060_7080 };
    for packet in [
        SessionPacket::Retry(cookie),
        SessionPacket::Refuse(RefuseReason::Full),
        SessionPacket::Reset { life_code: 0x4400_5ffd_fc23_abf5 },
    ] {
        let mut head = Head::new();
        let sender = Identity { incarnation: 0x0102_0304_0506_0702, rank: 2, endpoint: 0 };
        put_coded(&packet, session, ring().own(), &sender, &mut head);
        seen.push(head.as_bytes().to_vec());
    }
    let mut head = Head::new();
    SessionPacket::Refuse(RefuseReason::OtherKey).put(session, &mut head);
    seen.push(head.as_bytes().to_vec());
    check(&seen, KEYS_DOC);
}

/// The opener knows three peers, and so asks first who is there.
#[test]
fn packets_with_identities_are_as_documented() {
    let (mut opener, mut acceptor) = (side(1, identified(1)), side(2, identified(2)));
    let mut seen = Vec::new();
    opener.connect(PeerAddress(2), Instant::from_nanos(1)).expect("there is room");
    for _ in 0..2 {
        pass(&mut opener, &mut acceptor, 1, &mut seen);
        pass(&mut acceptor, &mut opener, 2, &mut seen);
    }
    assert!(opener.has_events(), "the session is up");
    let (session, mut head) = (WireSession(0x1122_3344_5566_0007), Head::new());
    let sender = Identity { incarnation: 0x0102_0304_0506_0702, rank: 2, endpoint: 0 };
    put_coded(
        &SessionPacket::Refuse(RefuseReason::IdentityUnknown),
        session,
        ring().own(),
        &sender,
        &mut head,
    );
    seen.push(head.as_bytes().to_vec());
    check(&seen, IDENTITIES_DOC);
}

/// Compares packets with what a page shows.
fn check(seen: &[Vec<u8>], doc: &str) {
    let name = |packet: &[u8]| match Header::parse(packet).expect("it has a header").opcode {
        Opcode::Refuse if packet.len() == 26 => "REFUSE (stranger)",
        Opcode::Open if packet[22] == IDENTIFIED_VERSION && packet[40..48] == [0; 8] => "OPEN (asks)",
        Opcode::Open => "OPEN",
        Opcode::Accept => "ACCEPT",
        Opcode::Refuse => "REFUSE",
        Opcode::Retry => "RETRY",
        Opcode::Reset => "RESET",
        Opcode::Ping => "PING",
        Opcode::Pong => "PONG",
        Opcode::Close => "CLOSE",
        other => panic!("{other:?} is no packet of a session"),
    };
    let built: BTreeMap<_, _> = seen.iter().map(|packet| (name(packet).to_owned(), hex(packet))).collect();
    let lines: Vec<_> = built.iter().map(|(name, bytes)| format!("{name}: {bytes}")).collect();
    assert_eq!(built, documented(doc), "\n{}\n", lines.join("\n"));
}
