//! What a seed means: a cluster, its faults, and its calls.

use core::time::Duration;

use farcall::TransportKind;
use farcall::parameters::{Settings, SettingsError, Sources};
use farcall::simulated::{Profile, ProfileError};

use crate::draw::Draw;
use crate::errands::Errands;
use crate::fabric::FabricPlan;
use crate::mail::{COLLECT_WITHIN, Mail};
use crate::operations::{self, Farewell, Operation};
use crate::trouble::Faults;
use crate::tuning::Tuning;

/// Everything that a run is made of.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed, from which chance on the fabric is drawn too.
    pub seed: u64,
    /// What the hosts have endpoints of.
    pub transport: TransportKind,
    /// How many hosts there are.
    pub hosts: u32,
    /// What they are connected by.
    pub fabric: FabricPlan,
    /// The settings of their endpoints.
    pub tuning: Tuning,
    /// What goes wrong.
    pub faults: Faults,
    /// What they do.
    pub operations: Vec<Operation>,
    /// The messages that they send and receive.
    pub mail: Mail,
    /// What they do on their second endpoints.
    pub errands: Errands,
    /// Whom they part with meanwhile.
    pub farewells: Vec<Farewell>,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn draw(seed: u64, transport: TransportKind) -> Self {
        let mut draw = Draw::new(seed, "scenario");
        let hosts = draw.pick(&[2, 2, 3, 4, 6, 8, 12, 24]);
        let over_at = draw.time(Duration::from_millis(2), Duration::from_millis(30));
        let fabric = FabricPlan::draw(seed, hosts);
        let tuning = Tuning::draw(seed, transport, true);
        let faults = Faults::draw(seed, hosts, over_at, tuning.peer_timeout);
        let tuning = Tuning::draw(seed, transport, faults.damage()).differ(seed, transport, hosts);
        let tuning = tuning.seal(seed, transport, fabric.mtu_bytes);
        let operations = operations::draw(seed, hosts, over_at, &fabric, &tuning);
        let mail = Mail::draw(seed, hosts, over_at, &fabric, &tuning);
        let farewells = operations::draw_farewells(seed, hosts, over_at);
        let errands = Errands::draw(seed, hosts, over_at);
        Self { seed, transport, hosts, fabric, tuning, faults, operations, mail, errands, farewells }
    }

    /// The fabric's profile.
    pub fn profile(&self) -> Result<Profile, ProfileError> {
        let overrides: Vec<_> = self.fabric.overrides.iter().map(String::as_str).collect();
        Profile::load_with("ideal", &overrides)
    }

    /// The settings of a host's endpoints. The environment has no say: a seed means the same everywhere.
    pub fn settings(&self, rank: u32) -> Result<Settings, SettingsError> {
        let own = self.tuning.of_hosts.get(rank as usize).map_or(&[][..], Vec::as_slice);
        let assignments = [&self.tuning.assignments, own].concat();
        Settings::from_sources(&Sources { assignments, ..Sources::default() })
    }

    /// When every call that is no probe has passed its deadline, and every host that was struck has recovered
    /// and has found out whom it lost meanwhile. Then hosts begin to collect the unexpected messages.
    pub fn collect_at(&self) -> Duration {
        let longest = self.operations.iter().map(|operation| operation.within).max().unwrap_or_default();
        let longest = longest.max(self.mail.longest()).max(self.errands.longest());
        self.faults.over_at + 2 * longest + 5 * self.tuning.peer_timeout
    }

    /// When nothing is left to collect. An unexpected message holds block memory of its sender, which may
    /// have none for its answers until then; and before those answers a caller may have no calls left.
    pub fn probes_at(&self) -> Duration {
        self.collect_at() + 3 * COLLECT_WITHIN
    }
}
