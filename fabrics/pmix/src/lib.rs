//! What a launcher tells its processes: how many they are, which one this is, and one text that rank 0 tells
//! all.
//!
//! `mpirun` of Open MPI, `prterun` and `srun --mpi=pmix` speak PMIx, the Process Management Interface for
//! Exascale; `mpirun` of MPICH and `srun --mpi=pmi2` speak PMI 1 ([`PmiJob`]). Only so much of it is used as
//! is needed to find farcall's own rendezvous; no traffic passes through it. The library is opened when the
//! environment says that such a launcher started this process, and not linked.

mod ffi;
mod launcher;
mod pmi;

use core::ffi::{CStr, c_void};
use core::ptr::{null, null_mut};
use core::time::Duration;
use std::ffi::CString;
use std::sync::OnceLock;

use ffi::*;
pub use launcher::watched;
pub use pmi::{PmiJob, pmi_job};

/// Launchers that speak PMIx set it for their processes.
const NAMESPACE_VARIABLE: &str = "PMIX_NAMESPACE";

/// The key under which rank 0 tells its text.
const KEY: &CStr = c"farcall.rendezvous";

/// Why the launcher cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PmixError {
    /// The launcher speaks PMIx, and there is no library for it.
    #[error(
        "this process was started by a launcher that speaks PMIx, whose library cannot be opened ({why}); install it \
         (Debian: libpmix2), or set FARCALL_RENDEZVOUS, FARCALL_RANK and FARCALL_SIZE"
    )]
    Absent {
        /// What the system says.
        why: String,
    },
    /// The launcher's answer was an error.
    #[error(
        "the launcher refuses {what} (PMIx error {code}); start the process with it again, or unset PMIX_NAMESPACE \
         where it is gone"
    )]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// PMIx's number for the reason.
        code: i32,
    },
    /// Rank 0 told what is no text.
    #[error("the launcher passed on what rank 0 did not say")]
    NotText,
}

/// The processes that a launcher started together, seen from one of them.
pub struct Job {
    api: Api,
    this: Process,
    /// This process's rank, from 0.
    pub rank: u32,
    /// How many there are.
    pub size: u32,
    /// Whether all of them are on this machine.
    pub is_local: bool,
}

/// The job that this process belongs to; `None` when no launcher that speaks PMIx started it.
pub fn job() -> Result<Option<&'static Job>, PmixError> {
    static JOB: OnceLock<Result<Job, PmixError>> = OnceLock::new();
    if std::env::var_os(NAMESPACE_VARIABLE).is_none() {
        return Ok(None);
    }
    JOB.get_or_init(Job::join).as_ref().map(Some).map_err(PmixError::clone)
}

#[expect(unsafe_code, reason = "calls of PMIx")]
impl Job {
    fn join() -> Result<Self, PmixError> {
        let api = Api::open().map_err(|error| PmixError::Absent { why: error.to_string() })?;
        let mut this = Process::default();
        // SAFETY: called once, with room for the answer.
        check(watched(|| unsafe { (api.init)(&mut this, null_mut(), 0) }), "to take part")?;
        // SAFETY: the function has the required type. A failure means that the launcher does not learn of a
        // normal end.
        unsafe { libc::atexit(finalize) };
        let rank = this.rank;
        let mut job = Self { api, this, rank, size: 0, is_local: false };
        let everybody = this.with_rank(RANK_WILDCARD);
        job.size = job.get_number(&everybody, c"pmix.job.size")?;
        // Not every launcher says so.
        job.is_local = job.get_number(&everybody, c"pmix.local.size").is_ok_and(|local| local == job.size);
        Ok(job)
    }

    /// Gives every process the text that rank 0 has. Each must call it once; it returns when all have, or
    /// when the launcher finds that it takes longer than `within`.
    pub fn share(&self, text: Option<&str>, within: Duration) -> Result<String, PmixError> {
        if let Some(text) = text {
            let text = CString::new(text).map_err(|_| PmixError::NotText)?;
            let mut value = Value::string(&text);
            // SAFETY: the key and the value are copied during the call.
            check(unsafe { (self.api.put)(SCOPE_GLOBAL, KEY.as_ptr(), &mut value) }, "to take a text")?;
            // SAFETY: no arguments.
            check(unsafe { (self.api.commit)() }, "to pass a text on")?;
        }
        let seconds = i32::try_from(within.as_secs()).unwrap_or(i32::MAX);
        let collect = [Info::flag(c"pmix.collect"), Info::integer(c"pmix.timeout", seconds)];
        // SAFETY: null stands for all processes; the array has as many entries as are named.
        let fenced = watched(|| unsafe { (self.api.fence)(null(), 0, collect.as_ptr(), collect.len()) });
        check(fenced, "to gather all processes in time")?;
        self.get_text(&self.this.with_rank(0))
    }

    fn get_number(&self, of: &Process, key: &CStr) -> Result<u32, PmixError> {
        let value = self.get(of, key, "a number")?;
        // SAFETY: PMIx gave the value; it is read and freed once.
        let number = unsafe {
            let number = (*value).number();
            libc::free(value.cast());
            number
        };
        number.ok_or(PmixError::NotText)
    }

    fn get_text(&self, of: &Process) -> Result<String, PmixError> {
        let value = self.get(of, KEY, "the text of rank 0")?;
        // SAFETY: PMIx gave the value and its string; both are read and freed once.
        unsafe {
            let string = (*value).as_string();
            libc::free(value.cast());
            let string = string.ok_or(PmixError::NotText)?;
            let text = CStr::from_ptr(string).to_str().map(str::to_owned);
            libc::free(string.cast_mut().cast::<c_void>());
            text.map_err(|_| PmixError::NotText)
        }
    }

    fn get(&self, of: &Process, key: &CStr, what: &'static str) -> Result<*mut Value, PmixError> {
        let mut value = null_mut();
        // SAFETY: null stands for no further wishes; the value is written when the code is good.
        check(unsafe { (self.api.get)(of, key.as_ptr(), null(), 0, &mut value) }, what)?;
        Ok(value)
    }
}

fn check(code: i32, what: &'static str) -> Result<(), PmixError> {
    if code == SUCCESS { Ok(()) } else { Err(PmixError::Refused { what, code }) }
}

/// Launchers take a process that ends without this for one that crashed.
extern "C" fn finalize() {
    if let Ok(Some(job)) = job() {
        // SAFETY: registered only after PMIx was started, and run once, when the process exits.
        #[expect(unsafe_code, reason = "a call of PMIx")]
        let _code = unsafe { (job.api.finalize)(null(), 0) };
    }
}
