//! Everything that sending needs: the library, the sessions, and the verbs that the seam promises.

use farcall_base::Address;
use farcall_driver::{Destination, HeapLoans, Loan, LoanError};
use farcall_protocol::matching::WINDOW_LINE_BYTES;
use farcall_protocol::session::{Link, SessionId, Sessions};
use farcall_protocol::wire::{CallKey, Flags, Head, put_whole};

use super::channel::{Channel, Waiting};
use super::seam::{Arrival, Library};
use super::tagged::Rest;
use super::{LibraryConfig, LibraryCounters};
use crate::mail::Mail;
use crate::patience::Patience;
use crate::trace::{CallTracer, event};
use crate::unclaimed::Unclaimed;
use crate::{
    CallId, CallRefused, Holdings, MessageId, Origin, Outbox, Outgoing, ReceiveProgress, RequestId,
    SendProgress, SendRefused, Service, Sink, Status, Tag,
};

/// A message of the library of which a part waits for the next poll.
pub struct Held<A> {
    pub arrival: A,
    pub rest: Rest,
}

/// Everything that sending needs.
pub struct Outbound<L: Library> {
    pub library: L,
    pub sessions: Sessions,
    pub counters: LibraryCounters,
    /// By the index of the session's number; of sessions that are over what is left is never looked at.
    pub(super) channels: Vec<Option<Channel>>,
    /// Sessions that are over and gave their place to others before their end could be reported.
    pub(super) displaced: Vec<Channel>,
    pub(super) address: Address,
    pub(super) loans: HeapLoans,
    pub(super) head: Head,
    /// Destinations that a session has led to; looked through when one ends.
    pub(super) destinations: Vec<Destination>,
    /// Whether a session has ended since.
    pub(super) any_ended: bool,
    /// Sessions that ended because their waiting calls were over its limits, with the words for it.
    pub(super) excesses: Vec<(SessionId, String)>,
    pub mail: Mail,
    /// As a pointer, because it is taken out and put back for each message of it where few are expected at a time.
    pub held: Option<Box<Held<L::Arrival>>>,
    /// What it was left for.
    pub(super) unclaimed: Unclaimed<()>,
    /// Whether the sink took the last messages that came together better matched ahead than one by one.
    pub(super) matches_ahead: bool,
    /// Whether the next message that nobody expects may be left in this poll.
    pub patience: Patience,
    /// How much of a peer's messages may wait here.
    pub(super) unexpected_lines: u32,
    /// Sessions with messages that leave with the next flush.
    pub(super) open_batches: Vec<SessionId>,
    pub tracer: CallTracer,
}

impl<L: Library> Outbound<L> {
    pub fn new(
        library: L,
        sessions: Sessions,
        counters: LibraryCounters,
        config: &LibraryConfig,
        seed: u64,
    ) -> Self {
        let unexpected_lines = u32::try_from(config.unexpected_bytes / WINDOW_LINE_BYTES).unwrap_or(u32::MAX);
        let address = library.address();
        Self {
            library,
            sessions,
            counters,
            channels: Vec::new(),
            displaced: Vec::new(),
            address,
            loans: HeapLoans::new(config.loan_bytes_max),
            head: Head::new(),
            destinations: Vec::new(),
            any_ended: false,
            excesses: Vec::new(),
            mail: Mail::new(seed),
            held: None,
            unclaimed: Unclaimed::default(),
            matches_ahead: false,
            patience: Patience::Once,
            unexpected_lines: unexpected_lines.max(1),
            open_batches: Vec::new(),
            tracer: CallTracer::default(),
        }
    }

    /// The channel of a session that is not over.
    #[inline]
    pub fn channel(&mut self, id: SessionId) -> Option<&mut Channel> {
        live(&mut self.channels, id)
    }

    /// The session at an index, which the protocol has just found.
    #[inline]
    pub fn channel_at(&mut self, index: usize) -> Option<&mut Channel> {
        self.channels.get_mut(index)?.as_mut()
    }

    /// What is under way in all sessions.
    pub fn holdings(&self) -> Holdings {
        let mut held = Holdings::default();
        for channel in self.channels.iter().flatten() {
            held.calls += channel.unanswered_calls;
            held.requests += channel.unanswered_requests;
            held.backlog += channel.waiting.len();
        }
        held
    }

    /// Reads what was left of a message.
    pub fn go_on(&mut self, mut held: Box<Held<L::Arrival>>, sink: &mut dyn Sink) {
        self.unclaimed.forget();
        match self.deliver(held.rest, &held.arrival.payload(), sink) {
            Some(rest) => {
                held.rest = rest;
                self.held = Some(held);
            }
            None => self.library.release(held.arrival),
        }
    }

    /// Gives a message back to the library, unless something is left of it.
    #[inline]
    pub fn hold_or_release(&mut self, arrival: L::Arrival, rest: Option<Rest>) {
        match rest {
            Some(rest) => self.held = Some(Box::new(Held { arrival, rest })),
            None => self.library.release(arrival),
        }
    }

    /// Gives what is held back to the library, whatever is left of it.
    pub fn release_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.library.release(held.arrival);
        }
    }

    #[inline]
    pub(super) fn transmit(
        &mut self,
        id: SessionId,
        link: &Link,
        flags: Flags,
        call: u32,
        tag: u16,
        payload: Outgoing<'_>,
    ) {
        let from_caller = flags.has(Flags::FROM_CALLER);
        let event = if from_caller { event::REQUEST_TRANSMITTED } else { event::RESPONSE_TRANSMITTED };
        self.tracer.mark(event, call, crate::SessionId(id.0));
        put_whole(&mut self.head, flags, link.remote, CallKey::from_wire(u64::from(call)), tag);
        self.library.send(Destination(link.to.0), self.head.as_bytes(), payload);
    }
}

impl<L: Library> Outbox for Outbound<L> {
    #[inline]
    fn call(
        &mut self,
        session: crate::SessionId,
        call: CallId,
        service: Service,
        payload: Outgoing<'_>,
    ) -> Result<(), CallRefused> {
        let channel = self.channel(to_protocol(session)).ok_or(CallRefused::Down)?;
        let (bytes, bytes_max) = (payload.len(), channel.message_bytes_max());
        if bytes > bytes_max {
            return Err(CallRefused::TooLong { bytes, bytes_max });
        }
        let calls_max = channel.calls_max();
        if channel.unanswered_calls >= calls_max {
            return Err(CallRefused::TooManyCalls { calls_max });
        }
        channel.unanswered_calls += 1;
        match channel.link {
            Some(link) => {
                let id = channel.id;
                self.transmit(id, &link, Flags::FROM_CALLER, call.0, service.0, payload);
            }
            None => {
                channel.waiting.push_back(Waiting { call, service, payload: payload.into() });
                self.counters.waited_for_session.increment();
            }
        }
        self.counters.calls_sent.increment();
        Ok(())
    }

    #[inline]
    fn reply(&mut self, request: RequestId, status: Status, payload: Outgoing<'_>) {
        self.tracer.mark_request(event::REPLIED, request);
        let id = to_protocol(request.session);
        let Some(channel) = self.channel(id) else { return };
        let Some(link) = channel.link else { return };
        channel.unanswered_requests = channel.unanswered_requests.saturating_sub(1);
        let too_long = payload.len() > channel.message_bytes_max();
        let (status, payload) =
            if too_long { (Status::AnswerTooLong, Outgoing::Slice(&[])) } else { (status, payload) };
        self.transmit(id, &link, Flags::NONE, request.token as u32, status.to_wire(), payload);
    }

    /// A request that the library has cannot be called back; one that waits for its session can.
    fn cancel(&mut self, session: crate::SessionId, call: CallId) {
        let Some(channel) = self.channel(to_protocol(session)) else { return };
        let before = channel.waiting.len();
        channel.waiting.retain(|waiting| waiting.call != call);
        channel.unanswered_calls -= before - channel.waiting.len();
    }

    /// What the library has been given is its own business.
    fn is_transmitted(&self, session: crate::SessionId, call: CallId) -> bool {
        let id = to_protocol(session);
        let channel = self.channels.get(id.index()).and_then(Option::as_ref);
        !channel.is_some_and(|channel| {
            channel.id == id && channel.waiting.iter().any(|waiting| waiting.call == call)
        })
    }

    fn send(
        &mut self,
        session: crate::SessionId,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'_>,
    ) -> Result<SendProgress, SendRefused> {
        self.send_message(session, send, tag, payload)
    }

    #[inline]
    fn send_at_once(&mut self, session: crate::SessionId, tag: Tag, payload: &[u8]) -> bool {
        self.send_short(session, tag, payload)
    }

    fn cancel_send(&mut self, send: MessageId) -> usize {
        self.channels.iter_mut().flatten().map(|channel| channel.tagged.mail.cancel(send)).sum()
    }

    #[inline]
    fn receive(&mut self, receive: MessageId, from: Option<Origin>, tag: Option<Tag>) -> ReceiveProgress {
        self.post_receive(receive, from, tag)
    }

    #[inline]
    fn receive_at_once(&mut self, receive: MessageId, from: Origin, tag: Tag) -> bool {
        self.channel(to_protocol(from.session)).is_some() && self.mail.post_at_once(receive, from.source, tag)
    }

    fn cancel_receive(&mut self, receive: MessageId) -> bool {
        self.mail.withdraw(receive)
    }

    fn hand_on_unexpected(&mut self, hand_on: bool) {
        self.mail.hands_on = hand_on;
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.loans.loan(bytes)
    }
}

/// The channel of a session that is not over, for those who use other parts of [`Outbound`] beside it.
#[inline]
pub(super) fn live(channels: &mut [Option<Channel>], id: SessionId) -> Option<&mut Channel> {
    channels.get_mut(id.index())?.as_mut().filter(|channel| channel.id == id)
}

/// Both number their sessions alike, and never use a number again.
#[inline]
pub const fn to_protocol(session: crate::SessionId) -> SessionId {
    SessionId(session.0)
}
