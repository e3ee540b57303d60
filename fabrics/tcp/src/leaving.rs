//! Out: what waits leaves, and connections end.

use std::time::Instant as WallTime;

use crate::connection::{Broken, Connection, Origin, Phase};
use crate::endpoint::{Loss, Tcp};
use crate::outbound::Outbound;

/// The most bytes of frames, and of messages that are no calls, beside the payload of the longest message.
const FRAMES_OF_ONE_BYTES_MAX: usize = 64 << 10;

impl Tcp {
    /// Notes that a connection has something to send.
    #[inline]
    pub(crate) fn list(&mut self, number: u32) {
        if let Some(connection) = self.connections.get_mut(number)
            && !connection.is_listed
        {
            connection.is_listed = true;
            self.to_flush.push(number);
        }
    }

    /// Sends what waits, as far as the kernel takes it.
    #[inline]
    pub(crate) fn flush_all(&mut self) {
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
    pub(crate) fn flush(&mut self, number: u32) -> bool {
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
            self.unwatch_room(number);
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
        self.unwatch_room(number);
        let Some(connection) = self.connections.get_mut(number) else { return false };
        if let Phase::Ending { has_shut, .. } = &mut connection.phase
            && !*has_shut
        {
            *has_shut = true;
            connection.shut();
        }
        false
    }

    /// Room to write wakes nobody any more.
    fn unwatch_room(&mut self, number: u32) {
        if let Some(connection) = self.connections.get_mut(number)
            && core::mem::take(&mut connection.is_room_watched)
        {
            let _ = self.poller.watch_room(connection.stream.file(), number, false);
        }
    }

    /// A connection cannot go on.
    pub(crate) fn lose(&mut self, number: u32, why: &Broken) {
        match why {
            Broken::Frame(_) => self.counters.malformed.increment(),
            Broken::Secure(_) => self.counters.tls_refused.increment(),
            Broken::System(_) => {}
        }
        self.end_because(number, why.words());
    }

    /// A connection is over. Its number is kept until it is forgotten, if somebody has it.
    pub(crate) fn end(&mut self, number: u32) {
        self.end_because(number, None);
    }

    /// As [`Tcp::end`], for a reason that its users are told.
    pub(crate) fn end_because(&mut self, number: u32, why: Option<String>) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        self.hot.retain(|&hot| hot != number);
        match (&connection.origin, connection.phase) {
            (Origin::Stranger, _) => self.strangers.remove(number),
            (_, Phase::Ending { .. }) => {
                self.counters.connections_ended.increment();
                self.ending.retain(|&ending| ending != number);
            }
            (_, Phase::Open) => {
                connection.phase = Phase::Lost;
                connection.outbound = Outbound::new(0);
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

    /// After something was queued: the connection is to be flushed, unless too much waits already.
    #[inline]
    pub(crate) fn queued(&mut self, number: u32, sent: Result<(), Broken>) {
        if let Err(why) = sent {
            return self.lose(number, &why);
        }
        self.list(number);
        let Some(connection) = self.connections.get(number) else { return };
        if connection.outbound.queued_bytes() > self.queue_bytes_max() {
            self.counters.slow_readers.increment();
            self.end_because(number, Some("more than tcp.queue_bytes waited for it".to_owned()));
        }
    }

    /// What may wait for one peer. The longest message must fit where half of it is taken.
    fn queue_bytes_max(&self) -> usize {
        self.config.queue_bytes_max.max(2 * (self.config.payload_bytes_max + FRAMES_OF_ONE_BYTES_MAX))
    }

    /// Whether so much waits that calls have to wait, too: the rest is for answers, and for the longest call.
    #[inline]
    pub(crate) fn is_full(&self, connection: &Connection) -> bool {
        connection.outbound.queued_bytes() > self.queue_bytes_max() / 2
    }
}
