//! One rank's part in operations.
//!
//! A message goes out in chunks, one after another: the answer to a chunk permits the next. Two bounds hold over all
//! messages: chunks that are not answered, and chunks that the driver does not have entirely yet. Chunks carry no
//! header: who sent one is known from the session, operations do not overlap, and a request runs once, so that
//! counting is enough.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall::{
    CallError, Clock, ConnectError, Deferred, Endpoint, Event, Instant, Operation, Outcome, Payload, Peer,
    Reply, Request,
};

use super::push::{Candidate, Push};
use super::schedule::Schedule;
use super::{CHUNK, START};
use crate::random::Random;

/// How chunks are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushLimits {
    /// Which message is served next.
    pub push: Push,
    /// The longest chunk.
    pub chunk_bytes: usize,
    /// Chunks that the driver does not have entirely yet.
    pub pending_max: usize,
    /// Chunks that are not answered yet.
    pub outstanding_max: usize,
}

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

/// The code of a refusal to go on: the member has failed.
const FAILED: u8 = 1;

/// When all ranks begin, and when they may tell of the end: not before the slowest is likely to be done, because what
/// they tell would keep rank 0 from its own part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) start: Instant,
    pub(super) report: Instant,
}

/// What is to be done.
struct Order {
    times: Times,
    /// Whom to tell about the end; nobody when the root itself runs this member.
    root: Option<Deferred>,
}

/// What handlers learn during a poll.
struct Inbox {
    order: Option<Order>,
    /// Chunks from each rank in this operation.
    chunks: Vec<u32>,
    /// Chunks that each rank sends in an operation.
    chunks_expected: Vec<u32>,
    /// Ranks from which something is still to come.
    ranks_open: usize,
    /// Ranks whose messages have arrived since the last look.
    arrived: Vec<u32>,
    /// Where chunks are copied to; `None` when they are left where they are.
    memory: Option<Vec<u8>>,
}

impl Inbox {
    fn take(&mut self, from: u32, chunk: &[u8]) {
        if let Some(memory) = &mut self.memory {
            memory[..chunk.len()].copy_from_slice(chunk);
        }
        let from_index = from as usize;
        self.chunks[from_index] += 1;
        if self.chunks[from_index] == self.chunks_expected[from_index] {
            self.ranks_open -= 1;
            self.arrived.push(from);
        }
    }

    fn renew(&mut self) {
        self.chunks.fill(0);
        self.arrived.clear();
        self.ranks_open = self.chunks_expected.iter().filter(|&&chunks| chunks > 0).count();
    }
}

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
    schedule: Arc<Schedule>,
    limits: PushLimits,
    inbox: Arc<Mutex<Inbox>>,
    stage: Stage,
    late: bool,
    /// When the last thing that was expected arrived; the start while nothing has.
    last_arrival: Instant,
    peers: Vec<Option<Peer>>,
    /// Bytes of each message that were not sent yet.
    bytes_left: Vec<usize>,
    /// Messages that could send a chunk now.
    candidates: Vec<Candidate>,
    /// Messages that wait for others to arrive.
    blocked: Vec<usize>,
    /// Messages that are not answered entirely.
    unfinished: usize,
    outstanding: usize,
    pending: Vec<Operation>,
    /// Which ranks' messages have arrived.
    arrived: Vec<bool>,
    /// Chunks of the lengths that occur, to be sent again and again.
    chunks: Vec<Payload>,
    random: Random,
    finished: Option<Finish>,
    failure: Option<MemberError>,
}

/// A rank's end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finish {
    /// When all that it expects had arrived; the start if it only sends.
    pub(super) at: Instant,
    /// Whether it learnt of the operation only after its start.
    pub(super) late: bool,
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
        let chunks_expected = chunks_expected(&schedule, rank, limits.chunk_bytes);
        let ranks = chunks_expected.len();
        let mut inbox = Inbox {
            order: None,
            chunks: vec![0; ranks],
            chunks_expected,
            ranks_open: 0,
            arrived: Vec::new(),
            memory: copies.then(|| vec![0; limits.chunk_bytes]),
        };
        inbox.renew();
        let inbox = Arc::new(Mutex::new(inbox));
        serve(&endpoint, &inbox);
        Self {
            rank,
            clock: endpoint.clock(),
            endpoint,
            schedule,
            limits,
            inbox,
            stage: Stage::Idle,
            late: false,
            last_arrival: Instant::ZERO,
            peers: vec![None; ranks],
            bytes_left: Vec::new(),
            candidates: Vec::new(),
            blocked: Vec::new(),
            unfinished: 0,
            outstanding: 0,
            pending: Vec::new(),
            arrived: vec![false; ranks],
            chunks: Vec::new(),
            random: Random::new(seed ^ u64::from(rank) << 32),
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

    /// One turn: receives, and pushes what may be pushed. Returns how much there was to do.
    pub fn turn(&mut self) -> usize {
        self.turn_with(|_, _| {})
    }

    /// As `turn`; completions of calls that are not the member's go to `on_foreign`.
    pub(super) fn turn_with(&mut self, mut on_foreign: impl FnMut(u64, &Outcome<'_>)) -> usize {
        let (mut answered, mut failure) = (Vec::new(), None);
        let rank = self.rank;
        let done = self.endpoint.poll(|_, event| match event {
            Event::Completed { token, outcome } if token >= FOREIGN_TOKENS => on_foreign(token, outcome),
            Event::Completed { token, outcome: Ok(_) } => answered.push(token as usize),
            Event::Completed { outcome: Err(error), .. } => {
                failure = Some(MemberError::Chunk { rank, error: error.clone() });
            }
            Event::PeerDown { peer, .. } => failure = Some(MemberError::PeerLost { rank, to: peer.rank() }),
            Event::Sent { .. } | Event::Received { .. } => unreachable!("members send no tagged messages"),
        });
        if let Some(failure) = failure {
            self.fail(failure);
        }
        answered.into_iter().for_each(|message| self.answered(message));
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
        self.inbox().order = Some(Order { times, root: None });
    }

    /// The end of an operation that was ordered without a call.
    pub(super) fn take_finish(&mut self) -> Option<Finish> {
        self.finished.take()
    }

    /// A session to a rank, made at the first use.
    pub(super) fn peer(&mut self, to: u32) -> Result<Peer, MemberError> {
        if let Some(peer) = self.peers[to as usize] {
            return Ok(peer);
        }
        let rank = self.rank;
        let peer = self.endpoint.peer(to).map_err(|error| MemberError::Connect { rank, to, error })?;
        self.peers[to as usize] = Some(peer);
        Ok(peer)
    }

    /// Does what can be done now; returns how much that was.
    fn advance(&mut self) -> usize {
        match core::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => {
                let Some(order) = self.inbox().order.take() else { return 0 };
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
        if self.unfinished > 0 || self.inbox().ranks_open > 0 {
            return done;
        }
        if let Stage::Running(order) = core::mem::replace(&mut self.stage, Stage::Idle) {
            self.inbox().renew();
            self.stage = Stage::Reporting(order, Finish { at: self.last_arrival, late: self.late });
        }
        done + 1
    }

    fn begin(&mut self, order: Order) {
        self.last_arrival = order.times.start;
        let schedule = Arc::clone(&self.schedule);
        let sends = schedule.sends(self.rank);
        self.bytes_left.clear();
        self.bytes_left.extend(sends.iter().map(|send| send.bytes));
        self.unfinished = sends.len();
        self.arrived.fill(false);
        self.blocked.extend(0..sends.len());
        self.stage = Stage::Running(order);
        self.release_blocked();
    }

    /// Takes note of messages that have arrived in full, and of what waited for them.
    fn note_arrivals(&mut self) -> usize {
        let arrived = core::mem::take(&mut self.inbox().arrived);
        for &from in &arrived {
            self.arrived[from as usize] = true;
        }
        if !arrived.is_empty() {
            self.last_arrival = self.clock.now();
            self.release_blocked();
        }
        arrived.len()
    }

    fn release_blocked(&mut self) {
        let Self { blocked, candidates, schedule, arrived, bytes_left, rank, .. } = self;
        let sends = schedule.sends(*rank);
        blocked.retain(|&message| {
            let waits = sends[message].after.iter().any(|&from| !arrived[from as usize]);
            if !waits {
                candidates.push(Candidate { message, bytes_left: bytes_left[message] });
            }
            waits
        });
    }

    /// Sends chunks as far as the limits allow; returns how many.
    fn push(&mut self) -> usize {
        let Self { endpoint, pending, .. } = self;
        pending.retain(|operation| !endpoint.is_transmitted(*operation));
        let mut pushed = 0;
        while self.outstanding < self.limits.outstanding_max
            && self.pending.len() < self.limits.pending_max
            && let Some(place) = self.limits.push.choose(&self.candidates, &mut self.random)
        {
            let Candidate { message, .. } = self.candidates.swap_remove(place);
            if let Err(error) = self.send_chunk(message) {
                self.fail(error);
                return pushed;
            }
            pushed += 1;
        }
        pushed
    }

    fn send_chunk(&mut self, message: usize) -> Result<(), MemberError> {
        let bytes = self.bytes_left[message].min(self.limits.chunk_bytes);
        let peer = self.peer(self.schedule.sends(self.rank)[message].to)?;
        let chunk = self.chunk(bytes);
        let posted = self.endpoint.call(peer, CHUNK, chunk).post(message as u64);
        let operation = posted.map_err(|error| MemberError::Chunk { rank: self.rank, error })?;
        self.bytes_left[message] -= bytes;
        self.outstanding += 1;
        self.pending.push(operation);
        Ok(())
    }

    /// A chunk of that length.
    fn chunk(&mut self, bytes: usize) -> Payload {
        if let Some(chunk) = self.chunks.iter().find(|chunk| chunk.len() == bytes) {
            return chunk.clone();
        }
        let chunk = Payload::from(vec![0; bytes]);
        self.chunks.push(chunk.clone());
        chunk
    }

    fn answered(&mut self, message: usize) {
        self.outstanding -= 1;
        match self.bytes_left[message] {
            0 => self.unfinished -= 1,
            bytes_left => self.candidates.push(Candidate { message, bytes_left }),
        }
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

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        lock(&self.inbox)
    }
}

impl Times {
    const BYTES: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.start.as_nanos().to_le_bytes());
        bytes[8..].copy_from_slice(&self.report.as_nanos().to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (start, report) = bytes.split_first_chunk()?;
        let nanos = |bytes| Instant::from_nanos(u64::from_le_bytes(bytes));
        Some(Self { start: nanos(*start), report: nanos(report.try_into().ok()?) })
    }
}

impl Finish {
    const BYTES: usize = 9;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.at.as_nanos().to_le_bytes());
        bytes[8] = self.late.into();
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (at, late) = bytes.split_first_chunk()?;
        Some(Self { at: Instant::from_nanos(u64::from_le_bytes(*at)), late: late == [1] })
    }
}

fn serve(endpoint: &Endpoint, inbox: &Arc<Mutex<Inbox>>) {
    let of_chunks = Arc::clone(inbox);
    endpoint.serve(CHUNK, move |request: Request<'_>, reply: Reply<'_>| {
        lock(&of_chunks).take(request.peer().rank(), request.payload());
        reply.send(&[]);
    });
    let of_orders = Arc::clone(inbox);
    endpoint.serve(START, move |request: Request<'_>, reply: Reply<'_>| {
        let Some(times) = Times::from_bytes(request.payload()) else { return reply.refuse(FAILED) };
        let (root, _) = reply.defer();
        lock(&of_orders).order = Some(Order { times, root: Some(root) });
    });
}

fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many chunks each rank sends to `rank` in an operation: an empty message is one empty chunk.
fn chunks_expected(schedule: &Schedule, rank: u32, chunk_bytes: usize) -> Vec<u32> {
    let mut chunks = vec![0; schedule.ranks() as usize];
    for &(from, bytes) in schedule.arrivals(rank) {
        chunks[from as usize] += bytes.div_ceil(chunk_bytes).max(1) as u32;
    }
    chunks
}
