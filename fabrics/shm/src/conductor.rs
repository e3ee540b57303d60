//! The driver's thread: accepts and sets up connections and notices their end.
//!
//! It sleeps in `poll` on sockets, so that the thread that moves messages never needs a system call to learn
//! whether a peer still lives: the kernel closes a dead process's sockets at once, and what the conductor
//! learns from that is one flag in memory for the driver.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use farcall_base::Principal;
use farcall_driver::{LaneFault, LaneId};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{Shutdown, shutdown};

use crate::access::{Access, Trust};
use crate::connections::Connections;
use crate::doorbell::Doorbell;
use crate::handshake::Accepted;
use crate::intake::ForeignFd;
use crate::place::Door;
use crate::quota::Ledger;
use crate::segment::{Mapping, Segment};

farcall_driver::declare_counters! {
    /// The counters of one driver, labelled `shm` and a part of its socket's name.
    pub struct ShmCounters {
        callers: "connections" => "Connections that processes of this machine have made here",
        callers_refused: "connections" => "Connections of users that are not allowed, or over the limit",
        offers_refused: "connections" => "Connections whose memory or doorbell was refused, over the quota too",
        lanes_up: "lanes" => "Lanes that came up, by either side",
        lanes_down: "lanes" => "Lanes that ended after they were up",
        mapped_bytes: "bytes" => "Memory of peers that is mapped now",
        intake_waits: "times" => "Callers had to wait because threads for descriptors of peers were all taken",
    }
}

/// Our hold on a peer's memory: the driver has one for each lane, and so has every borrowed block. When the
/// last is dropped the peer is told that its memory is its own again.
#[derive(Debug)]
pub struct Link {
    pub(crate) socket: Arc<ForeignFd>,
}

impl Drop for Link {
    fn drop(&mut self) {
        // Fails only when the peer is gone, and then nobody needs to know.
        let _peer_gone = shutdown(&*self.socket, Shutdown::Write);
    }
}

/// What every lane of a driver offers its peer.
pub struct Terms {
    /// Bytes in the rings that we read.
    pub ring_bytes: usize,
    /// The memory that we lend, and its size.
    pub blocks: Segment,
    /// Bytes in that memory.
    pub block_bytes: usize,
    /// Whether the driver's owner ever sleeps.
    pub may_sleep: bool,
    /// What wakes it.
    pub doorbell: Doorbell,
    /// Where its peers are looked for, and which are taken.
    pub access: Access,
    /// The peers whose memory is copied before it is looked at.
    pub trust: Trust,
    /// What of their memory is mapped.
    pub ledger: Arc<Ledger>,
}

/// A lane that is up.
pub struct Established {
    /// What the peer offered.
    pub peer: Accepted,
    /// Our ring, which the peer writes.
    pub ring: Arc<Mapping>,
    /// The connection.
    pub link: Arc<Link>,
    /// What only this peer reads of the blocks that we lend; `None` if it reads all of them.
    pub own_blocks: Option<Mapping>,
    /// Whether the peer's memory is copied before it is looked at.
    pub copies: bool,
    /// The peer's user.
    pub principal: Principal,
}

/// What the conductor tells the driver.
pub enum Notice {
    /// A lane that the driver asked for is up.
    Connected(LaneId, Established),
    /// A lane that a peer asked for is up.
    Accepted(LaneId, Established),
    /// A lane is down or never came up.
    Down(LaneId, LaneFault),
    /// The peer of a lane has let go of our memory.
    Released(LaneId),
}

/// What the driver tells the conductor.
pub enum Command {
    /// A peer's offer has come, and was checked.
    Received(LaneId, Result<Option<Accepted>, LaneFault>),
    /// Connect to the socket of this name.
    Connect {
        /// The lane's number.
        lane: LaneId,
        /// The name of the peer's socket.
        name: String,
        /// The hello for the peer.
        hello: Vec<u8>,
        /// How long the peer has to answer.
        within: Duration,
    },
    /// Answer accepted connections with this.
    SetWelcome(Vec<u8>),
    /// End a lane.
    Close(LaneId),
    /// End the thread.
    Stop,
}

/// The two mailboxes between driver and conductor.
pub struct Shared {
    /// What every lane offers.
    pub terms: Terms,
    commands: Mutex<VecDeque<Command>>,
    command_signal: OwnedFd,
    notices: Mutex<VecDeque<Notice>>,
    notices_waiting: AtomicUsize,
    next_lane: AtomicUsize,
}

impl Shared {
    /// A number for a new lane.
    pub fn new_lane(&self) -> LaneId {
        LaneId(self.next_lane.fetch_add(1, Ordering::Relaxed) as u32)
    }

    /// Adds a notice and wakes the driver's owner if it may sleep.
    pub fn notify(&self, notice: Notice) {
        let mut notices = lock(&self.notices);
        notices.push_back(notice);
        self.notices_waiting.store(notices.len(), Ordering::Release);
        drop(notices);
        self.terms.doorbell.ring();
    }

    /// Passes a command to the thread.
    pub fn command(&self, command: Command) {
        lock(&self.commands).push_back(command);
        signal(self.command_signal.as_fd());
    }

    /// The commands since the last time.
    pub fn take_commands(&self) -> VecDeque<Command> {
        drain(self.command_signal.as_fd());
        core::mem::take(&mut *lock(&self.commands))
    }

    /// What becomes readable when there are commands.
    pub fn command_signal(&self) -> BorrowedFd<'_> {
        self.command_signal.as_fd()
    }
}

/// The driver's handle of its conductor; ends the thread when dropped.
pub struct Conductor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Conductor {
    /// Starts the thread, which accepts connections at `door`.
    pub fn start(terms: Terms, door: Door, counters: ShmCounters) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            terms,
            commands: Mutex::default(),
            command_signal: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            notices: Mutex::default(),
            notices_waiting: AtomicUsize::new(0),
            next_lane: AtomicUsize::new(0),
        });
        let connections = Connections::new(Arc::clone(&shared), door, counters);
        let named = std::thread::Builder::new().name("farcall-shm".into());
        let thread = named.spawn(move || connections.run()).map_err(|error| {
            let advice = "raise the limits of processes and memory (ulimit -u, ulimit -v, pids.max)";
            io::Error::new(error.kind(), format!("cannot start a thread: {error}; {advice}"))
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What the mailboxes share.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Passes a command to the thread.
    pub fn command(&self, command: Command) {
        self.shared.command(command);
    }

    /// Whether there is a notice; costs one load.
    #[inline(always)]
    pub fn has_notice(&self) -> bool {
        self.shared.notices_waiting.load(Ordering::Acquire) > 0
    }

    /// The oldest notice.
    #[inline]
    pub fn take_notice(&self) -> Option<Notice> {
        if !self.has_notice() {
            return None;
        }
        let mut notices = lock(&self.shared.notices);
        let notice = notices.pop_front();
        self.shared.notices_waiting.store(notices.len(), Ordering::Release);
        notice
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        self.command(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by its panic hook; there is nothing left to save here.
            let _ = thread.join();
        }
    }
}

/// Makes an event descriptor of our own readable.
fn signal(event: BorrowedFd<'_>) {
    // Fails only when the counter is full, and then it is readable.
    let _already_readable = rustix::io::write(event, &1u64.to_ne_bytes());
}

/// Makes an event descriptor of our own unreadable.
fn drain(event: BorrowedFd<'_>) {
    // Fails only when it is unreadable already.
    let _already_empty = rustix::io::read(event, &mut [0; 8]);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
