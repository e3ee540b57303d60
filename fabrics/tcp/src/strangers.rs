//! Connections that others opened and that have not introduced themselves: how many there may be, and for how
//! long. Who comes last may be honest, so the oldest makes room.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant as WallTime};

/// One of them.
struct Stranger {
    number: u32,
    host: IpAddr,
    until: WallTime,
}

/// Those there are, oldest first.
pub struct Strangers {
    list: VecDeque<Stranger>,
    most: usize,
    most_per_host: usize,
    patience: Duration,
}

/// The addresses that count as one host: one of IPv4, or a network of 64 bits of IPv6.
fn host_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 => v4,
    }
}

impl Strangers {
    pub fn new(most: usize, most_per_host: usize, patience: Duration) -> Self {
        Self { list: VecDeque::new(), most, most_per_host, patience }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds one; gives the one that makes room for it, if there is none left.
    pub fn add(&mut self, number: u32, ip: IpAddr, now: WallTime) -> Option<u32> {
        let host = host_of(ip);
        let of_host = self.list.iter().filter(|stranger| stranger.host == host).count();
        let displaced = if of_host >= self.most_per_host {
            self.list.iter().position(|stranger| stranger.host == host)
        } else {
            (self.list.len() >= self.most).then_some(0)
        };
        let displaced = displaced.and_then(|place| self.list.remove(place));
        self.list.push_back(Stranger { number, host, until: now + self.patience });
        displaced.map(|stranger| stranger.number)
    }

    /// The oldest, for want of descriptors.
    pub fn take_oldest(&mut self) -> Option<u32> {
        Some(self.list.pop_front()?.number)
    }

    /// One whose time is over.
    pub fn take_expired(&mut self, now: WallTime) -> Option<u32> {
        let is_expired = self.list.front().is_some_and(|stranger| stranger.until <= now);
        if is_expired { self.take_oldest() } else { None }
    }

    /// It has introduced itself, or is gone.
    pub fn remove(&mut self, number: u32) {
        self.list.retain(|stranger| stranger.number != number);
    }

    /// When the next one's time is over.
    pub fn next_deadline(&self) -> Option<WallTime> {
        Some(self.list.front()?.until)
    }
}
