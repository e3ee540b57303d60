//! What has happened to each tagged message and each receive, and the rules for them.

use std::collections::BTreeMap;

use farcall::{Instant, Peer, ReceiveError, SendError, SendRefused};

use crate::excuse::{self, Span, since_beginning};
use crate::ledger::{LATENESS_MAX, Ledger};
use crate::mail::{Mail, Receive, ReceiveStart, Send};

/// Where a send or a receive stands. Planned → Open → Done; Planned → Refused; Open → Lost with its host.
/// One that collects goes from Open to Planned with each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Planned,
    Open,
    Done,
    Failed,
    Refused,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    stage: Stage,
    begun: Instant,
    /// Its place among all that was submitted: a future submits when it is first polled.
    place: u64,
    /// The session of a send. What is sent after its end may overtake what it has still delivered.
    session: Option<Peer>,
    /// The life of its host, counted from 0.
    life: u32,
}

const PLANNED: Entry =
    Entry { stage: Stage::Planned, begun: Instant::ZERO, place: 0, session: None, life: 0 };

/// A message that was given to a receive: the sender, its session and the tag, and the places of the receive
/// and of the send.
#[derive(Clone, Copy, Debug)]
struct Match {
    /// Sender, its life, session, tag: each life numbers its sessions from the first again.
    stream: (u32, u32, Option<Peer>, u32),
    receive: u64,
    send: u64,
}

/// The messages and receives of a scenario.
#[derive(Debug, Default)]
pub struct MailBook {
    sends: Vec<Entry>,
    receives: Vec<Entry>,
    /// How often each message was received.
    received: Vec<u32>,
    matches: Vec<Match>,
    submitted: u64,
    open: usize,
    /// The session that a host has sent to another over last, unless it is down.
    ways: BTreeMap<(u32, u32), Peer>,
    /// How many lives of a host are over.
    lives: BTreeMap<u32, u32>,
}

impl MailBook {
    pub fn new(mail: &Mail) -> Self {
        Self {
            sends: vec![PLANNED; mail.sends.len()],
            receives: vec![PLANNED; mail.receives.len()],
            received: vec![0; mail.sends.len()],
            ..Self::default()
        }
    }

    /// How many sends and receives are in flight.
    pub fn open(&self) -> usize {
        self.open
    }

    /// How many messages were received.
    pub fn received(&self) -> usize {
        self.received.iter().filter(|count| **count > 0).count()
    }

    fn life_of(&self, host: u32) -> u32 {
        self.lives.get(&host).copied().unwrap_or(0)
    }

    fn next_place(&mut self) -> u64 {
        self.submitted += 1;
        self.submitted
    }

    fn leave_send(&mut self, number: usize, stage: Stage) {
        self.sends[number].stage = stage;
        self.open -= 1;
    }

    fn leave_receive(&mut self, number: usize, stage: Stage) {
        self.receives[number].stage = stage;
        self.open -= 1;
    }
}

impl Ledger {
    /// A message is about to be sent.
    pub fn send_begins(&mut self, number: usize, now: Instant) {
        let life = self.mail.life_of(self.scenario.mail.sends[number].from);
        self.mail.sends[number] = Entry { stage: Stage::Open, begun: now, life, ..PLANNED };
        self.mail.open += 1;
    }

    /// A receive is about to be made.
    pub fn receive_begins(&mut self, number: usize, now: Instant) {
        self.mail.receives[number] = Entry { stage: Stage::Open, begun: now, ..PLANNED };
        self.mail.open += 1;
    }

    /// A send is submitted now.
    pub fn send_submits(&mut self, number: usize, to: Peer) {
        self.mail.sends[number].place = self.mail.next_place();
        self.mail.sends[number].session = Some(to);
    }

    /// A host sends over this session: the same one as before, unless that is down or nothing went over it.
    /// Otherwise messages could overtake each other.
    pub fn way_is_taken(&mut self, from: u32, to: Peer, now: Instant) {
        let former = self.mail.ways.insert((from, to.rank()), to).filter(|former| *former != to);
        let Some(former) = former else { return };
        let life = self.mail.life_of(from);
        let may_arrive = |entry: &Entry| matches!(entry.stage, Stage::Open | Stage::Done);
        let over_former = |entry: &Entry| entry.session == Some(former) && entry.life == life;
        let mut sends = self.scenario.mail.sends.iter().zip(&self.mail.sends);
        if sends.any(|(send, entry)| send.from == from && over_former(entry) && may_arrive(entry)) {
            self.violation(now, format!("host {from} sends over two sessions at once to {}", to.rank()));
        }
    }

    /// A session of a host is down.
    pub fn way_ends(&mut self, host: u32, to: Peer) {
        if self.mail.ways.get(&(host, to.rank())) == Some(&to) {
            self.mail.ways.remove(&(host, to.rank()));
        }
    }

    /// A receive is submitted now.
    pub fn receive_submits(&mut self, number: usize) {
        self.mail.receives[number].place = self.mail.next_place();
    }

    /// Whether a receive is to be made, or made again.
    pub fn receive_is_due(&self, number: usize) -> bool {
        self.mail.receives[number].stage == Stage::Planned
    }

    /// A message was not accepted, or nobody is there.
    pub fn send_refused(&mut self, number: usize, error: Option<&SendError>, now: Instant) {
        let to = self.scenario.mail.sends[number].to;
        let right = match error {
            None => excuse::restart(&self.scenario, to, now),
            Some(SendError::NotSent(SendRefused::TooLong { .. })) => false,
            Some(_) => true,
        };
        if !right {
            self.violation(now, format!("message {number} was refused: {error:?}"));
        }
        self.mail.leave_send(number, Stage::Refused);
    }

    /// A receive was not accepted, or there is nobody to receive from.
    pub fn receive_refused(&mut self, number: usize) {
        self.mail.leave_receive(number, Stage::Refused);
    }

    /// A send has completed.
    pub fn send_ends(&mut self, number: usize, result: Result<(), &SendError>, now: Instant) {
        let Entry { stage, begun, .. } = self.mail.sends[number];
        if stage != Stage::Open {
            return self.violation(now, format!("the send of message {number} completed, but was {stage:?}"));
        }
        let Send { from, within, cancel_after, .. } = self.scenario.mail.sends[number];
        self.check_span("the send of message", number, from, begun, within, now);
        if result == Err(&SendError::Cancelled) && cancel_after.is_none() {
            self.violation(now, format!("the send of message {number} was cancelled by nobody"));
        }
        let stage = if result.is_ok() { Stage::Done } else { Stage::Failed };
        self.mail.leave_send(number, stage);
    }

    /// A receive has completed; a message comes with its sender and tag.
    pub fn receive_ends(
        &mut self,
        number: usize,
        result: Result<(u32, u32, &[u8]), &ReceiveError>,
        now: Instant,
    ) {
        let Entry { stage, begun, place, .. } = self.mail.receives[number];
        if stage != Stage::Open {
            return self.violation(now, format!("receive {number} completed, but was {stage:?}"));
        }
        let Receive { host, from, tag, start, within, cancel_after, .. } =
            self.scenario.mail.receives[number];
        self.check_span("receive", number, host, begun, within, now);
        match result {
            Ok((sender, with, bytes)) => {
                if from.is_some_and(|from| from != sender) || tag.is_some_and(|tag| tag != with) {
                    self.violation(
                        now,
                        format!("receive {number} got a message of {sender} with tag {with}"),
                    );
                }
                self.message_arrives(host, sender, with, bytes, Some(place), now);
                let collects = start == ReceiveStart::Collect;
                self.mail.leave_receive(number, if collects { Stage::Planned } else { Stage::Done });
            }
            Err(error) => {
                let right = match error {
                    ReceiveError::TimedOut => true,
                    ReceiveError::Cancelled => cancel_after.is_some(),
                    ReceiveError::PeerDown(_) => from.is_some(),
                    ReceiveError::Truncated { .. } | ReceiveError::TooMany { .. } => false,
                };
                if !right {
                    self.violation(now, format!("receive {number} failed: {error}"));
                }
                self.mail.leave_receive(number, Stage::Failed);
            }
        }
    }

    /// A host was given a message, by the receive at this place or by its handler.
    pub fn message_arrives(
        &mut self,
        host: u32,
        sender: u32,
        tag: u32,
        bytes: &[u8],
        receive: Option<u64>,
        now: Instant,
    ) {
        let number = Mail::number_of(tag, bytes).filter(|number| *number < self.mail.sends.len());
        let Some(number) = number else {
            return self.violation(now, format!("host {host} got a message that nobody sent"));
        };
        let send = self.scenario.mail.sends[number].clone();
        if (send.from, send.to, send.tag) != (sender, host, tag) {
            let what = format!("message {number} came to {host} as one of {sender} with tag {tag}");
            self.violation(now, what);
        }
        if Mail::bytes_of(number, send.bytes) != bytes {
            self.violation(now, format!("message {number} of {} bytes arrived changed", send.bytes));
        }
        self.mail.received[number] += 1;
        if self.mail.received[number] > 1 {
            self.violation(now, format!("message {number} was received twice"));
        }
        if matches!(self.mail.sends[number].stage, Stage::Planned | Stage::Refused) {
            self.violation(now, format!("message {number} was received, and was not sent"));
        }
        let receive = receive.unwrap_or_else(|| self.mail.next_place());
        let Entry { place: send, session, life, .. } = self.mail.sends[number];
        let stream = (sender, life, session, tag);
        self.check_order(Match { stream, receive, send }, number, now);
    }

    /// Of two receives that got messages of one sender with one tag, the older got the older message.
    fn check_order(&mut self, new: Match, number: usize, now: Instant) {
        let same = self.mail.matches.iter().filter(|old| old.stream == new.stream);
        let wrong = |old: &&Match| (old.receive < new.receive) != (old.send < new.send);
        if same.clone().any(|old| wrong(&old)) {
            self.violation(now, format!("message {number} was received out of order"));
        }
        self.mail.matches.push(new);
    }

    fn check_span(
        &mut self,
        what: &str,
        number: usize,
        host: u32,
        begun: Instant,
        within: core::time::Duration,
        now: Instant,
    ) {
        let span = Span { from: since_beginning(begun), until: since_beginning(now) };
        let lasted = span.until.saturating_sub(span.from);
        if lasted > within + LATENESS_MAX + excuse::delay(&self.scenario, host, span) {
            self.violation(now, format!("{what} {number} of {within:?} completed after {lasted:?}"));
        }
    }

    /// A host's life is over.
    pub fn mail_of_life_ends(&mut self, host: u32) {
        self.mail.ways.retain(|(from, _), _| *from != host);
        *self.mail.lives.entry(host).or_default() += 1;
        let scenario = std::sync::Arc::clone(&self.scenario);
        let open = |entry: &Entry| entry.stage == Stage::Open;
        for (number, _) in scenario.mail.sends.iter().enumerate().filter(|(_, send)| send.from == host) {
            if open(&self.mail.sends[number]) {
                self.mail.leave_send(number, Stage::Lost);
            }
        }
        let receives = scenario.mail.receives.iter().enumerate();
        for (number, _) in receives.filter(|(_, receive)| receive.host == host) {
            if open(&self.mail.receives[number]) {
                self.mail.leave_receive(number, Stage::Lost);
            }
        }
    }

    /// Nobody was lost: what was sent has been received.
    pub fn check_all_received(&mut self, now: Instant) {
        if !self.nobody_was_lost() {
            return;
        }
        for number in 0..self.mail.sends.len() {
            if self.mail.sends[number].stage == Stage::Done && self.mail.received[number] == 0 {
                self.violation(now, format!("message {number} was sent and never received"));
            }
        }
    }
}
