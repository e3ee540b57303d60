//! How the processes of a cluster start and find each other.

mod hosts;
mod launch;
mod placement;
mod variables;

pub use hosts::{HostList, HostPort};
pub use launch::{Launch, LaunchError};
pub use placement::Placement;
pub use variables::{
    CORE_VARIABLE, EXTERNAL_VARIABLE, HOSTS_VARIABLE, LAUNCH_VARIABLES, PARENT_VARIABLE, RANK_VARIABLE,
    RENDEZVOUS_VARIABLE, SIZE_VARIABLE,
};

/// The most ranks of one cluster.
pub const RANKS_MAX: u32 = 16_384;
