//! Two sockets at one address: an open one, which every peer reaches, and a direct one, which is connected to
//! the peer of a conversation.
//!
//! For each packet of a socket that is not connected the kernel looks up the route again. On loopback that is
//! a seventh of a small round trip, and most endpoints talk with one peer at a time. So when everything has
//! come from one peer for a while, the direct socket is connected to it. From then on the kernel hands what
//! that peer sends to the direct socket, and all else to the open one as before: both must be looked at.
//! Nothing is lost by a connection, but what waits at one socket may be overtaken at the other. When the
//! peer's port is closed, so is the direct socket.

use core::time::Duration;
use std::io;
use std::os::fd::RawFd;

use farcall_base::Instant;
use farcall_driver::Destination;
use farcall_driver::clock::Clock;

use crate::name::{KnownPeers, Name};
use crate::socket::Socket;
use crate::{UdpConfig, UdpCounters};

/// How many receives in a row must bring packets of one peer before the direct socket is connected to it. To
/// connect takes as long as a few packets.
const CONVERSATION_RECEIVES_MIN: u32 = 64;

/// How long the open socket may be left alone while there is a direct one: a few receives.
const OPEN_LEFT_ALONE: Duration = Duration::from_micros(2);

/// The sockets of one driver.
pub struct Sockets {
    /// Where all peers are heard that the direct one is not connected to.
    pub open: Socket,
    direct: Option<Direct>,
    /// How the direct socket is opened; `None` when there shall be none, or can be none.
    config: Option<UdpConfig>,
    latest: Run,
    clock: Clock,
    open_looked_at: Instant,
}

struct Direct {
    socket: Socket,
    peer: Destination,
}

/// Receives in a row that brought packets of one peer.
struct Run {
    source: Destination,
    receives: u32,
}

/// How a packet leaves: by which socket, and the name of the peer unless the socket is connected to it.
#[derive(Clone, Copy)]
pub struct Route<'a> {
    pub descriptor: RawFd,
    name: Option<&'a Name>,
}

impl Sockets {
    /// The open socket, and no conversation yet.
    pub fn open(config: &UdpConfig) -> io::Result<Self> {
        let open = Socket::open(config)?;
        let beside = UdpConfig { bind: open.local, ..config.clone() };
        Ok(Self {
            open,
            direct: None,
            config: config.connect.then_some(beside),
            latest: Run { source: Destination(0), receives: 0 },
            clock: Clock::new(),
            open_looked_at: Instant::ZERO,
        })
    }

    /// Their descriptors.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let direct = self.direct.as_ref().map(|direct| direct.socket.descriptor());
        [self.open.descriptor()].into_iter().chain(direct).collect()
    }

    /// The way to a peer; `None` when it has been replaced.
    #[inline]
    pub fn route<'a>(&self, peers: &'a KnownPeers, to: Destination) -> Option<Route<'a>> {
        let name = peers.way(to)?;
        Some(match &self.direct {
            Some(direct) if direct.peer == to => Route { descriptor: direct.socket.descriptor(), name: None },
            _ => Route { descriptor: self.open.descriptor(), name: Some(name) },
        })
    }

    /// The descriptor of the direct socket, if there is one and its peer `is_meant`.
    pub fn direct_descriptor(&self, is_meant: impl FnOnce(Destination) -> bool) -> Option<RawFd> {
        let direct = self.direct.as_ref().filter(|direct| is_meant(direct.peer))?;
        Some(direct.socket.descriptor())
    }

    /// Looks for packets at one socket after the other until there are some; `look` says how many there were.
    #[inline]
    pub fn receive(&mut self, mut look: impl FnMut(&mut Socket) -> usize) -> usize {
        let Some(direct) = &mut self.direct else { return look(&mut self.open) };
        let now = self.clock.now();
        let is_due = now - self.open_looked_at >= OPEN_LEFT_ALONE;
        if is_due {
            self.open_looked_at = now;
            let received = look(&mut self.open);
            if received > 0 {
                return received;
            }
        }
        let received = look(&mut direct.socket);
        if received > 0 {
            return received;
        }
        if direct.socket.is_over {
            self.direct = None;
        }
        if self.open.last_received > 0 { look(&mut self.open) } else { 0 }
    }

    /// A receive brought packets, the first of them from that peer.
    #[inline]
    pub fn heard(&mut self, source: Destination, peers: &KnownPeers, counters: &UdpCounters) {
        if self.direct.as_ref().is_some_and(|direct| direct.peer == source) {
            self.latest.receives = 0;
            return;
        }
        let Run { source: latest, receives } = &mut self.latest;
        *receives = if *latest == source { *receives + 1 } else { 1 };
        *latest = source;
        if *receives == CONVERSATION_RECEIVES_MIN {
            self.talk_with(source, peers, counters);
        }
    }

    /// Connects the direct socket to a peer, if the system allows it.
    #[cold]
    fn talk_with(&mut self, peer: Destination, peers: &KnownPeers, counters: &UdpCounters) {
        let (Some(config), Some(name)) = (&self.config, peers.way(peer)) else { return };
        let connected = match &mut self.direct {
            Some(direct) => direct.socket.connect(name).map(|()| direct.peer = peer),
            None => self.open.open_beside(config).and_then(|mut socket| {
                socket.connect(name)?;
                self.direct = Some(Direct { socket, peer });
                Ok(())
            }),
        };
        match connected {
            Ok(()) => counters.connections.increment(),
            // It is not asked again: what the system refuses once it most likely refuses for good.
            Err(_) => self.config = None,
        }
    }
}

impl Route<'_> {
    /// The name as the kernel takes it, and its length.
    #[inline]
    pub fn name(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        match self.name {
            Some(name) => (core::ptr::from_ref(name).cast(), name.bytes()),
            None => (core::ptr::null(), 0),
        }
    }
}
