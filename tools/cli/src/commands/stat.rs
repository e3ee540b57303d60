//! `farcall stat`: the counters of a running process, read without its help.

use farcall_lab::record::{Figure, Origin, Statistic, Unit};
use farcall_lab::run::ways::Ways;

use super::processes::read;
use crate::arguments::Stat;
use crate::failure::Failure;
use crate::output::Report;

/// Prints every counter, group by group.
pub fn run(stat: &Stat) -> Result<(), Failure> {
    let snapshot = read(stat.process as u32)?.snapshot;
    let mut report = Report::open(stat.json.as_ref())?;
    for group in &snapshot.groups {
        report.line(&group.label)?;
        let transport = &*group.label;
        let origin = Origin { command: "stat", test: "", transport, samples: 1, in_flight: 0 };
        for counter in &group.counters {
            let (name, unit) = (&counter.name, &counter.unit);
            report.line(format_args!("  {name:<24} {:>20} {unit:<10} {}", counter.value, counter.doc))?;
            let (value, unit) = (counter.value as f64, Unit::Counted(unit.clone()));
            let figure = Figure::new(name, value, unit, Statistic::Count);
            let meaning = ("meaning", counter.doc.clone().into());
            report.record(&figure.record(origin, [("process", stat.process.into()), meaning]))?;
        }
    }
    for ways in Ways::of_process(&snapshot) {
        report.line(format_args!("sessions of {ways}"))?;
    }
    if snapshot.unlisted_groups > 0 {
        report.line(format_args!(
            "{} more groups found no room in the counter file",
            snapshot.unlisted_groups
        ))?;
    }
    Ok(())
}
