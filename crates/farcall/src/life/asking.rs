//! The processes that this one asks whether they live.
//!
//! One connection to each, that is kept while questions come: the kernel of the peer's machine takes it in,
//! and the question, although the process itself stands still. So a process that was stopped is told from one
//! that has ended: a connection without an answer says that somebody is there, and closes when the process
//! ends. That it is the right one only an answer proves; without one it counts for [`STANDSTILL_MAX`], or, if
//! the process is of this machine, as long as that has it. Of a machine that is gone the kernel's own
//! keepalive tells.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use farcall_base::Entropy;
use farcall_protocol::session::SessionId;
use farcall_protocol::wire::LifePort;
use farcall_transport::LifeAnswer;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};

use super::REQUESTS_MAX;
use super::place::Place;
use super::words::{ANSWER_BYTES, Question};

/// How long a process may stand still that somebody's kernel speaks for.
pub const STANDSTILL_MAX: Duration = Duration::from_secs(600);

/// The most connections at a time; beyond, the one that was used the longest time ago of those on which
/// nothing is asked makes room, and while there is none such, questions wait.
const ASKED_MAX: usize = 512;

/// How long a connection stays that nobody asks over.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// How long a connection may take to be set up: what is lost meanwhile, the kernel sends again after a
/// second.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// The kernel asks the peer's after this time without a packet, this often, before it gives a connection up.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(1);
const KEEPALIVES: u32 = 3;

/// What one endpoint has learnt and not looked at.
#[derive(Default)]
pub struct Mailbox(Mutex<Vec<LifeAnswer>>);

impl Mailbox {
    pub fn put(&self, answer: LifeAnswer) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
    }

    pub fn take(&self) -> Option<LifeAnswer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// What an endpoint wants to know.
pub struct Request {
    pub port: LifePort,
    pub session: SessionId,
    pub mailbox: Arc<Mailbox>,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The peer's kernel has not answered.
    Connecting,
    /// There, and nothing is asked.
    Idle,
    /// A question is out.
    Asked(Question),
}

/// A connection to a process.
pub struct Asked {
    pub stream: TcpStream,
    port: LifePort,
    place: Place,
    state: State,
    bytes: [u8; ANSWER_BYTES],
    got: usize,
    used_at: Instant,
    /// Since when nothing has proved who is there.
    unproved_since: Instant,
    waiting: Vec<(SessionId, Arc<Mailbox>)>,
}

/// All of them.
pub struct AskedOnes {
    asked: Vec<Asked>,
    /// Those that found no room, in the order in which they came.
    queued: VecDeque<Request>,
    entropy: Entropy,
}

impl AskedOnes {
    pub fn new(entropy: Entropy) -> Self {
        Self { asked: Vec::new(), queued: VecDeque::new(), entropy }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Asks those that found no room before, and then these.
    pub fn ask_all(&mut self, requests: Vec<Request>, now: Instant) {
        for request in core::mem::take(&mut self.queued).into_iter().chain(requests) {
            if let Some(request) = self.ask(request, now) {
                self.queue(request);
            }
        }
    }

    /// Asks a process, over the connection that leads there if there is one. Gives the request back when
    /// there is no room.
    fn ask(&mut self, request: Request, now: Instant) -> Option<Request> {
        let place = Place::from_port(request.port)?;
        let known = self.asked.iter().position(|asked| asked.port == request.port);
        let index = match known {
            Some(index) => index,
            None if !self.make_room() => return Some(request),
            None => {
                let stream = open(&place).ok()?;
                self.asked.push(Asked::new(stream, request.port, place, now));
                self.asked.len() - 1
            }
        };
        let number = self.entropy.bits();
        self.asked[index].ask(request, number, now);
        None
    }

    /// Whether there is room for another connection. One that is set up, or over which an answer is awaited,
    /// makes none: its peers would be taken for dead.
    fn make_room(&mut self) -> bool {
        if self.asked.len() < ASKED_MAX {
            return true;
        }
        let idle = (0..self.asked.len()).filter(|&index| self.asked[index].state == State::Idle);
        let oldest = idle.min_by_key(|&index| self.asked[index].used_at);
        oldest.map(|oldest| self.asked.swap_remove(oldest)).is_some()
    }

    /// Lets a request wait for room. What an endpoint asks again meanwhile is in the queue already, and what
    /// finds no room even there is asked again.
    fn queue(&mut self, request: Request) {
        let is_same = |other: &Request| {
            other.session == request.session && Arc::ptr_eq(&other.mailbox, &request.mailbox)
        };
        if self.queued.len() < REQUESTS_MAX && !self.queued.iter().any(is_same) {
            self.queued.push_back(request);
        }
    }

    /// Goes on with those of which `is_ready` says that something has happened, and drops those that are over
    /// or that nobody needs.
    pub fn go_on(&mut self, mut is_ready: impl FnMut(&Asked) -> bool, now: Instant) {
        let entropy = &mut self.entropy;
        self.asked.retain_mut(|asked| {
            let goes_on = !is_ready(asked) || asked.go_on(entropy.bits(), now).is_ok();
            goes_on && !asked.is_over(now)
        });
    }
}

/// The connection is over; whether the process is, another one may tell.
struct Over;

impl Asked {
    fn new(stream: TcpStream, port: LifePort, place: Place, now: Instant) -> Self {
        Self {
            stream,
            port,
            place,
            state: State::Connecting,
            bytes: [0; ANSWER_BYTES],
            got: 0,
            used_at: now,
            unproved_since: now,
            waiting: Vec::new(),
        }
    }

    /// Whether it waits for room to write and not for something to read.
    pub fn is_connecting(&self) -> bool {
        self.state == State::Connecting
    }

    fn is_over(&self, now: Instant) -> bool {
        let limit = if self.is_connecting() { CONNECT_WITHIN } else { IDLE_MAX };
        let since = if self.is_connecting() { self.unproved_since } else { self.used_at };
        now.duration_since(since) > limit
    }

    fn ask(&mut self, request: Request, number: u64, now: Instant) {
        self.used_at = now;
        let Request { session, mailbox, .. } = request;
        if matches!(self.state, State::Asked(_)) && self.is_credible(now) {
            mailbox.put(LifeAnswer { session, is_alive: true });
        }
        if !self.waiting.iter().any(|(other, box_)| *other == session && Arc::ptr_eq(box_, &mailbox)) {
            self.waiting.push((session, mailbox));
        }
        if self.state == State::Idle {
            // What fails here shows when the connection is looked at.
            let _ = self.put_question(number);
        }
    }

    /// Whether a peer that was asked before and has not answered counts as alive.
    fn is_credible(&self, now: Instant) -> bool {
        now.duration_since(self.unproved_since) <= STANDSTILL_MAX || self.place.process.is_here()
    }

    fn go_on(&mut self, number: u64, now: Instant) -> Result<(), Over> {
        if self.is_connecting() {
            if !matches!(sockopt::socket_error(self.stream.as_fd()), Ok(Ok(()))) {
                return Err(Over);
            }
            (self.state, self.unproved_since) = (State::Idle, now);
            return self.put_question(number);
        }
        loop {
            match self.stream.read(&mut self.bytes[self.got..]) {
                Ok(0) => return Err(Over),
                Ok(bytes) => self.got += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Err(Over),
            }
            if self.got == ANSWER_BYTES {
                self.take_answer(now)?;
            }
        }
    }

    fn put_question(&mut self, number: u64) -> Result<(), Over> {
        let question = Question { endpoint: self.place.endpoint, number };
        let bytes = question.to_bytes(self.place.key);
        self.state = State::Asked(question);
        match self.stream.write(&bytes) {
            Ok(written) if written == bytes.len() => Ok(()),
            _ => Err(Over),
        }
    }

    fn take_answer(&mut self, now: Instant) -> Result<(), Over> {
        let State::Asked(question) = self.state else { return Err(Over) };
        let Some(is_alive) = question.understand(&self.bytes, &self.place) else { return Err(Over) };
        (self.state, self.got, self.unproved_since) = (State::Idle, 0, now);
        for (session, mailbox) in self.waiting.drain(..) {
            mailbox.put(LifeAnswer { session, is_alive });
        }
        Ok(())
    }
}

/// Begins to connect.
fn open(place: &Place) -> Result<TcpStream, Errno> {
    let family = if place.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_AFTER)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVES)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &place.address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::{Key, Process};
    use super::*;

    #[test]
    fn who_is_asked_makes_no_room_for_others_and_these_wait_for_it() {
        // It accepts nothing, so that no question is answered.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (now, mailbox) = (Instant::now(), Arc::<Mailbox>::default());
        let request = |number: usize| {
            let process = Process { number: 1, started: 1 };
            let place = Place { address, endpoint: number as u64, key: Key(1), process };
            Request {
                port: place.to_port(),
                session: SessionId(number as u32),
                mailbox: Arc::clone(&mailbox),
            }
        };
        let mut asked = AskedOnes::new(Entropy::from_seed([7; 32]));
        asked.ask_all((0..ASKED_MAX).map(request).collect(), now);
        let waiting =
            |asked: &AskedOnes| asked.queued.iter().map(|request| request.session).collect::<Vec<_>>();
        assert_eq!((asked.asked.len(), waiting(&asked)), (ASKED_MAX, vec![]));
        asked.ask_all(vec![request(ASKED_MAX), request(ASKED_MAX + 1), request(ASKED_MAX)], now);
        let both = [SessionId(ASKED_MAX as u32), SessionId(ASKED_MAX as u32 + 1)];
        assert_eq!(waiting(&asked), both, "each waits once");
        for number in 0..ASKED_MAX {
            let port = request(number).port;
            assert!(asked.iter().any(|other| other.port == port), "number {number} is asked still");
        }
        // One has been answered.
        asked.asked[3].state = State::Idle;
        let idle = asked.asked[3].port;
        asked.ask_all(Vec::new(), now);
        assert_eq!((asked.asked.len(), waiting(&asked)), (ASKED_MAX, vec![both[1]]));
        assert!(asked.iter().all(|other| other.port != idle), "it made room");
    }
}
