//! The part of a host's program that sends and receives tagged messages.

use std::rc::Rc;

use farcall::{
    AnySource, AnyTag, Cancellation, Endpoint, Instant, Operation as Handle, Outgoing, Payload, Peer,
    ReceiveError, ReceiveMessage, SendError, Tag,
};

use crate::mail::{Mail, Receive, ReceiveStart, Send};
use crate::operations::{Completion, Memory};
use crate::serve::Desk;
use crate::tasks::Tasks;

/// Tokens of sends' events begin here, those of receives at twice this; calls have lower ones.
pub const SEND_TOKENS: u64 = 1 << 32;
pub const RECEIVE_TOKENS: u64 = 2 << 32;

/// Something to be done at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Send(usize),
    Receive(usize),
}

/// What a host has to do with messages.
pub struct Mailbox {
    rank: u32,
    endpoint: Rc<Endpoint>,
    desk: Desk,
    /// The next is the last.
    due: Vec<(Instant, Due)>,
    cancels: Vec<(Instant, Handle)>,
    tasks: Tasks,
    /// The receive that collects what is left, once its time has come.
    collecting: Option<usize>,
}

impl Mailbox {
    /// That of a life that begins now.
    pub fn new(rank: u32, endpoint: Rc<Endpoint>, desk: Desk) -> Self {
        let (scenario, now) = (desk.scenario.clone(), desk.clock.now());
        let mail = &scenario.mail;
        let collect_at = Instant::ZERO + scenario.collect_at();
        let sends = mail.sends.iter().enumerate().filter(|(_, send)| send.from == rank && !send.left_out);
        let sends = sends.map(|(number, send)| (Instant::ZERO + send.at, Due::Send(number)));
        let receives =
            mail.receives.iter().enumerate().filter(|(_, receive)| receive.host == rank && !receive.left_out);
        let at = |receive: &Receive| match receive.start {
            ReceiveStart::At(at) => Instant::ZERO + at,
            ReceiveStart::Collect => collect_at,
        };
        let receives = receives.map(|(number, receive)| (at(receive), Due::Receive(number)));
        let mut due: Vec<_> = sends.chain(receives).filter(|(at, _)| *at >= now).collect();
        due.sort_unstable_by(|a, b| b.cmp(a));
        if mail.handled_by.contains(&rank) {
            let desk = desk.clone();
            endpoint.on_message(move |_, message| {
                let (sender, tag, now) = (message.peer().rank(), message.tag().0, desk.clock.now());
                desk.ledger.lock().message_arrives(rank, sender, tag, &message, None, now);
            });
        }
        let (cancels, tasks) = (Vec::new(), Tasks::default());
        Self { rank, endpoint, desk, due, cancels, tasks, collecting: None }
    }

    /// Does what is due; returns how much that was.
    pub fn turn(&mut self) -> usize {
        let now = self.desk.clock.now();
        let mut done = 0;
        while let Some((_, due)) = self.due.pop_if(|(at, _)| *at <= now) {
            done += 1;
            match due {
                Due::Send(number) => self.send(number),
                Due::Receive(number) => self.receive(number),
            }
        }
        if let Some(number) = self.collecting
            && self.desk.ledger.lock().receive_is_due(number)
        {
            done += 1;
            self.receive(number);
        }
        let (due, waiting): (Vec<_>, Vec<_>) = self.cancels.drain(..).partition(|(at, _)| *at <= now);
        self.cancels = waiting;
        let cancelled =
            due.iter().filter(|(_, handle)| self.endpoint.cancel(*handle) == Cancellation::Cancelled);
        done + cancelled.count()
    }

    /// Runs the futures that were woken; returns how many.
    pub fn run_futures(&mut self) -> usize {
        self.tasks.round(self.desk.clock.now())
    }

    /// When there is something to do without a message.
    pub fn next_deadline(&self) -> Option<Instant> {
        let due = self.due.last().map(|(at, _)| *at);
        let cancels = self.cancels.iter().map(|(at, _)| *at);
        let again = self.collecting.is_some_and(|number| self.desk.ledger.lock().receive_is_due(number));
        due.into_iter()
            .chain(cancels)
            .chain(self.tasks.next_deadline())
            .chain(again.then_some(Instant::ZERO))
            .min()
    }

    fn send(&mut self, number: usize) {
        let (scenario, now) = (self.desk.scenario.clone(), self.desk.clock.now());
        let send = &scenario.mail.sends[number];
        self.desk.ledger.lock().send_begins(number, now);
        let Ok(peer) = self.endpoint.peer(send.to) else {
            return self.desk.ledger.lock().send_refused(number, None, now);
        };
        self.desk.ledger.lock().way_is_taken(self.rank, peer, now);
        let cancel_at = send.cancel_after.map_or(Instant::NEVER, |after| now + after);
        let (desk, payload) = (self.desk.clone(), payload_of(number, send, &self.endpoint));
        let prepared = self.endpoint.send(peer, Tag(send.tag), payload).within(send.within);
        if send.completion != Completion::Future {
            self.desk.ledger.lock().send_submits(number, peer);
        }
        let begun = match send.completion {
            Completion::Event => prepared.post(SEND_TOKENS + number as u64),
            Completion::Callback => prepared.then(move |_, result| {
                desk.ledger.lock().send_ends(number, result.as_ref().copied(), desk.clock.now());
            }),
            Completion::Future => return self.send_by_future(number, peer, cancel_at),
        };
        match begun {
            Ok(handle) => self
                .cancels
                .extend(handle.filter(|_| cancel_at < Instant::NEVER).map(|handle| (cancel_at, handle))),
            Err(error) => self.desk.ledger.lock().send_refused(number, Some(&error), now),
        }
    }

    fn send_by_future(&mut self, number: usize, peer: Peer, cancel_at: Instant) {
        let (endpoint, desk) = (Rc::clone(&self.endpoint), self.desk.clone());
        let cancelled = self.desk.clone();
        let future = async move {
            let scenario = desk.scenario.clone();
            let send = &scenario.mail.sends[number];
            let payload = payload_of(number, send, &endpoint);
            desk.ledger.lock().send_submits(number, peer);
            let result = endpoint.send(peer, Tag(send.tag), payload).within(send.within).await;
            match &result {
                Err(error @ (SendError::NotSent(_) | SendError::TooMany { .. })) => {
                    desk.ledger.lock().send_refused(number, Some(error), desk.clock.now());
                }
                result => desk.ledger.lock().send_ends(number, result.as_ref().copied(), desk.clock.now()),
            }
        };
        self.tasks.spawn(future, cancel_at, move |now| {
            cancelled.ledger.lock().send_ends(number, Err(&SendError::Cancelled), now);
        });
    }

    fn receive(&mut self, number: usize) {
        let (scenario, now) = (self.desk.scenario.clone(), self.desk.clock.now());
        let receive = &scenario.mail.receives[number];
        if receive.start == ReceiveStart::Collect {
            self.collecting = Some(number);
        }
        self.desk.ledger.lock().receive_begins(number, now);
        let from = match receive.from.map(|from| self.endpoint.peer(from)).transpose() {
            Ok(from) => from,
            Err(_) => return self.desk.ledger.lock().receive_refused(number),
        };
        let cancel_at = receive.cancel_after.map_or(Instant::NEVER, |after| now + after);
        let desk = self.desk.clone();
        let prepared = prepare(&self.endpoint, from, receive);
        if receive.completion != Completion::Future {
            self.desk.ledger.lock().receive_submits(number);
        }
        let begun = match receive.completion {
            Completion::Event => prepared.post(RECEIVE_TOKENS + number as u64).map(Some),
            // A message that is here already is received in place.
            Completion::Callback => prepared.now_or_then(move |_, outcome| {
                let result =
                    outcome.as_ref().map(|message| (message.peer().rank(), message.tag().0, &message[..]));
                desk.ledger.lock().receive_ends(number, result, desk.clock.now());
            }),
            Completion::Future => return self.receive_by_future(number, from, cancel_at),
        };
        match begun {
            Ok(Some(handle)) if cancel_at < Instant::NEVER => self.cancels.push((cancel_at, handle)),
            Ok(_) => {}
            Err(ReceiveError::PeerDown(_)) => self.desk.ledger.lock().receive_refused(number),
            Err(error) => self.desk.ledger.lock().receive_ends(number, Err(&error), now),
        }
    }

    fn receive_by_future(&mut self, number: usize, from: Option<Peer>, cancel_at: Instant) {
        let (endpoint, desk) = (Rc::clone(&self.endpoint), self.desk.clone());
        let cancelled = self.desk.clone();
        let future = async move {
            let scenario = desk.scenario.clone();
            desk.ledger.lock().receive_submits(number);
            let outcome = prepare(&endpoint, from, &scenario.mail.receives[number]).await;
            let result =
                outcome.as_ref().map(|message| (message.peer().rank(), message.tag().0, &message[..]));
            desk.ledger.lock().receive_ends(number, result, desk.clock.now());
        };
        self.tasks.spawn(future, cancel_at, move |now| {
            cancelled.ledger.lock().receive_ends(number, Err(&ReceiveError::Cancelled), now);
        });
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.desk.ledger.lock().mail_of_life_ends(self.rank);
    }
}

fn prepare<'e>(endpoint: &'e Endpoint, from: Option<Peer>, receive: &Receive) -> ReceiveMessage<'e> {
    let prepared = match (from, receive.tag.map(Tag)) {
        (Some(from), Some(tag)) => endpoint.receive(from, tag),
        (Some(from), None) => endpoint.receive(from, AnyTag),
        (None, Some(tag)) => endpoint.receive(AnySource, tag),
        (None, None) => endpoint.receive(AnySource, AnyTag),
    };
    prepared.within(receive.within)
}

/// The bytes of a message in memory of its kind; as shared ones where nothing can be lent.
fn payload_of(number: usize, send: &Send, endpoint: &Endpoint) -> Outgoing<'static> {
    let bytes = Mail::bytes_of(number, send.bytes);
    let loan = (send.memory == Memory::Loan).then(|| endpoint.loan(bytes.len()).ok()).flatten();
    match loan {
        Some(mut loan) => {
            loan.copy_from_slice(&bytes);
            Outgoing::Loan(loan)
        }
        None => Outgoing::Shared(Payload::from(bytes)),
    }
}
