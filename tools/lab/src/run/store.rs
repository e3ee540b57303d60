//! clusterperf's tests of reads and writes: random objects of a key-value store, of one length at a time.

use core::time::Duration;

use farcall::TransportKind;

use crate::run::bench::{Bench, BenchError};
use crate::run::closed_loop::{BLOCKS, BLOCKS_MAX, Outcome, in_blocks};
use crate::run::exchange::{Buffers, Exchange, Instruments, StoreAccess, StoreWork, Timing, Workload};
use crate::units::Size;

/// Memory that clusterperf fills with objects unless told otherwise, in bytes.
const FILLED_BYTES: u64 = 200_000_000;

/// What clusterperf adds to the length of an object when it counts how many fit.
const OBJECT_OVERHEAD_BYTES: u64 = 50;

/// Objects of one length in the table of clusterperf's `basic`.
fn objects_as_in_clusterperf(size: Size) -> u64 {
    (FILLED_BYTES / (size.0 as u64 + OBJECT_OVERHEAD_BYTES)).max(1)
}

/// What is measured, but for transport and size.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreTest {
    /// Parameters, each as `name=value`.
    pub assignments: Vec<String>,
    /// Operations of each client.
    pub calls: u64,
    /// The longest that they may take.
    pub lasting: Duration,
    /// The fewest operations before the measurement.
    pub warmup_calls: u64,
    /// Operations that each client keeps in flight.
    pub in_flight: usize,
    /// Processes that call.
    pub clients: usize,
    /// Processes that answer: shards.
    pub servers: usize,
    /// How many objects there are; `None` for as many as clusterperf has.
    pub objects: Option<u64>,
    /// Decides which objects are accessed.
    pub seed: u64,
    /// What is done beside the calls.
    pub instruments: Instruments,
}

impl StoreTest {
    /// Measures one way of access over one transport.
    pub fn run(
        &self,
        bench: &Bench,
        transport: TransportKind,
        size: Size,
        access: StoreAccess,
    ) -> Result<Outcome, BenchError> {
        let work = StoreWork { access, objects: self.objects_of(size), seed: self.seed };
        let exchange = self.exchange(transport, size, work);
        let blocks = in_blocks(bench, 1, self.seed, |_| bench.exchange_with(&exchange, self.instruments))?;
        Outcome::of_blocks(transport, &exchange, &blocks, |result| Some(result)).ok_or_else(|| {
            BenchError::NeverSteady {
                what: format!("{access:?} of {size} over {transport}"),
                blocks: BLOCKS_MAX,
            }
        })
    }

    /// How many objects of a length there are.
    pub fn objects_of(&self, size: Size) -> u64 {
        self.objects.unwrap_or_else(|| objects_as_in_clusterperf(size))
    }

    fn exchange(&self, transport: TransportKind, size: Size, work: StoreWork) -> Exchange {
        Exchange {
            transport: transport.name().to_owned(),
            settings: self.assignments.clone(),
            workload: Workload::Store(work),
            request_bytes: 0,
            response_bytes: size.0,
            buffers: Buffers::Copied,
            timing: Timing::EachCall,
            in_flight: self.in_flight,
            clients: self.clients,
            servers: self.servers,
            warmup_calls: self.warmup_calls,
            calls: self.calls.div_ceil(BLOCKS as u64),
            lasting: self.lasting / BLOCKS as u32,
        }
    }
}
