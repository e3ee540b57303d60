//! The start of a process: from its environment or from a call to a place in a cluster.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use farcall_pmix::{Job, PmiJob, PmixError, pmi_job};

use super::children::{ChildPlan, Children, SpawnError};
use super::directory::{Directory, JoinError, LocalRanks};
use super::foreign::refuse_foreign_launchers;
use super::hosts::HostPort;
use super::incarnation::random_incarnation;
use super::launch::{Launch, LaunchError};
use super::placement::{Placement, PlacementError};
use super::rendezvous::{Rendezvous, RendezvousError};
use super::told;

/// How long a process waits for the rendezvous when nobody says otherwise: the other machines may start
/// later.
pub const JOIN_WITHIN: Duration = Duration::from_secs(30);

/// Where a process without a rank looks for a registry unless it is told where.
pub const REGISTRY_DEFAULT: &str = "127.0.0.1:7117";

/// A process's place in its cluster.
#[derive(Debug)]
pub struct Bootstrap {
    /// This process's rank, from 0; `u32::MAX` without one.
    pub rank: u32,
    /// The number of ranks; 0 without a world.
    pub size: u32,
    /// The number of this process's life, never 0.
    pub incarnation: u64,
    /// Where the others are.
    pub directory: Arc<Directory>,
    /// The processes that [`Bootstrap::local`] started; dropped before the rendezvous that they use.
    pub children: Option<Children>,
    /// The registry, in the process that serves it.
    pub rendezvous: Option<Rendezvous>,
}

/// Why a process has no place in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// The environment contradicts itself.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The launcher does not help.
    #[error(transparent)]
    Launcher(#[from] PmixError),
    /// The process cannot run where, or as long as, it was asked to.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The directory cannot be served here.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// The directory cannot be joined.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The other local processes cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// Program and environment disagree.
    #[error("the program asks for {asked} local ranks and its environment for {size}; make them agree")]
    SizeDiffers {
        /// What the program asked for.
        asked: u32,
        /// What the environment says.
        size: u32,
    },
}

impl Bootstrap {
    /// Starts as the launch variables say; when there are none, as a launcher that speaks PMIx (`mpirun`,
    /// `prterun`, `srun --mpi=pmix`) or PMI 1 (`mpirun` of MPICH, `srun --mpi=pmi2`) says; alone when there
    /// is none either. One of several processes that another launcher started is not alone, and has to be
    /// told where the others are.
    ///
    /// Under such a launcher every process must call it.
    pub fn from_env() -> Result<Self, BootstrapError> {
        match (Launch::from_env()?, farcall_pmix::job()) {
            (Launch::Alone, Ok(Some(job))) => {
                let Job { rank, size, is_local, .. } = *job;
                Self::in_job(rank, size, is_local, |text| job.share(text, JOIN_WITHIN))
            }
            (Launch::Alone, Err(error)) => Err(error.into()),
            (Launch::Alone, Ok(None)) => {
                if let Some(job) = pmi_job().filter(|job| job.size > 1) {
                    let PmiJob { rank, size, is_local, .. } = *job;
                    return Self::in_job(rank, size, is_local, |text| job.share(text, JOIN_WITHIN));
                }
                refuse_foreign_launchers(|variable| std::env::var_os(variable))?;
                Self::start(Launch::Alone, JOIN_WITHIN)
            }
            (launch, _) => Self::start(launch, JOIN_WITHIN),
        }
    }

    /// Starts `size` processes of this program on this machine, with this one as rank 0.
    ///
    /// The program runs again with the same arguments for every other rank, and this same call gives each its
    /// place there. When the environment already gives this process a place, it is taken instead of starting
    /// processes. Call it early: whatever was done before is done by every rank.
    pub fn local(size: u32) -> Result<Self, BootstrapError> {
        match Launch::from_env()? {
            Launch::Alone if size == 1 => Self::start(Launch::Alone, JOIN_WITHIN),
            Launch::Alone => Self::with_children(size),
            launch if launch.size() != size => {
                Err(BootstrapError::SizeDiffers { asked: size, size: launch.size() })
            }
            launch => Self::start(launch, JOIN_WITHIN),
        }
    }

    /// A cluster of this process only, whatever the environment says.
    pub fn alone() -> Self {
        Self::with_directory(Directory::alone(random_incarnation()), None)
    }

    /// The place of one rank among several in this process, for one life of it.
    pub fn among(ranks: &LocalRanks, rank: u32, incarnation: u64) -> Self {
        Self::with_directory(ranks.directory(rank, incarnation), None)
    }

    /// Joins a rendezvous that somebody serves at `address`, whatever place the environment gives.
    pub fn join(address: &HostPort, rank: u32, size: u32, within: Duration) -> Result<Self, BootstrapError> {
        let placement = Placement::from_env()?;
        placement.tie_to_parent()?;
        let directory = Directory::join(address, rank, size, random_incarnation(), within)?;
        placement.pin()?;
        Ok(Self::with_directory(directory, None))
    }

    /// Joins the registry at `address` without a rank, whatever the environment says.
    pub fn open(address: &HostPort, within: Duration) -> Result<Self, BootstrapError> {
        let placement = Placement::from_env()?;
        placement.tie_to_parent()?;
        let directory = Directory::open(address, random_incarnation(), within)?;
        placement.pin()?;
        Ok(Self::with_directory(directory, None))
    }

    /// Without a rank and without a registry.
    pub fn nowhere() -> Result<Self, BootstrapError> {
        let placement = Placement::from_env()?;
        placement.tie_to_parent()?;
        placement.pin()?;
        Ok(Self::with_directory(Directory::nowhere(random_incarnation()), None))
    }

    /// Serves a registry for processes without ranks at `address`, and joins it.
    pub fn serve_names(address: &str) -> Result<Self, BootstrapError> {
        let placement = Placement::from_env()?;
        placement.tie_to_parent()?;
        let rendezvous = Rendezvous::bind_open(address)?;
        let own = HostPort::from(rendezvous.address_from_here());
        let directory = Directory::open(&own, random_incarnation(), JOIN_WITHIN)?;
        placement.pin()?;
        Ok(Self::with_directory(directory, Some(rendezvous)))
    }

    /// Starts in the given way, and waits for the rendezvous for at most `within`.
    pub fn start(launch: Launch, within: Duration) -> Result<Self, BootstrapError> {
        let placement = Placement::from_env()?;
        placement.tie_to_parent()?;
        let bootstrap = match launch {
            Launch::Alone => Self::alone(),
            Launch::Rendezvous { rank, size, address, serves } => {
                Self::with_rendezvous(&address, rank, size, 0, serves, within)?
            }
            Launch::Hosts { rank, hosts } => {
                let (size, fingerprint) = (hosts.size() as u32, hosts.fingerprint());
                Self::with_rendezvous(hosts.rendezvous(), rank, size, fingerprint, rank == 0, within)?
            }
        };
        // The threads of the directory run already, and stay free to run on other cores.
        placement.pin()?;
        Ok(bootstrap)
    }

    fn with_rendezvous(
        address: &HostPort,
        rank: u32,
        size: u32,
        hosts_fingerprint: u64,
        serves: bool,
        within: Duration,
    ) -> Result<Self, BootstrapError> {
        let serve = || Rendezvous::bind_for(address, size, hosts_fingerprint);
        let rendezvous = serves.then(serve).transpose()?;
        let incarnation = random_incarnation();
        let directory =
            Directory::join_with_hosts(address, rank, size, incarnation, hosts_fingerprint, within)?;
        Ok(Self::with_directory(directory, rendezvous))
    }

    /// Rank 0 serves a rendezvous wherever there is a free port, and the launcher tells the others where.
    fn in_job(
        rank: u32,
        size: u32,
        is_local: bool,
        share: impl FnOnce(Option<&str>) -> Result<String, PmixError>,
    ) -> Result<Self, BootstrapError> {
        let placement = Placement::from_env()?;
        placement.tie_to_parent()?;
        let bind = if is_local { "127.0.0.1:0" } else { "0.0.0.0:0" };
        let rendezvous = (rank == 0).then(|| Rendezvous::bind(bind, size)).transpose()?;
        let own_address = rendezvous.as_ref().map(|rendezvous| {
            let address = rendezvous.address();
            if is_local { address.to_string() } else { told::of_this_machine(address.port()) }
        });
        let address = told::place(&share(own_address.as_deref())?).ok_or(PmixError::NotText)?;
        let directory = Directory::join(&address, rank, size, random_incarnation(), JOIN_WITHIN)?;
        placement.pin()?;
        Ok(Self::with_directory(directory, rendezvous))
    }

    fn with_children(size: u32) -> Result<Self, BootstrapError> {
        let placement = Placement::from_env()?;
        placement.tie_to_parent()?;
        let rendezvous = Rendezvous::bind("127.0.0.1:0", size)?;
        let address = rendezvous.address();
        let plans = (1..size).map(|rank| ChildPlan::new(rank, this_program())).collect();
        let children = Children::start(address, size, plans)?;
        let directory = Directory::join(&address.into(), 0, size, random_incarnation(), JOIN_WITHIN)?;
        placement.pin()?;
        Ok(Self { children: Some(children), ..Self::with_directory(directory, Some(rendezvous)) })
    }

    fn with_directory(directory: Directory, rendezvous: Option<Rendezvous>) -> Self {
        Self {
            rank: directory.rank(),
            size: directory.size(),
            incarnation: directory.incarnation(),
            directory: Arc::new(directory),
            children: None,
            rendezvous,
        }
    }
}

/// The file of this program: the kernel's link to it, even if another file has its name meanwhile, and where
/// there is no `/proc` the name by which it was started.
pub fn own_executable() -> PathBuf {
    const LINK: &str = "/proc/self/exe";
    if Path::new(LINK).exists() {
        return LINK.into();
    }
    let named = rustix::param::linux_execfn().to_bytes();
    if named.is_empty() { LINK.into() } else { OsStr::from_bytes(named).into() }
}

/// This program with its arguments. The link is followed by the child itself, which still is this program
/// then, so that a file that was replaced in the meantime does no harm.
fn this_program() -> Command {
    let mut command = Command::new(own_executable());
    let mut arguments = std::env::args_os();
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments);
    command
}
