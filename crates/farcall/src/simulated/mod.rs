//! Clusters in one thread: the shipping endpoints and protocols on a simulated fabric.
//!
//! A [`Cluster`] gives each host of a [`Fabric`] a [`Node`], and runs its [`Program`] whenever the host's
//! processor is free and there is something to find. Endpoints are the same as on real fabrics, with one
//! exception: nothing may wait for them, since the simulation runs the turns. A program uses callbacks,
//! polled events, or futures in [`Tasks`].
//!
//! The same seed gives the same run, packet by packet.

mod charge;
mod life;
mod tasks;

use std::sync::Arc;

use farcall_base::Instant;

pub(crate) use charge::ChargedTransport;
use farcall_sim::Simulation;
pub use farcall_sim::{
    Action, Fabric, Host, HostUsage, NicUsage, Outcome, PacketFaults, PerByte, Picos, Placement, PortUsage,
    Profile, ProfileError, Program, Schedule, ScheduleError, Scheduled, Spent, StageUsage, Totals, Work,
    profile,
};
pub(crate) use life::SimulatedWatch;
pub use tasks::Tasks;

use crate::Node;
use crate::bootstrap::{Bootstrap, LocalRanks};
use crate::parameters::Settings;

/// The hosts of a simulated fabric as the ranks of a cluster.
pub struct Cluster {
    simulation: Simulation,
    ranks: Arc<LocalRanks>,
    settings: Settings,
    seed: u64,
}

impl Cluster {
    /// A cluster of `size` ranks, in which nothing runs yet, on a fabric of this kind. All chance comes from
    /// `seed`; `settings` are those of every node.
    pub fn new(profile: Profile, size: u32, seed: u64, settings: Settings) -> Result<Self, ProfileError> {
        let fabric = Fabric::new(profile, seed, size as usize)?;
        Ok(Self {
            simulation: Simulation::new(fabric),
            ranks: Arc::new(LocalRanks::new(size)),
            settings,
            seed,
        })
    }

    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        self.simulation.fabric()
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.fabric().host_count() as u32
    }

    /// Starts the program of a rank: `make` is called now, and again after each crash when the host comes
    /// back.
    ///
    /// Publish the endpoints of all ranks, by making them, before the first turn of the cluster: a peer that
    /// has none is not waited for.
    pub fn start(&mut self, rank: u32, mut make: impl FnMut(Node) -> Box<dyn Program> + 'static) {
        let (ranks, settings, seed) = (Arc::clone(&self.ranks), self.settings.clone(), self.seed);
        self.simulation.start(rank as usize, move |host| {
            let bootstrap = Bootstrap::among(&ranks, rank, incarnation(seed, rank, host.incarnation()));
            make(Node::simulated(bootstrap, settings.clone(), host.clone()))
        });
    }

    /// Runs until simulated time is `until`.
    pub fn run_until(&mut self, until: Instant) -> Outcome {
        self.simulation.run_until(until)
    }

    /// Runs while `condition` holds; it is looked at after each turn of a host.
    pub fn run_while(&mut self, condition: impl FnMut() -> bool) -> Outcome {
        self.simulation.run_while(condition)
    }

    /// Runs while `condition` holds, at most until `until`.
    pub fn run_while_until(&mut self, condition: impl FnMut() -> bool, until: Instant) -> Outcome {
        self.simulation.run_while_until(condition, until)
    }
}

/// The number of a host's life: never 0, and no other life's.
fn incarnation(seed: u64, rank: u32, life: u32) -> u64 {
    // One round of SplitMix64, which maps different numbers to different numbers.
    let mut mixed =
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((u64::from(rank) << 32) | (u64::from(life) + 1));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1)
}
