//! The same loop on the tagged messages of UCX or MPI themselves, without farcall: what our overhead is
//! measured against.
//!
//! Slots, tags and lengths, the warm-up and the place of the processes are those of
//! [`Mode::Futures`](super::Mode), and every message is read and checked as there. The processes meet at the
//! rendezvous; over MPI a launcher starts them.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::thread;

use farcall::Clock;
use farcall::bootstrap::Bootstrap;
use farcall_mpi::raw::{RawCompletion as MpiCompletion, RawMpi};
use farcall_ucx::raw::{RawCompletion as UcxCompletion, RawUcx};
use serde::{Deserialize, Serialize};

use super::receive::look_at;
use super::work::{Job, Limit, OVERHEAD_MAX, SENDER, WorkerReport, sentence};
use super::{LoopError, Share, write_number};

/// How a raw loop finds what has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Raw {
    /// MPI's function that waits for any of its requests; UCX's callbacks.
    WaitAny,
    /// MPI's function that asks whether any of its requests is done. UCX has none.
    TestAny,
    /// Each request is asked in turn.
    Test,
}

impl Raw {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WaitAny => "waitany",
            Self::TestAny => "testany",
            Self::Test => "test",
        }
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Raw {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = [Self::WaitAny, Self::TestAny, Self::Test].into_iter().find(|raw| raw.name() == name);
        known.ok_or_else(|| format!("unknown completion `{name}`; there are waitany, testany, test"))
    }
}

/// The slots of a library.
trait Slots {
    fn memory(&mut self, slot: usize) -> &mut [u8];
    fn send(&mut self, slot: usize);
    fn receive(&mut self, slot: usize);
    fn next_complete(&mut self) -> Option<usize>;
    fn progress(&mut self);
}

macro_rules! slots {
    ($($library:ty),*) => {$(
        impl Slots for $library {
            #[inline]
            fn memory(&mut self, slot: usize) -> &mut [u8] {
                <$library>::memory(self, slot)
            }

            #[inline]
            fn send(&mut self, slot: usize) {
                <$library>::send(self, slot);
            }

            #[inline]
            fn receive(&mut self, slot: usize) {
                <$library>::receive(self, slot);
            }

            #[inline]
            fn next_complete(&mut self) -> Option<usize> {
                <$library>::next_complete(self)
            }

            fn progress(&mut self) {
                <$library>::progress(self);
            }
        }
    )*};
}

slots!(RawUcx, RawMpi);

/// Does the part of one process.
pub(super) fn take_part(job: &Job, raw: Raw, bootstrap: &Bootstrap) -> Result<WorkerReport, String> {
    let rate = &job.rate;
    let share = Share::new(rate.message_bytes, rate.in_flight, rate.messages);
    let slots = share.used_slots();
    match rate.transport.as_str() {
        "ucx" => {
            let completion = match raw {
                Raw::WaitAny => UcxCompletion::Callbacks,
                Raw::Test => UcxCompletion::Check,
                Raw::TestAny => return Err("UCX asks each request: measure waitany or test".to_owned()),
            };
            let mut ucx = RawUcx::new(slots, share.message_bytes, completion).map_err(sentence)?;
            let directory = &bootstrap.directory;
            directory.publish("raw-ucx", ucx.address().map_err(sentence)?).map_err(sentence)?;
            let (to, _) = directory.resolve(1 - bootstrap.rank, "raw-ucx", OVERHEAD_MAX).map_err(sentence)?;
            ucx.connect(&to).map_err(sentence)?;
            measure(&mut ucx, bootstrap, job, share)
        }
        "mpi" => {
            let completion = match raw {
                Raw::WaitAny => MpiCompletion::WaitAny,
                Raw::TestAny => MpiCompletion::TestAny,
                Raw::Test => MpiCompletion::Test,
            };
            let mut mpi = RawMpi::new(slots, share.message_bytes, completion).map_err(sentence)?;
            measure(&mut mpi, bootstrap, job, share)
        }
        other => Err(format!("there is no raw loop over {other}, only over ucx and mpi")),
    }
}

fn measure(
    slots: &mut impl Slots,
    bootstrap: &Bootstrap,
    job: &Job,
    share: Share,
) -> Result<WorkerReport, String> {
    let warm_up = share.warm_up();
    let mut elapsed = Duration::ZERO;
    for (name, share) in [("warm-up", warm_up), ("measured", share)] {
        let mut limit = Limit::new(job.rate.lasting, job.shares_cores);
        let is_sender = bootstrap.rank == SENDER;
        if !is_sender {
            (0..share.used_slots()).for_each(|slot| slots.receive(slot));
        }
        meet(slots, bootstrap, &format!("{name} begins"))?;
        let clock = Clock::new();
        let begun = clock.now();
        let done = if is_sender { send(slots, share, &mut limit) } else { receive(slots, share, &mut limit) };
        done.map_err(sentence)?;
        elapsed = clock.now() - begun;
        meet(slots, bootstrap, &format!("{name} ends"))?;
    }
    let traces = Vec::new();
    Ok(match bootstrap.rank {
        SENDER => WorkerReport::Sender { traces },
        _ => WorkerReport::Receiver { elapsed, traces },
    })
}

/// Waits for the other process, and lets the library work meanwhile.
fn meet(slots: &mut impl Slots, bootstrap: &Bootstrap, name: &str) -> Result<(), String> {
    let directory = &*bootstrap.directory;
    thread::scope(|scope| {
        let barrier = scope.spawn(|| directory.barrier(name, OVERHEAD_MAX));
        while !barrier.is_finished() {
            slots.progress();
            thread::yield_now();
        }
        barrier.join().map_err(|_| "a thread panicked".to_owned())?.map_err(sentence)
    })
}

fn send(slots: &mut impl Slots, share: Share, limit: &mut Limit) -> Result<(), LoopError> {
    let mut begun = vec![0_u64; share.used_slots()];
    let mut in_flight = begun.len();
    (0..in_flight).for_each(|slot| send_next(slots, slot, &mut begun));
    while in_flight > 0 {
        let complete = slots.next_complete();
        if let Some(slot) = complete {
            if begun[slot] < share.of_slot(slot) {
                send_next(slots, slot, &mut begun);
            } else {
                in_flight -= 1;
            }
        }
        limit.look(usize::from(complete.is_some()))?;
    }
    Ok(())
}

#[inline]
fn send_next(slots: &mut impl Slots, slot: usize, begun: &mut [u64]) {
    write_number(slots.memory(slot), begun[slot]);
    slots.send(slot);
    begun[slot] += 1;
}

/// The first receive of every slot is posted already.
fn receive(slots: &mut impl Slots, share: Share, limit: &mut Limit) -> Result<(), LoopError> {
    let mut received = vec![0_u64; share.used_slots()];
    let mut in_flight = received.len();
    while in_flight > 0 {
        let complete = slots.next_complete();
        if let Some(slot) = complete {
            if !look_at(slots.memory(slot), &share, received[slot]) {
                return Err(LoopError::Wrong);
            }
            received[slot] += 1;
            if received[slot] < share.of_slot(slot) {
                slots.receive(slot);
            } else {
                in_flight -= 1;
            }
        }
        limit.look(usize::from(complete.is_some()))?;
    }
    Ok(())
}
