//! Operations between processes of this machine, over real transports.

use core::time::Duration;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;

use farcall::bootstrap::{Bootstrap, ChildPlan, Children, Rendezvous, RendezvousError, SpawnError};
use farcall::parameters::Settings;
use farcall::{Node, TransportKind};
use farcall_limit::{CoresError, allowed_cores};
use serde::{Deserialize, Serialize};

use super::{Member, OperationTime, Plan, Root, Schedule};

/// The argument that makes the program a rank; the next one is its [`Job`].
pub const RANK_COMMAND: &str = "collective-rank";

/// The longest that ranks wait for each other before the first operation and after the last.
const GATHER_MAX: Duration = Duration::from_secs(30);

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum ProcessesError {
    /// The ranks cannot find each other.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// A rank cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// There is no core for the ranks.
    #[error(transparent)]
    Cores(#[from] CoresError),
    /// What rank 0 says cannot be read.
    #[error("cannot read what rank 0 reports: {0}")]
    Report(#[from] io::Error),
    /// A rank could not do its part.
    #[error("{0}")]
    Failed(String),
}

/// What a rank is told.
#[derive(Serialize, Deserialize)]
struct Job {
    plan: Plan,
    transport: String,
    /// Assignments to parameters, as given on the command line.
    assignments: Vec<String>,
}

/// What a rank reports.
#[derive(Serialize, Deserialize)]
enum RankReport {
    /// Rank 0: what came of the operations.
    Root(ProcessesRun),
    /// Another rank has done its part.
    Member,
    /// A rank could not, in its own words.
    Failed(String),
}

/// What came of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessesRun {
    /// The operations that count.
    pub times: Vec<OperationTime>,
    /// Operations that were done again, because a rank learnt of them too late.
    pub repeated: u32,
}

/// Runs a plan with a process of this program for each rank, on the cores that this one may use, in turn.
pub fn run(
    plan: &Plan,
    transport: TransportKind,
    assignments: &[String],
) -> Result<ProcessesRun, ProcessesError> {
    let rendezvous = Rendezvous::bind("127.0.0.1:0", plan.ranks)?;
    let job =
        Job { plan: plan.clone(), transport: transport.name().to_owned(), assignments: assignments.to_vec() };
    let job = serde_json::to_string(&job).expect("a job is JSON");
    let cores = allowed_cores()?;
    let ranks = (0..plan.ranks).zip(cores.iter().cycle());
    let children = ranks.map(|(rank, core)| child(rank, &job).on_core(core.0 as u32)).collect();
    let mut children = Children::start(rendezvous.address(), plan.ranks, children)?;
    let mut text = String::new();
    if let Some(mut output) = children.take_stdout(0) {
        // Ends: no operation lasts for ever, and a rank that dies ends it for rank 0.
        output.read_to_string(&mut text)?;
    }
    match serde_json::from_str(&text) {
        Ok(RankReport::Root(run)) => Ok(run),
        Ok(RankReport::Failed(why)) => Err(ProcessesError::Failed(why)),
        Ok(RankReport::Member) | Err(_) => {
            Err(ProcessesError::Failed("the process of rank 0 ended without a report".into()))
        }
    }
}

fn child(rank: u32, job: &str) -> ChildPlan {
    let output = if rank == 0 { Stdio::piped() } else { Stdio::null() };
    let mut command = Command::new("/proc/self/exe");
    command.args([RANK_COMMAND, job]).stdin(Stdio::null()).stdout(output);
    ChildPlan::new(rank, command)
}

/// Is one rank, in the place that the environment gives; returns the line to print.
pub fn be_rank(job: &str) -> String {
    let report = match serde_json::from_str(job) {
        Ok(job) => take_part(&job).unwrap_or_else(RankReport::Failed),
        Err(error) => RankReport::Failed(format!("the job is not one of this program's: {error}")),
    };
    serde_json::to_string(&report).expect("a report is JSON")
}

/// Every error ends as a sentence in the report.
fn take_part(job: &Job) -> Result<RankReport, String> {
    let plan = &job.plan;
    let settings = Settings::load(job.assignments.iter().cloned()).map_err(sentence)?;
    let node = Node::new(Bootstrap::from_env().map_err(sentence)?, settings);
    let endpoint = node.endpoint(&job.transport).map_err(sentence)?;
    node.barrier("endpoints", GATHER_MAX).map_err(sentence)?;
    let schedule = Arc::new(Schedule::new(plan.collective, plan.ranks, plan.message_bytes));
    let member = Member::new(node.rank(), endpoint, schedule, plan.limits, true, plan.seed);
    if node.rank() > 0 {
        serve(member)?;
        return Ok(RankReport::Member);
    }
    let mut root = Root::new(member, plan.clone());
    while !root.is_done() {
        if root.turn() == 0 {
            // There may be more ranks than cores.
            std::thread::yield_now();
        }
    }
    let times = root.outcome()?.to_vec();
    let repeated = root.repeated();
    root.end().map_err(sentence)?;
    Ok(RankReport::Root(ProcessesRun { times, repeated }))
}

fn serve(mut member: Member) -> Result<(), String> {
    while !member.is_over() {
        if member.turn() == 0 {
            std::thread::yield_now();
        }
        if let Some(failure) = member.failure() {
            return Err(failure.to_string());
        }
    }
    // The answer to the last call is still to be sent.
    member.turn();
    Ok(())
}

fn sentence(error: impl core::fmt::Display) -> String {
    error.to_string()
}
