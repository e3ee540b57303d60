//! Measurements on simulated fabrics: what they run on, and what every one of them says of its run.
//!
//! A simulation needs no blocks, no limit and no warm-up of caches: the same seed gives the same figures, and
//! another seed is another experiment. What must stand beside the figures instead is which fabric was
//! simulated, and a fingerprint by which somebody else's run can be recognised as the same.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use farcall::parameters::Settings;
use farcall::simulated::{Cluster, Outcome, Profile, ProfileError, ScheduleError, Totals};
use farcall_base::seed_of_stream;
use serde_json::{Value, json};

use crate::run::exchange::OwnCounters;
use crate::run::losses::Losses;
use crate::run::schedule::FaultSchedule;
use crate::run::uses::{Ledger, Uses};

/// Bytes of each packet's start that are carried when nobody checks them: all headers. The trailers of tagged
/// messages are carried too, and of payloads nothing but the length is looked at here.
const CARRIED_BYTES: usize = 256;

/// Assignments for simulated measurements: simulated packets are not damaged on their way unless faults are
/// asked for.
pub const UNCHECKED: [&str; 2] = ["basic.checksum=false", "homa.checksum=false"];

/// A fabric to measure on.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedFabric {
    /// What it is made of.
    pub profile: Profile,
    /// Decides every random choice.
    pub seed: u64,
    /// What goes wrong when, if anything does.
    pub schedule: Option<Arc<FaultSchedule>>,
}

/// Why a simulated measurement has no result.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The fabric cannot have so many hosts: use fewer, or another fabric.
    #[error(transparent)]
    Fabric(#[from] ProfileError),
    /// The schedule names a host that there is not: correct it.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A host could not do its part.
    #[error("simulated rank {rank} failed: {why}")]
    Failed {
        /// Which one.
        rank: u32,
        /// Its own words.
        why: String,
    },
    /// The hosts were not done in time: they are overloaded, or wait for something.
    #[error("the simulated hosts were not done after {within:?} of simulated time")]
    Unfinished {
        /// The time that they had.
        within: Duration,
    },
    /// The hosts wait for each other.
    #[error("the simulated hosts were not done, and nothing could happen any more")]
    Stuck,
}

/// What a simulation did, beside its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedRun {
    /// The fabric's profile.
    pub profile: String,
    /// The seed.
    pub seed: u64,
    /// What went wrong when, if anything did.
    pub schedule: Option<Arc<FaultSchedule>>,
    /// A fingerprint of all that happened.
    pub trace_hash: u64,
    /// Sums over the fabric.
    pub totals: Totals,
    /// Packets that `fault.*` took before they came to the fabric.
    pub injected: u64,
    /// What the hosts counted, all together.
    pub counters: BTreeMap<String, u64>,
    /// What the fabric's resources had to do.
    pub uses: Uses,
    /// How long the simulation itself took.
    pub wall: Duration,
}

impl SimulatedRun {
    /// Packets that were lost, on the fabric or before it.
    pub fn drops(&self) -> u64 {
        self.totals.drops() + self.injected
    }

    /// The fields of records that say which simulation their figures come from.
    pub fn fields(&self) -> [(&'static str, Value); 10] {
        [
            ("schedule", json!(self.schedule.as_ref().map(|faults| &faults.written))),
            ("fabric", self.profile.as_str().into()),
            ("seed", self.seed.into()),
            ("trace_hash", json!(format!("{:016x}", self.trace_hash))),
            ("simulated_ns", self.totals.now.as_nanos().into()),
            ("events", self.totals.events.into()),
            ("packet_events", self.totals.packet_events.into()),
            ("drops", self.drops().into()),
            ("uses", json!(self.uses)),
            ("wall_seconds", self.wall.as_secs_f64().into()),
        ]
    }

    /// Events that were simulated in a second of wall-clock time.
    pub fn events_per_second(&self) -> f64 {
        self.totals.events as f64 / self.wall.as_secs_f64()
    }
}

impl SimulatedFabric {
    /// A fabric on which nothing goes wrong by itself.
    pub fn new(profile: Profile, seed: u64) -> Self {
        Self { profile, seed, schedule: None }
    }

    /// The rate of a host's link.
    pub fn link_bits_per_second(&self) -> f64 {
        self.profile.link.rate.bits_per_second() as f64
    }

    /// Bytes that have left the links into hosts, headers of frames included.
    pub(crate) fn wire_bytes(&self, totals: &Totals) -> f64 {
        let headers = totals.packets_delivered * self.profile.link.header_bytes as u64;
        (totals.bytes_delivered + headers) as f64
    }

    /// Hosts on this fabric, on which nothing runs yet. What faults draw follows the fabric's seed as well as
    /// `fault.seed`.
    pub(crate) fn cluster(&self, hosts: usize, settings: &Settings) -> Result<Cluster, SimulationError> {
        let mut settings = settings.clone();
        settings.fault.seed = seed_of_stream(self.seed, settings.fault.seed);
        let carries_little = [settings.basic.checksum, settings.homa.checksum] == [Some(false); 2];
        let cluster = Cluster::new(self.profile.clone(), hosts as u32, self.seed, settings)?;
        if let Some(faults) = &self.schedule {
            cluster.fabric().set_schedule(faults.schedule.clone())?;
        }
        if carries_little {
            cluster.fabric().carry_at_most(CARRIED_BYTES);
        }
        Ok(cluster)
    }

    /// Runs the hosts of `cluster` while `condition` holds, at most `within` of simulated time.
    pub(crate) fn run_while(
        &self,
        cluster: &mut Cluster,
        within: Duration,
        condition: impl FnMut() -> bool,
    ) -> Result<SimulatedRun, SimulationError> {
        let (begun, before) = (Instant::now(), OwnCounters::read().of_all_hosts());
        let ledger = Ledger::of(cluster.fabric());
        let until = farcall::Instant::ZERO + within;
        match cluster.run_while_until(condition, until) {
            Outcome::Done => {}
            Outcome::TimeReached => return Err(SimulationError::Unfinished { within }),
            Outcome::Quiet => return Err(SimulationError::Stuck),
        }
        let counters = OwnCounters::read().of_all_hosts().since(&before);
        Ok(SimulatedRun {
            profile: self.profile.name.clone(),
            seed: self.seed,
            schedule: self.schedule.clone(),
            trace_hash: cluster.fabric().trace_hash(),
            totals: cluster.fabric().totals(),
            injected: Losses::of(&counters).injected,
            counters,
            uses: Ledger::of(cluster.fabric()).since(&ledger, 0, &self.profile),
            wall: begun.elapsed(),
        })
    }
}
