//! What every test on a simulated fabric needs and says.

use farcall::TransportKind;
use farcall::simulated::Profile;
use farcall_lab::run::simulation::{SimulatedFabric, SimulatedRun, SimulationError};

use crate::failure::Failure;

/// The fabric unless the command line names another.
const FABRIC: &str = "ideal";

/// The fabric that the command line names, if any of the transports needs one. `fields` are assignments to
/// the profile's.
pub fn fabric(
    name: Option<&str>,
    fields: &[&str],
    transports: &[TransportKind],
    seed: u64,
) -> Result<Option<SimulatedFabric>, Failure> {
    let name = match name {
        _ if !transports.iter().any(|transport| transport.is_simulated()) => {
            let option = name.map(|_| "--fabric").or(fields.first().map(|_| "--set fabric.…"));
            return option.map_or(Ok(None), |option| {
                let sentence = "is for simulated transports, such as --transport basic+sim";
                Err(Failure::Usage(format!("{option} {sentence}")))
            });
        }
        Some(name) => name,
        None => FABRIC,
    };
    let profile = Profile::load_with(name, fields);
    let profile = profile.map_err(|error| Failure::Usage(format!("--fabric: {error}")))?;
    Ok(Some(SimulatedFabric { profile, seed }))
}

/// Whose fault a failed simulation is.
pub fn simulation_failure(error: SimulationError) -> Failure {
    match error {
        SimulationError::Fabric(error) => Failure::Usage(format!("--fabric: {error}")),
        error => Failure::run(error),
    }
}

/// A line about a simulation.
pub fn run_note(run: &SimulatedRun) -> String {
    let (totals, wall) = (&run.totals, run.wall.as_secs_f64());
    format!(
        "seed {}, trace {:016x}, {:.3} ms simulated in {wall:.2} s, {:.2} M events at {:.2} M/s, {} drops, {:.0} KB",
        run.seed,
        run.trace_hash,
        totals.now.as_secs_f64() * 1e3,
        totals.events as f64 / 1e6,
        run.events_per_second() / 1e6,
        run.drops(),
        totals.memory_bytes as f64 / 1024.0,
    )
}
