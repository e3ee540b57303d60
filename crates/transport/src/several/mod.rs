//! One transport of several: a session takes the best way that both ends have.
//!
//! A [`Several`] has transports in the order of preference, its *ways*. Its address has theirs. To connect is
//! to try the ways that both ends have one after the other; what is submitted meanwhile waits here, so that
//! nothing is lost with an attempt. When the way of a session that is up breaks, the other ways are tried
//! again, by the side that had connected: the session keeps its number, what was in flight ends with
//! [`DownReason::Moved`](crate::DownReason::Moved), and nothing is sent twice.
//!
//! `way` says when each is polled, `sessions` what has which session, `view` is the outbox, `sink` passes on
//! what the ways tell, `receives` has what is matched at several.

mod address;
mod receives;
mod sessions;
mod sink;
#[cfg(test)]
mod tests;
mod view;
mod way;
mod why;

use std::os::fd::RawFd;

use farcall_base::{Address, AddressError, Instant, SessionNumbers};
use farcall_driver::{CounterFile, Loan, LoanError, ProcessMark, Wait};
use farcall_protocol::matching::Tag;

pub use address::WayAddresses;
use sessions::{Asked, Route, SeveralCounters, Shared};
use sink::{WaySink, post_again};
use view::{NONE, View};
use way::Way;
pub use way::{Reach, WayConfig};
use why::WhyNot;

use crate::trace::CallTracer;
use crate::{
    CallId, Deliver, DownReason, Holdings, MessageId, NotTaken, Origin, Outbox, Owned, Posted, RequestId,
    Service, SessionId, Sink, Status, Submission, Submitted, Taken, Transport, TransportLimits,
};

/// Why ways are not taken by a session that the peer asked for.
const PEERS_CHOICE: &str = "the peer, which connected, took another one";

/// The most ways.
pub const WAYS_MAX: usize = 1 << SessionNumbers::PART_BITS_MAX;

/// What a transport of several knows besides its ways.
pub struct SeveralConfig {
    /// The number of this machine, 0 if it is not known: ways that reach one machine are not tried to
    /// another.
    pub machine: u64,
    /// This process, for peers of this machine; the default one where it is none.
    pub process: ProcessMark,
    /// Ways that this process does not have, and why.
    pub absent: Vec<NotTaken>,
    /// How many bits of the numbers of sessions say which way has them.
    pub part_bits: u32,
}

/// Several transports as one.
pub struct Several {
    ways: Vec<Way>,
    shared: Shared,
    config: SeveralConfig,
    address: Address,
    limits: TransportLimits,
}

impl Several {
    /// How many bits of a session's number say which of so many ways has it.
    pub fn part_bits(ways: usize) -> u32 {
        ways.next_power_of_two().trailing_zeros()
    }

    /// A transport of these ways, best first: one at least and [`WAYS_MAX`] at most, each with the part of
    /// the session numbers that is its place's (see [`SessionNumbers::part`]). It counts under `label`.
    ///
    /// # Errors
    /// Their addresses are too long together.
    ///
    /// # Panics
    /// When there are no ways, or too many.
    pub fn new(
        ways: Vec<WayConfig>,
        config: SeveralConfig,
        file: &CounterFile,
        label: &str,
    ) -> Result<Self, AddressError> {
        assert!((1..=1 << config.part_bits).contains(&ways.len()), "one way at least, and a part for each");
        let addresses = ways.iter().map(|way| (way.name.to_owned(), way.transport.address())).collect();
        let address = WayAddresses::new(config.machine, config.process, addresses).encode()?;
        let of_ways = || ways.iter().map(|way| way.transport.limits());
        let limits = TransportLimits {
            message_bytes_max: of_ways().map(|way| way.message_bytes_max).min().unwrap_or(0),
            calls_max: of_ways().map(|way| way.calls_max).min().unwrap_or(0),
            // Where packets are in use too, their timers see a clock that is a few polls old.
            polls_per_clock_reading: of_ways().map(|way| way.polls_per_clock_reading).max().unwrap_or(1),
        };
        let counters = SeveralCounters::new(file, label);
        let least = (limits.message_bytes_max, limits.calls_max);
        let absent = config
            .absent
            .iter()
            .map(|NotTaken { way, why }| (*way, WhyNot::absent(file, &format!("{label} {way}"), why)));
        let shared = Shared::new(config.part_bits, least, counters, absent.collect());
        let ways = ways.into_iter().map(|way| Way::new(way, file, label)).collect();
        Ok(Self { ways, shared, config, address, limits })
    }

    #[inline]
    fn view(&mut self) -> View<'_, ()> {
        View { at: NONE, current: (), ways: &mut self.ways, shared: &mut self.shared }
    }

    fn transports(&self) -> impl Iterator<Item = &dyn Transport> {
        self.ways.iter().filter_map(Way::transport)
    }

    /// The ways to a peer, best first, and why the others are none.
    fn ways_to(&self, peer: &WayAddresses) -> (Vec<(usize, Address)>, Vec<NotTaken>) {
        let (mut found, mut not_taken) = (Vec::new(), self.config.absent.clone());
        let is_elsewhere =
            peer.machine() != 0 && self.config.machine != 0 && peer.machine() != self.config.machine;
        for (place, way) in self.ways.iter().enumerate() {
            let why = match peer.of(way.name) {
                None => "the peer does not have it".to_owned(),
                Some(_) if is_elsewhere && way.reach == Reach::Machine => {
                    "it reaches this machine only, and the peer is on another".to_owned()
                }
                Some(address) => {
                    found.push((place, address.clone()));
                    continue;
                }
            };
            not_taken.push(NotTaken { way: way.name, why });
        }
        (found, not_taken)
    }

    /// Begins to open a session over the next way that takes it; says which.
    fn try_next(&mut self, asked: &mut Asked, now: Instant) -> Option<(usize, SessionId)> {
        while let Some((place, address)) = asked.untried.pop_front() {
            let way = &mut self.ways[place];
            let Some(transport) = way.transport_mut() else { continue };
            match transport.connect(&address, asked.name.as_deref(), now) {
                Ok(inner) => {
                    // It says something at once.
                    way.outbox();
                    return Some((place, inner));
                }
                Err(error) => asked.not_taken.push(NotTaken { way: way.name, why: error.to_string() }),
            }
        }
        None
    }

    /// What sessions need behind a poll: the next way, or an end.
    fn settle(&mut self, now: Instant, sink: &mut dyn Sink) {
        while let Some((place, inner)) = self.shared.closing.pop() {
            if let Some(transport) = self.ways[place].transport_mut() {
                transport.close(inner, now);
            }
            self.ways[place].poll_next();
        }
        for session in core::mem::take(&mut self.shared.due) {
            let Some(mut asked) = self.shared.asked.remove(&session) else { continue };
            if let Some(reason) = asked.ends_as.take() {
                self.end(session, asked, &reason, sink);
                continue;
            }
            if let Some(until) = asked.doubted_until {
                if asked.process.is_some_and(ProcessMark::has_ended) {
                    self.end(session, asked, &DownReason::Dead, sink);
                    continue;
                }
                if now < until {
                    self.shared.asked.insert(session, asked);
                    self.shared.due.push(session);
                    continue;
                }
                asked.doubted_until = None;
                // It was not clear what these were to wait for.
                self.end_waiting(&mut asked, &DownReason::Moved, sink);
                // The sink may post receives for it, which are to wait.
                self.shared.asked.insert(session, asked);
                sink.session_moved(&mut self.view(), session);
                let Some(back) = self.shared.asked.remove(&session) else { continue };
                asked = back;
            }
            let Some(leg) = self.try_next(&mut asked, now) else {
                let reason = asked.last_reason.clone();
                self.shared.counters.lost.add(u64::from(asked.peer.is_some()));
                self.end(session, asked, &reason, sink);
                continue;
            };
            self.shared.asked.insert(session, asked);
            self.shared.opens_over(session, leg);
            post_again(&mut self.view(), sink);
        }
    }

    /// Ends a session that has no way.
    fn end(&mut self, session: SessionId, mut asked: Asked, reason: &DownReason, sink: &mut dyn Sink) {
        self.shared.forget(session);
        self.end_waiting(&mut asked, reason, sink);
        sink.session_down(&mut self.view(), session, reason);
    }

    /// Forgets what waits; the sink ends the calls by itself.
    fn end_waiting(&mut self, asked: &mut Asked, reason: &DownReason, sink: &mut dyn Sink) {
        for (submission, _) in asked.waiting.drain(..) {
            if let Submission::Message { send, .. } = submission {
                sink.sent(&mut self.view(), send, Err(reason.clone()));
            }
        }
    }
}

impl Outbox for Several {
    #[inline]
    fn call(&mut self, session: SessionId, call: CallId, service: Service, payload: &[u8]) -> Submitted {
        self.view().call(session, call, service, payload)
    }

    #[inline]
    fn reply(&mut self, request: RequestId, status: Status, payload: &[u8]) {
        self.view().reply(request, status, payload);
    }

    #[inline]
    fn send(&mut self, session: SessionId, send: MessageId, tag: Tag, payload: &[u8]) -> Submitted {
        self.view().send(session, send, tag, payload)
    }

    fn submit_owned(&mut self, submission: Submission, payload: Owned) -> Submitted {
        self.view().submit_owned(submission, payload)
    }

    fn cancel(&mut self, session: SessionId, call: CallId) {
        self.view().cancel(session, call);
    }

    fn is_transmitted(&self, session: SessionId, call: CallId) -> bool {
        match self.shared.route(session) {
            Route::Leads(way, inner) => {
                let transport = self.ways.get(way).and_then(Way::transport);
                transport.is_none_or(|transport| transport.is_transmitted(inner, call))
            }
            Route::Waits => false,
        }
    }

    fn cancel_send(&mut self, send: MessageId) -> usize {
        self.view().cancel_send(send)
    }

    #[inline]
    fn post(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        self.view().post(receive, from, tag, in_place_bytes_max, deliver)
    }

    fn cancel_receive(&mut self, receive: MessageId) -> bool {
        self.view().cancel_receive(receive)
    }

    fn hand_on_unexpected(&mut self, hand_on: bool) {
        self.view().hand_on_unexpected(hand_on);
    }

    fn let_send(&mut self, session: SessionId, may_send: bool) {
        self.view().let_send(session, may_send);
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.view().loan(bytes)
    }
}

impl Transport for Several {
    /// The least of all ways: a session may change between them.
    fn limits(&self) -> TransportLimits {
        self.limits
    }

    fn holdings(&self) -> Holdings {
        let mut held = Holdings::default();
        for Holdings { calls, requests, backlog, blocks } in self.transports().map(Transport::holdings) {
            held.calls += calls;
            held.requests += requests;
            held.backlog += backlog;
            held.blocks += blocks;
        }
        held.backlog += self.shared.asked.values().map(|asked| asked.waiting.len()).sum::<usize>();
        held
    }

    fn address(&self) -> Address {
        self.address.clone()
    }

    /// Tries the ways that both ends have, best first. Those that cannot even be tried are passed over at
    /// once; others that come to nothing, later.
    fn connect(&mut self, to: &Address, name: Option<&str>, now: Instant) -> Result<SessionId, AddressError> {
        let peer = WayAddresses::decode(to).ok_or(AddressError::WrongKind { driver: "auto" })?;
        let (addresses, not_taken) = self.ways_to(&peer);
        let mut asked = Asked::new(addresses, not_taken);
        asked.name = name.map(str::to_owned);
        asked.process = Some(peer.process()).filter(|process| process.is_in_sight_of(self.config.process));
        let Some((way, inner)) = self.try_next(&mut asked, now) else {
            let each = asked.not_taken.iter().map(|NotTaken { way, why }| format!("{way}: {why}"));
            return Err(AddressError::NoWay { why: each.collect::<Vec<_>>().join("; ") });
        };
        self.shared.asked.insert(inner, asked);
        self.shared.opens_over(inner, (way, inner));
        Ok(inner)
    }

    fn comes_from(&mut self, session: SessionId, to: &Address) -> bool {
        let Route::Leads(place, inner) = self.shared.route(session) else { return false };
        let Some(way) = self.ways.get_mut(place) else { return false };
        let (peer, name) = (WayAddresses::decode(to), way.name);
        let address = peer.as_ref().and_then(|peer| peer.of(name));
        let transport = way.transport_mut();
        address.zip(transport).is_some_and(|(address, transport)| transport.comes_from(inner, address))
    }

    fn taken_way(&self, session: SessionId) -> Option<Taken> {
        let Some(asked) = self.shared.asked.get(&session) else {
            let way = self.ways.get(self.shared.way_of(session))?;
            let others = self.ways.iter().filter(|other| other.name != way.name);
            let why = || PEERS_CHOICE.to_owned();
            let not_taken = others.map(|other| NotTaken { way: other.name, why: why() }).collect();
            return Some(Taken { way: way.name, not_taken });
        };
        let (place, _) = asked.leg?;
        Some(Taken { way: self.ways[place].name, not_taken: asked.not_taken(&self.ways) })
    }

    fn close(&mut self, session: SessionId, now: Instant) {
        let leg = match self.shared.asked.get_mut(&session) {
            Some(asked) => {
                asked.ends_as.get_or_insert(DownReason::Closed);
                asked.leg
            }
            None => Some((self.shared.way_of(session), session)),
        };
        let Some((place, inner)) = leg else { return };
        let Some(way) = self.ways.get_mut(place) else { return };
        if let Some(transport) = way.transport_mut() {
            transport.close(inner, now);
        }
        way.poll_next();
    }

    #[inline]
    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> usize {
        self.shared.now = now;
        let mut found = 0;
        for at in 0..self.ways.len() {
            if !self.ways[at].is_due(now) {
                continue;
            }
            let Some(mut transport) = self.ways[at].take() else { continue };
            let (ways, shared) = (&mut self.ways[..], &mut self.shared);
            let found_there = transport.poll(now, &mut WaySink { at, ways, shared, upper: &mut *sink });
            self.ways[at].put_back(transport);
            self.ways[at].was_polled(found_there, now);
            found += found_there;
        }
        if self.shared.has_work() {
            self.settle(now, sink);
        }
        found
    }

    fn flush(&mut self) -> bool {
        let mut any = false;
        for transport in self.ways.iter_mut().filter_map(Way::transport_mut) {
            any |= transport.flush();
        }
        any
    }

    fn trace_to(&mut self, tracer: CallTracer) {
        for transport in self.ways.iter_mut().filter_map(Way::transport_mut) {
            transport.trace_to(tracer.clone());
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.shared.has_work() {
            return Some(Instant::ZERO);
        }
        self.transports().filter_map(Transport::next_deadline).min()
    }
}

impl Wait for Several {
    fn prepare_wait(&mut self) {
        for way in &mut self.ways {
            way.poll_next();
            way.transport_mut().into_iter().for_each(Wait::prepare_wait);
        }
    }

    fn finish_wait(&mut self) {
        for way in &mut self.ways {
            way.poll_next();
            way.transport_mut().into_iter().for_each(Wait::finish_wait);
        }
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.transports().flat_map(Wait::wait_descriptors).collect()
    }
}
