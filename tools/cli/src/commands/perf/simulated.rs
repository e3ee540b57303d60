//! What every test on a simulated fabric needs and says.

use farcall::TransportKind;
use farcall::simulated::Profile;
use farcall_lab::run::simulation::{SimulatedFabric, SimulatedRun, SimulationError};

use crate::ahead::Lasts;
use crate::ahead::checks::simulation_bytes;
use crate::ahead::memory::Memory;
use crate::arguments::Perf;
use crate::failure::Failure;

/// Events of a packet on its way, with those of turns beside it: what most runs have.
pub const EVENTS_PER_PACKET: f64 = 8.0;

/// Events that a core of some years simulates in a second.
pub const EVENTS_PER_SECOND: f64 = 2.5e6;

/// The fabric unless the command line names another.
const FABRIC: &str = "ideal";

/// The fabric that the command line names, if any of the transports needs one, with places for all hosts.
/// `fields` are assignments to the profile's.
pub fn fabric(
    perf: &Perf,
    fields: &[&str],
    transports: &[TransportKind],
) -> Result<Option<SimulatedFabric>, Failure> {
    let is_simulated = |transport: &TransportKind| transport.is_simulated();
    if !transports.iter().any(is_simulated) {
        let scaled = perf.scaling.scale_topology.then_some("--scale-topology");
        let named = perf.fabric.as_ref().map(|_| "--fabric").or(scaled);
        let option = named.or(fields.first().map(|_| "--set fabric.…"));
        return option.map_or(Ok(None), |option| {
            let sentence = "is for simulated transports, such as --transport basic+sim";
            Err(Failure::Usage(format!("{option} {sentence}")))
        });
    }
    let profile = Profile::load_with(perf.fabric.as_deref().unwrap_or(FABRIC), fields);
    let profile = profile.map_err(|error| Failure::Usage(format!("--fabric: {error}")))?;
    let profile = perf.scaling.fitted(&profile, hosts(perf), what_asks(perf))?;
    Ok(Some(SimulatedFabric { profile, seed: perf.tuning.seed, schedule: perf.faults.schedule.clone() }))
}

/// The options that say how many hosts there are where roles are apart.
pub const CLIENTS_AND_SERVERS: &str = "--clients and --servers";

/// Memory that the simulation of so many hosts takes, each with sessions to so many peers; one is simulated
/// at a time.
pub fn memory_of(asked_by: &'static str, transport: TransportKind, hosts: usize, peers: usize) -> Memory {
    let bytes = simulation_bytes(transport, hosts as u64, peers as u64);
    Memory { bytes, asked_by, alone: None }
}

/// How many hosts the command line asks for.
pub fn hosts(perf: &Perf) -> usize {
    let apart = || perf.clients.unwrap_or(1) + perf.servers.unwrap_or(1);
    perf.nodes.unwrap_or_else(apart) as usize
}

/// By which options.
fn what_asks(perf: &Perf) -> &'static str {
    if perf.nodes.is_some() { "--nodes" } else { CLIENTS_AND_SERVERS }
}

/// Packets that carry a message of this length one way and its answer of that length back, and events of a
/// packet: enough to say about how long a simulation takes.
fn packet_events(fabric: &SimulatedFabric, there_bytes: f64, back_bytes: f64) -> f64 {
    let mtu_bytes = fabric.profile.nic.mtu_bytes as f64;
    ((there_bytes / mtu_bytes).ceil() + (back_bytes / mtu_bytes).ceil()) * EVENTS_PER_PACKET
}

/// About how long it takes to simulate so many calls with messages of these lengths.
pub fn lasts(fabric: &SimulatedFabric, calls: f64, there_bytes: f64, back_bytes: f64) -> Lasts {
    let events = calls * packet_events(fabric, there_bytes, back_bytes);
    Lasts::about_seconds(events / EVENTS_PER_SECOND)
}

/// Whose fault a failed simulation is.
pub fn simulation_failure(fabric: &SimulatedFabric, error: SimulationError) -> Failure {
    match (error, &fabric.schedule) {
        (SimulationError::Fabric(error), _) => Failure::Usage(format!("--fabric: {error}")),
        (error, Some(faults)) => Failure::Run(faults.blamed(error)),
        (error, None) => Failure::run(error),
    }
}

/// A line about a simulation.
pub fn run_note(run: &SimulatedRun) -> String {
    let (totals, wall) = (&run.totals, run.wall.as_secs_f64());
    format!(
        "seed {}, trace {:016x}, {:.3} ms simulated in {wall:.2} s, {:.2} M events at {:.2} M/s, {} drops, {:.0} KiB",
        run.seed,
        run.trace_hash,
        totals.now.as_secs_f64() * 1e3,
        totals.events as f64 / 1e6,
        run.events_per_second() / 1e6,
        run.drops(),
        totals.memory_bytes as f64 / 1024.0,
    )
}
