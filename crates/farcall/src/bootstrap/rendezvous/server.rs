//! The thread of the registry: waits for connections and bytes, and lets the registry answer.
//!
//! One thread serves all connections without blocking on any of them. Whatever a connection does wrong ends
//! that connection and nothing else. A turn takes a bounded number of new connections, and work only for
//! those that have something to say.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use farcall_driver::KeyFile;
use farcall_protocol::keys::Keyring;

use super::super::fields::Malformed;
use super::super::limits::MEMBERS_PER_ADDRESS_MAX;
use super::super::messages::{Answer, Ask, Join, VERSION};
use super::super::refusal::Refusal;
use super::super::stream;
use super::connection::{Connection, Finished, State};
use super::registry::{Fault, Leaving, LinkId, Outgoing, Registry};
use super::strangers::Strangers;

/// Time that a connection has to join, and to take its refusal.
const HANDSHAKE_MAX: Duration = Duration::from_secs(2);

/// The most connections that are accepted before those that are there have their turn.
const ACCEPTED_PER_TURN: usize = 64;

/// How long accepting rests after the system had no descriptor for another connection.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// The time between two looks for members that were not heard of within their lease.
const LOOK_FOR_OVERDUE: Duration = Duration::from_millis(100);

/// The most events that the kernel reports at a time.
const EVENTS_MAX: usize = 256;

/// The most bytes that wait for all members that do not read. Beyond it the one with the most is ended.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// The most bytes of news of names that wait for a member; the rest is told when it has read these.
const NEWS_WAITING_MAX: usize = 256 << 10;

/// When this many bytes wait for all, a member gets news only when nothing waits for it.
const NEWS_WHILE_WAITING: usize = OUTPUT_BYTES_MAX / 2;

/// The most bytes of news of one name at a time.
const PAGE_BYTES_MAX: usize = 16 << 10;

/// The most watches that are told something before connections have their turn again.
const NEWS_PER_TURN: usize = 1024;

/// The names of the two descriptors that are no connections.
const STOP: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

/// The state of the thread.
pub(super) struct Server {
    epoll: OwnedFd,
    listener: TcpListener,
    beyond_machine: bool,
    registry: Registry,
    /// The cluster's keys, if it has any.
    keys: Option<KeyFile>,
    connections: BTreeMap<LinkId, Connection>,
    strangers: Strangers,
    members_by_address: BTreeMap<IpAddr, usize>,
    links_used: LinkId,
    /// When accepting goes on, if it rests.
    accept_again: Option<Instant>,
    look_for_overdue: Instant,
    /// Until when the oldest of the connections that must end by a time has it.
    deadlines: BTreeMap<(Instant, LinkId), ()>,
    output_bytes: usize,
    /// That a connection which has hung up is being served and ended.
    is_ending_dead: bool,
    _stop: OwnedFd,
}

impl Server {
    /// Serves `listener`, which does not block, until `stop` becomes readable.
    pub(super) fn new(
        listener: TcpListener,
        stop: OwnedFd,
        registry: Registry,
        keys: Option<KeyFile>,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let beyond_machine = !listener.local_addr()?.ip().is_loopback();
        Ok(Self {
            epoll,
            listener,
            beyond_machine,
            registry,
            keys,
            connections: BTreeMap::new(),
            strangers: Strangers::default(),
            members_by_address: BTreeMap::new(),
            links_used: 0,
            accept_again: None,
            look_for_overdue: Instant::now() + LOOK_FOR_OVERDUE,
            deadlines: BTreeMap::new(),
            output_bytes: 0,
            is_ending_dead: false,
            _stop: stop,
        })
    }

    /// The life of the thread.
    pub(super) fn run(mut self) {
        let mut events = [MaybeUninit::uninit(); EVENTS_MAX];
        loop {
            let more = self.tell_news();
            let next_time = if more { Instant::now() } else { self.next_time() };
            let timeout = timespec(next_time.saturating_duration_since(Instant::now()));
            // An interrupted wait reports nothing and is repeated.
            let ready =
                epoll::wait(&self.epoll, &mut events, Some(&timeout)).map_or(&[][..], |(ready, _)| &*ready);
            let ready: Vec<u64> = ready.iter().map(|event: &Event| event.data.u64()).collect();
            for &name in &ready {
                match name {
                    STOP => return,
                    LISTENER => {}
                    link => self.serve(link),
                }
            }
            if ready.contains(&LISTENER) {
                self.accept();
            }
            self.mind_the_time();
        }
    }

    fn next_time(&self) -> Instant {
        let deadline = self.deadlines.keys().next().map(|(deadline, _)| *deadline);
        [deadline, self.accept_again].into_iter().flatten().fold(self.look_for_overdue, Instant::min)
    }

    /// Ends what has had its time, and goes on with what rested.
    fn mind_the_time(&mut self) {
        let now = Instant::now();
        while let Some((&(deadline, link), ())) = self.deadlines.first_key_value()
            && deadline <= now
        {
            self.deadlines.remove(&(deadline, link));
            if self.connections.get(&link).is_some_and(|connection| connection.deadline() == Some(deadline)) {
                self.end(link, Leaving::Broken);
            }
        }
        if self.look_for_overdue <= now {
            self.look_for_overdue = now + LOOK_FOR_OVERDUE;
            for link in self.registry.overdue(now) {
                self.end(link, Leaving::Broken);
            }
        }
        if self.accept_again.is_some_and(|again| again <= now) {
            self.accept_again = None;
            self.listen_for(EventFlags::IN);
        }
    }

    fn listen_for(&self, what: EventFlags) {
        // It fails only for descriptors that are not in the set, and the listener is.
        let _ = epoll::modify(&self.epoll, &self.listener, EventData::new_u64(LISTENER), what);
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED_PER_TURN {
            match self.listener.accept() {
                Ok((stream, from)) => {
                    let deadline = Instant::now() + HANDSHAKE_MAX;
                    let (from, ring) = (from.ip().to_canonical(), self.ring());
                    if let Ok(connection) = Connection::new(stream, from, deadline, ring) {
                        self.take_in(connection, deadline);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // Out of descriptors or memory, or the connection was gone before it was taken.
                Err(_) => {
                    if let Some(oldest) = self.strangers.oldest() {
                        self.end(oldest, Leaving::Broken);
                    }
                    self.accept_again = Some(Instant::now() + ACCEPT_REST);
                    return self.listen_for(EventFlags::empty());
                }
            }
        }
    }

    /// The cluster's keys as they are now. A file that cannot be read changes nothing.
    fn ring(&mut self) -> Option<Keyring> {
        let file = self.keys.as_mut()?;
        let _ = file.renew();
        Some(stream::ring(file))
    }

    fn take_in(&mut self, connection: Connection, deadline: Instant) {
        self.links_used += 1;
        let (link, from) = (self.links_used, connection.from());
        if epoll::add(&self.epoll, &connection, EventData::new_u64(link), EventFlags::IN).is_err() {
            return;
        }
        self.connections.insert(link, connection);
        self.deadlines.insert((deadline, link), ());
        if let Some(oldest) = self.strangers.came(link, from) {
            // It may have spoken just now: then it is served instead.
            if self.connections.get_mut(&oldest).is_some_and(Connection::has_spoken) {
                self.serve(oldest);
            }
            if self.connections.get(&oldest).is_some_and(|connection| connection.state() != State::Member) {
                self.end(oldest, Leaving::Broken);
            }
        }
    }

    /// Moves bytes of one connection and acts on the messages that are complete.
    fn serve(&mut self, link: LinkId) {
        let Some(connection) = self.connections.get_mut(&link) else { return };
        let filled = connection.fill();
        self.registry.heard(link, Instant::now());
        // What arrived before the end of a connection counts: a member may publish and close at once.
        let handled = self.handle_messages(link);
        let flushed = self.flush(link);
        if filled.is_err() || handled.is_err() || flushed.is_err() {
            self.end(link, Leaving::Broken);
        }
    }

    fn flush(&mut self, link: LinkId) -> Result<(), Finished> {
        let Some(connection) = self.connections.get_mut(&link) else { return Ok(()) };
        let before = connection.output_bytes();
        let flushed = connection.flush();
        self.output_bytes -= before - connection.output_bytes();
        if room_for_news(connection, self.output_bytes) > 0 {
            self.registry.has_room(link);
        }
        if let Some(interest) = connection.new_interest() {
            epoll::modify(&self.epoll, connection.as_fd(), EventData::new_u64(link), interest)
                .map_err(|_| Finished)?;
        }
        flushed
    }

    fn handle_messages(&mut self, link: LinkId) -> Result<(), Finished> {
        loop {
            let Some(connection) = self.connections.get_mut(&link) else { return Ok(()) };
            let (state, before) = (connection.state(), connection.output_bytes());
            let message = connection.next_message();
            self.output_bytes += connection.output_bytes() - before;
            let Some(message) = message? else { return Ok(()) };
            match self.handle(link, state, &message) {
                Ok(outgoing) => self.send_all(outgoing),
                Err(Fault::Malformed(_) | Fault::Full) => return Err(Finished),
            }
        }
    }

    fn handle(&mut self, link: LinkId, state: State, message: &[u8]) -> Result<Outgoing, Fault> {
        let ask = Ask::decode(message).map_err(Fault::Malformed)?;
        let without_room = ask.without_room();
        match (self.handle_ask(link, state, ask), without_room) {
            (Err(Fault::Full), Some(answer)) => Ok(vec![(link, answer)]),
            (handled, _) => handled,
        }
    }

    fn handle_ask(&mut self, link: LinkId, state: State, ask: Ask) -> Result<Outgoing, Fault> {
        let registry = &mut self.registry;
        match (state, ask) {
            (State::Fresh { .. }, Ask::Join(join)) => Ok(self.join(link, join)),
            (State::Fresh { .. }, Ask::OtherVersion) => {
                Ok(self.refuse(link, Refusal::Version { rendezvous: VERSION }))
            }
            (State::Member, Ask::Publish { key, address }) => registry.publish(link, key, address),
            (State::Member, Ask::Resolve { request, rank, key }) => {
                self.end_dead(self.registry.holder(rank));
                self.registry.resolve(link, request, rank, key)
            }
            (State::Member, Ask::Barrier { request, name }) => registry.barrier(link, request, name),
            (State::Member, Ask::Missing { request, name }) => registry.missing(link, request, &name),
            (State::Member, Ask::Cancel { request }) => {
                registry.cancel(link, request).map(|()| Outgoing::new())
            }
            (State::Member, Ask::Leave) => {
                self.end(link, Leaving::Orderly);
                Ok(Outgoing::new())
            }
            (State::Member, Ask::Register { name, key, address }) => {
                registry.register(link, name, key, address).map(|()| Outgoing::new())
            }
            (State::Member, Ask::Withdraw { name, key }) => {
                registry.withdraw(link, name, key).map(|()| Outgoing::new())
            }
            (State::Member, Ask::Watch { request, name }) => {
                registry.watch(link, request, name).map(|()| Outgoing::new())
            }
            (State::Member, Ask::Renew { lease }) => {
                registry.renew(link, lease, Instant::now()).map(|()| Outgoing::new())
            }
            (State::Member, Ask::CompareAndSet { request, key, expected, value }) => {
                registry.compare_and_set(link, request, key, expected, value)
            }
            // What follows a refusal is not read.
            (State::Refused { .. }, _) => Ok(Outgoing::new()),
            _ => Err(Fault::Malformed(Malformed("a message out of turn"))),
        }
    }

    fn join(&mut self, link: LinkId, join: Join) -> Outgoing {
        self.end_dead(self.registry.holder_of(&join));
        let Some(from) = self.connections.get(&link).map(Connection::from) else { return Outgoing::new() };
        let of_address = self.members_by_address.get(&from).copied().unwrap_or(0);
        if of_address >= MEMBERS_PER_ADDRESS_MAX {
            return self.refuse(link, Refusal::Full);
        }
        match self.registry.join(link, join, Instant::now()) {
            Ok(former) => {
                if let Some(former) = former {
                    self.end(former, Leaving::Broken);
                }
                self.strangers.went(link, from);
                *self.members_by_address.entry(from).or_default() += 1;
                if self.connections.get_mut(&link).is_some_and(|connection| connection.admit().is_err()) {
                    self.end(link, Leaving::Broken);
                    return Outgoing::new();
                }
                vec![(link, Answer::Welcome { beyond_machine: self.beyond_machine })]
            }
            Err(refusal) => self.refuse(link, refusal),
        }
    }

    /// The end of a member's connection may have arrived and not been looked at yet. It is looked at before a
    /// process is refused for, or led to, a dead one. Not while another dead one is served: what that asked
    /// for it does not hear, and a chain of them would go as deep as there are members.
    fn end_dead(&mut self, holder: Option<LinkId>) {
        let connection = holder.and_then(|link| self.connections.get(&link));
        if let (Some(link), true) = (holder, connection.is_some_and(Connection::has_hung_up))
            && !core::mem::replace(&mut self.is_ending_dead, true)
        {
            // What it said before its end counts.
            self.serve(link);
            self.end(link, Leaving::Broken);
            self.is_ending_dead = false;
        }
    }

    fn refuse(&mut self, link: LinkId, refusal: Refusal) -> Outgoing {
        let deadline = Instant::now() + HANDSHAKE_MAX;
        if let Some(connection) = self.connections.get_mut(&link) {
            connection.refuse(deadline);
            self.deadlines.insert((deadline, link), ());
        }
        vec![(link, Answer::Refused(refusal))]
    }

    /// Tells watches what has changed, as far as there is room; whether there is more to tell now.
    fn tell_news(&mut self) -> bool {
        for _ in 0..NEWS_PER_TURN {
            let (connections, waiting) = (&self.connections, self.output_bytes);
            let room = |link: LinkId| match connections.get(&link) {
                Some(connection) => room_for_news(connection, waiting),
                None => 0,
            };
            match self.registry.next_news(room) {
                Some((_, news)) if news.is_empty() => {}
                Some((link, news)) => self.send(link, &news),
                None => return false,
            }
        }
        true
    }

    fn send_all(&mut self, outgoing: Outgoing) {
        for (link, answer) in outgoing {
            self.send(link, &[answer]);
        }
    }

    /// Sends answers. Whom they cannot reach is gone.
    fn send(&mut self, link: LinkId, answers: &[Answer]) {
        let Some(connection) = self.connections.get_mut(&link) else { return };
        let before = connection.output_bytes();
        let queued = answers.iter().try_for_each(|answer| connection.queue(answer));
        self.output_bytes = self.output_bytes + connection.output_bytes() - before;
        if queued.is_err() || self.flush(link).is_err() {
            self.end(link, Leaving::Broken);
        }
        if self.output_bytes > OUTPUT_BYTES_MAX {
            let most = self.connections.iter().max_by_key(|(_, connection)| connection.output_bytes());
            if let Some((&link, _)) = most {
                self.end(link, Leaving::Broken);
            }
        }
    }

    fn uncount_member(&mut self, link: LinkId) {
        let Some(connection) = self.connections.get(&link) else { return };
        if connection.state() == State::Member
            && let Some(count) = self.members_by_address.get_mut(&connection.from())
        {
            *count -= 1;
            if *count == 0 {
                self.members_by_address.remove(&connection.from());
            }
        }
    }

    fn end(&mut self, link: LinkId, leaving: Leaving) {
        self.registry.leave(link, Instant::now(), leaving);
        self.drop_connection(link);
    }

    fn drop_connection(&mut self, link: LinkId) {
        self.uncount_member(link);
        if let Some(connection) = self.connections.remove(&link) {
            self.output_bytes -= connection.output_bytes();
            self.strangers.went(link, connection.from());
        }
    }
}

/// How many bytes of news a connection takes now, while `waiting` bytes wait for all.
fn room_for_news(connection: &Connection, waiting: usize) -> usize {
    let own_max = if waiting < NEWS_WHILE_WAITING { NEWS_WAITING_MAX } else { 1 };
    if connection.output_bytes() < own_max { PAGE_BYTES_MAX } else { 0 }
}

fn timespec(duration: Duration) -> Timespec {
    // Rounded up, so that a time that is waited for has come when the wait ends.
    let duration = duration + Duration::from_micros(1);
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

#[cfg(test)]
mod tests;
