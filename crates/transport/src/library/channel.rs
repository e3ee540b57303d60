//! What is known of a session beside its handshake: the calls in it, and what waits for it.

use std::collections::VecDeque;

use farcall_driver::Destination;
use farcall_protocol::session::{Link, SessionId};
use farcall_protocol::wire::Offer;

use super::tagged::Tagged;
use crate::waiting::WaitingPayload;
use crate::{CallId, Service};

/// A request that waits for its session to come up, or for room.
pub struct Waiting {
    pub call: CallId,
    pub service: Service,
    pub payload: WaitingPayload,
}

/// One session's calls and messages.
pub struct Channel {
    pub id: SessionId,
    /// Where the session leads.
    pub to: Destination,
    /// The other end and the agreed limits; `None` until the session is up.
    pub link: Option<Link>,
    /// Our own limits, or once it is up the agreed ones.
    pub offer: Offer,
    /// Our calls that have no response yet.
    pub unanswered_calls: usize,
    /// The peer's calls that we have not answered yet.
    pub unanswered_requests: usize,
    /// Requests that wait for the session, or for room; bounded by our own limit on calls.
    pub waiting: VecDeque<Waiting>,
    pub tagged: Tagged,
}

impl Channel {
    /// A session that is being opened, or has come up without us.
    pub fn new(id: SessionId, to: Destination, offer: Offer) -> Self {
        Self {
            id,
            to,
            link: None,
            offer,
            unanswered_calls: 0,
            unanswered_requests: 0,
            waiting: VecDeque::new(),
            tagged: Tagged::default(),
        }
    }

    pub fn message_bytes_max(&self) -> usize {
        self.offer.message_bytes_max as usize
    }

    pub fn calls_max(&self) -> usize {
        usize::from(self.offer.calls_max)
    }

    /// Why what waits cannot be sent within the agreed limits, if it cannot.
    pub fn excess(&self) -> Option<String> {
        let (bytes_max, calls_max) = (self.message_bytes_max(), self.calls_max());
        let calls = self.waiting.iter().map(|waiting| waiting.payload.len());
        let sends = self.tagged.sends.waiting.iter().map(|waiting| waiting.payload.len());
        if calls.chain(sends).any(|bytes| bytes > bytes_max) {
            return Some(format!("a message that waited for it is over its limit of {bytes_max} bytes"));
        }
        let too_many = self.waiting.len() > calls_max;
        too_many.then(|| format!("more calls waited for it than its limit of {calls_max}"))
    }
}
