//! How the processes of a cluster start and find each other.
//!
//! A process of a world learns its rank from whoever started it ([`Launch`]); a process of an open cluster
//! has none. It draws the number of its life and joins the [`Directory`], where it finds the addresses of all
//! other ranks, and the servers under each name. One process serves the registry behind it at an address that
//! all know (the [`Rendezvous`]). [`Bootstrap`] does all of it; `docs/bootstrap.md` describes it for users.

mod children;
mod directory;
mod fields;
mod foreign;
mod hosts;
mod incarnation;
mod launch;
mod limits;
mod listing;
mod messages;
mod placement;
mod refusal;
mod rendezvous;
mod secret;
mod start;
mod stream;
mod told;
mod variables;

pub use children::{ChildPlan, Children, SpawnError, StillRunning, end_with_this_thread};
pub(crate) use directory::NameWatch;
pub use directory::{
    BarrierError, CompareError, Directory, JoinError, LocalRanks, MissingRanks, PublishError, ResolveError,
};
pub use hosts::{HostList, HostPort};
pub(crate) use incarnation::{host_name, machine_number};
pub use incarnation::{random, random_incarnation};
pub use launch::{Launch, LaunchError};
pub use limits::{
    BARRIER_WAITS_MAX, BYTES_MAX, BYTES_PER_MEMBER_MAX, KEYS_PER_RANK_MAX, LEASE_MAX, LEASE_MIN, MEMBERS_MAX,
    MEMBERS_PER_ADDRESS_MAX, NAME_BYTES_MAX, RANK_HELD, RANKS_MAX, VALUE_BYTES_MAX, VALUES_MAX, WAITS_MAX,
};
pub use listing::{KEPT_AFTER_RESTART, Listing, Server};
pub use placement::{Placement, PlacementError};
pub use refusal::Refusal;
pub use rendezvous::{Rendezvous, RendezvousError, fuzz_rendezvous};
pub use start::{Bootstrap, BootstrapError, JOIN_WITHIN, REGISTRY_DEFAULT, own_executable};
pub use stream::KEY_FILE_VARIABLE;
pub(crate) use variables::NamesPlace;
pub use variables::{
    CORE_VARIABLE, EXTERNAL_VARIABLE, HOSTS_VARIABLE, LAUNCH_VARIABLES, NAMES_VARIABLE, PARENT_VARIABLE,
    RANK_VARIABLE, RENDEZVOUS_VARIABLE, SIZE_VARIABLE, URL_SCHEME,
};
