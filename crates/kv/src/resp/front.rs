//! The loop that serves Redis clients, and memcached's, on a thread of its own.
//!
//! A turn has three parts: what has come is read, from all sockets that have something; then the shard is
//! taken, once, and the commands run; then replies are sent. So the shard is not held during a system call,
//! and a client that pipelines gets all replies of a turn at once. Nothing waits for a single client: one
//! that does not read has its commands left in its socket, where the kernel slows it down.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use farcall::said::{Kind, Level};
use farcall_tcp::{TlsError, TlsServer};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::clients::Handle;
use super::command::{Engine, Next};
use super::connection::Connection;
use super::listener::{ListenError, Listener, Place};
use super::parse::Parser;
use super::running::{run, run_own};
use super::session::Session;
use super::socket::Socket;
use super::spares::Spares;
use super::{Options, unix_ms};
use crate::{SharedShard, TableGuard};

/// Events taken at a time.
const EVENTS: usize = 256;

/// Bytes that a turn reads from all clients together.
const TURN_BYTES: usize = 1 << 20;

/// Bytes that a turn reads from one client, unless it waits for something long.
const READ_BYTES: usize = 64 << 10;

/// The most that is read at a time of something long.
const LONG_READ_BYTES: usize = 1 << 20;

/// The same of all clients in a turn; the others are read from in the next one.
const TURN_LONG_BYTES: usize = 4 << 20;

/// Clients that are accepted in a turn.
const ACCEPTS_PER_TURN: usize = 64;

/// While nothing happens, the loop looks after the shard this often.
const QUIET: Duration = Duration::from_millis(100);

/// How often stuck clients are looked for.
const LOOK_EVERY_MS: u64 = 100;

/// Parts of handshakes of TLS that a turn does: each may sign with a long key, which takes milliseconds.
const HANDSHAKES_PER_TURN: usize = 4;

/// How long a handshake of TLS may take.
const HANDSHAKE_MS_MAX: u64 = 10_000;

/// What is said of files that changed and are of no use.
static NOT_RENEWED: Kind = Kind::new(Level::Warning, "certificates that were not renewed");

/// The token of what stops the loop; listeners count from 1, and clients have the upper bit.
const STOP: u64 = 0;
const CLIENT: u64 = 1 << 63;

/// The token of what says that the log of durable tables has done something.
const LOG: u64 = 1 << 62;

/// A front: listeners, their clients, and the shard that they use.
#[derive(Debug)]
pub struct Front {
    epoll: OwnedFd,
    stop: Arc<OwnedFd>,
    /// Those for Redis clients, and behind them those for memcached clients.
    listeners: Vec<Listener>,
    redis_listeners: usize,
    /// For those where clients speak TLS.
    tls: Option<TlsServer>,
    engine: Engine,
    shared: Arc<SharedShard>,
    options: Options,
    /// What was read in this turn.
    arena: Vec<u8>,
    /// Bytes of something long that may still be read in this turn.
    long_left: usize,
    /// Parts of handshakes that may still be done in this turn.
    handshakes_left: usize,
    /// Turns that had more to read than they do.
    full_turns: usize,
    ready: Vec<Ready>,
    /// Clients of which more was deciphered than was read: no event says so.
    unread: Vec<Handle>,
    parser: Parser,
    spares: Spares,
    /// The same for requests.
    inputs: Spares,
    look_at_ms: u64,
    /// Why the files of TLS could not be read again, since they could.
    not_renewed: Option<TlsError>,
    is_out_of_descriptors: bool,
}

/// A client that has something to do, and where in the arena what it sent lies.
#[derive(Clone, Copy, Debug)]
struct Ready {
    client: Handle,
    start: usize,
    end: usize,
}

/// Stops a front when dropped.
#[derive(Debug)]
pub struct Stopper(Arc<OwnedFd>);

impl Drop for Stopper {
    fn drop(&mut self) {
        // A full counter wakes as well.
        let _woken = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Front {
    /// Listens at all places.
    pub fn bind(places: &[Place], options: Options, shared: Arc<SharedShard>) -> Result<Self, ListenError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?;
        watch(&epoll, &stop, STOP)?;
        let listeners = places
            .iter()
            .chain(&options.memcached)
            .map(|place| Listener::bind(place, options.is_for_all))
            .collect::<Result<Vec<_>, _>>()?;
        for (listener, number) in listeners.iter().zip(STOP + 1..) {
            watch(&epoll, listener, number)?;
        }
        let tls = options.tls.clone().map(TlsServer::new).transpose()?;
        if let Some(place) = places.iter().chain(&options.memcached).find(|place| place.is_tls())
            && tls.is_none()
        {
            return Err(ListenError::NoCertificate { place: place.clone() });
        }
        watch(&epoll, shared.front().descriptor(), LOG)?;
        let guard = options.policy.as_deref().map(TableGuard::open).transpose()?;
        let redis_listeners = places.len();
        let engine = Engine::new(&options, guard, &listeners[..redis_listeners], &mut shared.lock());
        Ok(Self {
            epoll,
            stop: Arc::new(stop),
            listeners,
            redis_listeners,
            tls,
            engine,
            shared,
            options,
            arena: vec![0; TURN_BYTES],
            long_left: 0,
            handshakes_left: 0,
            full_turns: 0,
            ready: Vec::new(),
            unread: Vec::new(),
            parser: Parser::default(),
            spares: Spares::default(),
            inputs: Spares::default(),
            look_at_ms: 0,
            not_renewed: None,
            is_out_of_descriptors: false,
        })
    }

    /// Where Redis clients connect.
    pub fn addresses(&self) -> Vec<String> {
        self.listeners[..self.redis_listeners].iter().map(Listener::place).collect()
    }

    /// Where memcached clients connect.
    pub fn memcached_addresses(&self) -> Vec<String> {
        self.listeners[self.redis_listeners..].iter().map(Listener::place).collect()
    }

    /// What stops the loop.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// Serves until it is stopped.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut next = Next::AtOnce;
        loop {
            let timeout = match next {
                _ if !self.ready.is_empty() || !self.unread.is_empty() => Duration::ZERO,
                Next::AtOnce => Duration::ZERO,
                Next::At(at_ms) => {
                    Duration::from_millis(at_ms.saturating_sub(self.engine.now_ms())).min(QUIET)
                }
                Next::Event => QUIET,
            };
            let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.engine.begin_turn(unix_ms());
            let mut at = 0;
            self.long_left = TURN_LONG_BYTES;
            self.handshakes_left = HANDSHAKES_PER_TURN;
            // Whoever is first in one turn of those that do not read all is last in the next.
            let unread_are_first = self.full_turns.is_multiple_of(2);
            if unread_are_first {
                self.attend_unread(&mut at);
            }
            // When there was more to read than a turn does, another one is the first in the next.
            let first = self.full_turns % events.len().max(1);
            for event in events[first..].iter().chain(&events[..first]) {
                let (flags, token) = (event.flags, event.data.u64());
                match token {
                    STOP => return Ok(()),
                    // Each turn looks at the log.
                    LOG => self.shared.front().answer(),
                    token if token & CLIENT != 0 => {
                        self.attend(Handle::from_bits(token & !CLIENT), flags, &mut at)
                    }
                    number => self.accept((number - 1) as usize),
                }
            }
            if !unread_are_first {
                self.attend_unread(&mut at);
            }
            self.full_turns += usize::from(self.long_left == 0 || at == self.arena.len());
            next = self.execute();
            self.flush();
            self.bound_clients();
            self.look_after();
        }
    }

    fn accept(&mut self, listener: usize) {
        let is_memcached = listener >= self.redis_listeners;
        for _ in 0..ACCEPTS_PER_TURN {
            let (socket, address, principal) = match self.listeners[listener].accept() {
                Ok(accepted) => accepted,
                Err(error) if is_passing(&error) => return,
                Err(_) => return self.rest_listeners(),
            };
            let is_tls = self.listeners[listener].is_tls();
            if self.engine.clients.count() >= self.options.clients_max {
                self.engine.counters.refused.increment();
                if is_tls {
                    continue;
                }
                let refusal: &[u8] = match is_memcached {
                    true => b"ERROR Too many open connections\r\n",
                    false => b"-ERR max number of clients reached\r\n",
                };
                let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
                let _client_gone = rustix::net::send(&socket, refusal, flags);
                continue;
            }
            let socket = match self.tls.as_ref().filter(|_| is_tls).map(TlsServer::accept) {
                None => Socket::from(socket),
                Some(Ok(tls)) => Socket::secured(socket, tls),
                Some(Err(_)) => {
                    self.engine.counters.unsecured.increment();
                    continue;
                }
            };
            let (is_known, now_ms) = (self.options.password.is_none(), self.engine.now_ms());
            let session = |id| Session::new(id, address, principal, is_known, now_ms);
            let client = self.engine.clients.insert(socket, session);
            let Some(connection) = self.engine.clients.get(client) else { continue };
            connection.memcached = is_memcached.then(Box::default);
            if watch(&self.epoll, &connection.socket, CLIENT | client.to_bits()).is_err() {
                self.engine.clients.remove(client);
                continue;
            }
            self.engine.counters.connected.increment();
        }
    }

    /// There are no descriptors left: clients wait until others have left, and the loop does not turn for
    /// them meanwhile.
    fn rest_listeners(&mut self) {
        self.is_out_of_descriptors = true;
        for (listener, number) in self.listeners.iter().zip(STOP + 1..) {
            let token = EventData::new_u64(number);
            let _unchanged = epoll::modify(&self.epoll, listener, token, EventFlags::empty());
        }
    }

    /// Reads from clients of which more was deciphered than was read, unless an event led to them before.
    fn attend_unread(&mut self, at: &mut usize) {
        let mut unread = core::mem::take(&mut self.unread);
        let first = self.full_turns % unread.len().max(1);
        unread.rotate_left(first);
        for client in unread {
            let connection = self.engine.clients.get(client);
            if connection.is_some_and(|connection| connection.is_unread) {
                self.attend(client, EventFlags::IN, at);
            }
        }
    }

    /// Reads what a client sent, to the arena from `at` on.
    fn attend(&mut self, client: Handle, flags: EventFlags, at: &mut usize) {
        let now_ms = self.engine.now_ms();
        let Some(connection) = self.engine.clients.get(client) else { return };
        connection.is_unread = false;
        if connection.socket.is_handshaking() {
            // Its socket says again that something has come.
            let Some(left) = self.handshakes_left.checked_sub(1) else { return };
            self.handshakes_left = left;
        }
        let mut is_lost = false;
        if flags.contains(EventFlags::OUT) {
            is_lost = connection.flush(now_ms).is_err();
        }
        let mut ready = Ready { client, start: *at, end: *at };
        if !is_lost && connection.interest().contains(EventFlags::IN) && *at < self.arena.len() {
            let read = if let Some(bytes) = connection.long_bytes() {
                let bytes = bytes.min(LONG_READ_BYTES).min(self.long_left);
                let read = read_long(connection, bytes, &mut self.inputs);
                if let Ok(Some(bytes)) = read {
                    self.long_left -= bytes;
                }
                read
            } else {
                let most = self.arena.len().min(*at + READ_BYTES);
                let read = connection.read(&mut self.arena[*at..most]);
                if let Ok(Some(bytes)) = read {
                    ready.end += bytes;
                    // Each client's bytes begin at a line of their own.
                    *at = ready.end.next_multiple_of(64).min(self.arena.len());
                }
                read
            };
            is_lost = read.is_err();
            // It sends no more, and may still read.
            connection.is_closing |= matches!(read, Ok(Some(0)));
            if connection.socket.is_handshaking() && (is_lost || connection.is_closing) {
                is_lost = true;
                self.engine.counters.unsecured.increment();
            }
        }
        // One that waits may send more than is read: its end is seen all the same.
        let is_gone = flags.contains(EventFlags::HUP) && connection.session.blocked.is_some();
        if is_lost || is_gone || flags.intersects(EventFlags::ERR) {
            return self.close(client);
        }
        self.ready.push(ready);
    }

    /// Sends clients away while all of them together take more memory than they may, first the one that takes
    /// most.
    fn bound_clients(&mut self) {
        let bytes_max = self.engine.clients_bytes_max();
        if self.engine.clients.bytes() <= bytes_max {
            return;
        }
        for client in self.engine.clients.beyond(bytes_max) {
            self.engine.counters.evicted.increment();
            self.close(client);
        }
    }

    /// Now and then: sends those away that do not read, or send no more of a long value, and accepts clients
    /// again.
    fn look_after(&mut self) {
        let now_ms = self.engine.now_ms();
        if now_ms < self.look_at_ms {
            return;
        }
        self.look_at_ms = now_ms + LOOK_EVERY_MS;
        self.engine.renew_policy();
        self.renew_tls(now_ms);
        let unread_ms = self.options.unread_for_max.as_millis() as u64;
        let stuck: Vec<_> = self
            .engine
            .clients
            .all()
            .filter(|(_, connection)| connection.is_idle_since(now_ms.saturating_sub(unread_ms)))
            .map(|(client, _)| client)
            .collect();
        for client in stuck {
            self.engine.counters.stuck.increment();
            self.close(client);
        }
        if core::mem::take(&mut self.is_out_of_descriptors) {
            for (listener, number) in self.listeners.iter().zip(STOP + 1..) {
                let token = EventData::new_u64(number);
                let _unchanged = epoll::modify(&self.epoll, listener, token, EventFlags::IN);
            }
        }
    }

    /// Follows the files of TLS, and sends those away that do not come to an end with its handshake.
    fn renew_tls(&mut self, now_ms: u64) {
        let Some(tls) = &mut self.tls else { return };
        match tls.renew() {
            Ok(true) => self.not_renewed = None,
            Ok(false) => {}
            Err(why) => {
                self.engine.counters.tls_not_renewed.increment();
                // Each look tries again: it is said once for each reason.
                if self.not_renewed.as_ref() != Some(&why) {
                    NOT_RENEWED
                        .say(format_args!("clients are shown the certificate that was read before: {why}"));
                    self.not_renewed = Some(why);
                }
            }
        }
        let since_ms = now_ms.saturating_sub(HANDSHAKE_MS_MAX);
        let is_late = |connection: &Connection| {
            connection.socket.is_handshaking() && connection.session.since_ms <= since_ms
        };
        let all = self.engine.clients.all();
        let late: Vec<_> =
            all.filter(|(_, connection)| is_late(connection)).map(|(client, _)| client).collect();
        for client in late {
            self.engine.counters.unsecured.increment();
            self.close(client);
        }
    }

    fn close(&mut self, client: Handle) {
        if let Some(mut connection) = self.engine.clients.remove(client) {
            self.engine.subscriptions.forget(client, &mut connection.session);
            self.engine.waiting.forget(client, &mut connection.session);
            self.engine.counters.disconnected.increment();
        }
    }

    /// Runs what has come; says when the shard has something to do by itself.
    ///
    /// Clients that take more memory than they may together are seen to at the end of a turn. What others
    /// have sent waits for the next turn then: each of them might ask for as much again.
    fn execute(&mut self) -> Next {
        let Self { engine, shared, arena, ready, parser, spares, inputs, .. } = self;
        let (bytes_max, mut waiting) = (engine.clients_bytes_max(), Vec::new());
        let mut guard = shared.lock();
        engine.prepare(&mut guard);
        engine.follow_log(&guard);
        ready.extend(engine.resumed().map(|client| Ready { client, start: 0, end: 0 }));
        for &Ready { client, start, end } in ready.iter() {
            let has_room = engine.clients.bytes() <= bytes_max;
            let Some(mut connection) = engine.clients.take(client) else { continue };
            if !has_room {
                connection.input.extend(&arena[start..end], inputs);
                engine.clients.put_back(client, connection);
                waiting.push(Ready { client, start: 0, end: 0 });
                continue;
            }
            engine.current = client;
            if connection.output.capacity() == 0 {
                connection.output = spares.take(connection.last_replies_bytes);
            }
            if connection.input.is_empty() {
                let bytes = &arena[start..end];
                let done;
                (guard, done) = run(engine, &mut connection, parser, bytes, (shared, guard));
                connection.input.extend(&bytes[done..], inputs);
                if parser.has_begun() {
                    connection.parser = core::mem::take(parser);
                }
                if connection.parser.long().is_some() {
                    guard = run_own(engine, &mut connection, (shared, guard));
                }
            } else {
                connection.input.extend(&arena[start..end], inputs);
                guard = run_own(engine, &mut connection, (shared, guard));
            }
            engine.clients.put_back(client, connection);
            engine.clients.count_bytes(client);
            engine.touched.push(client);
        }
        ready.clear();
        ready.append(&mut waiting);
        let next = engine.keep_up(&mut guard);
        shared.pass_log_on(&guard, engine.waits_for_log());
        next
    }

    /// Sends replies, and sees to what the loop waits for.
    fn flush(&mut self) {
        let now_ms = self.engine.now_ms();
        let mut touched = core::mem::take(&mut self.engine.touched);
        for client in touched.drain(..) {
            let Some(connection) = self.engine.clients.get(client) else { continue };
            let is_lost = connection.flush(now_ms).is_err();
            if is_lost || connection.is_closing && connection.has_sent_all() {
                self.close(client);
                continue;
            }
            let waits = connection.is_paused
                || connection.session.blocked.is_some()
                || !connection.rest.is_empty() && !connection.held.is_empty();
            if connection.is_held && !connection.is_stalled() && !waits {
                // No event will say so: its socket took the replies at once.
                self.ready.push(Ready { client, start: 0, end: 0 });
            }
            if connection.unsent_bytes() == 0 {
                self.spares.keep(core::mem::take(&mut connection.output));
            }
            connection.trim(&mut self.inputs);
            self.engine.clients.count_bytes(client);
            let Some(connection) = self.engine.clients.get(client) else { continue };
            let interest = connection.interest();
            let is_unread = interest.contains(EventFlags::IN) && connection.socket.unread_bytes() > 0;
            if is_unread && !core::mem::replace(&mut connection.is_unread, true) {
                self.unread.push(client);
            }
            if interest != connection.watched {
                connection.watched = interest;
                let token = EventData::new_u64(CLIENT | client.to_bits());
                if epoll::modify(&self.epoll, &connection.socket, token, interest).is_err() {
                    self.close(client);
                }
            }
        }
        self.engine.touched = touched;
    }
}

/// Whether the next client may be accepted all the same.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, NotConnected, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | NotConnected)
}

fn watch(epoll: &OwnedFd, what: impl AsFd, token: u64) -> io::Result<()> {
    Ok(epoll::add(epoll, what, EventData::new_u64(token), EventFlags::IN)?)
}

/// Reads the next part of something long to where the rest of it is.
fn read_long(connection: &mut Connection, bytes: usize, inputs: &mut Spares) -> io::Result<Option<usize>> {
    if bytes == 0 {
        return Ok(None);
    }
    // A client that has begun something long and sends it byte by byte has no room for all of it. One byte is
    // read where none has come: it may be the end.
    let bytes = bytes.min(connection.socket.come_bytes()?.max(1));
    let mut input = core::mem::take(&mut connection.input);
    let read = input.receive(bytes, inputs, |to| connection.read(to));
    connection.input = input;
    read
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use farcall::policy::Principal;

    use super::*;

    #[test]
    fn bytes_of_something_long_that_drip_cost_no_room_for_all_of_it() {
        let (mut client, socket) = UnixStream::pair().expect("descriptors");
        let session = Session::new(1, "here".to_owned(), Principal::Unproven, true, 0);
        let mut connection = Connection::new(Socket::from(OwnedFd::from(socket)), session);
        let mut read = || {
            let came = read_long(&mut connection, LONG_READ_BYTES, &mut Spares::default());
            (came.expect("it is open"), connection.input.len(), connection.input.memory_bytes())
        };
        for count in 1..=100 {
            client.write_all(b"b").expect("there is room");
            let (came, kept, room) = read();
            assert_eq!((came, kept), (Some(1), count));
            assert!(room < 1024, "room for {room} bytes, for {count} that came");
        }
        assert_eq!(read().0, None, "nothing has come");
        drop(client);
        assert_eq!(read().0, Some(0), "it is the end");
    }
}
