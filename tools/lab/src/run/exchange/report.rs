//! What the processes of a measurement find, and what it comes to.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Exchange;
use super::client::Run;
use super::counters::sum_of;
use super::instruments::Asides;
use crate::explain::trace::HostTrace;
use crate::statistics::batches::Batches;
use crate::statistics::histogram::{LatencyCounts, LatencyHistogram};
use crate::statistics::little::LittleCheck;
use crate::statistics::warmup::Warmup;

/// What one client found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientReport {
    /// The latency of each call that began in the window, when each was timed.
    pub latencies: LatencyCounts,
    /// The same in batches; none from a program that is older.
    #[serde(default)]
    pub batches: Batches,
    /// Calls that began in the window; all of them were completed.
    pub calls: u64,
    /// Calls completed in the window.
    #[serde(default)]
    pub completed: u64,
    /// When the window began, on the machine's monotonic clock.
    pub begun_nanos: u64,
    /// When it ended.
    pub ended_nanos: u64,
    /// When the last call was complete.
    #[serde(default)]
    pub last_nanos: u64,
    /// How the warm-up went.
    pub warmup: Warmup,
    /// What the client's own counters counted in the window; those that did not move are left out.
    pub counters: BTreeMap<String, u64>,
}

impl ClientReport {
    /// What a run of calls was; of warm-up and counters it says nothing.
    pub(super) fn new(run: &Run) -> Self {
        let Run { begun, end, latencies, batches } = run;
        Self {
            latencies: latencies.to_counts(),
            batches: batches.clone(),
            calls: end.calls,
            completed: end.completed,
            begun_nanos: begun.as_nanos(),
            ended_nanos: end.window_end.as_nanos(),
            last_nanos: end.last.as_nanos(),
            warmup: Warmup { samples: 0, steady: false },
            counters: BTreeMap::new(),
        }
    }

    /// Calls in a second: those that began in the window, over the time that they had one of the places for
    /// calls in flight. Without their times, those completed in the window, over the window.
    fn calls_per_second(&self, in_flight: usize) -> f64 {
        match self.latencies.sum_nanos() {
            0 => self.completed_per_second(),
            busy => self.calls as f64 * in_flight as f64 * 1e9 / busy as f64,
        }
    }

    /// Calls completed in the window, in a second of it.
    fn completed_per_second(&self) -> f64 {
        self.completed as f64 * 1e9 / self.ended_nanos.saturating_sub(self.begun_nanos).max(1) as f64
    }
}

/// What a process of a measurement was, as records call it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessRole {
    /// It answered.
    #[default]
    Server,
    /// It called.
    Client,
    /// It had the logs of servers.
    Backup,
}

farcall_base::named!(ProcessRole: Server = "server", Client = "client", Backup = "backup");

/// What one process found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    /// Its rank in the measurement.
    #[serde(default)]
    pub(super) rank: u32,
    /// What it was; a program that is older does not say.
    #[serde(default)]
    pub(super) role: ProcessRole,
    /// Of a client.
    pub(super) client: Option<ClientReport>,
    /// What a server's own counters counted while the calls were made.
    pub(super) server_counters: BTreeMap<String, u64>,
    /// Of a server: the share of its time in which it was ready to run and had no core.
    pub(super) waited: Option<f64>,
    /// What it traced.
    pub(super) trace: Option<HostTrace>,
}

/// What one process of a measurement found by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessFound {
    /// Its rank in the measurement.
    pub process: u32,
    /// What it was.
    pub role: ProcessRole,
    /// Where it ran: the launcher's rank and its machine.
    pub at: Option<(u32, String)>,
    /// What its counters counted while calls were made.
    pub counters: BTreeMap<String, u64>,
    /// The latencies of its calls.
    pub latencies: LatencyHistogram,
}

impl ProcessFound {
    fn new(found: &Found) -> Self {
        let mut latencies = LatencyHistogram::new();
        found.client.iter().for_each(|client| latencies.add_counts(&client.latencies));
        let counters = found.client.as_ref().map_or(&found.server_counters, |client| &client.counters);
        let role = if found.client.is_some() { ProcessRole::Client } else { found.role };
        Self { process: found.rank, role, at: None, counters: counters.clone(), latencies }
    }

    /// The same process in another block.
    pub fn and(mut self, other: &Self) -> Self {
        self.counters = sum_of([&self.counters, &other.counters]);
        self.latencies.merge(&other.latencies);
        self
    }

    /// What records say of it.
    pub fn object(&self) -> serde_json::Value {
        let summary = self.latencies.summary();
        serde_json::json!({
            "process": self.process,
            "role": self.role.name(),
            "rank": self.at.as_ref().map(|at| at.0),
            "host": self.at.as_ref().map(|at| &at.1),
            "calls": summary.map(|summary| summary.samples),
            "p50_ns": summary.and_then(|summary| summary.p50_nanos),
            "p99_ns": summary.and_then(|summary| summary.p99_nanos),
            "counters": self.counters,
        })
    }
}

/// Puts the findings of all processes together; there is at least one client.
pub(super) fn put_together(exchange: &Exchange, found: Vec<Found>) -> ExchangeResult {
    let processes = found.iter().map(ProcessFound::new).collect();
    let asides = Asides {
        processes,
        server_counters: sum_of(found.iter().map(|found| &found.server_counters)),
        server_waited: found.iter().filter_map(|found| found.waited).max_by(f64::total_cmp),
        traces: Vec::new(),
    };
    let (mut clients, mut traces) = (Vec::new(), Vec::new());
    for found in found {
        clients.extend(found.client);
        traces.extend(found.trace);
    }
    ExchangeResult { asides: Asides { traces, ..asides }, ..ExchangeResult::new(exchange, &clients) }
}

/// A measurement's result, all clients together.
#[derive(Clone, Debug)]
pub struct ExchangeResult {
    /// The latencies of all calls.
    pub latencies: LatencyHistogram,
    /// The same in batches.
    pub batches: Batches,
    /// Calls that began in the window; all of them were completed.
    pub calls: u64,
    /// From the first client's begin to the last one's end of the window.
    pub wall: Duration,
    /// What was in flight at the end of the window.
    pub rest: Rest,
    /// Response bytes received per second of wall-clock time.
    pub received_bytes_per_second: f64,
    /// Calls per second, all clients together: those that began in the window, over the time that they were
    /// in flight, for each place for a call in flight. Where the windows of clients differ much it is all
    /// calls over the longest one.
    pub calls_per_second: f64,
    /// Calls completed in the window per second of it.
    pub completed_per_second: f64,
    /// Calls in flight at a time, all clients together.
    pub in_flight: u64,
    /// What the clients' counters counted in their windows, added up.
    pub counters: BTreeMap<String, u64>,
    /// Whether every client's latencies were steady when its measurement began.
    pub warm: bool,
    /// What was found beside that.
    pub asides: Asides,
}

/// The part of the longest client's window that the shortest one's must have for their rates to be added.
/// Clients begin together, and end as their calls do: some percent apart where nothing holds one up.
const TOGETHER_MIN: f64 = 0.75;

/// The calls of all clients in a second. Where one was done long before another, the sum of their rates is of
/// a time that there never was: one may have stood still while the other called. It is all calls over the
/// longest window then. Windows of several machines have clocks of their own, so that only lengths count.
fn rate_of_all(clients: &[ClientReport], in_flight: usize) -> f64 {
    let length = |client: &ClientReport| client.ended_nanos.saturating_sub(client.begun_nanos).max(1) as f64;
    let longest = clients.iter().map(length).fold(1.0, f64::max);
    if clients.iter().all(|client| length(client) >= TOGETHER_MIN * longest) {
        return clients.iter().map(|client| client.calls_per_second(in_flight)).sum();
    }
    clients.iter().map(|client| client.calls).sum::<u64>() as f64 * 1e9 / longest
}

impl ExchangeResult {
    /// Puts the clients' findings together; there is at least one client.
    pub(super) fn new(exchange: &Exchange, clients: &[ClientReport]) -> Self {
        let mut latencies = LatencyHistogram::new();
        clients.iter().for_each(|client| latencies.add_counts(&client.latencies));
        let begun = clients.iter().map(|client| client.begun_nanos).min().unwrap_or(0);
        let ended = clients.iter().map(|client| client.ended_nanos).max().unwrap_or(0);
        let wall = Duration::from_nanos(ended.saturating_sub(begun).max(1));
        let calls_per_second = rate_of_all(clients, exchange.in_flight);
        Self {
            latencies,
            batches: clients.iter().fold(Batches::default(), |all, client| all.and(&client.batches)),
            calls: clients.iter().map(|client| client.calls).sum(),
            wall,
            rest: clients.iter().fold(Rest::default(), |rest, client| rest.and(Rest::of(client))),
            received_bytes_per_second: calls_per_second * exchange.response_bytes as f64,
            calls_per_second,
            completed_per_second: clients.iter().map(ClientReport::completed_per_second).sum(),
            in_flight: (exchange.in_flight * exchange.clients) as u64,
            counters: sum_of(clients.iter().map(|client| &client.counters)),
            warm: clients.iter().all(|client| client.warmup.steady),
            asides: Asides::default(),
        }
    }

    /// Compares the calls in flight with what the calls completed in the window and the mean latency imply;
    /// `None` when calls were not timed.
    pub fn little(&self) -> Option<LittleCheck> {
        let summary = self.latencies.summary()?;
        Some(LittleCheck::new(self.in_flight as f64, self.completed_per_second, summary.mean_nanos))
    }
}

/// Calls in flight at the end of a window. They were waited for, and count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// How many.
    pub calls: u64,
    /// From the end of the window until the last of them was complete.
    pub waited: Duration,
}

impl Rest {
    fn of(client: &ClientReport) -> Self {
        let waited = Duration::from_nanos(client.last_nanos.saturating_sub(client.ended_nanos));
        Self { calls: client.calls - client.completed, waited }
    }

    /// These and those of another client or block.
    pub fn and(self, other: Self) -> Self {
        Self { calls: self.calls + other.calls, waited: self.waited.max(other.waited) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::exchange::{Buffers, ExchangeWork, Timing};

    /// A client with one call in flight at a time, and none after the window.
    fn client(begun_nanos: u64, ended_nanos: u64, latencies: &[u64]) -> ClientReport {
        let (mut histogram, mut batches) = (LatencyHistogram::new(), Batches::default());
        for (ordinal, &nanos) in latencies.iter().enumerate() {
            histogram.record(nanos);
            batches.record(ordinal as u64, nanos);
        }
        ClientReport {
            latencies: histogram.to_counts(),
            batches,
            calls: latencies.len() as u64,
            completed: latencies.len() as u64,
            begun_nanos,
            ended_nanos,
            last_nanos: ended_nanos,
            warmup: Warmup { samples: 300, steady: true },
            counters: BTreeMap::from([("ring.calls".to_owned(), latencies.len() as u64)]),
        }
    }

    #[test]
    fn clients_are_put_together_over_the_wall_clock() {
        let exchange = exchange();
        let clients = [client(1_000, 11_000, &[2_500; 4]), client(2_000, 12_000, &[2_000; 5])];
        let result = ExchangeResult::new(&exchange, &clients);
        assert_eq!((result.calls, result.wall, result.in_flight), (9, Duration::from_nanos(11_000), 2));
        assert!((result.calls_per_second - 9e5).abs() < 1.0, "of 2.5 us in one place, of 2 us in the other");
        assert!((result.received_bytes_per_second - 9e8).abs() < 1.0);
        assert_eq!(result.counters["ring.calls"], 9);
        let little = result.little().expect("calls were timed");
        assert!((little.implied - 2.0).abs() < 1e-6 && little.holds());
    }

    #[test]
    fn rates_of_windows_that_differ_are_not_added() {
        // The first is held up while the second calls, and calls when that has ended.
        let held_up: Vec<u64> = [10_000].into_iter().chain([1_000; 9]).collect();
        let clients = [client(0, 19_000, &held_up), client(0, 10_000, &[1_000; 10])];
        let result = ExchangeResult::new(&exchange(), &clients);
        assert!((result.calls_per_second - 20.0 / 19e-6).abs() < 1.0, "{}", result.calls_per_second);
        assert!((result.received_bytes_per_second - 20e3 / 19e-6).abs() < 1e3);
    }

    #[test]
    fn what_was_in_flight_at_the_end_of_the_window_counts() {
        let exchange = Exchange { clients: 1, in_flight: 2, ..exchange() };
        let one = client(0, 10_000, &[2_000, 2_000, 2_000, 2_000, 2_000, 90_000]);
        let one = ClientReport { completed: 5, last_nanos: 90_000, ..one };
        let result = ExchangeResult::new(&exchange, &[one]);
        assert_eq!(result.rest, Rest { calls: 1, waited: Duration::from_nanos(80_000) });
        assert_eq!(result.latencies.summary().map(|latency| latency.max_nanos), Some(90_000));
        assert!((result.calls_per_second - 6.0 * 2.0 / 100e-6).abs() < 1.0, "{}", result.calls_per_second);
    }

    fn exchange() -> Exchange {
        Exchange {
            transport: "ring+shm".to_owned(),
            settings: Vec::new(),
            workload: ExchangeWork::Echo,
            request_bytes: 30,
            response_bytes: 1000,
            buffers: Buffers::Copied,
            timing: Timing::EachCall,
            in_flight: 1,
            clients: 2,
            servers: 1,
            warmup_calls: 0,
            calls: 10,
            lasting: Duration::from_secs(1),
            seed: 1,
        }
    }
}
