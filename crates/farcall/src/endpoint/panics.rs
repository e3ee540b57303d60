//! What still has to be done when a callback panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// Calls `go_on` until it comes to its end; gives the first panic on the way. It must get further each time.
///
/// For callbacks whose operations have ended already: no other way leads to those behind one that panics, so they run before its
/// panic goes on.
#[inline(always)]
pub fn to_the_end(mut go_on: impl FnMut()) -> thread::Result<()> {
    let mut outcome = Ok(());
    while let Err(panic) = catch_unwind(AssertUnwindSafe(&mut go_on)) {
        outcome = outcome.and(Err(panic));
    }
    outcome
}
