//! Packets byte by byte, as `docs/protocol` shows them.

use std::collections::BTreeMap;

use super::*;
use crate::matching::{Notice, Tag};
use farcall_base::Identity;

const SESSION_DOC: &str = include_str!("../../../../docs/protocol/session.md");
const HOMA_DOC: &str = include_str!("../../../../docs/protocol/homa.md");
const LIBRARY_DOC: &str = include_str!("../../../../docs/protocol/library.md");
const BASIC_DOC: &str = include_str!("../../../../docs/protocol/basic.md");

const SESSION: WireSession = WireSession(0x1122_3344_5566_0007);

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn offer_packet() -> OfferPacket {
    OfferPacket {
        protocol: Protocol::Basic as u8,
        reply_session: WireSession(0x99aa_bbcc_ddee_0001),
        sender: Identity { incarnation: 0x0102_0304_0506_0708, rank: 3, endpoint: 1 },
        offer: Offer {
            message_bytes_max: 8 << 20,
            mtu_bytes: 1472,
            unscheduled_bytes: 64 << 10,
            calls_max: 256,
            checksum: true,
        },
        life: Some(life_port()),
    }
}

fn session_packets() -> Vec<(&'static str, WireSession, SessionPacket)> {
    let incarnation = 0x0102_0304_0506_0708;
    let cookie = Cookie { issued_at_nanos: 1_000_000_007, code: 0x1020_3040_5060_7080 };
    let life_code = life_code(incarnation, SESSION);
    let without_life = OfferPacket { life: None, ..offer_packet() };
    vec![
        ("OPEN", WireSession::NONE, SessionPacket::Open(offer_packet(), Cookie::NONE)),
        ("OPEN (no life port)", WireSession::NONE, SessionPacket::Open(without_life, Cookie::NONE)),
        ("OPEN (cookie)", WireSession::NONE, SessionPacket::Open(offer_packet(), cookie)),
        ("RETRY", SESSION, SessionPacket::Retry(cookie)),
        ("ACCEPT", SESSION, SessionPacket::Accept(offer_packet())),
        ("REFUSE (version)", SESSION, SessionPacket::Refuse(RefuseReason::Version { theirs: 2 })),
        ("REFUSE (protocol)", SESSION, SessionPacket::Refuse(RefuseReason::Protocol { theirs: 2 })),
        ("REFUSE (full)", SESSION, SessionPacket::Refuse(RefuseReason::Full)),
        ("REFUSE (limits)", SESSION, SessionPacket::Refuse(RefuseReason::Limits)),
        ("REFUSE (rank)", SESSION, SessionPacket::Refuse(RefuseReason::Rank)),
        ("CLOSE", SESSION, SessionPacket::Close { incarnation }),
        ("RESET", SESSION, SessionPacket::Reset { life_code }),
        ("PING", SESSION, SessionPacket::Ping { number: 0x1_0000_0007 }),
        ("PONG", SESSION, SessionPacket::Pong { number: 0x1_0000_0007 }),
        ("PROBE (of 22 bytes)", SESSION, SessionPacket::Probe { number: 3 }),
        ("PROBED", SESSION, SessionPacket::Probed { number: 3, bytes: 1372 }),
    ]
}

fn life_port() -> LifePort {
    let mut bytes = [0; LIFE_PORT_BYTES];
    bytes.iter_mut().zip(1..).for_each(|(byte, value)| *byte = value);
    LifePort(bytes)
}

type Put = fn(&mut Head, Flags, CallKey);

/// Name, flags beside the checksum, payload, and how the head is written.
fn message_packets() -> Vec<(&'static str, Flags, &'static [u8], Put)> {
    let (caller, server) = (Flags::FROM_CALLER, Flags::NONE);
    let again = server.with(Flags::RETRANSMISSION);
    vec![
        ("WHOLE (request)", caller, b"hello", |head, flags, key| put_whole(head, flags, SESSION, key, 17)),
        ("WHOLE (response, again)", again, b"", |head, flags, key| {
            put_whole(head, flags, SESSION, key, 0x109)
        }),
        ("FRAGMENT", caller, b"last", |head, flags, key| {
            put_fragment(head, flags, SESSION, key, 17, (2884, 2880));
        }),
        ("GRANT", server, b"", |head, flags, key| put_grant(head, flags, SESSION, key, 100_000)),
        ("RESEND", server, b"", |head, flags, key| {
            put_resend(head, flags, SESSION, key, [(0, 1440), (4320, 2880)]);
        }),
        ("RESEND (restart)", server.with(Flags::RESTART), b"", |head, flags, key| {
            put_resend(head, flags, SESSION, key, [(0, 65_536)]);
        }),
        ("BUSY", server, b"", |head, flags, key| put_bare(head, Opcode::Busy, flags, SESSION, key)),
        ("ACKNOWLEDGE", caller, b"", |head, flags, key| put_acknowledge(head, flags, SESSION, [key, key])),
    ]
}

/// As above, with arguments, and the packets that only homa has.
fn homa_packets() -> Vec<(&'static str, Flags, &'static [u8], Put)> {
    let (caller, server) = (Flags::FROM_CALLER, Flags::NONE);
    vec![
        ("WHOLE", caller.with_argument(3), b"hello", |head, flags, key| {
            put_whole(head, flags, SESSION, key, 17)
        }),
        ("FRAGMENT", caller.with_argument(15), b"last", |head, flags, key| {
            put_fragment(head, flags, SESSION, key, 17, (2884, 2880));
        }),
        ("GRANT", server.with_argument(2), b"", |head, flags, key| {
            put_grant(head, flags, SESSION, key, 100_000)
        }),
        ("RESEND", server.with_argument(7), b"", |head, flags, key| {
            put_resend(head, flags, SESSION, key, [(0, 1440), (4320, 2880)]);
        }),
        ("CUTOFFS", server, b"", |head, flags, _| {
            let cutoffs = Cutoffs::new(9, 7, &[300, 1500, 15_000]).expect("they ascend");
            put_cutoffs(head, flags, SESSION, &cutoffs);
        }),
        ("NEED ACKNOWLEDGE", server, b"", |head, flags, key| {
            put_bare(head, Opcode::NeedAcknowledge, flags, SESSION, key);
        }),
    ]
}

/// The lines `name: bytes` of all blocks of golden packets in a document.
pub(crate) fn documented(document: &str) -> BTreeMap<String, String> {
    let blocks = document.split("```golden\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.split_once(": "));
    lines.map(|(name, bytes)| (name.trim().to_owned(), bytes.trim().to_owned())).collect()
}

#[test]
fn session_packets_are_as_documented_and_read_back() {
    let mut built = BTreeMap::new();
    for (name, session, packet) in session_packets() {
        let mut head = Head::new();
        packet.put(session, &mut head);
        let bytes = head.as_bytes();
        assert!(checksum_matches(bytes));
        let header = Header::parse(bytes).expect("it has a header");
        assert_eq!((header.session, SessionPacket::parse(&header, bytes)), (session, Ok(packet)));
        built.insert(name.to_owned(), hex(bytes));
    }
    built.insert("PART".to_owned(), hex(&part(5, 2, 1, b"lo")));
    assert_eq!(built, documented(SESSION_DOC));
}

fn part(total: u32, count: u16, index: u16, bytes: &[u8]) -> Vec<u8> {
    let mut head = Head::new();
    put_part(&mut head, SESSION, &Part { number: 3, total, count, index, bytes });
    [head.as_bytes(), bytes].concat()
}

#[test]
fn parts_are_read_back_where_they_lie_in_their_packet() {
    let packet: Vec<u8> = (0..=255).collect();
    for count in [2_u16, 3, 7, 16] {
        let length = packet.len().div_ceil(usize::from(count));
        for (bytes, index) in packet.chunks(length).zip(0..) {
            let part = part(256, count, index, bytes);
            let header = Header::parse(&part).expect("it has a header");
            let read = Part::parse(&header, &part).expect("it is one");
            assert_eq!((read.offset(), read.bytes), (usize::from(index) * length, bytes));
            assert!(Part::parse(&header, &part[..part.len() - 1]).is_err(), "one that was cut off");
        }
    }
}

/// The packets by name, after each was read back.
fn built(
    packets: Vec<(&'static str, Flags, &'static [u8], Put)>,
    protocol: Protocol,
) -> BTreeMap<String, String> {
    let mut built = BTreeMap::new();
    let key = CallKey::new(5, 0x0102_0304);
    for (name, flags, payload, put) in packets {
        let mut head = Head::new();
        put(&mut head, flags.with(Flags::CHECKSUM), key);
        head.seal(payload);
        let bytes = [head.as_bytes(), payload].concat();
        assert!(checksum_matches(&bytes));
        let header = Header::parse(&bytes).expect("it has a header");
        assert!(MessagePacket::parse(&header, &bytes, protocol).is_ok(), "{name} is read back");
        assert!(header.call == key || matches!(header.opcode, Opcode::Acknowledge | Opcode::Cutoffs));
        built.insert(name.to_owned(), hex(&bytes));
    }
    built
}

#[test]
fn message_packets_are_as_documented_and_read_back() {
    assert_eq!(built(message_packets(), Protocol::Basic), documented(BASIC_DOC));
    built(message_packets(), Protocol::Homa);
    assert_eq!(built(homa_packets(), Protocol::Homa), documented(HOMA_DOC));
}

#[test]
fn heads_of_messages_over_libraries_are_as_documented_and_read_back() {
    let mut built = BTreeMap::new();
    for (name, flags, tag) in [("REQUEST", Flags::FROM_CALLER, 17), ("RESPONSE", Flags::NONE, 0x109)] {
        let mut head = Head::new();
        put_whole(&mut head, flags, SESSION, CallKey::from_wire(0x0102_0304), tag);
        let header = Header::parse(head.as_bytes()).expect("it has a header");
        let read = MessagePacket::parse(&header, head.as_bytes(), Protocol::Library);
        assert_eq!(read, Ok(MessagePacket::Whole { tag, payload: b"" }));
        built.insert(name.to_owned(), hex(head.as_bytes()));
    }
    built.extend(tagged_packets());
    let brief = BriefHead { session: SESSION, number: 3, tag: Tag(0x0102_0304) };
    built.insert("TAGGED (brief)".to_owned(), hex(&brief.to_bytes()));
    assert_eq!(built, documented(LIBRARY_DOC));
}

#[test]
fn a_brief_head_says_what_a_tagged_does_and_is_known_by_its_length() {
    let brief = BriefHead { session: SESSION, number: u32::MAX, tag: Tag(0x0102_0304) };
    let bytes = brief.to_bytes();
    assert_eq!(BriefHead::parse(&bytes), Some(brief));
    let mut head = Head::new();
    put_tagged(&mut head, SESSION, TaggedPacket::One { number: brief.number, tag: brief.tag });
    assert_eq!(Header::parse(head.as_bytes()), Ok(brief.header()));
    assert_eq!(BriefHead::parse(&bytes[1..]), None);
    assert_eq!(BriefHead::parse(head.as_bytes()), None);
}

#[test]
fn basic_has_no_arguments_and_of_homas_packets_one() {
    let key = CallKey::new(5, 0x0102_0304);
    for (name, flags, payload, put) in homa_packets() {
        let mut head = Head::new();
        put(&mut head, flags, key);
        let bytes = [head.as_bytes(), payload].concat();
        let header = Header::parse(&bytes).expect("it has a header");
        let is_of_both = header.opcode == Opcode::NeedAcknowledge;
        assert_eq!(MessagePacket::parse(&header, &bytes, Protocol::Basic).is_ok(), is_of_both, "{name}");
    }
}

/// The packets of tagged messages, after each was read back.
fn tagged_packets() -> BTreeMap<String, String> {
    let mut batch = Vec::new();
    put_entry(&mut batch, Tag(7), b"x");
    put_entry(&mut batch, Tag(8), b"");
    let entries: Vec<_> = Batch::new(&batch).map(|entry| entry.expect("whole")).collect();
    assert_eq!(entries, [(Tag(7), &b"x"[..]), (Tag(8), b"")]);
    let credit = |reads| TaggedPacket::Credit {
        reads_brief: reads,
        reads_notices: reads,
        consumed: 42,
        limit: 0x4000,
    };
    let (code, tag, lines) = Notice::Beyond { tag: Tag(0x0102_0304), lines: 9 }.to_wire();
    let beyond = TaggedPacket::Notice { number: 5, code: code as u8, tag: Tag(tag) };
    let packets = [
        ("TAGGED", TaggedPacket::One { number: 3, tag: Tag(0x0102_0304) }, Vec::new()),
        ("BATCH", TaggedPacket::Batch { number: 4 }, batch),
        ("NOTICE (4, of 9 lines)", beyond, lines.to_le_bytes().to_vec()),
        ("CREDIT", credit(true), Vec::new()),
        ("CREDIT (no brief heads, no notices)", credit(false), Vec::new()),
    ];
    let built = packets.into_iter().map(|(name, packet, payload)| {
        let mut head = Head::new();
        put_tagged(&mut head, SESSION, packet);
        let header = Header::parse(head.as_bytes()).expect("it has a header");
        assert_eq!(TaggedPacket::parse(&header, head.as_bytes()), Ok(Some(packet)));
        (name.to_owned(), hex(&[head.as_bytes(), &payload].concat()))
    });
    built.collect()
}

#[test]
fn packets_of_tagged_messages_that_say_nothing_are_refused() {
    for (opcode, both) in [(Opcode::TaggedBatch, 1 << 32), (Opcode::TaggedCredit, 1)] {
        let mut head = Head::new();
        put_bare(&mut head, opcode, Flags::NONE, SESSION, CallKey::from_wire(both));
        let header = Header::parse(head.as_bytes()).expect("it has a header");
        assert!(TaggedPacket::parse(&header, head.as_bytes()).is_err(), "{opcode:?}");
    }
    let mut head = Head::new();
    put_tagged(&mut head, SESSION, TaggedPacket::Batch { number: 1 });
    let longer = [head.as_bytes(), &[0]].concat();
    let header = Header::parse(&longer).expect("it has a header");
    assert!(TaggedPacket::parse(&header, &longer).is_err());
}

#[test]
fn messages_of_a_batch_begin_at_whole_words_with_clear_bytes_between_them() {
    let bytes: Vec<u8> = (1..=40).collect();
    let (mut batch, mut expected) = (Vec::new(), Vec::new());
    for length in 0..=bytes.len() {
        put_entry(&mut batch, Tag(9), &bytes[..length]);
        expected.extend_from_slice(&[9, 0, 0, 0, length as u8, 0, 0, 0]);
        expected.extend_from_slice(&bytes[..length]);
        expected.resize(expected.len().next_multiple_of(8), 0);
    }
    assert_eq!(batch, expected);
    let lengths = Batch::new(&batch).map(|entry| entry.map(|(_, message)| message.len()));
    assert!(lengths.eq((0..=bytes.len()).map(Ok)));
}

#[test]
fn batches_that_end_in_the_middle_are_refused_where_they_end() {
    let mut batch = Vec::new();
    put_entry(&mut batch, Tag(7), b"whole");
    put_entry(&mut batch, Tag(8), b"cut short");
    for length in 0..batch.len() {
        let read: Vec<_> = Batch::new(&batch[..length]).collect();
        let whole = usize::from(length >= 16);
        assert!(read[..whole].iter().all(Result::is_ok), "{length} bytes");
        let ends_well = length == 0 || length == 16;
        assert_eq!(read.len() == whole, ends_well, "{length} bytes");
        assert!(read[whole..].iter().all(Result::is_err), "{length} bytes");
    }
    let endless = [7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1];
    assert!(Batch::new(&endless).all(|entry| entry.is_err()));
}

#[test]
fn impossible_cutoffs_are_refused() {
    assert_eq!(Cutoffs::new(0, 7, &[]), None, "version 0 is none");
    assert_eq!(Cutoffs::new(16, 7, &[]), None, "four bits hold no more");
    assert_eq!(Cutoffs::new(1, 8, &[]), None, "there is no such priority");
    assert_eq!(Cutoffs::new(1, 1, &[1, 2]), None, "more levels than there are");
    assert_eq!(Cutoffs::new(1, 7, &[2, 2]), None, "not ascending");
    let cutoffs = Cutoffs::new(15, 7, &[1, 2, 3, 4, 5, 6, 7]).expect("these are possible");
    let mut head = Head::new();
    put_cutoffs(&mut head, Flags::NONE, SESSION, &cutoffs);
    let read = |bytes: &[u8]| {
        let header = Header::parse(bytes).expect("it has a header");
        MessagePacket::parse(&header, bytes, Protocol::Homa).ok().map(|packet| format!("{packet:?}"))
    };
    assert_eq!(read(head.as_bytes()), Some(format!("{:?}", MessagePacket::Cutoffs(cutoffs))));
    assert_eq!(read(&[head.as_bytes(), &[9, 0, 0, 0]].concat()), None, "one too many");
    for (at, byte) in [(5, 0), (22, 8), (22, 6), (23, 2)] {
        let mut bytes = head.as_bytes().to_vec();
        bytes[at] = byte;
        assert_eq!(read(&bytes), None, "byte {at} is {byte}");
    }
    (22..head.as_bytes().len()).filter(|end| end % 4 != 3).for_each(|end| {
        assert_eq!(read(&head.as_bytes()[..end]), None, "cut after {end} bytes");
    });
}

#[test]
fn lengths_have_the_priorities_of_the_cutoffs() {
    let cutoffs = Cutoffs::new(1, 6, &[300, 1500]).expect("they ascend");
    let priorities = [0, 300, 301, 1500, 1501, u32::MAX].map(|length| cutoffs.priority(length));
    assert_eq!(priorities, [6, 6, 5, 5, 4, 4]);
    assert_eq!(Cutoffs::unknown(3).priority(9), 3);
}

#[test]
fn lists_and_pieces_are_read_back_as_they_were_written() {
    let (key, mut head) = (CallKey::new(5, 9), Head::new());
    put_resend(&mut head, Flags::NONE, SESSION, key, [(0, 1440), (4320, 2880)]);
    let header = Header::parse(head.as_bytes()).expect("it has a header");
    let Ok(MessagePacket::Resend { ranges, .. }) =
        MessagePacket::parse(&header, head.as_bytes(), Protocol::Basic)
    else {
        panic!("a RESEND")
    };
    assert_eq!(ranges.iter().collect::<Vec<_>>(), [(0, 1440), (4320, 2880)]);
    put_acknowledge(&mut head, Flags::NONE, SESSION, (0..40).map(|slot| CallKey::new(slot, 9)));
    let header = Header::parse(head.as_bytes()).expect("it has a header");
    let Ok(MessagePacket::Acknowledge { calls }) =
        MessagePacket::parse(&header, head.as_bytes(), Protocol::Basic)
    else {
        panic!("an ACKNOWLEDGE")
    };
    assert_eq!(calls.iter().count(), CALLS_PER_ACK_MAX);
    put_fragment(&mut head, Flags::NONE, SESSION, key, 17, (2884, 2880));
    let bytes = [head.as_bytes(), b"last"].concat();
    let header = Header::parse(&bytes).expect("it has a header");
    let piece = MessagePacket::Fragment { tag: 17, total: 2884, offset: 2880, payload: b"last" };
    assert_eq!(MessagePacket::parse(&header, &bytes, Protocol::Basic), Ok(piece));
}

#[test]
fn what_no_correct_peer_sends_is_refused() {
    let (key, mut head) = (CallKey::new(5, 9), Head::new());
    let refused = |bytes: &[u8]| match Header::parse(bytes) {
        Ok(header) if header.opcode.is_of_session() => SessionPacket::parse(&header, bytes).is_err(),
        Ok(header) => MessagePacket::parse(&header, bytes, Protocol::Basic).is_err(),
        Err(_) => true,
    };
    for (_, session, packet) in session_packets() {
        packet.put(session, &mut head);
        // Without what comes last these are packets, too.
        let whole_at = match packet {
            SessionPacket::Open(..) => 64 + LIFE_PORT_BYTES,
            _ => usize::MAX,
        };
        let shorter = (0..head.as_bytes().len()).filter(|end| *end != whole_at);
        shorter.for_each(|end| assert!(refused(&head.as_bytes()[..end]), "{packet:?} cut to {end}"));
    }
    put_fragment(&mut head, Flags::NONE, SESSION, key, 17, (2884, 2880));
    assert!(refused(head.as_bytes()), "an empty piece");
    assert!(refused(&[head.as_bytes(), b"too long"].concat()), "a piece beyond the end");
    put_grant(&mut head, Flags::NONE, SESSION, key, 1);
    assert!(refused(&[head.as_bytes(), &[0]].concat()), "a byte too many");
    put_resend(&mut head, Flags::NONE, SESSION, key, []);
    assert!(refused(head.as_bytes()), "an empty list");
    for (at, byte) in [(4, 0), (4, 8), (4, 27), (4, 28), (4, 99), (5, 16), (5, 128)] {
        put_whole(&mut head, Flags::NONE, SESSION, key, 17);
        let mut bytes = head.as_bytes().to_vec();
        bytes[at] = byte;
        assert!(refused(&bytes), "opcode or flag {byte}");
    }
}
