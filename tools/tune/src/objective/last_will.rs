//! The end of a trial whose tuner is killed. The kernel ends a process with its parent and leaves those that
//! the process started, and a killed tuner can end nobody.
//!
//! So a shell waits for the tuner's end, in a process group of its own: it reads which process group is the
//! trial's until nobody writes any more, and ends the one that it read last.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::Pid;

/// Reads groups until the end, and ends the last one unless it has ended.
const SCRIPT: &str =
    "while read -r group; do last=$group; done; test -z \"$last\" || kill -s KILL -- \"-$last\"";

/// A shell that ends a process group when this process has ended. Without a shell there is none: trials then
/// go on, as far as the kernel does not end them.
pub(super) struct LastWill(Option<(Child, ChildStdin)>);

impl LastWill {
    pub(super) fn new() -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT]).process_group(0).stdin(Stdio::piped());
        let started = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(started.ok().and_then(|mut shell| shell.stdin.take().map(|input| (shell, input))))
    }

    /// This group is a trial's.
    pub(super) fn name(&mut self, group: Pid) {
        self.write(&group.as_raw_nonzero().to_string());
    }

    /// The trial has ended, and its number may become somebody else's.
    pub(super) fn forget(&mut self) {
        self.write("");
    }

    fn write(&mut self, line: &str) {
        // It fails when somebody has ended the shell.
        let _ = self.0.as_mut().map(|(_, input)| writeln!(input, "{line}"));
    }
}

impl Drop for LastWill {
    fn drop(&mut self) {
        if let Some((mut shell, input)) = self.0.take() {
            drop(input);
            // It fails when it was waited for.
            let _ = shell.wait();
        }
    }
}
