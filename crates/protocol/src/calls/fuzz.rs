//! Hostile packets against live state machines, as pure functions of some bytes.
//!
//! The bytes are read as a list of commands. Most of them are packets with a header that is right enough to
//! get in: numbers of real sessions and slots are filled in and the checksum is put right, because a fuzzer
//! does not guess them. After every command the invariants are checked, among them what it may cost: bytes
//! that leave for bytes that came and were asked for, bytes that are held, slots that are looked at. At the
//! end an honest peer must still be served.

use core::time::Duration;

use crate::session::{PeerAddress, SessionConfig, SessionEvent, SessionId};
use crate::wire::{Flags, Head, Header, MessagePacket, Opcode, Part, Protocol, checksum_of, put_part};
use farcall_base::{Entropy, Identity, Instant};

use super::{Calls, Delivery, Payload, Policy};

/// The most commands of one input; what follows is ignored.
const COMMANDS_MAX: usize = 512;

const RESEND_INTERVAL: Duration = Duration::from_millis(2);

/// The attacked endpoint, the one whose session is abused, and an honest one.
const TARGET: usize = 0;
const ABUSED: usize = 1;
const HONEST: usize = 2;

/// An address that never proves that anybody reads what is sent there.
const STRANGER: usize = 3;

/// The longest message, and the length of the first part that needs no grant.
const MESSAGE_BYTES_MAX: u32 = 20_000;
const UNSCHEDULED_BYTES: u32 = 4000;

/// What the target may hold in one session.
const SESSION_BYTES_MAX: usize = 60_000;

/// The most calls of a session, each way.
const CALLS_MAX: u16 = 8;

/// What the probes of a search for the longest packet take: one of the full length, and five rounds of those
/// that are tried.
const SEARCH_BYTES_MAX: u64 = 1472 + 5 * 8800;

/// Ticks within which each call of the honest peer is answered, whatever the others do.
const HONEST_TICKS_MAX: u32 = 500;

/// A tick.
const TICK_NANOS: u64 = 1_000_000;

/// Bytes of a piece of a long message.
const FRAGMENT_BYTES: u32 = 1472 - 32;

struct Arena<P: Policy> {
    ends: Vec<Calls<Vec<u8>, P>>,
    sessions: Vec<Option<SessionId>>,
    now: Instant,
    /// Calls of the target that were made and are not over.
    open_calls: Vec<(SessionId, u32)>,
    honest_answers: u32,
    abused: Traffic,
    stranger: Traffic,
}

/// What passed between the target and one address.
#[derive(Default)]
struct Traffic {
    /// Bytes that came from there.
    received: u64,
    /// Bytes of results that these asked for.
    asked: u64,
    /// Bytes that were sent there: to the abused peer those of its own calls.
    sent: u64,
}

/// Reads `bytes` as packets of any kind within the abused session.
pub(crate) fn fuzz_messages<P: Policy>(bytes: &[u8], policy: impl Fn() -> P) {
    let mut arena = Arena::new(policy);
    let mut rest = bytes;
    for _ in 0..COMMANDS_MAX {
        let Some((&[command, length], tail)) = rest.split_first_chunk::<2>() else { break };
        let (body, tail) = tail.split_at(tail.len().min(usize::from(length)));
        rest = tail;
        match command % 8 {
            0 => arena.pass_time(u64::from(length) * 300_000),
            1 => arena.call(u32::from(command)),
            2 => arena.cancel(usize::from(command)),
            3 if command >= 128 => arena.attack_with_part(body),
            3 => arena.attack_with_piece(body),
            _ => arena.attack_in_session(body),
        }
        arena.check();
    }
    arena.finish();
}

/// Reads `bytes` as packets about sessions: raw, or with a checksum put right.
pub(crate) fn fuzz_sessions<P: Policy>(bytes: &[u8], policy: impl Fn() -> P) {
    let mut arena = Arena::new(policy);
    let mut rest = bytes;
    for _ in 0..COMMANDS_MAX {
        let Some((&[command, length], tail)) = rest.split_first_chunk::<2>() else { break };
        let (body, tail) = tail.split_at(tail.len().min(usize::from(length)));
        rest = tail;
        match command % 4 {
            0 => arena.pass_time(u64::from(length) * 300_000),
            1 if command >= 128 => arena.deliver(STRANGER, body),
            1 => arena.deliver(ABUSED, body),
            2 if command >= 128 => arena.deliver(STRANGER, &sealed(body)),
            2 => arena.deliver(ABUSED, &sealed(body)),
            _ => arena.attack_session_itself(body),
        }
        arena.check();
    }
    arena.finish();
}

impl<P: Policy> Arena<P> {
    fn new(policy: impl Fn() -> P) -> Self {
        let mut config = SessionConfig::default();
        config.offer.message_bytes_max = MESSAGE_BYTES_MAX;
        config.offer.unscheduled_bytes = UNSCHEDULED_BYTES;
        config.offer.calls_max = CALLS_MAX;
        config.session_bytes_max = SESSION_BYTES_MAX;
        let end = |rank: usize| {
            let identity = Identity { incarnation: rank as u64 + 1, rank: rank as u32, endpoint: 0 };
            Calls::with_policy(policy(), config, RESEND_INTERVAL, identity, Entropy::repeatable(rank as u64))
                .expect("the configuration is valid")
        };
        let ends = (0..3).map(end).collect();
        let now = Instant::from_nanos(1);
        let (sessions, open_calls) = (vec![None; 3], Vec::new());
        let mut arena = Self {
            ends,
            sessions,
            now,
            open_calls,
            honest_answers: 0,
            abused: Traffic::default(),
            stranger: Traffic::default(),
        };
        for peer in [ABUSED, HONEST] {
            let id =
                arena.ends[peer].connect(PeerAddress(TARGET as u32), now).expect("the first session fits");
            arena.sessions[peer] = Some(id);
        }
        arena.exchange();
        arena
    }

    /// A packet in the abused session: the first bytes choose opcode, flags and call, the rest is its body.
    fn attack_in_session(&mut self, body: &[u8]) {
        if let Some((&[opcode, flags, slot, sequence], body)) = body.split_first_chunk::<4>() {
            self.attack(19 + opcode % 10, flags, u64::from(sequence) << 16 | u64::from(slot % 10), body);
        }
    }

    /// A piece of a long message that is likely to fit together with others.
    fn attack_with_piece(&mut self, body: &[u8]) {
        let Some(&[flags, slot, sequence, place, length]) = body.first_chunk::<5>() else { return };
        let total = 1449 + FRAGMENT_BYTES * u32::from(length % 8);
        let offset = FRAGMENT_BYTES * u32::from(place % 8);
        let fitting = FRAGMENT_BYTES.min(total.saturating_sub(offset));
        let mut piece = vec![0; 2];
        piece.extend_from_slice(&total.to_le_bytes());
        piece.extend_from_slice(&offset.to_le_bytes());
        piece.resize(piece.len() + fitting as usize + usize::from(length / 250), 7);
        let call = u64::from(sequence % 4) << 16 | u64::from(slot % 8);
        self.attack(Opcode::Fragment as u8, flags, call, &piece);
    }

    /// A part of a packet of a message that the attacker has cut, or of one that it has not.
    fn attack_with_part(&mut self, body: &[u8]) {
        let Some((&[number, count, index, opcode, slot, sequence], body)) = body.split_first_chunk::<6>()
        else {
            return;
        };
        let call = u64::from(sequence % 4) << 16 | u64::from(slot % 8);
        let payload = [&[0, 1][..], body, &[3; 200]].concat();
        let Some(whole) = self.packet(19 + opcode % 10, 1, call, &payload) else { return };
        let (count, index) = (u16::from(count % 8), u16::from(index % 8));
        let total = whole.len() + usize::from(number / 250);
        let length = total.div_ceil(usize::from(count.max(1)));
        let bytes = whole.chunks(length).nth(usize::from(index)).unwrap_or_default();
        let number = u64::from(number % 4);
        let part = Part { number, total: total as u32, count, index, bytes };
        let mut head = Head::new();
        let Ok(header) = Header::parse(&whole) else { return };
        put_part(&mut head, header.session, &part);
        self.deliver(ABUSED, &[head.as_bytes(), bytes].concat());
    }

    /// A packet about the abused session with one of its real numbers.
    fn attack_session_itself(&mut self, body: &[u8]) {
        if let Some((&[opcode, flags, incarnation], body)) = body.split_first_chunk::<3>() {
            let mut session_body = u64::from(incarnation % 4).to_le_bytes().to_vec();
            session_body.extend_from_slice(body);
            self.attack(opcode % 11, flags, 0, &session_body);
        }
    }

    /// Delivers a packet of the abused session. The number is the target's own, or the other side's for a
    /// RESET.
    fn attack(&mut self, opcode: u8, flags: u8, call: u64, body: &[u8]) {
        if let Some(packet) = self.packet(opcode, flags, call, body) {
            self.deliver(ABUSED, &packet);
        }
    }

    /// Such a packet, if there is a session.
    fn packet(&self, opcode: u8, flags: u8, call: u64, body: &[u8]) -> Option<Vec<u8>> {
        let of_target = self.target_session_with(ABUSED).and_then(|id| self.ends[TARGET].link(id));
        let of_abused = self.sessions[ABUSED].and_then(|id| self.ends[ABUSED].link(id));
        let link = if opcode == Opcode::Reset as u8 { of_target } else { of_abused };
        let number = link?.remote;
        // Arguments are of use in homa only.
        let flags = if P::PROTOCOL == Protocol::Homa { flags } else { flags % 16 };
        let mut packet = vec![0, 0, 0, 0, opcode, flags | 8];
        packet.extend_from_slice(&number.0.to_le_bytes());
        packet.extend_from_slice(&call.to_le_bytes());
        packet.extend_from_slice(body);
        Some(sealed(&packet))
    }

    fn deliver(&mut self, from: usize, packet: &[u8]) {
        self.count_received(from, packet);
        let delivery = self.ends[TARGET].handle(PeerAddress(from as u32), packet, self.now);
        self.react(TARGET, delivery);
        self.exchange();
    }

    fn call(&mut self, call: u32) {
        let Some(session) = self.target_session_with(ABUSED) else { return };
        let bytes = vec![1; (call as usize * 97) % 20_000];
        let known = self.open_calls.contains(&(session, call));
        if !known && self.ends[TARGET].call(session, call, 1, Payload::Owned(bytes)).is_ok() {
            self.open_calls.push((session, call));
        }
    }

    fn cancel(&mut self, which: usize) {
        if !self.open_calls.is_empty() {
            let (session, call) = self.open_calls.swap_remove(which % self.open_calls.len());
            self.ends[TARGET].cancel(session, call);
        }
    }

    fn target_session_with(&self, peer: usize) -> Option<SessionId> {
        let channels = self.ends[TARGET].channels.iter().flatten();
        let mut ids = channels.map(|channel| channel.id);
        ids.find(|id| self.ends[TARGET].link(*id).is_some_and(|link| link.peer.rank as usize == peer))
    }

    fn react(&mut self, end: usize, delivery: Option<Delivery>) {
        while let Some(event) = self.ends[end].poll_event() {
            if let SessionEvent::Down { id, .. } = event
                && end == TARGET
            {
                self.open_calls.retain(|(session, _)| *session != id);
            }
        }
        match delivery {
            None => {}
            Some(Delivery::Request { session, request, service, .. }) => {
                let answer = vec![2; usize::from(service) % 20_001];
                let replied = self.ends[end].reply(session, request, 0, Payload::Owned(answer));
                replied.expect("the answer is within the limit");
            }
            Some(Delivery::Response { session, call, .. }) if end == TARGET => {
                let open = self.open_calls.iter().position(|it| *it == (session, call));
                self.open_calls.swap_remove(open.expect("a response belongs to an open call"));
            }
            Some(Delivery::Response { .. }) => self.honest_answers += u32::from(end == HONEST),
        }
    }

    /// Moves packets until none is left. Every packet that goes in must lead to a bounded number of others.
    fn exchange(&mut self) {
        let mut head = Head::new();
        for _ in 0..COMMANDS_MAX {
            let mut any = false;
            for from in 0..self.ends.len() {
                while let Some(packet) = self.ends[from].poll_transmit(self.now, &mut head) {
                    any = true;
                    let (to, bytes) = (packet.to.0 as usize, [packet.head, packet.payload].concat());
                    if from == TARGET {
                        self.count_sent(to, &bytes);
                    } else if to == TARGET {
                        self.count_received(from, &bytes);
                    }
                    if to == STRANGER {
                        continue;
                    }
                    let delivery = self.ends[to].handle(PeerAddress(from as u32), &bytes, self.now);
                    self.react(to, delivery);
                }
            }
            if !any {
                return;
            }
        }
        panic!("the ends do not stop talking");
    }

    fn count_received(&mut self, from: usize, packet: &[u8]) {
        let traffic = match from {
            ABUSED => &mut self.abused,
            STRANGER => &mut self.stranger,
            _ => return,
        };
        traffic.received += packet.len() as u64;
        traffic.asked += asked_by::<P>(packet);
    }

    fn count_sent(&mut self, to: usize, packet: &[u8]) {
        let Ok(header) = Header::parse(packet) else { return };
        let is_of_its_calls = !header.flags.has(Flags::FROM_CALLER)
            && matches!(
                header.opcode,
                Opcode::Whole | Opcode::Fragment | Opcode::Grant | Opcode::Busy | Opcode::NeedAcknowledge
            );
        match to {
            ABUSED if is_of_its_calls => self.abused.sent += packet.len() as u64,
            STRANGER => self.stranger.sent += packet.len() as u64,
            _ => {}
        }
    }

    fn pass_time(&mut self, nanos: u64) {
        self.now = Instant::from_nanos(self.now.as_nanos() + nanos);
        for end in 0..self.ends.len() {
            self.ends[end].handle_timeout(self.now);
            self.react(end, None);
        }
        self.exchange();
    }

    fn check(&self) {
        self.ends.iter().for_each(Calls::check_policy);
        for channel in self.ends[TARGET].channels.iter().flatten() {
            assert!(channel.callers.len() <= usize::from(CALLS_MAX));
            assert!(channel.servers.len() <= usize::from(CALLS_MAX));
            // One result may be over the limit.
            assert!(channel.held_bytes <= SESSION_BYTES_MAX + MESSAGE_BYTES_MAX as usize);
            assert_eq!(channel.held_bytes, channel.held_in_slots(), "the count is right");
            assert!(channel.ticking.len() <= channel.callers.len() + channel.servers.len());
            assert!(channel.acknowledged.len() <= channel.callers.len());
        }
        let counters = self.ends[TARGET].counters();
        assert!(
            counters.slots_ticked <= counters.ticks * 4 * u64::from(CALLS_MAX),
            "idle slots are not looked at"
        );
        let searches = self.ends[TARGET].sessions().counters().path_searches;
        // Of either session one a second.
        assert!(searches <= 2 * (1 + self.now.as_nanos() / 1_000_000_000), "{searches} searches");
        let Traffic { received, asked, sent } = self.abused;
        assert!(
            sent <= 3 * received + asked * 6 / 5 + searches * SEARCH_BYTES_MAX,
            "{sent} bytes sent: {received} came, {asked} were asked for"
        );
        let Traffic { received, sent, .. } = self.stranger;
        assert!(sent <= 3 * received, "{sent} bytes sent where {received} came from");
    }

    /// Whatever happened to the abused session, the honest one works.
    fn finish(&mut self) {
        let session = self.sessions[HONEST].expect("it connected");
        for call in 0..3 {
            let payload = Payload::Owned(vec![5; 9000 * call as usize]);
            let made = self.ends[HONEST].call(session, call, 30, payload);
            made.expect("the honest session is up and has room");
            self.exchange();
            // A long message may wait for the pace of its session, and for its turn behind those of others.
            for _ in 0..HONEST_TICKS_MAX {
                if self.honest_answers > call {
                    break;
                }
                self.pass_time(TICK_NANOS);
            }
        }
        assert_eq!(self.honest_answers, 3, "the honest peer was not served");
    }
}

/// How many bytes of results a packet may lead to.
fn asked_by<P: Policy>(packet: &[u8]) -> u64 {
    let Ok(header) = Header::parse(packet) else { return 0 };
    let Ok(parsed) = MessagePacket::parse(&header, packet, P::PROTOCOL) else { return 0 };
    let whole = |bytes: u32| u64::from(bytes.min(MESSAGE_BYTES_MAX).next_multiple_of(FRAGMENT_BYTES));
    match parsed {
        // A request, or one more time.
        MessagePacket::Whole { .. } | MessagePacket::Fragment { .. } => whole(UNSCHEDULED_BYTES),
        MessagePacket::Grant { offset, .. } => whole(offset),
        MessagePacket::Resend { ranges, .. } => {
            let asked: u64 = ranges.iter().map(|(_, length)| whole(length)).sum();
            asked.min(whole(MESSAGE_BYTES_MAX))
        }
        _ => 0,
    }
}

/// The packet with its checksum put right.
fn sealed(packet: &[u8]) -> Vec<u8> {
    let mut sealed = packet.to_vec();
    if let Some((sum, covered)) = sealed.split_first_chunk_mut::<4>() {
        *sum = checksum_of(covered).to_le_bytes();
    }
    sealed
}
