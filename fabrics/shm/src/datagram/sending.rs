//! Sending: into the peer's slots if there is one, else into a queue with a bound.

use std::time::Instant;

use farcall_driver::{Destination, SendError, SendQueueFull};

use super::ShmDatagram;
use super::peers::Route;

/// What a failed connection means for the packets that were to use it: they are lost, as packets may be.
type Taken = Result<(), SendError>;

impl ShmDatagram {
    #[inline]
    pub(super) fn send_packet(&mut self, to: Destination, parts: &[&[u8]]) -> Taken {
        let bytes = parts.iter().map(|part| part.len()).sum();
        if bytes > self.layout.mtu_bytes {
            return Err(SendError::TooLong { bytes, mtu_bytes: self.layout.mtu_bytes });
        }
        match self.peers.get(to).map(|peer| peer.route) {
            Some(Route::Up(index)) => self.send_up(index, parts, bytes),
            _ => self.send_not_up(to, parts, bytes),
        }
    }

    #[inline]
    fn send_up(&mut self, index: usize, parts: &[&[u8]], bytes: usize) -> Taken {
        let connection = self.connections.at(index);
        let outlet = connection.outlet.as_mut().expect("a connection that is up");
        if bytes > outlet.mtu_bytes() {
            self.counters.dropped_too_long.increment();
            return Ok(());
        }
        if connection.waiting.is_empty() {
            match outlet.send(parts, bytes) {
                Ok(true) => {
                    connection.stalled = false;
                    if !core::mem::replace(&mut connection.bell_due, true) {
                        self.bells_due.push(index);
                    }
                    self.counters.packets_sent.increment();
                    self.counters.bytes_sent.add(bytes as u64);
                    return Ok(());
                }
                Ok(false) => {}
                Err(_) => {
                    self.counters.dropped_gone.increment();
                    self.break_off(index);
                    return Ok(());
                }
            }
        }
        self.keep(index, parts)
    }

    /// The peer's slots are full.
    #[cold]
    fn keep(&mut self, index: usize, parts: &[&[u8]]) -> Taken {
        if self.connections.at(index).stalled {
            self.counters.dropped_stalled.increment();
            return Ok(());
        }
        let packet = self.queued_copy(parts)?;
        let connection = self.connections.at(index);
        if connection.waiting.is_empty() {
            self.blocked.push(index);
        }
        connection.waiting.push_back(packet);
        Ok(())
    }

    /// A copy of a packet that counts against the queue's bound.
    fn queued_copy(&mut self, parts: &[&[u8]]) -> Result<Vec<u8>, SendError> {
        self.has_refused = self.queued - self.early_departed() == self.config.queue_packets;
        if self.has_refused {
            self.counters.queue_full.increment();
            return Err(SendQueueFull.into());
        }
        self.queued += 1;
        self.counters.packets_kept.increment();
        let mut packet = self.spare.pop().unwrap_or_default();
        packet.clear();
        parts.iter().for_each(|part| packet.extend_from_slice(part));
        Ok(packet)
    }

    /// The peer's connection is not up, or was not when we last looked.
    #[cold]
    fn send_not_up(&mut self, to: Destination, parts: &[&[u8]], bytes: usize) -> Taken {
        self.take_notices();
        let Some(peer) = self.peers.get(to) else {
            self.counters.dropped_stale.increment();
            return Ok(());
        };
        let lane = match peer.route {
            Route::Up(index) => return self.send_up(index, parts, bytes),
            Route::Calling(lane) => lane,
            Route::Idle => self.call(to),
            Route::Failed { retry_at } if retry_at <= Instant::now() => self.call(to),
            Route::Failed { .. } | Route::Gone => {
                self.counters.dropped_gone.increment();
                return Ok(());
            }
        };
        let packet = self.queued_copy(parts)?;
        self.calls.get_mut(&lane).expect("a connection that was called").kept += 1;
        self.early.keep(lane, packet);
        Ok(())
    }

    /// None after a refusal, until the next flush: what the conductor does meanwhile does not unsay it.
    #[inline]
    pub(super) fn send_room_now(&self) -> usize {
        if self.has_refused {
            return 0;
        }
        self.config.queue_packets - (self.queued - self.early_departed())
    }

    /// Packets that count as waiting although the conductor has sent them; costs nothing when none are with it.
    #[inline]
    fn early_departed(&self) -> usize {
        if self.calls.is_empty() { 0 } else { self.early.departed() }
    }

    #[inline]
    pub(super) fn flush_packets(&mut self) {
        self.has_refused = false;
        self.take_notices();
        if !self.blocked.is_empty() {
            self.unblock();
        }
        while let Some(index) = self.bells_due.pop() {
            // It may have gone since, and another may have come to its place: one look too many does no harm.
            if let Some(connection) = self.connections.get(index) {
                connection.bell_due = false;
                if let Some(outlet) = &connection.outlet {
                    outlet.ring_doorbell();
                }
            }
        }
    }

    /// Sends what waits for slots, as far as there are some now.
    #[cold]
    fn unblock(&mut self) {
        let mut place = 0;
        while place < self.blocked.len() {
            if self.send_waiting(self.blocked[place]) {
                place += 1;
            } else {
                self.blocked.swap_remove(place);
            }
        }
    }

    /// Sends what waits for slots of one connection; says whether some of it still waits.
    fn send_waiting(&mut self, index: usize) -> bool {
        // A blocked connection may have gone since, and another may have come to its place, which has nothing waiting.
        let Some(connection) = self.connections.get(index) else { return false };
        let Some(outlet) = &mut connection.outlet else { return false };
        let before = connection.waiting.len();
        while let Some(packet) = connection.waiting.pop_front() {
            if packet.len() > outlet.mtu_bytes() {
                self.queued -= 1;
                self.counters.dropped_too_long.increment();
                continue;
            }
            match outlet.send(&[&packet], packet.len()) {
                Ok(true) => {
                    self.queued -= 1;
                    self.counters.packets_sent.increment();
                    self.counters.bytes_sent.add(packet.len() as u64);
                    self.spare.push(packet);
                }
                Ok(false) => {
                    connection.waiting.push_front(packet);
                    break;
                }
                Err(_) => {
                    connection.waiting.push_front(packet);
                    self.break_off(index);
                    return false;
                }
            }
        }
        outlet.ring_doorbell();
        if connection.waiting.len() < before {
            connection.full_since = None;
        }
        !connection.waiting.is_empty() && !self.give_up_if_stalled(index)
    }

    /// Drops what waits for a peer that has not made room for too long; says whether it did.
    fn give_up_if_stalled(&mut self, index: usize) -> bool {
        let connection = self.connections.at(index);
        let since = *connection.full_since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.config.stall_within {
            return false;
        }
        connection.stalled = true;
        connection.full_since = None;
        self.queued -= connection.waiting.len();
        self.counters.dropped_stalled.add(connection.waiting.len() as u64);
        self.spare.extend(connection.waiting.drain(..));
        true
    }
}
