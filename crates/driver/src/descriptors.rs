//! Descriptors: memory files, waiting for those of a driver, and keeping those that libraries open to this
//! process.
//!
//! Libraries open sockets without the flag that closes them in programs which this process starts. A child
//! would hold them for its whole life, and with them names and connections that should end with this process.

use core::time::Duration;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::epoll;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Resource, getrlimit};

/// A memory file of `bytes` zero bytes that can be sealed and that nobody can execute, where the kernel knows
/// how to say so (since Linux 6.3); a setting of `vm.memfd_noexec` may demand it.
///
/// # Errors
/// Beyond the limit of file sizes, where the kernel would send SIGXFSZ; and what the kernel says.
pub fn memory_file(name: &str, bytes: usize) -> io::Result<OwnedFd> {
    if getrlimit(Resource::Fsize).current.is_some_and(|most| bytes as u64 > most) {
        let why = format!("memory of {bytes} bytes is over the limit of file sizes (ulimit -f)");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name, flags),
        made => made,
    };
    let file = file.map_err(|error| match error {
        // Of an ordinary process the kernel refuses it for neither of these reasons.
        Errno::PERM | Errno::ACCESS | Errno::NOSYS => {
            let why =
                format!("memfd_create is refused ({error}); allow it (seccomp filter, vm.memfd_noexec)");
            io::Error::new(io::ErrorKind::PermissionDenied, why)
        }
        error => error.into(),
    })?;
    ftruncate(&file, bytes as u64)?;
    Ok(file)
}

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

/// A descriptor that is readable when one of several is.
#[derive(Debug)]
pub struct ReadableSet {
    epoll: OwnedFd,
    /// Those that it watches.
    watched: BTreeSet<RawFd>,
}

impl ReadableSet {
    /// A set of none.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, watched: BTreeSet::new() })
    }

    /// Watches these and no others. One that was closed has left by itself, also if another one has its
    /// number now.
    ///
    /// # Errors
    /// The kernel cannot watch one.
    pub fn watch(&mut self, descriptors: &[RawFd]) -> io::Result<()> {
        let wanted: BTreeSet<RawFd> = descriptors.iter().copied().collect();
        for &number in self.watched.difference(&wanted) {
            // SAFETY: `epoll` forgets the number; nothing is done to what it names.
            #[expect(unsafe_code, reason = "drivers name their descriptors by number")]
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            let _ = epoll::delete(&self.epoll, descriptor);
        }
        for &number in &wanted {
            // SAFETY: `epoll` looks at it and does nothing to it. Should it be closed, `epoll` forgets
            // it; no memory depends on it.
            #[expect(unsafe_code, reason = "drivers name their descriptors by number")]
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            let data = epoll::EventData::new_u64(number as u64);
            match epoll::add(&self.epoll, descriptor, data, epoll::EventFlags::IN) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.watched = wanted;
        Ok(())
    }

    /// Whether one is readable at this moment.
    ///
    /// The kernel remembers descriptors that became readable until it is asked: those that were read
    /// meanwhile would hide the next change from a program that watches this one for changes, as tokio does.
    pub fn is_readable(&self) -> bool {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
        epoll::wait(&self.epoll, &mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
            .is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for ReadableSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
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

#[cfg(test)]
mod tests {
    use rustix::fs::fstat;
    use rustix::process::{Rlimit, setrlimit};

    use super::*;

    /// In a process of its own, since limits are a process's: run again by the test below.
    #[test]
    #[ignore = "the other process of this program's tests"]
    fn over_the_limit_of_file_sizes() {
        let limit = Rlimit { current: Some(4096), ..getrlimit(Resource::Fsize) };
        setrlimit(Resource::Fsize, limit).expect("it is lower");
        assert!(memory_file("farcall-test", 4096).is_ok());
        let refused = memory_file("farcall-test", 4097).expect_err("over the limit");
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn memory_over_the_limit_of_file_sizes_is_an_error_and_no_signal() {
        let this = std::env::current_exe().expect("this program");
        let ended = std::process::Command::new(this)
            .args(["--exact", "descriptors::tests::over_the_limit_of_file_sizes", "--ignored"])
            .stdout(std::process::Stdio::null())
            .status()
            .expect("this program runs");
        assert!(ended.success(), "{ended}");
    }

    #[test]
    fn nobody_can_execute_memory() {
        let file = memory_file("farcall-test", 4096).expect("memory");
        if memfd_create("farcall-test", MemfdFlags::NOEXEC_SEAL).is_ok() {
            const EXECUTE: u32 = 0o111;
            assert_eq!(fstat(&file).expect("a file").st_mode & EXECUTE, 0);
            assert!(rustix::fs::fchmod(&file, 0o777.into()).is_err(), "sealed");
        }
    }
}
