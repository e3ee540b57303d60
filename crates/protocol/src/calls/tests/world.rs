//! Endpoints and a faulty network between them, in virtual time.
//!
//! Everything follows from one seed. Requests carry an operation number and the length of the wanted answer;
//! the oracles count how often each operation ran and completed, and compare every byte.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::basic::BasicConfig;
use crate::calls::{Calls, Delivery, Payload, Policy, Received};
use crate::session::{EndReason, PeerAddress, SessionEvent, SessionId};
use crate::wire::{CallKey, Head};
use farcall_base::{Entropy, Identity, Instant};

/// Answered at once.
pub const ECHO: u16 = 1;
/// Answered when the test says so.
pub const HELD: u16 = 2;

/// Whether a packet of that node passes.
type Filter = Box<dyn FnMut(usize, &[u8]) -> bool>;

/// Chances in a thousand, per packet, and times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lost: u64,
    pub duplicated: u64,
    pub corrupted: u64,
    pub truncated: u64,
    pub delayed: u64,
    pub delay_nanos_max: u64,
}

#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = self.0 ^ (self.0 >> 33);
        mixed.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 11
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn chance(&mut self, in_a_thousand: u64) -> bool {
        self.below(1000) < in_a_thousand
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    /// Negative, so that the earliest is the greatest.
    order: (core::cmp::Reverse<u64>, core::cmp::Reverse<u64>),
    from: usize,
    to: usize,
    priority: u8,
    bytes: Vec<u8>,
    /// Whether a queue towards `to` is still before it.
    before_queue: bool,
}

pub struct Node<P: Policy> {
    pub calls: Calls<Vec<u8>, P>,
    pub ups: Vec<(SessionId, Identity)>,
    pub downs: Vec<(SessionId, EndReason, Instant)>,
    /// Operations that ran here, and how often.
    pub ran: BTreeMap<u32, u32>,
    /// Every request that ran here.
    pub keys: BTreeSet<(u32, u64)>,
    pub held: Vec<(SessionId, CallKey, Vec<u8>)>,
    /// Operations in the order in which they completed.
    pub finished: Vec<(u32, Instant)>,
    /// Responses by operation: status and bytes.
    pub completed: BTreeMap<u32, (u16, Vec<u8>)>,
    pub completed_twice: bool,
    pub alive: bool,
}

pub struct World<P: Policy> {
    pub now: Instant,
    pub nodes: Vec<Node<P>>,
    pub faults: Faults,
    /// Nodes that are seen at other addresses than their numbers; packets to the former address get lost.
    pub moved: BTreeMap<usize, u32>,
    /// Directions in which nothing passes.
    pub cut: BTreeSet<(usize, usize)>,
    pub random: Random,
    pub packets: u64,
    /// Says of a packet whether it passes; for single losses.
    pub filter: Filter,
    /// Every packet that was sent, by sender, when recording.
    pub recording: Option<Vec<(usize, usize, Vec<u8>)>>,
    /// Links of a certain rate with queues before them; without, packets only take their time.
    pub links: Option<Links>,
    /// A port that the packets of node 0 pass through one after the other.
    pub narrow: Option<NarrowPort>,
    /// Bytes sent, by node and priority.
    pub sent_bytes: BTreeMap<(usize, u8), u64>,
    flying: BinaryHeap<Flying>,
    sent: u64,
}

pub const LATENCY_NANOS: u64 = 5_000;

pub fn identity(node: usize, life: u64) -> Identity {
    Identity { incarnation: 1000 * (node as u64 + 1) + life, rank: node as u32, endpoint: 0 }
}

/// The request of operation `operation`, which asks for an answer of `answer` bytes.
pub fn request(operation: u32, bytes: usize, answer: u32) -> Vec<u8> {
    let mut payload = pattern(operation, bytes);
    if bytes >= 8 {
        payload[..4].copy_from_slice(&operation.to_le_bytes());
        payload[4..8].copy_from_slice(&answer.to_le_bytes());
    }
    payload
}

pub fn pattern(operation: u32, bytes: usize) -> Vec<u8> {
    let mut state = u64::from(operation) * 2 + 1;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(11);
        (state >> 56) as u8
    };
    (0..bytes).map(step).collect()
}

impl<P: Policy + Default> World<P> {
    pub fn new(configs: &[BasicConfig], seed: u64) -> Self {
        Self::with_policies(configs, configs.iter().map(|_| P::default()).collect(), seed)
    }

    pub fn with_policies(configs: &[BasicConfig], policies: Vec<P>, seed: u64) -> Self {
        let nodes = configs.iter().zip(policies).enumerate();
        let nodes = nodes.map(|(index, (config, policy))| Node::new(*config, policy, index, 1, seed));
        Self {
            now: Instant::from_nanos(1),
            nodes: nodes.collect(),
            faults: Faults::default(),
            moved: BTreeMap::new(),
            cut: BTreeSet::new(),
            random: Random(seed ^ 0x5eed),
            packets: 0,
            filter: Box::new(|_, _| true),
            recording: None,
            links: None,
            narrow: None,
            sent_bytes: BTreeMap::new(),
            flying: BinaryHeap::new(),
            sent: 0,
        }
    }

    pub fn pair(seed: u64) -> Self {
        Self::new(&[BasicConfig::default(); 2], seed)
    }

    pub fn connect(&mut self, from: usize, to: usize) -> SessionId {
        self.nodes[from].calls.connect(PeerAddress(to as u32), self.now).expect("there is room for a session")
    }

    /// Connects and waits until both sides are up; the session as each side numbers it.
    pub fn connected(&mut self, from: usize, to: usize) -> (SessionId, SessionId) {
        let before = self.nodes[to].ups.len();
        let id = self.connect(from, to);
        self.run_until(Duration::from_secs(20), |world| world.nodes[to].ups.len() > before);
        (id, self.nodes[to].ups[before].0)
    }

    pub fn call(&mut self, node: usize, session: SessionId, operation: u32, service: u16, payload: &[u8]) {
        let payload = Payload::Slice(payload);
        self.nodes[node].calls.call(session, operation, service, payload).expect("the call is accepted");
    }

    /// Replies to what the node holds.
    pub fn release_held(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        for (session, key, payload) in core::mem::take(&mut node.held) {
            node.calls.reply(session, key, 7, Payload::Slice(&payload)).expect("the answer is short enough");
        }
    }

    /// The process at `node` ends, and another one starts at its address.
    pub fn restart(&mut self, node: usize, config: BasicConfig, life: u64) {
        self.nodes[node] = Node::new(config, P::default(), node, life, life);
    }

    /// Puts a packet on the wire once more.
    pub fn inject(&mut self, from: usize, to: usize, bytes: &[u8]) {
        self.fly((from, to), 0, bytes.to_vec(), LATENCY_NANOS);
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {}
    }

    #[track_caller]
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&Self) -> bool) {
        let end = self.now + limit;
        while !done(self) {
            assert!(self.step(end), "not done within {limit:?} of virtual time");
        }
    }

    pub fn is_idle(&self) -> bool {
        self.nodes.iter().all(|node| node.calls.is_idle())
    }

    /// Goes on to the next thing that happens, at most to `end`. False at the end.
    fn step(&mut self, end: Instant) -> bool {
        self.transmit();
        let arrival = self.flying.peek().map(|flying| Instant::from_nanos(flying.order.0.0));
        let alive = self.nodes.iter().filter(|node| node.alive);
        let deadline = alive.filter_map(|node| node.calls.next_deadline()).min();
        let free = self.links.as_ref().and_then(Links::next_free);
        let next = [arrival, deadline, free].into_iter().flatten().min().unwrap_or(Instant::NEVER);
        if next > end {
            self.now = end;
            return false;
        }
        self.now = self.now.max(next);
        while let Some(flying) = self.flying.peek()
            && flying.order.0.0 <= self.now.as_nanos()
        {
            let mut packet = self.flying.pop().expect("it was just looked at");
            match &mut self.links {
                Some(links) if packet.before_queue => {
                    packet.before_queue = false;
                    links.queue(packet);
                }
                _ => {
                    let from = self.address_of(packet.from);
                    self.nodes[packet.to].receive(from, &packet.bytes, self.now);
                }
            }
        }
        if let Some(links) = &mut self.links {
            self.flying.extend(links.leave(self.now));
        }
        for node in self.nodes.iter_mut().filter(|node| node.alive) {
            node.calls.handle_timeout(self.now);
            node.take_events(self.now);
            node.calls.check_policy();
        }
        true
    }

    fn transmit(&mut self) {
        for from in 0..self.nodes.len() {
            let mut head = Head::new();
            while let Some(packet) = self.nodes[from].calls.poll_transmit(self.now, &mut head) {
                let to = packet.to;
                let (priority, bytes) = (packet.priority, [packet.head, packet.payload].concat());
                self.packets += 1;
                let Some(to) = self.node_at(to) else { continue };
                *self.sent_bytes.entry((from, priority)).or_default() += bytes.len() as u64;
                if let Some(recording) = &mut self.recording {
                    recording.push((from, to, bytes.clone()));
                }
                let passes = !self.cut.contains(&(from, to)) && (self.filter)(from, &bytes);
                let queued = match &mut self.narrow {
                    Some(port) if from == 0 => port.pass(self.now),
                    _ => Some(0),
                };
                if let Some(queued_nanos) = queued.filter(|_| passes && self.nodes[from].alive) {
                    self.suffer((from, to), priority, bytes, queued_nanos);
                }
            }
        }
    }

    fn address_of(&self, node: usize) -> PeerAddress {
        PeerAddress(self.moved.get(&node).copied().unwrap_or(node as u32))
    }

    fn node_at(&self, address: PeerAddress) -> Option<usize> {
        (0..self.nodes.len()).find(|node| self.address_of(*node) == address)
    }

    fn suffer(&mut self, way: (usize, usize), priority: u8, bytes: Vec<u8>, queued_nanos: u64) {
        let faults = self.faults;
        if self.random.chance(faults.lost) {
            return;
        }
        let copies = 1 + u64::from(self.random.chance(faults.duplicated));
        for _ in 0..copies {
            let mut bytes = bytes.clone();
            if self.random.chance(faults.corrupted) {
                let bit = self.random.below(8 * bytes.len() as u64) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            if self.random.chance(faults.truncated) {
                bytes.truncate(self.random.below(bytes.len() as u64) as usize);
            }
            let mut delay = LATENCY_NANOS + queued_nanos;
            if self.random.chance(faults.delayed) {
                delay += self.random.below(faults.delay_nanos_max);
            }
            self.fly(way, priority, bytes, delay);
        }
    }

    fn fly(&mut self, (from, to): (usize, usize), priority: u8, bytes: Vec<u8>, delay_nanos: u64) {
        self.sent += 1;
        let leaves = match &mut self.links {
            Some(links) => links.send(from, bytes.len(), self.now),
            None => self.now.as_nanos(),
        };
        let order = (core::cmp::Reverse(leaves + delay_nanos), core::cmp::Reverse(self.sent));
        let before_queue = self.links.is_some();
        self.flying.push(Flying { order, from, to, priority, bytes, before_queue });
    }
}

/// A port with room for a few packets. What finds none is lost.
#[derive(Debug)]
pub struct NarrowPort {
    pub nanos_per_packet: u64,
    pub packets_max: u64,
    pub free_at: u64,
}

impl NarrowPort {
    /// How long a packet waits here and takes; `None` when there is no room for it.
    fn pass(&mut self, now: Instant) -> Option<u64> {
        let waits = self.free_at.saturating_sub(now.as_nanos());
        if waits >= self.packets_max * self.nanos_per_packet {
            return None;
        }
        self.free_at = now.as_nanos() + waits + self.nanos_per_packet;
        Some(waits + self.nanos_per_packet)
    }
}

/// A switch: every node has a link to it, and one from it with a queue for each priority.
#[derive(Debug)]
pub struct Links {
    nanos_per_kilobyte: u64,
    /// By node: when its link to the switch is free.
    uplinks: Vec<u64>,
    ports: Vec<Port>,
    /// The most bytes that waited for one node at a time.
    pub queued_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Port {
    free_at: u64,
    /// The highest priority first, and in each the first that came.
    queue: BTreeMap<(core::cmp::Reverse<u8>, u64), Flying>,
    queued_bytes: usize,
    arrivals: u64,
}

impl Links {
    pub fn new(nodes: usize, gigabits_per_second: u64) -> Self {
        Self {
            nanos_per_kilobyte: 8000 / gigabits_per_second,
            uplinks: vec![0; nodes],
            ports: (0..nodes).map(|_| Port::default()).collect(),
            queued_bytes_max: 0,
        }
    }

    fn nanos(&self, bytes: usize) -> u64 {
        bytes as u64 * self.nanos_per_kilobyte / 1000
    }

    /// When a packet that is sent now will have left its node.
    fn send(&mut self, from: usize, bytes: usize, now: Instant) -> u64 {
        let nanos = self.nanos(bytes);
        let free_at = &mut self.uplinks[from];
        *free_at = now.as_nanos().max(*free_at) + nanos;
        *free_at
    }

    fn queue(&mut self, packet: Flying) {
        let port = &mut self.ports[packet.to];
        port.arrivals += 1;
        port.queued_bytes += packet.bytes.len();
        self.queued_bytes_max = self.queued_bytes_max.max(port.queued_bytes);
        let place = (core::cmp::Reverse(packet.priority), port.arrivals);
        port.queue.insert(place, packet);
    }

    fn next_free(&self) -> Option<Instant> {
        let busy = self.ports.iter().filter(|port| !port.queue.is_empty());
        busy.map(|port| Instant::from_nanos(port.free_at)).min()
    }

    /// The packets whose turn it is, on their way to their nodes.
    fn leave(&mut self, now: Instant) -> Vec<Flying> {
        let (mut leaving, nanos_per_kilobyte) = (Vec::new(), self.nanos_per_kilobyte);
        for port in self.ports.iter_mut().filter(|port| port.free_at <= now.as_nanos()) {
            let Some((_, mut packet)) = port.queue.pop_first() else { continue };
            port.queued_bytes -= packet.bytes.len();
            port.free_at = now.as_nanos() + packet.bytes.len() as u64 * nanos_per_kilobyte / 1000;
            packet.order.0 = core::cmp::Reverse(port.free_at);
            leaving.push(packet);
        }
        leaving
    }
}

impl<P: Policy + Default> Node<P> {
    fn new(config: BasicConfig, policy: P, index: usize, life: u64, seed: u64) -> Self {
        let seed = seed.wrapping_mul(31) + index as u64;
        Self {
            calls: Calls::with_policy(
                policy,
                config.session,
                config.resend_interval,
                identity(index, life),
                Entropy::repeatable(seed),
            )
            .expect("the configuration is valid"),
            ups: Vec::new(),
            downs: Vec::new(),
            ran: BTreeMap::new(),
            keys: BTreeSet::new(),
            held: Vec::new(),
            finished: Vec::new(),
            completed: BTreeMap::new(),
            completed_twice: false,
            alive: true,
        }
    }

    fn receive(&mut self, from: PeerAddress, packet: &[u8], now: Instant) {
        if !self.alive {
            return;
        }
        let mut room = Vec::new();
        let Some(opened) = self.calls.sessions_mut().open(from, packet, &mut room, now) else { return };
        let (delivery, packet) = (self.calls.handle_from(from, || None, opened, now), opened.bytes());
        self.take_events(now);
        match delivery {
            None => {}
            Some(Delivery::Request { session, request, service, payload }) => {
                self.serve(session, request, service, bytes_of(payload, packet));
            }
            Some(Delivery::Response { call, status, payload, .. }) => {
                let bytes = bytes_of(payload, packet);
                self.finished.push((call, now));
                self.completed_twice |= self.completed.insert(call, (status, bytes)).is_some();
            }
        }
    }

    fn serve(&mut self, session: SessionId, key: CallKey, service: u16, payload: Vec<u8>) {
        assert!(self.keys.insert((session.0, key.to_wire())), "request {key:?} of {session:?} ran twice");
        let mut answer = payload.clone();
        if payload.len() >= 8 {
            let operation = u32::from_le_bytes(payload[..4].try_into().expect("four bytes"));
            let answer_bytes = u32::from_le_bytes(payload[4..8].try_into().expect("four bytes"));
            assert_eq!(payload, request(operation, payload.len(), answer_bytes), "request was altered");
            *self.ran.entry(operation).or_default() += 1;
            answer = pattern(operation, answer_bytes as usize);
        }
        match service {
            HELD => self.held.push((session, key, answer)),
            _ => self
                .calls
                .reply(session, key, 7, Payload::Slice(&answer))
                .expect("the answer is short enough"),
        }
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.calls.poll_event() {
            match event {
                SessionEvent::Up { id, peer } => self.ups.push((id, peer)),
                SessionEvent::Moved { .. } => {}
                SessionEvent::Down { id, reason } => self.downs.push((id, reason, now)),
            }
        }
    }

    /// Checks that operation `operation` was answered with `answer` bytes, the right ones.
    #[track_caller]
    pub fn assert_answered(&self, operation: u32, answer: usize) {
        let (status, bytes) = self.completed.get(&operation).expect("the call completed");
        assert_eq!(*status, 7);
        assert!(*bytes == pattern(operation, answer), "the answer to {operation} was altered");
    }
}

fn bytes_of(payload: Received, packet: &[u8]) -> Vec<u8> {
    match payload {
        Received::InPlace(range) => packet[range].to_vec(),
        Received::Assembled(bytes) => bytes,
    }
}
