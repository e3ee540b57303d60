//! What the conductor's thread does: a table of connections, and one `poll` over their sockets and the device's events.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use farcall_driver::{LaneFault, LaneId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::conductor::{Command, Notice, Shared};
use super::handshake::{COOKIE_BYTES, MESSAGE_BYTES_MAX, Message, Offer};
use super::link::{Half, Link};
use super::place::Place;
use crate::events::{DeviceEvent, next_event};

/// How long a peer that connected to us may take for its call and for being ready.
const CALL_WITHIN: Duration = Duration::from_secs(5);

/// The most connections at a time, those that are being set up included. Callers beyond it are refused.
const CONNECTIONS_MAX: usize = 4096;

/// How long to wait before the next `accept` when there is no descriptor left.
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// How often lanes that are over are looked at, until nobody holds them any more.
const BURIAL_EVERY: Duration = Duration::from_millis(50);

/// Where a connection stands.
enum Phase {
    /// We call; the network has not answered yet.
    Calling { place: Place, hello: Vec<u8> },
    /// We sent our offer and wait for the peer's.
    Offered(Half),
    /// A peer called; its offer is yet to come.
    Called,
    /// We answered a call, and wait for the peer to be ready.
    Answered(Arc<Link>, Vec<u8>),
    /// The lane is up.
    Up(Arc<Link>),
}

struct Connection {
    lane: LaneId,
    /// Whether we called, so that the driver waits for the outcome.
    ours: bool,
    stream: TcpStream,
    phase: Phase,
    /// What has been received and not been understood yet.
    inbox: Vec<u8>,
    /// When it must be up.
    deadline: Instant,
}

/// The state of the thread.
pub struct Connections {
    shared: Arc<Shared>,
    listener: TcpListener,
    welcome: Vec<u8>,
    table: Vec<Connection>,
    /// Lanes that are over and may still be held by their ends.
    over: Vec<Arc<Link>>,
}

impl Connections {
    /// No connections yet.
    pub fn new(shared: Arc<Shared>, listener: TcpListener) -> Self {
        Self { shared, listener, welcome: Vec::new(), table: Vec::new(), over: Vec::new() }
    }

    /// Runs until told to stop.
    pub fn run(mut self) {
        loop {
            let ready = self.wait();
            if !self.obey() {
                return;
            }
            self.take_device_events();
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
            PollFd::from_borrowed_fd(self.shared.terms.device.events(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
        ];
        for connection in &self.table {
            let interest = match connection.phase {
                Phase::Calling { .. } => PollFlags::OUT,
                _ => PollFlags::IN,
            };
            descriptors.push(PollFd::from_borrowed_fd(connection.stream.as_fd(), interest));
        }
        let deadlines = self.table.iter().filter(|connection| connection.is_being_set_up());
        let burial = (!self.over.is_empty()).then(|| Instant::now() + BURIAL_EVERY);
        let next = deadlines.map(|connection| connection.deadline).chain(burial).min();
        let timeout = next.map(|at| {
            let span = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) }
        });
        // An interrupted wait reports nothing, and the loop comes round again.
        let _interrupted = poll(&mut descriptors, timeout.as_ref());
        let ready = |poll: &PollFd<'_>| !poll.revents().is_empty();
        let lanes = self.table.iter().zip(&descriptors[3..]).filter(|(_, poll)| ready(poll));
        Ready { listener: ready(&descriptors[2]), lanes: lanes.map(|(entry, _)| entry.lane).collect() }
    }

    /// Carries out the driver's commands; says whether to go on.
    fn obey(&mut self) -> bool {
        for command in self.shared.take_commands() {
            match command {
                Command::SetWelcome(welcome) => self.welcome = welcome,
                Command::Connect { lane, place, hello, within } => self.call(lane, place, hello, within),
                Command::End(lane, fault) => {
                    if let Some(index) = self.table.iter().position(|connection| connection.lane == lane) {
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
        match start_to_connect(place) {
            Ok(stream) => self.table.push(Connection {
                lane,
                ours: true,
                stream,
                phase: Phase::Calling { place, hello },
                inbox: Vec::new(),
                deadline: Instant::now() + within,
            }),
            Err(fault) => self.shared.notify(Notice::Down(lane, fault)),
        }
    }

    fn accept(&mut self) {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // Out of descriptors: the caller stays in the queue, and `poll` would report it again at once.
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
            self.table.push(Connection {
                lane: self.shared.new_lane(),
                ours: false,
                stream,
                phase: Phase::Called,
                inbox: Vec::new(),
                deadline: Instant::now() + CALL_WITHIN,
            });
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
            match step {
                Ok(()) if late && self.table[index].is_being_set_up() => self.end(index, LaneFault::TimedOut),
                Ok(()) => index += 1,
                Err(fault) => self.end(index, fault),
            }
        }
    }

    /// Takes a connection out of the table, tells its peer, and reports the end to the driver if it knows of the lane.
    fn end(&mut self, index: usize, fault: LaneFault) {
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

    fn take_device_events(&mut self) {
        while let Some(event) = next_event(&self.shared.terms.device) {
            match event {
                DeviceEvent::PortDown => self.shared.notify(Notice::Port(false)),
                DeviceEvent::PortUp => self.shared.notify(Notice::Port(true)),
                DeviceEvent::DeviceGone => {
                    let why = "the device failed or was removed";
                    let mut index = 0;
                    while let Some(connection) = self.table.get(index) {
                        match connection.phase {
                            Phase::Up(_) => self.end(index, LaneFault::Fabric { why }),
                            _ => index += 1,
                        }
                    }
                }
                DeviceEvent::PairFailed { number, why } => {
                    let is_it = |connection: &Connection| match &connection.phase {
                        Phase::Up(link) => link.pair_number() == number,
                        _ => false,
                    };
                    if let Some(index) = self.table.iter().position(is_it) {
                        self.end(index, LaneFault::Corrupt { what: why });
                    }
                }
            }
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

impl Connection {
    fn is_being_set_up(&self) -> bool {
        !matches!(self.phase, Phase::Up(_))
    }

    /// Goes on as far as what has come allows.
    fn step(&mut self, shared: &Shared, welcome: &[u8]) -> Result<(), LaneFault> {
        if let Phase::Calling { .. } = self.phase {
            return self.make_offer(shared);
        }
        let ended = self.fill_inbox();
        let inbox = core::mem::take(&mut self.inbox);
        let mut rest = &inbox[..];
        while let Some((message, length)) = Message::decode(rest)? {
            self.take(shared, welcome, message)?;
            rest = &rest[length..];
        }
        self.inbox = rest.to_vec();
        ended
    }

    fn fill_inbox(&mut self) -> Result<(), LaneFault> {
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(LaneFault::PeerGone),
            Ok(count) => {
                self.inbox.extend(&bytes[..count]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(())
            }
            Err(_) => Err(LaneFault::PeerGone),
        }
    }

    fn take(&mut self, shared: &Shared, welcome: &[u8], message: Message<'_>) -> Result<(), LaneFault> {
        // An error ends the connection; any other way out sets the next phase.
        let phase = core::mem::replace(&mut self.phase, Phase::Called);
        self.phase = match (phase, message) {
            (Phase::Called, Message::Call(cookie, offer)) => self.answer(shared, welcome, cookie, &offer)?,
            (Phase::Offered(half), Message::Answer(offer)) => {
                let hello = offer.hello.to_vec();
                let link = join(shared, half, &offer)?;
                send(&mut self.stream, &Message::Ready);
                shared.notify(Notice::Connected(self.lane, Arc::clone(&link), hello));
                Phase::Up(link)
            }
            (Phase::Answered(link, hello), Message::Ready) => {
                shared.notify(Notice::Accepted(self.lane, Arc::clone(&link), hello));
                Phase::Up(link)
            }
            (phase, message) => {
                self.phase = phase;
                return Err(match message {
                    Message::Goodbye => LaneFault::PeerClosed,
                    Message::Stranger => LaneFault::NotThere,
                    Message::Refusal(why) => LaneFault::Unacceptable { why: format!("it refused us: {why}") },
                    _ => LaneFault::Corrupt { what: "a message of the handshake out of turn" },
                });
            }
        };
        Ok(())
    }

    /// The network answered our call: makes our side of the lane and offers it.
    fn make_offer(&mut self, shared: &Shared) -> Result<(), LaneFault> {
        let Phase::Calling { place, hello } = &self.phase else { unreachable!("only callers call") };
        match self.stream.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => return Err(fault_of_call(&error)),
        }
        let half = new_half(shared)?;
        let offer =
            half.offer(&shared.terms.device, shared.terms.blocks.memory(), &shared.terms.config, hello);
        send(&mut self.stream, &Message::Call(place.cookie, offer));
        self.phase = Phase::Offered(half);
        Ok(())
    }

    /// A peer called us: makes our side of the lane, connects it, and answers.
    fn answer(
        &mut self,
        shared: &Shared,
        welcome: &[u8],
        cookie: [u8; COOKIE_BYTES],
        offer: &Offer<'_>,
    ) -> Result<Phase, LaneFault> {
        if cookie != shared.terms.cookie {
            return Err(LaneFault::NotThere);
        }
        let terms = &shared.terms;
        let half = new_half(shared)?;
        let answer =
            Message::Answer(half.offer(&terms.device, terms.blocks.memory(), &terms.config, welcome))
                .encode();
        let link = join(shared, half, offer)?;
        send_bytes(&mut self.stream, &answer);
        Ok(Phase::Answered(link, offer.hello.to_vec()))
    }
}

fn new_half(shared: &Shared) -> Result<Half, LaneFault> {
    let terms = &shared.terms;
    Half::new(&terms.device, &terms.config, &terms.receives, &terms.channel).map_err(unusable)
}

fn join(shared: &Shared, half: Half, offer: &Offer<'_>) -> Result<Arc<Link>, LaneFault> {
    let terms = &shared.terms;
    if offer.ethernet != terms.device.port.ethernet {
        return Err(unusable("its port is on another kind of network"));
    }
    let link = half.connect(&terms.device, &terms.config, &terms.receives, &terms.alarm, offer);
    link.map(Arc::new).map_err(unusable)
}

fn start_to_connect(place: Place) -> Result<TcpStream, LaneFault> {
    let family = if place.socket.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(unusable)?;
    // Without it the last bytes of the handshake may wait for an acknowledgement; nothing breaks.
    let _slower = sockopt::set_tcp_nodelay(&socket, true);
    match connect(&socket, &place.socket) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
        Err(error) => Err(fault_of_call(&error.into())),
    }
}

fn fault_of_call(error: &io::Error) -> LaneFault {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => LaneFault::NotThere,
        io::ErrorKind::TimedOut => LaneFault::TimedOut,
        _ => unusable(error),
    }
}

fn send(stream: &mut TcpStream, message: &Message<'_>) {
    send_bytes(stream, &message.encode());
}

/// Sends a message that fits the socket's empty buffer; a peer that does not get it whole is gone, which reading shows.
fn send_bytes(stream: &mut TcpStream, bytes: &[u8]) {
    let _peer_gone = stream.write_all(bytes);
}

fn unusable(error: impl ToString) -> LaneFault {
    LaneFault::Unacceptable { why: error.to_string() }
}

impl crate::device::Device {
    /// What becomes readable when the device reports something.
    fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: the context and its descriptor live as long as the device, which is borrowed.
        unsafe { BorrowedFd::borrow_raw((*self.context).async_fd) }
    }
}
