//! clusterperf's tests of reads and writes: random objects of a key-value store, of one length at a time.

use farcall::TransportKind;
use farcall_kv::durable::Level;

use crate::run::bench::{Bench, BenchError};
use crate::run::closed_loop::{BLOCKS, ClosedLoop, Outcome, in_blocks};
use crate::run::exchange::{ExchangeWork, StoreAccess, StoreWork};
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
    /// Its operations; the servers are shards.
    pub closed_loop: ClosedLoop,
    /// How many objects there are; `None` for as many as clusterperf has.
    pub objects: Option<u64>,
    /// What a write waits for before it is answered.
    pub level: Level,
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
        let ClosedLoop { seed, instruments, .. } = self.closed_loop;
        let work = StoreWork::new(access, self.objects_of(size), seed, self.level);
        let exchange = self.closed_loop.exchange(transport, ExchangeWork::Store(work), size, BLOCKS as u32);
        let blocks = in_blocks(bench, 1, seed, |_, block| {
            bench.exchange_with(&exchange.in_block(block), instruments)
        })?;
        let what = format!("{access:?} of {size} over {transport}");
        Outcome::of_blocks(transport, &exchange, &blocks, what, |result| Some(result))
    }

    /// How many objects of a length there are.
    pub fn objects_of(&self, size: Size) -> u64 {
        self.objects.unwrap_or_else(|| objects_as_in_clusterperf(size))
    }
}
