//! What a rank's handlers learn during a poll, for the rank to act upon after it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall::{Endpoint, Reply, Request};

use super::orders::{Order, Times};
use super::{END, START};

/// The code of a refusal to go on.
pub(super) const FAILED: u8 = 1;

/// What has come in.
#[derive(Default)]
pub(super) struct Inbox {
    /// What is to be done next.
    pub(super) order: Option<Order>,
    /// Whether rank 0 wants nothing any more.
    pub(super) over: bool,
}

/// An inbox that handlers and their rank share.
#[derive(Clone, Default)]
pub(super) struct SharedInbox(Arc<Mutex<Inbox>>);

impl SharedInbox {
    /// The inbox of a rank, filled by the handlers of its endpoint.
    pub(super) fn serve(endpoint: &Endpoint) -> Self {
        let inbox = Self::default();
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
