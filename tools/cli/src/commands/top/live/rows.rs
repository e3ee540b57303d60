//! What each tab lists: columns, and a row of cells for each process, endpoint or part.

use farcall::CounterSnapshot;

use super::Readings;
use crate::commands::processes::change::{
    ANSWERED, BUSY_POLLS, CALLS, Change, IN_FLIGHT, POLLS, REQUESTS, SESSIONS, SLEEPS, is_level, scaled,
    seconds, total,
};
use crate::commands::processes::sample::Sample;

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;

/// The counters of a part that are shown, the busiest first.
const BUSIEST: usize = 4;

/// What the screen lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    Processes,
    Endpoints,
    Ways,
    Store,
}

impl Tab {
    pub const ALL: [Self; 4] = [Self::Processes, Self::Endpoints, Self::Ways, Self::Store];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Endpoints => "endpoints",
            Self::Ways => "ways",
            Self::Store => "store",
        }
    }

    /// The names and widths of the columns; those without a width share what is left.
    pub const fn columns(self) -> &'static [(&'static str, u16)] {
        match self {
            Self::Processes => &[
                ("process", 8),
                ("program", 16),
                ("core %", 7),
                ("waits %", 8),
                ("sessions", 9),
                ("calls/s", 9),
                ("served/s", 9),
                ("store/s", 8),
                ("in flight", 10),
                ("rates", 17),
                ("stalls", 0),
            ],
            Self::Endpoints => &[
                ("process", 8),
                ("endpoint", 22),
                ("sessions", 9),
                ("calls/s", 9),
                ("answers/s", 10),
                ("served/s", 9),
                ("in flight", 10),
                ("busy %", 7),
                ("sleeps/s", 9),
                ("service", 8),
                ("stalled ms", 11),
                ("rates", 0),
            ],
            Self::Ways | Self::Store => {
                &[("process", 8), ("part", 30), ("events/s", 9), ("stalls", 30), ("what", 0)]
            }
        }
    }

    /// The rows, unsorted.
    pub fn rows(self, seen: &Readings) -> Vec<Row> {
        let mut rows = Vec::new();
        for (then, now) in seen.pairs() {
            let changes = Change::of(then, now);
            match self {
                Self::Processes => rows.push(process(seen, then, now, &changes)),
                Self::Endpoints => {
                    let endpoints = changes.iter().filter(|change| change.is_endpoint());
                    rows.extend(endpoints.map(|change| endpoint(seen, now, change)));
                }
                Self::Ways | Self::Store => {
                    let is_here = |change: &&Change<'_>| {
                        let is_store = change.now.label.starts_with("kv");
                        !change.is_endpoint() && is_store == (self == Self::Store)
                    };
                    rows.extend(changes.iter().filter(is_here).map(|change| part(now, change)));
                }
            }
        }
        rows
    }
}

/// What a cell is, by which it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    /// The last rates as a line of blocks.
    Rates,
    Stalls,
}

/// A place in a row: what is shown, and by what it is sorted.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub kind: Kind,
    pub shown: String,
    /// `None` of texts.
    pub amount: Option<f64>,
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub cells: Vec<Cell>,
}

impl Row {
    /// Whether a text occurs in it, whatever its case.
    pub fn has(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.cells.iter().any(|cell| cell.shown.to_lowercase().contains(&text))
    }
}

fn text(shown: impl Into<String>) -> Cell {
    Cell { kind: Kind::Text, shown: shown.into(), amount: None }
}

fn rates(shown: String) -> Cell {
    Cell { kind: Kind::Rates, shown, amount: None }
}

fn number(amount: f64, shown: String) -> Cell {
    Cell { kind: Kind::Number, shown, amount: Some(amount) }
}

fn whole(amount: u64) -> Cell {
    number(amount as f64, amount.to_string())
}

fn rate(amount: f64) -> Cell {
    number(amount, scaled(amount))
}

/// Stalls in words, sorted by how much they are together.
fn stalls<'c>(changes: impl Iterator<Item = &'c Change<'c>>) -> Cell {
    let all: Vec<_> = changes.flat_map(Change::stalls).collect();
    let shown: Vec<_> = all.iter().map(|stall| stall.shown()).collect();
    let amount = total(all.iter().map(|stall| stall.amount));
    Cell { kind: Kind::Stalls, shown: shown.join(", "), amount: Some(amount) }
}

fn process(seen: &Readings, then: &Sample, now: &Sample, changes: &[Change<'_>]) -> Row {
    let sum = |of: &dyn Fn(&Change<'_>) -> f64| -> f64 {
        total(changes.iter().filter(|change| change.is_endpoint()).map(of))
    };
    let level = |name: &'static str| whole(sum(&|change| change.value(name).unwrap_or(0) as f64) as u64);
    let per_second = |name: &'static str| rate(sum(&|change| change.rate(name).unwrap_or(0.0)));
    let (seconds, schedule) = (seconds(then, now), then.schedule.zip(now.schedule));
    let share = |nanos: u64| number(nanos as f64, format!("{:.0}", nanos as f64 / 1e7 / seconds));
    let (ran, waited) = match schedule {
        Some((then, now)) => (
            share(now.ran_nanos.saturating_sub(then.ran_nanos)),
            share(now.waited_nanos.saturating_sub(then.waited_nanos)),
        ),
        None => (text(""), text("")),
    };
    Row {
        cells: vec![
            whole(now.pid.into()),
            text(seen.programs.get(&now.pid).cloned().unwrap_or_default()),
            ran,
            waited,
            level(SESSIONS),
            per_second(CALLS),
            per_second(REQUESTS),
            rate(total(changes.iter().map(Change::store_rate))),
            level(IN_FLIGHT),
            rates(seen.history.line(now.pid, "")),
            stalls(changes.iter()),
        ],
    }
}

fn endpoint(seen: &Readings, now: &Sample, change: &Change<'_>) -> Row {
    let per_second = |name| change.rate(name).unwrap_or(0.0);
    let turns = per_second(POLLS);
    let busy = if turns > 0.0 { (per_second(BUSY_POLLS) / turns * 100.0).min(100.0) } else { 0.0 };
    // The counter is one more than the number, and 0 while no handler runs.
    let service = match change.value("handler").unwrap_or(0) {
        0 => text(""),
        service => whole(service - 1),
    };
    Row {
        cells: vec![
            whole(now.pid.into()),
            text(&change.now.label),
            whole(change.value(SESSIONS).unwrap_or(0)),
            rate(per_second(CALLS)),
            rate(per_second(ANSWERED)),
            rate(per_second(REQUESTS)),
            whole(change.value(IN_FLIGHT).unwrap_or(0)),
            number(busy, format!("{busy:.1}")),
            rate(per_second(SLEEPS)),
            service,
            whole(change.value("stalled_time").unwrap_or(0) / 1_000_000),
            rates(seen.history.line(now.pid, &change.now.label)),
        ],
    }
}

/// Bytes in units of 2^10, other levels in full.
fn level_shown(counter: &CounterSnapshot) -> String {
    match (counter.unit.as_str(), counter.value as f64) {
        ("bytes", bytes) if bytes >= GIB => format!("{:.1} GiB", bytes / GIB),
        ("bytes", bytes) if bytes >= MIB => format!("{:.1} MiB", bytes / MIB),
        ("bytes", bytes) if bytes >= KIB => format!("{:.1} KiB", bytes / KIB),
        _ => counter.value.to_string(),
    }
}

/// A transport, a driver or a part of the store, whatever it counts.
fn part(now: &Sample, change: &Change<'_>) -> Row {
    let is_shown = |counter: &&CounterSnapshot| is_level(&counter.name) && counter.value > 0;
    let levels = change.now.counters.iter().filter(is_shown);
    let levels = levels.map(|counter| format!("{} {}", counter.name, level_shown(counter)));
    let rates = change.now.counters.iter().map(|counter| counter.name.as_str());
    let rates = rates.filter(|name| !is_level(name));
    let mut rates: Vec<_> = rates.map(|name| (change.rate(name).unwrap_or(0.0), name)).collect();
    let events = rates.iter().map(|(rate, _)| rate).sum();
    rates.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let busiest = rates.iter().take(BUSIEST).filter(|(rate, _)| *rate > 0.0);
    let busiest = busiest.map(|(rate, name)| format!("{name} {}/s", scaled(*rate)));
    let what: Vec<_> = levels.chain(busiest).collect();
    Row {
        cells: vec![
            whole(now.pid.into()),
            text(&change.now.label),
            rate(events),
            stalls(core::iter::once(change)),
            text(what.join(", ")),
        ],
    }
}
