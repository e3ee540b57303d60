//! Hostile packets against live state machines, as pure functions of some bytes.
//!
//! The bytes are read as a list of commands. Most of them are packets with a header that is right enough to
//! get in: numbers of real sessions and slots are filled in and the checksum is put right, because a fuzzer
//! does not guess them. After every command the invariants are checked; at the end an honest peer must still
//! be served.

use core::time::Duration;

use crate::session::{PeerAddress, SessionConfig, SessionEvent, SessionId};
use crate::wire::{Head, Opcode, Protocol, checksum_of};
use farcall_base::{Entropy, Identity, Instant};

use super::{Calls, Delivery, Payload, Policy};

/// The most commands of one input; what follows is ignored.
const COMMANDS_MAX: usize = 512;

const RESEND_INTERVAL: Duration = Duration::from_millis(2);

/// The attacked endpoint, the one whose session is abused, and an honest one.
const TARGET: usize = 0;
const ABUSED: usize = 1;
const HONEST: usize = 2;

struct Arena<P: Policy> {
    ends: Vec<Calls<Vec<u8>, P>>,
    sessions: Vec<Option<SessionId>>,
    now: Instant,
    /// Calls of the target that were made and are not over.
    open_calls: Vec<(SessionId, u32)>,
    honest_answers: u32,
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
            1 => arena.deliver(ABUSED, body),
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
        config.offer.message_bytes_max = 20_000;
        config.offer.unscheduled_bytes = 4000;
        config.offer.calls_max = 8;
        let end = |rank: usize| {
            let identity = Identity { incarnation: rank as u64 + 1, rank: rank as u32, endpoint: 0 };
            Calls::with_policy(policy(), config, RESEND_INTERVAL, identity, Entropy::repeatable(rank as u64))
                .expect("the configuration is valid")
        };
        let ends = (0..3).map(end).collect();
        let now = Instant::from_nanos(1);
        let (sessions, open_calls) = (vec![None; 3], Vec::new());
        let mut arena = Self { ends, sessions, now, open_calls, honest_answers: 0 };
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
            let opcodes = if P::PROTOCOL == Protocol::Homa { 10 } else { 9 };
            self.attack(19 + opcode % opcodes, flags, u64::from(sequence) << 16 | u64::from(slot % 10), body);
        }
    }

    /// A piece of a long message that is likely to fit together with others.
    fn attack_with_piece(&mut self, body: &[u8]) {
        let Some(&[flags, slot, sequence, place, length]) = body.first_chunk::<5>() else { return };
        let fragment_bytes = 1472 - 32;
        let total = 1449 + 1440 * u32::from(length % 8);
        let offset = fragment_bytes * u32::from(place % 8);
        let fitting = fragment_bytes.min(total.saturating_sub(offset));
        let mut piece = vec![0; 2];
        piece.extend_from_slice(&total.to_le_bytes());
        piece.extend_from_slice(&offset.to_le_bytes());
        piece.resize(piece.len() + fitting as usize + usize::from(length / 250), 7);
        let call = u64::from(sequence % 4) << 16 | u64::from(slot % 8);
        self.attack(Opcode::Fragment as u8, flags, call, &piece);
    }

    /// A packet about the abused session with one of its real numbers.
    fn attack_session_itself(&mut self, body: &[u8]) {
        if let Some((&[opcode, flags, incarnation], body)) = body.split_first_chunk::<3>() {
            let mut session_body = u64::from(incarnation % 4).to_le_bytes().to_vec();
            session_body.extend_from_slice(body);
            self.attack(opcode % 9, flags, 0, &session_body);
        }
    }

    /// Delivers a packet of the abused session. The number is the target's own, or the other side's for a
    /// RESET.
    fn attack(&mut self, opcode: u8, flags: u8, call: u64, body: &[u8]) {
        let of_target = self.target_session_with(ABUSED).and_then(|id| self.ends[TARGET].link(id));
        let of_abused = self.sessions[ABUSED].and_then(|id| self.ends[ABUSED].link(id));
        let link = if opcode == Opcode::Reset as u8 { of_target } else { of_abused };
        let Some(number) = link.map(|link| link.remote) else { return };
        // Arguments are of use in homa only.
        let flags = if P::PROTOCOL == Protocol::Homa { flags } else { flags % 16 };
        let mut packet = vec![0, 0, 0, 0, opcode, flags | 8];
        packet.extend_from_slice(&number.0.to_le_bytes());
        packet.extend_from_slice(&call.to_le_bytes());
        packet.extend_from_slice(body);
        self.deliver(ABUSED, &sealed(&packet));
    }

    fn deliver(&mut self, from: usize, packet: &[u8]) {
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
            assert!(channel.callers.len() <= 8 && channel.servers.len() <= 8);
            assert!(channel.assembling_bytes() <= 16 * 20_000);
            assert!(channel.acknowledged.len() <= channel.callers.len());
        }
    }

    /// Whatever happened to the abused session, the honest one works.
    fn finish(&mut self) {
        let session = self.sessions[HONEST].expect("it connected");
        for call in 0..3 {
            let payload = Payload::Owned(vec![5; 9000 * call as usize]);
            let made = self.ends[HONEST].call(session, call, 30, payload);
            made.expect("the honest session is up and has room");
            self.exchange();
        }
        assert_eq!(self.honest_answers, 3, "the honest peer was not served");
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
