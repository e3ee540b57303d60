//! Keeping the descriptors that other people's libraries open to this process.
//!
//! They open sockets without the flag that closes them in programs which this one starts. A child would hold them
//! for its whole life, and with them names and connections that should end with this process.

use std::collections::BTreeSet;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{FdFlags, fcntl_setfd};

/// Does what opens descriptors, and sees to it that children do not get them.
pub fn kept_from_children<R>(open: impl FnOnce() -> R) -> R {
    let before = descriptors();
    let result = open();
    for &descriptor in descriptors().difference(&before) {
        // SAFETY: only the flag is set. Should another thread have closed the descriptor meanwhile, nothing happens, and
        // should it have opened another one under its number, the flag is what Rust's own descriptors have anyway.
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
