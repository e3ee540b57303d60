//! One side of a comparison: an exchange between processes or a bare loop, and the figure that is taken from
//! it.

use farcall::Clock;
use farcall_limit::{BandwidthPlan, Effort, RingVariant, ring_rate, stream, tcp_stream};

use crate::run::bench::{Bench, BenchError, RoundTripLimit};
use crate::run::exchange::{Exchange, ExchangeResult};
use crate::run::msgrate::{self, MessageRate};
use crate::run::program::Program;

/// One side of a comparison.
pub(super) enum Arm {
    /// farcall between processes.
    Exchange { program: Program, exchange: Exchange, figure: Figure },
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
