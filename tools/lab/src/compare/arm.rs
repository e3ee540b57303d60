//! One side of a comparison: an exchange between processes or a bare loop, and the figure that is taken from
//! it.

use std::sync::Arc;

use farcall::Clock;
use farcall_limit::{
    BandwidthPlan, Core, Effort, RingVariant, append_flushed, fan_out, ring_rate, stream, tcp_stream,
};

use crate::run::bench::{Bench, BenchError, RoundTripLimit};
use crate::run::exchange::{Exchange, ExchangeResult};
use crate::run::msgrate::{self, MessageRate};
use crate::run::program::Program;
use crate::run::recovery::{FilledLog, RecoverySide};

/// One side of a comparison.
pub(super) enum Arm {
    /// farcall between processes.
    Exchange { program: Program, exchange: Exchange, figure: Figure },
    /// The same with client and server in one thread, and backups.
    Together { exchange: Exchange, figure: Figure },
    /// Messages of farcall from process to process, a second.
    Messages { program: Program, rate: MessageRate },
    /// The round trip of a bare loop.
    RoundTrip { limit: RoundTripLimit, effort: Effort },
    /// The bandwidth of a bare loop.
    Stream { plan: BandwidthPlan, effort: Effort },
    /// The same of a bare loop over a connection.
    Connection { message_bytes: usize, effort: Effort },
    /// Payloads through a bare ring, a second.
    Ring { variant: RingVariant, payload_bytes: usize, effort: Effort },
    /// A line to each of so many, on these cores, and what they acknowledge.
    FanOut { responders: Vec<Core>, receivers: usize, effort: Effort },
    /// So many records in one write and flush: the time of one, or the records of all a second.
    Appends { records: usize, record_bytes: usize, effort: Effort, figure: Figure },
    /// A process that recovers what a log has.
    Recovery { log: Arc<FilledLog>, side: RecoverySide },
}

/// What is taken from an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// The median round trip in nanoseconds.
    MedianNanos,
    /// Calls per second.
    CallsPerSecond,
    /// Bytes of requests per second.
    SentBytesPerSecond,
}

impl Arm {
    /// Runs it once, in the block of this number, and returns its figure.
    pub(super) fn measure(&self, bench: &Bench, block: u64) -> Result<f64, BenchError> {
        Ok(match self {
            Self::Exchange { program, exchange, figure } => {
                let exchange = exchange.in_block(block);
                figure.of(&exchange, &bench.exchange_by(program, &exchange)?)?
            }
            Self::Together { exchange, figure } => {
                let exchange = exchange.in_block(block);
                figure.of(&exchange, &bench.exchange_together(&exchange)?)?
            }
            Self::Messages { program, rate } => {
                let result = msgrate::run_by(program, rate)?;
                result.messages as f64 / result.elapsed.as_secs_f64()
            }
            Self::RoundTrip { limit, effort } => limit.measure(bench, *effort)?.median_nanos,
            Self::Stream { plan, effort } => stream(bench.cores()?, *plan, *effort)?.bytes_per_second,
            Self::Connection { message_bytes, effort } => {
                tcp_stream(bench.cores()?, *message_bytes, *effort)?.bytes_per_second
            }
            Self::Ring { variant, payload_bytes, effort } => {
                ring_rate(bench.cores()?, *payload_bytes, *variant, *effort)?.messages_per_second
            }
            Self::FanOut { responders, receivers, effort } => {
                fan_out(bench.cores()?.initiator, responders, *receivers, *effort)?.median_nanos
            }
            Self::Appends { records, record_bytes, effort, figure } => {
                let (core, folder) = (bench.cores()?.responder, std::env::temp_dir());
                let latency = append_flushed(core, &folder, *records, *record_bytes, *effort)?;
                match figure {
                    Figure::MedianNanos => latency.median_nanos,
                    _ => *records as f64 * 1e9 / latency.mean_nanos,
                }
            }
            Self::Recovery { log, side } => log.time(*side, bench.cores()?.responder)?.as_nanos() as f64,
        })
    }
}

impl Figure {
    fn of(self, exchange: &Exchange, result: &ExchangeResult) -> Result<f64, BenchError> {
        let bytes = exchange.request_bytes.max(exchange.response_bytes);
        let too_few = || BenchError::TooFewCalls { calls: result.calls, bytes };
        Ok(match self {
            Self::MedianNanos => result.latencies.median_nanos(&Clock::new()).ok_or_else(too_few)?,
            Self::CallsPerSecond => result.calls_per_second,
            Self::SentBytesPerSecond => result.calls_per_second * exchange.request_bytes as f64,
        })
    }
}
