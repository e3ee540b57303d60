//! What the conductor's thread does: a table of connections, and one `poll` over all of their sockets.

use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use farcall_driver::{LaneFault, LaneId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, connect, recv,
    socket_with,
};

use crate::conductor::{Command, Established, Link, Notice, Shared};
use crate::connection::{Connection, Phase};
use crate::handshake::{Offer, receive_offer, refuse, send_goodbye, send_offer, send_refusal};
use crate::ring_memory::CONTROL_BYTES;
use crate::same_user::same_user;
use crate::segment::{Mapping, PeerAccess, Segment};

/// How long a peer that connected to us may take for its offer.
const OFFER_WITHIN: Duration = Duration::from_secs(5);

/// The most connections at a time, those that are being set up or torn down included. Callers beyond it are
/// refused.
pub const CONNECTIONS_MAX: usize = 4096;

/// How long to wait before the next try when the peer's queue of connections is full.
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// Whether a connection stays in the table.
#[must_use]
enum Step {
    Stay,
    Forget,
}

struct Ready {
    listener: bool,
    lanes: Vec<(LaneId, PollFlags)>,
}

/// The state of the thread.
pub struct Connections {
    shared: Arc<Shared>,
    listener: OwnedFd,
    welcome: Vec<u8>,
    table: Vec<Connection>,
}

impl Connections {
    /// No connections yet.
    pub fn new(shared: Arc<Shared>, listener: OwnedFd) -> Self {
        Self { shared, listener, welcome: Vec::new(), table: Vec::new() }
    }

    /// Runs until told to stop.
    pub fn run(mut self) {
        loop {
            let ready = self.wait();
            if !self.obey() {
                return;
            }
            if ready.listener {
                self.accept();
            }
            self.serve(&ready.lanes);
        }
    }

    fn wait(&self) -> Ready {
        let mut descriptors = vec![
            PollFd::from_borrowed_fd(self.shared.command_signal(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
        ];
        let listened_to = || self.table.iter().filter(|connection| connection.is_listened_to());
        descriptors.extend(
            listened_to()
                .map(|connection| PollFd::from_borrowed_fd(connection.socket.as_fd(), PollFlags::IN)),
        );
        let timeout = self.table.iter().filter_map(Connection::wake_up_at).min().map(|at| {
            let span = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) }
        });
        // An interrupted wait reports nothing, and the loop comes round again.
        let _interrupted = poll(&mut descriptors, timeout.as_ref());
        let lanes = listened_to().zip(&descriptors[2..]).map(|(entry, poll)| (entry.lane, poll.revents()));
        Ready { listener: !descriptors[1].revents().is_empty(), lanes: lanes.collect() }
    }

    /// Carries out the driver's commands; says whether to go on.
    fn obey(&mut self) -> bool {
        for command in self.shared.take_commands() {
            match command {
                Command::SetWelcome(welcome) => self.welcome = welcome,
                Command::Connect { lane, name, hello, within } => self.call(lane, name, hello, within),
                Command::Close(lane) => {
                    if let Some(index) = self.table.iter().position(|connection| connection.lane == lane)
                        && let Step::Forget = self.fail(index, LaneFault::Closed)
                    {
                        self.table.swap_remove(index);
                    }
                }
                Command::Stop => {
                    self.table.iter().for_each(|connection| send_goodbye(&connection.socket));
                    return false;
                }
            }
        }
        true
    }

    fn call(&mut self, lane: LaneId, name: Vec<u8>, hello: Vec<u8>, within: Duration) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let now = Instant::now();
        match socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None) {
            Ok(socket) => self.table.push(Connection {
                lane,
                socket: Arc::new(socket),
                phase: Phase::Calling { name, hello, retry_at: now },
                deadline: now + within,
            }),
            Err(error) => self.shared.notify(Notice::Down(lane, refuse(error))),
        }
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let socket = match accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    // Out of descriptors: the caller stays in the queue, and `poll` would report it again at
                    // once.
                    std::thread::sleep(RETRY_AFTER);
                    return;
                }
            };
            let admitted = same_user(&socket).map_err(refuse).and_then(|()| self.has_room());
            if let Err(LaneFault::Unacceptable { why }) = admitted {
                send_refusal(&socket, &why);
                continue;
            }
            self.table.push(Connection {
                lane: self.shared.new_lane(),
                socket: Arc::new(socket),
                phase: Phase::Called,
                deadline: Instant::now() + OFFER_WITHIN,
            });
        }
    }

    fn has_room(&self) -> Result<(), LaneFault> {
        if self.table.len() < CONNECTIONS_MAX {
            return Ok(());
        }
        Err(refuse(format!("it has {CONNECTIONS_MAX} connections, the limit")))
    }

    /// Looks after every connection once.
    fn serve(&mut self, ready: &[(LaneId, PollFlags)]) {
        let now = Instant::now();
        let mut index = 0;
        while index < self.table.len() {
            let lane = self.table[index].lane;
            let is_ready = ready.iter().any(|&(ready, flags)| ready == lane && !flags.is_empty());
            let step = self.step(index, is_ready, now).unwrap_or_else(|fault| self.fail(index, fault));
            match step {
                Step::Stay => index += 1,
                Step::Forget => drop(self.table.swap_remove(index)),
            }
        }
    }

    fn step(&mut self, index: usize, is_ready: bool, now: Instant) -> Result<Step, LaneFault> {
        let connection = &self.table[index];
        if connection.is_being_set_up() && connection.deadline <= now {
            return Err(LaneFault::TimedOut);
        }
        match connection.phase {
            Phase::Calling { retry_at, .. } if retry_at <= now => {
                self.try_call(index, now).map(|()| Step::Stay)
            }
            Phase::Offered { .. } | Phase::Called if is_ready => self.take_offer(index).map(|()| Step::Stay),
            Phase::Up if is_ready => Err(self.reason_of_end(index)),
            Phase::Closing if is_ready => Ok(self.wait_for_release(index)),
            _ => Ok(Step::Stay),
        }
    }

    fn try_call(&mut self, index: usize, now: Instant) -> Result<(), LaneFault> {
        let connection = &mut self.table[index];
        let Phase::Calling { name, hello, retry_at } = &mut connection.phase else {
            unreachable!("only callers call")
        };
        let address = SocketAddrUnix::new_abstract_name(name).map_err(refuse)?;
        match connect(&connection.socket, &address) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::INTR) => {
                *retry_at = now + RETRY_AFTER;
                return Ok(());
            }
            Err(Errno::CONNREFUSED | Errno::NOENT) => return Err(LaneFault::NotThere),
            Err(error) => return Err(refuse(error)),
        }
        same_user(&connection.socket).map_err(refuse)?;
        let ring = offer(&self.shared, &connection.socket, hello)?;
        connection.phase = Phase::Offered { ring };
        Ok(())
    }

    fn take_offer(&mut self, index: usize) -> Result<(), LaneFault> {
        let connection = &mut self.table[index];
        let Some(peer) = receive_offer(&connection.socket)? else { return Ok(()) };
        let link = Arc::new(Link { socket: Arc::clone(&connection.socket) });
        let notice = match &connection.phase {
            Phase::Offered { ring } => {
                Notice::Connected(connection.lane, Established { peer, ring: Arc::clone(ring), link })
            }
            _ => {
                let ring = offer(&self.shared, &connection.socket, &self.welcome)?;
                Notice::Accepted(connection.lane, Established { peer, ring, link })
            }
        };
        connection.phase = Phase::Up;
        self.shared.notify(notice);
        Ok(())
    }

    /// A lane that is up carries no more messages on its socket but a good-bye: whatever comes is its end.
    fn reason_of_end(&self, index: usize) -> LaneFault {
        match recv(&self.table[index].socket, &mut [0; 8], RecvFlags::DONTWAIT) {
            Ok((bytes, _)) if bytes > 0 => LaneFault::PeerClosed,
            _ => LaneFault::PeerGone,
        }
    }

    /// The peer's end of file says that it does not read our blocks any more.
    fn wait_for_release(&mut self, index: usize) -> Step {
        let connection = &self.table[index];
        match recv(&connection.socket, &mut [0; 8], RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(Errno::CONNRESET | Errno::PIPE) => {
                self.shared.notify(Notice::Released(connection.lane));
                Step::Forget
            }
            _ => Step::Stay,
        }
    }

    /// Reports the end of a connection, to the driver and, if it was our decision, to the peer.
    fn fail(&mut self, index: usize, fault: LaneFault) -> Step {
        let connection = &mut self.table[index];
        let step = match connection.phase {
            Phase::Closing => return Step::Stay,
            Phase::Up => Step::Stay,
            _ => Step::Forget,
        };
        match (&connection.phase, &fault) {
            (Phase::Up, _) => send_goodbye(&connection.socket),
            (_, LaneFault::Unacceptable { why }) => send_refusal(&connection.socket, why),
            // The peer may have taken our offer, and the lane is up for it.
            (Phase::Offered { .. }, _) => send_goodbye(&connection.socket),
            _ => {}
        }
        if !matches!(connection.phase, Phase::Called) {
            self.shared.notify(Notice::Down(connection.lane, fault));
        }
        connection.phase = Phase::Closing;
        step
    }
}

/// Creates a ring for the peer to write into and offers it.
fn offer(shared: &Shared, socket: &OwnedFd, hello: &[u8]) -> Result<Arc<Mapping>, LaneFault> {
    let terms = &shared.terms;
    let ring_segment_bytes = CONTROL_BYTES + terms.ring_bytes;
    let (segment, ring) =
        Segment::create("farcall-ring", ring_segment_bytes, PeerAccess::Write).map_err(refuse)?;
    let offer = Offer {
        ring: segment.as_fd(),
        ring_bytes: terms.ring_bytes,
        blocks: terms.blocks.as_fd(),
        block_bytes: terms.block_bytes,
        doorbell: terms.doorbell.for_peers(),
        may_sleep: terms.may_sleep,
        hello,
    };
    send_offer(socket, &offer).map_err(|_| LaneFault::PeerGone)?;
    Ok(Arc::new(ring))
}
