//! The driver's thread, and the mailboxes between the two.
//!
//! It sets lanes up, notices their end, and does everything that may block: system calls on sockets and the
//! creation and destruction of queues. The thread that moves messages pays one load to learn that nothing
//! happened.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use farcall_driver::{LaneFault, LaneId};
use rustix::event::{EventfdFlags, eventfd};

use super::connections::Connections;
use super::handshake::COOKIE_BYTES;
use super::link::Link;
use super::manager::Manager;
use super::place::Place;
use super::receives::Receives;
use crate::config::VerbsLaneConfig;
use crate::device::Device;
use crate::error::VerbsError;
use crate::queues::CompletionChannel;
use crate::region::Region;

/// What every lane of a driver is made from.
pub struct Terms {
    pub device: Arc<Device>,
    pub config: VerbsLaneConfig,
    pub receives: Arc<Receives>,
    pub channel: Arc<CompletionChannel>,
    pub blocks: Arc<Region>,
    pub cookie: [u8; COOKIE_BYTES],
    /// What listens for connections of rdma_cm, if that is to make them.
    pub manager: Option<Manager>,
    /// Set when the card reported a failure of some lane.
    pub alarm: Arc<AtomicBool>,
}

/// What the conductor tells the driver.
pub enum Notice {
    /// A lane that the driver asked for is up; the peer's welcome.
    Connected(LaneId, Arc<Link>, Vec<u8>),
    /// A lane that a peer asked for is up; its hello.
    Accepted(LaneId, Arc<Link>, Vec<u8>),
    /// A lane is down or never came up; the peer does not reach our memory any more.
    Down(LaneId, LaneFault),
    /// A port of the device went down, or came back.
    Port(bool),
}

/// What the driver tells the conductor.
pub enum Command {
    /// Connect to a place.
    Connect { lane: LaneId, place: Place, hello: Vec<u8>, within: Duration },
    /// Answer accepted connections with this.
    SetWelcome(Vec<u8>),
    /// End a lane for a reason of our own.
    End(LaneId, LaneFault),
    /// End the thread.
    Stop,
}

/// The two mailboxes between driver and conductor.
pub struct Shared {
    pub terms: Terms,
    commands: Mutex<VecDeque<Command>>,
    command_signal: OwnedFd,
    notices: Mutex<VecDeque<Notice>>,
    notices_waiting: AtomicUsize,
    notice_signal: OwnedFd,
    next_lane: AtomicU32,
}

impl Shared {
    /// A number for a new lane.
    pub fn new_lane(&self) -> LaneId {
        LaneId(self.next_lane.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds a notice and wakes the driver's owner.
    pub fn notify(&self, notice: Notice) {
        let mut notices = lock(&self.notices);
        notices.push_back(notice);
        self.notices_waiting.store(notices.len(), Ordering::Release);
        drop(notices);
        signal(&self.notice_signal);
    }

    /// The commands since the last time.
    pub fn take_commands(&self) -> VecDeque<Command> {
        drain(&self.command_signal);
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
    /// Starts the thread, which accepts connections at `listener`.
    pub fn start(terms: Terms, listener: TcpListener) -> Result<Self, VerbsError> {
        let system = |source| VerbsError::System { what: "start the thread of a lane driver", source };
        let new_signal = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let shared = Arc::new(Shared {
            terms,
            commands: Mutex::default(),
            command_signal: new_signal().map_err(|error| system(error.into()))?,
            notices: Mutex::default(),
            notices_waiting: AtomicUsize::new(0),
            notice_signal: new_signal().map_err(|error| system(error.into()))?,
            next_lane: AtomicU32::new(0),
        });
        let connections = Connections::new(Arc::clone(&shared), listener);
        let thread =
            std::thread::Builder::new().name("farcall-verbs".into()).spawn(move || connections.run());
        Ok(Self { shared, thread: Some(thread.map_err(system)?) })
    }

    /// What driver and conductor share.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Passes a command to the thread.
    pub fn command(&self, command: Command) {
        lock(&self.shared.commands).push_back(command);
        signal(&self.shared.command_signal);
    }

    /// Whether there are notices; costs one load.
    #[inline]
    pub fn has_notices(&self) -> bool {
        self.shared.notices_waiting.load(Ordering::Acquire) > 0
    }

    /// The oldest notice.
    pub fn take_notice(&self) -> Option<Notice> {
        let mut notices = lock(&self.shared.notices);
        let notice = notices.pop_front();
        self.shared.notices_waiting.store(notices.len(), Ordering::Release);
        notice
    }

    /// What becomes readable when there are notices.
    pub fn notice_descriptor(&self) -> RawFd {
        self.shared.notice_signal.as_raw_fd()
    }

    /// Makes it unreadable.
    pub fn silence(&self) {
        drain(&self.shared.notice_signal);
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

fn signal(event: &OwnedFd) {
    // Fails only when the counter is full, and then it is readable.
    let _already_readable = rustix::io::write(event, &1u64.to_ne_bytes());
}

fn drain(event: &OwnedFd) {
    // Fails only when it is unreadable already.
    let _already_empty = rustix::io::read(event, &mut [0; 8]);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
