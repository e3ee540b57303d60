//! The limits of this process, which programs that are started in the same way have, too.

use rustix::process::{Resource, getrlimit, getuid};

use super::finding::Finding;
use super::kernel::Kernel;
use super::size;

/// Open files below which a small cluster does not start, and below which a server of thousands ends early.
const FILES_MIN: u64 = 64;
const FILES_PLENTY: u64 = 4096;

/// Threads and processes below which programs fail to start.
const THREADS_MIN: u64 = 64;

/// Memory that one RDMA endpoint registers or less.
const PINNED_BYTES_MIN: u64 = 64 << 20;

/// Address space in which rings and blocks of some peers fit.
const SPACE_BYTES_MIN: u64 = 4 << 30;

/// The longest file that shared memory is made of, of a session with long messages.
const FILE_BYTES_MIN: u64 = 1 << 30;

/// The capabilities that lift limits, by their bits.
const CAPABILITY_RESOURCE: u32 = 24;
const CAPABILITY_LOCK: u32 = 14;

/// The limits that count, and what they count for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Soft and hard; `None` is without limit.
    files: (Option<u64>, Option<u64>),
    locked: Option<u64>,
    threads: Option<u64>,
    space: Option<u64>,
    file: Option<u64>,
    /// Whether this process may lock memory without limit.
    may_lock: bool,
    /// Whether the limit on threads is none for this process.
    may_start: bool,
    /// Whether there are RDMA devices, which pin memory.
    pins: bool,
}

impl Limits {
    /// Those of this process, on a machine with or without RDMA devices.
    pub fn of_this_process(kernel: &Kernel, pins: bool) -> Self {
        let capabilities = kernel.field("/proc/self/status", "CapEff");
        let bits = capabilities.and_then(|text| u64::from_str_radix(&text, 16).ok()).unwrap_or(0);
        let may = |bit: u32| bits >> bit & 1 == 1;
        let soft = |resource| getrlimit(resource).current;
        let files = getrlimit(Resource::Nofile);
        Self {
            files: (files.current, files.maximum),
            locked: soft(Resource::Memlock),
            threads: soft(Resource::Nproc),
            space: soft(Resource::As),
            file: soft(Resource::Fsize),
            may_lock: may(CAPABILITY_LOCK),
            may_start: getuid().is_root() || may(CAPABILITY_RESOURCE),
            pins,
        }
    }

    /// What is to be said of them.
    pub fn findings(&self) -> Vec<Finding> {
        vec![self.files(), self.locked(), self.threads(), self.space(), self.file()]
    }

    fn files(&self) -> Finding {
        const SUBJECT: &str = "open files (nofile)";
        const ADVICE: &str = "ulimit -n 1048576, or LimitNOFILE= of the service: each session takes some";
        let (soft, hard) = self.files;
        let state = match (soft, hard) {
            (None, _) => return Finding::good(SUBJECT, "unlimited"),
            (Some(soft), Some(hard)) if hard > soft => format!("{soft}, which may be raised to {hard}"),
            (Some(soft), None) => format!("{soft}, which may be raised"),
            (Some(soft), Some(_)) => soft.to_string(),
        };
        match soft {
            Some(few) if few < FILES_MIN => Finding::mend(SUBJECT, state, ADVICE),
            Some(some) if some < FILES_PLENTY => Finding::warning(SUBJECT, state, ADVICE),
            _ => Finding::good(SUBJECT, state),
        }
    }

    fn locked(&self) -> Finding {
        const SUBJECT: &str = "locked memory (memlock)";
        const ADVICE: &str = "ulimit -l unlimited, or memlock in /etc/security/limits.conf, or LimitMEMLOCK=";
        match self.locked {
            None => Finding::good(SUBJECT, "unlimited"),
            Some(bytes) if self.may_lock => {
                Finding::good(SUBJECT, format!("{}, lifted by CAP_IPC_LOCK", size(bytes)))
            }
            Some(bytes) if bytes >= PINNED_BYTES_MIN => Finding::good(SUBJECT, size(bytes)),
            Some(bytes) if self.pins => Finding::mend(
                SUBJECT,
                format!("{}, and the RDMA devices here pin what they send and receive", size(bytes)),
                ADVICE,
            ),
            Some(bytes) => {
                Finding::note(SUBJECT, format!("{}; only RDMA needs more, and is not here", size(bytes)))
            }
        }
    }

    fn threads(&self) -> Finding {
        const SUBJECT: &str = "threads and processes (nproc)";
        match self.threads {
            None => Finding::good(SUBJECT, "unlimited"),
            Some(number) if self.may_start => Finding::good(SUBJECT, format!("{number}, not for root")),
            Some(number) if number < THREADS_MIN => Finding::warning(
                SUBJECT,
                format!("{number}, of all programs of this user together"),
                "ulimit -u 4096, or TasksMax= of the service",
            ),
            Some(number) => Finding::good(SUBJECT, number.to_string()),
        }
    }

    fn space(&self) -> Finding {
        const SUBJECT: &str = "address space (as)";
        match self.space {
            None => Finding::good(SUBJECT, "unlimited"),
            Some(bytes) if bytes < SPACE_BYTES_MIN => Finding::warning(
                SUBJECT,
                format!("{}: memory of every peer is mapped, used or not", size(bytes)),
                "ulimit -v unlimited, or LimitAS=; limit the memory by a cgroup instead",
            ),
            Some(bytes) => Finding::note(SUBJECT, size(bytes)),
        }
    }

    fn file(&self) -> Finding {
        const SUBJECT: &str = "length of files (fsize)";
        match self.file {
            None => Finding::good(SUBJECT, "unlimited"),
            Some(bytes) if bytes < FILE_BYTES_MIN => Finding::warning(
                SUBJECT,
                format!("{}: memory that processes share is a file to the kernel", size(bytes)),
                "ulimit -f unlimited, or LimitFSIZE=infinity",
            ),
            Some(bytes) => Finding::note(SUBJECT, size(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    const FREE: Limits = Limits {
        files: (None, None),
        locked: None,
        threads: None,
        space: None,
        file: None,
        may_lock: false,
        may_start: false,
        pins: false,
    };

    fn worst(limits: Limits) -> (Severity, String) {
        let findings = limits.findings();
        let worst = findings.into_iter().max_by_key(|finding| finding.severity).expect("there are some");
        assert_eq!(worst.severity >= Severity::Warning, worst.advice.is_some(), "{worst:?}");
        (worst.severity, worst.subject)
    }

    #[test]
    fn without_limits_all_is_good() {
        assert_eq!(worst(FREE).0, Severity::Good);
    }

    #[test]
    fn each_limit_is_judged_by_what_it_stops() {
        use Severity::{Good, Mend, Note, Warning};
        let cases = [
            (Limits { files: (Some(32), Some(32)), ..FREE }, Mend, "open files (nofile)"),
            (Limits { files: (Some(1024), None), ..FREE }, Warning, "open files (nofile)"),
            (Limits { locked: Some(65536), ..FREE }, Note, "locked memory (memlock)"),
            (Limits { locked: Some(65536), pins: true, ..FREE }, Mend, "locked memory (memlock)"),
            (Limits { threads: Some(10), ..FREE }, Warning, "threads and processes (nproc)"),
            (Limits { space: Some(1 << 30), ..FREE }, Warning, "address space (as)"),
            (Limits { file: Some(1 << 20), ..FREE }, Warning, "length of files (fsize)"),
        ];
        for (limits, severity, subject) in cases {
            assert_eq!(worst(limits), (severity, subject.to_owned()));
        }
        let lifted = Limits { locked: Some(65536), pins: true, may_lock: true, ..FREE };
        assert_eq!(worst(lifted).0, Good, "CAP_IPC_LOCK lifts it");
    }
}
