//! Collective operations over farcall: barriers, broadcasts, gathers, all-gathers, all-reduces, all-to-alls
//! and exchanges.
//!
//! A [`Group`] is what MPI and NCCL call a communicator: members in an order, on one endpoint each. Its
//! operations work over every transport, also simulated ones, because they are made of tagged messages and
//! calls. Each is a [`Collective`]: waited for, awaited, or looked at in a poll loop. Each has a deadline.
//! When a member dies, all others get an error that names it.
//!
//! ```
//! use farcall::Node;
//! use farcall_collective::{Group, GroupId, sum};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::from_env()?; // one rank of as many as the launcher has started; alone without one
//! let endpoint = node.endpoint("ring+shm")?;
//! let mut group = Group::new(&endpoint, GroupId::new(0), node.rank(), 0..node.size())?;
//! let mut gradient = [0.5_f64; 4];
//! group.all_reduce(&mut gradient, sum).wait()?;
//! assert_eq!(gradient[0], 0.5 * f64::from(node.size()));
//! let parts = group.all_gather_v(b"of any length").wait()?;
//! assert_eq!(parts.len(), node.size() as usize);
//! # Ok(())
//! # }
//! ```
//!
//! | operation | MPI | lengths |
//! |---|---|---|
//! | [`Group::barrier`] | Barrier | |
//! | [`Group::broadcast`] | Bcast | equal |
//! | [`Group::gather`] | Gatherv | may differ |
//! | [`Group::all_gather`] | Allgather | equal |
//! | [`Group::all_gather_v`] | Allgatherv | may differ |
//! | [`Group::all_reduce`] | Allreduce | equal |
//! | [`Group::all_to_all`] | Alltoall | equal |
//! | [`Group::all_to_all_v`] | Alltoallv | may differ |
//! | [`Group::exchange`] | Neighbor_alltoallv | may differ |
//!
//! Lengths that may differ need not be known to receivers, and any length may be 0.
//!
//! The algorithms have the names of the literature; [`Algorithms`] says which one is used for which size.
#![forbid(unsafe_code)]

mod algorithms;
mod all_reduce;
mod all_to_all;
mod broadcast;
mod error;
mod exchange;
mod gather;
mod group;
mod join;
mod part;
mod reach;

pub use algorithms::{
    Algorithms, AllGather, AllReduce, AllToAll, Broadcast, BySize, Gather, PushLimits, PushPolicy,
};
pub use all_reduce::{Element, max, min, sum};
pub use error::{CollectiveError, GroupError};
pub use group::{Collective, GROUP_IDS, Group, GroupId, TIMEOUT_DEFAULT};
pub use part::Part;
