//! `farcall stat`: the counters of a running process, read without its help.

use farcall::CounterFile;
use farcall_lab::record::{Record, SCHEMA, Statistic, Unit};
use serde_json::Map;

use crate::arguments::Stat;
use crate::failure::Failure;
use crate::output::Report;

/// Prints every counter, group by group.
pub fn run(stat: &Stat) -> Result<(), Failure> {
    let snapshot = CounterFile::open_process(stat.process as u32).map_err(Failure::run)?;
    let mut report = Report::open(stat.json.as_ref())?;
    for group in &snapshot.groups {
        report.line(&group.label)?;
        for counter in &group.counters {
            let (name, unit) = (&counter.name, &counter.unit);
            report.line(format_args!("  {name:<24} {:>20} {unit:<10} {}", counter.value, counter.doc))?;
            report.record(&Record {
                schema: SCHEMA,
                command: "stat",
                test: String::new(),
                transport: group.label.clone(),
                name: name.clone(),
                value: counter.value as f64,
                unit: Unit::Counted(unit.clone()),
                statistic: Statistic::Count,
                samples: 1,
                in_flight: 0,
                more: Map::from_iter([("process".to_owned(), stat.process.into())]),
            })?;
        }
    }
    if snapshot.unlisted_groups > 0 {
        report.line(format_args!(
            "{} more groups found no room in the counter file",
            snapshot.unlisted_groups
        ))?;
    }
    Ok(())
}
