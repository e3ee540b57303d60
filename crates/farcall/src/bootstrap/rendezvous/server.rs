//! The thread of the rendezvous: waits for connections and bytes, and lets the registry answer.
//!
//! One thread serves all connections without blocking on any of them. Whatever a connection does wrong ends
//! that connection and nothing else.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::fields::Malformed;
use super::super::messages::{Answer, Ask, Join, VERSION};
use super::super::refusal::Refusal;
use super::connection::{Connection, Finished, State};
use super::registry::{LinkId, Outgoing, Registry};

/// Time that a connection has to join, and to take its refusal.
const HANDSHAKE_MAX: Duration = Duration::from_secs(2);

/// The most connections that have not joined; more wait in the listener's queue.
const FRESH_MAX: usize = 256;

/// How long accepting rests after the system had no descriptor for another connection.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// The state of the thread.
pub(super) struct Server {
    listener: TcpListener,
    stop: OwnedFd,
    registry: Registry,
    connections: BTreeMap<LinkId, Connection>,
    links_used: LinkId,
    accept_after: Instant,
}

impl Server {
    /// Serves `listener`, which does not block, until `stop` becomes readable.
    pub(super) fn new(listener: TcpListener, stop: OwnedFd, registry: Registry) -> Self {
        let accept_after = Instant::now();
        Self { listener, stop, registry, connections: BTreeMap::new(), links_used: 0, accept_after }
    }

    /// The life of the thread.
    pub(super) fn run(mut self) {
        while let Some(ready) = self.wait() {
            for link in ready.links {
                self.serve(link);
            }
            if ready.listener {
                self.accept();
            }
            self.end_late_connections();
        }
    }

    /// Sleeps until there is something to do; `None` when the thread is to end.
    fn wait(&self) -> Option<Ready> {
        let now = Instant::now();
        let mut descriptors = vec![PollFd::new(&self.stop, PollFlags::IN)];
        for connection in self.connections.values() {
            let output = if connection.has_output() { PollFlags::OUT } else { PollFlags::empty() };
            descriptors.push(PollFd::new(connection, PollFlags::IN | output));
        }
        let accepts = now >= self.accept_after && self.fresh_connections() < FRESH_MAX;
        if accepts {
            descriptors.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let timeout =
            self.next_deadline(now).map(|deadline| timespec(deadline.saturating_duration_since(now)));
        // An interrupted wait reports nothing and is repeated.
        if poll(&mut descriptors, timeout.as_ref()).is_err() {
            return Some(Ready::default());
        }
        let is_ready = |index: usize| descriptors.get(index).is_some_and(|entry| !entry.revents().is_empty());
        let served = self.connections.keys().enumerate().filter(|(index, _)| is_ready(index + 1));
        let links = served.map(|(_, link)| *link).collect();
        (!is_ready(0)).then(|| Ready { links, listener: is_ready(self.connections.len() + 1) })
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let rest = (self.accept_after > now).then_some(self.accept_after);
        self.connections.values().filter_map(Connection::deadline).chain(rest).min()
    }

    fn fresh_connections(&self) -> usize {
        self.connections.values().filter(|connection| connection.state() != State::Member).count()
    }

    fn accept(&mut self) {
        while self.fresh_connections() < FRESH_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Ok(connection) = Connection::new(stream, Instant::now() + HANDSHAKE_MAX) {
                        self.links_used += 1;
                        self.connections.insert(self.links_used, connection);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // Out of descriptors or memory, or the connection was gone before it was taken.
                Err(_) => {
                    self.accept_after = Instant::now() + ACCEPT_REST;
                    return;
                }
            }
        }
    }

    fn end_late_connections(&mut self) {
        let now = Instant::now();
        let late = |(link, connection): (&LinkId, &Connection)| {
            connection.deadline().is_some_and(|deadline| deadline <= now).then_some(*link)
        };
        for link in self.connections.iter().filter_map(late).collect::<Vec<_>>() {
            self.end(link);
        }
    }

    /// Moves bytes of one connection and acts on the messages that are complete.
    fn serve(&mut self, link: LinkId) {
        let Some(connection) = self.connections.get_mut(&link) else { return };
        let filled = connection.fill();
        // What arrived before the end of a connection counts: a member may publish and close at once.
        let handled = self.handle_messages(link);
        let flushed = self.connections.get_mut(&link).map_or(Ok(()), Connection::flush);
        if filled.is_err() || handled.is_err() || flushed.is_err() {
            self.end(link);
        }
    }

    fn handle_messages(&mut self, link: LinkId) -> Result<(), Finished> {
        loop {
            let Some(connection) = self.connections.get_mut(&link) else { return Ok(()) };
            let state = connection.state();
            let Some(message) = connection.next_message()? else { return Ok(()) };
            let outgoing = self.handle(link, state, &message).map_err(|Malformed(_)| Finished)?;
            self.send_all(outgoing);
        }
    }

    fn handle(&mut self, link: LinkId, state: State, message: &[u8]) -> Result<Outgoing, Malformed> {
        match (state, Ask::decode(message)?) {
            (State::Fresh { .. }, Ask::Join(join)) => Ok(self.join(link, join)),
            (State::Fresh { .. }, Ask::OtherVersion) => {
                Ok(self.refuse(link, Refusal::Version { rendezvous: VERSION }))
            }
            (State::Member, Ask::Publish { key, address }) => self.registry.publish(link, key, address),
            (State::Member, Ask::Resolve { request, rank, key }) => {
                self.end_dead_holder(rank);
                self.registry.resolve(link, request, rank, key)
            }
            (State::Member, Ask::Barrier { request, name }) => self.registry.barrier(link, request, name),
            (State::Member, Ask::Cancel { request }) => {
                self.registry.cancel(link, request).map(|()| Outgoing::new())
            }
            _ => Err(Malformed("a message out of turn")),
        }
    }

    fn join(&mut self, link: LinkId, join: Join) -> Outgoing {
        self.end_dead_holder(join.rank);
        match self.registry.join(link, join) {
            Ok(former) => {
                if let Some(former) = former {
                    self.connections.remove(&former);
                }
                if let Some(connection) = self.connections.get_mut(&link) {
                    connection.admit();
                }
                vec![(link, Answer::Welcome)]
            }
            Err(refusal) => self.refuse(link, refusal),
        }
    }

    /// The end of a rank's connection may have arrived and not been looked at yet. It is looked at before
    /// somebody is refused for, or led to, a dead process.
    fn end_dead_holder(&mut self, rank: u32) {
        let holder = self.registry.holder(rank);
        let connection = holder.and_then(|link| self.connections.get(&link));
        if let (Some(link), true) = (holder, connection.is_some_and(Connection::has_hung_up)) {
            self.end(link);
        }
    }

    fn refuse(&mut self, link: LinkId, refusal: Refusal) -> Outgoing {
        if let Some(connection) = self.connections.get_mut(&link) {
            connection.refuse(Instant::now() + HANDSHAKE_MAX);
        }
        vec![(link, Answer::Refused(refusal))]
    }

    fn send_all(&mut self, outgoing: Outgoing) {
        for (link, answer) in outgoing {
            let sent = self.connections.get_mut(&link).map_or(Ok(()), |connection| connection.send(&answer));
            if sent.is_err() {
                self.end(link);
            }
        }
    }

    fn end(&mut self, link: LinkId) {
        self.registry.leave(link);
        self.connections.remove(&link);
    }
}

/// What a wait found.
#[derive(Default)]
struct Ready {
    links: Vec<LinkId>,
    listener: bool,
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
