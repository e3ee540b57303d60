//! What one way tells, told on as that of all.
//!
//! Batches are passed on as they are, with an outbox that reaches every way; on the path of a message that is
//! all. How sessions begin and end is in here too: an attempt that comes to nothing, a way that breaks.

use farcall_base::{Identity, Instant, NO_RANK, Principal};
use farcall_protocol::matching::Source;

use super::PEERS_CHOICE;
use super::sessions::{Asked, Shared};
use super::view::{View, renumbered};
use super::way::{Way, is_break};
use crate::batch::{MatchSource, Messages};
use crate::{
    Arrived, DownReason, Incoming, Matched, MatchedBatch, MessageBatch, MessageId, NotTaken, Outbox,
    RequestBatch, ResponseBatch, SendOutcome, SessionId, Sink, Submission, Submitted,
};

/// The sink of the way that is polled.
pub struct WaySink<'a> {
    pub at: usize,
    pub ways: &'a mut [Way],
    pub shared: &'a mut Shared,
    pub upper: &'a mut dyn Sink,
}

/// All ways, with the one that is polled as the current one.
macro_rules! view {
    ($sink:expr, $outbox:expr) => {
        View { at: $sink.at, current: $outbox, ways: &mut *$sink.ways, shared: &mut *$sink.shared }
    };
}

impl Sink for WaySink<'_> {
    #[inline]
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        requests.renumber(self.shared.outer(requests.session()));
        self.upper.requests(&mut view!(self, outbox), requests);
    }

    #[inline]
    fn responses(&mut self, outbox: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        responses.renumber(self.shared.outer(responses.session()));
        self.upper.responses(&mut view!(self, outbox), responses);
    }

    #[inline]
    fn received(&mut self, messages: &mut MatchedBatch<'_, '_>) {
        if self.shared.receives.is_mixed() {
            return self.received_somewhere(messages);
        }
        let session = self.shared.outer(messages.session());
        match messages.parts() {
            Messages::Single(outbox, single) => {
                let Some(matched) = single.take() else { return };
                let current: &mut dyn Outbox = &mut **outbox;
                let mut view = view!(self, current);
                let mut lent = MatchedBatch::single(&mut view, session, matched);
                self.upper.received(&mut lent);
                *single = lent.into_single();
            }
            Messages::Entries(source, from, entries) => {
                let current: &mut dyn MatchSource = &mut **source;
                let mut view = view!(self, current);
                let mut lent = MatchedBatch::of_entries(&mut view, session, *from, *entries);
                self.upper.received(&mut lent);
                if let Some(left) = lent.into_entries() {
                    *entries = left;
                }
            }
            Messages::Packet(source, from, packet) => {
                let current: &mut dyn MatchSource = &mut **source;
                let mut view = view!(self, current);
                let mut lent = MatchedBatch::of_packet(&mut view, session, *from, *packet);
                self.upper.received(&mut lent);
                if let Some(left) = lent.packet_end() {
                    *packet = left;
                }
            }
        }
    }

    fn messages(&mut self, outbox: &mut dyn Outbox, messages: &mut MessageBatch<'_>) {
        messages.renumber(self.shared.outer(messages.session()));
        self.upper.messages(&mut view!(self, outbox), messages);
    }

    fn sent(&mut self, outbox: &mut dyn Outbox, send: MessageId, outcome: SendOutcome) {
        self.upper.sent(&mut view!(self, outbox), send, outcome);
    }

    fn session_up(
        &mut self,
        outbox: &mut dyn Outbox,
        inner: SessionId,
        peer: Identity,
        principal: &Principal,
    ) {
        let session = self.shared.outer(inner);
        if !self.shared.asked.contains_key(&session) {
            self.note_choice_of_peer();
            let current: &mut dyn Outbox = &mut *outbox;
            self.upper.session_up(&mut view!(self, current), session, peer, principal);
        } else if !self.comes_up(outbox, (session, inner), peer, principal) {
            return;
        }
        self.ways[self.at].session_up(inner);
        let source = Source::new(peer.rank, peer.endpoint, inner.0);
        let is_ranked = peer.rank != NO_RANK;
        if self.shared.receives.session_up(self.at, source, is_ranked, inner) {
            post_again(&mut view!(self, outbox), self.upper);
        }
    }

    fn session_down(&mut self, outbox: &mut dyn Outbox, inner: SessionId, reason: &DownReason) {
        let session = self.shared.outer(inner);
        let leg = (self.at, inner);
        self.shared.leg_ended(leg);
        self.ways[self.at].session_down(inner, reason);
        let (name, now) = (self.ways[self.at].name, self.shared.now);
        match self.shared.asked.get_mut(&session) {
            Some(asked) if asked.leg == Some(leg) && !asked.is_up => {
                asked.leg = None;
                asked.not_taken.push(NotTaken { way: name, why: reason.to_string() });
                if asked.peer.is_none() {
                    asked.last_reason = reason.clone();
                }
                self.shared.counters.refused.increment();
                self.shared.due.push(session);
            }
            Some(asked) if asked.leg == Some(leg) && may_move(asked, self.at, reason, now) => {
                asked.begin_again(self.at, now);
                asked.not_taken = vec![NotTaken { way: name, why: format!("it broke: {reason}") }];
                asked.last_reason = reason.clone();
                asked.begin_doubt(reason, now);
                let is_doubted = asked.doubted_until.is_some();
                self.shared.let_wait(session);
                self.shared.receives.moved_from(self.at);
                self.shared.due.push(session);
                if !is_doubted {
                    self.upper.session_moved(&mut view!(self, outbox), session);
                }
            }
            Some(asked) if asked.leg != Some(leg) => {}
            asked => {
                let ends_as = asked.and_then(|asked| asked.ends_as.take());
                self.shared.forget(session);
                let reason = ends_as.as_ref().unwrap_or(reason);
                self.upper.session_down(&mut view!(self, outbox), session, reason);
            }
        }
    }

    /// A way has none to go over to.
    fn session_moved(&mut self, outbox: &mut dyn Outbox, inner: SessionId) {
        let session = self.shared.outer(inner);
        self.upper.session_moved(&mut view!(self, outbox), session);
    }
}

/// Whether a session whose way ended for this reason goes on over another one.
fn may_move(asked: &Asked, way: usize, reason: &DownReason, now: Instant) -> bool {
    let may = is_break(reason) && asked.ends_as.is_none() && asked.has_others_than(way);
    may && !asked.breaks_too_often(now)
}

impl WaySink<'_> {
    /// Passes messages on one by one: each may be what receives at other ways have waited for too.
    fn received_somewhere(&mut self, messages: &mut MatchedBatch<'_, '_>) {
        let session = self.shared.outer(messages.session());
        while let Some(matched) = messages.take_while(|_| false) {
            let mut view = view!(self, messages.outbox());
            view.withdraw_elsewhere(matched.receive, self.at);
            self.upper.received(&mut MatchedBatch::single(&mut view, session, matched));
        }
    }

    /// A session is up that the peer asked for.
    fn note_choice_of_peer(&mut self) {
        let others = self.ways.iter_mut().enumerate().filter(|(place, _)| *place != self.at);
        others.for_each(|(_, way)| way.why_not.note(PEERS_CHOICE));
    }

    /// A session that was asked for is up, and what waited for it leaves; false if it is not to be.
    fn comes_up(
        &mut self,
        outbox: &mut dyn Outbox,
        (session, inner): (SessionId, SessionId),
        peer: Identity,
        principal: &Principal,
    ) -> bool {
        let Some(asked) = self.shared.asked.get_mut(&session) else { return false };
        let is_moved = asked.peer.is_some();
        if asked.peer.is_some_and(|before| before.incarnation != peer.incarnation) {
            asked.ends_as = Some(DownReason::Restarted);
            self.shared.closing.push((self.at, inner));
            // Until it is closed the session is that of another process, with the rights of that one, and
            // nobody expects its messages.
            outbox.let_send(inner, false);
            self.upper.session_up(&mut view!(self, outbox), session, peer, principal);
            return false;
        }
        asked.came_up(peer, self.shared.now);
        for NotTaken { way, why } in asked.not_taken(self.ways) {
            let here = self.ways.iter_mut().find(|here| here.name == way).map(|here| &mut here.why_not);
            let absent = self.shared.absent.iter_mut().find(|(absent, _)| *absent == way);
            if let Some(noted) = here.or(absent.map(|(_, noted)| noted)) {
                noted.note(&why);
            }
        }
        if is_moved {
            self.shared.counters.moved.increment();
        }
        self.shared.leads_over(session, (self.at, inner));
        self.send_waiting(outbox, session, inner);
        self.upper.session_up(&mut view!(self, outbox), session, peer, principal);
        true
    }

    /// What was submitted while the session opened leaves, in its order.
    fn send_waiting(&mut self, outbox: &mut dyn Outbox, session: SessionId, inner: SessionId) {
        let Some(asked) = self.shared.asked.get_mut(&session) else { return };
        let waiting = core::mem::take(&mut asked.waiting);
        let (mut sent, mut excess) = (Vec::new(), None);
        for (submission, payload) in waiting {
            let owned = crate::Outgoing::from(payload).into_owned();
            match (outbox.submit_owned(renumbered(submission, inner), owned), submission) {
                (Submitted::Sent, Submission::Message { send, .. }) => sent.push((send, Ok(()))),
                (Submitted::Refused(_), Submission::Message { send, .. }) => {
                    sent.push((send, Err(over_limits())));
                    excess = Some(over_limits());
                }
                (Submitted::Refused(_), _) => excess = Some(over_limits()),
                (Submitted::Sent | Submitted::Queued, _) => {}
            }
        }
        if excess.is_some() {
            asked.ends_as = excess;
            self.shared.closing.push((self.at, inner));
        }
        for (send, outcome) in sent {
            let current: &mut dyn Outbox = &mut *outbox;
            self.upper.sent(&mut view!(self, current), send, outcome);
        }
    }
}

/// Why a session ends whose waiting calls its way does not take.
fn over_limits() -> DownReason {
    DownReason::Refused { why: "what waited for it is over its limits".to_owned() }
}

/// Posts all receives that wait again: their messages may come over a way that they are not posted to.
pub fn post_again(view: &mut View<'_, impl super::view::Current>, upper: &mut dyn Sink) {
    for noted in view.shared.receives.all() {
        if !view.withdraw_elsewhere(noted.receive, super::view::NONE) && !noted.is_parked {
            continue;
        }
        let receive = noted.receive;
        view.post(
            receive,
            noted.from,
            noted.tag,
            usize::MAX,
            &mut |outbox, session, tag, message: Arrived<'_>| {
                let payload = Incoming::Borrowed(message.as_slice());
                let matched = Matched { receive, tag, payload };
                upper.received(&mut MatchedBatch::single(outbox, session, matched));
            },
        );
    }
}
