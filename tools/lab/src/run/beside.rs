//! Threads beside the one that measures. Where the system has none to give, that is a sentence.

use std::io::Read;
use std::process::ChildStdout;
use std::sync::mpsc::Sender;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread.
pub(crate) fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, String> {
    Builder::new().spawn(work).map_err(sentence)
}

/// Starts a thread that ends within a scope.
pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, String> {
    Builder::new().spawn_scoped(scope, work).map_err(sentence)
}

/// Reads a process's output in a thread of its own, so that waiting for it can be given up;
/// sends it when it is whole, with the number of the process.
pub(crate) fn read(
    rank: usize,
    mut output: ChildStdout,
    sender: Sender<(usize, String)>,
) -> Result<(), String> {
    let life = move || {
        let mut text = String::new();
        // What cannot be read shows as a report that is not whole.
        let _ = output.read_to_string(&mut text);
        let _ = sender.send((rank, text));
    };
    spawn(life).map(drop)
}

fn sentence(error: std::io::Error) -> String {
    format!(
        "cannot start a thread: {error}; raise the limits of processes and memory (ulimit -u, ulimit -v, pids.max)"
    )
}
