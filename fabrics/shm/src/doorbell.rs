//! What wakes a driver's sleeping owner: a pair of connected sockets, whose far end every peer holds.
//!
//! Sockets and not an event descriptor: a peer shares the open file with us and could make an event
//! descriptor blocking, or fill or empty it, and so hang whoever touches it next. Calls on stream sockets of
//! this machine that say themselves that they must not block never do, whatever the peer did to the file; of
//! other sockets that is not so, and a peer's doorbell is checked to be of this kind
//! ([`handshake`](crate::handshake)). The worst that a hostile peer can do is to ring without need, or to
//! shut the bell down, and then it counts as ringing all the time: we poll instead of sleeping.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

/// The most rings that one `drain` takes away; more are left for the next one.
const RINGS_PER_DRAIN: usize = 1024;

/// Both ends of our own doorbell.
#[derive(Debug)]
pub struct Doorbell {
    /// Readable after a ring.
    near: OwnedFd,
    /// What rings.
    far: OwnedFd,
}

impl Doorbell {
    /// A silent doorbell.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok(Self { near, far })
    }

    /// The end to pass to peers.
    pub fn for_peers(&self) -> BorrowedFd<'_> {
        self.far.as_fd()
    }

    /// Wakes our own owner.
    pub fn ring(&self) {
        ring(self.far.as_fd());
    }

    /// Silences it.
    pub fn drain(&self) {
        // Fails only when it is silent already.
        let _already_silent = recv(&self.near, &mut [0; RINGS_PER_DRAIN], RecvFlags::DONTWAIT);
    }

    /// What becomes readable when it rings.
    pub fn descriptor(&self) -> RawFd {
        self.near.as_raw_fd()
    }
}

/// Rings the doorbell whose far end is `bell`, which is a stream socket of this machine; never blocks and
/// never fails.
pub fn ring(bell: BorrowedFd<'_>) {
    // Fails when so many rings are waiting that the peer is awake, or when nobody has the other end.
    let _already_rung = send(bell, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

#[cfg(test)]
mod tests {
    use farcall_driver::wait_readable;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn rings(bell: &Doorbell) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(bell.near.as_fd(), PollFlags::IN)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("a poll that does not wait") > 0
    }

    #[test]
    fn it_rings_until_it_is_drained() {
        let bell = Doorbell::new().expect("sockets");
        bell.drain();
        assert!(!rings(&bell));
        (0..100).for_each(|_| bell.ring());
        wait_readable(&[bell.descriptor()], core::time::Duration::from_secs(20));
        assert!(rings(&bell));
        bell.drain();
        assert!(!rings(&bell));
    }

    #[test]
    fn no_bell_of_a_peer_blocks_us() {
        let bell = Doorbell::new().expect("sockets");
        (0..10_000).for_each(|_| bell.ring());
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        (0..10).for_each(|_| ring(writer.as_fd()));
    }

    #[test]
    fn a_bell_made_blocking_does_not_block_its_owner() {
        let bell = Doorbell::new().expect("sockets");
        for end in [&bell.near, &bell.far] {
            rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::empty()).expect("flags");
        }
        bell.drain();
        bell.ring();
        bell.drain();
        bell.drain();
        assert!(!rings(&bell));
    }
}
