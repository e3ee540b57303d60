//! The backups of a measurement: the processes that have the logs of its servers, too, and how servers find
//! them.
//!
//! They are what `farcall kv backup` is, on this machine, with a registry in a folder that goes with the
//! measurement.

use core::time::Duration;
use std::path::PathBuf;
use std::time::Instant;

use farcall::bootstrap::Launch;
use farcall::{Endpoint, Listener, Node};
use farcall_kv::durable::Level;
use farcall_kv::replicated::{BACKUP_NAME, Backups, OpenRegistry, RegistryPlace};
use farcall_replica::{Backup, BackupEntry, FolderShelf, Registry};
use serde::{Deserialize, Serialize};

use super::worker::{OVERHEAD_MAX, pass_by, sentence};
use super::{ExchangeWork, Job};

/// All ranks wait here until the servers have their objects and backups.
pub(super) const FILLED: &str = "filled";

/// The time between two looks for backups that are not announced yet.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// Where the logs of the servers are replicated to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Backing {
    /// Has the registry, and a folder for each log and each backup that is flushed.
    pub(super) folder: PathBuf,
    /// How many backups there are.
    pub(super) backups: usize,
    /// How many processes they are; one with several polls them alternately.
    pub(super) processes: usize,
    /// Whether the one client is in the process of the one server, and polls it.
    pub(super) is_together: bool,
}

/// What a process of a measurement does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// It answers.
    Server,
    /// It calls.
    Client,
    /// It calls itself.
    Both,
    /// It has the logs of servers, as these backups.
    Backups(Vec<usize>),
}

impl Backing {
    /// What the process of a rank does: servers come first, then clients, then backups.
    pub(super) fn part_of(&self, rank: usize, servers: usize, clients: usize) -> Part {
        let first_backup = if self.is_together { 1 } else { servers + clients };
        match rank.checked_sub(first_backup) {
            Some(process) => Part::Backups((process..self.backups).step_by(self.processes).collect()),
            None if self.is_together => Part::Both,
            None if rank < servers => Part::Server,
            None => Part::Client,
        }
    }

    /// The registry of servers and backups.
    pub(super) fn registry(&self) -> RegistryPlace {
        RegistryPlace::File(self.folder.join("registry"))
    }

    /// Waits until servers can find all backups.
    pub(super) fn wait_for_backups(&self) -> Result<(), String> {
        let mut registry = OpenRegistry::open(&self.registry()).map_err(sentence)?;
        let begun = Instant::now();
        while registry.backups().map_err(sentence)?.len() < self.backups {
            if begun.elapsed() > OVERHEAD_MAX {
                return Err(format!("its {} backups were not there within {OVERHEAD_MAX:?}", self.backups));
            }
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
        Ok(())
    }
}

/// A backup that servers can find.
struct Announced {
    endpoint: Endpoint,
    backups: Backups,
    _listener: Listener,
}

impl Announced {
    fn begin(number: usize, level: Level, node: &Node, job: &Job, backing: &Backing) -> Result<Self, String> {
        let name = format!("{BACKUP_NAME}-{number}");
        let folder = level.is_flushed().then(|| backing.folder.join(format!("backup-{number}")));
        let shelf = FolderShelf::new(folder.as_deref()).map_err(sentence)?;
        let backups = Backups::new(Backup::open(Box::new(shelf)).map_err(sentence)?);
        let Launch::Rendezvous { address, .. } = Launch::from_env().map_err(sentence)? else {
            return Err("backups are found at the rendezvous of a measurement, and there is none".to_owned());
        };
        let endpoint = node.endpoint(&job.exchange.transport).map_err(sentence)?;
        let listener = endpoint.listen(&name).map_err(sentence)?;
        let entry = BackupEntry { at: format!("{address}/{name}"), domain: name, has_disk: folder.is_some() };
        let registry = OpenRegistry::open(&backing.registry()).map_err(sentence)?;
        registry.announce(&entry).map_err(sentence)?;
        Ok(Self { endpoint, backups, _listener: listener })
    }

    /// A turn; says how much there was to do.
    fn turn(&mut self) -> usize {
        let Self { endpoint, backups, .. } = self;
        let handled = endpoint.poll_requests(|request, reply| backups.handle(&request, reply), |_, _| ());
        handled + backups.turn(endpoint)
    }
}

/// Is these backups until all ranks are at the end.
pub(super) fn back_up(numbers: &[usize], node: &Node, job: &Job, within: Duration) -> Result<(), String> {
    let (ExchangeWork::Store(work), Some(backing)) = (&job.exchange.workload, &job.backing) else {
        return Err("only the logs of a store have backups".to_owned());
    };
    let level = work.level();
    let begun = numbers.iter().map(|&number| Announced::begin(number, level, node, job, backing));
    let mut backups = begun.collect::<Result<Vec<_>, _>>()?;
    let mut turn = || backups.iter_mut().map(Announced::turn).sum::<usize>();
    // Those with disks have a thread for each, which needs the core as well.
    let yields = job.shares_cores || level.is_flushed();
    pass_by(node, FILLED, within, yields, &mut turn)?;
    pass_by(node, "end", within, yields, &mut turn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backing(backups: usize, processes: usize, is_together: bool) -> Backing {
        Backing { folder: PathBuf::new(), backups, processes, is_together }
    }

    #[test]
    fn backups_come_behind_servers_and_clients() {
        let apart = backing(2, 2, false);
        let parts: Vec<Part> = (0..5).map(|rank| apart.part_of(rank, 1, 2)).collect();
        let backups = [Part::Backups(vec![0]), Part::Backups(vec![1])];
        assert_eq!(parts, [&[Part::Server, Part::Client, Part::Client][..], &backups].concat());
    }

    #[test]
    fn a_process_may_be_several_backups() {
        let together = backing(3, 2, true);
        let parts: Vec<Part> = (0..3).map(|rank| together.part_of(rank, 1, 1)).collect();
        assert_eq!(parts, [Part::Both, Part::Backups(vec![0, 2]), Part::Backups(vec![1])]);
    }
}
