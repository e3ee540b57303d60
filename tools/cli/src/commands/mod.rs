//! One file for each command, and what all that measure record beside their figures.

pub mod audit;
pub mod benchkv;
pub mod calibrate;
pub mod compare;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod info;
pub mod key;
pub mod kv;
pub mod manual;
pub mod msgrate;
pub mod perf;
pub mod policy;
mod processes;
pub mod ps;
pub mod registry;
pub mod report;
pub mod servereport;
pub mod shuffle;
pub mod sim;
pub mod stat;
pub mod top;
mod tracing;
pub mod tune;
pub mod vary;
pub mod world;

use farcall_lab::explain::recorded::REFERENCE;
use farcall_lab::record::{Figure, Origin, Statistic, Unit};
use farcall_lab::run::blocks::Distance;
use serde_json::json;

use crate::failure::Failure;
use crate::output::Report;

/// Records how far the cores were apart around the blocks of the measurement that is called `of`: the
/// reference beside it, for a later reader of the run.
fn record_distances(
    command: &'static str,
    of: &str,
    distances: &[Distance],
    report: &mut Report,
) -> Result<(), Failure> {
    let origin = Origin { command, test: REFERENCE, transport: "limit", samples: 1, in_flight: 1 };
    for (block, distance) in distances.iter().enumerate() {
        for (edge, standing) in [("before", distance.before), ("after", distance.after)] {
            let more = [
                ("of", json!(of)),
                ("block", json!(block)),
                ("edge", json!(edge)),
                ("block_began_seconds", json!(distance.began.as_secs_f64())),
                ("block_kept", json!(distance.kept)),
                ("crowded", json!(standing.is_crowded)),
            ];
            // Ranks of a launcher have no distance.
            if !standing.distance_nanos.is_finite() {
                continue;
            }
            let nanos = standing.distance_nanos;
            let figure = Figure::new("distance", nanos, Unit::Nanoseconds, Statistic::TrimmedMean);
            report.beside(&figure.record(origin, more))?;
        }
    }
    Ok(())
}
