//! Descriptors by number: waiting for those of a driver, and keeping those that libraries open to this
//! process.
//!
//! Libraries open sockets without the flag that closes them in programs which this process starts. A child
//! would hold them for its whole life, and with them names and connections that should end with this process.

use core::time::Duration;
use std::collections::BTreeSet;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};

/// Blocks until one of the descriptors is readable, which it says, or the time is over; may return early.
pub fn wait_readable(descriptors: &[RawFd], at_most: Duration) -> bool {
    let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
    let mut polled: Vec<PollFd<'_>> = descriptors
        .iter()
        .map(|&descriptor| {
            // SAFETY: `poll` does nothing to a descriptor but look at it. Should it be closed meanwhile, the
            // result is an early return; no memory depends on it.
            #[expect(unsafe_code, reason = "drivers name their descriptors by number")]
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            PollFd::from_borrowed_fd(descriptor, PollFlags::IN)
        })
        .collect();
    // An interrupted wait is a short one.
    poll(&mut polled, Some(&timeout)).is_ok_and(|readable| readable > 0)
}

/// Runs `open`, and marks the descriptors that it opened so that children do not get them.
pub fn kept_from_children<R>(open: impl FnOnce() -> R) -> R {
    let before = descriptors();
    let result = open();
    for &descriptor in descriptors().difference(&before) {
        // SAFETY: only the flag is set. Should another thread have closed the descriptor meanwhile, nothing
        // happens, and should it have opened another one under its number, the flag is what Rust's own
        // descriptors have anyway.
        #[expect(unsafe_code, reason = "descriptors are known by number only")]
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        // A descriptor that is gone needs no flag.
        let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
    }
    result
}

/// This process's descriptors; none where the system does not list them.
fn descriptors() -> BTreeSet<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
