//! Whether another process of this machine is still there.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process, as another one of the same machine can look for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMark {
    /// A number of the namespace that its number is of; 0 when it is not known.
    pub namespace: u64,
    /// Its number there.
    pub pid: u32,
}

impl ProcessMark {
    /// This process.
    pub fn own() -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino());
        Self { namespace, pid: std::process::id() }
    }

    /// Whether this process, which has the mark `own`, can look for it by its number.
    pub fn is_in_sight_of(self, own: Self) -> bool {
        self.namespace != 0 && self.namespace == own.namespace
    }

    /// Whether it has ended, although its parent may not have noticed yet. False where the system does not
    /// say.
    pub fn has_ended(self) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return true };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => {
                let mut ends = [PollFd::new(&process, PollFlags::IN)];
                poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ended| ended > 0)
            }
            Err(error) => error == Errno::SRCH,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_ended_before_its_parent_knows() {
        let own = ProcessMark::own();
        assert!(!own.has_ended());
        let mut child = std::process::Command::new("true").spawn().expect("a program that ends");
        let mark = ProcessMark { pid: child.id(), ..own };
        assert!(mark.is_in_sight_of(own));
        while !mark.has_ended() {
            std::thread::yield_now();
        }
        child.wait().expect("it is ours");
        assert!(mark.has_ended(), "and after that");
        assert!(!ProcessMark { namespace: own.namespace + 1, ..mark }.is_in_sight_of(own));
    }
}
