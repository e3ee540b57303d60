//! MPI as a library of messages, all of which travel composed: the length of the head in one byte, the head,
//! and the payload.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::Instant as WallTime;

use farcall_base::Instant;
use farcall_base::{Address, AddressError, Principal};
use farcall_driver::clock::Clock;
use farcall_driver::{Destination, Wait};
use farcall_transport::{Backlog, COMPOSED_FRONT_BYTES_MAX, Library, Outgoing, Spares, compose};

use crate::api::{Handle, MpiThreads, Started, do_not_finalize, started};
use crate::operations::{Operation, Progress, Queue};
use crate::receives::{Looks, MpiArrival, Receives, SHORT_BYTES_MAX, announce};

/// The most endpoints of one process: every MPI has this many tags.
const ENDPOINTS_MAX: u32 = 32_768;
/// What Open MPI sends through shared memory without asking first: 4 KiB (`btl_vader_eager_limit`), headers
/// of its own included.
const EAGER_BYTES_MAX: usize = (4 << 10) - 64;
/// The time between two looks of an endpoint that blocks.
const NAP: Duration = Duration::from_micros(50);
/// How long an endpoint that is dropped waits for its last messages to leave.
const LINGER: Duration = Duration::from_millis(100);
const ADDRESS_BYTES: usize = 16;

/// How an instance is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpiConfig {
    /// The longest payload that is accepted, in bytes.
    pub payload_bytes_max: usize,
    /// How many threads of the process call MPI, which whoever makes the first endpoint decides, unless the
    /// program has started MPI.
    pub threads: MpiThreads,
    /// A number drawn at random; that of rank 0's first endpoint names the launch.
    pub drawn: u64,
}

/// Why there is no instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MpiError {
    /// No library, or one that cannot be used.
    #[error("{why}")]
    Unusable {
        /// What is wrong, and what to do.
        why: &'static str,
    },
    /// The process has had as many as MPI has tags.
    #[error("this process has had {ENDPOINTS_MAX} endpoints over MPI, the limit")]
    TooMany,
    /// MPI is not for several threads, and there is an endpoint.
    #[error("MPI was started for one endpoint at a time (mpi.threads=single), and this process has one")]
    HasOne,
}

/// One endpoint: the messages with one tag.
pub struct Mpi {
    mpi: &'static Started,
    tag: c_int,
    /// Where destinations lead: rank and tag. Numbers are never used again.
    destinations: Vec<(u32, c_int)>,
    /// One for each rank with sends in flight.
    sends: Vec<Queue>,
    receives: Receives,
    looks: Looks,
    clock: Clock,
    arrivals: VecDeque<MpiArrival>,
    lost: Vec<Destination>,
    spares: Spares,
    payload_bytes_max: usize,
    naps: bool,
    /// Held as long as MPI is used.
    _only_one: Option<OnlyOne>,
}

/// What the only endpoint has in a process whose MPI is not for several threads.
struct OnlyOne;

static HAS_ONE: AtomicBool = AtomicBool::new(false);

impl OnlyOne {
    fn take() -> Option<Self> {
        // Whoever had it before is done with MPI when this thread begins.
        (!HAS_ONE.swap(true, Ordering::Acquire)).then_some(Self)
    }
}

impl Drop for OnlyOne {
    fn drop(&mut self) {
        HAS_ONE.store(false, Ordering::Release);
    }
}

impl Mpi {
    /// A new endpoint; the first one of a process starts MPI, which waits for all processes of the launch to
    /// do so.
    pub fn new(config: &MpiConfig) -> Result<Self, MpiError> {
        static ENDPOINTS: AtomicU32 = AtomicU32::new(0);
        let mpi = started(config.drawn, config.threads).map_err(|why| MpiError::Unusable { why })?;
        let only_one = mpi.is_for_one().then(|| OnlyOne::take().ok_or(MpiError::HasOne)).transpose()?;
        let tag = ENDPOINTS.fetch_add(1, Ordering::Relaxed);
        if tag >= ENDPOINTS_MAX {
            return Err(MpiError::TooMany);
        }
        let (tag, clock) = (tag as c_int, Clock::new());
        Ok(Self {
            mpi,
            tag,
            destinations: Vec::new(),
            sends: Vec::new(),
            receives: Receives::new(mpi, tag, COMPOSED_FRONT_BYTES_MAX + config.payload_bytes_max),
            looks: Looks::new(clock.now()),
            clock,
            arrivals: VecDeque::new(),
            lost: Vec::new(),
            spares: Spares::default(),
            payload_bytes_max: config.payload_bytes_max,
            naps: false,
            _only_one: only_one,
        })
    }

    /// Drops what was sent; returns how much that was.
    fn settle_sends(&mut self) -> usize {
        let (mut done, mut place) = (0, 0);
        while place < self.sends.len() {
            let queue = &mut self.sends[place];
            let (settled, all_well) = queue.settle(self.mpi, &mut self.spares);
            done += settled;
            if !all_well {
                let of_rank = (0..).zip(&self.destinations).filter(|(_, to)| to.0 == queue.rank);
                self.lost.extend(of_rank.map(|(number, _)| Destination(number)));
            }
            if queue.operations.is_empty() {
                self.sends.swap_remove(place);
            } else {
                place += 1;
            }
        }
        done
    }

    /// Gives a message to MPI; one that no receive is posted for follows its announcement.
    #[inline]
    fn transmit(&mut self, to: Destination, memory: Vec<u8>) {
        let Some(&(rank, tag)) = self.destinations.get(to.0 as usize) else { return };
        if memory.len() <= SHORT_BYTES_MAX {
            return self.begin_send(to, self.mpi.communicator, (rank, tag), memory);
        }
        let mut announcement = self.spares.take(0);
        announce(&mut announcement, self.mpi.rank, memory.len());
        self.begin_send(to, self.mpi.communicator, (rank, tag), announcement);
        self.begin_send(to, self.mpi.long, (rank, tag), memory);
    }

    #[inline]
    fn begin_send(&mut self, to: Destination, on: Handle, (rank, tag): (u32, c_int), memory: Vec<u8>) {
        self.looks.note_send();
        let Some(send) = Operation::send(self.mpi, on, (rank, tag), memory) else {
            return self.lost.push(to);
        };
        match send.test(self.mpi) {
            Progress::Pending(send) => match self.sends.iter_mut().find(|queue| queue.rank == rank) {
                Some(queue) => queue.operations.push_back(send),
                None => self.sends.push(Queue { rank, operations: VecDeque::from([send]) }),
            },
            Progress::Done(memory, _) => self.spares.keep(memory),
            Progress::Failed => self.lost.push(to),
        }
    }
}

impl Library for Mpi {
    type Arrival = MpiArrival;

    fn name(&self) -> &'static str {
        "mpi"
    }

    fn payload_bytes_max(&self) -> usize {
        // MPI counts with 32 bits and a sign.
        self.payload_bytes_max.min(i32::MAX as usize - COMPOSED_FRONT_BYTES_MAX)
    }

    fn short_bytes_max(&self) -> usize {
        EAGER_BYTES_MAX
    }

    fn address(&self) -> Address {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..8].copy_from_slice(&self.mpi.universe.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.mpi.rank.to_le_bytes());
        bytes[12..].copy_from_slice(&self.tag.to_le_bytes());
        Address::new(bytes).expect("it is short")
    }

    fn resolve(&mut self, to: &Address) -> Result<Destination, AddressError> {
        let wrong_kind = AddressError::WrongKind { driver: "mpi" };
        let bytes: &[u8; ADDRESS_BYTES] = to.as_bytes().try_into().map_err(|_| wrong_kind)?;
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes[..8] != self.mpi.universe.to_le_bytes() {
            let why = "MPI connects only processes that one launcher, such as mpirun, started together";
            return Err(AddressError::OutOfReach { why });
        }
        let to = (number(8), number(12) as c_int);
        let known = self.destinations.iter().position(|&known| known == to);
        let place = known.unwrap_or_else(|| {
            self.destinations.push(to);
            self.destinations.len() - 1
        });
        Ok(Destination(place as u32))
    }

    /// It proves nothing.
    fn principal(&self, _of: Destination) -> Principal {
        Principal::Unproven
    }

    fn forget(&mut self, _: Destination) {}

    fn send(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        let mut message = self.spares.take(payload.len());
        compose(&mut message, head);
        message.extend_from_slice(payload.as_slice());
        self.transmit(to, message);
    }

    fn send_behind(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>) {
        self.send(to, head, payload);
    }

    fn send_composed(&mut self, to: Destination, message: &mut Vec<u8>) {
        let message = core::mem::replace(message, self.spares.take(0));
        self.transmit(to, message);
    }

    fn backlog(&self, to: Destination) -> Backlog {
        let waits_for = |rank| self.sends.iter().any(|queue| queue.rank == rank);
        match self.destinations.get(to.0 as usize) {
            Some(&(rank, _)) if waits_for(rank) => Backlog::Some,
            Some(_) | None => Backlog::None,
        }
    }

    fn progress(&mut self) -> usize {
        let Self { mpi, receives, arrivals, .. } = self;
        let mut done = receives.look_at_long(mpi, arrivals);
        if !self.sends.is_empty() {
            done += self.settle_sends();
        }
        if self.looks.is_due(|| self.clock.now()) {
            done += self.receives.look(self.mpi, &mut self.arrivals, &mut self.spares);
        }
        done
    }

    #[inline]
    fn next_arrival(&mut self) -> Option<MpiArrival> {
        self.arrivals.pop_front()
    }

    #[inline]
    fn release(&mut self, arrival: MpiArrival) {
        self.receives.release(arrival, &mut self.spares);
    }

    fn next_loss(&mut self) -> Option<Destination> {
        self.lost.pop()
    }

    fn presume_dead(&mut self, _: Destination) {
        do_not_finalize();
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.naps.then(|| now + NAP)
    }
}

impl Wait for Mpi {
    fn prepare_wait(&mut self) {
        self.naps = true;
    }

    fn finish_wait(&mut self) {
        self.naps = false;
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }
}

/// The last messages, such as the good-bye, get a moment to leave.
impl Drop for Mpi {
    fn drop(&mut self) {
        let give_up_at = WallTime::now() + LINGER;
        while !self.sends.is_empty() && WallTime::now() < give_up_at {
            self.settle_sends();
        }
        self.sends.drain(..).flat_map(|queue| queue.operations).for_each(Operation::leak);
        self.receives.withdraw(self.mpi);
    }
}
