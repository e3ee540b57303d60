//! The life of one process of a measurement, and of its threads.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex, PoisonError};

use farcall::bootstrap::Bootstrap;
use farcall::{Clock, Endpoint, Instant, Node, Peer};
use farcall_limit::{Core, allowed_cores, pin_to};
use serde::{Deserialize, Serialize};

use super::receive::receive;
use super::send::send;
use super::{LoopError, MessageRate, READY, RECEIVED, Share, SideFound};
use crate::explain::trace::HostTrace;
use crate::run::beside;
use crate::run::exchange::{KernelAccount, OwnCounters, pass_with, settings_of};

/// The argument that makes the program a worker; the next one has the jobs of both.
pub const WORKER_COMMAND: &str = "message-worker";

/// The rank that sends.
pub(super) const SENDER: u32 = 0;

/// What processes may take besides the measurement.
pub(super) const OVERHEAD_MAX: Duration = Duration::from_secs(20);

/// The clock is read once for this many polls.
const CLOCK_EVERY: u32 = 4096;

/// What a process writes when it has done its job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum WorkerReport {
    Sender { found: SideFound, traces: Vec<HostTrace> },
    Receiver { elapsed: Duration, found: SideFound, traces: Vec<HostTrace> },
    Failed(String),
}

/// What a process is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) rate: MessageRate,
    /// The cores of this process, one for each thread.
    pub(super) cores: Vec<usize>,
    /// Whether there are more threads than cores.
    pub(super) shares_cores: bool,
    /// The file that takes the trace instead of the report: launchers mix long lines of several processes.
    pub(super) trace_file: Option<PathBuf>,
}

/// How long a loop may go on.
pub(super) struct Limit {
    clock: Clock,
    end: Instant,
    lasting: Duration,
    polls: u32,
    shares_cores: bool,
    /// What it has of the time in which there was nothing to do, if that is watched.
    idle: Option<Idle>,
}

/// The time in which a loop found nothing to do.
#[derive(Clone, Copy, Debug, Default)]
struct Idle {
    since: Option<Instant>,
    total: Duration,
}

impl Idle {
    /// After each poll; the clock is looked at only when work ends or begins. Out of line: loops that are not
    /// to know how idle they were only ask whether they are.
    #[cold]
    #[inline(never)]
    fn look(&mut self, done: usize, clock: &Clock) {
        match (done, self.since) {
            (0, None) => self.since = Some(clock.now()),
            (1.., Some(since)) => {
                self.total += clock.now() - since;
                self.since = None;
            }
            _ => {}
        }
    }
}

impl Limit {
    pub(super) fn new(lasting: Duration, shares_cores: bool, watches_idleness: bool) -> Self {
        let clock = Clock::new();
        let end = clock.now() + lasting;
        let idle = watches_idleness.then(Idle::default);
        Self { clock, end, lasting, polls: 0, shares_cores, idle }
    }

    /// After each poll, which found that much to do.
    #[inline]
    pub(super) fn look(&mut self, done: usize) -> Result<(), LoopError> {
        if let Some(idle) = &mut self.idle {
            idle.look(done, &self.clock);
        }
        if done == 0 && self.shares_cores {
            std::thread::yield_now();
        }
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(CLOCK_EVERY) && self.clock.now() > self.end {
            return Err(LoopError::TimedOut(self.lasting));
        }
        Ok(())
    }
}

/// Where the threads of a process begin together.
struct Start {
    barrier: Barrier,
    /// What was counted before that.
    before: Mutex<OwnCounters>,
}

impl Start {
    /// Waits for all; the last one reads the counters before any goes on.
    fn wait(&self) {
        if self.barrier.wait().is_leader() {
            *self.before.lock().unwrap_or_else(PoisonError::into_inner) = OwnCounters::read();
        }
        self.barrier.wait();
    }

    fn into_counters(self) -> OwnCounters {
        self.before.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does the one of `jobs` that belongs to the place which the environment gives; returns the line to print.
pub fn work(jobs: &str) -> String {
    let report = match serde_json::from_str(jobs) {
        Ok(jobs) => take_part(&jobs).unwrap_or_else(WorkerReport::Failed),
        Err(error) => WorkerReport::Failed(format!("the job is not one of this program's: {error}")),
    };
    serde_json::to_string(&report).expect("a report is JSON")
}

/// Every error ends as a sentence in the report.
fn take_part(jobs: &[Job; 2]) -> Result<WorkerReport, String> {
    let bootstrap = Bootstrap::from_env().map_err(sentence)?;
    let job = jobs.get(bootstrap.rank as usize).ok_or("there are more processes than two")?;
    let settings = settings_of(&job.rate.settings, job.rate.seed, bootstrap.rank)?;
    if let Some(raw) = job.rate.raw {
        pin(job, 0)?;
        return super::raw::take_part(job, raw, &bootstrap);
    }
    let node = Node::new(bootstrap, settings);
    let endpoints: Vec<Endpoint> = (0..job.rate.threads)
        .map(|_| node.endpoint(&job.rate.transport))
        .collect::<Result<_, _>>()
        .map_err(sentence)?;
    let sends = node.rank() == SENDER;
    let start = Start { barrier: Barrier::new(job.rate.threads), before: Mutex::default() };
    let measured = std::thread::scope(|scope| {
        // None begins before all are there: at the barrier it would wait for ever for a missing one.
        let (mut threads, mut begins) = (Vec::new(), Vec::new());
        for (number, endpoint) in endpoints.into_iter().enumerate() {
            let start = &start;
            let (begin, begun) = channel();
            let life = move || match begun.recv() {
                // An endpoint takes its counters with it.
                Ok(()) => run_thread(&endpoint, number, sends, job, start).map(|found| (found, endpoint)),
                Err(_) => Err("another thread could not be started".to_owned()),
            };
            threads.push(beside::spawn_scoped(scope, life)?);
            begins.push(begin);
        }
        begins.into_iter().for_each(|begin| begin.send(()).expect("it waits for this"));
        let joined =
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?);
        joined.collect::<Result<Vec<(ThreadFound, Endpoint)>, String>>()
    })?;
    let counters = OwnCounters::read().since(&start.into_counters());
    let (measured, endpoints): (Vec<_>, Vec<_>) = measured.into_iter().unzip();
    // A peer whose acknowledgement was lost asks for it, and finds nobody where an endpoint has gone.
    pass_with(&node, &endpoints, "end", OVERHEAD_MAX, job.shares_cores)?;
    let elapsed = measured.iter().map(|found| found.elapsed).max().unwrap_or_default();
    let found = SideFound {
        counters,
        idle: measured.iter().filter_map(|found| found.idle).reduce(f64::min),
        waited: measured.iter().filter_map(|found| found.waited).reduce(f64::max),
    };
    let traces = measured.into_iter().filter_map(|found| found.trace).collect();
    let traces = match &job.trace_file {
        Some(file) => {
            put_away(&traces, file)?;
            Vec::new()
        }
        None => traces,
    };
    Ok(match sends {
        true => WorkerReport::Sender { found, traces },
        false => WorkerReport::Receiver { elapsed, found, traces },
    })
}

fn put_away(traces: &Vec<HostTrace>, file: &Path) -> Result<(), String> {
    let text = serde_json::to_string(traces).expect("a trace is JSON");
    std::fs::write(file, text).map_err(|error| format!("cannot write to {}: {error}", file.display()))
}

/// What a thread found.
struct ThreadFound {
    elapsed: Duration,
    /// The share of it in which there was nothing to do, if that was watched.
    idle: Option<f64>,
    /// The share of it in which it had no core.
    waited: Option<f64>,
    trace: Option<HostTrace>,
}

fn run_thread(
    endpoint: &Endpoint,
    number: usize,
    sends: bool,
    job: &Job,
    start: &Start,
) -> Result<ThreadFound, String> {
    pin(job, number)?;
    let other = if sends { 1 - SENDER } else { SENDER };
    let peer = endpoint.peer_endpoint(other, number as u32).map_err(sentence)?;
    endpoint.wait_for(peer).map_err(sentence)?;
    let rate = &job.rate;
    let threads = rate.threads as u64;
    let messages = rate.messages / threads + u64::from((number as u64) < rate.messages % threads);
    let share = Share::new(rate, messages);
    // The first tenth of the messages warms up caches and memory, by the same loops.
    let warm_up = share.warm_up();
    run_loop(endpoint, peer, sends, job, warm_up).map_err(sentence)?;
    start.wait();
    // Nothing is sent before both sides are here: the receiver says when it is ready.
    endpoint.tracer().switch(rate.traced);
    let rank = if sends { SENDER } else { 1 - SENDER };
    // Sessions lose their names with their end, and the peer may leave before the last poll here.
    let peers = HostTrace::new(rank, &endpoint.trace()).peers;
    let account = KernelAccount::read();
    let (elapsed, idle) = run_loop(endpoint, peer, sends, job, share).map_err(sentence)?;
    let waited = account.as_ref().and_then(KernelAccount::waited_since);
    let trace = HostTrace::end(rank, endpoint).map(|trace| HostTrace { peers, ..trace });
    Ok(ThreadFound { elapsed, idle, waited, trace })
}

/// Pins the calling thread, the one of that number, to its core.
fn pin(job: &Job, number: usize) -> Result<(), String> {
    match job.cores.get(number) {
        Some(&core) if allowed_cores().is_ok_and(|allowed| allowed.contains(&Core(core))) => {
            pin_to(Core(core)).map_err(sentence)
        }
        _ => Ok(()),
    }
}

/// Sends or receives a thread's share; gives its time, and the share of it in which there was nothing to do.
fn run_loop(
    endpoint: &Endpoint,
    peer: Peer,
    sends: bool,
    job: &Job,
    share: Share,
) -> Result<(Duration, Option<f64>), LoopError> {
    let rate = &job.rate;
    if sends {
        endpoint.receive(peer, READY).within(rate.lasting).wait()?;
    }
    let mut limit = Limit::new(rate.lasting, job.shares_cores, rate.traced);
    let clock = Clock::new();
    let begun = clock.now();
    match sends {
        true => send(endpoint, peer, rate.mode, share, &mut limit)?,
        false => receive(endpoint, peer, rate.mode, share, &mut limit)?,
    }
    let elapsed = clock.now() - begun;
    match sends {
        true => drop(endpoint.receive(peer, RECEIVED).within(rate.lasting).wait()?),
        false => endpoint.send(peer, RECEIVED, b"").wait()?,
    }
    // A sender that is done before the receiver has nothing to do until that is.
    let whole = if sends { clock.now() - begun } else { elapsed };
    let share_of = |idle: Idle| {
        ((idle.total + (whole - elapsed)).as_secs_f64() / whole.as_secs_f64().max(1e-9)).min(1.0)
    };
    Ok((elapsed, limit.idle.map(share_of)))
}

pub(super) fn sentence(error: impl core::fmt::Display) -> String {
    error.to_string()
}
