//! A handle to a simulated fabric.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall_base::Instant;

use crate::faults::{Action, Schedule, ScheduleError};
use crate::host::Host;
use crate::profile::{Profile, ProfileError};
use crate::time::Picos;
use crate::world::{NicUsage, PortUsage, Step, Totals, World};

/// A simulated fabric: its machines, cards, links and switches, and simulated time.
///
/// Handles are cheap to clone and may be on any thread; all of them mean the same fabric.
#[derive(Clone)]
pub struct Fabric {
    world: Arc<Mutex<World>>,
}

impl Fabric {
    /// A fabric with `hosts` hosts, on which nothing has happened yet. All chance comes from `seed`.
    pub fn new(profile: Profile, seed: u64, hosts: usize) -> Result<Self, ProfileError> {
        Ok(Self { world: Arc::new(Mutex::new(World::new(profile, seed, hosts)?)) })
    }

    /// How many hosts it has.
    pub fn host_count(&self) -> usize {
        self.lock().host_count()
    }

    /// The host of that number, as it is now: after a restart it is another one.
    ///
    /// # Panics
    /// When there are not that many hosts.
    pub fn host(&self, number: usize) -> Host {
        let world = self.lock();
        assert!(number < world.host_count(), "there are {} hosts", world.host_count());
        let state = world.host(number as u32);
        Host::new(self.clone(), number as u32, state.incarnation, state.clock())
    }

    /// What the fabric is made of.
    pub fn profile(&self) -> Profile {
        self.lock().profile.clone()
    }

    /// Simulated time. Hosts that are in a turn are ahead of it.
    pub fn now(&self) -> Picos {
        self.lock().now()
    }

    /// From now on only the first `bytes` bytes of each datagram are really carried, and the last 16; what is
    /// between them arrives as zeros, at the same time. It saves the machine's memory bandwidth where long
    /// payloads are only timed. Headers must be within these bytes, and protocols must not check what they
    /// carry. Records and blocks of lanes are always whole.
    pub fn carry_at_most(&self, bytes: usize) {
        self.lock().carry_at_most(bytes);
    }

    /// What has happened so far.
    pub fn totals(&self) -> Totals {
        self.lock().totals()
    }

    /// Remembers from now on what was crowded out by other traffic, for [`Fabric::overflows_between`].
    pub fn record_overflows(&self) {
        self.lock().record_overflows();
    }

    /// How many packets between two hosts, whichever way, found a queue full in a span of time, and how many
    /// calls of lanes were not answered in time for what was ahead of them; none unless that is recorded, and
    /// only the last 65,536 of the fabric are.
    pub fn overflows_between(&self, hosts: (u32, u32), from: Instant, until: Instant) -> usize {
        self.lock().overflows_between(hosts, from.into(), until.into())
    }

    /// What the network cards have done, machine by machine.
    pub fn nic_usage(&self) -> Vec<NicUsage> {
        self.lock().nic_usages()
    }

    /// What the switches' ports down to the machines have done, machine by machine.
    pub fn port_usage(&self) -> Vec<PortUsage> {
        self.lock().port_usages()
    }

    /// What the racks' uplinks have done, rack by rack; empty with a single switch.
    pub fn uplink_usage(&self) -> Vec<PortUsage> {
        self.lock().uplink_usage()
    }

    /// A fingerprint of all that has happened so far: the same for the same run.
    pub fn trace_hash(&self) -> u64 {
        self.lock().trace_hash()
    }

    /// Replaces the faults that are still to come. Crashes and restarts need a
    /// [`Simulation`](crate::Simulation), which ends and starts the programs.
    pub fn set_schedule(&self, schedule: Schedule) -> Result<(), ScheduleError> {
        self.lock().set_schedule(schedule)
    }

    /// Lets something happen to hosts or paths now.
    pub fn act(&self, action: &Action) -> Result<(), ScheduleError> {
        let mut world = self.lock();
        action.check(world.host_count())?;
        world.act(action);
        Ok(())
    }

    /// Lets everything happen that is due at the next point of time at which anything is, for hosts whose
    /// turns nobody runs. Returns whether there was anything.
    pub fn step(&self) -> bool {
        let mut world = self.lock();
        let next = world.next_at();
        if next == Picos::NEVER {
            return false;
        }
        while !matches!(world.advance(next), Step::Reached | Step::Quiet) {}
        true
    }

    /// Lets everything happen that is on its way, for hosts whose turns nobody runs.
    pub fn settle(&self) {
        while self.lock().advance(Picos::NEVER) != Step::Quiet {}
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        // Nothing that runs under the lock can leave the world half changed but a defect of this crate.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
