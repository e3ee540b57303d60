//! What the record of a measurement holds against each cause.

use std::collections::BTreeMap;

use serde_json::Value;

use super::load::Load;
use super::scheduled::Stalls;
use crate::explain::recorded::{RecordedFigure, RecordedRun};
use crate::run::uses::Uses;

/// Operations that a judgement needs.
const OPERATIONS_MIN: f64 = 5.0;

/// A measurement on a fabric whose resources were observed.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Transport, row and operations in flight.
    pub about: String,
    /// The command that measured.
    pub command: String,
    /// The protocol of the transport, such as `basic`.
    pub protocol: String,
    /// Operations of the measured time.
    pub operations: f64,
    /// The mean time of one.
    pub operation_nanos: f64,
    /// How many were in flight all the time; `None` where that was not kept up.
    pub in_flight: Option<f64>,
    /// What it offered, if it is an open loop.
    pub load: Option<Load>,
    /// Hosts that call.
    pub clients: f64,
    /// Hosts that only answer, and all others.
    pub hosts: (f64, f64),
    /// Counters of all hosts, by their own names.
    pub counters: BTreeMap<String, f64>,
    /// What the resources had to do.
    pub uses: Uses,
    /// What went wrong by a schedule, as it was written.
    pub schedule: Option<Value>,
    /// Parameters of the run that were set, by name.
    pub parameters: BTreeMap<String, String>,
}

impl Evidence {
    /// What a figure says, if it stands for a whole measurement.
    pub fn of(figure: &RecordedFigure, run: &RecordedRun) -> Option<Self> {
        let more = &figure.more;
        let uses: Uses = serde_json::from_value(more.get("uses")?.clone()).ok()?;
        let number = |field: &str| more.get(field).and_then(Value::as_f64);
        // A row of some lengths only is not the measurement.
        if figure.statistic != "p50" || figure.unit != "ns" || number("decile").is_some() {
            return None;
        }
        let operations = number("window_operations").unwrap_or(figure.samples as f64);
        let kept = number("calls_per_second").map(|rate| (figure.in_flight.max(1) as f64, rate));
        let operation_nanos = match kept {
            Some((in_flight, rate)) => in_flight / rate * 1e9,
            None => number("mean_ns").unwrap_or(uses.window_nanos / operations.max(1.0)),
        };
        let sane = operations >= OPERATIONS_MIN && operation_nanos > 0.0 && uses.window_nanos > 0.0;
        let in_flight = kept.map(|(in_flight, _)| in_flight);
        let beside = in_flight.map_or_else(String::new, |in_flight| format!(", {in_flight} in flight"));
        sane.then(|| Self {
            about: format!("{} {}{beside}", figure.transport, figure.name),
            command: figure.command.clone(),
            protocol: figure.transport.split('+').next().unwrap_or_default().to_owned(),
            operations,
            operation_nanos,
            in_flight,
            load: Load::of(figure),
            clients: number("clients").unwrap_or(1.0).max(1.0),
            // Where all do both, all are among those that call.
            hosts: (
                if uses.servers.work.is_empty() { 0.0 } else { number("servers").unwrap_or(1.0) },
                number("nodes").or(number("clients")).unwrap_or(1.0),
            ),
            counters: counters(more),
            uses,
            schedule: more.get("schedule").filter(|schedule| !schedule.is_null()).cloned(),
            parameters: run.run.parameters.iter().filter_map(|text| assignment(text.as_str())).collect(),
        })
    }

    /// A counter's sum over all groups that have it.
    pub fn counted(&self, name: &str) -> f64 {
        self.counters.get(name).copied().unwrap_or(0.0)
    }

    /// The part of all lost packets that were lost to partitions and hosts that were down.
    pub fn lost_to_partitions(&self) -> f64 {
        let all: f64 = self.uses.drops.values().map(|drops| *drops as f64).sum();
        let all = all + self.counted("dropped") + self.counted("checksum_errors") + self.counted("truncated");
        let parted = ["partition", "host_down"].iter().map(|place| self.lost(place)).sum::<f64>();
        if all > 0.0 { (parted / all).min(1.0) } else { 0.0 }
    }

    /// For how long the schedule of faults let nothing move until the measured time was over.
    pub fn stalls(&self) -> Stalls {
        let of = |schedule: &Value| Stalls::of(schedule, self.hosts.0 as u64, self.uses.window_nanos);
        self.schedule.as_ref().map(of).unwrap_or_default()
    }

    /// Packets that were lost in some place, or by a counter that counts such.
    pub fn lost(&self, place: &str) -> f64 {
        self.uses.drops.get(place).map_or_else(|| self.counted(place), |drops| *drops as f64)
    }
}

fn assignment(text: &str) -> Option<(String, String)> {
    text.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
}

/// Those of clients and servers, by the last part of their names.
fn counters(more: &serde_json::Map<String, Value>) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    let groups = ["counters", "server_counters"].iter().filter_map(|field| more.get(*field)?.as_object());
    for (name, count) in groups.flatten() {
        let name = name.rsplit('.').next().unwrap_or_default().to_owned();
        *sums.entry(name).or_default() += count.as_f64().unwrap_or(0.0);
    }
    sums
}
