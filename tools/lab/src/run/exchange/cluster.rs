//! The measuring side: starts the processes, waits for their findings, and puts them together.

use core::time::Duration;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use farcall::bootstrap::{ChildPlan, Children, Rendezvous, RendezvousError, SpawnError};
use farcall_limit::{Core, CorePair};
use serde::de::DeserializeOwned;

use super::instruments::Instruments;
use super::report::{Found, put_together};
use super::worker::{OVERHEAD_MAX, WORKER_COMMAND};
use super::{Exchange, ExchangeResult, Job};
use crate::run::beside;
use crate::run::program::Program;

/// On which cores the processes run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    cores: Vec<Core>,
}

impl Placement {
    /// Servers from the pair's responder on, clients from its initiator on; more processes take the `others`
    /// in turn.
    pub fn new(pair: CorePair, others: impl IntoIterator<Item = Core>) -> Self {
        let others = others.into_iter().filter(|core| ![pair.responder, pair.initiator].contains(core));
        Self { cores: [pair.responder, pair.initiator].into_iter().chain(others).collect() }
    }

    fn is_shared(&self, exchange: &Exchange) -> bool {
        self.is_shared_by(exchange.servers + exchange.clients)
    }

    /// Whether this many processes have to share cores.
    pub(crate) fn is_shared_by(&self, processes: usize) -> bool {
        processes > self.cores.len()
    }

    /// The cores of this many processes without roles.
    pub(crate) fn in_turn(&self, processes: usize) -> Vec<Core> {
        self.cores.iter().copied().cycle().take(processes).collect()
    }

    fn of(&self, exchange: &Exchange) -> Vec<Core> {
        self.of_roles(exchange.servers, exchange.clients)
    }

    /// The core of each of this many servers and clients: the first server and the first client have one to
    /// themselves as long as there are more cores than processes.
    pub(crate) fn of_roles(&self, servers: usize, clients: usize) -> Vec<Core> {
        let ranks = servers + clients;
        let mut cores = vec![self.cores[0]; ranks];
        cores[servers] = self.cores[1];
        let rest = (0..ranks).filter(|&rank| rank != 0 && rank != servers);
        for (place, rank) in rest.enumerate() {
            cores[rank] = self.cores[(2 + place) % self.cores.len()];
        }
        cores
    }
}

/// Why an exchange could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The processes cannot find each other.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// A process cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A process could not do its job.
    #[error("{who} of {transport} failed: {why}")]
    Failed {
        /// Which process.
        who: String,
        /// Over which transport.
        transport: String,
        /// Its own words.
        why: String,
    },
    /// A process neither ended nor reported.
    #[error("{who} of {transport} did not report within {within:?}; run it again with less other load")]
    Silent {
        /// Which process.
        who: String,
        /// Over which transport.
        transport: String,
        /// The time that it had.
        within: Duration,
    },
}

/// Processes of a program that work together, and what each of them is told.
pub(crate) struct Workers<'a> {
    pub(crate) program: Program,
    /// The argument that makes the program such a worker.
    pub(crate) command: &'static str,
    /// What it is told.
    pub(crate) job: String,
    /// The transport, for error messages.
    pub(crate) transport: &'a str,
    /// The first ranks are servers.
    pub(crate) servers: usize,
    /// The core of each rank.
    pub(crate) cores: Vec<Core>,
    /// The time that they have.
    pub(crate) within: Duration,
}

/// What a process writes when it has done its job: its findings, or why it has none.
pub(crate) type Report<T> = Result<T, String>;

/// Measures an exchange between processes of this program, which exist for that time only.
pub fn run(exchange: &Exchange, placement: &Placement) -> Result<ExchangeResult, ExchangeError> {
    run_with(exchange, Instruments::default(), placement)
}

/// As [`run`], with something beside the exchange.
pub fn run_with(
    exchange: &Exchange,
    instruments: Instruments,
    placement: &Placement,
) -> Result<ExchangeResult, ExchangeError> {
    run_by(&Program::THIS, exchange, instruments, placement)
}

/// As [`run_with`], between processes of that program.
pub(crate) fn run_by(
    program: &Program,
    exchange: &Exchange,
    instruments: Instruments,
    placement: &Placement,
) -> Result<ExchangeResult, ExchangeError> {
    let shares_cores = placement.is_shared(exchange);
    let job = Job { exchange: exchange.clone(), instruments, shares_cores };
    let found: Vec<Found> = run_workers(&Workers {
        program: program.clone(),
        command: WORKER_COMMAND,
        job: serde_json::to_string(&job).expect("a job is JSON"),
        transport: &exchange.transport,
        servers: exchange.servers,
        cores: placement.of(exchange),
        within: exchange.lasting + OVERHEAD_MAX * 2,
    })?;
    Ok(put_together(exchange, found))
}

/// Starts the processes and waits for what they report, in the order in which they end.
pub(crate) fn run_workers<T: DeserializeOwned>(workers: &Workers<'_>) -> Result<Vec<T>, ExchangeError> {
    let ranks = workers.cores.len();
    let rendezvous = Rendezvous::bind("127.0.0.1:0", ranks as u32)?;
    let plans = workers.cores.iter().enumerate().map(|(rank, core)| plan(workers, rank as u32, *core));
    let mut children = Children::start(rendezvous.address(), ranks as u32, plans.collect())?;
    let (sender, reports) = channel();
    for rank in 0..ranks {
        if let Some(output) = children.take_stdout(rank as u32) {
            beside::read(rank, output, sender.clone()).map_err(|why| workers.failed(rank, why))?;
        }
    }
    drop(sender);
    await_reports(workers, &reports)
}

/// The program as a worker.
fn plan(workers: &Workers<'_>, rank: u32, core: Core) -> ChildPlan {
    let mut command = Command::new(workers.program.path());
    command.args([workers.command, &workers.job]).stdin(Stdio::null()).stdout(Stdio::piped());
    // Where reports are written, UCX would otherwise write its messages.
    command.env("UCX_LOG_FILE", "stderr");
    ChildPlan::new(rank, command).on_core(core.0 as u32)
}

/// The first failure ends the wait.
fn await_reports<T: DeserializeOwned>(
    workers: &Workers<'_>,
    reports: &Receiver<(usize, String)>,
) -> Result<Vec<T>, ExchangeError> {
    let end = Instant::now() + workers.within;
    let mut silent: BTreeSet<usize> = (0..workers.cores.len()).collect();
    let mut findings = Vec::with_capacity(workers.cores.len());
    while let Some(&first_silent) = silent.first() {
        let received = reports.recv_timeout(end.saturating_duration_since(Instant::now()));
        let (rank, text) = received.map_err(|_| ExchangeError::Silent {
            who: workers.role(first_silent),
            transport: workers.transport.to_owned(),
            within: workers.within,
        })?;
        silent.remove(&rank);
        match serde_json::from_str::<Report<T>>(&text) {
            Ok(Ok(found)) => findings.push(found),
            Ok(Err(why)) => return Err(workers.failed(rank, why)),
            Err(_) => return Err(workers.failed(rank, "its process ended without a report".to_owned())),
        }
    }
    Ok(findings)
}

impl Workers<'_> {
    fn failed(&self, rank: usize, why: String) -> ExchangeError {
        ExchangeError::Failed { who: self.role(rank), transport: self.transport.to_owned(), why }
    }

    fn role(&self, rank: usize) -> String {
        let program = self.program.suffix();
        match rank.checked_sub(self.servers) {
            _ if self.servers == 0 => format!("rank {rank}{program}"),
            None => format!("server {rank}{program}"),
            Some(client) => format!("client {client}{program}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::exchange::{Buffers, ExchangeWork, Timing};

    fn exchange(servers: usize, clients: usize) -> Exchange {
        Exchange {
            transport: "ring+shm".to_owned(),
            settings: Vec::new(),
            workload: ExchangeWork::Echo,
            request_bytes: 30,
            response_bytes: 100,
            buffers: Buffers::Copied,
            timing: Timing::EachCall,
            in_flight: 1,
            clients,
            servers,
            warmup_calls: 0,
            calls: 1,
            lasting: Duration::from_secs(1),
            seed: 1,
        }
    }

    #[test]
    fn the_first_failure_ends_the_wait() {
        let (sender, reports) = channel();
        sender.send((1, String::new())).expect("the receiver is there");
        let workers = Workers {
            program: Program::THIS,
            command: WORKER_COMMAND,
            job: String::new(),
            transport: "ring+shm",
            servers: 1,
            cores: vec![Core(0), Core(1)],
            within: Duration::from_secs(1),
        };
        let error = await_reports::<()>(&workers, &reports).expect_err("client 0 wrote nothing");
        assert_eq!(error.to_string(), "client 0 of ring+shm failed: its process ended without a report");
    }

    #[test]
    fn processes_get_cores_of_their_own_as_long_as_there_are_enough() {
        let pair = CorePair { responder: Core(4), initiator: Core(7) };
        let cores = |others: &[usize], servers, clients| {
            let placement = Placement::new(pair, others.iter().map(|&core| Core(core)));
            placement.of(&exchange(servers, clients)).into_iter().map(|core| core.0).collect::<Vec<_>>()
        };
        assert_eq!(cores(&[], 1, 1), [4, 7]);
        assert_eq!(cores(&[4, 5, 6, 7], 2, 2), [4, 5, 7, 6]);
        assert_eq!(cores(&[], 1, 3), [4, 7, 4, 7]);
        let placement = Placement::new(pair, []);
        assert!(placement.is_shared(&exchange(1, 2)) && !placement.is_shared(&exchange(1, 1)));
    }
}
