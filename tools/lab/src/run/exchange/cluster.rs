//! The measuring side: starts the processes, waits for their findings, and puts them together.

use core::time::Duration;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use farcall::bootstrap::{ChildPlan, Children, Rendezvous, RendezvousError, SpawnError};
use farcall_limit::{Core, CorePair};
use serde::de::DeserializeOwned;

use super::backing::Backing;
use super::instruments::Instruments;
use super::report::{Found, put_together};
use super::worker::{OVERHEAD_MAX, WORKER_COMMAND};
use super::{Exchange, ExchangeResult, Job};
use crate::files::ScratchFolder;
use crate::run::beside;
use crate::run::program::Program;
use crate::run::world::{Order, SILENT_MAX, World, WorldError};

/// Where processes run: on cores of this machine, or at the ranks of a launcher.
#[derive(Clone)]
pub struct Placement {
    cores: Vec<Core>,
    world: Option<Arc<World>>,
}

/// Where each process of a measurement runs, by its rank.
pub(crate) enum Seats<'a> {
    /// The core of each, on this machine, and how many cores there are.
    Cores(Vec<Core>, usize),
    /// The launcher's rank of each.
    Ranks(&'a World, Vec<u32>),
}

impl Seats<'_> {
    /// How many processes there are.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Cores(cores, _) => cores.len(),
            Self::Ranks(_, ranks) => ranks.len(),
        }
    }

    /// The launcher's rank of each, and its machine; nothing on this machine.
    fn words(&self) -> Vec<(u32, String)> {
        match self {
            Self::Cores(..) => Vec::new(),
            Self::Ranks(world, ranks) => ranks.iter().map(|&rank| (rank, world.host(rank))).collect(),
        }
    }

    /// Whether processes have to share cores.
    pub(crate) fn are_shared(&self) -> bool {
        match self {
            Self::Cores(cores, there_are) => cores.len() > *there_are,
            Self::Ranks(world, ranks) => world.share_cores(ranks),
        }
    }
}

impl Placement {
    /// Servers from the pair's responder on, clients from its initiator on; more processes take the `others`
    /// in turn.
    pub fn new(pair: CorePair, others: impl IntoIterator<Item = Core>) -> Self {
        let others = others.into_iter().filter(|core| ![pair.responder, pair.initiator].contains(core));
        Self { cores: [pair.responder, pair.initiator].into_iter().chain(others).collect(), world: None }
    }

    /// At the ranks of a launcher.
    pub fn at_ranks(world: Arc<World>) -> Self {
        Self { cores: Vec::new(), world: Some(world) }
    }

    /// The ranks of a launcher, if it is at those.
    pub(crate) fn world(&self) -> Option<&Arc<World>> {
        self.world.as_ref()
    }

    /// The seats of this many processes without roles.
    pub(crate) fn in_turn(&self, processes: usize) -> Result<Seats<'_>, WorldError> {
        match &self.world {
            Some(world) => {
                let ranks = world.places_for(processes, &format!("{processes} nodes"))?;
                Ok(Seats::Ranks(world, ranks.to_vec()))
            }
            None => {
                let cores = self.cores.iter().copied().cycle().take(processes).collect();
                Ok(Seats::Cores(cores, self.cores.len()))
            }
        }
    }

    /// The seats of this many servers and clients: on one machine the first server and the first client have
    /// a core to themselves as long as there are more cores than processes.
    pub(crate) fn of_roles(&self, servers: usize, clients: usize) -> Result<Seats<'_>, WorldError> {
        self.with_backups(servers, clients, 0)
    }

    /// The same with backups behind them.
    fn with_backups(&self, servers: usize, clients: usize, backups: usize) -> Result<Seats<'_>, WorldError> {
        let ranks = servers + clients + backups;
        if let Some(world) = &self.world {
            let places = world.places_for(ranks, &format!("{servers} servers and {clients} clients"))?;
            return Ok(Seats::Ranks(world, places.to_vec()));
        }
        let mut cores = vec![self.cores[0]; ranks];
        cores[servers] = self.cores[1];
        let rest = (0..ranks).filter(|&rank| rank != 0 && rank != servers);
        for (place, rank) in rest.enumerate() {
            cores[rank] = self.cores[(2 + place) % self.cores.len()];
        }
        Ok(Seats::Cores(cores, self.cores.len()))
    }

    /// The cores of this many backups next to one process that writes: each has its own if there are as many,
    /// else all have the same one.
    pub(crate) fn of_backups(&self, backups: usize) -> Vec<Core> {
        let [first, _, others @ ..] = &self.cores[..] else { return self.cores.clone() };
        let all = [&[*first], others].concat();
        if all.len() < backups { vec![*first] } else { all[..backups].to_vec() }
    }

    /// The seats of this many daemons with so many clients each, which are at the same rank as their daemon.
    pub(crate) fn of_daemons(&self, daemons: usize, clients: usize) -> Result<Seats<'_>, WorldError> {
        let Some(world) = &self.world else { return self.of_roles(daemons, daemons * clients) };
        let places = world.places_for(daemons, &format!("{daemons} daemons"))?;
        let of_clients = (0..daemons * clients).map(|client| places[client / clients]);
        Ok(Seats::Ranks(world, places.iter().copied().chain(of_clients).collect()))
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
    /// There is no folder for the registry and the logs of servers and backups: free some space, or name
    /// another folder for temporary files with `TMPDIR`.
    #[error("no folder for the registry and the logs of backups can be made: {why}")]
    Folder {
        /// The system's words.
        why: String,
    },
    /// The ranks of the launcher are too few, or one of them is gone.
    #[error(transparent)]
    World(#[from] WorldError),
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
    /// The last ones are backups.
    pub(crate) backups: usize,
    /// Where each rank runs.
    pub(crate) seats: Seats<'a>,
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
    let backups = exchange.backups();
    let seats = placement.with_backups(exchange.servers, exchange.clients, backups)?;
    let folder = (backups > 0).then(scratch_folder).transpose()?;
    let backing = folder.as_ref().map(|folder| Backing {
        folder: folder.path().to_owned(),
        backups,
        processes: backups,
        is_together: false,
    });
    run_job(program, exchange, instruments, seats, backing)
}

/// Measures a store with backups whose one client is in the thread of its one server. With fewer cores than
/// processes all backups are in one thread, too: what polls shares no core.
pub(crate) fn run_together(
    exchange: &Exchange,
    placement: &Placement,
) -> Result<ExchangeResult, ExchangeError> {
    let backups = exchange.backups();
    let cores = placement.of_backups(backups);
    let folder = scratch_folder()?;
    let backing =
        Backing { folder: folder.path().to_owned(), backups, processes: cores.len(), is_together: true };
    let seats = Seats::Cores([&[placement.cores[1]], &cores[..]].concat(), placement.cores.len());
    run_job(&Program::THIS, exchange, Instruments::default(), seats, Some(backing))
}

fn scratch_folder() -> Result<ScratchFolder, ExchangeError> {
    ScratchFolder::new().map_err(|error| ExchangeError::Folder { why: error.to_string() })
}

/// Has the processes do their parts, and puts together what they have found.
fn run_job(
    program: &Program,
    exchange: &Exchange,
    instruments: Instruments,
    seats: Seats<'_>,
    backing: Option<Backing>,
) -> Result<ExchangeResult, ExchangeError> {
    let (servers, backups) = (exchange.servers, backing.as_ref().map_or(0, |backing| backing.processes));
    let job = Job { exchange: exchange.clone(), instruments, shares_cores: seats.are_shared(), backing };
    let at = seats.words();
    let found: Vec<Found> = run_workers(&Workers {
        program: program.clone(),
        command: WORKER_COMMAND,
        job: serde_json::to_string(&job).expect("a job is JSON"),
        transport: &exchange.transport,
        servers,
        backups,
        seats,
        within: exchange.lasting + OVERHEAD_MAX * 2,
    })?;
    let mut result = put_together(exchange, found);
    for process in &mut result.asides.processes {
        process.at = at.get(process.process as usize).cloned();
    }
    result.asides.processes.sort_by_key(|process| process.process);
    Ok(result)
}

/// Starts the processes and waits for what they report, in the order in which they end.
pub(crate) fn run_workers<T: DeserializeOwned>(workers: &Workers<'_>) -> Result<Vec<T>, ExchangeError> {
    run_workers_with(workers, |text| match serde_json::from_str::<Report<T>>(text) {
        Ok(report) => report,
        Err(_) => Err("its process ended without a report".to_owned()),
    })
}

/// As [`run_workers`], where `parse` finds the report, or why there is none, in what a process wrote.
pub(crate) fn run_workers_with<T>(
    workers: &Workers<'_>,
    parse: impl Fn(&str) -> Report<T>,
) -> Result<Vec<T>, ExchangeError> {
    let cores = match &workers.seats {
        Seats::Cores(cores, _) => cores,
        Seats::Ranks(world, ranks) => return run_at_ranks(workers, world, ranks, parse),
    };
    let ranks = cores.len();
    let rendezvous = Rendezvous::bind("127.0.0.1:0", ranks as u32)?;
    let plans = cores.iter().enumerate().map(|(rank, core)| plan(workers, rank as u32, *core));
    let mut children = Children::start(rendezvous.address(), ranks as u32, plans.collect())?;
    let (sender, reports) = channel();
    for rank in 0..ranks {
        if let Some(output) = children.take_stdout(rank as u32) {
            beside::read(rank, output, sender.clone()).map_err(|why| workers.failed(rank, why))?;
        }
    }
    drop(sender);
    await_reports(workers, &reports, parse)
}

/// The same at the ranks of a launcher. When one fails, all others are told to end.
fn run_at_ranks<T>(
    workers: &Workers<'_>,
    world: &World,
    ranks: &[u32],
    parse: impl Fn(&str) -> Report<T>,
) -> Result<Vec<T>, ExchangeError> {
    let size = ranks.len() as u32;
    let (_rendezvous, address) = world.rendezvous(size).map_err(|why| workers.failed(0, why))?;
    let (sender, reports) = channel();
    let cores = world.cores(ranks);
    for (number, (&at, core)) in ranks.iter().zip(cores).enumerate() {
        let order = Order {
            command: workers.command.to_owned(),
            job: workers.job.clone(),
            rank: number as u32,
            size,
            rendezvous: address.clone(),
            core,
            clock_offset_nanos: world.clock_offset_nanos(at),
        };
        let started = world.run(at, order, workers.within, number, sender.clone());
        started.map_err(|why| workers.failed(number, why))?;
    }
    drop(sender);
    let outcome = await_ranks(workers, &reports, parse);
    if let Err(error) = &outcome {
        if let ExchangeError::World(error) = error {
            world.note(error);
        }
        world.stop();
    }
    outcome
}

/// As [`await_reports`]. That a rank was lost is why the processes of others failed, so it is waited for a
/// moment when one of them is the first to say so.
fn await_ranks<T>(
    workers: &Workers<'_>,
    reports: &Receiver<(usize, Result<String, WorldError>)>,
    parse: impl Fn(&str) -> Report<T>,
) -> Result<Vec<T>, ExchangeError> {
    let (mut end, mut first_failure) = (Instant::now() + workers.within, None);
    let mut silent: BTreeSet<usize> = (0..workers.seats.count()).collect();
    let mut findings = Vec::with_capacity(silent.len());
    while let Some(&first_silent) = silent.first() {
        let received = reports.recv_timeout(end.saturating_duration_since(Instant::now()));
        let Ok((number, outcome)) = received else {
            return Err(first_failure.unwrap_or_else(|| workers.silent(first_silent)));
        };
        silent.remove(&number);
        match outcome.map(|text| parse(&text)) {
            Ok(Ok(found)) => findings.push(found),
            Ok(Err(why)) => {
                end = end.min(Instant::now() + SILENT_MAX + LOSS_SHOWS_WITHIN);
                first_failure.get_or_insert_with(|| workers.failed(number, why));
            }
            Err(error) => return Err(error.into()),
        }
    }
    first_failure.map_or(Ok(findings), Err)
}

/// By how much the loss of a rank may show later than after its time of silence.
const LOSS_SHOWS_WITHIN: Duration = Duration::from_secs(5);

/// The program as a worker.
fn plan(workers: &Workers<'_>, rank: u32, core: Core) -> ChildPlan {
    let mut command = Command::new(workers.program.path());
    command.args([workers.command, &workers.job]).stdin(Stdio::null()).stdout(Stdio::piped());
    // Where reports are written, UCX would otherwise write its messages.
    command.env("UCX_LOG_FILE", "stderr");
    ChildPlan::new(rank, command).on_core(core.0 as u32)
}

/// The first failure ends the wait.
fn await_reports<T>(
    workers: &Workers<'_>,
    reports: &Receiver<(usize, String)>,
    parse: impl Fn(&str) -> Report<T>,
) -> Result<Vec<T>, ExchangeError> {
    let end = Instant::now() + workers.within;
    let mut silent: BTreeSet<usize> = (0..workers.seats.count()).collect();
    let mut findings = Vec::with_capacity(silent.len());
    while let Some(&first_silent) = silent.first() {
        let received = reports.recv_timeout(end.saturating_duration_since(Instant::now()));
        let (rank, text) = received.map_err(|_| workers.silent(first_silent))?;
        silent.remove(&rank);
        findings.push(parse(&text).map_err(|why| workers.failed(rank, why))?);
    }
    Ok(findings)
}

impl Workers<'_> {
    fn failed(&self, rank: usize, why: String) -> ExchangeError {
        ExchangeError::Failed { who: self.role(rank), transport: self.transport.to_owned(), why }
    }

    fn silent(&self, rank: usize) -> ExchangeError {
        let transport = self.transport.to_owned();
        ExchangeError::Silent { who: self.role(rank), transport, within: self.within }
    }

    fn role(&self, rank: usize) -> String {
        let program = match &self.seats {
            Seats::Cores(..) => self.program.suffix(),
            Seats::Ranks(world, ranks) => format!(" (rank {}{})", ranks[rank], world.words(ranks[rank])),
        };
        if let Some(backup) = (rank + self.backups).checked_sub(self.seats.count()) {
            return format!("backup {backup}{program}");
        }
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
            backups: 0,
            seats: Seats::Cores(vec![Core(0), Core(1)], 2),
            within: Duration::from_secs(1),
        };
        let parse = |text: &str| serde_json::from_str::<()>(text).map_err(|_| "no report".to_owned());
        let error = await_reports(&workers, &reports, parse).expect_err("client 0 wrote nothing");
        assert_eq!(error.to_string(), "client 0 of ring+shm failed: no report");
    }

    #[test]
    fn processes_get_cores_of_their_own_as_long_as_there_are_enough() {
        let pair = CorePair { responder: Core(4), initiator: Core(7) };
        let seats = |others: &[usize], servers, clients| {
            let placement = Placement::new(pair, others.iter().map(|&core| Core(core)));
            let seats = placement.of_roles(servers, clients).expect("on this machine there is room");
            let Seats::Cores(cores, _) = &seats else { unreachable!("they are on this machine") };
            (cores.iter().map(|core| core.0).collect::<Vec<_>>(), seats.are_shared())
        };
        assert_eq!(seats(&[], 1, 1), (vec![4, 7], false));
        assert_eq!(seats(&[4, 5, 6, 7], 2, 2), (vec![4, 5, 7, 6], false));
        assert_eq!(seats(&[], 1, 3), (vec![4, 7, 4, 7], true));
    }

    #[test]
    fn backups_have_cores_of_their_own_or_all_have_one() {
        let pair = CorePair { responder: Core(4), initiator: Core(7) };
        let cores = |others: &[usize], backups| {
            let placement = Placement::new(pair, others.iter().map(|&core| Core(core)));
            placement.of_backups(backups).iter().map(|core| core.0).collect::<Vec<_>>()
        };
        assert_eq!(cores(&[], 2), [4], "a third core would be the client's");
        assert_eq!(cores(&[5, 6], 2), [4, 5]);
        assert_eq!(cores(&[5, 6], 4), [4]);
    }
}
