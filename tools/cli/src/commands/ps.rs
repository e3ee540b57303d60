//! `farcall ps`: the processes of this machine that use farcall, a line each.

use std::collections::BTreeMap;
use std::thread;

use serde_json::json;

use super::processes::change::{
    CALLS, Change, IN_FLIGHT, LEVELS, REQUESTS, SESSIONS, Stall, scaled, seconds, total,
};
use super::processes::{Found, Process, STOPPED, all, shortened};
use crate::arguments::runs::Ps;
use crate::failure::Failure;
use crate::output::Report;

/// The version of the JSON objects of this command.
const SCHEMA: &str = "farcall.ps.v1";

/// Looks at every process twice, and prints those that were there both times.
pub fn run(ps: &Ps) -> Result<(), Failure> {
    let before = all()?;
    thread::sleep(ps.interval);
    let after = all()?;
    let mut report = Report::open(ps.json.as_ref())?;
    let rows = rows(&before, &after);
    if !rows.is_empty() {
        report.line(format_args!(
            "{:>7} {:<22} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9}  {:<24} command",
            "process",
            "transports",
            "endpoints",
            "sessions",
            "calls/s",
            "served/s",
            "store/s",
            "in flight",
            "stalls"
        ))?;
    }
    rows.iter().try_for_each(|row| row.show(&mut report))?;
    if rows.is_empty() {
        report.line("no process that can be seen from here has farcall counters")?;
    }
    for sentence in after.left_out() {
        report.line(&sentence)?;
        report.object(&json!({ "schema": SCHEMA, "kind": "left_out", "sentence": sentence }))?;
    }
    Ok(())
}

/// A process over the time between two looks.
struct Row<'a> {
    process: &'a Process,
    transports: Vec<&'a str>,
    endpoints: usize,
    sessions: u64,
    calls_per_second: f64,
    served_per_second: f64,
    /// Requests of its store, by whatever door.
    store_per_second: f64,
    in_flight: u64,
    /// By name, of all groups together.
    stalls: BTreeMap<&'static str, f64>,
    /// Between the two looks.
    seconds: f64,
}

fn rows<'a>(before: &'a Found, after: &'a Found) -> Vec<Row<'a>> {
    let earlier = |pid| before.processes.iter().find(|process| process.sample.pid == pid);
    let row = |now: &'a Process| Some(Row::of(earlier(now.sample.pid)?, now));
    after.processes.iter().filter_map(row).collect()
}

impl<'a> Row<'a> {
    fn of(then: &'a Process, now: &'a Process) -> Self {
        let changes = Change::of(&then.sample, &now.sample);
        let endpoints: Vec<_> = changes.iter().filter(|change| change.is_endpoint()).collect();
        // What others wrote may be any number.
        let level =
            |name| endpoints.iter().filter_map(|change| change.value(name)).fold(0, u64::saturating_add);
        let rate = |name| total(endpoints.iter().filter_map(|change| change.rate(name)));
        let mut transports: Vec<_> = endpoints.iter().map(|change| change.transport()).collect();
        transports.sort_unstable();
        transports.dedup();
        let mut stalls = BTreeMap::new();
        for stall in changes.iter().flat_map(Change::stalls) {
            let together = stalls.entry(stall.name).or_insert(0.0);
            *together = stall.with(*together);
        }
        Self {
            process: now,
            transports,
            endpoints: endpoints.len(),
            sessions: level(SESSIONS),
            calls_per_second: rate(CALLS),
            served_per_second: rate(REQUESTS),
            store_per_second: total(changes.iter().map(Change::store_rate)),
            in_flight: level(IN_FLIGHT),
            stalls,
            seconds: seconds(&then.sample, &now.sample),
        }
    }

    fn show(&self, report: &mut Report) -> Result<(), Failure> {
        let Self { process, endpoints, sessions, in_flight, .. } = self;
        let (pid, there) = (process.sample.pid, process.number_there);
        let stalls = self.stalls.iter().map(|(&name, &amount)| Stall { name, amount }.shown());
        let stopped = process.is_stopped.then(|| STOPPED.to_owned());
        let stalls: Vec<_> = stopped.into_iter().chain(stalls).collect();
        let or_none = |list: String| if list.is_empty() { "-".to_owned() } else { list };
        report.line(format_args!(
            "{pid:>7} {:<22} {endpoints:>9} {sessions:>8} {:>9} {:>9} {:>9} {in_flight:>9}  {:<24} {}",
            or_none(self.transports.join(",")),
            scaled(self.calls_per_second),
            scaled(self.served_per_second),
            scaled(self.store_per_second),
            or_none(stalls.join(", ")),
            shortened(&process.command_with_number()),
        ))?;
        let (levels, rates): (Vec<_>, Vec<_>) =
            self.stalls.iter().partition(|(name, _)| LEVELS.contains(name));
        report.object(&json!({
            "schema": SCHEMA,
            "kind": "process",
            "process": pid,
            "process_in_namespace": there,
            "user": process.user,
            "command": process.command,
            "transports": self.transports,
            "endpoints": endpoints,
            "sessions": sessions,
            "calls_per_second": self.calls_per_second,
            "served_per_second": self.served_per_second,
            "store_per_second": self.store_per_second,
            "stopped": process.is_stopped,
            "in_flight": in_flight,
            "stalls_per_second": BTreeMap::from_iter(rates),
            "waiting": BTreeMap::from_iter(levels),
            "seconds": self.seconds,
        }))
    }
}
