//! The grammar of what runs at the ranks of a launcher, and where processes of a measurement go.

use std::sync::Arc;

use clap::Args;
use farcall::TransportKind;
use farcall_lab::run::bench::{Bench, BenchError};
use farcall_lab::run::world::{Place, Role, World};

use crate::failure::Failure;

/// Where measured processes run: on this machine, or at the ranks of the launcher that started this program.
#[derive(Clone, Debug, Args)]
pub struct OverRanks {
    /// Under mpirun, prterun or srun: which ranks get a process, servers before clients: pack (in their
    /// order), spread (machine by machine), a list such as 0,2-5, or a list for each role, such as
    /// servers=0/clients=1,2, daemons=0,2 or sender=1/receiver=0
    #[arg(long, default_value = "pack", value_name = "RULE")]
    pub place: Place,
    /// Starts itself once on each of these hosts, separated by commas, by the launcher that is installed
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub hosts: Vec<String>,
    /// The ranks, once they have found each other.
    #[arg(skip)]
    pub world: Option<Arc<World>>,
}

impl OverRanks {
    /// Where measurements run.
    pub fn bench(&self) -> Result<Bench, BenchError> {
        self.world.as_ref().map_or_else(Bench::new, |world| Ok(Bench::at_ranks(Arc::clone(world))))
    }

    /// How many ranks can have a process, if there is a launcher.
    pub fn places(&self) -> Option<u64> {
        self.world.as_ref().map(|world| world.places() as u64)
    }

    /// Refuses more processes than there are ranks.
    pub fn check(&self, needed: u64, what: &str) -> Result<(), Failure> {
        let Some(world) = &self.world else { return Ok(()) };
        world.check(needed as usize, what).map_err(|error| Failure::Usage(error.to_string()))
    }

    /// How many ranks `--place` names for a role.
    pub fn named(&self, role: Role) -> Option<u64> {
        self.place.roles()?.get(&role).map(|ranks| ranks.len() as u64)
    }

    /// Refuses roles in `--place` that a command does not have, that are not all of them, or of which it has
    /// another number. `roles` are those that it has.
    pub fn check_roles(&self, command: &str, roles: &[(Role, u64)]) -> Result<(), Failure> {
        let Some(named) = self.place.roles() else { return Ok(()) };
        let usage = |sentence: String| Err(Failure::Usage(format!("--place: {sentence}")));
        if self.world.is_none() {
            return usage(
                "roles are given to the ranks of a launcher; start this by mpirun or srun, or with --hosts"
                    .to_owned(),
            );
        }
        if let Some(role) = named.keys().find(|role| roles.iter().all(|(has, _)| has != *role)) {
            let has: Vec<&str> = roles.iter().map(|(role, _)| role.name()).collect();
            return match &*has {
                [] => usage(format!("{command} has no {role}; give a list such as 0,2")),
                has => usage(format!("{command} has no {role}; its roles are {}", has.join(" and "))),
            };
        }
        for (role, number) in roles {
            match named.get(role).map(Vec::len) {
                None => return usage(format!("name the ranks of {role}, too")),
                Some(ranks) if ranks as u64 != *number => {
                    return usage(format!("it has {ranks} for {role}, and {number} are asked for"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The transports that are measured unless the command line names some.
    pub fn default_transports(&self, on_this_machine: &[TransportKind]) -> Vec<TransportKind> {
        let Some(world) = &self.world else { return on_this_machine.to_vec() };
        let reaches = |transport: &&TransportKind| refusal(world, **transport).is_none();
        on_this_machine.iter().filter(reaches).copied().collect()
    }

    /// The transports that the command line names, or the first of those for one that reaches all ranks.
    pub fn named_or_one_of(&self, named: &[TransportKind]) -> Vec<TransportKind> {
        let first = || self.default_transports(&[TransportKind::RING_SHM, TransportKind::BASIC_UDP]);
        if named.is_empty() { first().into_iter().take(1).collect() } else { named.to_vec() }
    }

    /// Refuses transports that do not reach all ranks.
    pub fn check_transports(&self, transports: &[TransportKind]) -> Result<(), Failure> {
        let Some(world) = &self.world else { return Ok(()) };
        let refused = transports.iter().find_map(|&transport| refusal(world, transport));
        refused.map_or(Ok(()), |why| Err(Failure::Usage(format!("--transport: {why}"))))
    }
}

/// Why a transport does not reach all ranks; `None` if it does, or is simulated.
fn refusal(world: &World, transport: TransportKind) -> Option<String> {
    let hosts = world.hosts();
    match transport.name() {
        "mpi" => Some(
            "the processes of mpi are started by mpirun itself; run this without the launcher".to_owned(),
        ),
        name if name.ends_with("+shm") && hosts.len() > 1 => {
            let (count, hosts) = (hosts.len(), hosts.join(", "));
            Some(format!("{name} does not leave a machine, and the ranks are on {count}: {hosts}"))
        }
        _ => None,
    }
}
