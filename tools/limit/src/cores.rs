//! Which cores this process may use, and how a thread is bound to one.

use core::fmt;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A core by the number that the kernel gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Core(pub usize);

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The two cores of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CorePair {
    /// Where requests or messages come from, and where time is taken.
    pub initiator: Core,
    /// Where they are answered or received.
    pub responder: Core,
}

impl CorePair {
    /// The first two cores that this thread may use: the responder on the first, the initiator on the second.
    pub fn first_allowed() -> Result<Self, CoresError> {
        match allowed_cores()?.as_slice() {
            [responder, initiator, ..] => Ok(Self { initiator: *initiator, responder: *responder }),
            cores => Err(CoresError::TooFew { allowed: cores.len() }),
        }
    }
}

/// The cores that the calling thread may use, in ascending order.
pub fn allowed_cores() -> Result<Vec<Core>, CoresError> {
    let set = sched_getaffinity(None).map_err(|error| CoresError::Unknown { reason: error.to_string() })?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).map(Core).collect())
}

/// Binds the calling thread to one core until it is bound elsewhere.
pub fn pin_to(core: Core) -> Result<(), CoresError> {
    if core.0 >= CpuSet::MAX_CPU {
        return Err(CoresError::NotAllowed { core, reason: "no machine has that many cores".to_owned() });
    }
    let mut set = CpuSet::new();
    set.set(core.0);
    sched_setaffinity(None, &set).map_err(|error| {
        // Whatever the process may ask for, its control group has the last word, at any time.
        let is_outside = error == rustix::io::Errno::INVAL;
        let outside = "the cpuset of its control group does not have it, or not any more; widen that";
        let reason = if is_outside { outside.to_owned() } else { error.to_string() };
        CoresError::NotAllowed { core, reason }
    })
}

/// Why a thread cannot run where it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoresError {
    /// Two cores are needed: widen the affinity mask or the container's set of cores.
    #[error("measuring needs two cores, but this process may use {allowed}; widen its affinity mask")]
    TooFew {
        /// How many it may use.
        allowed: usize,
    },
    /// The core does not exist or is not allowed: choose one of the allowed cores.
    #[error("cannot run on core {core}: {reason}")]
    NotAllowed {
        /// The core asked for.
        core: Core,
        /// Why not.
        reason: String,
    },
    /// The system does not say which cores are allowed.
    #[error("cannot find out which cores this process may use: {reason}")]
    Unknown {
        /// The system's own words.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_use_that_core_only() {
        let last = *allowed_cores().expect("the mask can be read").last().expect("a thread runs somewhere");
        let cores = std::thread::spawn(move || {
            pin_to(last).expect("the core is allowed");
            allowed_cores().expect("the mask can be read")
        });
        assert_eq!(cores.join().expect("the thread ends"), [last]);
    }

    #[test]
    fn a_core_that_does_not_exist_is_refused() {
        for core in [Core(CpuSet::MAX_CPU - 1), Core(usize::MAX)] {
            assert!(matches!(pin_to(core), Err(CoresError::NotAllowed { core: named, .. }) if named == core));
        }
    }
}
