//! Requests that a handler answers later.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use farcall_transport::RequestId;

/// The duty to answer a request later, with `Endpoint::reply` or `Context::reply`.
///
/// It can be kept anywhere and moved between threads. Dropping it tells the caller that there will be no
/// answer.
pub struct Deferred {
    request: RequestId,
    /// Where to report the drop; `None` once the duty is fulfilled.
    dropped: Option<Arc<DroppedRequests>>,
}

impl Deferred {
    pub(super) fn new(request: RequestId, dropped: Arc<DroppedRequests>) -> Self {
        Self { request, dropped: Some(dropped) }
    }

    /// Fulfils the duty: the request is about to be answered.
    pub(super) fn fulfil(mut self) -> RequestId {
        self.dropped = None;
        self.request
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if let Some(dropped) = &self.dropped {
            dropped.push(self.request);
        }
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deferred({:?})", self.request)
    }
}

/// Requests whose duty was dropped; the endpoint answers them at its next poll.
#[derive(Default)]
pub struct DroppedRequests {
    any: AtomicBool,
    requests: Mutex<Vec<RequestId>>,
}

impl DroppedRequests {
    fn push(&self, request: RequestId) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        self.any.store(true, Ordering::Release);
    }

    /// Whether there may be some; one load.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The requests dropped since the last time.
    pub fn take(&self) -> Vec<RequestId> {
        self.any.swap(false, Ordering::Acquire);
        core::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
