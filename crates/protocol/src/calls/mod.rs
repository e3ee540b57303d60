//! Remote calls over datagrams: the machinery that [basic](crate::basic) and [homa](crate::homa) share.
//!
//! A message that fits one packet is one packet, and in the steady state a call is two: request and
//! response. The response acknowledges the request; the next request in the same slot acknowledges the
//! response. A longer message starts with [`Offer::unscheduled_bytes`](crate::wire::Offer) and goes on as
//! its receiver grants. Whoever waits and hears nothing asks again: RESEND for missing bytes, answered by
//! the bytes, by BUSY, or, when nothing of the request is known, by RESEND with RESTART. Who is granted
//! what, and which packet goes first, is the protocol's [`Policy`].
//!
//! A call occupies a slot of its session and has a number there. The server keeps, per slot, the highest
//! number seen; a request runs only when its number is higher, and the result is kept until the caller has
//! moved on. So a request runs at most once in its session, however late or often its packets arrive, and
//! memory is bounded by the slots.
//!
//! What a message of one packet passes on its way is `inline(always)` from end to end: a call is a dozen
//! steps of a few instructions each, and to move its parts from one to the next through memory would take
//! more than the steps. All that happens seldom is kept out of that way.
//!
//! [`Calls`] is driven in the manner of a state machine without I/O: packets, times and commands go in
//! ([`Calls::handle`], [`Calls::handle_timeout`], [`Calls::call`], …), packets, deadlines and events come out
//! ([`Calls::poll_transmit`], [`Calls::next_deadline`], [`Calls::poll_event`]).

mod assembly;
mod budget;
mod caller;
mod channel;
mod control;
mod event;
mod fuzz;
mod gaps;
mod inspect;
mod lots;
mod policy;
mod questions;
mod ready;
mod receive;
mod receive_as_caller;
mod receive_as_server;
mod receive_piece;
mod receive_whole;
mod sending;
mod server;
mod spares;
#[cfg(test)]
pub(crate) mod tests;
mod timers;
mod transmit;
mod upkeep;
mod window;

use core::time::Duration;
use std::collections::VecDeque;

use crate::session::{
    AddressUse, ConfigError, EndReason, Opened, PeerAddress, SessionConfig, SessionEvent, SessionId,
    Sessions, SessionsFull,
};
use crate::wire::{CallKey, Header, Malformed, Opcode};
use farcall_base::{Entropy, Identity, Instant};

pub(crate) use assembly::Assembly;
use budget::Budget;
use channel::Channel;
pub use event::{CallError, Counters, Delivery, Payload, Received, ReplyTooLong, Transmit};
pub(crate) use fuzz::{fuzz_messages, fuzz_sessions};
pub(crate) use policy::Incoming;
pub use policy::{PRIORITY_CONTROL, Policy};
use ready::Ready;
pub(crate) use ready::{Side, SlotRef};
pub(crate) use sending::Cut;
pub use sending::RECYCLED_BUFFER_BYTES_MAX;
use spares::Spares;
pub(crate) use window::Window;

/// Room from the start for sessions that wait for ticks, so that an endpoint with a small number of peers
/// allocates nothing at its first ticks.
const AWAKE_SESSIONS: usize = 16;

/// The calls of one endpoint, over all of its sessions. `B` is memory that can be handed over for sending,
/// `P` the protocol's policy.
#[derive(Debug)]
pub struct Calls<B, P: Policy> {
    sessions: Sessions,
    /// By the index of the session.
    channels: Vec<Option<Box<Channel<B, P>>>>,
    ready: Ready,
    policy: P,
    /// Until when messages wait; [`Instant::ZERO`] while they do not.
    held_until: Instant,
    /// When waiting slots are looked at next; [`Instant::NEVER`] while none waits.
    tick_at: Instant,
    resend_interval: Duration,
    /// After how many ticks of silence about it a result, or a part of a request, is dropped.
    keep_ticks: u32,
    budget: Budget,
    spares: Spares,
    /// The packet that was sealed last.
    sealed: Vec<u8>,
    /// Sessions that are being ticked; empty between ticks.
    ticked: Vec<u16>,
    counters: Counters,
    events: VecDeque<SessionEvent>,
}

impl<B: AsRef<[u8]>, P: Policy> Calls<B, P> {
    /// An endpoint without sessions. Waiting calls are looked at every `resend_interval`; one that heard
    /// nothing for two such intervals, or for two round trips if that is longer, asks again. What peers
    /// must not foretell comes from `entropy`.
    pub fn with_policy(
        policy: P,
        session: SessionConfig,
        resend_interval: Duration,
        identity: Identity,
        entropy: Entropy,
    ) -> Result<Self, ConfigError> {
        let keep_ticks = session.keep_time.as_nanos() / resend_interval.as_nanos().max(1);
        Ok(Self {
            keep_ticks: u32::try_from(keep_ticks).unwrap_or(u32::MAX).max(1),
            budget: Budget::new(&session),
            spares: Spares::default(),
            sessions: Sessions::new(session, P::PROTOCOL, identity, entropy)?,
            channels: Vec::new(),
            ready: Ready::default(),
            policy,
            held_until: Instant::ZERO,
            tick_at: Instant::NEVER,
            sealed: Vec::new(),
            resend_interval,
            ticked: Vec::with_capacity(AWAKE_SESSIONS),
            counters: Counters::default(),
            events: VecDeque::new(),
        })
    }

    /// Starts to open a session. Calls can be made at once; they wait until it is up.
    pub fn connect(&mut self, to: PeerAddress, now: Instant) -> Result<SessionId, SessionsFull> {
        self.connect_to(to, None, now)
    }

    /// The same with a peer that was looked for under a name; see [`Sessions::connect_to`].
    pub fn connect_to(
        &mut self,
        to: PeerAddress,
        expected: Option<&str>,
        now: Instant,
    ) -> Result<SessionId, SessionsFull> {
        let id = self.sessions.connect_to(to, expected, now)?;
        let offer = self.sessions.config().offer;
        *self.channel_place(id) = Some(Box::new(Channel::opening(id, offer)));
        Ok(id)
    }

    /// Ends a session and tells the peer. The end is reported as an event like any other.
    pub fn close(&mut self, session: SessionId) {
        self.end_because(session, EndReason::Closed);
    }

    /// Ends all sessions and tells the peers.
    pub fn close_all(&mut self) {
        self.ids().into_iter().for_each(|id| self.close(id));
    }

    /// All sessions.
    pub fn ids(&self) -> Vec<SessionId> {
        self.channels.iter().flatten().map(|channel| channel.id).collect()
    }

    /// Ends a session for a reason of the caller's, for example a violation that only the caller can see.
    pub fn end_because(&mut self, session: SessionId, reason: EndReason) {
        self.sessions.end_because(session, reason);
        self.follow_sessions();
    }

    /// Makes a call; its response comes as [`Delivery::Response`] with the caller's own number `call`.
    #[inline(always)]
    pub fn call(
        &mut self,
        session: SessionId,
        call: u32,
        service: u16,
        payload: Payload<'_, B>,
    ) -> Result<(), CallError> {
        let channel = channel_of(&mut self.channels, session).ok_or(CallError::Down)?;
        channel.call(call, service, payload, &mut self.ready)?;
        self.counters.calls += 1;
        Ok(())
    }

    /// Answers the request that a [`Delivery::Request`] named. An answer that nobody waits for any more
    /// goes nowhere.
    #[inline(always)]
    pub fn reply(
        &mut self,
        session: SessionId,
        request: CallKey,
        status: u16,
        payload: Payload<'_, B>,
    ) -> Result<(), ReplyTooLong> {
        match channel_of(&mut self.channels, session) {
            Some(channel) => {
                let replied = channel.reply(request, status, payload, &mut self.ready);
                self.budget.follow(channel);
                replied
            }
            None => Ok(()),
        }
    }

    /// Forgets a call: its response will not be delivered. The request may run or not.
    pub fn cancel(&mut self, session: SessionId, call: u32) {
        let Some(channel) = channel_of(&mut self.channels, session) else { return };
        channel.cancel(call, &mut self.ready, &mut self.policy);
        self.budget.follow(channel);
        // The slot is settled by ticks, and none is planned where no packet of a call has left yet.
        if channel.awake && self.tick_at == Instant::NEVER {
            self.tick_at = Instant::ZERO;
        }
    }

    /// Takes a packet in, of an endpoint whose sessions have no keys. A message that it completes is
    /// returned; look for events *before* it is used.
    ///
    /// A message of one packet is not copied: the delivery says where in `packet` it is.
    #[inline]
    pub fn handle(&mut self, from: PeerAddress, packet: &[u8], now: Instant) -> Option<Delivery> {
        debug_assert!(!self.sessions.has_keys(), "a sealed packet has to be opened first");
        let mut unused = Vec::new();
        let packet = self.sessions.open(from, packet, &mut unused, now)?;
        self.handle_from(from, || None, packet, now)
    }

    /// As [`Calls::handle`] of a packet that was opened and whose sender is on a host with a number. There is
    /// a limit to the sessions of one host.
    #[inline]
    pub fn handle_from(
        &mut self,
        from: PeerAddress,
        host: impl FnOnce() -> Option<u64>,
        packet: Opened<'_>,
        now: Instant,
    ) -> Option<Delivery> {
        let packet = packet.bytes();
        let header = match Header::parse(packet) {
            Ok(header) => header,
            Err(Malformed { .. }) => {
                self.counters.malformed += 1;
                return None;
            }
        };
        if header.opcode.is_of_session() {
            if header.opcode == Opcode::Part {
                return self.handle_part(from, &header, packet, now);
            }
            self.sessions.handle(from, host, &header, packet, now);
            self.follow_sessions();
            return None;
        }
        let index = self.sessions.admit(from, &header, packet, now)?;
        if self.sessions.has_events() {
            self.follow_sessions();
        }
        let channel = self.channels.get_mut(index)?.as_deref_mut()?;
        if self.tick_at == Instant::NEVER {
            self.tick_at = now + self.resend_interval;
        }
        channel.room_bytes = self.budget.room(channel.held_bytes);
        channel.window.at(now);
        let Self { ready, policy, counters, spares, .. } = self;
        let delivery = channel.handle(&header, packet, ready, policy, counters, spares);
        self.budget.follow(channel);
        delivery
    }

    /// Takes in a part of a packet. When that is whole it is taken in as if it had come as one.
    fn handle_part(
        &mut self,
        from: PeerAddress,
        header: &Header,
        part: &[u8],
        now: Instant,
    ) -> Option<Delivery> {
        let whole = self.sessions.join(from, header, part, now)?;
        let mut room = Vec::new();
        let opened = self.sessions.open(from, &whole, &mut room, now)?;
        let bytes = opened.bytes();
        // Of messages alone: neither parts of parts nor packets that begin sessions.
        if Header::parse(bytes).is_ok_and(|header| header.opcode.is_of_session()) {
            self.counters.malformed += 1;
            return None;
        }
        let in_place = |payload| match payload {
            Received::InPlace(range) => Received::Assembled(bytes[range].to_vec()),
            assembled => assembled,
        };
        self.handle_from(from, || None, opened, now).map(|delivery| delivery.map_payload(in_place))
    }

    /// Memory for a long message that is given away to be sent: of one that has ended, if there is one that
    /// fits.
    pub fn take_buffer(&mut self, bytes: usize) -> Vec<u8> {
        self.spares.take(bytes).unwrap_or_default()
    }

    /// Takes the memory of a long message that has ended, for the next one.
    pub fn keep_buffer(&mut self, buffer: Vec<u8>) {
        self.spares.keep(buffer);
    }

    /// Counts bytes that the transport stores of a peer's messages as held for it: see
    /// [`SessionConfig::session_bytes_max`].
    pub fn hold(&mut self, session: SessionId, bytes: usize) {
        if let Some(channel) = channel_of(&mut self.channels, session) {
            channel.held_bytes += bytes;
            self.budget.follow(channel);
        }
    }

    /// The transport stores so much less. Of a session that is over nothing is counted any more.
    pub fn release(&mut self, session: SessionId, bytes: usize) {
        if let Some(channel) = channel_of(&mut self.channels, session) {
            channel.held_bytes -= bytes;
            self.budget.follow(channel);
        }
    }

    /// Does what is due by `now`. First hand in the packets that have arrived: one of them may be the sign
    /// of life for want of which a peer would be given up.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        self.sessions.handle_timeout(now);
        if self.sessions.has_events() {
            self.follow_sessions();
        }
        self.handle_timeout_of_calls(now);
    }

    /// Whether [`Calls::handle_timeout`] would judge a peer by now.
    #[inline]
    pub fn judges_peers(&self, now: Instant) -> bool {
        self.sessions.is_due(now)
    }

    /// As [`Calls::handle_timeout`], but judges no peer: for when packets that have arrived are still to be
    /// handed in.
    #[inline]
    pub fn handle_timeout_of_calls(&mut self, now: Instant) {
        if now >= self.held_until {
            self.held_until = Instant::ZERO;
        }
        if now >= self.ready.paced_at {
            self.grant_paced(now);
        }
        if now >= self.tick_at {
            self.tick(now);
        }
    }

    /// When [`Calls::handle_timeout`] must run next.
    pub fn next_deadline(&self) -> Option<Instant> {
        let tick = (self.tick_at != Instant::NEVER).then_some(self.tick_at);
        let held = (self.held_until != Instant::ZERO).then_some(self.held_until);
        let paced = (self.ready.paced_at != Instant::NEVER).then_some(self.ready.paced_at);
        [tick, held, paced, self.sessions.next_deadline()].into_iter().flatten().min()
    }

    /// The next address that a session leads to, or does not any more.
    pub fn poll_address(&mut self) -> Option<AddressUse> {
        self.sessions.poll_address()
    }

    /// Whether [`Calls::poll_address`] has something.
    #[inline]
    pub fn has_addresses(&self) -> bool {
        self.sessions.has_addresses()
    }

    /// Whether [`Calls::poll_event`] has something.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next session that came up or went down. With a session that is down all of its calls are over.
    #[inline]
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// Draws the consequences of what happened to sessions.
    fn follow_sessions(&mut self) {
        while let Some(event) = self.sessions.poll_event() {
            match event {
                SessionEvent::Up { id, .. } => self.session_up(id),
                SessionEvent::Moved { id, to } => {
                    if let Some(channel) = channel_of(&mut self.channels, id) {
                        channel.route.to = to;
                    }
                }
                SessionEvent::Down { id, .. } => {
                    if let Some(mut channel) = self.channel_place(id).take() {
                        self.budget.session_down(&channel);
                        self.policy.session_down(id.index() as u16, &mut channel.peer);
                    }
                }
            }
            self.events.push_back(event);
        }
    }

    fn session_up(&mut self, id: SessionId) {
        let Some(link) = self.sessions.link(id).copied() else { return };
        let peer = self.policy.session_up(&link);
        let bytes_max = self.sessions.config().window_bytes_max;
        let window = Window::new(bytes_max, self.sessions.handshake_nanos(id));
        let place = self.channel_place(id);
        let channel = place.get_or_insert_with(|| Box::new(Channel::opening(id, link.agreed)));
        channel.up(&link, peer, window);
        let (bytes, bytes_max) = (channel.longest_waiting(), link.agreed.message_bytes_max as usize);
        if bytes > bytes_max {
            return self.sessions.end_because(id, EndReason::WaitingCallTooLong { bytes, bytes_max });
        }
        if let Some(channel) = channel_of(&mut self.channels, id) {
            channel.launch_waiting(&mut self.ready);
        }
    }

    fn channel_place(&mut self, id: SessionId) -> &mut Option<Box<Channel<B, P>>> {
        if self.channels.len() <= id.index() {
            self.channels.resize_with(id.index() + 1, || None);
        }
        &mut self.channels[id.index()]
    }
}

#[inline]
fn channel_of<B, P: Policy>(
    channels: &mut [Option<Box<Channel<B, P>>>],
    id: SessionId,
) -> Option<&mut Channel<B, P>> {
    channels.get_mut(id.index())?.as_deref_mut().filter(|channel| channel.id == id)
}
