//! The echo test on a simulated fabric, beside what others published for it.

use std::collections::BTreeMap;

use farcall::TransportKind;
use farcall::simulated::Cluster;

use super::EchoTest;
use crate::exchange::simulate_with;
use crate::histogram::LatencySummary;
use crate::little::LittleCheck;
use crate::published::{Configuration, Published, clusterperf};
use crate::simulation::{SimulatedFabric, SimulatedRun, SimulationError};
use crate::trace::Traced;
use crate::units::Size;

/// What was found for one transport and size. Times are simulated.
#[derive(Clone, Debug)]
pub struct SimulatedEcho {
    /// The transport.
    pub transport: TransportKind,
    /// Length of the response.
    pub size: Size,
    /// The round trips.
    pub latency: LatencySummary,
    /// Calls per second.
    pub calls_per_second: f64,
    /// Bytes of responses per second.
    pub received_bytes_per_second: f64,
    /// Calls completed.
    pub calls: u64,
    /// Calls under way at a time, all clients together.
    pub in_flight: u64,
    /// What the counters of all hosts counted while the calls were made.
    pub counters: BTreeMap<String, u64>,
    /// The calls, when they were traced.
    pub traced: Traced,
    /// Whether throughput, latency and calls under way agree.
    pub little: LittleCheck,
    /// The simulation.
    pub run: SimulatedRun,
    configuration: Configuration,
}

impl SimulatedEcho {
    /// What was published for the row of that name on such a fabric.
    pub fn published(&self, row: &str) -> Option<Published> {
        clusterperf(&self.run.profile, self.transport.name(), self.configuration, row)
    }
}

impl EchoTest {
    /// Measures one transport and size on a simulated fabric.
    pub fn simulate(
        &self,
        fabric: &SimulatedFabric,
        transport: TransportKind,
        size: Size,
    ) -> Result<SimulatedEcho, SimulationError> {
        self.simulate_with(fabric, transport, size, |_| ())
    }

    /// As [`EchoTest::simulate`]; `prepare` can do something to the fabric before it begins.
    pub fn simulate_with(
        &self,
        fabric: &SimulatedFabric,
        transport: TransportKind,
        size: Size,
        prepare: impl FnOnce(&Cluster),
    ) -> Result<SimulatedEcho, SimulationError> {
        let exchange = self.exchange(transport, size, 1);
        let (result, run) = simulate_with(&exchange, self.instruments, &self.settings, fabric, prepare)?;
        let latency = result.latencies.summary().expect("a client makes at least one call");
        let Self { in_flight, clients, servers, .. } = *self;
        Ok(SimulatedEcho {
            transport,
            size,
            latency,
            calls_per_second: result.calls_per_second,
            received_bytes_per_second: result.received_bytes_per_second,
            calls: result.calls,
            in_flight: result.in_flight,
            counters: result.counters,
            traced: Traced::simulated([&*result.asides.traces]),
            little: LittleCheck::new(result.in_flight as f64, result.calls_per_second, latency.mean_nanos),
            run,
            configuration: Configuration { in_flight, clients, servers },
        })
    }
}
