//! TCP as a library of messages.

use std::os::fd::RawFd;
use std::time::{Duration, Instant as WallTime};

use farcall_base::{Address, AddressError, host_number};
use farcall_base::{Instant, Principal};
use farcall_driver::{Destination, Wait};
use farcall_transport::{Backlog, Library, Outgoing};

use crate::FORMAT;
use crate::arrival::{Body, TcpArrival};
use crate::connection::{Connection, Origin, Phase};
use crate::endpoint::{Loss, Tcp};
use crate::frame::WHOLE_BYTES_MAX;
use crate::reading::ARRIVALS_MAX;

/// With this many polls that found something in hot connections the others are asked too; without a find they
/// are asked each time.
const HOT_POLLS_MAX: u32 = 8;

/// While all connections are hot, polls between two questions whether somebody wants to connect.
const POLLS_PER_LOOK: u32 = 32;

/// Polls between two looks at times that may be over.
const POLLS_PER_UPKEEP: u32 = 64;

/// How long an endpoint that is dropped waits for its last messages to leave.
const LINGER: Duration = Duration::from_millis(100);

impl Library for Tcp {
    type Arrival = TcpArrival;

    const WAKES_FOR_ROOM: bool = true;

    fn name(&self) -> &'static str {
        FORMAT.driver
    }

    fn payload_bytes_max(&self) -> usize {
        self.config.payload_bytes_max
    }

    fn short_bytes_max(&self) -> usize {
        WHOLE_BYTES_MAX
    }

    fn address(&self) -> Address {
        FORMAT.address_of(self.local)
    }

    fn resolve(&mut self, to: &Address) -> Result<Destination, AddressError> {
        let place = FORMAT.parse(to)?;
        if let Some(&number) = self.dialed.get(to)
            && self.connections.get(number).is_some_and(|connection| connection.phase != Phase::Lost)
        {
            return Ok(Destination(number));
        }
        let number = self.open(place, to).map_err(|why| AddressError::OutOfReach { why })?;
        self.dialed.insert(to.clone(), number);
        Ok(Destination(number))
    }

    fn answer_to(
        &mut self,
        arrival: &TcpArrival,
        _address: &Address,
        _renewed: bool,
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
                FORMAT.parse(address).is_ok_and(|place| place.ip() == connection.peer.ip())
            }
        })
    }

    fn host_of(&self, of: Destination) -> Option<u64> {
        self.connections.get(of.0).map(|connection| host_number(connection.peer.ip()))
    }

    fn principal(&self, of: Destination) -> Principal {
        self.connections.get(of.0).map_or(Principal::Unproven, Connection::principal)
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

    fn send_behind(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        let Some(connection) = self.connections.get_mut(to.0) else { return };
        if connection.phase == Phase::Open {
            connection.outbound.put_behind(head, payload.as_slice());
            self.queued(to.0, Ok(()));
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
    fn backlog(&self, to: Destination) -> Backlog {
        match self.connections.get(to.0) {
            Some(connection) if self.is_full(connection) => Backlog::Full,
            Some(connection) if connection.is_blocked => Backlog::Some,
            Some(_) | None => Backlog::None,
        }
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
            let patience = match any_hot {
                _ if self.connections.len() == self.hot.len() => POLLS_PER_LOOK,
                true => HOT_POLLS_MAX,
                false => 1,
            };
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
}

impl Wait for Tcp {
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

    /// What ended the sleep is perhaps no hot connection.
    fn finish_wait(&mut self) {
        self.polls_since_look = POLLS_PER_LOOK;
    }

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
            while WallTime::now() < give_up_at
                && connection
                    .stream
                    .read(&mut dropped)
                    .is_ok_and(|count| count.is_some_and(|count| count > 0))
            {}
        }
    }
}
