//! What the handlers of a group learn during polls, for its exchange to act upon.
//!
//! Chunks carry no header: the session names the sender, the service says whether it is the last chunk of its
//! message, and a member has one message for another in an exchange. A member that is ahead may send the
//! first chunk of the next exchange before this one is over; the response waits then, and with it the rest of
//! the message.

use core::task::Waker;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall::{CallError, Deferred, Endpoint, Payload, Reply, Request};

use crate::group::GroupId;

/// The code with which chunks are refused that belong to no exchange.
const NOT_EXPECTED: u8 = 1;

/// What gets the chunks.
pub type Sink = Box<dyn FnMut(u32, &[u8]) + Send>;

/// How a chunk ended.
pub type Answered = (usize, Result<(), CallError>);

struct Inbox {
    /// By their ranks.
    members: HashMap<u32, u32>,
    /// The exchange in flight.
    open: Option<Open>,
    /// First chunks of the next exchange, at most one from each member.
    early: Vec<Early>,
    is_closed: bool,
    answered: Vec<Answered>,
    waker: Option<Waker>,
}

struct Open {
    sink: Sink,
    /// The members whose messages have not arrived entirely.
    expected: Vec<bool>,
    /// Of no member before this one anything is expected.
    first_expected: usize,
    has_arrivals: bool,
}

struct Early {
    member: u32,
    is_last: bool,
    chunk: Payload,
    response: Deferred,
}

/// What has happened since the last look.
pub struct News {
    /// Whether a message has arrived entirely.
    pub has_arrivals: bool,
    /// The chunks of ours that have ended.
    pub answered: Vec<Answered>,
    /// A member from which something is still to come.
    pub awaited: Option<u32>,
}

/// What becomes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Taken,
    Early(u32),
    Refused,
}

impl Inbox {
    fn new(ranks: &[u32]) -> Self {
        Self {
            members: ranks.iter().copied().zip(0..).collect(),
            open: None,
            early: Vec::new(),
            is_closed: false,
            answered: Vec::new(),
            waker: None,
        }
    }

    /// Takes a chunk, if the exchange in flight expects it.
    fn take(&mut self, rank: u32, is_last: bool, chunk: &[u8]) -> Admission {
        let Some(&member) = self.members.get(&rank) else { return Admission::Refused };
        if let Some(open) = &mut self.open
            && open.expected[member as usize]
        {
            open.take(member, is_last, chunk);
            self.wake();
            return Admission::Taken;
        }
        let is_second = self.early.iter().any(|early| early.member == member);
        if self.is_closed || is_second { Admission::Refused } else { Admission::Early(member) }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Open {
    /// The first member from which something is still to come. What was expected once is not again.
    fn awaited(&mut self) -> Option<u32> {
        let from = self.expected.get(self.first_expected..)?;
        let next = from.iter().position(|&expected| expected);
        self.first_expected += next.unwrap_or(from.len());
        next.map(|_| self.first_expected as u32)
    }

    fn take(&mut self, member: u32, is_last: bool, chunk: &[u8]) {
        (self.sink)(member, chunk);
        if is_last {
            self.expected[member as usize] = false;
            self.has_arrivals = true;
        }
    }
}

/// An inbox that handlers and exchanges share.
#[derive(Clone)]
pub struct SharedInbox(Arc<Mutex<Inbox>>);

impl SharedInbox {
    /// The inbox of a group, filled by handlers of its endpoint.
    pub fn serve(endpoint: &Endpoint, id: GroupId, ranks: &[u32]) -> Self {
        let inbox = Self(Arc::new(Mutex::new(Inbox::new(ranks))));
        for (service, is_last) in [(id.chunk(), false), (id.last_chunk(), true)] {
            let inbox = inbox.clone();
            endpoint.serve(service, move |request, reply| inbox.receive(request, reply, is_last));
        }
        inbox
    }

    fn receive(&self, request: Request<'_>, reply: Reply<'_>, is_last: bool) {
        let admission = self.lock().take(request.peer().rank(), is_last, request.payload());
        match admission {
            Admission::Taken => reply.send(&[]),
            Admission::Refused => reply.refuse(NOT_EXPECTED),
            Admission::Early(member) => {
                let chunk = request.take();
                let (response, _) = reply.defer();
                self.lock().early.push(Early { member, is_last, chunk, response });
            }
        }
    }

    /// Begins an exchange, with the chunks that have come already.
    pub fn begin(&self, endpoint: &Endpoint, expected: Vec<bool>, sink: Sink) {
        let mut open = Open { sink, expected, first_expected: 0, has_arrivals: false };
        let mut inbox = self.lock();
        let is_for_this = |early: &mut Early| open.expected[early.member as usize];
        let early: Vec<Early> = inbox.early.extract_if(.., is_for_this).collect();
        for Early { member, is_last, chunk, response } in early {
            open.take(member, is_last, &chunk);
            endpoint.reply(response, &[]);
        }
        inbox.open = Some(open);
    }

    /// Notes the end of a chunk that was sent.
    pub fn answer(&self, message: usize, end: Result<(), CallError>) {
        let mut inbox = self.lock();
        inbox.answered.push((message, end));
        inbox.wake();
    }

    /// What has happened since the last look; the next thing that happens wakes the task.
    pub fn news(&self, waker: &Waker) -> News {
        let mut inbox = self.lock();
        inbox.waker = Some(waker.clone());
        let answered = core::mem::take(&mut inbox.answered);
        let Some(open) = &mut inbox.open else {
            return News { has_arrivals: false, answered, awaited: None };
        };
        let has_arrivals = core::mem::take(&mut open.has_arrivals);
        let awaited = open.awaited();
        News { has_arrivals, answered, awaited }
    }

    /// Takes nothing any more: the group is broken or gone.
    pub fn close(&self) {
        let mut inbox = self.lock();
        inbox.is_closed = true;
        inbox.open = None;
        // Their senders are told that there will be no response.
        inbox.early.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Member 0 of three, of the ranks 10, 11 and 12, which expects a message of member 1.
    fn open() -> (Inbox, Arc<Mutex<Vec<u8>>>) {
        let mut inbox = Inbox::new(&[10, 11, 12]);
        let taken = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&taken);
        let sink = Box::new(move |_: u32, chunk: &[u8]| sink.lock().expect("one thread").extend(chunk));
        inbox.open =
            Some(Open { sink, expected: vec![false, true, false], first_expected: 0, has_arrivals: false });
        (inbox, taken)
    }

    #[test]
    fn a_message_has_arrived_with_its_last_chunk_and_what_follows_is_of_the_next_exchange() {
        let (mut inbox, taken) = open();
        assert_eq!(inbox.take(11, false, b"ab"), Admission::Taken);
        assert_eq!(inbox.take(11, true, b"c"), Admission::Taken);
        assert_eq!(*taken.lock().expect("one thread"), b"abc");
        assert_eq!(inbox.take(11, true, b"d"), Admission::Early(1));
        assert_eq!(*taken.lock().expect("one thread"), b"abc");
    }

    #[test]
    fn chunks_of_strangers_are_refused_and_those_of_others_are_early() {
        let (mut inbox, taken) = open();
        assert_eq!(inbox.take(0, true, b"x"), Admission::Refused);
        assert_eq!(inbox.take(12, true, b"x"), Admission::Early(2));
        inbox.is_closed = true;
        assert_eq!(inbox.take(12, true, b"x"), Admission::Refused);
        assert!(taken.lock().expect("one thread").is_empty());
    }
}
