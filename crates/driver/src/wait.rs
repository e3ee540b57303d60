//! Blocking until a driver's descriptor becomes readable.

use core::time::Duration;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Blocks until one of the descriptors is readable, which it says, or the time is over; may return early.
pub fn wait_readable(descriptors: &[RawFd], at_most: Duration) -> bool {
    let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
    let mut polled: Vec<PollFd<'_>> = descriptors
        .iter()
        .map(|&descriptor| {
            // SAFETY: `poll` does nothing to a descriptor but look at it. Should it be closed meanwhile, the result is
            // an early return; no memory depends on it.
            #[expect(unsafe_code, reason = "drivers name their descriptors by number")]
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            PollFd::from_borrowed_fd(descriptor, PollFlags::IN)
        })
        .collect();
    // An interrupted wait is a short one.
    poll(&mut polled, Some(&timeout)).is_ok_and(|readable| readable > 0)
}
