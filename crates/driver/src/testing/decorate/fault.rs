//! Breaks packets the way a bad fabric does: drop, duplicate, reorder, delay, corrupt, truncate.
//!
//! All faults happen on the sending side, drawn from one seed, so that a run with the same seed and the same
//! calls is the same run. Each packet draws once for every kind of fault, whether that kind is on or not:
//! changing one probability leaves the draws of the others alone.

use core::time::Duration;

use farcall_base::Instant;

use crate::clock::Clock;
use crate::decorate::delegate::{delegate_datagram, delegate_wait};
use crate::decorate::held::{Held, HeldPackets};
use crate::{CounterFile, Datagram, DatagramLimits, Destination, Packet, SendError, Wait};
use farcall_base::Random;

/// The most later packets that overtake a reordered one.
const OVERTAKERS_MAX: u64 = 8;
/// A reordered packet that nothing overtakes leaves after so many turns.
const OVERTAKEN_TURNS: u32 = 4;
/// The most bits that are flipped in a corrupted packet.
const FLIPPED_BITS_MAX: u64 = 3;

/// How often each fault happens: probabilities for each packet, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultConfig {
    /// Where the draws begin.
    pub seed: u64,
    /// The packet is lost.
    pub drop: f64,
    /// The packet arrives twice.
    pub duplicate: f64,
    /// One to eight later packets overtake it.
    pub reorder: f64,
    /// It is kept back: for `delay_time` if that is there, else for one to `delay_turns_max` calls of flush
    /// or receive.
    pub delay: f64,
    /// One to three of its bits are flipped.
    pub corrupt: f64,
    /// It loses its end.
    pub truncate: f64,
    /// The longest delay, in calls of flush or receive.
    pub delay_turns_max: u32,
    /// The delay in time, which depends on how fast the caller polls only in that nothing leaves between two
    /// calls.
    pub delay_time: Option<Duration>,
}

impl FaultConfig {
    /// No faults.
    pub fn none(seed: u64) -> Self {
        let (drop, duplicate, reorder, delay, corrupt, truncate) = Default::default();
        Self {
            seed,
            drop,
            duplicate,
            reorder,
            delay,
            corrupt,
            truncate,
            delay_turns_max: 64,
            delay_time: None,
        }
    }
}

crate::declare_counters! {
    /// The faults that were injected.
    pub struct FaultCounters {
        dropped: "packets" => "Packets lost on purpose",
        duplicated: "packets" => "Packets sent twice on purpose",
        reordered: "packets" => "Packets kept back so that later ones overtake them",
        delayed: "packets" => "Packets kept back for some turns or some time",
        corrupted: "packets" => "Packets with flipped bits",
        truncated: "packets" => "Packets that lost their end",
    }
}

/// A driver that breaks what it sends.
pub struct Fault<D> {
    inner: D,
    config: FaultConfig,
    random: Random,
    clock: Clock,
    held: HeldPackets,
    /// A packet while it is being altered.
    scratch: Vec<u8>,
    counters: FaultCounters,
}

/// What one packet has drawn. `fate` feeds the details of its faults.
struct Draw {
    drop: bool,
    duplicate: bool,
    reorder: bool,
    delay: bool,
    corrupt: bool,
    truncate: bool,
    fate: Random,
}

impl Draw {
    fn new(random: &mut Random, config: &FaultConfig) -> Self {
        Self {
            drop: random.chance(config.drop),
            duplicate: random.chance(config.duplicate),
            reorder: random.chance(config.reorder),
            delay: random.chance(config.delay),
            corrupt: random.chance(config.corrupt),
            truncate: random.chance(config.truncate),
            fate: Random::new(random.bits()),
        }
    }
}

impl<D: Datagram> Fault<D> {
    /// Breaks what is sent through `inner`; delays end by `clock`. The counts go to this process's counter
    /// file, under `label`.
    pub fn new(inner: D, config: FaultConfig, clock: Clock, label: &str) -> Self {
        let random = Random::new(config.seed);
        let counters = FaultCounters::new(CounterFile::process(), label);
        Self { inner, config, random, clock, held: HeldPackets::default(), scratch: Vec::new(), counters }
    }

    /// Which faults have happened so far.
    pub fn counters(&self) -> &FaultCounters {
        &self.counters
    }

    /// How many packets are being kept back.
    pub fn held_packets(&self) -> usize {
        self.held.len()
    }

    /// Changes the probabilities from the next packet on; the seed is not used again.
    pub fn set_config(&mut self, config: FaultConfig) {
        self.config = config;
    }

    /// Sends the altered copy in `scratch`, or keeps it back.
    fn send_altered(&mut self, to: Destination, priority: u8, mut draw: Draw) -> Result<(), SendError> {
        if draw.truncate && !self.scratch.is_empty() {
            self.scratch.truncate(draw.fate.below(self.scratch.len() as u64) as usize);
            self.counters.truncated.increment();
        }
        if draw.corrupt && !self.scratch.is_empty() {
            flip_bits(&mut self.scratch, &mut draw.fate);
            self.counters.corrupted.increment();
        }
        if (draw.delay || draw.reorder) && self.held.has_room() {
            self.hold(to, priority, draw);
            return Ok(());
        }
        self.inner.send(to, priority, &[&self.scratch])?;
        if draw.duplicate && self.inner.send(to, priority, &[&self.scratch]).is_ok() {
            self.counters.duplicated.increment();
        }
        Ok(())
    }

    /// Keeps the packet in `scratch` back. Of a duplicated one, the twin leaves now.
    fn hold(&mut self, to: Destination, priority: u8, mut draw: Draw) {
        let (sends_left, turns_left, leaves_at) = if draw.delay {
            self.counters.delayed.increment();
            match self.config.delay_time {
                Some(time) => (u32::MAX, u32::MAX, self.clock.now() + time),
                None => (u32::MAX, 1 + draw.fate.below(self.delay_turns_max()) as u32, Instant::NEVER),
            }
        } else {
            self.counters.reordered.increment();
            (1 + draw.fate.below(OVERTAKERS_MAX) as u32, OVERTAKEN_TURNS, Instant::NEVER)
        };
        let mut bytes = self.held.buffer();
        bytes.extend_from_slice(&self.scratch);
        if draw.duplicate && self.inner.send(to, priority, &[&bytes]).is_ok() {
            self.counters.duplicated.increment();
        }
        self.held.hold(Held { to, priority, bytes, sends_left, turns_left, leaves_at });
    }

    fn delay_turns_max(&self) -> u64 {
        u64::from(self.config.delay_turns_max.max(1))
    }

    fn release_due(&mut self) {
        let Self { inner, held, clock, .. } = self;
        if held.len() == 0 {
            return;
        }
        held.release_due(clock.now(), |packet| {
            !matches!(inner.send(packet.to, packet.priority, &[&packet.bytes]), Err(SendError::QueueFull(_)))
        });
    }
}

impl<D: Datagram> Wait for Fault<D> {
    delegate_wait!();
}

impl<D: Datagram> Datagram for Fault<D> {
    delegate_datagram!(inner: name, keep_peer, address, resolve, send_room, release, next_unreachable);

    /// What is damaged here, no fabric notices.
    fn limits(&self) -> DatagramLimits {
        DatagramLimits { checks_packets: false, ..self.inner.limits() }
    }

    fn send(&mut self, to: Destination, priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        let (bytes, mtu_bytes) = (parts.iter().map(|part| part.len()).sum(), self.inner.limits().mtu_bytes);
        if bytes > mtu_bytes {
            return Err(SendError::TooLong { bytes, mtu_bytes });
        }
        let draw = Draw::new(&mut self.random, &self.config);
        let result = if draw.drop {
            self.counters.dropped.increment();
            Ok(())
        } else if draw.duplicate || draw.reorder || draw.delay || draw.corrupt || draw.truncate {
            self.scratch.clear();
            parts.iter().for_each(|part| self.scratch.extend_from_slice(part));
            // The packet itself is not among those that overtake it.
            let held_before = self.held.len();
            let result = self.send_altered(to, priority, draw);
            if self.held.len() > held_before {
                return result;
            }
            result
        } else {
            self.inner.send(to, priority, parts)
        };
        self.held.count_send();
        self.release_due();
        result
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.held.next_leave().into_iter().chain(self.inner.next_deadline()).min()
    }

    fn flush(&mut self) {
        self.held.count_turn();
        self.release_due();
        self.inner.flush();
    }

    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        if self.held.len() > 0 {
            self.held.count_turn();
            self.release_due();
            self.inner.flush();
        }
        self.inner.receive(packets)
    }
}

fn flip_bits(bytes: &mut [u8], random: &mut Random) {
    let (count, bits) = (1 + random.below(FLIPPED_BITS_MAX), bytes.len() as u64 * 8);
    // Neighbouring bits, so that no flip undoes another (unless the packet is a single byte that wraps
    // around).
    let first = random.below(bits);
    for bit in (first..first + count).map(|bit| bit % bits) {
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests;
