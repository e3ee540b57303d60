//! A simulated fabric: hundreds of hosts in one thread, with the same result for the same seed.
//!
//! Protocols, endpoints and workloads run on it unchanged, because it is reached through the same seams as a
//! real one: [`SimDatagram`] and [`SimLanes`] are drivers, and clocks are those of the simulated hosts. A
//! [`Profile`] says what hosts, network cards, links and switches cost; a [`Simulation`] runs programs.
//! `docs/simulation.md` says what is modelled and what is not.
//!
//! ```
//! use farcall_driver::Datagram;
//! use farcall_sim::{Fabric, Profile};
//!
//! let fabric = Fabric::new(Profile::load("ideal")?, 1, 2)?;
//! let (mut a, mut b) = (fabric.host(0).datagram(), fabric.host(1).datagram());
//! let to_b = a.resolve(&b.address())?;
//! a.send(to_b, 0, &[b"hello"])?;
//! a.flush();
//! fabric.settle();
//! let mut packets = Vec::new();
//! assert_eq!(b.receive(&mut packets), 1);
//! assert_eq!(&*packets[0], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bell;
mod config;
mod counters;
mod datagram;
mod fabric;
mod faults;
mod host;
mod lane;
mod placement;
pub mod profile;
mod queue;
mod simulation;
mod time;
mod values;
mod wakes;
mod world;

pub use config::ConfigError;
pub use counters::SimCounters;
pub use datagram::SimDatagram;
pub use fabric::Fabric;
pub use faults::{Action, PacketFaults, Schedule, ScheduleError, Scheduled};
pub use host::Host;
pub use lane::{SimLaneReceiver, SimLaneSender, SimLanes};
pub use placement::Placement;
pub use profile::{Profile, ProfileError};
pub use simulation::{Factory, Outcome, Program, Simulation};
pub use time::{PerByte, Picos};
pub use world::{HostUsage, NicUsage, PortUsage, Spent, StageUsage, Totals, Work};
