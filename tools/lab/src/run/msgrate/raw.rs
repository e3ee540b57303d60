//! The same loop on the tagged messages of UCX or MPI themselves, without farcall: what our overhead is
//! measured against.
//!
//! Slots, tags and lengths, the warm-up and the place of the processes are those of
//! [`Mode::Futures`](super::Mode), and every message is read and checked as there. The processes meet at the
//! rendezvous; over MPI a launcher starts them.

use core::time::Duration;
use std::thread;

use farcall::Clock;
use farcall::bootstrap::Bootstrap;
use farcall_limit::raw::{MpiCompletion, RawMpi, RawSlots, RawUcx, UcxCompletion};
use serde::{Deserialize, Serialize};

use super::receive::look_at;
use super::work::{Job, Limit, OVERHEAD_MAX, SENDER, WorkerReport, sentence};
use super::{LoopError, Share, SideFound, write_number};
use crate::run::beside;

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

farcall_base::named!(Raw: WaitAny = "waitany", TestAny = "testany", Test = "test");

/// Does the part of one process.
pub(super) fn take_part(job: &Job, raw: Raw, bootstrap: &Bootstrap) -> Result<WorkerReport, String> {
    let rate = &job.rate;
    let share = Share::new(rate, rate.messages);
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
    slots: &mut impl RawSlots,
    bootstrap: &Bootstrap,
    job: &Job,
    share: Share,
) -> Result<WorkerReport, String> {
    let warm_up = share.warm_up();
    let mut elapsed = Duration::ZERO;
    for (name, share) in [("warm-up", warm_up), ("measured", share)] {
        let mut limit = Limit::new(job.rate.lasting, job.shares_cores, false);
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
    // A library counts for itself.
    let (found, traces) = (SideFound::default(), Vec::new());
    Ok(match bootstrap.rank {
        SENDER => WorkerReport::Sender { found, traces },
        _ => WorkerReport::Receiver { elapsed, found, traces },
    })
}

/// Waits for the other process, and lets the library work meanwhile.
fn meet(slots: &mut impl RawSlots, bootstrap: &Bootstrap, name: &str) -> Result<(), String> {
    let directory = &*bootstrap.directory;
    thread::scope(|scope| {
        let barrier = beside::spawn_scoped(scope, || directory.barrier(name, OVERHEAD_MAX))?;
        while !barrier.is_finished() {
            slots.progress();
            thread::yield_now();
        }
        barrier.join().map_err(|_| "a thread panicked".to_owned())?.map_err(sentence)
    })
}

fn send(slots: &mut impl RawSlots, share: Share, limit: &mut Limit) -> Result<(), LoopError> {
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
fn send_next(slots: &mut impl RawSlots, slot: usize, begun: &mut [u64]) {
    write_number(slots.memory(slot), begun[slot]);
    slots.send(slot);
    begun[slot] += 1;
}

/// The first receive of every slot is posted already.
fn receive(slots: &mut impl RawSlots, share: Share, limit: &mut Limit) -> Result<(), LoopError> {
    let mut received = vec![0_u64; share.used_slots()];
    let mut in_flight = received.len();
    while in_flight > 0 {
        let complete = slots.next_complete();
        if let Some(slot) = complete {
            if !look_at::<false>(slots.memory(slot), &share, received[slot]) {
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
