//! Tagged messages as rings and libraries have them: matched here, and sent within the window of their
//! receiver.
//!
//! A [`Matcher`] has the posted-receive queue and the unexpected queue of one transport. Of each session it
//! keeps a [`MatchState`] for the messages that come, and a [`SendQueue`] for those that leave. None of them
//! knows how messages travel: a transport asks for the outcome of a match and acts on it, because only the
//! transport can give its outbox to the sink.
//!
//! A message at the head of a ring or batch that no receive waits for is *deferred*: it stays in place for
//! one poll, because the receiver may be about to post its receive, and what is read in place is not copied
//! twice ([`Deferral`]). With one receive in flight and a faster sender, each poll would take one message out
//! of what the sender has filled, and the poll costs more than the message. So a receive is given the
//! deferred head without a poll, if nothing else could have a claim to it ([`DeferredHead`]).

use std::collections::VecDeque;

use farcall_base::SipKey;
use farcall_protocol::matching::{
    ExactReceives, Matching, Notice, Overrun, Pattern, ReceiveWindow, SendWindow, Source, Tag,
};

use crate::batch::Taken;
use crate::notices::{Held, Receiving, Sending};
use crate::waiting::WaitingPayload;
use crate::{
    DownReason, Envelope, Incoming, Kept, MessageId, Origin, Posted, SendOutcome, SessionId, Spares,
};

/// The receives and unexpected messages of one transport, and the ends of sends that the sink has not been
/// notified of.
pub struct Matcher {
    matching: Matching<Unexpected>,
    /// Whether messages that no receive waits for go to the sink.
    pub hands_on: bool,
    pub ended_sends: Vec<(MessageId, SendOutcome)>,
    /// Memory of sends that waited, for the next that do.
    pub spares: Spares,
    /// Sessions of which messages are in the unexpected queue, and perhaps others.
    pub unread: Vec<SessionId>,
    orphaned: OrphanedSessions,
}

/// A message of the unexpected queue.
#[derive(Debug)]
pub struct Unexpected {
    pub envelope: Envelope,
    pub payload: Kept,
    /// What it counts in its session's window.
    pub lines: u32,
    /// Its place among the messages of its session.
    pub number: u32,
}

/// What becomes of a message that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchOutcome {
    /// A receive gets it.
    Matched(MessageId),
    /// The sink gets it, which takes all that no receive waits for.
    HandedOn,
    /// It was copied into the unexpected queue.
    Unexpected,
    /// It stays in place until the next poll. Nothing was changed.
    Deferred,
}

/// The messages of one session that come.
#[derive(Default)]
pub struct MatchState {
    /// The endpoint that they come from.
    pub source: Source,
    pub window: ReceiveWindow,
    /// How many came: their number, by which both ends name them alike in traces. Always counted, because
    /// tracing begins at different times at the two.
    pub received: u32,
    /// What is said to the peer about those that its window holds up.
    pub notices: Receiving,
    /// Whether the session is in [`Matcher::unread`].
    is_listed: bool,
    /// Whether the peer may send none.
    pub is_refused: bool,
}

/// The messages of one session that leave.
#[derive(Default)]
pub struct SendQueue {
    /// Those that wait for room or for the window; bounded by the operations of the layer above.
    pub waiting: VecDeque<WaitingSend>,
    pub window: SendWindow,
    /// How many left: their number, as in [`MatchState`].
    pub sent: u32,
    /// What is said to the peer about those that the window holds up.
    pub notices: Sending,
}

/// A tagged message that waits for room, or for the peer's window.
pub struct WaitingSend {
    pub send: MessageId,
    pub tag: Tag,
    pub payload: WaitingPayload,
    /// When it was submitted, if that is traced.
    pub submitted: Option<u64>,
}

impl SendQueue {
    /// Whether a message that counts this many lines may overtake nothing and fits the peer's window.
    #[inline]
    pub fn may_send(&self, lines: u32) -> bool {
        self.waiting.is_empty() && self.window.admits(lines)
    }

    /// A message leaves that counts this many lines; gives its number.
    #[inline]
    pub fn send(&mut self, lines: u32) -> u32 {
        let number = self.sent;
        self.window.send(lines);
        self.sent = number.wrapping_add(1);
        number
    }

    /// Takes back the sends of that name which wait; returns how many there were. One that is promised to the
    /// peer is not among them.
    pub fn cancel(&mut self, send: MessageId) -> usize {
        let before = self.waiting.len();
        let mut promised = self.notices.promised();
        self.waiting.retain(|waiting| {
            let is_promised = promised.take_if(|tag| *tag == waiting.tag).is_some();
            is_promised || waiting.send != send
        });
        let cancelled = before - self.waiting.len();
        if cancelled > 0 {
            self.notices.were_cancelled();
        }
        cancelled
    }
}

impl MatchState {
    /// Takes a notice of the peer.
    pub fn take_notice(&mut self, notice: Notice) -> Result<(), Overrun> {
        self.notices.take(notice)?;
        match notice {
            Notice::Beyond { lines, .. } => self.window.exceed(lines),
            _ => Ok(()),
        }
    }

    /// Messages of a batch came and were received.
    #[inline]
    pub fn pass(&mut self, taken: Taken) -> Result<(), Overrun> {
        self.window.arrive(taken.lines)?;
        self.window.consume(taken.lines);
        self.received = self.received.wrapping_add(u32::from(taken.messages));
        Ok(())
    }
}

impl Matcher {
    /// Both queues are empty. `secret` keeps peers from choosing tags that are slow to find.
    pub fn new(secret: SipKey) -> Self {
        Self {
            matching: Matching::new(secret),
            hands_on: false,
            ended_sends: Vec::new(),
            spares: Spares::default(),
            unread: Vec::new(),
            orphaned: OrphanedSessions::default(),
        }
    }

    /// A send that waited has left; the buffer was its payload's.
    #[inline]
    pub fn has_left(&mut self, send: MessageId, spare: Vec<u8>) {
        self.spares.keep(spare);
        self.ended_sends.push((send, Ok(())));
    }

    /// The ends that were in this memory have been reported; if no others came meanwhile, the next come into
    /// it.
    #[inline]
    pub fn reuse(&mut self, ended: Vec<(MessageId, SendOutcome)>) {
        if self.ended_sends.is_empty() {
            self.ended_sends = ended;
        }
    }

    /// Whether the sink gets each message that comes.
    #[inline]
    pub fn only_hands_on(&self) -> bool {
        self.hands_on && self.matching.has_no_receives()
    }

    /// Whether messages wait that the sink takes.
    #[inline]
    pub fn keeps_for_sink(&self) -> bool {
        self.hands_on && !self.matching.has_no_messages()
    }

    /// Whether both queues are empty, and the sink takes no messages.
    #[inline]
    pub fn is_idle(&self) -> bool {
        !self.hands_on && self.matching.is_empty()
    }

    /// Whether a receive or the sink waits for a message.
    #[inline]
    pub fn expects_messages(&self) -> bool {
        self.hands_on || !self.matching.has_no_receives()
    }

    /// A message came: the receive that gets it, which waits no longer, if there is one.
    #[inline]
    pub fn take_receive(&mut self, source: Source, tag: Tag) -> Option<MessageId> {
        self.matching.arrive(source, tag).map(MessageId)
    }

    /// To find the receives for messages of a source that came together; `None` where any waits that leaves
    /// the source or the tag open.
    #[inline]
    pub fn exact_receives(&mut self, source: Source) -> Option<ExactReceives<'_>> {
        self.matching.exact_receives(source)
    }

    /// A message came that counts this many `lines`; `may_defer` says whether it may stay in place.
    #[inline]
    pub fn arrive(
        &mut self,
        from: &mut MatchState,
        envelope: Envelope,
        payload: &Incoming<'_>,
        lines: u32,
        may_defer: bool,
    ) -> Result<MatchOutcome, Overrun> {
        // Before a receive is taken: with its session that would be lost.
        if !from.window.admits(lines) {
            return Err(Overrun);
        }
        let receive = self.take_receive(from.source, envelope.tag);
        if receive.is_none() && may_defer && !self.hands_on {
            return Ok(MatchOutcome::Deferred);
        }
        from.window.arrive(lines)?;
        let number = from.received;
        from.received = number.wrapping_add(1);
        let outcome = match receive {
            Some(receive) => MatchOutcome::Matched(receive),
            None if self.hands_on => MatchOutcome::HandedOn,
            None => {
                self.queue(from, Unexpected { envelope, payload: Kept::from(payload), lines, number });
                return Ok(MatchOutcome::Unexpected);
            }
        };
        from.window.consume(lines);
        Ok(outcome)
    }

    #[cold]
    fn queue(&mut self, from: &mut MatchState, message: Unexpected) {
        if !core::mem::replace(&mut from.is_listed, true) {
            self.unread.push(message.envelope.session);
        }
        if !self.matching.has_no_receives() {
            from.notices.ask();
        }
        self.matching.keep(from.source, message.envelope.tag, message);
    }

    /// A receive waits, of which the tag is said: notes that for a session of [`Matcher::unread`] if it may
    /// be for messages of that; false if the session has none any more.
    pub fn note_wanted(from: &mut MatchState, source: Option<Source>, tag: Tag) -> bool {
        from.is_listed = from.window.unread() > 0;
        if from.is_listed && source.is_none_or(|source| source == from.source) {
            from.notices.want(tag);
        }
        from.is_listed
    }

    /// Finds the notices that are due to a peer whose messages come.
    pub fn examine(&self, from: &mut MatchState) {
        let held = Held {
            is_held_up: from.window.unread() > 0,
            has_room: from.window.may_exceed(),
            has_receives: !self.matching.has_no_receives(),
        };
        from.notices.examine(&held, |tag| self.matching.wants(from.source, tag));
    }

    /// Posts a receive; `is_down` says that the session that it names has ended. An unexpected message that
    /// it gets counts as consumed from now on: the window of its session must be told.
    #[inline]
    pub fn post(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        is_down: bool,
    ) -> Result<Unexpected, Posted> {
        let pattern = Pattern { source: from.map(Origin::source), tag };
        match self.matching.post(receive.0, pattern) {
            Some(expected) => Ok(expected.message),
            None if is_down => {
                self.matching.withdraw(receive.0);
                Err(Posted::Down)
            }
            None => Err(Posted::Waiting),
        }
    }

    /// As [`Matcher::post`] where no message waits and there is a place for it; false otherwise, and then
    /// nothing has happened.
    #[inline(always)]
    pub fn post_at_once(&mut self, receive: MessageId, source: Source, tag: Tag) -> bool {
        self.matching.post_at_once(receive.0, source, tag)
    }

    /// Takes back a receive. False when it does not wait.
    pub fn withdraw(&mut self, receive: MessageId) -> bool {
        self.matching.withdraw(receive.0)
    }

    /// The oldest unexpected message, if the sink takes all.
    pub fn take_for_sink(&mut self) -> Option<Unexpected> {
        const ANY: Pattern = Pattern { source: None, tag: None };
        let expected = if self.hands_on { self.matching.take(ANY) } else { None }?;
        Some(expected.message)
    }

    /// A session is over: the sends that wait for it end, and what it sent before can still be received,
    /// within bounds.
    pub fn end_session(
        &mut self,
        sends: &mut SendQueue,
        from: &MatchState,
        session: SessionId,
        reason: &DownReason,
    ) {
        self.unread.retain(|unread| *unread != session);
        let waiting = sends.waiting.drain(..);
        self.ended_sends.extend(waiting.map(|waiting| (waiting.send, Err(reason.clone()))));
        let is_of = |message: &Unexpected, session| message.envelope.session == session;
        self.orphaned.add(&mut self.matching, from.source, session, is_of);
    }
}

/// The most ended sessions of which unexpected messages are kept.
const ORPHANED_SESSIONS_MAX: usize = 64;

/// Ended sessions that may have messages in the unexpected queue, oldest first.
#[derive(Default)]
pub struct OrphanedSessions(VecDeque<(Source, SessionId)>);

impl OrphanedSessions {
    /// A session has ended. If it is one too many, the messages of the one that ended first are forgotten:
    /// `is_of` says whether a message came in a session, and is asked only for that.
    pub fn add<M>(
        &mut self,
        matching: &mut Matching<M>,
        source: Source,
        session: SessionId,
        is_of: impl FnMut(&M, SessionId) -> bool,
    ) {
        if matching.unexpected() == 0 {
            return self.0.clear();
        }
        self.0.push_back((source, session));
        if self.0.len() > ORPHANED_SESSIONS_MAX {
            self.forget_oldest(matching, is_of);
        }
    }

    /// Forgets the messages of the session that ended first; false when there is none.
    pub fn forget_oldest<M>(
        &mut self,
        matching: &mut Matching<M>,
        mut is_of: impl FnMut(&M, SessionId) -> bool,
    ) -> bool {
        let Some((source, oldest)) = self.0.pop_front() else { return false };
        matching.forget(source, |message| is_of(message, oldest));
        true
    }
}

/// Whether a message that no receive waits for may stay in place until the next poll. It holds up what comes
/// behind it, so that waiting has to pay: no two polls in a row wait for messages that no receive wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// It has to be taken out.
    Never,
    /// It may stay.
    Once,
    /// The next message is the deferred head of the last poll. Others may be deferred if a receive waits for
    /// it by now, and none in this poll otherwise.
    Spent,
}

impl Deferral {
    /// What it is where the next message was deferred by the last poll.
    #[inline]
    pub fn spent(self) -> Self {
        if self == Self::Once { Self::Spent } else { self }
    }

    /// What it is after that became of a message.
    #[inline]
    pub fn after(self, outcome: MatchOutcome) -> Self {
        match outcome {
            MatchOutcome::Matched(_) | MatchOutcome::HandedOn => self.after_a_receive(),
            MatchOutcome::Unexpected if self == Self::Spent => Self::Never,
            MatchOutcome::Unexpected | MatchOutcome::Deferred => self,
        }
    }

    /// What it is after a message that a receive or the sink waited for.
    #[inline]
    pub fn after_a_receive(self) -> Self {
        if self == Self::Spent { Self::Once } else { self }
    }
}

/// When this many polls in a row found one message that was expected and others behind it, the receiver has
/// one receive in flight, and more than one only by chance before. Several take less time in a poll.
const SINGLE_MESSAGES_MIN: u32 = 4;

/// The message that the last poll deferred, if it is worth giving it to a receive without a poll; with the
/// place where it is.
#[derive(Debug)]
pub struct DeferredHead<P> {
    next: Option<Deferred<P>>,
    /// Polls in a row that deferred something behind a single message.
    single_messages: u32,
}

/// A message that was deferred.
#[derive(Clone, Copy, Debug)]
pub struct Deferred<P> {
    pub source: Source,
    pub tag: Tag,
    pub bytes: usize,
    pub place: P,
}

impl<P> Default for DeferredHead<P> {
    fn default() -> Self {
        Self { next: None, single_messages: 0 }
    }
}

impl<P: Copy> DeferredHead<P> {
    /// A message was deferred, behind this many that were expected.
    #[inline]
    pub fn note(&mut self, messages: u16, next: impl FnOnce() -> Option<Deferred<P>>) {
        self.single_messages = if messages == 1 { self.single_messages.saturating_add(1) } else { 0 };
        self.next = if self.single_messages >= SINGLE_MESSAGES_MIN { next() } else { None };
    }

    /// The deferred head was received, and this is what comes behind it: where each is, one receive is in
    /// flight at a time.
    #[inline]
    pub fn follow(&mut self, next: Option<Deferred<P>>) {
        self.next = next;
    }

    /// There is none any more.
    #[inline]
    pub fn forget(&mut self) {
        self.next = None;
    }

    #[inline]
    pub fn is_any(&self) -> bool {
        self.next.is_some()
    }

    /// The message, if it is that one, and has no more bytes.
    #[inline]
    pub fn find(&self, from: Source, tag: Tag, bytes_max: usize) -> Option<&Deferred<P>> {
        let is_it = |head: &&Deferred<P>| head.tag == tag && head.source == from && head.bytes <= bytes_max;
        self.next.as_ref().filter(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_of_the_session_that_ended_first_are_forgotten_first() {
        let (mut matching, mut orphaned) = (Matching::new(SipKey([1, 0])), OrphanedSessions::default());
        let source = Source::new(3, 0, 0);
        let ended = (0..=ORPHANED_SESSIONS_MAX as u32).map(SessionId);
        for session in ended.clone() {
            matching.keep(source, Tag(9), session);
            orphaned.add(&mut matching, source, session, |&of, session| of == session);
        }
        const ANY: Pattern = Pattern { source: None, tag: None };
        let left: Vec<_> = core::iter::from_fn(|| matching.take(ANY)).map(|kept| kept.message).collect();
        assert_eq!(left, ended.skip(1).collect::<Vec<_>>());
    }

    #[test]
    fn a_message_beyond_the_window_takes_no_receive_along_when_its_session_ends() {
        let mut matcher = Matcher::new(SipKey([1, 0]));
        let mut from = MatchState { window: ReceiveWindow::new(4), ..MatchState::default() };
        let anybody = matcher.post(MessageId(7), None, Some(Tag(9)), false);
        assert!(matches!(anybody, Err(Posted::Waiting)));
        let envelope = Envelope { session: SessionId(1), tag: Tag(9), bytes: 8 };
        let payload = Incoming::Borrowed(&[0; 8]);
        assert!(matcher.arrive(&mut from, envelope, &payload, 5, false).is_err());
        assert!(matcher.withdraw(MessageId(7)), "it waits for the messages of others");
    }
}
