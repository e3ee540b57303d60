//! All ways as one outbox: what handlers and callbacks get, and what sends outside polls.
//!
//! While a way is polled, or a receive is posted to it, its transport is borrowed, and reachable only as the
//! outbox that it gives to those whom it tells something: the *current* one. The others are in their places.

use farcall_base::NO_RANK;
use farcall_driver::{Loan, LoanError};
use farcall_protocol::matching::{Source, Tag};

use super::sessions::{Leg, Route, Shared};
use super::way::Way;
use crate::batch::MatchSource;
use crate::matcher::Matcher;
use crate::waiting::WaitingPayload;
use crate::{
    Arrived, CallId, Deliver, Incoming, Kept, MessageId, Origin, Outbox, Outgoing, Owned, Posted, RequestId,
    Service, SessionId, Status, Submission, Submitted,
};

/// No way is current.
pub const NONE: usize = usize::MAX;

/// The way that is borrowed, if one is.
pub trait Current {
    fn outbox(&mut self) -> Option<&mut dyn Outbox>;

    fn look(&self) -> Option<&dyn Outbox>;
}

impl Current for () {
    #[inline]
    fn outbox(&mut self) -> Option<&mut dyn Outbox> {
        None
    }

    fn look(&self) -> Option<&dyn Outbox> {
        None
    }
}

impl Current for &mut dyn Outbox {
    #[inline]
    fn outbox(&mut self) -> Option<&mut dyn Outbox> {
        Some(&mut **self)
    }

    fn look(&self) -> Option<&dyn Outbox> {
        Some(&**self)
    }
}

impl Current for &mut dyn MatchSource {
    #[inline]
    fn outbox(&mut self) -> Option<&mut dyn Outbox> {
        Some(&mut **self as &mut dyn Outbox)
    }

    fn look(&self) -> Option<&dyn Outbox> {
        Some(&**self as &dyn Outbox)
    }
}

/// All ways.
pub struct View<'a, C> {
    /// The place of the current one.
    pub at: usize,
    pub current: C,
    pub ways: &'a mut [Way],
    pub shared: &'a mut Shared,
}

impl<C: Current> View<'_, C> {
    #[inline]
    fn outbox(&mut self, way: usize) -> Option<&mut dyn Outbox> {
        if way == self.at { self.current.outbox() } else { self.ways.get_mut(way)?.outbox() }
    }

    fn wait(
        &mut self,
        session: SessionId,
        submission: Submission,
        payload: impl Into<WaitingPayload>,
    ) -> Submitted {
        let limits = (self.shared.message_bytes_max, self.shared.calls_max);
        match self.shared.asked.get_mut(&session) {
            Some(asked) => asked.wait(submission, payload.into(), limits),
            None => Submitted::DOWN,
        }
    }

    /// Posts a receive to one way.
    #[inline]
    fn post_at(
        &mut self,
        way: usize,
        receive: MessageId,
        (from, tag): (Option<Origin>, Option<Tag>),
        in_place_bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        let Self { at, current, ways, shared } = self;
        if way == *at {
            let Some(outbox) = current.outbox() else { return Posted::Down };
            return outbox.post(
                receive,
                from,
                tag,
                in_place_bytes_max,
                &mut |outbox, session, tag, message| {
                    let session = shared.outer(session);
                    deliver(&mut View { at: way, current: outbox, ways, shared }, session, tag, message);
                },
            );
        }
        if *at == NONE {
            let Some(mut transport) = ways.get_mut(way).and_then(Way::take) else { return Posted::Down };
            let posted = transport.post(
                receive,
                from,
                tag,
                in_place_bytes_max,
                &mut |outbox, session, tag, message| {
                    let session = shared.outer(session);
                    deliver(&mut View { at: way, current: outbox, ways, shared }, session, tag, message);
                },
            );
            ways[way].put_back(transport);
            return posted;
        }
        self.post_aside(way, receive, (from, tag), deliver)
    }

    /// Posts a receive to a way that is neither polled nor to be borrowed meanwhile.
    fn post_aside(
        &mut self,
        way: usize,
        receive: MessageId,
        (from, tag): (Option<Origin>, Option<Tag>),
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        let mut found = None;
        let Some(outbox) = self.outbox(way) else { return Posted::Down };
        let posted = outbox.post(receive, from, tag, usize::MAX, &mut |_, session, tag, message| {
            let kept = match message {
                Arrived::InPlace(bytes) => Kept::from(&Incoming::Borrowed(bytes)),
                Arrived::Kept(kept) => kept,
            };
            found = Some((session, tag, kept));
        });
        if let Some((session, tag, kept)) = found {
            let session = self.shared.outer(session);
            deliver(self, session, tag, Arrived::Kept(kept));
        }
        posted
    }

    /// Posts a receive wherever its message may come.
    fn post_everywhere(
        &mut self,
        receive: MessageId,
        (from, tag): (Option<Origin>, Option<Tag>),
        in_place_bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        let legs = self.legs_of(from);
        let mut waits_at = Vec::new();
        for &(way, from) in &legs {
            match self.post_at(way, receive, (from, tag), in_place_bytes_max, deliver) {
                Posted::Waiting => waits_at.push(way),
                Posted::Down => {}
                Posted::Delivered => {
                    for way in waits_at {
                        self.outbox(way).map(|outbox| outbox.cancel_receive(receive));
                    }
                    return Posted::Delivered;
                }
            }
        }
        if !waits_at.is_empty() {
            return Posted::Waiting;
        }
        if from.is_some_and(|origin| self.shared.is_between_ways(origin.session())) {
            self.shared.receives.park(receive);
            return Posted::Waiting;
        }
        Posted::Down
    }

    /// The ways that messages from there may come over, those with the oldest first, and how the peer is
    /// known to each.
    fn legs_of(&self, from: Option<Origin>) -> Vec<(usize, Option<Origin>)> {
        let receives = &self.shared.receives;
        let Some(origin) = from else {
            let only = [receives.only()];
            let ways = if receives.is_mixed() { receives.active() } else { &only[..] };
            return ways.iter().map(|&way| (way, None)).collect();
        };
        let session = origin.session();
        let asked = self.shared.asked.get(&session);
        let known = || asked.into_iter().flat_map(|asked| asked.former.iter().chain(&asked.leg).copied());
        if origin.source() == Source::new(NO_RANK, 0, session.0) {
            let as_there =
                |(way, inner): Leg| (way, Some(Origin::new(Source::new(NO_RANK, 0, inner.0), inner)));
            let direct = (self.shared.way_of(session), session);
            let legs: Vec<_> = known().map(as_there).collect();
            return if legs.is_empty() { vec![as_there(direct)] } else { legs };
        }
        let mut ways = receives.active().to_vec();
        let own = asked.and_then(|asked| asked.leg).unwrap_or((self.shared.way_of(session), session));
        if !ways.contains(&own.0) {
            ways.push(own.0);
        }
        let source = origin.source();
        let as_there = |way| {
            let other = receives.session_of(source, way).unwrap_or(session);
            let inner = if way == own.0 { own.1 } else { other };
            (way, Some(Origin::new(source, inner)))
        };
        ways.into_iter().map(as_there).collect()
    }

    /// Takes a receive back wherever it waits, also here; says whether it did.
    pub fn withdraw(&mut self, receive: MessageId) -> bool {
        let was_posted = self.withdraw_elsewhere(receive, NONE);
        self.shared.receives.unpark(receive) || was_posted
    }

    /// Takes a receive back wherever it is posted, but there.
    pub fn withdraw_elsewhere(&mut self, receive: MessageId, but: usize) -> bool {
        let mut waited = false;
        for way in (0..self.ways.len()).filter(|&way| way != but) {
            waited |= self.outbox(way).is_some_and(|outbox| outbox.cancel_receive(receive));
        }
        waited
    }
}

impl<C: Current> Outbox for View<'_, C> {
    #[inline]
    fn call(&mut self, session: SessionId, call: CallId, service: Service, payload: &[u8]) -> Submitted {
        match self.shared.route(session) {
            Route::Leads(way, inner) => match self.outbox(way) {
                Some(outbox) => outbox.call(inner, call, service, payload),
                None => Submitted::DOWN,
            },
            Route::Waits => {
                let submission = Submission::Call { session, call, service };
                self.wait(session, submission, Outgoing::Slice(payload))
            }
        }
    }

    /// A request is answered where it came from, whatever has become of the session since.
    #[inline]
    fn reply(&mut self, request: RequestId, status: Status, payload: &[u8]) {
        let way = self.shared.way_of(request.session);
        if let Some(outbox) = self.outbox(way) {
            outbox.reply(request, status, payload);
        }
    }

    #[inline]
    fn send(&mut self, session: SessionId, send: MessageId, tag: Tag, payload: &[u8]) -> Submitted {
        match self.shared.route(session) {
            Route::Leads(way, inner) => match self.outbox(way) {
                Some(outbox) => outbox.send(inner, send, tag, payload),
                None => Submitted::DOWN,
            },
            Route::Waits => {
                let submission = Submission::Message { session, send, tag };
                self.wait(session, submission, Outgoing::Slice(payload))
            }
        }
    }

    fn submit_owned(&mut self, submission: Submission, payload: Owned) -> Submitted {
        let session = match submission {
            Submission::Call { session, .. } | Submission::Message { session, .. } => session,
            Submission::Reply { request, .. } => {
                let way = self.shared.way_of(request.session);
                let outbox = self.outbox(way);
                return outbox.map_or(Submitted::DOWN, |outbox| outbox.submit_owned(submission, payload));
            }
        };
        match self.shared.route(session) {
            Route::Leads(way, inner) => {
                let outbox = self.outbox(way);
                let there = renumbered(submission, inner);
                outbox.map_or(Submitted::DOWN, |outbox| outbox.submit_owned(there, payload))
            }
            Route::Waits => self.wait(session, submission, Outgoing::from(payload)),
        }
    }

    fn cancel(&mut self, session: SessionId, call: CallId) {
        match self.shared.route(session) {
            Route::Leads(way, inner) => {
                if let Some(outbox) = self.outbox(way) {
                    outbox.cancel(inner, call);
                }
            }
            Route::Waits => {
                if let Some(asked) = self.shared.asked.get_mut(&session) {
                    asked.cancel(call);
                }
            }
        }
    }

    fn is_transmitted(&self, session: SessionId, call: CallId) -> bool {
        match self.shared.route(session) {
            Route::Leads(way, inner) => {
                let other = || self.ways.get(way)?.transport().map(|transport| transport as &dyn Outbox);
                let outbox = if way == self.at { self.current.look() } else { other() };
                outbox.is_none_or(|outbox| outbox.is_transmitted(inner, call))
            }
            Route::Waits => false,
        }
    }

    fn cancel_send(&mut self, send: MessageId) -> usize {
        let waiting: usize = self.shared.asked.values_mut().map(|asked| asked.cancel_send(send)).sum();
        let there: usize = (0..self.ways.len())
            .map(|way| self.outbox(way).map_or(0, |outbox| outbox.cancel_send(send)))
            .sum();
        waiting + there
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
        let receives = &mut self.shared.receives;
        receives.note(receive, from, tag);
        let (is_mixed, only) = (receives.is_mixed(), receives.only());
        if is_mixed || self.shared.has_detours() {
            return self.post_everywhere(receive, (from, tag), in_place_bytes_max, deliver);
        }
        let way = from.map_or(only, |origin| self.shared.way_of(origin.session()));
        self.post_at(way, receive, (from, tag), in_place_bytes_max, deliver)
    }

    fn cancel_receive(&mut self, receive: MessageId) -> bool {
        self.withdraw(receive)
    }

    /// What waits for a way is told again when it has one: see [`Sink::session_up`](crate::Sink::session_up).
    fn let_send(&mut self, session: SessionId, may_send: bool) {
        if let Route::Leads(way, inner) = self.shared.route(session)
            && let Some(outbox) = self.outbox(way)
        {
            outbox.let_send(inner, may_send);
        }
    }

    fn hand_on_unexpected(&mut self, hand_on: bool) {
        for way in 0..self.ways.len() {
            if let Some(outbox) = self.outbox(way) {
                outbox.hand_on_unexpected(hand_on);
            }
        }
    }

    /// Of the way that comes first: what another one does not lend by itself it sends as bytes.
    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.outbox(0).map_or(Err(LoanError::Exhausted), |outbox| outbox.loan(bytes))
    }
}

impl MatchSource for View<'_, &mut dyn MatchSource> {
    #[inline]
    fn matcher(&mut self) -> &mut Matcher {
        self.current.matcher()
    }
}

/// The same over the session of that number.
pub fn renumbered(submission: Submission, session: SessionId) -> Submission {
    match submission {
        Submission::Call { call, service, .. } => Submission::Call { session, call, service },
        Submission::Message { send, tag, .. } => Submission::Message { session, send, tag },
        Submission::Reply { .. } => submission,
    }
}
