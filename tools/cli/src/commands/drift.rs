//! The reference beside a measurement: how far the cores were apart around every block, for a later reader of
//! the run.

use farcall_lab::explain::recorded::REFERENCE;
use farcall_lab::record::{Record, SCHEMA, Statistic, Unit};
use farcall_lab::run::blocks::Distance;
use serde_json::{Map, json};

use crate::failure::Failure;
use crate::output::Report;

/// Records the distances around the blocks of the measurement that is called `of`.
pub fn record(
    command: &'static str,
    of: &str,
    distances: &[Distance],
    report: &mut Report,
) -> Result<(), Failure> {
    for (block, distance) in distances.iter().enumerate() {
        for (edge, standing) in [("before", distance.before), ("after", distance.after)] {
            let more = json!({
                "of": of,
                "block": block,
                "edge": edge,
                "block_began_seconds": distance.began.as_secs_f64(),
                "block_kept": distance.kept,
                "crowded": standing.is_crowded,
            });
            report.beside(&Record {
                schema: SCHEMA,
                command,
                test: REFERENCE.to_owned(),
                transport: "limit".to_owned(),
                name: "distance".to_owned(),
                value: standing.distance_nanos,
                unit: Unit::Nanoseconds,
                statistic: Statistic::TrimmedMean,
                samples: 1,
                in_flight: 1,
                more: more.as_object().cloned().unwrap_or_else(Map::new),
            })?;
        }
    }
    Ok(())
}
