//! How a thread that has nothing to do sleeps until there is.

use std::os::fd::RawFd;

/// What can be waited for: drivers, libraries and transports, each for what is below it.
///
/// The order is announce, poll once more, block, end the announcement. Without the poll between, what arrived
/// just before the announcement would be slept over.
pub trait Wait {
    /// Announces that the caller is about to block: what arrives from now on makes one of the
    /// `wait_descriptors` readable. Those whose descriptors are readable for as long as something waits do
    /// nothing here; those that cannot wake anybody ask for short naps by their deadline instead.
    fn prepare_wait(&mut self);

    /// Ends what `prepare_wait` announced.
    fn finish_wait(&mut self);

    /// File descriptors that become readable when a poll may find something.
    fn wait_descriptors(&self) -> Vec<RawFd>;
}
