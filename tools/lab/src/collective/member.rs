//! One rank's part in operations.
//!
//! A message goes out in chunks, one after another: the answer to a chunk permits the next. Two bounds hold over all
//! messages: chunks that are not answered, and chunks that the driver does not have entirely yet. Chunks carry no
//! header: who sent one is known from the session, operations do not overlap, and a request runs once, so that
//! counting is enough.

use std::sync::Arc;

use farcall::{CallError, Clock, ConnectError, Endpoint, Event, Instant, Outcome, Peer};

use super::inbox::{FAILED, SharedInbox};
use super::orders::{Finish, Order, Times};
use super::schedule::Schedule;
use super::sending::{Peers, PushLimits, Sending};

/// Why a rank could not do its part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// A peer cannot be reached.
    #[error("rank {rank} cannot reach rank {to}: {error}")]
    Connect {
        /// This rank.
        rank: u32,
        /// The peer.
        to: u32,
        /// Why.
        error: ConnectError,
    },
    /// A chunk was not delivered.
    #[error("a chunk from rank {rank} was not delivered: {error}")]
    Chunk {
        /// This rank.
        rank: u32,
        /// Why.
        error: CallError,
    },
    /// A peer has gone.
    #[error("rank {rank} lost rank {to}")]
    PeerLost {
        /// This rank.
        rank: u32,
        /// The peer.
        to: u32,
    },
}

/// Tokens from here on are not the member's.
pub(super) const FOREIGN_TOKENS: u64 = 1 << 32;

/// Where a member stands. Idle → Armed → Running → Reporting → Idle.
enum Stage {
    Idle,
    /// Until the start.
    Armed(Order),
    Running(Order),
    /// Until it may tell of the end.
    Reporting(Order, Finish),
}

/// One rank's part in operations: its endpoint, and what it sends and expects.
pub struct Member {
    rank: u32,
    endpoint: Endpoint,
    clock: Clock,
    peers: Peers,
    inbox: SharedInbox,
    sending: Sending,
    stage: Stage,
    late: bool,
    /// When the last thing that was expected arrived; the start while nothing has.
    last_arrival: Instant,
    /// Which ranks' messages have arrived.
    arrived: Vec<bool>,
    finished: Option<Finish>,
    failure: Option<MemberError>,
}

impl Member {
    /// A member that serves on `endpoint`. `copies` says whether chunks are copied where they arrive.
    pub fn new(
        rank: u32,
        endpoint: Endpoint,
        schedule: Arc<Schedule>,
        limits: PushLimits,
        copies: bool,
        seed: u64,
    ) -> Self {
        Self {
            rank,
            clock: endpoint.clock(),
            peers: Peers::new(schedule.ranks()),
            inbox: SharedInbox::serve(&endpoint, &schedule, rank, limits.chunk_bytes, copies),
            endpoint,
            stage: Stage::Idle,
            late: false,
            last_arrival: Instant::ZERO,
            arrived: vec![false; schedule.ranks() as usize],
            sending: Sending::new(rank, schedule, limits, seed),
            finished: None,
            failure: None,
        }
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Why it stopped, if it did.
    pub fn failure(&self) -> Option<&MemberError> {
        self.failure.as_ref()
    }

    /// Whether rank 0 wants nothing any more.
    pub fn is_over(&self) -> bool {
        self.inbox.lock().over
    }

    /// One turn: receives, and pushes what may be pushed. Returns how much there was to do.
    pub fn turn(&mut self) -> usize {
        self.turn_with(|_, _| {})
    }

    /// As `turn`; completions of calls that are not the member's go to `on_foreign`.
    pub(super) fn turn_with(&mut self, mut on_foreign: impl FnMut(u64, &Outcome<'_>)) -> usize {
        let (mut answered, mut failure) = (Vec::new(), None);
        let (rank, idle) = (self.rank, matches!(self.stage, Stage::Idle));
        let done = self.endpoint.poll(|_, event| match event {
            Event::Completed { token, outcome } if token >= FOREIGN_TOKENS => on_foreign(token, outcome),
            Event::Completed { token, outcome: Ok(_) } => answered.push(token as usize),
            Event::Completed { outcome: Err(error), .. } => {
                failure = Some(MemberError::Chunk { rank, error: error.clone() });
            }
            // At the end ranks leave one after another.
            Event::PeerDown { peer, .. } if idle && peer.rank() > 0 => {}
            Event::PeerDown { peer, .. } => failure = Some(MemberError::PeerLost { rank, to: peer.rank() }),
            Event::Sent { .. } | Event::Received { .. } => unreachable!("members send no tagged messages"),
        });
        if let Some(failure) = failure {
            self.fail(failure);
        }
        answered.into_iter().for_each(|message| self.sending.answered(message));
        done + self.advance()
    }

    /// When a turn must come though nothing arrives.
    pub fn next_deadline(&self) -> Option<Instant> {
        let own = match &self.stage {
            Stage::Armed(order) => Some(order.times.start),
            Stage::Reporting(order, _) => Some(order.times.report),
            Stage::Idle | Stage::Running(_) => None,
        };
        [own, self.endpoint.next_deadline()].into_iter().flatten().min()
    }

    /// Gives the member something to do, without a call.
    pub(super) fn order(&mut self, times: Times) {
        self.inbox.lock().order = Some(Order { times, root: None });
    }

    /// The end of an operation that was ordered without a call.
    pub(super) fn take_finish(&mut self) -> Option<Finish> {
        self.finished.take()
    }

    /// A session to a rank.
    pub(super) fn peer(&mut self, to: u32) -> Result<Peer, MemberError> {
        let (rank, peer) = (self.rank, self.peers.get(&self.endpoint, to));
        peer.map_err(|error| MemberError::Connect { rank, to, error })
    }

    /// Does what can be done now; returns how much that was.
    fn advance(&mut self) -> usize {
        match core::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => {
                let Some(order) = self.inbox.lock().order.take() else { return 0 };
                self.late = self.clock.now() > order.times.start;
                self.stage = Stage::Armed(order);
                1
            }
            Stage::Armed(order) if self.clock.now() < order.times.start => self.stay(Stage::Armed(order)),
            Stage::Armed(order) => {
                self.begin(order);
                1
            }
            Stage::Running(order) => {
                self.stage = Stage::Running(order);
                self.run()
            }
            Stage::Reporting(order, finish) if self.clock.now() < order.times.report => {
                self.stay(Stage::Reporting(order, finish))
            }
            Stage::Reporting(order, finish) => {
                self.report(order, finish);
                1
            }
        }
    }

    /// Nothing to do before the stage's time has come.
    fn stay(&mut self, stage: Stage) -> usize {
        self.stage = stage;
        0
    }

    fn run(&mut self) -> usize {
        let done = self.note_arrivals() + self.push();
        if !self.sending.is_done() || self.inbox.lock().ranks_open > 0 {
            return done;
        }
        if let Stage::Running(order) = core::mem::replace(&mut self.stage, Stage::Idle) {
            self.inbox.lock().renew();
            self.stage = Stage::Reporting(order, Finish { at: self.last_arrival, late: self.late });
        }
        done + 1
    }

    fn begin(&mut self, order: Order) {
        self.last_arrival = order.times.start;
        self.arrived.fill(false);
        self.sending.begin();
        self.stage = Stage::Running(order);
    }

    /// Takes note of messages that have arrived in full, and of what waited for them.
    fn note_arrivals(&mut self) -> usize {
        let arrived = core::mem::take(&mut self.inbox.lock().arrived);
        for &from in &arrived {
            self.arrived[from as usize] = true;
        }
        if !arrived.is_empty() {
            self.last_arrival = self.clock.now();
            self.sending.release(|from| self.arrived[from as usize]);
        }
        arrived.len()
    }

    fn push(&mut self) -> usize {
        self.sending.push(&self.endpoint, &mut self.peers).unwrap_or_else(|failure| {
            self.fail(failure);
            1
        })
    }

    fn report(&mut self, order: Order, finish: Finish) {
        match order.root {
            Some(root) => self.endpoint.reply(root, &finish.to_bytes()),
            None => self.finished = Some(finish),
        }
    }

    /// Gives up: the root is told, and the reason kept.
    fn fail(&mut self, failure: MemberError) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(failure);
        if let Stage::Running(Order { root: Some(root), .. }) =
            core::mem::replace(&mut self.stage, Stage::Idle)
        {
            self.endpoint.refuse(root, FAILED);
        }
    }
}
