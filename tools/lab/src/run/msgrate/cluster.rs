//! The measuring side: starts the two processes and takes the receiver's time.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use farcall::bootstrap::{
    ChildPlan, Children, Rendezvous, RendezvousError, SpawnError, end_with_this_thread,
};
use farcall_limit::{CorePair, CoresError, allowed_cores};
use rustix::process::{Pid, Signal, kill_process};

use super::work::{Job, OVERHEAD_MAX, WORKER_COMMAND, WorkerReport};
use super::{MessageRate, MessageRateResult, SideFound};
use crate::explain::trace::{HostTrace, TracedMessages};
use crate::files::ScratchFolder;
use crate::run::bench::Bench;
use crate::run::beside;
use crate::run::exchange::{ExchangeError, Report, Seats, Workers, run_workers_with};
use crate::run::losses::Losses;
use crate::run::program::Program;
use crate::run::world::{World, WorldError};

/// Why the rate could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageRateError {
    /// There are no two cores.
    #[error(transparent)]
    Cores(#[from] CoresError),
    /// The processes cannot find each other.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// A process cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The launcher that MPI needs cannot be started.
    #[error(
        "mpirun, which starts the processes of MPI, cannot be run ({why}); install it (Debian: openmpi-bin)"
    )]
    Launcher {
        /// The system's words.
        why: String,
    },
    /// The ranks of the launcher are too few, or one of them is gone.
    #[error(transparent)]
    World(#[from] WorldError),
    /// No thread is left to hear the processes.
    #[error("{why}")]
    Thread {
        /// Why, and what to do.
        why: String,
    },
    /// Sender (rank 0) or receiver (rank 1) could not do its job.
    #[error("over {transport} messages failed: {why}")]
    Failed {
        /// Over which transport.
        transport: String,
        /// Their own words.
        why: String,
    },
}

/// Measures with two processes of this program, which exist for that time only. Over MPI the launcher
/// `mpirun` starts them, because MPI connects no others.
pub fn run(rate: &MessageRate) -> Result<MessageRateResult, MessageRateError> {
    run_by(&Program::THIS, rate)
}

/// Measures where `bench` is: at two ranks of its launcher, or as [`run`].
pub fn run_on(bench: &Bench, rate: &MessageRate) -> Result<MessageRateResult, MessageRateError> {
    bench.world().map_or_else(|| run(rate), |world| run_at(world, rate))
}

/// As [`run`], with two processes of that program.
pub(crate) fn run_by(program: &Program, rate: &MessageRate) -> Result<MessageRateResult, MessageRateError> {
    let by_launcher = rate.transport == "mpi";
    let mut jobs = jobs(rate)?;
    let folder = (by_launcher && rate.traced).then(ScratchFolder::new).transpose();
    let folder = folder.map_err(|error| MessageRateError::Failed {
        transport: rate.transport.clone(),
        why: format!("no folder for the traces: {error}"),
    })?;
    for (rank, job) in jobs.iter_mut().enumerate() {
        job.trace_file = folder.as_ref().map(|folder| folder.file(&format!("{rank}.json")));
    }
    let text = serde_json::to_string(&jobs).expect("jobs are JSON");
    let end = Instant::now() + rate.lasting * 2 + OVERHEAD_MAX;
    let outputs = if by_launcher { launched(program, &text, end) } else { started(program, &text, end) };
    let [sent, received] = jobs.each_ref().map(|job| job.trace_file.as_deref().map(taken));
    let outputs = outputs?;
    let mut gathered = Gathered {
        sent: sent.unwrap_or_default(),
        received: received.unwrap_or_default(),
        ..Gathered::default()
    };
    // Libraries write to the standard output, too.
    outputs
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .for_each(|report| gathered.add(report));
    gathered.into_result(rate)
}

/// As [`run`], between the first two ranks of a launcher.
fn run_at(world: &World, rate: &MessageRate) -> Result<MessageRateResult, MessageRateError> {
    let failed = |why: String| MessageRateError::Failed { transport: rate.transport.clone(), why };
    if rate.transport == "mpi" || rate.raw.is_some() {
        let why =
            "the library needs processes of its own; run it without the launcher, which it starts itself";
        return Err(failed(why.to_owned()));
    }
    let ranks = world.places_for(2, "a sender and a receiver")?.to_vec();
    let shares_cores = world.share_cores(&ranks);
    let job = |rank: &u32| {
        let cores = world.ranks().get(*rank as usize).map_or_else(Vec::new, |about| about.cores.clone());
        Job {
            rate: rate.clone(),
            cores: threads_of(rate.threads, *rank, &cores),
            shares_cores,
            trace_file: None,
        }
    };
    let jobs: Vec<Job> = ranks.iter().map(job).collect();
    let workers = Workers {
        program: Program::THIS,
        command: WORKER_COMMAND,
        job: serde_json::to_string(&jobs).expect("jobs are JSON"),
        transport: &rate.transport,
        servers: 0,
        backups: 0,
        seats: Seats::Ranks(world, ranks),
        within: rate.lasting * 2 + OVERHEAD_MAX,
    };
    let reports = run_workers_with(&workers, report_in).map_err(|error| match error {
        ExchangeError::World(error) => error.into(),
        error => failed(error.to_string()),
    })?;
    let mut outcome = Gathered::default();
    reports.into_iter().for_each(|report| outcome.add(report));
    outcome.into_result(rate)
}

/// The cores of a rank's threads; ranks that may use the same ones begin at different ones.
fn threads_of(threads: usize, rank: u32, cores: &[usize]) -> Vec<usize> {
    let first = rank as usize * threads;
    cores.iter().cycle().skip(first % cores.len().max(1)).take(threads).copied().collect()
}

/// What a process has written.
fn report_in(text: &str) -> Result<WorkerReport, String> {
    // Libraries write to the standard output, too.
    let own = text.lines().find_map(|line| serde_json::from_str::<WorkerReport>(line).ok());
    match own.or_else(|| serde_json::from_str::<Report<()>>(text).ok()?.err().map(WorkerReport::Failed)) {
        Some(WorkerReport::Failed(why)) => Err(why),
        Some(report) => Ok(report),
        None => Err("its process ended without a report".to_owned()),
    }
}

/// What the processes have reported.
#[derive(Default)]
struct Gathered {
    elapsed: Option<Duration>,
    sent: Vec<HostTrace>,
    received: Vec<HostTrace>,
    sides: [SideFound; 2],
    failures: Vec<String>,
    reports: usize,
}

impl Gathered {
    fn add(&mut self, report: WorkerReport) {
        self.reports += 1;
        match report {
            WorkerReport::Sender { found, traces } => {
                self.sides[0] = found;
                self.sent.extend(traces);
            }
            WorkerReport::Receiver { elapsed, found, traces } => {
                self.elapsed = Some(elapsed);
                self.sides[1] = found;
                self.received.extend(traces);
            }
            WorkerReport::Failed(why) => self.failures.push(why),
        }
    }

    fn into_result(mut self, rate: &MessageRate) -> Result<MessageRateResult, MessageRateError> {
        if self.reports < 2 {
            self.failures.push("a process ended, or took too long, without a report".to_owned());
        }
        match self.elapsed.filter(|_| self.failures.is_empty()) {
            Some(elapsed) => {
                // The threads of both sides are in the order of their numbers, and talk to those of the same
                // number.
                let pairs = self.sent.iter().zip(&self.received);
                let traced = rate.traced.then(|| TracedMessages::on_machine(pairs));
                let [sender, receiver] = self.sides;
                let losses = Losses::of(&sender.counters).and(Losses::of(&receiver.counters));
                let messages = rate.messages;
                Ok(MessageRateResult { elapsed, messages, losses, sender, receiver, traced })
            }
            None => {
                // Both sides may say the same.
                self.failures.dedup();
                let (transport, why) = (rate.transport.clone(), self.failures.join("; "));
                Err(MessageRateError::Failed { transport, why })
            }
        }
    }
}

/// The trace that a process put away; nothing when it could not, which it has reported.
fn taken(file: &Path) -> Vec<HostTrace> {
    let text = fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// What both processes write until the end that is given to them, or theirs.
fn started(program: &Program, jobs: &str, end: Instant) -> Result<String, MessageRateError> {
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2)?;
    let plans = (0..2).map(|rank| plan(program, jobs, rank)).collect();
    let mut children = Children::start(rendezvous.address(), 2, plans)?;
    let outputs: Vec<_> = (0..2).filter_map(|rank| children.take_stdout(rank)).collect();
    Ok(written(outputs, end)?.0)
}

/// As [`started`], by `mpirun`.
fn launched(program: &Program, jobs: &str, end: Instant) -> Result<String, MessageRateError> {
    let cannot = |error: std::io::Error| MessageRateError::Launcher { why: error.to_string() };
    // mpirun would find itself where a process finds itself.
    let program = program.path().canonicalize().map_err(cannot)?;
    let mut command = Command::new("mpirun");
    command.args(["-n", "2"]).arg(program).args([WORKER_COMMAND, jobs]);
    // The processes choose their cores themselves; Open MPI has these options as variables, which other
    // launchers ignore.
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("OMPI_MCA_hwloc_base_binding_policy", "none");
    end_with_this_thread(&mut command);
    let mut launcher = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let (text, is_all) = written(launcher.stdout.take(), end)?;
    if !is_all && let Some(process) = Pid::from_raw(launcher.id() as i32) {
        // It ends its processes when it is told to. That it has ended is as well.
        let _ = kill_process(process, Signal::TERM);
    }
    launcher.wait().map_err(cannot)?;
    Ok(text)
}

/// What is written to all of `outputs` until they are closed, or until the end; and whether that is all.
fn written(
    outputs: impl IntoIterator<Item = ChildStdout>,
    end: Instant,
) -> Result<(String, bool), MessageRateError> {
    let (sender, receiver) = channel();
    for output in outputs {
        let sender = sender.clone();
        // In a thread of its own, so that waiting for it can be given up.
        let life = move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        };
        beside::spawn(life).map_err(|why| MessageRateError::Thread { why })?;
    }
    drop(sender);
    let mut text = String::new();
    loop {
        match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => text.extend([line.as_str(), "\n"]),
            Err(reason) => return Ok((text, reason == RecvTimeoutError::Disconnected)),
        }
    }
}

/// The jobs of sender and receiver: first one core for each process, then cores that nobody has, then all in
/// turn.
fn jobs(rate: &MessageRate) -> Result<[Job; 2], MessageRateError> {
    let pair = CorePair::first_allowed()?;
    let allowed = allowed_cores()?;
    let others: Vec<usize> = allowed
        .iter()
        .filter(|core| ![pair.initiator, pair.responder].contains(core))
        .map(|core| core.0)
        .collect();
    let shares_cores = 2 * rate.threads > allowed.len();
    let job = |first: usize, rank: usize| {
        let more = (1..rate.threads).map(|number| {
            // Threads that talk to each other are apart even when cores are shared.
            others.get(2 * (number - 1) + rank).copied().unwrap_or(first)
        });
        let cores = core::iter::once(first).chain(more).collect();
        Job { rate: rate.clone(), cores, shares_cores, trace_file: None }
    };
    Ok([job(pair.initiator.0, 0), job(pair.responder.0, 1)])
}

/// The program as a worker.
fn plan(program: &Program, jobs: &str, rank: u32) -> ChildPlan {
    let mut command = Command::new(program.path());
    command.args([WORKER_COMMAND, jobs]).stdin(Stdio::null()).stdout(Stdio::piped());
    ChildPlan::new(rank, command)
}
