//! What a client asks for, and what it takes for an answer.

use farcall::{CallError, Loan, LoanError, Outgoing, Peer, Service};
use farcall_base::seed_of_stream;
use farcall_kv::wire::Code;

use super::payload::Receiver;
use super::store::StoreRequests;
use super::{ECHO, Exchange, ExchangeWork, StoreWork};

/// The next request, and whether an answer is one.
pub(super) enum Requests {
    /// The same bytes to one server after the other.
    Echo { peers: Vec<Peer>, next_peer: usize, request: Vec<u8>, receiver: Receiver, response_bytes: usize },
    /// Operations on objects of a store.
    Store(Box<StoreRequests>),
}

/// Which random requests they are: each client draws others, and for the measurement others than for its
/// warm-up, so that what is measured is not in a cache because it was asked for a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream(u64);

impl Stream {
    /// The requests of a rank before the measurement.
    pub(super) fn warming_up(rank: u32) -> Self {
        Self(2 * u64::from(rank))
    }

    /// The requests of a rank that count.
    pub(super) fn measured(rank: u32) -> Self {
        Self(2 * u64::from(rank) + 1)
    }

    /// The seed of these requests, from that of the exchange.
    pub(super) fn seed(self, seed: u64) -> u64 {
        seed_of_stream(seed, self.0)
    }
}

impl Requests {
    /// The requests of an exchange with these servers.
    pub(super) fn new(exchange: &Exchange, peers: &[Peer], stream: Stream) -> Self {
        let receiver = Receiver::new(exchange.buffers, exchange.response_bytes);
        match exchange.workload {
            ExchangeWork::Echo => Self::Echo {
                peers: peers.to_vec(),
                next_peer: 0,
                request: vec![1; exchange.request_bytes],
                receiver,
                response_bytes: exchange.response_bytes,
            },
            ExchangeWork::Store(work) => {
                let seed = stream.seed(seed_of_stream(exchange.seed, work.seed));
                let work = StoreWork::new(work.access, work.objects, seed, work.level());
                Self::Store(Box::new(StoreRequests::new(work, exchange.response_bytes, peers, receiver)))
            }
        }
    }

    /// The next request, and whom it is for. Long ones are written into a loan.
    #[inline]
    pub(super) fn next(
        &mut self,
        loan: impl FnOnce(usize) -> Result<Loan, LoanError>,
    ) -> (Peer, Service, Outgoing<'_>) {
        match self {
            Self::Echo { peers, next_peer, request, .. } => {
                let peer = peers[*next_peer];
                *next_peer += 1;
                if *next_peer == peers.len() {
                    *next_peer = 0;
                }
                (peer, ECHO, Outgoing::Slice(request))
            }
            Self::Store(requests) => requests.next(loan),
        }
    }

    /// Whether a call that failed so is made again: a store refuses what comes while too much waits for its
    /// log, and has changed nothing.
    pub(super) fn asks_again(&self, error: &CallError) -> bool {
        let is_busy = matches!(error, CallError::Refused { code, .. } if *code == Code::Busy as u8);
        matches!(self, Self::Store(_)) && is_busy
    }

    /// Looks at an answer; says whether it is one.
    #[inline]
    pub(super) fn accept(&mut self, answer: &[u8]) -> bool {
        match self {
            Self::Echo { receiver, response_bytes, .. } => receiver.look_at(answer, *response_bytes),
            Self::Store(requests) => requests.accept(answer),
        }
    }
}
