//! Which end a future has yet to fetch.

use farcall_transport::CallId;

/// What is said of futures that are polled after their end.
pub const FETCHED_ONCE: &str = "a future fetches its result once";

/// The operation of a future until its end was fetched.
///
/// One word without parts: futures are moved about right after they were made, and a processor stalls on reading as a whole what
/// it has just written in parts.
#[derive(Clone, Copy)]
pub struct Unfetched(u64);

impl Unfetched {
    /// The end was fetched, or there is none to be fetched.
    pub const NOTHING: Self = Self(u64::MAX);

    /// The end of that operation.
    #[inline]
    pub const fn end_of(operation: CallId) -> Self {
        Self(operation.0 as u64)
    }

    /// The operation whose end was not fetched.
    #[inline]
    pub fn operation(self) -> Option<CallId> {
        u32::try_from(self.0).ok().map(CallId)
    }
}
