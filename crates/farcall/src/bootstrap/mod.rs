//! How the processes of a cluster start and find each other.
//!
//! A process learns its rank from whoever started it ([`Launch`]), draws the number of its life, and joins the
//! [`Directory`], where it finds the addresses of all other ranks. One process serves the directory at an address
//! that all know (the [`Rendezvous`]). [`Bootstrap`] does all of it; `docs/bootstrap.md` describes it for users.

mod children;
mod directory;
mod fields;
mod hosts;
mod incarnation;
mod launch;
mod limits;
mod messages;
mod placement;
mod refusal;
mod rendezvous;
mod start;
mod stream;
mod variables;

pub use children::{ChildPlan, Children, SpawnError, StillRunning};
pub use directory::{BarrierError, Directory, JoinError, LocalRanks, PublishError, ResolveError};
pub use hosts::{HostList, HostPort};
pub use incarnation::{random, random_incarnation};
pub use launch::{Launch, LaunchError};
pub use limits::{BARRIER_WAITS_MAX, KEYS_PER_RANK_MAX, NAME_BYTES_MAX, RANKS_MAX, WAITS_MAX};
pub use placement::{Placement, PlacementError};
pub use refusal::Refusal;
pub use rendezvous::{Rendezvous, RendezvousError, fuzz_rendezvous};
pub use start::{Bootstrap, BootstrapError, JOIN_WITHIN};
pub use variables::{
    CORE_VARIABLE, EXTERNAL_VARIABLE, HOSTS_VARIABLE, LAUNCH_VARIABLES, PARENT_VARIABLE, RANK_VARIABLE,
    RENDEZVOUS_VARIABLE, SIZE_VARIABLE,
};
