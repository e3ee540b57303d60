//! The users of the attacked transport and of the honest one, whatever fabric these are on.

use farcall_base::Instant;
use farcall_transport::{
    CallId, MessageId, Origin, Outgoing, ReceiveProgress, Service, Source, Status, Tag, Transport,
};

use crate::sink::{ECHO, HonestSink, TargetSink};

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
        let made = self.transport.outbox().call(session, call, Service(1), Outgoing::Slice(&bytes));
        self.sink.calls_made += u32::from(made.is_ok());
    }

    /// Cancels a call, counted back from the last.
    pub fn cancel(&mut self, back: u32) {
        let Some(session) = self.sink.hostile else { return };
        self.transport.outbox().cancel(session, CallId(self.calls.saturating_sub(back)));
    }

    pub fn answer_deferred(&mut self) {
        self.sink.answer_deferred(self.transport.outbox());
    }

    /// Sends the hostile peer a message.
    pub fn send(&mut self, length: usize) {
        let Some(session) = self.sink.hostile else { return };
        let (send, bytes) = (self.next_message(), vec![9; length]);
        // Whatever becomes of it: the sink does not ask.
        let _ = self.transport.outbox().send(session, send, Tag(1), Outgoing::Slice(&bytes));
    }

    /// Asks for a message, or takes back that it asked; or asks for several, one after the other.
    pub fn receive(&mut self, choice: u8) {
        if choice % 16 == 9 {
            return self.receive_in_turn(Tag(u32::from(choice >> 4)));
        }
        let tag = (!choice.is_multiple_of(4)).then_some(Tag(u32::from(choice >> 4)));
        let receive = self.next_message();
        let outbox = self.transport.outbox();
        let progress = outbox.receive(receive, None, tag);
        if matches!(progress, ReceiveProgress::Posted) && choice % 8 == 7 {
            assert!(outbox.cancel_receive(receive), "it waits until it is cancelled");
        }
    }

    /// Asks the hostile peer for one message after the other, as an endpoint does, until there is none.
    fn receive_in_turn(&mut self, tag: Tag) {
        let Some(session) = self.sink.hostile else { return };
        let from = Origin { source: Source::new(HOSTILE_RANK, 0), session };
        for _ in 0..IN_TURN_MAX {
            let receive = self.next_message();
            if !self.transport.receive_at_once(receive, from, tag, usize::MAX) {
                if self.is_given_left(from, tag) {
                    continue;
                }
                match self.transport.outbox().receive(receive, Some(from), Some(tag)) {
                    ReceiveProgress::Posted => {}
                    ReceiveProgress::Arrived(..) => continue,
                    ReceiveProgress::Down => return,
                }
            }
            self.poll();
            if self.transport.outbox().cancel_receive(receive) {
                return;
            }
        }
    }

    /// Takes a message that was left: as a future does, or as a callback that sends a message and asks for the next meanwhile.
    fn is_given_left(&mut self, from: Origin, tag: Tag) -> bool {
        if self.messages.is_multiple_of(2) {
            return self.transport.take_left(from.source, tag, usize::MAX, &mut |_, _| {});
        }
        let (send, receive) = (self.next_message(), self.next_message());
        self.transport.give_left(from.source, tag, usize::MAX, &mut |outbox, session, message| {
            let _ = outbox.send(session, send, Tag(1), Outgoing::Slice(message));
            outbox.receive(receive, Some(from), Some(tag));
        })
    }

    /// Asks for any message.
    pub fn receive_any(&mut self) -> ReceiveProgress {
        let receive = self.next_message();
        self.transport.outbox().receive(receive, None, None)
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
            let made = self.transport.outbox().call(session, call, ECHO, Outgoing::Slice(&bytes));
            made.expect("the honest session is up");
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
