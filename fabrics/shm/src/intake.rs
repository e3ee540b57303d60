//! Threads that may be lost: where descriptors of peers are received, checked and closed.
//!
//! A peer can pass any file as a descriptor. To look at one can wait for as long as the peer likes (a file of
//! FUSE answers `fstat` when its server does), and so can its last close (a TCP socket that lingers). The
//! kernel lets no such thread be stopped. So none of this happens on a thread that others wait for: it is a
//! job here, one at a time for each calling process, on a few threads for the whole process. A peer that
//! hangs a thread has lost its own turn, and one thread in eight.

use core::time::Duration;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::options::Caller;

/// The most threads, and so the most processes that can hang one each before jobs wait.
const THREADS_MAX: usize = 8;

/// A thread without a job ends after this time.
const IDLE: Duration = Duration::from_secs(1);

/// While this many jobs wait, no caller should be let in: the threads are lost, or there is a flood.
pub const WAITING_MAX: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

static JOBS: Jobs = Jobs { state: Mutex::new(State::NONE), changed: Condvar::new() };

struct Jobs {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: VecDeque<(Caller, Job)>,
    /// The processes that a job is in progress for.
    busy: Vec<Caller>,
    threads: usize,
    /// Those of them that wait for a job.
    idle: usize,
}

impl State {
    const NONE: Self = Self { waiting: VecDeque::new(), busy: Vec::new(), threads: 0, idle: 0 };

    /// The first job whose process has none in progress.
    fn begin(&mut self) -> Option<(Caller, Job)> {
        let place = self.waiting.iter().position(|(caller, _)| !self.busy.contains(caller))?;
        let (caller, job) = self.waiting.remove(place)?;
        self.busy.push(caller);
        Some((caller, job))
    }
}

/// Lets a thread that may be lost do this for a process, after what was asked for it before.
pub fn hand_over(caller: Caller, job: impl FnOnce() + Send + 'static) {
    let mut state = JOBS.lock();
    state.waiting.push_back((caller, Box::new(job)));
    if state.waiting.len() <= state.idle {
        JOBS.changed.notify_one();
    } else if state.threads < THREADS_MAX {
        let named = std::thread::Builder::new().name("farcall-shm-in".into());
        // Where the system has no thread to spare the job waits for the next try.
        state.threads += usize::from(named.spawn(work).is_ok());
    }
}

/// How many jobs wait for a thread.
pub fn waiting() -> usize {
    JOBS.lock().waiting.len()
}

/// What a thread does.
fn work() {
    let mut state = JOBS.lock();
    loop {
        if let Some((caller, job)) = state.begin() {
            drop(state);
            let in_progress = InProgress(caller);
            job();
            drop(in_progress);
            state = JOBS.lock();
            continue;
        }
        state.idle += 1;
        let (woken, timeout) = JOBS.changed.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
        state = woken;
        state.idle -= 1;
        if timeout.timed_out() && state.waiting.is_empty() {
            state.threads -= 1;
            return;
        }
    }
}

/// A job in progress; ends with its scope, should it panic as well.
struct InProgress(Caller);

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut state = JOBS.lock();
        state.busy.retain(|busy| *busy != self.0);
        if std::thread::panicking() {
            state.threads -= 1;
        }
    }
}

impl Jobs {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A descriptor that a process passed or connected, closed on a thread that may be lost.
#[derive(Debug)]
pub struct ForeignFd {
    file: ManuallyDrop<OwnedFd>,
    caller: Caller,
}

impl ForeignFd {
    /// A descriptor of that process.
    pub fn new(file: OwnedFd, caller: Caller) -> Self {
        Self { file: ManuallyDrop::new(file), caller }
    }

    /// The process that it is of.
    pub fn caller(&self) -> Caller {
        self.caller
    }
}

impl AsFd for ForeignFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for ForeignFd {
    fn drop(&mut self) {
        // SAFETY: taken here only, and not used again.
        let file = unsafe { ManuallyDrop::take(&mut self.file) };
        hand_over(self.caller, move || drop(file));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Processes of tests that no other test names.
    fn of_test(number: u64) -> Caller {
        Caller::Process(u64::MAX - number)
    }

    #[test]
    fn a_job_that_hangs_holds_up_its_own_process_only() {
        let (hang, hung) = channel::<()>();
        let (say, heard) = channel();
        let [hanging, other] = [of_test(0), of_test(1)];
        let begun = say.clone();
        hand_over(hanging, move || {
            begun.send("it begins").expect("the test listens");
            _ = hung.recv();
        });
        assert_eq!(heard.recv_timeout(LONG), Ok("it begins"));
        let later = say.clone();
        hand_over(hanging, move || later.send("its next").expect("the test listens"));
        for _ in 0..100 {
            let say = say.clone();
            hand_over(other, move || say.send("another's").expect("the test listens"));
            assert_eq!(heard.recv_timeout(LONG), Ok("another's"));
        }
        drop(hang);
        assert_eq!(heard.recv_timeout(LONG), Ok("its next"));
    }

    #[test]
    fn jobs_of_a_process_keep_their_order_and_survive_a_panic() {
        let (say, heard) = channel();
        hand_over(of_test(2), || panic!("a job of this test, on purpose"));
        for number in 0..20 {
            let say = say.clone();
            hand_over(of_test(2), move || say.send(number).expect("the test listens"));
        }
        let order: Vec<_> = (0..20).map(|_| heard.recv_timeout(LONG).expect("all are done")).collect();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_foreign_descriptor_is_closed() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(ForeignFd::new(writer.into(), of_test(3)));
        farcall_driver::wait_readable(&[std::os::fd::AsRawFd::as_raw_fd(&reader)], LONG);
        assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Ok(0), "its end");
    }
}
