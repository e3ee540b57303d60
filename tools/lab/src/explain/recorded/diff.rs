//! Two runs, or two sets of runs that were taken in turns: what differs around them, then what differs in
//! them.

use std::collections::BTreeMap;

use super::drift::medians;
use super::{REFERENCE, RecordedRun};
use crate::statistics::bootstrap::{Ratio, median, ratio_among};

/// A difference within this part is none.
const INDIFFERENCE: f64 = 0.01;

/// A reference that differs by more than this part is another one.
const REFERENCE_DIFFERS: f64 = 0.1;

/// What differs between two sets of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Facts of the machine, of the program and of its parameters: name, before, after.
    pub environment: Vec<(String, String, String)>,
    /// Figures that both sides have.
    pub cells: Vec<Cell>,
    /// Figures that only one side has.
    pub unmatched: usize,
}

/// A figure of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its row, with the transport.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The median before.
    pub before: f64,
    /// The median after.
    pub after: f64,
    /// After over before, with an interval from five pairs of runs on; all intervals of a difference together
    /// hold with 95 %.
    pub ratio: Ratio,
}

impl Cell {
    /// Whether more is better.
    fn more_is_better(&self) -> bool {
        self.unit != "ns"
    }

    /// Whether the whole interval is worse by more than 1 %; `None` when there is no interval.
    pub fn is_worse(&self) -> Option<bool> {
        let (low, high) = self.ratio.interval?;
        Some(if self.more_is_better() { high < 1.0 - INDIFFERENCE } else { low > 1.0 + INDIFFERENCE })
    }

    /// What can be said, in a word.
    pub fn verdict(&self) -> &'static str {
        let Some((low, high)) = self.ratio.interval else { return "undecided" };
        match self.is_worse() {
            Some(true) => "worse",
            _ if self.more_is_better() && low > 1.0 + INDIFFERENCE => "better",
            _ if !self.more_is_better() && high < 1.0 - INDIFFERENCE => "better",
            _ if low > 1.0 - INDIFFERENCE && high < 1.0 + INDIFFERENCE => "same",
            _ => "undecided",
        }
    }
}

/// Compares runs pair by pair: the first before with the first after, and so on. The seed is that of the
/// bootstrap.
pub fn diff(before: &[RecordedRun], after: &[RecordedRun], seed: u64) -> Difference {
    let (own, others): (Vec<_>, Vec<_>) = (figures(before), figures(after));
    let mut pairs: BTreeMap<Key, Vec<(f64, f64)>> = BTreeMap::new();
    let mut unmatched = 0;
    for (own, others) in own.iter().zip(&others) {
        for (key, value) in own {
            match others.get(key) {
                Some(other) => pairs.entry(key.clone()).or_default().push((*other, *value)),
                None => unmatched += 1,
            }
        }
        unmatched += others.keys().filter(|key| !own.contains_key(*key)).count();
    }
    let count = pairs.len();
    let cell = |((transport, name, _, unit), pairs): (Key, Vec<_>)| {
        let ratio = ratio_among(&pairs, seed, count)?;
        let of = |value: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(value).collect::<Vec<_>>());
        let (before, after) = (of(|pair| pair.1)?, of(|pair| pair.0)?);
        Some(Cell { name: format!("{transport} {name}"), unit, before, after, ratio })
    };
    let cells = pairs.into_iter().filter_map(cell).collect();
    let environment = match (before.first(), after.first()) {
        (Some(before), Some(after)) => surroundings(before, after),
        _ => Vec::new(),
    };
    Difference { environment, cells, unmatched }
}

/// Transport, row, what tells rows of one name apart, and unit.
type Key = (String, String, String, String);

fn figures(runs: &[RecordedRun]) -> Vec<BTreeMap<Key, f64>> {
    let of_run = |run: &RecordedRun| {
        run.figures
            .iter()
            .filter(|figure| figure.test != REFERENCE)
            .map(|figure| {
                let fields = ["run", "push", "clients", "servers", "regime"];
                let tells_apart = |field| field != "regime" || figure.has_row_for_each_regime();
                let apart =
                    fields.map(|field| figure.more.get(field).filter(|_| tells_apart(field)).cloned());
                let apart = format!("{} {apart:?} {}", figure.statistic, figure.in_flight);
                let key = (figure.transport.clone(), figure.name.clone(), apart, figure.unit.clone());
                (key, figure.value)
            })
            .collect()
    };
    runs.iter().map(of_run).collect()
}

/// How far the cores were apart, if that is another distance.
fn reference(before: &RecordedRun, after: &RecordedRun) -> Option<(String, String, String)> {
    let (own, others) = medians(before, after)?;
    let differs = (others / own - 1.0).abs() > REFERENCE_DIFFERS;
    let shown = |nanos: f64| format!("{nanos:.0} ns");
    differs.then(|| ("reference distance".to_owned(), shown(own), shown(others)))
}

fn surroundings(before: &RecordedRun, after: &RecordedRun) -> Vec<(String, String, String)> {
    let (own, others) = (&before.run, &after.run);
    let none = |fact: Option<&str>| fact.unwrap_or("unknown").to_owned();
    let facts = own.environment.differences(&others.environment);
    let facts = facts.into_iter().map(|(name, own, others)| (name.to_owned(), none(own), none(others)));
    let asked = [
        ("program", own.program.clone(), others.program.clone()),
        ("parameters", own.parameters.join(" "), others.parameters.join(" ")),
        ("seed", own.seed.to_string(), others.seed.to_string()),
    ];
    let asked = asked.into_iter().filter(|(_, own, others)| own != others);
    let facts = facts.chain(reference(before, after));
    facts.chain(asked.map(|(name, own, others)| (name.to_owned(), own, others))).collect()
}
