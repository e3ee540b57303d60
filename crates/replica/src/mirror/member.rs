//! A replica of a mirror: what it was sent, and what waits.

use std::collections::VecDeque;

use farcall_disk::BLOCK_BYTES;

use super::{Outgoing, ReplicaStage};
use crate::message::{Held, PIECE_BYTES_MAX, Request, Subject, without_zeros};
use crate::record::Place;

/// What a message was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Begin,
    Write,
    /// Older replicas of the log are dropped there.
    Tidy,
    /// The sum of this range.
    Sum {
        at: u64,
    },
    /// What lies behind this place, to be examined.
    Read {
        at: u64,
    },
}

/// A message that waits for those before it: a replica is sent one at a time, and so in order.
struct Queued {
    purpose: Purpose,
    message: Vec<u8>,
}

/// A replica.
pub struct Member {
    /// Tells its answers from those of others.
    pub token: u64,
    pub place: Place,
    pub domain: String,
    pub stage: ReplicaStage,
    queue: VecDeque<Queued>,
    in_flight: Option<Purpose>,
    in_flight_bytes: usize,
    sequence: u64,
    /// Nothing was written at this byte or behind it.
    blank_from: u64,
}

impl Member {
    /// One that is to be begun.
    pub fn new(token: u64, place: Place, domain: String) -> Self {
        Self {
            token,
            place,
            domain,
            stage: ReplicaStage::Beginning,
            queue: VecDeque::new(),
            in_flight: None,
            in_flight_bytes: 0,
            sequence: 0,
            blank_from: 0,
        }
    }

    /// Queues its beginning. Before that the backup drops what earlier attempts have left there, but for the
    /// replicas that count.
    pub fn begin(&mut self, subject: Subject, retained: Vec<u64>, flushed: bool) {
        self.queue(subject, Purpose::Tidy, &Request::Fence { retained });
        self.queue(subject, Purpose::Begin, &Request::Begin { flushed });
    }

    fn queue(&mut self, subject: Subject, purpose: Purpose, request: &Request<'_>) {
        let subject = Subject { replica: self.place.replica, ..subject };
        self.queue.push_back(Queued { purpose, message: request.encode(subject) });
    }

    /// Queues blocks to be written. Those that are zero are left out where the replica is zero anyway, unless
    /// they are `last`: an image is as long as what it is of.
    pub fn write(&mut self, subject: Subject, (at, last): (u64, bool), blocks: &[u8], flush: bool) {
        let pieces = blocks.len().div_ceil(PIECE_BYTES_MAX);
        for (number, piece) in blocks.chunks(PIECE_BYTES_MAX).enumerate() {
            debug_assert!(piece.len().is_multiple_of(BLOCK_BYTES), "disks are written by blocks");
            let (at, data) = (at + (number * PIECE_BYTES_MAX) as u64, without_zeros(piece));
            // One flush is for all pieces before it.
            let flush = flush && number + 1 == pieces;
            if data.is_empty() && at >= self.blank_from && !flush && !last {
                continue;
            }
            self.blank_from = self.blank_from.max(at + piece.len() as u64);
            self.sequence += 1;
            let request =
                Request::Write { sequence: self.sequence, at, bytes: piece.len() as u32, flush, data };
            self.queue(subject, Purpose::Write, &request);
        }
    }

    /// Queues a block of zeros at the end of an image that became this long.
    pub fn extend(&mut self, subject: Subject, bytes: u64) {
        let blank = [0; BLOCK_BYTES];
        self.write(subject, (bytes - BLOCK_BYTES as u64, true), &blank, false);
    }

    /// Queues a fence that drops the log's other replicas there, but for those that count.
    pub fn tidy(&mut self, subject: Subject, mut retained: Vec<u64>) {
        if !retained.contains(&self.place.replica) {
            retained.push(self.place.replica);
        }
        self.queue(subject, Purpose::Tidy, &Request::Fence { retained });
    }

    /// Queues a question for a sum.
    pub fn sum(&mut self, subject: Subject, at: u64, bytes: u32) {
        self.queue(subject, Purpose::Sum { at }, &Request::Sum { at, bytes });
    }

    /// Queues a read.
    pub fn read(&mut self, subject: Subject, at: u64, bytes: u32) {
        self.queue(subject, Purpose::Read { at }, &Request::Read { at, bytes });
    }

    /// Whether its backup has it, by the answer to a fence; before it was begun none is expected to.
    pub fn is_held(&self, held: &[u8]) -> bool {
        let is_this = |held: &Held| held.replica == self.place.replica;
        self.stage == ReplicaStage::Beginning
            || Held::decode_all(held).is_some_and(|held| held.iter().any(is_this))
    }

    /// Whether nothing waits or is in flight.
    pub fn is_settled(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_none()
    }

    /// Bytes that wait or are in flight.
    pub fn behind_bytes(&self) -> u64 {
        let queued: usize = self.queue.iter().map(|queued| queued.message.len()).sum();
        (queued + self.in_flight_bytes) as u64
    }

    /// Whether a write at this place must be forwarded: what lies further on is copied later.
    pub fn has(&self, at: u64) -> bool {
        match self.stage {
            ReplicaStage::Beginning => false,
            ReplicaStage::Copying(next) => at < next,
            ReplicaStage::Whole => true,
        }
    }

    /// The next message, if none is in flight.
    pub fn next_message(&mut self) -> Option<Outgoing> {
        if self.in_flight.is_some() {
            return None;
        }
        let Queued { purpose, message } = self.queue.pop_front()?;
        self.in_flight = Some(purpose);
        self.in_flight_bytes = message.len();
        Some(Outgoing { backup: self.place.backup.clone(), token: self.token, message })
    }

    /// What the message was for that was answered.
    pub fn answered(&mut self) -> Option<Purpose> {
        self.in_flight_bytes = 0;
        self.in_flight.take()
    }
}
