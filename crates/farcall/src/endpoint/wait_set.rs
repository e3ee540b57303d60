//! An endpoint in the event loop of a program: one descriptor for epoll, and what must be done around the
//! wait.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use farcall_driver::{ReadableSet, wait_readable};

use super::Endpoint;
use super::doorbell::Readiness;
use super::sinks::Sinks;

/// The longest wait, where no deadline is nearer.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// The descriptor of an endpoint for `poll`, `epoll` or tokio's `AsyncFd`: readable when the endpoint has to
/// be polled.
///
/// An endpoint over shared memory gets no signal while it is awake: a wait must be announced. So the loop is:
/// poll until nothing is left to do; [`WaitSet::prepare`]; wait until the descriptor is readable, at most as
/// long as that says; [`WaitSet::finish`]; poll again. [`WaitSet::wait`] does it for a program without other
/// descriptors.
///
/// ```no_run
/// # fn program(endpoint: &farcall::Endpoint) -> std::io::Result<()> {
/// let mut set = endpoint.wait_set()?;
/// loop {
///     while endpoint.poll(|_context, _event| {}) > 0 {}
///     if let Some(at_most) = set.prepare()? {
///         // Here the program waits for `set` and for its own descriptors, until `at_most` is over.
///         # let _ = at_most;
///         set.finish();
///     }
/// }
/// # }
/// ```
///
/// With tokio, `AsyncFd` takes the set; it watches for edges, so that `try_io` or `clear_ready` must be used
/// after each wait.
#[derive(Debug)]
pub struct WaitSet<'e> {
    endpoint: &'e Endpoint,
    set: ReadableSet,
    is_prepared: bool,
}

impl Endpoint {
    /// A descriptor that is readable when the endpoint has to be polled; see [`WaitSet`].
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn wait_set(&self) -> io::Result<WaitSet<'_>> {
        Ok(WaitSet { endpoint: self, set: ReadableSet::new()?, is_prepared: false })
    }
}

impl WaitSet<'_> {
    /// Announces a wait, and polls once more for what came before the announcement: events of that poll are
    /// kept for the next one that takes them. `None` if there was something, and the endpoint must be polled
    /// at once. Otherwise how long the wait may last: a deadline comes then, or an hour is over.
    ///
    /// # Errors
    /// The kernel cannot watch a descriptor, for want of memory; nothing is announced then.
    pub fn prepare(&mut self) -> io::Result<Option<Duration>> {
        self.finish();
        let core = &mut *self.endpoint.core_for_turn();
        let Some((descriptors, at_most)) = core.announce_wait() else { return Ok(None) };
        let watched = self.set.watch(&descriptors);
        if watched.is_err() || self.set.is_readable() {
            core.end_wait();
            return watched.map(|()| None);
        }
        self.is_prepared = true;
        Ok(Some(at_most))
    }

    /// The wait is over; does nothing if none was announced.
    pub fn finish(&mut self) {
        if core::mem::take(&mut self.is_prepared) {
            self.endpoint.core().end_wait();
        }
    }

    /// Waits until the endpoint has to be polled, at most for `at_most`.
    ///
    /// # Errors
    /// As of [`WaitSet::prepare`].
    pub fn wait(&mut self, at_most: Duration) -> io::Result<()> {
        if let Some(until_deadline) = self.prepare()? {
            wait_readable(&[self.set.as_fd().as_raw_fd()], at_most.min(until_deadline));
            self.finish();
        }
        Ok(())
    }
}

impl AsFd for WaitSet<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl AsRawFd for WaitSet<'_> {
    fn as_raw_fd(&self) -> RawFd {
        self.set.as_fd().as_raw_fd()
    }
}

impl Drop for WaitSet<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

impl super::Core {
    /// Announces a wait: the descriptors that end it, and the time until the next deadline. `None` if there
    /// is something to do.
    fn announce_wait(&mut self) -> Option<(Vec<RawFd>, Duration)> {
        self.transport.prepare_wait();
        let is_idle = self.turn(Sinks::default()) == 0 && self.state.messages.ended.is_empty();
        let deadline = self.next_deadline();
        let mut descriptors = self.transport.wait_descriptors();
        descriptors.extend(self.wakers.iter().map(AsRawFd::as_raw_fd));
        let may_wait = is_idle && self.state.stored_events.is_empty() && deadline > self.state.now;
        let bell = if may_wait { self.state.late_replies.bell().prepare() } else { Readiness::Busy };
        match bell {
            Readiness::Busy => {
                self.transport.finish_wait();
                return None;
            }
            Readiness::Unused => {}
            Readiness::Listening(bell) => descriptors.push(bell),
        }
        Some((descriptors, (deadline - self.state.now).min(WAIT_MAX)))
    }

    fn end_wait(&mut self) {
        self.transport.finish_wait();
        self.state.late_replies.bell().finish();
        self.clock_pace.read_next();
    }
}
