//! The users of the attacked transport and of the honest one, whatever fabric these are on.

use farcall_base::Instant;
use farcall_transport::{
    Arrived, CallId, MessageId, Origin, Outbox, Posted, Service, SessionId, Source, Status, Tag, Transport,
};

use crate::sink::{ECHO, HonestSink, TargetSink, is_accepted};

/// Time stands still, so that nobody is silent for too long.
pub const NOW: Instant = Instant::from_nanos(1);

/// The rank of the hostile peer, on whatever fabric.
const HOSTILE_RANK: u32 = 2;

/// The most messages that are asked for one after the other.
const IN_TURN_MAX: usize = 16;

/// The attacked transport, and what its user has done.
pub struct Target<T> {
    pub transport: T,
    pub sink: TargetSink,
    calls: u32,
    /// Sends and receives.
    messages: u32,
}

impl<T: Transport> Target<T> {
    pub fn new(transport: T, sink: TargetSink) -> Self {
        Self { transport, sink, calls: 0, messages: 0 }
    }

    pub fn poll(&mut self) {
        self.transport.poll(NOW, &mut self.sink);
    }

    /// Calls the hostile peer.
    pub fn call(&mut self, length: usize) {
        let Some(session) = self.sink.hostile else { return };
        self.calls += 1;
        let (call, bytes) = (CallId(self.calls), vec![7; length]);
        let made = self.transport.call(session, call, Service(1), &bytes);
        self.sink.calls_made += u32::from(is_accepted(made));
    }

    /// Cancels a call, counted back from the last.
    pub fn cancel(&mut self, back: u32) {
        let Some(session) = self.sink.hostile else { return };
        self.transport.cancel(session, CallId(self.calls.saturating_sub(back)));
    }

    pub fn answer_deferred(&mut self) {
        self.sink.answer_deferred(&mut self.transport);
    }

    /// Sends the hostile peer a message.
    pub fn send(&mut self, length: usize) {
        let Some(session) = self.sink.hostile else { return };
        let (send, bytes) = (self.next_message(), vec![9; length]);
        // Whatever becomes of it: the sink does not ask.
        _ = self.transport.send(session, send, Tag(1), &bytes);
    }

    /// Asks for a message, or takes back that it asked; or asks for several, one after the other.
    pub fn receive(&mut self, choice: u8) {
        if choice % 16 == 9 {
            return self.receive_in_turn(Tag(u32::from(choice >> 4)));
        }
        let tag = (!choice.is_multiple_of(4)).then_some(Tag(u32::from(choice >> 4)));
        let receive = self.next_message();
        let posted = self.transport.post(receive, None, tag, usize::MAX, &mut |_, _, _, _| {});
        if posted == Posted::Waiting && choice % 8 == 7 {
            assert!(self.transport.cancel_receive(receive), "it waits until it is cancelled");
        }
    }

    /// Asks the hostile peer for one message after the other, as an endpoint does, until there is none.
    fn receive_in_turn(&mut self, tag: Tag) {
        let Some(session) = self.sink.hostile else { return };
        let from = Origin::new(Source::new(HOSTILE_RANK, 0, session.0), session);
        for _ in 0..IN_TURN_MAX {
            let receive = self.next_message();
            match self.post_in_turn(receive, from, tag) {
                Posted::Waiting => {}
                Posted::Delivered => continue,
                Posted::Down => return,
            }
            self.poll();
            if self.transport.cancel_receive(receive) {
                return;
            }
        }
    }

    /// Asks for the next message: as a future does, or as a callback that sends a message and asks for the next meanwhile.
    fn post_in_turn(&mut self, receive: MessageId, from: Origin, tag: Tag) -> Posted {
        if self.messages.is_multiple_of(2) {
            return self.transport.post(receive, Some(from), Some(tag), usize::MAX, &mut |_, _, _, _| {});
        }
        let (send, next) = (self.next_message(), self.next_message());
        let mut deliver = |outbox: &mut dyn Outbox, session, _: Tag, arrived: Arrived<'_>| {
            _ = outbox.send(session, send, Tag(1), arrived.as_slice());
            _ = outbox.post(next, Some(from), Some(tag), usize::MAX, &mut |_, _, _, _| {});
        };
        self.transport.post(receive, Some(from), Some(tag), usize::MAX, &mut deliver)
    }

    /// Asks for any message; gives session and length of one that was here already.
    pub fn receive_any(&mut self) -> Option<(SessionId, usize)> {
        let (receive, mut message) = (self.next_message(), None);
        let mut deliver = |_: &mut dyn Outbox, session, _: Tag, arrived: Arrived<'_>| {
            message = Some((session, arrived.as_slice().len()));
        };
        _ = self.transport.post(receive, None, None, usize::MAX, &mut deliver);
        message
    }

    fn next_message(&mut self) -> MessageId {
        self.messages += 1;
        MessageId(self.messages)
    }

    /// The hostile peer's requests that it has read no answer to are no more than were agreed.
    pub fn check_open_requests(&self, answers_read: usize) {
        if self.sink.hostile.is_some() {
            let open = self.sink.requests_of_hostile.checked_sub(answers_read);
            let (open, agreed) = (open.expect("there is one response to a request"), self.sink.calls_max);
            assert!(open <= agreed, "{open} requests are kept for a peer with whom {agreed} were agreed");
        }
    }
}

/// The honest transport.
pub struct Honest<T> {
    pub transport: T,
    pub sink: HonestSink,
}

impl<T: Transport> Honest<T> {
    pub fn poll(&mut self) {
        self.transport.poll(NOW, &mut self.sink);
    }

    /// Whatever happened, calls of these lengths are answered within so many turns of both sides.
    pub fn is_served<U: Transport>(
        &mut self,
        target: &mut Target<U>,
        lengths: [usize; 4],
        rounds_max: usize,
    ) {
        for length in lengths {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (session, call) = (self.sink.session, CallId(length as u32));
            let made = self.transport.call(session, call, ECHO, &bytes);
            assert!(is_accepted(made), "the honest session is up");
            for _ in 0..rounds_max {
                self.poll();
                target.poll();
            }
            self.poll();
            assert_eq!(self.sink.answers.pop(), Some((call, Status::Ok, bytes)));
        }
        assert!(self.sink.answers.is_empty(), "one answer to a call");
    }
}
