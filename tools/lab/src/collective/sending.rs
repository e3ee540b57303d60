//! What a rank sends in an operation: which chunk of which message comes next, and how many may be under way.

use std::sync::Arc;

use farcall::{ConnectError, Endpoint, Operation, Payload, Peer};
use serde::{Deserialize, Serialize};

use super::CHUNK;
use super::member::MemberError;
use super::push::{Candidate, Push};
use super::schedule::Schedule;
use crate::random::Random;

/// How chunks are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// The sessions of a rank, each made at its first use.
pub(super) struct Peers {
    sessions: Vec<Option<Peer>>,
}

impl Peers {
    pub(super) fn new(ranks: u32) -> Self {
        Self { sessions: vec![None; ranks as usize] }
    }

    pub(super) fn get(&mut self, endpoint: &Endpoint, to: u32) -> Result<Peer, ConnectError> {
        if let Some(peer) = self.sessions[to as usize] {
            return Ok(peer);
        }
        let peer = endpoint.peer(to)?;
        self.sessions[to as usize] = Some(peer);
        Ok(peer)
    }
}

/// The messages of a rank on their way.
pub(super) struct Sending {
    rank: u32,
    schedule: Arc<Schedule>,
    limits: PushLimits,
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
    /// Chunks of the lengths that occur, to be sent again and again.
    chunks: Vec<Payload>,
    random: Random,
}

impl Sending {
    pub(super) fn new(rank: u32, schedule: Arc<Schedule>, limits: PushLimits, seed: u64) -> Self {
        Self {
            rank,
            schedule,
            limits,
            bytes_left: Vec::new(),
            candidates: Vec::new(),
            blocked: Vec::new(),
            unfinished: 0,
            outstanding: 0,
            pending: Vec::new(),
            chunks: Vec::new(),
            random: Random::new(seed ^ u64::from(rank) << 32),
        }
    }

    /// Whether all messages are answered.
    pub(super) fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    /// Begins an operation, before anything has arrived.
    pub(super) fn begin(&mut self) {
        let sends = self.schedule.sends(self.rank);
        self.bytes_left.clear();
        self.bytes_left.extend(sends.iter().map(|send| send.bytes));
        self.unfinished = sends.len();
        self.blocked.extend(0..sends.len());
        self.release(|_| false);
    }

    /// Lets messages go for which nothing is awaited any more.
    pub(super) fn release(&mut self, has_arrived: impl Fn(u32) -> bool) {
        let Self { blocked, candidates, schedule, bytes_left, rank, .. } = self;
        let sends = schedule.sends(*rank);
        blocked.retain(|&message| {
            let waits = sends[message].after.iter().any(|&from| !has_arrived(from));
            if !waits {
                candidates.push(Candidate { message, bytes_left: bytes_left[message] });
            }
            waits
        });
    }

    /// Sends chunks as far as the limits allow; returns how many.
    pub(super) fn push(&mut self, endpoint: &Endpoint, peers: &mut Peers) -> Result<usize, MemberError> {
        self.pending.retain(|operation| !endpoint.is_transmitted(*operation));
        let mut pushed = 0;
        while self.outstanding < self.limits.outstanding_max
            && self.pending.len() < self.limits.pending_max
            && let Some(place) = self.limits.push.choose(&self.candidates, &mut self.random)
        {
            let Candidate { message, .. } = self.candidates.swap_remove(place);
            self.send_chunk(message, endpoint, peers)?;
            pushed += 1;
        }
        Ok(pushed)
    }

    fn send_chunk(
        &mut self,
        message: usize,
        endpoint: &Endpoint,
        peers: &mut Peers,
    ) -> Result<(), MemberError> {
        let bytes = self.bytes_left[message].min(self.limits.chunk_bytes);
        let (rank, to) = (self.rank, self.schedule.sends(self.rank)[message].to);
        let peer = peers.get(endpoint, to).map_err(|error| MemberError::Connect { rank, to, error })?;
        let chunk = self.chunk(bytes);
        let posted = endpoint.call(peer, CHUNK, chunk).post(message as u64);
        let operation = posted.map_err(|error| MemberError::Chunk { rank, error })?;
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

    /// A chunk of a message is answered: its next one may go, if it has one.
    pub(super) fn answered(&mut self, message: usize) {
        self.outstanding -= 1;
        match self.bytes_left[message] {
            0 => self.unfinished -= 1,
            bytes_left => self.candidates.push(Candidate { message, bytes_left }),
        }
    }
}
