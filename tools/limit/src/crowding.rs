//! Whether others use the cores of a measurement, too: as the other thread of the same core.
//!
//! A core adds several words in a cycle if none waits for another, and of a chain one. While another thread
//! of that core works, the chain is as fast as before, and what is independent takes up to twice as long. So
//! the ratio of the two says how much of a core is there, whatever its clock does meanwhile. On a virtual
//! machine that comes and goes within a second: what is bound by instructions is then slower, and what waits
//! for cache lines is not, so that even a ratio to a bare loop changes.
//!
//! What is added lies in a register. Constants are added by Intel's cores since Golden Cove (2021) when they
//! rename registers, six in a cycle whether or not one waits for another, so that a core would always seem to
//! be shared.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "a compiler would add at once what is added in many steps")
)]

use std::time::Instant;

use crate::pair::run_pair;
use crate::{CorePair, LimitError};

/// How often both are timed; the median is what counts, since now and then an interrupt falls into one.
const ROUNDS: usize = 15;

/// Steps of a round, of 64 additions each: some ten microseconds, so that steps of the clock are of no
/// account.
const STEPS: usize = 400;

/// The largest ratio of a core that nobody else uses. Server cores have had four adders or more since 2013
/// (Haswell, Zen), which is a quarter; of a core with another busy thread it is up to a half.
const ALONE_MAX: f64 = 0.3;

/// How much of their cores the two sides have: the time of independent additions over that of as many
/// dependent ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowding {
    /// On the initiator's core.
    pub initiator: f64,
    /// On the responder's.
    pub responder: f64,
}

impl Crowding {
    /// Whether somebody else uses one of the cores; the two sides each other's, if they are threads of one
    /// core.
    pub fn is_crowded(&self) -> bool {
        self.initiator.max(self.responder) > ALONE_MAX
    }
}

/// Measures both cores at the same time, for about half a millisecond. `None` on processors for which it is
/// not written.
pub fn crowding(cores: CorePair) -> Result<Option<Crowding>, LimitError> {
    let (initiator, responder) = run_pair(cores, ratio, ratio)?;
    Ok(initiator.zip(responder).map(|(initiator, responder)| Crowding { initiator, responder }))
}

/// The median ratio on this core.
fn ratio() -> Option<f64> {
    let nanos = |add: fn()| {
        let begun = Instant::now();
        (0..STEPS).for_each(|_| add());
        begun.elapsed().as_nanos() as f64
    };
    let mut ratios: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let chain = nanos(add_in_a_chain);
            nanos(add_independently) / chain
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    cfg!(target_arch = "x86_64").then(|| ratios[ROUNDS / 2])
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn add_in_a_chain() {
    // SAFETY: writes one register, which it says.
    unsafe {
        core::arch::asm!(
            ".rept 64", "add r8, rcx", ".endr",
            in("rcx") 1_u64, out("r8") _, options(nomem, nostack),
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn add_independently() {
    // SAFETY: writes eight registers, which it says.
    unsafe {
        core::arch::asm!(
            ".rept 8",
            "add r8, rcx", "add r9, rcx", "add r10, rcx", "add r11, rcx",
            "add r12, rcx", "add r13, rcx", "add r14, rcx", "add r15, rcx",
            ".endr",
            in("rcx") 1_u64,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            options(nomem, nostack),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn add_in_a_chain() {}

#[cfg(not(target_arch = "x86_64"))]
fn add_independently() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_crowded_when_one_side_is() {
        let of = |initiator, responder| Crowding { initiator, responder }.is_crowded();
        assert_eq!([of(0.25, 0.2), of(0.25, 0.45), of(0.45, 0.25)], [false, true, true]);
    }

    #[test]
    fn both_cores_are_measured() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let crowding = crowding(cores).expect("the loops run");
        assert_eq!(crowding.is_some(), cfg!(target_arch = "x86_64"));
        if let Some(Crowding { initiator, responder }) = crowding {
            assert!(initiator.is_finite() && initiator > 0.0 && responder.is_finite() && responder > 0.0);
        }
    }
}
