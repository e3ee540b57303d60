//! What the conductor's thread does: a table of connections, and one `poll` over all of their sockets.
//!
//! It never takes a message with descriptors, and never closes a socket of a caller: that is done by threads
//! that may be lost ([`intake`]). What it does itself never waits for a peer.

use core::time::Duration;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use farcall_driver::{LaneFault, LaneId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::access::{self, Standing};
use crate::conductor::{Command, Established, Link, Notice, Shared, ShmCounters};
use crate::connection::{Call, Connection, Own, Phase};
use crate::handshake::{
    Accepted, Account, Offer, receive_offer, refuse, send_goodbye, send_offer, send_refusal,
};
use crate::intake::{self, ForeignFd};
use crate::options::caller;
use crate::place::{Door, NotReached, reach};
use crate::ring_memory::{CONTROL_BYTES, populate_first};
use crate::segment::{PeerAccess, Segment};

/// How long a peer that connected to us may take for its offer.
const OFFER_WITHIN: Duration = Duration::from_secs(5);

/// The most connections at a time, those that are being set up or torn down included. Callers beyond it are
/// refused.
pub const CONNECTIONS_MAX: usize = 4096;

/// The most callers that are let in before connections are looked after.
const ACCEPTS_PER_TURN: usize = 64;

/// How long to wait before the next try when the peer's queue of connections is full.
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// How long callers wait when the threads that receive offers are all taken.
const INTAKE_RETRY_AFTER: Duration = Duration::from_millis(20);

/// Why a peer is out of reach whose socket in the folder is for others.
const NOT_OPEN: &str =
    "its socket in shm.directory is not open to this process's user, by its shm.allow or the folder's mode";

/// Whether a connection stays in the table.
#[must_use]
enum Step {
    Stay,
    Forget,
}

struct Ready {
    caller: bool,
    lanes: Vec<(LaneId, PollFlags)>,
}

/// The state of the thread.
pub struct Connections {
    shared: Arc<Shared>,
    door: Door,
    counters: ShmCounters,
    welcome: Vec<u8>,
    calls: Vec<Call>,
    table: Vec<Connection>,
}

impl Connections {
    /// No connections yet.
    pub fn new(shared: Arc<Shared>, door: Door, counters: ShmCounters) -> Self {
        Self { shared, door, counters, welcome: Vec::new(), calls: Vec::new(), table: Vec::new() }
    }

    /// Runs until told to stop.
    pub fn run(mut self) {
        loop {
            let ready = self.wait();
            if !self.obey() {
                return;
            }
            if ready.caller {
                self.accept();
            }
            self.call_again();
            self.serve(&ready.lanes);
        }
    }

    fn wait(&self) -> Ready {
        let mut descriptors = vec![PollFd::from_borrowed_fd(self.shared.command_signal(), PollFlags::IN)];
        let watched = || self.table.iter().filter_map(|entry| Some((entry, entry.watched_for()?)));
        descriptors
            .extend(watched().map(|(entry, events)| PollFd::from_borrowed_fd(entry.socket.as_fd(), events)));
        let lanes_end = descriptors.len();
        let takes_callers = intake::waiting() < intake::WAITING_MAX;
        if takes_callers {
            descriptors
                .extend(self.door.sockets().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        } else {
            self.counters.intake_waits.increment();
        }
        let timeout = self.wake_up_at(takes_callers).map(|at| {
            let span = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) }
        });
        // An interrupted wait reports nothing, and the loop comes round again.
        let _interrupted = poll(&mut descriptors, timeout.as_ref());
        let (lanes, door) = descriptors[1..].split_at(lanes_end - 1);
        let lanes = watched().zip(lanes).map(|((entry, _), polled)| (entry.lane, polled.revents()));
        Ready { caller: door.iter().any(|polled| !polled.revents().is_empty()), lanes: lanes.collect() }
    }

    fn wake_up_at(&self, takes_callers: bool) -> Option<Instant> {
        let calls = self.calls.iter().map(|call| call.retry_at.min(call.deadline));
        let intake = (!takes_callers).then(|| Instant::now() + INTAKE_RETRY_AFTER);
        calls.chain(self.table.iter().filter_map(Connection::wake_up_at)).chain(intake).min()
    }

    /// Carries out the driver's commands; says whether to go on.
    fn obey(&mut self) -> bool {
        for command in self.shared.take_commands() {
            match command {
                Command::SetWelcome(welcome) => self.welcome = welcome,
                Command::Connect { lane, name, hello, within } => {
                    let now = Instant::now();
                    self.calls.push(Call { lane, name, hello, retry_at: now, deadline: now + within });
                }
                Command::Received(lane, offer) => self.received(lane, offer),
                Command::Close(lane) => self.close(lane),
                Command::Stop => {
                    self.table.iter().for_each(|connection| send_goodbye(&connection.socket));
                    return false;
                }
            }
        }
        true
    }

    fn close(&mut self, lane: LaneId) {
        if let Some(index) = self.calls.iter().position(|call| call.lane == lane) {
            self.calls.swap_remove(index);
            self.shared.notify(Notice::Down(lane, LaneFault::Closed));
        } else if let Some(index) = self.place_of(lane) {
            self.end(index, LaneFault::Closed);
        }
    }

    fn place_of(&self, lane: LaneId) -> Option<usize> {
        self.table.iter().position(|connection| connection.lane == lane)
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            let socket = match self.door.accept() {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    // Out of descriptors: the caller stays in the queue, and `poll` would report it again at
                    // once.
                    std::thread::sleep(RETRY_AFTER);
                    return;
                }
            };
            self.counters.callers.increment();
            let caller = caller(socket.as_fd());
            let socket = ForeignFd::new(socket, caller);
            let standing = self.shared.terms.access.allow.check(&socket).map_err(|why| why.to_string());
            match standing.and_then(|standing| self.has_room().map(|()| standing)) {
                Ok(standing) => self.table.push(Connection {
                    lane: self.shared.new_lane(),
                    socket: Arc::new(socket),
                    standing,
                    phase: Phase::Called,
                    deadline: Instant::now() + OFFER_WITHIN,
                }),
                Err(why) => {
                    self.counters.callers_refused.increment();
                    send_refusal(&socket, &why);
                }
            }
        }
    }

    fn has_room(&self) -> Result<(), String> {
        if self.table.len() < CONNECTIONS_MAX {
            return Ok(());
        }
        Err(format!("it has {CONNECTIONS_MAX} connections, the limit"))
    }

    /// Calls whom it is time to call.
    fn call_again(&mut self) {
        let now = Instant::now();
        let (due, rest) = core::mem::take(&mut self.calls)
            .into_iter()
            .partition(|call| call.retry_at <= now || call.deadline <= now);
        self.calls = rest;
        for call in due {
            let lane = call.lane;
            if let Err(fault) = self.try_call(call, now) {
                self.shared.notify(Notice::Down(lane, fault));
            }
        }
    }

    fn try_call(&mut self, call: Call, now: Instant) -> Result<(), LaneFault> {
        if call.deadline <= now {
            return Err(LaneFault::TimedOut);
        }
        let access = &self.shared.terms.access;
        let socket = match reach(&call.name, access) {
            Ok(socket) => socket,
            Err(NotReached::Full) => {
                self.calls.push(Call { retry_at: now + RETRY_AFTER, ..call });
                return Ok(());
            }
            Err(NotReached::NotThere) => return Err(LaneFault::NotThere),
            Err(NotReached::Refused(Errno::ACCESS)) => return Err(refuse(NOT_OPEN)),
            Err(NotReached::Refused(error)) => return Err(refuse(error)),
        };
        let caller = caller(socket.as_fd());
        let socket = ForeignFd::new(socket, caller);
        let standing = access.allow.check(&socket).map_err(refuse)?;
        let own = offer(&self.shared, &socket, standing, &call.hello)?;
        self.table.push(Connection {
            lane: call.lane,
            socket: Arc::new(socket),
            standing,
            phase: Phase::Offered(own),
            deadline: call.deadline,
        });
        Ok(())
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
            Phase::Offered { .. } | Phase::Called if is_ready => {
                self.receive(index);
                Ok(Step::Stay)
            }
            Phase::Up if is_ready => Err(self.reason_of_end(index)),
            // The peer has shut down its side: it does not read our blocks any more.
            Phase::Closing if is_ready => {
                self.shared.notify(Notice::Released(connection.lane));
                Ok(Step::Forget)
            }
            _ => Ok(Step::Stay),
        }
    }

    /// Has the peer's offer received and checked.
    fn receive(&mut self, index: usize) {
        let connection = &mut self.table[index];
        let own = match core::mem::replace(&mut connection.phase, Phase::Receiving(None)) {
            Phase::Offered(own) => Some(own),
            _ => None,
        };
        connection.phase = Phase::Receiving(own);
        let (lane, socket) = (connection.lane, Arc::downgrade(&connection.socket));
        let (shared, caller) = (Arc::clone(&self.shared), connection.socket.caller());
        intake::hand_over(caller, move || {
            // Nobody waits for the offer any more once the connection is forgotten.
            let Some(socket) = socket.upgrade() else { return };
            let account = Account { caller, ledger: &shared.terms.ledger };
            let offer = receive_offer(&*socket, &account);
            shared.command(Command::Received(lane, offer));
        });
    }

    /// The peer's offer was checked; a connection that is not waited for any more drops what it is given.
    fn received(&mut self, lane: LaneId, offer: Result<Option<Accepted>, LaneFault>) {
        let Some(index) = self.place_of(lane) else { return };
        let connection = &mut self.table[index];
        let Phase::Receiving(own) = &mut connection.phase else { return };
        match (offer, own.take()) {
            (Ok(None), Some(own)) => connection.phase = Phase::Offered(own),
            (Ok(None), None) => connection.phase = Phase::Called,
            (Ok(Some(peer)), own) => {
                if let Err(fault) = self.come_up(index, peer, own) {
                    self.end(index, fault);
                }
            }
            (Err(fault), own) => {
                if matches!(fault, LaneFault::Unacceptable { .. }) {
                    self.counters.offers_refused.increment();
                }
                connection.phase = own.map_or(Phase::Called, Phase::Offered);
                self.end(index, fault);
            }
        }
    }

    fn come_up(&mut self, index: usize, peer: Accepted, own: Option<Own>) -> Result<(), LaneFault> {
        let connection = &mut self.table[index];
        let link = Arc::new(Link { socket: Arc::clone(&connection.socket) });
        let is_ours = own.is_some();
        let Own { ring, blocks } = match own {
            Some(own) => own,
            None => {
                connection.phase = Phase::Called;
                offer(&self.shared, &connection.socket, connection.standing, &self.welcome)?
            }
        };
        let copies = self.shared.terms.trust.copies(connection.standing);
        let principal = access::principal(&*connection.socket);
        let established = Established { peer, ring, link, own_blocks: blocks, copies, principal };
        connection.phase = Phase::Up;
        self.counters.lanes_up.increment();
        self.shared.notify(match is_ours {
            true => Notice::Connected(connection.lane, established),
            false => Notice::Accepted(connection.lane, established),
        });
        Ok(())
    }

    /// A lane that is up carries no more messages on its socket but a good-bye: whatever comes is its end.
    fn reason_of_end(&self, index: usize) -> LaneFault {
        match recv(&self.table[index].socket, &mut [0; 8], RecvFlags::DONTWAIT | RecvFlags::PEEK) {
            Ok((bytes, _)) if bytes > 0 => LaneFault::PeerClosed,
            _ => LaneFault::PeerGone,
        }
    }

    /// Ends a connection, and forgets it if nothing is left to wait for.
    fn end(&mut self, index: usize, fault: LaneFault) {
        if let Step::Forget = self.fail(index, fault) {
            self.table.swap_remove(index);
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
        let is_ours = !matches!(connection.phase, Phase::Called | Phase::Receiving(None));
        match (&connection.phase, &fault) {
            (Phase::Up, _) => {
                self.counters.lanes_down.increment();
                send_goodbye(&connection.socket);
            }
            (_, LaneFault::Unacceptable { why }) => send_refusal(&connection.socket, why),
            // The peer may have taken our offer, and the lane is up for it.
            (Phase::Offered(_) | Phase::Receiving(Some(_)), _) => send_goodbye(&connection.socket),
            _ => {}
        }
        if is_ours {
            self.shared.notify(Notice::Down(connection.lane, fault));
        }
        connection.phase = Phase::Closing;
        step
    }
}

/// Creates a ring for the peer to write into and offers it, with the blocks that this peer may read.
fn offer(shared: &Shared, socket: &ForeignFd, standing: Standing, hello: &[u8]) -> Result<Own, LaneFault> {
    let terms = &shared.terms;
    let ring_segment_bytes = CONTROL_BYTES + terms.ring_bytes;
    let (segment, ring) =
        Segment::create("farcall-ring", ring_segment_bytes, PeerAccess::Write).map_err(refuse)?;
    // Its first pages are ours to pay for, not the peer's.
    populate_first(&ring);
    let own_blocks = match terms.trust.copies(standing) {
        true => Some(Segment::create("farcall-blocks", terms.block_bytes, PeerAccess::Read).map_err(refuse)?),
        false => None,
    };
    let offer = Offer {
        ring: segment.as_fd(),
        ring_bytes: terms.ring_bytes,
        blocks: own_blocks.as_ref().map_or(&terms.blocks, |(segment, _)| segment).as_fd(),
        block_bytes: terms.block_bytes,
        doorbell: terms.doorbell.for_peers(),
        may_sleep: terms.may_sleep,
        hello,
    };
    send_offer(socket, &offer).map_err(|_| LaneFault::PeerGone)?;
    Ok(Own { ring: Arc::new(ring), blocks: own_blocks.map(|(_, mapping)| mapping) })
}
