//! What the conductor's thread does: a table of connections, and one `poll` over their sockets and the
//! device's events.

use core::time::Duration;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use farcall_driver::{LaneFault, LaneId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::conductor::{Command, Notice, Shared};
use super::connection::{Connection, Phase};
use super::handshake::Message;
use super::link::Link;
use super::manager::Manager;
use super::place::Place;
use super::socket::send;
use crate::device::Network;

/// The most connections at a time, those that are being set up included. Callers beyond it are refused.
const CONNECTIONS_MAX: usize = 4096;

/// How long to wait before the next `accept` when there is no descriptor left.
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// How often lanes that are over are looked at, until nobody holds them any more.
const BURIAL_EVERY: Duration = Duration::from_millis(50);

/// How long a peer's own reason for the end of a lane may come after the card's.
const BETTER_REASON_WITHIN: Duration = Duration::from_millis(200);

/// The state of the thread.
pub struct Connections {
    pub(super) shared: Arc<Shared>,
    listener: TcpListener,
    welcome: Vec<u8>,
    pub(super) table: Vec<Connection>,
    /// Lanes that are over and may still be held by their ends.
    over: Vec<Arc<Link>>,
    /// The device has reported its end, after which its descriptor is readable for ever.
    pub(super) device_is_gone: bool,
}

impl Connections {
    /// No connections yet.
    pub fn new(shared: Arc<Shared>, listener: TcpListener) -> Self {
        Self {
            shared,
            listener,
            welcome: Vec::new(),
            table: Vec::new(),
            over: Vec::new(),
            device_is_gone: false,
        }
    }

    /// Runs until told to stop.
    pub fn run(mut self) {
        loop {
            let ready = self.wait();
            if !self.obey() {
                return;
            }
            self.take_device_events();
            self.take_manager_events();
            if ready.listener {
                self.accept();
            }
            self.serve(&ready.lanes);
            self.bury();
        }
    }

    fn wait(&self) -> Ready {
        let mut descriptors = vec![
            PollFd::from_borrowed_fd(self.shared.command_signal(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
        ];
        for connection in &self.table {
            let interest = match connection.phase {
                Phase::Calling { .. } => PollFlags::OUT,
                _ => PollFlags::IN,
            };
            descriptors.push(PollFd::from_borrowed_fd(connection.stream.as_fd(), interest));
        }
        if !self.device_is_gone {
            descriptors.push(PollFd::from_borrowed_fd(self.shared.terms.device.events(), PollFlags::IN));
        }
        let manager = self.shared.terms.manager.as_ref().map(Manager::descriptor);
        descriptors.extend(manager.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
        let deadlines = self.table.iter().filter_map(Connection::next_deadline);
        let burial = (!self.over.is_empty()).then(|| Instant::now() + BURIAL_EVERY);
        let next = deadlines.chain(burial).min();
        let timeout = next.map(|at| {
            let span = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) }
        });
        // An interrupted wait reports nothing, and the loop comes round again.
        let _interrupted = poll(&mut descriptors, timeout.as_ref());
        let ready = |poll: &PollFd<'_>| !poll.revents().is_empty();
        let lanes = self.table.iter().zip(&descriptors[2..]).filter(|(_, poll)| ready(poll));
        Ready { listener: ready(&descriptors[1]), lanes: lanes.map(|(entry, _)| entry.lane).collect() }
    }

    /// Carries out the driver's commands; says whether to go on.
    fn obey(&mut self) -> bool {
        for command in self.shared.take_commands() {
            match command {
                Command::SetWelcome(welcome) => self.welcome = welcome,
                Command::Connect { lane, place, hello, within } => self.call(lane, place, hello, within),
                Command::End(lane, fault) => {
                    if let Some(index) = self.table.iter().position(|connection| connection.lane == lane)
                        && !self.waits_for_a_better_reason(index, &fault)
                    {
                        self.end(index, fault);
                    }
                }
                Command::Stop => {
                    while !self.table.is_empty() {
                        self.end(0, LaneFault::Closed);
                    }
                    return false;
                }
            }
        }
        true
    }

    fn call(&mut self, lane: LaneId, place: Place, hello: Vec<u8>, within: Duration) {
        match Connection::to(lane, place, hello, within) {
            Ok(connection) => self.table.push(connection),
            Err(fault) => self.shared.notify(Notice::Down(lane, fault)),
        }
    }

    fn accept(&mut self) {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // Out of descriptors: the caller stays in the queue, and `poll` would report it again at
                    // once.
                    std::thread::sleep(RETRY_AFTER);
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.table.len() >= CONNECTIONS_MAX {
                let why = format!("it has {CONNECTIONS_MAX} connections, the limit");
                send(&mut stream, &Message::Refusal(&why));
                continue;
            }
            self.table.push(Connection::from(self.shared.new_lane(), stream));
        }
    }

    /// Looks after every connection once.
    fn serve(&mut self, ready: &[LaneId]) {
        let now = Instant::now();
        let mut index = 0;
        while index < self.table.len() {
            let connection = &mut self.table[index];
            let late = connection.is_being_set_up() && connection.deadline <= now;
            let step = if ready.contains(&connection.lane) {
                connection.step(&self.shared, &self.welcome)
            } else {
                Ok(())
            };
            let failed = match &self.table[index].failing {
                Some((fault, until)) if *until <= now => Some(fault.clone()),
                _ => None,
            };
            match step.and(failed.map_or(Ok(()), Err)) {
                Ok(()) if late && self.table[index].is_being_set_up() => self.end(index, LaneFault::TimedOut),
                Ok(()) => index += 1,
                Err(fault) => self.end(index, fault),
            }
        }
    }

    /// iWARP's connections end for the card as soon as the peer's process does, before the socket may have
    /// told. So a reason that the card gives counts only if the peer gives none in time.
    fn waits_for_a_better_reason(&mut self, index: usize, fault: &LaneFault) -> bool {
        let is_early = self.shared.terms.device.network == Network::Iwarp
            && matches!(fault, LaneFault::Fabric { .. })
            && !self.device_is_gone;
        if is_early {
            let until = Instant::now() + BETTER_REASON_WITHIN;
            self.table[index].failing.get_or_insert((fault.clone(), until));
        }
        is_early
    }

    /// Takes a connection out of the table, tells its peer, and reports the end to the driver if it knows of
    /// the lane.
    pub(super) fn end(&mut self, index: usize, fault: LaneFault) {
        let Connection { lane, ours, mut stream, phase, .. } = self.table.swap_remove(index);
        let known = ours || matches!(phase, Phase::Up(_));
        match (&fault, &phase) {
            (_, Phase::Up(_)) => send(&mut stream, &Message::Goodbye),
            (LaneFault::NotThere, Phase::Called) => send(&mut stream, &Message::Stranger),
            (LaneFault::Unacceptable { why }, _) => send(&mut stream, &Message::Refusal(why)),
            _ => {}
        }
        if let Phase::Up(link) | Phase::Answered(link, _) = phase {
            link.shut();
            self.over.push(link);
        }
        if known {
            self.shared.notify(Notice::Down(lane, fault));
        }
    }

    /// Destroys lanes that nobody holds any more. This thread may block, the others need not.
    fn bury(&mut self) {
        let before = self.over.len();
        self.over.retain(|link| Arc::strong_count(link) > 1);
        if self.over.len() < before {
            // Receives that those lanes had used up without a report are missing in the shared queue.
            self.shared.terms.receives.fill();
        }
    }
}

struct Ready {
    listener: bool,
    lanes: Vec<LaneId>,
}
