//! Those who connect: how they are taken in, and how long they may stay strangers.

use std::net::SocketAddr;
use std::time::{Duration, Instant as WallTime};

use crate::connection::{Connection, Origin, Phase};
use crate::endpoint::{LISTENER, Tcp};
use crate::secured::Secured;
use crate::socket::{accept, concerns_one_connection};

/// The most that are accepted in one poll.
const ACCEPTS_PER_POLL: usize = 32;

/// How long accepting rests when the system has no descriptor or memory for another connection.
const ACCEPT_REST: Duration = Duration::from_millis(50);

impl Tcp {
    pub(crate) fn accept_all(&mut self) -> usize {
        for count in 0..ACCEPTS_PER_POLL {
            match accept(&self.listener) {
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
                Err(error) if concerns_one_connection(&error) => {}
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
    pub(crate) fn welcome(&mut self, connection: Connection, peer: SocketAddr) {
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
    pub(crate) fn make_room_for_strangers(&mut self) {
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
    pub(crate) fn keep_up(&mut self) {
        let now = WallTime::now();
        while let Some(number) = self.strangers.take_expired(now) {
            self.counters.strangers_expired.increment();
            self.connections.remove(number);
        }
        if self.accepts_from.is_some_and(|from| from <= now) {
            self.accepts_from = None;
            let _ = self.poller.rest(&self.listener, LISTENER, false);
        }
        let (connections, counters) = (&mut self.connections, &self.counters);
        self.ending.retain(|&number| {
            let is_over = match connections.get(number).map(|connection| connection.phase) {
                Some(Phase::Ending { until, .. }) => until <= now,
                _ => true,
            };
            if is_over && connections.get(number).is_some() {
                connections.remove(number);
                counters.connections_ended.increment();
            }
            !is_over
        });
    }

    pub(crate) fn has_times(&self) -> bool {
        !self.ending.is_empty() || !self.strangers.is_empty() || self.accepts_from.is_some()
    }
}
