//! What a rank's handlers learn during a poll, for the rank to act upon after it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall::{Endpoint, Reply, Request};

use super::orders::{Order, Times};
use super::schedule::Schedule;
use super::{CHUNK, END, START};

/// The code of a refusal to go on.
pub(super) const FAILED: u8 = 1;

/// What has come in.
pub(super) struct Inbox {
    /// What is to be done next.
    pub(super) order: Option<Order>,
    /// Ranks whose messages have arrived since the last look.
    pub(super) arrived: Vec<u32>,
    /// Ranks from which something is still to come.
    pub(super) ranks_open: usize,
    /// Whether rank 0 wants nothing any more.
    pub(super) over: bool,
    /// Chunks from each rank in this operation.
    chunks: Vec<u32>,
    /// Chunks that each rank sends in an operation.
    chunks_expected: Vec<u32>,
    /// Where chunks are copied to; `None` when they are left where they are.
    memory: Option<Vec<u8>>,
}

/// An inbox that handlers and their rank share.
#[derive(Clone)]
pub(super) struct SharedInbox(Arc<Mutex<Inbox>>);

impl Inbox {
    fn new(schedule: &Schedule, rank: u32, chunk_bytes: usize, copies: bool) -> Self {
        let chunks_expected = chunks_expected(schedule, rank, chunk_bytes);
        let mut inbox = Self {
            order: None,
            arrived: Vec::new(),
            ranks_open: 0,
            over: false,
            chunks: vec![0; chunks_expected.len()],
            chunks_expected,
            memory: copies.then(|| vec![0; chunk_bytes]),
        };
        inbox.renew();
        inbox
    }

    /// Takes one chunk; `false` if none is expected from there, or none so long.
    fn take(&mut self, from: u32, chunk: &[u8]) -> bool {
        let from_index = from as usize;
        if self.chunks[from_index] == self.chunks_expected[from_index] {
            return false;
        }
        if let Some(memory) = &mut self.memory {
            let Some(memory) = memory.get_mut(..chunk.len()) else { return false };
            memory.copy_from_slice(chunk);
        }
        self.chunks[from_index] += 1;
        if self.chunks[from_index] == self.chunks_expected[from_index] {
            self.ranks_open -= 1;
            self.arrived.push(from);
        }
        true
    }

    /// Expects everything anew.
    pub(super) fn renew(&mut self) {
        self.chunks.fill(0);
        self.arrived.clear();
        self.ranks_open = self.chunks_expected.iter().filter(|&&chunks| chunks > 0).count();
    }
}

impl SharedInbox {
    /// The inbox of a rank, filled by the handlers of its endpoint.
    pub(super) fn serve(
        endpoint: &Endpoint,
        schedule: &Schedule,
        rank: u32,
        chunk_bytes: usize,
        copies: bool,
    ) -> Self {
        let inbox = Self(Arc::new(Mutex::new(Inbox::new(schedule, rank, chunk_bytes, copies))));
        let of_chunks = inbox.clone();
        endpoint.serve(CHUNK, move |request: Request<'_>, reply: Reply<'_>| {
            if of_chunks.lock().take(request.peer().rank(), request.payload()) {
                reply.send(&[]);
            } else {
                reply.refuse(FAILED);
            }
        });
        let of_orders = inbox.clone();
        endpoint.serve(START, move |request: Request<'_>, reply: Reply<'_>| {
            let Some(times) = Times::from_bytes(request.payload()) else { return reply.refuse(FAILED) };
            let (root, _) = reply.defer();
            of_orders.lock().order = Some(Order { times, root: Some(root) });
        });
        let of_the_end = inbox.clone();
        endpoint.serve(END, move |_: Request<'_>, reply: Reply<'_>| {
            of_the_end.lock().over = true;
            reply.send(&[]);
        });
        inbox
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many chunks each rank sends to `rank` in an operation: an empty message is one empty chunk.
fn chunks_expected(schedule: &Schedule, rank: u32, chunk_bytes: usize) -> Vec<u32> {
    let mut chunks = vec![0; schedule.ranks() as usize];
    for &(from, bytes) in schedule.arrivals(rank) {
        chunks[from as usize] += bytes.div_ceil(chunk_bytes).max(1) as u32;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Collective;

    fn inbox(message_bytes: usize) -> Inbox {
        Inbox::new(&Schedule::new(Collective::Shuffle, 3, message_bytes), 0, 10, true)
    }

    #[test]
    fn a_message_has_arrived_with_its_last_chunk() {
        let mut inbox = inbox(11);
        assert!(inbox.take(1, &[0; 10]) && inbox.arrived.is_empty());
        assert!(inbox.take(1, &[0; 1]));
        assert_eq!((inbox.arrived.as_slice(), inbox.ranks_open), ([1].as_slice(), 1));
        inbox.renew();
        assert_eq!((inbox.arrived.len(), inbox.ranks_open), (0, 2));
    }

    #[test]
    fn an_empty_message_is_one_empty_chunk() {
        let mut inbox = inbox(0);
        assert!(inbox.take(2, &[]));
        assert_eq!(inbox.arrived, [2]);
    }

    #[test]
    fn chunks_that_are_not_expected_are_refused_and_change_nothing() {
        let mut inbox = inbox(1);
        assert!(!inbox.take(0, &[0]), "from itself");
        assert!(!inbox.take(1, &[0; 11]), "longer than any chunk");
        assert!(inbox.take(1, &[0]) && !inbox.take(1, &[0]), "twice");
        assert_eq!((inbox.arrived.as_slice(), inbox.ranks_open), ([1].as_slice(), 1));
    }
}
