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

    fn is_shared(&self, exchange: &Exchange) -> bool {
        exchange.servers + exchange.clients > self.cores.len()
    }

    /// The core of each rank: the first server and the first client have one to themselves as long as there are more
    /// cores than processes.
    fn of(&self, exchange: &Exchange) -> Vec<Core> {
        let (servers, ranks) = (exchange.servers, exchange.servers + exchange.clients);
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
    let ranks = exchange.servers + exchange.clients;
    let rendezvous = Rendezvous::bind("127.0.0.1:0", ranks as u32)?;
    let cores = placement.of(exchange);
    let job = Job { exchange: exchange.clone(), shares_cores: placement.is_shared(exchange) };
    let job = serde_json::to_string(&job).expect("a job is JSON");
    let plans = cores.iter().enumerate().map(|(rank, core)| plan(&job, rank as u32, *core)).collect();
    let mut children = Children::start(rendezvous.address(), ranks as u32, plans)?;
    let (sender, reports) = channel();
    for rank in 0..ranks {
        if let Some(output) = children.take_stdout(rank as u32) {
            read_aside(rank, output, sender.clone());
        }
    }
    drop(sender);
    let clients = await_reports(exchange, ranks, &reports)?;
    Ok(ExchangeResult::new(exchange, &clients))
}

/// This program as a worker.
fn plan(job: &str, rank: u32, core: Core) -> ChildPlan {
    let mut command = Command::new("/proc/self/exe");
    command.args([WORKER_COMMAND, job]).stdin(Stdio::null()).stdout(Stdio::piped());
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
    reports: &Receiver<(usize, String)>,
) -> Result<Vec<ClientReport>, ExchangeError> {
    let within = exchange.lasting + OVERHEAD_MAX * 2;
    let end = Instant::now() + within;
    let mut silent: BTreeSet<usize> = (0..ranks).collect();
    let mut clients = Vec::with_capacity(exchange.clients);
    while let Some(&first_silent) = silent.first() {
        let received = reports.recv_timeout(end.saturating_duration_since(Instant::now()));
        let (rank, text) = received.map_err(|_| ExchangeError::Silent {
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
        let (sender, reports) = channel();
        sender.send((1, String::new())).expect("the receiver is there");
        let error = await_reports(&exchange(1, 1), 2, &reports).expect_err("client 0 wrote nothing");
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
