//! A watch over the launcher during calls that wait for it.
//!
//! When a launcher dies in the middle of `PMIx_Init`, the call can wait for ever (seen with PMIx 4.2), and so
//! can the `MPI_Init` of Open MPI. Neither can be called off: the process ends, as its launcher would have
//! ended it.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, Result, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open};

/// Makes a call that waits for the launcher, if there is one, and gives its result. When the process that
/// started this one ends meanwhile, this one is killed (SIGKILL), after a sentence on standard error.
///
/// The call is made by the calling thread. It goes unwatched where no thread or descriptor can be had.
pub fn watched<T>(call: impl FnOnce() -> T) -> T {
    if std::env::var_os(crate::NAMESPACE_VARIABLE).is_none() {
        return call();
    }
    // Held from the first such call on: a launcher that dies between two of them is noticed by the second.
    static LAUNCHER: OnceLock<Result<Launcher>> = OnceLock::new();
    let launcher = LAUNCHER.get_or_init(Launcher::of_this_process);
    let (Ok(launcher), Ok((returned, watch_ends))) = (launcher, UnixStream::pair()) else {
        return call();
    };
    thread::scope(|scope| {
        let watch = move || launcher.watch_until_closed(&watch_ends);
        // An error leaves the call unwatched.
        let _watching = thread::Builder::new().name("launcher".to_owned()).spawn_scoped(scope, watch);
        let result = call();
        drop(returned);
        result
    })
}

struct Launcher {
    process: Pid,
    handle: OwnedFd,
}

impl Launcher {
    fn of_this_process() -> Result<Self> {
        let process = getppid().ok_or(Errno::SRCH)?;
        Ok(Self { process, handle: pidfd_open(process, PidfdFlags::empty())? })
    }

    /// Ends the process when the launcher ends; returns when the other end of `watch_ends` is closed first.
    fn watch_until_closed(&self, watch_ends: &UnixStream) {
        let descriptors = &mut [
            PollFd::from_borrowed_fd(self.handle.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(watch_ends.as_fd(), PollFlags::IN),
        ];
        if retry_on_intr(|| poll(descriptors, None)).is_err() || !descriptors[1].revents().is_empty() {
            return;
        }
        let launcher = self.process.as_raw_nonzero();
        let sentence = format!(
            "the launcher, process {launcher}, ended while this process joined its job: it ends, too\n"
        );
        // The launcher may have been the one who read it.
        let _ = std::io::stderr().write_all(sentence.as_bytes());
        // It cannot fail for the process itself.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
