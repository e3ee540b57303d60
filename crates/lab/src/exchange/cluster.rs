//! The measuring side: starts the processes, waits for their findings, and puts them together.

use core::time::Duration;
use std::collections::BTreeSet;
use std::io::Read;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use farcall::bootstrap::{ChildPlan, Children, Rendezvous, RendezvousError, SpawnError};
use farcall_limit::{Core, CorePair};

use super::report::{ClientReport, WorkerReport};
use super::worker::{OVERHEAD_MAX, WORKER_COMMAND};
use super::{Exchange, ExchangeResult, Job};

/// On which cores the processes run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    cores: Vec<Core>,
}

impl Placement {
    /// Servers from the pair's responder on, clients from its initiator on; more processes take the `others` in turn.
    pub fn new(pair: CorePair, others: impl IntoIterator<Item = Core>) -> Self {
        let others = others.into_iter().filter(|core| ![pair.responder, pair.initiator].contains(core));
        Self { cores: [pair.responder, pair.initiator].into_iter().chain(others).collect() }
    }

    /// How many cores there are.
    pub(crate) fn cores(&self) -> usize {
        self.cores.len()
    }

    fn is_shared(&self, exchange: &Exchange) -> bool {
        exchange.servers + exchange.clients > self.cores.len()
    }

    fn of(&self, exchange: &Exchange) -> Vec<Core> {
        self.spread(exchange.servers, exchange.servers + exchange.clients)
    }

    /// The core of each of `ranks` processes, of which the first are servers: the first server and the first client
    /// have one to themselves as long as there are more cores than processes.
    pub(crate) fn spread(&self, servers: usize, ranks: usize) -> Vec<Core> {
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

/// Measures an exchange between processes of this program, which exist for that time only.
pub fn run(exchange: &Exchange, placement: &Placement) -> Result<ExchangeResult, ExchangeError> {
    let cores = placement.of(exchange);
    let job = Job { exchange: exchange.clone(), shares_cores: placement.is_shared(exchange) };
    let job = serde_json::to_string(&job).expect("a job is JSON");
    let within = exchange.lasting + OVERHEAD_MAX * 2;
    let crew = Crew::start(WORKER_COMMAND, &job, &cores, Instant::now() + within)?;
    let clients = await_reports(exchange, cores.len(), within, || crew.next_report())?;
    Ok(ExchangeResult::new(exchange, &clients))
}

/// Processes of this program that do one job together, each with a rank, and what they write when it is done.
pub(crate) struct Crew {
    reports: Receiver<(usize, String)>,
    deadline: Instant,
    // The processes are ended before the rendezvous that they use.
    _children: Children,
    _rendezvous: Rendezvous,
}

impl Crew {
    /// Starts a process on each of the cores, as the worker that `command` names.
    pub(crate) fn start(
        command: &str,
        job: &str,
        cores: &[Core],
        deadline: Instant,
    ) -> Result<Self, ExchangeError> {
        let ranks = cores.len();
        let rendezvous = Rendezvous::bind("127.0.0.1:0", ranks as u32)?;
        let plans = cores.iter().enumerate().map(|(rank, core)| plan(command, job, rank as u32, *core));
        let mut children = Children::start(rendezvous.address(), ranks as u32, plans.collect())?;
        let (sender, reports) = channel();
        for rank in 0..ranks {
            if let Some(output) = children.take_stdout(rank as u32) {
                read_aside(rank, output, sender.clone());
            }
        }
        Ok(Self { reports, deadline, _children: children, _rendezvous: rendezvous })
    }

    /// The next process's rank and what it wrote, in the order in which they end; `None` when the time is over.
    pub(crate) fn next_report(&self) -> Option<(usize, String)> {
        self.reports.recv_timeout(self.deadline.saturating_duration_since(Instant::now())).ok()
    }
}

/// This program as a worker.
fn plan(worker: &str, job: &str, rank: u32, core: Core) -> ChildPlan {
    let mut command = Command::new("/proc/self/exe");
    command.args([worker, job]).stdin(Stdio::null()).stdout(Stdio::piped());
    ChildPlan::new(rank, command).on_core(core.0 as u32)
}

/// Reads a process's output in a thread of its own, so that waiting for it can be given up.
fn read_aside(rank: usize, mut output: ChildStdout, sender: Sender<(usize, String)>) {
    thread::spawn(move || {
        let mut text = String::new();
        // What cannot be read shows as a report that is not whole.
        let _ = output.read_to_string(&mut text);
        let _ = sender.send((rank, text));
    });
}

/// Takes the reports in the order in which processes end; the first failure ends the wait.
fn await_reports(
    exchange: &Exchange,
    ranks: usize,
    within: Duration,
    next_report: impl Fn() -> Option<(usize, String)>,
) -> Result<Vec<ClientReport>, ExchangeError> {
    let mut silent: BTreeSet<usize> = (0..ranks).collect();
    let mut clients = Vec::with_capacity(exchange.clients);
    while let Some(&first_silent) = silent.first() {
        let (rank, text) = next_report().ok_or_else(|| ExchangeError::Silent {
            who: role(exchange, first_silent),
            transport: exchange.transport.clone(),
            within,
        })?;
        silent.remove(&rank);
        match serde_json::from_str(&text) {
            Ok(WorkerReport::Client(report)) => clients.push(report),
            Ok(WorkerReport::Server) => {}
            Ok(WorkerReport::Failed(why)) => return Err(failed(exchange, rank, why)),
            Err(_) => return Err(failed(exchange, rank, "its process ended without a report".to_owned())),
        }
    }
    Ok(clients)
}

fn failed(exchange: &Exchange, rank: usize, why: String) -> ExchangeError {
    ExchangeError::Failed { who: role(exchange, rank), transport: exchange.transport.clone(), why }
}

fn role(exchange: &Exchange, rank: usize) -> String {
    match rank.checked_sub(exchange.servers) {
        None => format!("server {rank}"),
        Some(client) => format!("client {client}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{Buffers, Timing, Workload};

    fn exchange(servers: usize, clients: usize) -> Exchange {
        Exchange {
            transport: "ring+shm".to_owned(),
            settings: Vec::new(),
            workload: Workload::Echo,
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
        }
    }

    #[test]
    fn the_first_failure_ends_the_wait() {
        let report = || Some((1, String::new()));
        let error =
            await_reports(&exchange(1, 1), 2, Duration::ZERO, report).expect_err("client 0 wrote nothing");
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
