//! The rules at work: which message is granted how much, which priority packets have, and in which order and
//! how fast they leave.

use crate::calls::{Assembly, Cut, Incoming, Policy, SlotRef, Window};
use crate::session::Link;
use crate::wire::{CUTOFFS_VERSION_MAX, Cutoffs, Protocol};
use farcall_base::{Identity, Instant};

use super::arriving::ArrivingMessages;
use super::pacer::Pacer;
use super::rules::{HomaRules, RulesError};
use super::share::Share;
use super::traffic::{Lengths, Traffic};

/// Messages of one packet wait in a queue of those up to this many bytes, or in the last.
const WHOLE_QUEUE_BYTES: [u32; 3] = [256, 1024, 4096];

/// So much must be due to the oldest message before it may send a packet, which it then pays for with what
/// follows.
const OLDEST_TURN_BYTES: u32 = 1;

/// What homa keeps for each session.
#[derive(Debug)]
pub struct HomaPeer {
    pub(super) identity: Identity,
    /// What the peer wants.
    cutoffs: Cutoffs,
    /// Which of our cutoffs the peer was told last, and at which tick.
    told: (u8, u64),
}

/// Before the session is up nothing is sent, and nothing is known.
impl Default for HomaPeer {
    fn default() -> Self {
        let identity = Identity { incarnation: 0, rank: 0, endpoint: 0 };
        Self { identity, cutoffs: Cutoffs::unknown(0), told: (0, 0) }
    }
}

/// Grants to the shortest.
#[derive(Debug)]
pub struct HomaPolicy {
    pub(super) rules: HomaRules,
    pub(super) arriving: ArrivingMessages,
    /// Room for the messages that are being granted; empty between schedules.
    pub(super) active: Vec<SlotRef>,
    schedule_due: bool,
    pub(super) grants_to_oldest: Share,
    traffic: Traffic,
    /// What we want from our peers.
    pub(super) cutoffs: Cutoffs,
    ticks: u64,
    pacer: Pacer,
    packets_of_oldest: Share,
}

/// The default rules.
impl Default for HomaPolicy {
    fn default() -> Self {
        Self::checked(HomaRules::default())
    }
}

impl HomaPolicy {
    /// A policy by `rules`.
    pub fn new(rules: HomaRules) -> Result<Self, RulesError> {
        rules.check()?;
        Ok(Self::checked(rules))
    }

    fn checked(rules: HomaRules) -> Self {
        let top = rules.priorities - 1;
        let given = rules.cutoffs.as_deref().and_then(|lengths| Cutoffs::new(1, top, lengths));
        Self {
            arriving: ArrivingMessages::default(),
            active: Vec::with_capacity(usize::from(rules.overcommit)),
            schedule_due: false,
            grants_to_oldest: Share::new(rules.fifo_permille),
            traffic: Traffic::new(),
            cutoffs: given.unwrap_or(Cutoffs::unknown(top)),
            ticks: 0,
            pacer: Pacer::new(rules.link_bits_per_second, rules.backlog),
            packets_of_oldest: Share::new(rules.fifo_permille),
            rules,
        }
    }

    /// The rules.
    pub fn rules(&self) -> &HomaRules {
        &self.rules
    }

    /// The lengths and priorities that peers are asked to use.
    pub fn wanted_cutoffs(&self) -> &Cutoffs {
        &self.cutoffs
    }

    /// Bytes that peers may send us and that are not here, as far as their messages have begun. A peer counts
    /// with what is granted ahead to one message at most.
    pub fn outstanding_bytes(&self) -> u64 {
        self.arriving.outstanding_bytes()
    }

    /// Whether any long message is on its way to us.
    pub fn any_arrives(&self) -> bool {
        self.arriving.iter().next().is_some()
    }

    /// Chooses cutoffs by the traffic so far, and makes a new edition of them when they differ.
    fn learn(&mut self) {
        let priorities = self.rules.priorities;
        let parts = self.rules.unscheduled_priorities;
        let parts = parts.unwrap_or_else(|| self.traffic.unscheduled_priorities(priorities));
        let mut room = Lengths::default();
        let lengths = self.traffic.cutoffs(parts, &mut room);
        self.traffic.fade();
        if lengths == self.cutoffs.lengths() {
            return;
        }
        let version = self.cutoffs.version() % CUTOFFS_VERSION_MAX + 1;
        if let Some(cutoffs) = Cutoffs::new(version, priorities - 1, lengths) {
            self.cutoffs = cutoffs;
        }
    }
}

impl Policy for HomaPolicy {
    const PROTOCOL: Protocol = Protocol::Homa;
    const QUESTIONS_TAKE_TURNS: bool = true;

    type Peer = HomaPeer;

    fn session_up(&mut self, link: &Link) -> HomaPeer {
        let cutoffs = Cutoffs::unknown(self.rules.priorities - 1);
        HomaPeer { identity: link.peer, cutoffs, told: (0, 0) }
    }

    fn session_down(&mut self, session: u16, _peer: &mut HomaPeer) {
        self.arriving.remove_session(session);
        self.schedule_due = true;
    }

    #[inline]
    fn began(&mut self, peer: &mut HomaPeer, length: u32, version: u8, cut: &Cut) -> bool {
        if self.rules.priorities == 1 {
            return false;
        }
        let epoch_ends = self.traffic.count(length, cut.unscheduled_bytes);
        if epoch_ends && self.rules.cutoffs.is_none() {
            self.learn();
        }
        let current = self.cutoffs.version();
        version != current && peer.told != (current, self.ticks)
    }

    fn arrived(
        &mut self,
        slot: SlotRef,
        peer: &HomaPeer,
        message: &mut Assembly,
        _cut: &Cut,
        window: &mut Window,
    ) -> bool {
        let ungranted = message.total() - message.granted();
        let outstanding = message.granted() - message.received();
        let counted = self.rules.window_bytes(window.bytes());
        self.arriving.update(slot, peer.identity, ungranted, outstanding, counted);
        self.schedule_due = true;
        false
    }

    fn over(&mut self, slot: SlotRef, _message: &Assembly) {
        self.arriving.remove(slot);
        self.schedule_due = true;
    }

    /// Its place is better used by another, until it is heard of again.
    fn silent(&mut self, slot: SlotRef) {
        self.arriving.remove(slot);
        self.schedule_due = true;
    }

    #[inline]
    fn is_schedule_due(&self) -> bool {
        self.schedule_due && self.arriving.any_waits()
    }

    fn schedule<B: AsRef<[u8]>>(&mut self, incoming: &mut Incoming<'_, B, Self>) {
        self.schedule_due = false;
        self.give_grants(incoming);
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.schedule_due = true;
    }

    fn check<'m>(&self, message: impl Fn(SlotRef) -> Option<&'m Assembly>) {
        for (slot, ungranted, outstanding) in self.arriving.iter() {
            let message = message(slot).expect("what is ranked arrives");
            assert_eq!(message.total() - message.granted(), ungranted, "to be granted");
            assert_eq!(message.granted() - message.received(), outstanding, "granted and not here");
        }
    }

    /// The highest: others wait for what was lost.
    #[inline]
    fn resend_priority(&self) -> u8 {
        self.rules.priorities - 1
    }

    fn cutoffs(&mut self, peer: &mut HomaPeer) -> Option<Cutoffs> {
        peer.told = (self.cutoffs.version(), self.ticks);
        (self.cutoffs.version() > 0).then_some(self.cutoffs)
    }

    fn learn_cutoffs(peer: &mut HomaPeer, cutoffs: &Cutoffs) {
        peer.cutoffs = *cutoffs;
    }

    #[inline]
    fn cutoffs_version(peer: &HomaPeer) -> u8 {
        peer.cutoffs.version()
    }

    #[inline]
    fn unscheduled_priority(peer: &HomaPeer, length: u32) -> u8 {
        peer.cutoffs.priority(length)
    }

    #[inline]
    fn whole_queue(length: u32) -> usize {
        WHOLE_QUEUE_BYTES.iter().take_while(|bytes| length > **bytes).count()
    }

    #[inline]
    fn hold_until(&mut self, now: Instant) -> Option<Instant> {
        self.pacer.hold_until(now)
    }

    #[inline]
    fn sent(&mut self, now: Instant, bytes: usize) {
        self.pacer.sent(now, bytes);
    }

    #[inline]
    fn serves_oldest(&self) -> bool {
        self.packets_of_oldest.is_due(OLDEST_TURN_BYTES)
    }

    #[inline]
    fn served(&mut self, bytes: usize, oldest: bool) {
        self.packets_of_oldest.served(bytes as u32, oldest);
    }
}
