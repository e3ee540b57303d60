//! What each tab lists: a row of cells for each process, endpoint or part.

use farcall::CounterSnapshot;

use crate::commands::processes::STOPPED;
use crate::commands::processes::change::{
    ANSWERED, BUSY_POLLS, CALLS, Change, IN_FLIGHT, POLLS, REQUESTS, SESSIONS, SLEEPS, is_level, scaled,
    seconds, total,
};
use crate::commands::processes::sample::Sample;
use crate::commands::top::readings::Readings;

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;

/// The counters of events that are shown of a part.
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
                        !change.is_endpoint() && change.is_store() == (self == Self::Store)
                    };
                    rows.extend(changes.iter().filter(is_here).map(|change| part(seen, now, change)));
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
    /// The process, and the endpoint or part of it; of a process no name.
    pub of: (u32, String),
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

/// Stalls in words, sorted by how much they are together. A process that is stopped is the worst.
fn stalls<'c>(changes: impl Iterator<Item = &'c Change<'c>>, is_stopped: bool) -> Cell {
    let all: Vec<_> = changes.flat_map(Change::stalls).collect();
    let stopped = is_stopped.then(|| STOPPED.to_owned());
    let shown: Vec<_> = stopped.into_iter().chain(all.iter().map(|stall| stall.shown())).collect();
    let amount = if is_stopped { f64::INFINITY } else { total(all.iter().map(|stall| stall.amount)) };
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
        of: (now.pid, String::new()),
        cells: vec![
            whole(now.pid.into()),
            text(seen.command_of(now.pid)),
            ran,
            waited,
            level(SESSIONS),
            per_second(CALLS),
            per_second(REQUESTS),
            rate(total(changes.iter().map(Change::store_rate))),
            level(IN_FLIGHT),
            rates(seen.history.line(now.pid, "")),
            stalls(changes.iter(), seen.is_stopped(now.pid)),
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
        of: (now.pid, change.now.label.clone()),
        cells: vec![
            whole(now.pid.into()),
            text(match seen.is_stopped(now.pid) {
                true => format!("{} {STOPPED}", change.now.label),
                false => change.now.label.clone(),
            }),
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

/// Bytes in units of 2^10.
fn bytes_shown(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= GIB => format!("{:.1} GiB", bytes / GIB),
        bytes if bytes >= MIB => format!("{:.1} MiB", bytes / MIB),
        bytes if bytes >= KIB => format!("{:.1} KiB", bytes / KIB),
        bytes => format!("{bytes:.0} B"),
    }
}

fn level_shown(counter: &CounterSnapshot) -> String {
    match counter.unit.as_str() {
        "bytes" => bytes_shown(counter.value as f64),
        _ => counter.value.to_string(),
    }
}

/// What a counter adds up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sum {
    Events,
    Bytes,
    Nanos,
    Micros,
}

impl Sum {
    fn of(counter: &CounterSnapshot) -> Self {
        match counter.unit.as_str() {
            "bytes" => Self::Bytes,
            "ns" => Self::Nanos,
            "us" => Self::Micros,
            _ => Self::Events,
        }
    }

    /// So much a second.
    fn shown(self, rate: f64) -> String {
        match self {
            Self::Events => format!("{}/s", scaled(rate)),
            Self::Bytes => format!("{}/s", bytes_shown(rate)),
            Self::Nanos => format!("{:.1} ms/s", rate / 1e6),
            Self::Micros => format!("{:.1} ms/s", rate / 1e3),
        }
    }
}

/// A transport, a driver or a part of the store, whatever it counts. Counters are of different things: they
/// are not added up.
fn part(seen: &Readings, now: &Sample, change: &Change<'_>) -> Row {
    let (levels, rates): (Vec<_>, Vec<_>) =
        change.now.counters.iter().partition(|counter| is_level(&counter.name));
    // Core 0 is a core as others are.
    let levels = levels.into_iter().filter(|counter| counter.value > 0 || counter.name == "core");
    let levels = levels.map(|counter| format!("{} {}", counter.name, level_shown(counter)));
    let rate_of = |counter: &CounterSnapshot| change.rate(&counter.name).unwrap_or(0.0);
    let rates = rates.into_iter().map(|counter| (Sum::of(counter), rate_of(counter), &counter.name));
    let rates: Vec<_> = rates.filter(|(_, rate, _)| *rate > 0.0).collect();
    let mut events: Vec<f64> =
        rates.iter().filter(|(sum, ..)| *sum == Sum::Events).map(|(_, rate, _)| *rate).collect();
    events.sort_by(|one, other| other.total_cmp(one));
    let busiest = events.first().copied().unwrap_or(0.0);
    let least = events.get(BUSIEST - 1).copied().unwrap_or(0.0);
    // Each stays in its place while rates change.
    let (events, others): (Vec<_>, Vec<_>) = rates.into_iter().partition(|(sum, ..)| *sum == Sum::Events);
    let events = events.into_iter().filter(|(_, rate, _)| *rate >= least).take(BUSIEST);
    let shown = others.into_iter().chain(events);
    let shown = shown.map(|(sum, rate, name)| format!("{name} {}", sum.shown(rate)));
    let what: Vec<_> = levels.chain(shown).collect();
    Row {
        of: (now.pid, change.now.label.clone()),
        cells: vec![
            whole(now.pid.into()),
            text(&change.now.label),
            rate(busiest),
            stalls(core::iter::once(change), seen.is_stopped(now.pid)),
            text(what.join(", ")),
        ],
    }
}
