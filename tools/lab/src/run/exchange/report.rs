//! What the processes of a measurement find, and what it comes to.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Exchange;
use super::counters::sum_of;
use super::instruments::Asides;
use crate::explain::trace::HostTrace;
use crate::statistics::histogram::{LatencyCounts, LatencyHistogram};
use crate::statistics::little::LittleCheck;
use crate::statistics::warmup::Warmup;

/// What one client found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientReport {
    /// The latency of each call, when each was timed.
    pub latencies: LatencyCounts,
    /// Calls completed in the window.
    pub calls: u64,
    /// When the window began, on the machine's monotonic clock.
    pub begun_nanos: u64,
    /// When it ended.
    pub ended_nanos: u64,
    /// How the warm-up went.
    pub warmup: Warmup,
    /// What the client's own counters counted in the window; those that did not move are left out.
    pub counters: BTreeMap<String, u64>,
}

/// What one process found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    /// Of a client.
    pub(super) client: Option<ClientReport>,
    /// What a server's own counters counted while the calls were made.
    pub(super) server_counters: BTreeMap<String, u64>,
    /// Of a server: the share of its time in which it was ready to run and had no core.
    pub(super) waited: Option<f64>,
    /// What it traced.
    pub(super) trace: Option<HostTrace>,
}

/// Puts the findings of all processes together; there is at least one client.
pub(super) fn put_together(exchange: &Exchange, found: Vec<Found>) -> ExchangeResult {
    let asides = Asides {
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
    /// Calls completed.
    pub calls: u64,
    /// From the first client's begin to the last one's end.
    pub wall: Duration,
    /// Response bytes received per second of wall-clock time.
    pub received_bytes_per_second: f64,
    /// Calls per second of wall-clock time.
    pub calls_per_second: f64,
    /// Calls in flight at a time, all clients together.
    pub in_flight: u64,
    /// What the clients' counters counted in their windows, added up.
    pub counters: BTreeMap<String, u64>,
    /// Whether every client's latencies were steady when its measurement began.
    pub warm: bool,
    /// What was found beside that.
    pub asides: Asides,
}

impl ExchangeResult {
    /// Puts the clients' findings together; there is at least one client.
    pub(super) fn new(exchange: &Exchange, clients: &[ClientReport]) -> Self {
        let mut latencies = LatencyHistogram::new();
        clients.iter().for_each(|client| latencies.add_counts(&client.latencies));
        let begun = clients.iter().map(|client| client.begun_nanos).min().unwrap_or(0);
        let ended = clients.iter().map(|client| client.ended_nanos).max().unwrap_or(0);
        let wall = Duration::from_nanos(ended.saturating_sub(begun).max(1));
        let calls = clients.iter().map(|client| client.calls).sum();
        let calls_per_second = calls as f64 / wall.as_secs_f64();
        Self {
            latencies,
            calls,
            wall,
            received_bytes_per_second: calls_per_second * exchange.response_bytes as f64,
            calls_per_second,
            in_flight: (exchange.in_flight * exchange.clients) as u64,
            counters: sum_of(clients.iter().map(|client| &client.counters)),
            warm: clients.iter().all(|client| client.warmup.steady),
            asides: Asides::default(),
        }
    }

    /// Compares the calls in flight with what throughput and mean latency imply; `None` when calls were not
    /// timed.
    pub fn little(&self) -> Option<LittleCheck> {
        let summary = self.latencies.summary()?;
        Some(LittleCheck::new(self.in_flight as f64, self.calls_per_second, summary.mean_nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::exchange::{Buffers, ExchangeWork, Timing};

    fn client(begun_nanos: u64, ended_nanos: u64, latencies: &[u64]) -> ClientReport {
        let mut histogram = LatencyHistogram::new();
        latencies.iter().for_each(|&nanos| histogram.record(nanos));
        ClientReport {
            latencies: histogram.to_counts(),
            calls: latencies.len() as u64,
            begun_nanos,
            ended_nanos,
            warmup: Warmup { samples: 300, steady: true },
            counters: BTreeMap::from([("ring.calls".to_owned(), latencies.len() as u64)]),
        }
    }

    #[test]
    fn clients_are_put_together_over_the_wall_clock() {
        let exchange = Exchange {
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
        };
        let clients = [client(1_000, 11_000, &[2_500; 4]), client(2_000, 12_000, &[2_000; 5])];
        let result = ExchangeResult::new(&exchange, &clients);
        assert_eq!((result.calls, result.wall, result.in_flight), (9, Duration::from_nanos(11_000), 2));
        assert!((result.received_bytes_per_second - 9_000.0 / 11e-6).abs() < 1.0);
        assert_eq!(result.counters["ring.calls"], 9);
        let little = result.little().expect("calls were timed");
        assert!((little.implied - 20_000.0 / 11_000.0).abs() < 1e-6 && little.holds());
    }
}
