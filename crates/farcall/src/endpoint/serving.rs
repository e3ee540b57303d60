//! What names need of an endpoint: where it is, what it serves, and how it stops.

use core::time::Duration;
use std::sync::Arc;

use farcall_base::Address;

use super::{Doorbell, Endpoint};
use crate::connect::Directions;

impl Endpoint {
    /// Where other processes reach the endpoint.
    pub(crate) fn address(&self) -> Address {
        self.core().transport.address()
    }

    /// Its way to the others.
    pub(crate) fn directions(&self) -> &Directions {
        &self.directions
    }

    /// The time that calls may take unless they say otherwise.
    pub(crate) fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// From now on requests are refused as not run, except those that a handler has deferred.
    pub(crate) fn stop_serving(&self) {
        let state = &mut self.core().state;
        state.handlers.clear();
        state.is_leaving = true;
    }

    /// How many requests have been dealt with, refused ones included.
    pub(crate) fn requests_taken(&self) -> u64 {
        self.core().state.counters.requests.get()
    }

    /// How many requests have arrived, in part or whole, and are not answered or the answer is not
    /// acknowledged.
    pub(crate) fn requests_unanswered(&self) -> usize {
        self.core().transport.holdings().requests
    }

    /// What wakes it, for other threads.
    pub(crate) fn doorbell(&self) -> Arc<Doorbell> {
        let bell = Arc::clone(self.core().state.late_replies.bell());
        bell.use_it();
        bell
    }
}
