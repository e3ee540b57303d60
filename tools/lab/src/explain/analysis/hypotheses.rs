//! What may limit operations of all nodes with all others where they share a limit, ranked by how well each
//! predicts figures that it has not seen, and which experiment would tell.
//!
//! Two laws with one free number each: a limit of each machine gives a time in proportion to nodes x bytes,
//! whatever the scale; one of the fabric as a whole gives nodes^2 x bytes. Both numbers are fitted on all
//! numbers of nodes but one, and judged on that one, in turn. Only a change that somebody made can confirm
//! one or refute it.

use super::effects::ChangeEffect;
use super::finding::{Finding, Section};
use super::fit::mean;
use super::input::{Cause, Table};
use super::regimes::{SharedRange, shared_range};
use crate::units::bits_in_words;

/// Two laws whose errors are that close predict equally well.
const EQUALLY_GOOD: f64 = 1.5;

/// How the rate of a node follows from the number of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Law {
    cause: Cause,
    words: &'static str,
    /// The power of the number of nodes that the rate of a node goes with.
    power: f64,
}

const LAWS: [Law; 2] = [
    Law { cause: Cause::Host, words: "a limit of each machine, such as its path of reception", power: 0.0 },
    Law { cause: Cause::Fabric, words: "a limit of links or switches that machines share", power: -1.0 },
];

/// What a change said of a cause.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Confirmed(f64),
    Refuted,
    NotShown,
    Untested,
}

/// Ranks what may limit the shared range of a table.
pub fn rank(table: &Table, effects: &[ChangeEffect]) -> Vec<Finding> {
    let effects: Vec<_> = effects.iter().filter(|effect| effect.table == table.name).collect();
    let ranges = shared_range(table);
    let mut findings = Vec::new();
    if !ranges.is_empty() {
        findings.extend(laws(table, &ranges, &effects));
    }
    for cause in [Cause::Host, Cause::Fabric, Cause::Copy, Cause::Schedule, Cause::Window] {
        let law = LAWS.iter().any(|law| law.cause == cause && !ranges.is_empty());
        if !law && let Some(finding) = tested(table, cause, &effects) {
            findings.push(finding);
        }
    }
    findings
}

fn laws(table: &Table, ranges: &[SharedRange], effects: &[&ChangeEffect]) -> Vec<Finding> {
    let mut scored: Vec<_> =
        LAWS.iter().map(|law| (law, error(*law, ranges), verdict(law.cause, effects))).collect();
    let standing = |verdict: Verdict| match verdict {
        Verdict::Confirmed(_) => 0,
        Verdict::NotShown | Verdict::Untested => 1,
        Verdict::Refuted => 2,
    };
    scored.sort_by(|a, b| standing(a.2).cmp(&standing(b.2)).then(a.1.total_cmp(&b.1)));
    let mut findings: Vec<_> = scored
        .iter()
        .enumerate()
        .map(|(index, (law, error, verdict))| hypothesis(table, index + 1, **law, *error, *verdict, ranges))
        .collect();
    let decided = scored.iter().any(|(_, _, verdict)| matches!(verdict, Verdict::Confirmed(_)));
    if !decided {
        findings.extend(open(table, ranges, scored[0].1, scored[1].1));
        findings.push(next(table));
    }
    findings
}

fn hypothesis(
    table: &Table,
    rank: usize,
    law: Law,
    error: f64,
    verdict: Verdict,
    ranges: &[SharedRange],
) -> Finding {
    let standing = match verdict {
        Verdict::Confirmed(growth) => format!("confirmed by a change ({:+.0} %)", growth * 100.0),
        Verdict::Refuted => "refuted by a change at the largest scale".to_owned(),
        Verdict::NotShown => "tested, and a gain was not shown beyond what repeating does".to_owned(),
        Verdict::Untested => "consistent with the figures, not tested".to_owned(),
    };
    let twice: Vec<_> = ranges
        .iter()
        .filter_map(|range| {
            let (nodes, rate) = range.rates.last()?;
            Some(format!(
                "{} a node at {} nodes ({})",
                bits_in_words(rate * 1e9 * 2_f64.powf(law.power)),
                2.0 * nodes,
                range.series
            ))
        })
        .collect();
    let sentence = format!(
        "{rank}. {}: {standing}; it predicts unseen rates with an error of {:.0} %, and {}",
        law.words,
        error * 100.0,
        twice.join(", "),
    );
    let growth = if let Verdict::Confirmed(growth) = verdict { growth } else { 0.0 };
    let figures = [
        ("rank", rank as f64),
        ("error_percent", error * 100.0),
        ("confirmed", f64::from(u8::from(matches!(verdict, Verdict::Confirmed(_))))),
        ("growth", growth),
    ];
    let rule = match law.cause {
        Cause::Fabric => "limit_of_fabric",
        _ => "limit_of_host",
    };
    Finding::new(Section::Hypothesis, rule, &table.name, sentence).with(figures)
}

/// The root mean square error in logarithms, each number of nodes predicted from the others of its series.
fn error(law: Law, ranges: &[SharedRange]) -> f64 {
    let squares = ranges.iter().flat_map(|range| {
        let level = |(nodes, rate): &(f64, f64)| rate.ln() - law.power * nodes.ln();
        let levels: Vec<_> = range.rates.iter().map(level).collect();
        (0..levels.len())
            .filter_map(move |left_out| {
                let others = levels.iter().enumerate().filter(|(index, _)| *index != left_out);
                Some((levels[left_out] - mean(others.map(|(_, level)| *level))?).powi(2))
            })
            .collect::<Vec<_>>()
    });
    mean(squares).unwrap_or_default().sqrt()
}

fn verdict(cause: Cause, effects: &[&ChangeEffect]) -> Verdict {
    // Where more than the change differs its effect is not known.
    let tests: Vec<_> =
        effects.iter().filter(|effect| effect.tests == Some(cause) && effect.is_clean()).collect();
    let gain =
        |effect: &&&ChangeEffect| effect.at_end().filter(|growth| effect.is_real(*growth) && *growth > 0.0);
    match tests.iter().copied().filter_map(|effect| gain(&effect)).max_by(f64::total_cmp) {
        Some(growth) => Verdict::Confirmed(growth),
        None if tests.is_empty() => Verdict::Untested,
        None if tests.iter().any(|effect| effect.has_power()) => Verdict::Refuted,
        None => Verdict::NotShown,
    }
}

/// A cause that has no law here, but was tested.
fn tested(table: &Table, cause: Cause, effects: &[&ChangeEffect]) -> Option<Finding> {
    let effect = effects.iter().find(|effect| effect.tests == Some(cause))?;
    let helped: Vec<_> =
        effect.cells.iter().filter(|(_, growth)| effect.is_real(*growth) && *growth > 0.0).collect();
    let words = match cause {
        Cause::Copy => "copies on the way out",
        Cause::Schedule => "the order of sending",
        Cause::Window => "how much may be in flight",
        Cause::Host => "a limit of each machine",
        Cause::Fabric => "a limit that machines share",
    };
    let last = effect.cells.last()?.0;
    let standing = match helped.last() {
        _ if !effect.is_clean() => {
            format!("not tested: {} changed with `{}`", effect.confounders.join(" and "), effect.change)
        }
        None if !effect.has_power() => format!(
            "not shown: whatever `{}` gains is less than repeating the same does{}",
            effect.change,
            effect.noise.map_or(String::new(), |noise| format!(", {:.1} %", noise * 100.0))
        ),
        None => format!("refuted: `{}` gains nothing anywhere", effect.change),
        Some((place, _)) if *place == last => {
            format!("confirmed: `{}` gains up to {last} {}", effect.change, effect.axis)
        }
        Some((place, _)) => format!(
            "confirmed up to {place} {}, {} at {last}: `{}` gains nothing there, another limit binds",
            effect.axis,
            if effect.has_power() { "refuted" } else { "not shown" },
            effect.change
        ),
    };
    let helps_to = helped.last().map_or(0.0, |(place, _)| *place);
    let sentence = format!("{words}: {standing}");
    let rule = match cause {
        Cause::Copy => "copy",
        Cause::Schedule => "schedule",
        Cause::Window => "window",
        Cause::Host => "limit_of_host",
        Cause::Fabric => "limit_of_fabric",
    };
    let figures = [("helps_up_to", helps_to), ("last", last)];
    Some(Finding::new(Section::Hypothesis, rule, &table.name, sentence).with(figures))
}

fn open(table: &Table, ranges: &[SharedRange], best: f64, next: f64) -> Option<Finding> {
    let slopes: Vec<_> = ranges.iter().filter_map(|range| Some((range.slope()?, &range.series))).collect();
    let (low, high) = (
        slopes.iter().min_by(|a, b| a.0.total_cmp(&b.0))?,
        slopes.iter().max_by(|a, b| a.0.total_cmp(&b.0))?,
    );
    let apart = high.0 - low.0;
    let why = if apart > 0.5 {
        format!(
            "a node's rate goes as nodes^{:.1} in `{}` and nodes^{:.1} in `{}`; scale, machines and placement changed together",
            low.0, low.1, high.0, high.1
        )
    } else if next < best * EQUALLY_GOOD {
        "both laws predict about equally well".to_owned()
    } else {
        "nothing here changed one of them without the other".to_owned()
    };
    let sentence = format!("whether machines or the fabric limit is unresolved: {why}");
    let figures = [("lowest_slope", low.0), ("highest_slope", high.0)];
    Some(Finding::new(Section::NotIdentifiable, "machine_or_fabric", &table.name, sentence).with(figures))
}

fn next(table: &Table) -> Finding {
    let sentence = "one pair of machines, one way and both ways: a rate near the shared one is a limit of the machine, the \
                    link's rate one of the fabric; run `farcall shuffle --collective bandwidth --nodes 2` and \
                    `farcall shuffle --collective two-way-bandwidth --nodes 2` on two machines, and then the same nodes \
                    under one switch and spread over several (--placement)"
        .to_owned();
    Finding::new(Section::NextExperiment, "one_pair", &table.name, sentence)
}
