//! What the processes find, and what it comes to.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::BenchKv;
use super::observer::PhaseReport;
use super::slot_times::SlotNanos;
use crate::explain::trace::{HostTrace, Traced};
use crate::run::losses::Losses;
use crate::statistics::histogram::{LatencyCounts, LatencyHistogram};
use crate::statistics::little::LittleCheck;

/// What a client found in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ClientRun {
    /// Latencies of requests that its own rank answered.
    pub local: LatencyCounts,
    /// Latencies of those that another one answered.
    pub remote: LatencyCounts,
    /// What the slots did meanwhile.
    pub slot_nanos: SlotNanos,
    pub begun_nanos: u64,
    pub ended_nanos: u64,
    pub warm: bool,
}

/// What a client found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ClientReport {
    pub rank: usize,
    pub runs: Vec<ClientRun>,
}

/// What a daemon counted and timed in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DaemonRun {
    pub counters: BTreeMap<String, u64>,
    pub phases: PhaseReport,
    /// What its endpoint recorded, when calls were traced.
    pub trace: Option<HostTrace>,
}

/// What a daemon found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DaemonReport {
    pub rank: usize,
    pub empty_turn_nanos: f64,
    pub runs: Vec<DaemonRun>,
}

/// What a process writes when it has done its job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum WorkerReport {
    Client(ClientReport),
    Daemon(DaemonReport),
}

/// The requests of one class: local or remote.
#[derive(Clone, Debug)]
pub struct ClassResult {
    /// Their latencies, as clients saw them.
    pub latencies: LatencyHistogram,
    /// How many were answered.
    pub requests: u64,
    /// How many a second, over the window.
    pub per_second: f64,
    /// Requests in flight, over time as the clients counted them, against what throughput and latency imply.
    pub little: LittleCheck,
}

impl ClassResult {
    fn new(latencies: LatencyHistogram, slot_nanos: u64, window: Duration) -> Self {
        let summary = latencies.summary();
        let (requests, mean_nanos) = summary.map_or((0, 0.0), |found| (found.samples, found.mean_nanos));
        let per_second = requests as f64 / window.as_secs_f64();
        let in_flight = slot_nanos as f64 / window.as_nanos() as f64;
        Self { latencies, requests, per_second, little: LittleCheck::new(in_flight, per_second, mean_nanos) }
    }
}

/// What a rank's daemon did in a run.
#[derive(Clone, Debug)]
pub struct RankResult {
    /// Requests of its clients a second, over the window.
    pub per_second: f64,
    /// What its counters counted.
    pub counters: BTreeMap<String, u64>,
    /// What its phases took.
    pub phases: PhaseReport,
    /// What a turn costs while there is no client, in nanoseconds.
    pub empty_turn_nanos: f64,
}

/// A run's result.
#[derive(Clone, Debug)]
pub struct BenchKvResult {
    /// From the first client's first request to the last one's last answer.
    pub window: Duration,
    /// Requests answered in it a second.
    pub per_second: f64,
    /// Requests answered.
    pub requests: u64,
    /// Those that the client's own rank answered.
    pub local: ClassResult,
    /// Those that another rank answered.
    pub remote: ClassResult,
    /// Requests kept in flight, against what throughput and latency imply.
    pub little: LittleCheck,
    /// What the clients' slots did.
    pub slot_nanos: SlotNanos,
    /// The number of each client's slots times the length of its window, all clients together.
    pub slot_window_nanos: u64,
    /// By rank.
    pub ranks: Vec<RankResult>,
    /// The calls between daemons, when they were traced.
    pub traced: Traced,
    /// Whether all clients were warm.
    pub warm: bool,
}

impl BenchKvResult {
    /// Puts a run together.
    pub(super) fn new(
        bench: &BenchKv,
        run: usize,
        clients: &[ClientReport],
        daemons: &[DaemonReport],
    ) -> Self {
        let runs = || clients.iter().map(|client| &client.runs[run]);
        let begun = runs().map(|run| run.begun_nanos).min().unwrap_or(0);
        let ended = runs().map(|run| run.ended_nanos).max().unwrap_or(0);
        let window = Duration::from_nanos(ended.saturating_sub(begun).max(1));
        let mut slot_nanos = SlotNanos::default();
        runs().for_each(|run| slot_nanos.add(&run.slot_nanos));
        let class = |counts: fn(&ClientRun) -> &LatencyCounts, slot_nanos| {
            let mut latencies = LatencyHistogram::new();
            runs().for_each(|run| latencies.add_counts(counts(run)));
            ClassResult::new(latencies, slot_nanos, window)
        };
        let local = class(|run| &run.local, slot_nanos.local);
        let remote = class(|run| &run.remote, slot_nanos.remote);
        let requests = local.requests + remote.requests;
        let traces: Vec<_> = daemons.iter().filter_map(|daemon| daemon.runs[run].trace.clone()).collect();
        let in_flight = (bench.ranks * bench.clients * bench.queue_depth) as f64;
        let implied = local.little.implied + remote.little.implied;
        let client_windows = runs().map(|run| run.ended_nanos - run.begun_nanos);
        Self {
            window,
            per_second: requests as f64 / window.as_secs_f64(),
            requests,
            little: LittleCheck { in_flight, implied },
            slot_nanos,
            slot_window_nanos: client_windows.sum::<u64>() * bench.queue_depth as u64,
            ranks: daemons.iter().map(|daemon| rank_result(daemon, run, window)).collect(),
            traced: Traced::on_machine([&*traces]),
            warm: runs().all(|run| run.warm),
            local,
            remote,
        }
    }

    /// What fell in the run, at all daemons.
    pub fn losses(&self) -> Losses {
        let of_ranks = self.ranks.iter().map(|rank| Losses::of(&rank.counters));
        of_ranks.fold(Losses::default(), Losses::and)
    }

    /// A daemon counter of all ranks together.
    pub fn counted(&self, name: &str) -> u64 {
        self.ranks.iter().map(|rank| rank.counted(name)).sum()
    }
}

impl RankResult {
    /// One of its counters, of whatever group.
    pub fn counted(&self, name: &str) -> u64 {
        let of_name = self.counters.iter().filter(|(full, _)| full.rsplit('.').next() == Some(name));
        of_name.map(|(_, count)| count).sum()
    }
}

fn rank_result(daemon: &DaemonReport, run: usize, window: Duration) -> RankResult {
    let DaemonRun { counters, phases, .. } = daemon.runs[run].clone();
    let mut result =
        RankResult { per_second: 0.0, counters, phases, empty_turn_nanos: daemon.empty_turn_nanos };
    result.per_second = result.counted("slot_requests") as f64 / window.as_secs_f64();
    result
}

/// From a sweep of requests in flight and requests a second: how many in flight it takes to reach the ceiling
/// if latency stayed as it is at the least (the knee of a closed system), and the ceiling.
pub fn knee_of(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let least = points.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let ceiling = points.iter().map(|point| point.1).max_by(f64::total_cmp)?;
    (least.1 > 0.0).then(|| (ceiling * least.0 / least.1, ceiling))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_the_ceiling_meets_the_slope_of_the_first_point() {
        let points = [(2.0, 0.5e6), (4.0, 1.0e6), (8.0, 1.6e6), (16.0, 1.5e6)];
        let (knee, ceiling) = knee_of(&points).expect("there are points");
        assert!((knee - 6.4).abs() < 1e-9 && ceiling == 1.6e6);
        assert_eq!(knee_of(&[]), None);
    }
}
