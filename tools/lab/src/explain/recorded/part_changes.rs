//! Where a change put the time that it added to calls, part by part: of two runs that were both traced.

use std::collections::BTreeMap;

use super::RecordedRun;
use super::anatomy::Anatomy;
use crate::explain::analysis::finding::{Finding, Section};
use crate::explain::trace::PARTS;

/// A change of a call below this part is none.
const CHANGED: f64 = 0.05;

/// Compares the first run with each other one, measurement by measurement.
pub fn find(runs: &[RecordedRun]) -> Vec<Finding> {
    let Some((first, others)) = runs.split_first() else { return Vec::new() };
    let before = cells(first);
    let of_run = |run: &RecordedRun| {
        let change = change(first, run);
        let after = cells(run);
        let both = after.into_iter().filter_map(|(key, after)| Some((before.get(&key)?.clone(), after)));
        both.filter_map(|(before, after)| finding(&change, &before, &after)).collect::<Vec<_>>()
    };
    others.iter().flat_map(of_run).collect()
}

fn cells(run: &RecordedRun) -> BTreeMap<(String, u64), Anatomy> {
    let cells = run.figures.iter().filter_map(Anatomy::of);
    cells.map(|cell| ((cell.about.clone(), cell.in_flight as u64), cell)).collect()
}

/// The words of the other command line and parameters that the first run does not have; without the folder.
fn change(first: &RecordedRun, other: &RecordedRun) -> String {
    let all = |run: &RecordedRun| -> Vec<String> {
        let words = run.run.arguments.iter().chain(&run.run.parameters);
        words.filter(|word| !word.ends_with(&run.name)).cloned().collect()
    };
    let known = all(first);
    let mut words: Vec<_> = all(other).into_iter().filter(|word| !known.contains(word)).collect();
    words.dedup();
    if words.is_empty() { format!("what `{}` changed", other.name) } else { words.join(" ") }
}

fn finding(change: &str, before: &Anatomy, after: &Anatomy) -> Option<Finding> {
    let (old, new) = (before.trace.total.typical, after.trace.total.typical);
    let added = new - old;
    if added.abs() < CHANGED * old {
        return None;
    }
    let of_part =
        |name: &&'static str| (*name, after.trace.part(name).typical - before.trace.part(name).typical);
    let (part, most) = PARTS.iter().map(of_part).max_by(|a, b| {
        let towards = |value: f64| value * added.signum();
        towards(a.1).total_cmp(&towards(b.1))
    })?;
    let sentence = format!(
        "a typical call went from {old:.0} ns to {new:.0} ns with `{change}`; of the {added:+.0} ns `{part}` has {most:+.0} ns"
    );
    let figures = [
        ("before_ns", old),
        ("after_ns", new),
        ("part", PARTS.iter().position(|name| *name == part)? as f64),
        ("part_ns", most),
    ];
    let about = format!("{}, {} in flight", after.about, after.in_flight);
    Some(Finding::new(Section::Effect, "part_changed", about, sentence).with(figures))
}
