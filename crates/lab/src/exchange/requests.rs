//! What a client asks for, and what it takes for an answer.

use farcall::{Loan, LoanError, Outgoing, Peer, Service};

use super::payload::Receiver;
use super::store::StoreRequests;
use super::{ECHO, Exchange, Workload};

/// The next request, and whether an answer is one.
pub(super) enum Requests {
    /// The same bytes to one server after the other.
    Echo { peers: Vec<Peer>, next_peer: usize, request: Vec<u8>, receiver: Receiver, response_bytes: usize },
    /// Operations on objects of a store.
    Store(Box<StoreRequests>),
}

impl Requests {
    /// The requests of an exchange with these servers.
    pub(super) fn new(exchange: &Exchange, peers: &[Peer]) -> Self {
        let receiver = Receiver::new(exchange.buffers, exchange.response_bytes);
        match exchange.workload {
            Workload::Echo => Self::Echo {
                peers: peers.to_vec(),
                next_peer: 0,
                request: vec![1; exchange.request_bytes],
                receiver,
                response_bytes: exchange.response_bytes,
            },
            Workload::Store(work) => {
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

    /// Looks at an answer; says whether it is one.
    #[inline]
    pub(super) fn accept(&mut self, answer: &[u8]) -> bool {
        match self {
            Self::Echo { receiver, response_bytes, .. } => receiver.look_at(answer, *response_bytes),
            Self::Store(requests) => requests.accept(answer),
        }
    }
}
