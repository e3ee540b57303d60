//! TCP as a library of messages.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant as WallTime};

use farcall_base::Instant;
use farcall_base::{Address, AddressError};
use farcall_driver::{CounterFile, Destination};
use farcall_transport::{Library, Outgoing, Spares};

use crate::address::{NAME, address_of, parse};
use crate::arrival::{Body, TcpArrival};
use crate::config::TcpConfig;
use crate::connection::{Broken, Connection, Found, Origin, Phase, READ_BYTES};
use crate::counters::TcpCounters;
use crate::frame::{FRAME_HEADER_BYTES, WHOLE_BYTES_MAX};
use crate::inbound::Intake;
use crate::poller::Poller;
use crate::secured::Secured;
use crate::slab::Slab;
use crate::socket::{ListenError, accept, dial, open_listener};
use crate::strangers::Strangers;

/// The number of the socket that others connect to.
const LISTENER: u32 = u32::MAX;

/// Memory for one read: the beginning of a frame, and what the read brings.
const BUFFER_BYTES: usize = FRAME_HEADER_BYTES + WHOLE_BYTES_MAX + READ_BYTES;

/// Nothing more is read while so many messages wait to be looked at.
const ARRIVALS_MAX: usize = 64;

/// The longest message by which a stranger introduces itself: an OPEN with the longest address.
const INTRODUCTION_BYTES_MAX: usize = 4 << 10;

/// Connections that are read without asking whether there is something: those that had something last.
const HOT_MAX: usize = 2;

/// With this many polls that found something in hot connections the others are asked too; without a find they
/// are asked each time.
const HOT_POLLS_MAX: u32 = 8;

/// While all connections are hot, polls between two questions whether somebody wants to connect.
const POLLS_PER_LOOK: u32 = 32;

/// Polls between two looks at times that may be over.
const POLLS_PER_UPKEEP: u32 = 64;

/// The most that are accepted in one poll.
const ACCEPTS_PER_POLL: usize = 32;

/// How long accepting rests when the system has no descriptor or memory for another connection.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// How long an endpoint that is dropped waits for its last messages to leave.
const LINGER: Duration = Duration::from_millis(100);

/// A connection that was lost, and how many messages had been handed out when everything from it will have
/// been.
struct Loss {
    number: u32,
    behind: u64,
    why: Option<String>,
}

/// One endpoint's connections.
pub struct Tcp {
    config: TcpConfig,
    counters: TcpCounters,
    listener: OwnedFd,
    local: SocketAddr,
    poller: Poller,
    connections: Slab,
    /// Those that were opened from here.
    dialed: HashMap<Address, u32>,
    strangers: Strangers,
    secured: Option<Secured>,
    /// Those that were given up and still have something to say.
    ending: Vec<u32>,
    /// Those that have something to send.
    to_flush: Vec<u32>,
    /// Those that have something unread that was taken from the socket.
    to_resume: Vec<u32>,
    /// Those that had something last, the latest first.
    hot: Vec<u32>,
    ready: Vec<u32>,
    /// Into which is read; others may be in the hands of arrivals.
    buffer: Arc<Vec<u8>>,
    lent_buffers: Vec<Arc<Vec<u8>>>,
    spares: Spares,
    arrivals: VecDeque<TcpArrival>,
    /// Messages that arrived, and that were handed out.
    arrived: u64,
    handed_out: u64,
    losses: Vec<Loss>,
    /// Why connections were lost whose loss was told, until somebody asks or forgets.
    reasons: Vec<(u32, String)>,
    polls: u32,
    polls_since_look: u32,
    /// Until when accepting rests.
    accepts_from: Option<WallTime>,
}

impl Tcp {
    /// Listens.
    pub fn listen(config: TcpConfig) -> Result<Self, ListenError> {
        let secured = config.tls.clone().map(Secured::new).transpose()?;
        let (listener, local) = open_listener(&config)?;
        let system = |source| ListenError::System { address: local, source };
        let poller = Poller::new().map_err(system)?;
        poller.add(&listener, LISTENER).map_err(system)?;
        let strangers =
            Strangers::new(config.strangers_max, config.strangers_per_host, config.introduction_timeout);
        Ok(Self {
            counters: TcpCounters::new(CounterFile::process(), &format!("tcp {local}")),
            config,
            listener,
            local,
            poller,
            connections: Slab::default(),
            dialed: HashMap::new(),
            strangers,
            secured,
            ending: Vec::new(),
            to_flush: Vec::new(),
            to_resume: Vec::new(),
            hot: Vec::new(),
            ready: Vec::new(),
            buffer: new_buffer(),
            lent_buffers: Vec::new(),
            spares: Spares::default(),
            arrivals: VecDeque::new(),
            arrived: 0,
            handed_out: 0,
            losses: Vec::new(),
            reasons: Vec::new(),
            polls: 0,
            polls_since_look: 0,
            accepts_from: None,
        })
    }

    /// What has happened so far.
    pub fn counters(&self) -> &TcpCounters {
        &self.counters
    }

    /// How many connections there are, whatever their state.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    fn open(&mut self, to: SocketAddr, address: &Address) -> io::Result<u32> {
        let stream = dial(to, self.config.peer_timeout)?;
        self.renew_keys();
        let secure = self.secured.as_ref().map(|secured| secured.client(to)).transpose();
        let secure = secure.map_err(io::Error::other)?;
        let connection = Connection::new(stream, to, Origin::Dialed(address.clone()), secure, &self.config);
        let number = self.connections.insert(connection).ok_or(io::ErrorKind::QuotaExceeded)?;
        let connection = self.connections.get(number).expect("it was put there");
        if let Err(error) = self.poller.add(connection.stream.file(), number) {
            self.connections.remove(number);
            return Err(error);
        }
        self.counters.connections_opened.increment();
        self.list(number);
        Ok(number)
    }

    /// Takes in keys and certificates that have changed.
    fn renew_keys(&mut self) {
        if let Some(secured) = &mut self.secured
            && !secured.renew()
        {
            self.counters.tls_not_renewed.increment();
        }
    }

    /// Notes that a connection has something to send.
    #[inline]
    fn list(&mut self, number: u32) {
        if let Some(connection) = self.connections.get_mut(number)
            && !connection.is_listed
        {
            connection.is_listed = true;
            self.to_flush.push(number);
        }
    }

    /// Sends what waits, as far as the kernel takes it.
    #[inline]
    fn flush_all(&mut self) {
        let mut place = 0;
        while let Some(&number) = self.to_flush.get(place) {
            if self.flush(number) {
                place += 1;
            } else {
                self.to_flush.swap_remove(place);
            }
        }
    }

    /// Sends what waits for one connection; says whether something is left.
    #[inline]
    fn flush(&mut self, number: u32) -> bool {
        let Some(connection) = self.connections.get_mut(number) else { return false };
        if connection.phase == Phase::Lost {
            connection.is_listed = false;
            return false;
        }
        let before = connection.outbound.queued_bytes();
        if let Err(why) = connection.flush(&[], &mut self.spares, &self.counters) {
            self.lose(number, &why);
            return false;
        }
        let left = connection.outbound.queued_bytes();
        if connection.waits_for_handshake() {
            // What comes lists it again.
            connection.is_listed = false;
            return false;
        }
        if left < before
            && let Phase::Ending { until, .. } = &mut connection.phase
        {
            *until = WallTime::now() + self.config.peer_timeout;
        }
        if left > 0 || connection.is_blocked {
            return true;
        }
        connection.is_listed = false;
        if connection.is_room_watched {
            connection.is_room_watched = false;
            let _ = self.poller.watch_room(connection.stream.file(), number, false);
        }
        if let Phase::Ending { has_shut, .. } = &mut connection.phase
            && !*has_shut
        {
            *has_shut = true;
            connection.shut();
        }
        false
    }

    /// A connection cannot go on.
    #[cold]
    fn lose(&mut self, number: u32, why: &Broken) {
        match why {
            Broken::Frame(_) => self.counters.malformed.increment(),
            Broken::Secure(_) => self.counters.tls_refused.increment(),
            Broken::System(_) => {}
        }
        self.end_because(number, why.words());
    }

    /// A connection is over. Its number is kept until it is forgotten, if somebody has it.
    fn end(&mut self, number: u32) {
        self.end_because(number, None);
    }

    /// As [`Tcp::end`], for a reason that its users are told.
    fn end_because(&mut self, number: u32, why: Option<String>) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        self.hot.retain(|&hot| hot != number);
        match (&connection.origin, connection.phase) {
            (Origin::Stranger, _) => self.strangers.remove(number),
            (_, Phase::Ending { .. }) => self.ending.retain(|&ending| ending != number),
            (_, Phase::Open) => {
                connection.phase = Phase::Lost;
                connection.outbound = crate::outbound::Outbound::new(0);
                let _ = self.poller.remove(connection.stream.file());
                let _ = rustix::net::shutdown(connection.stream.file(), rustix::net::Shutdown::Both);
                self.counters.connections_lost.increment();
                self.losses.push(Loss { number, behind: self.arrived, why });
                return;
            }
            (_, Phase::Lost) => return,
        }
        self.connections.remove(number);
    }

    /// Reads a connection once; says whether there was something.
    #[inline]
    fn read(&mut self, number: u32) -> bool {
        let Some(connection) = self.connections.get_mut(number) else { return false };
        if Arc::get_mut(&mut self.buffer).is_none() {
            replace_buffer(&mut self.buffer, &mut self.lent_buffers);
        }
        let is_stranger = connection.origin == Origin::Stranger;
        let is_ending = matches!(connection.phase, Phase::Ending { .. });
        if is_ending {
            return self.read_and_drop(number);
        }
        let before = self.arrivals.len();
        let mut first = VecDeque::new();
        let mut intake = Intake {
            from: number,
            payload_bytes_max: if is_stranger {
                INTRODUCTION_BYTES_MAX
            } else {
                self.config.payload_bytes_max
            },
            is_first_only: is_stranger,
            spares: &mut self.spares,
            arrivals: if is_stranger { &mut first } else { &mut self.arrivals },
        };
        let found = connection.receive(&mut self.buffer, &mut intake);
        if let Some(introduction) = first.pop_front() {
            self.arrivals.push_back(introduction);
            // What comes behind is looked at when it is known.
            let _ = self.poller.rest(connection.stream.file(), number, true);
        }
        self.arrived += (self.arrivals.len() - before) as u64;
        match found {
            Ok(Found::Nothing) => return false,
            Ok(Found::Something(bytes)) => {
                self.counters.receive_calls.increment();
                self.counters.bytes_received.add(bytes as u64);
                if !is_stranger {
                    self.heat(number);
                }
                if self.secured.is_some() {
                    // Perhaps it may go on, or has to answer.
                    self.list(number);
                }
            }
            Ok(Found::End) => self.end(number),
            Err(why) => self.lose(number, &why),
        }
        true
    }

    /// Of a connection that was given up only the end matters.
    #[cold]
    fn read_and_drop(&mut self, number: u32) -> bool {
        let Some(connection) = self.connections.get_mut(number) else { return false };
        let bytes = Arc::get_mut(&mut self.buffer).expect("it was replaced if somebody reads it");
        match connection.stream.read(&mut bytes[..READ_BYTES]) {
            Ok(None) => return false,
            Ok(Some(0)) | Err(_) => self.end(number),
            Ok(Some(_)) => {}
        }
        true
    }

    /// Notes that a connection had something.
    #[inline]
    fn heat(&mut self, number: u32) {
        if self.hot.first() != Some(&number) {
            self.hot.retain(|&hot| hot != number);
            self.hot.truncate(HOT_MAX - 1);
            self.hot.insert(0, number);
        }
    }

    /// Reads the hot connections, says whether one had something.
    #[inline]
    fn read_hot(&mut self) -> bool {
        let mut any = false;
        let mut place = 0;
        while let Some(&number) = self.hot.get(place) {
            any |= self.read(number);
            place += 1;
        }
        any
    }

    /// Reads all that have something, and accepts those who connect.
    fn look(&mut self) -> usize {
        let mut ready = core::mem::take(&mut self.ready);
        self.poller.look(&mut ready);
        let mut done = 0;
        for number in ready.drain(..) {
            if number == LISTENER {
                done += self.accept_all();
            } else if self.arrivals.len() < ARRIVALS_MAX && self.read(number) {
                done += 1;
            }
        }
        self.ready = ready;
        done
    }

    #[cold]
    fn accept_all(&mut self) -> usize {
        for count in 0..ACCEPTS_PER_POLL {
            match accept(&self.listener, self.config.peer_timeout) {
                Ok(None) => return count,
                Ok(Some((stream, peer))) => {
                    self.renew_keys();
                    let secure = self.secured.as_ref().map(Secured::server).transpose();
                    if let Ok(secure) = secure {
                        let connection =
                            Connection::new(stream, peer, Origin::Stranger, secure, &self.config);
                        self.welcome(connection, peer);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.counters.accepts_failed.increment();
                    self.make_room_for_strangers();
                    return count;
                }
            }
        }
        ACCEPTS_PER_POLL
    }

    /// Somebody connected.
    fn welcome(&mut self, connection: Connection, peer: SocketAddr) {
        let Some(number) = self.connections.insert(connection) else { return };
        let connection = self.connections.get(number).expect("it was put there");
        if self.poller.add(connection.stream.file(), number).is_err() {
            return self.connections.remove(number);
        }
        self.counters.connections_accepted.increment();
        if let Some(displaced) = self.strangers.add(number, peer.ip(), WallTime::now()) {
            self.counters.strangers_displaced.increment();
            self.connections.remove(displaced);
        }
    }

    /// The process has no descriptor for another connection, or the system no memory: the oldest stranger
    /// makes room. Without one, nobody is accepted for a while; the kernel keeps some meanwhile.
    fn make_room_for_strangers(&mut self) {
        match self.strangers.take_oldest() {
            Some(number) => {
                self.counters.strangers_displaced.increment();
                self.connections.remove(number);
            }
            None => {
                self.accepts_from = Some(WallTime::now() + ACCEPT_REST);
                let _ = self.poller.rest(&self.listener, LISTENER, true);
            }
        }
    }

    /// Looks at times that may be over.
    #[cold]
    fn keep_up(&mut self) {
        let now = WallTime::now();
        while let Some(number) = self.strangers.take_expired(now) {
            self.counters.strangers_expired.increment();
            self.connections.remove(number);
        }
        if self.accepts_from.is_some_and(|from| from <= now) {
            self.accepts_from = None;
            let _ = self.poller.rest(&self.listener, LISTENER, false);
        }
        let connections = &mut self.connections;
        self.ending.retain(|&number| {
            let is_over = match connections.get(number).map(|connection| connection.phase) {
                Some(Phase::Ending { until, .. }) => until <= now,
                _ => true,
            };
            if is_over {
                connections.remove(number);
            }
            !is_over
        });
    }

    fn has_times(&self) -> bool {
        !self.ending.is_empty() || !self.strangers.is_empty() || self.accepts_from.is_some()
    }

    /// Goes on to read those that have introduced themselves.
    #[cold]
    fn resume_all(&mut self) {
        for number in core::mem::take(&mut self.to_resume) {
            if Arc::get_mut(&mut self.buffer).is_none() {
                replace_buffer(&mut self.buffer, &mut self.lent_buffers);
            }
            let Some(connection) = self.connections.get_mut(number) else { continue };
            let before = self.arrivals.len();
            let mut intake = Intake {
                from: number,
                payload_bytes_max: self.config.payload_bytes_max,
                is_first_only: false,
                spares: &mut self.spares,
                arrivals: &mut self.arrivals,
            };
            let resumed = connection.resume(&mut self.buffer, &mut intake);
            self.arrived += (self.arrivals.len() - before) as u64;
            if let Err(why) = resumed {
                self.lose(number, &why);
            }
        }
    }

    /// After something was queued: the connection is to be flushed, unless too much waits already.
    #[inline]
    fn queued(&mut self, number: u32, sent: Result<(), Broken>) {
        if let Err(why) = sent {
            return self.lose(number, &why);
        }
        self.list(number);
        let Some(connection) = self.connections.get(number) else { return };
        if connection.outbound.queued_bytes() > self.config.queue_bytes_max {
            self.counters.slow_readers.increment();
            self.end(number);
        }
    }
}

fn new_buffer() -> Arc<Vec<u8>> {
    Arc::new(vec![0; BUFFER_BYTES])
}

/// Takes a buffer that no arrival is in; the present one comes back to use when those in it are released.
#[cold]
fn replace_buffer(buffer: &mut Arc<Vec<u8>>, lent: &mut Vec<Arc<Vec<u8>>>) {
    let free = lent.iter_mut().position(|lent| Arc::get_mut(lent).is_some());
    let next = free.map_or_else(new_buffer, |place| lent.swap_remove(place));
    lent.push(core::mem::replace(buffer, next));
}

impl Library for Tcp {
    type Arrival = TcpArrival;

    fn name(&self) -> &'static str {
        NAME
    }

    fn payload_bytes_max(&self) -> usize {
        self.config.payload_bytes_max
    }

    fn short_bytes_max(&self) -> usize {
        WHOLE_BYTES_MAX
    }

    fn address(&self) -> Address {
        address_of(self.local)
    }

    fn resolve(&mut self, to: &Address) -> Result<Destination, AddressError> {
        let place = parse(to)?;
        if let Some(&number) = self.dialed.get(to)
            && self.connections.get(number).is_some_and(|connection| connection.phase != Phase::Lost)
        {
            return Ok(Destination(number));
        }
        let number = self
            .open(place, to)
            .map_err(|_| AddressError::OutOfReach { why: "the system opens no connection there" })?;
        self.dialed.insert(to.clone(), number);
        Ok(Destination(number))
    }

    fn answer_to(
        &mut self,
        arrival: &TcpArrival,
        _address: &Address,
        _anew: bool,
    ) -> Result<Destination, AddressError> {
        let gone = AddressError::OutOfReach { why: "the connection it came by is over" };
        let connection = self.connections.get_mut(arrival.from).ok_or(gone)?;
        if connection.origin == Origin::Stranger {
            connection.origin = Origin::Guest;
            let _ = self.poller.rest(connection.stream.file(), arrival.from, false);
            self.strangers.remove(arrival.from);
            self.to_resume.push(arrival.from);
            self.list(arrival.from);
        }
        Ok(Destination(arrival.from))
    }

    /// One who connected is told by its host: its port is another than that where it listens.
    fn comes_from(&self, from: Destination, address: &Address) -> bool {
        self.connections.get(from.0).is_some_and(|connection| match &connection.origin {
            Origin::Dialed(to) => to == address,
            Origin::Stranger | Origin::Guest => {
                parse(address).is_ok_and(|place| place.ip() == connection.peer.ip())
            }
        })
    }

    fn forget(&mut self, to: Destination) {
        let Some(connection) = self.connections.get_mut(to.0) else { return };
        if let Origin::Dialed(address) = &connection.origin
            && self.dialed.get(address) == Some(&to.0)
        {
            self.dialed.remove(address);
        }
        self.losses.retain(|loss| loss.number != to.0);
        self.reasons.retain(|(number, _)| *number != to.0);
        if connection.phase == Phase::Lost {
            return self.connections.remove(to.0);
        }
        if connection.phase == Phase::Open {
            connection.begin_to_end(self.config.peer_timeout);
            self.hot.retain(|&hot| hot != to.0);
            self.ending.push(to.0);
            // It is flushed also when nothing waits, and then told that this is the end.
            self.list(to.0);
        }
    }

    fn presume_dead(&mut self, to: Destination) {
        self.end(to.0);
    }

    #[inline]
    fn send(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        let Some(connection) = self.connections.get_mut(to.0) else { return };
        if connection.phase == Phase::Open {
            let sent = connection.send(head, payload, &mut self.spares, &self.counters);
            self.queued(to.0, sent);
        }
    }

    #[inline]
    fn send_composed(&mut self, to: Destination, message: &mut Vec<u8>) {
        let Some(connection) = self.connections.get_mut(to.0) else { return message.clear() };
        if connection.phase == Phase::Open {
            let sent = connection.send_composed(message, &mut self.spares, &self.counters);
            self.queued(to.0, sent);
        }
        message.clear();
        if message.capacity() > WHOLE_BYTES_MAX {
            *message = Vec::new();
        }
    }

    #[inline]
    fn is_backed_up(&self, to: Destination) -> bool {
        self.connections.get(to.0).is_some_and(|connection| connection.is_blocked)
    }

    #[inline]
    fn progress(&mut self) -> usize {
        self.flush_all();
        if !self.to_resume.is_empty() {
            self.resume_all();
        }
        let mut done = 0;
        if self.arrivals.len() < ARRIVALS_MAX {
            let any_hot = self.read_hot();
            self.polls_since_look += 1;
            let patience = if any_hot { HOT_POLLS_MAX } else { 1 };
            if self.polls_since_look >= patience {
                self.polls_since_look = 0;
                done += self.look();
            }
            done += usize::from(any_hot);
        }
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_PER_UPKEEP) && self.has_times() {
            self.keep_up();
        }
        done
    }

    #[inline]
    fn next_arrival(&mut self) -> Option<TcpArrival> {
        let arrival = self.arrivals.pop_front()?;
        self.handed_out += 1;
        Some(arrival)
    }

    #[inline]
    fn release(&mut self, arrival: TcpArrival) {
        match arrival.body {
            Body::Copied(memory) => self.spares.keep(memory),
            Body::InBuffer { .. } => {}
            Body::Long { payload, .. } => {
                if let Ok(memory) = payload.into_vec() {
                    self.spares.keep(memory);
                }
            }
        }
    }

    #[inline]
    fn next_loss(&mut self) -> Option<Destination> {
        if self.losses.is_empty() {
            return None;
        }
        let handed_out = self.handed_out;
        let place = self.losses.iter().position(|loss| loss.behind <= handed_out)?;
        let loss = self.losses.swap_remove(place);
        if let Some(why) = loss.why {
            self.reasons.push((loss.number, why));
        }
        Some(Destination(loss.number))
    }

    fn reason_of_loss(&mut self, of: Destination) -> Option<String> {
        let place = self.reasons.iter().position(|(number, _)| *number == of.0)?;
        Some(self.reasons.swap_remove(place).1)
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let is_due = |loss: &Loss| loss.behind <= self.handed_out;
        let any_unsent = self.to_flush.iter().any(|&number| {
            self.connections.get(number).is_some_and(|connection| !connection.is_room_watched)
        });
        if !self.arrivals.is_empty()
            || !self.to_resume.is_empty()
            || any_unsent
            || self.losses.iter().any(is_due)
        {
            return Some(Instant::ZERO);
        }
        let ending = self.ending.iter().filter_map(|&number| match self.connections.get(number)?.phase {
            Phase::Ending { until, .. } => Some(until),
            _ => None,
        });
        let earliest = ending.chain(self.strangers.next_deadline()).chain(self.accepts_from).min()?;
        Some(now + earliest.saturating_duration_since(WallTime::now()))
    }

    fn prepare_wait(&mut self) {
        self.flush_all();
        for &number in &self.to_flush {
            let Some(connection) = self.connections.get_mut(number) else { continue };
            if !connection.is_room_watched {
                let watched = self.poller.watch_room(connection.stream.file(), number, true);
                connection.is_room_watched = watched.is_ok();
            }
        }
        if self.has_times() {
            self.keep_up();
        }
        // Whoever has something is asked for in the progress before the sleep.
        self.polls_since_look = POLLS_PER_LOOK;
    }

    fn finish_wait(&mut self) {}

    fn wait_descriptors(&self) -> Vec<RawFd> {
        vec![self.poller.descriptor()]
    }
}

/// The last messages, such as the good-bye, get a moment to leave.
impl Drop for Tcp {
    fn drop(&mut self) {
        let give_up_at = WallTime::now() + LINGER;
        self.flush_all();
        while !self.to_flush.is_empty() && WallTime::now() < give_up_at {
            std::thread::yield_now();
            self.flush_all();
        }
        for number in self.connections.numbers() {
            let Some(connection) = self.connections.get_mut(number) else { continue };
            connection.shut();
            // Unread bytes would make the kernel throw away what the other side has not read.
            let mut dropped = [0; 4096];
            while connection.stream.read(&mut dropped).is_ok_and(|count| count.is_some_and(|count| count > 0))
            {
            }
        }
    }
}
