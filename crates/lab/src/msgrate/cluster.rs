//! The measuring side: starts the two processes and takes the receiver's time.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use farcall::bootstrap::{ChildPlan, Children, Rendezvous, RendezvousError, SpawnError};
use farcall_limit::{CorePair, CoresError, allowed_cores};

use super::work::{Job, OVERHEAD_MAX, WORKER_COMMAND, WorkerReport};
use super::{MessageRate, MessageRateResult};

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
    /// Sender (rank 0) or receiver (rank 1) could not do its job.
    #[error("over {transport} messages failed: {why}")]
    Failed {
        /// Over which transport.
        transport: String,
        /// Their own words.
        why: String,
    },
}

/// Measures with two processes of this program, which exist for that time only.
pub fn run(rate: &MessageRate) -> Result<MessageRateResult, MessageRateError> {
    let rendezvous = Rendezvous::bind("127.0.0.1:0", 2)?;
    let plans = jobs(rate)?.into_iter().enumerate().map(|(rank, job)| plan(&job, rank as u32)).collect();
    let mut children = Children::start(rendezvous.address(), 2, plans)?;
    let (sender, reports) = channel();
    for rank in 0..2 {
        let Some(mut output) = children.take_stdout(rank) else { continue };
        let sender = sender.clone();
        // In a thread of its own, so that waiting for it can be given up.
        thread::spawn(move || {
            let mut text = String::new();
            // What cannot be read shows as a report that is not whole.
            let _ = output.read_to_string(&mut text);
            let _ = sender.send((rank, text));
        });
    }
    let end = Instant::now() + rate.lasting * 2 + OVERHEAD_MAX;
    let mut outputs: [Option<String>; 2] = [None, None];
    for _ in 0..2 {
        if let Ok((rank, text)) = reports.recv_timeout(end.saturating_duration_since(Instant::now())) {
            outputs[rank as usize] = Some(text);
        }
    }
    let mut elapsed = None;
    let mut failures = Vec::new();
    for (rank, text) in outputs.into_iter().enumerate() {
        match text.as_deref().map(serde_json::from_str) {
            Some(Ok(WorkerReport::Sender)) => {}
            Some(Ok(WorkerReport::Receiver { elapsed: time })) => elapsed = Some(time),
            Some(Ok(WorkerReport::Failed(why))) => failures.push(format!("rank {rank}: {why}")),
            Some(Err(_)) => failures.push(format!("rank {rank}: its process ended without a report")),
            None => failures.push(format!("rank {rank}: it did not report in time")),
        }
    }
    match elapsed.filter(|_| failures.is_empty()) {
        Some(elapsed) => Ok(MessageRateResult { elapsed, messages: rate.messages }),
        None => {
            let (transport, why) = (rate.transport.clone(), failures.join("; "));
            Err(MessageRateError::Failed { transport, why })
        }
    }
}

/// The jobs of sender and receiver: first one core for each process, then cores that nobody has, then all in turn.
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
        Job { rate: rate.clone(), cores: core::iter::once(first).chain(more).collect(), shares_cores }
    };
    Ok([job(pair.initiator.0, 0), job(pair.responder.0, 1)])
}

/// This program as a worker.
fn plan(job: &Job, rank: u32) -> ChildPlan {
    let job = serde_json::to_string(job).expect("a job is JSON");
    let mut command = Command::new("/proc/self/exe");
    command.args([WORKER_COMMAND, &job]).stdin(Stdio::null()).stdout(Stdio::piped());
    ChildPlan::new(rank, command)
}
