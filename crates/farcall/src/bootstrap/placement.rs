//! Where a process is to run, and whom it must not outlive.

use std::ffi::OsString;
use std::sync::OnceLock;

use farcall_driver::CounterFile;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::LaunchError;
use super::variables::{CORE_VARIABLE, PARENT_VARIABLE, read};

/// What the parent process asks of this one, besides its rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The process that this one must not outlive.
    pub parent: Option<u32>,
    /// The core that the starting thread is to run on.
    pub core: Option<u32>,
}

impl Placement {
    /// The placement that this process's environment gives.
    pub fn from_env() -> Result<Self, LaunchError> {
        Self::from_lookup(|variable| std::env::var_os(variable))
    }

    /// The placement that the variables in `lookup` give.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, LaunchError> {
        let process =
            |text: &str| text.parse().ok().filter(|process| (1..=i32::MAX as u32).contains(process));
        let core = |text: &str| text.parse().ok().filter(|core| *core < CORES_MAX);
        Ok(Self {
            parent: read(&lookup, PARENT_VARIABLE, "a process id", process)?,
            core: read(&lookup, CORE_VARIABLE, "the number of a core from 0 to 1023", core)?,
        })
    }

    /// Has the kernel kill this process when its parent dies.
    pub(super) fn tie_to_parent(self) -> Result<(), PlacementError> {
        let Some(parent) = self.parent else { return Ok(()) };
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| PlacementError::Parent { reason: error.to_string() })?;
        // Asked after the kernel was told: a parent that dies from here on is noticed.
        let present = getppid().map(Pid::as_raw_nonzero).map(|process| process.get().unsigned_abs());
        if present == Some(parent) { Ok(()) } else { Err(PlacementError::ParentGone { parent }) }
    }

    /// Keeps the calling thread, and those that it will start, on the core that was asked for.
    pub(super) fn pin(self) -> Result<(), PlacementError> {
        let Some(core) = self.core else { return Ok(()) };
        let mut cores = CpuSet::new();
        cores.set(core as usize);
        sched_setaffinity(None, &cores)
            .map_err(|error| PlacementError::Core { core, reason: why_not(error) })?;
        // Kept for the life of the process: who looks at it from outside compares it with what it may use.
        static COUNTERS: OnceLock<PlacementCounters> = OnceLock::new();
        let counters = COUNTERS.get_or_init(|| PlacementCounters::new(CounterFile::process(), "placement"));
        counters.core.set(u64::from(core));
        Ok(())
    }
}

/// Why a core is refused: whatever a process asks for, its control group has the last word.
fn why_not(error: rustix::io::Errno) -> String {
    match error {
        rustix::io::Errno::INVAL => "the cpuset of its control group does not have it".to_owned(),
        error => error.to_string(),
    }
}

farcall_driver::declare_counters! {
    /// Where this process was placed, under the label `placement`.
    pub struct PlacementCounters {
        core: "number" => "The core that FARCALL_CORE has put it on; others may have taken that away by now",
    }
}

/// Why a process cannot run as it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The process that started this one is gone, or another one started it in between.
    #[error(
        "process {parent}, which FARCALL_PARENT names, is not the parent of this one; unset FARCALL_PARENT"
    )]
    ParentGone {
        /// The process named.
        parent: u32,
    },
    /// The kernel does not tie the processes together.
    #[error("cannot make this process end with its parent: {reason}; unset FARCALL_PARENT")]
    Parent {
        /// The system's own words.
        reason: String,
    },
    /// The core does not exist or is not allowed.
    #[error("cannot run on core {core}: {reason}; set FARCALL_CORE to a core that this process may use")]
    Core {
        /// The core asked for.
        core: u32,
        /// Why not.
        reason: String,
    },
}

/// Cores that a processor set of the operating system can name.
const CORES_MAX: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_is_a_process_and_a_core() {
        let parse = |variables: &[(&str, &str)]| {
            Placement::from_lookup(|wanted| {
                variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.into())
            })
        };
        assert_eq!(parse(&[]), Ok(Placement::default()));
        let both = parse(&[(PARENT_VARIABLE, "4711"), (CORE_VARIABLE, "1")]);
        assert_eq!(both, Ok(Placement { parent: Some(4711), core: Some(1) }));
        for (variable, text) in [(PARENT_VARIABLE, "0"), (PARENT_VARIABLE, "me"), (CORE_VARIABLE, "1024")] {
            let error = parse(&[(variable, text)]).expect_err("the variable is wrong").to_string();
            assert!(error.starts_with(&format!("{variable}=`{text}` is not ")), "{error}");
        }
    }
}
