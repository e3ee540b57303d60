//! How the two sides of a row are measured.

use core::time::Duration;
use std::sync::Arc;

use farcall::TransportKind;
use farcall_kv::durable::Level;
use farcall_limit::{Copies, Effort, best_bandwidth_plan, best_ring_variant};

use super::{BudgetRow, Kind, MESSAGES_WINDOW, RATE_BYTES, REPLICAS, SHORT_BYTES, WRITES_WINDOW};
use crate::compare::ComparePlan;
use crate::compare::arm::{Arm, Figure};
use crate::run::bench::{Bench, BenchError, RoundTripLimit};
use crate::run::echo::REQUEST_BYTES;
use crate::run::exchange::{Buffers, Exchange, ExchangeWork, StoreAccess, StoreWork, Timing};
use crate::run::msgrate::{MessageRate, Mode};
use crate::run::program::Program;
use crate::run::recovery::{FilledLog, RECORD_BYTES, RecoverySide};

/// For each second of an arm this many messages are sent: their number is given, and not the time.
const MESSAGES_PER_SECOND: f64 = 10e6;

/// The longest that they may take.
const MESSAGES_LASTING_MAX: Duration = Duration::from_secs(60);

/// Objects of the store that is read or written. They stay in the caches: what is judged is the way to them.
const OBJECTS: u64 = 1000;

impl BudgetRow {
    /// The two sides, farcall first; only that one where there is nothing to compare it with.
    pub(in crate::compare) fn arms(
        &self,
        comparison: &ComparePlan,
        bench: &Bench,
    ) -> Result<Vec<Arm>, BenchError> {
        if let Kind::Recovery(bytes) = self.kind {
            let log = Arc::new(FilledLog::of(bytes as u64)?);
            let arm = |side| Arm::Recovery { log: Arc::clone(&log), side };
            return Ok([RecoverySide::Store, RecoverySide::Bare].map(arm).into());
        }
        let farcall = || self.arm_of(&Program::THIS, comparison);
        let other = match &comparison.program {
            Some(program) => Some(self.arm_of(program, comparison)),
            None => self.limit(comparison, bench)?,
        };
        Ok(core::iter::once(farcall()).chain(other).collect())
    }

    /// farcall, between processes of that program.
    fn arm_of(&self, program: &Program, comparison: &ComparePlan) -> Arm {
        let exchange = |request_bytes, response_bytes, buffers| {
            let exchange = self.exchange(comparison, request_bytes, response_bytes, buffers);
            Arm::Exchange { program: program.clone(), exchange, figure: self.figure() }
        };
        match self.kind {
            Kind::Echo | Kind::EchoBeside(_) => exchange(REQUEST_BYTES, SHORT_BYTES, Buffers::Copied),
            Kind::CallRate => exchange(RATE_BYTES, RATE_BYTES, Buffers::Read),
            Kind::MessageRate(mode) => {
                Arm::Messages { program: program.clone(), rate: self.message_rate(comparison, mode) }
            }
            Kind::StoreRead => {
                let exchange = self.access(comparison, StoreAccess::Read, Level::Memory);
                Arm::Exchange { program: program.clone(), exchange, figure: self.figure() }
            }
            Kind::FlushedWrite | Kind::FlushedWriteRate => {
                let exchange = self.access(comparison, StoreAccess::Write, Level::Flushed);
                Arm::Exchange { program: program.clone(), exchange, figure: self.figure() }
            }
            Kind::ReplicatedWrite => {
                let level = Level::Replicated { replicas: REPLICAS, flushed: false };
                let exchange = self.access(comparison, StoreAccess::Write, level);
                Arm::Together { exchange, figure: self.figure() }
            }
            Kind::Recovery(_) => unreachable!("both of its sides are made together"),
            Kind::Loaned(bytes) => exchange(REQUEST_BYTES, bytes, Buffers::Loaned),
            Kind::PingPong(bytes) => exchange(bytes, bytes, Buffers::Copied),
            Kind::Bulk(bytes) => exchange(bytes, 0, Buffers::Read),
        }
    }

    /// What this machine can do at best, or the simplest that farcall can; `None` where an absolute figure is
    /// asked for.
    fn limit(&self, comparison: &ComparePlan, bench: &Bench) -> Result<Option<Arm>, BenchError> {
        let effort = Effort::lasting(comparison.arm_lasting);
        let settings = &comparison.settings;
        let round_trip = |request_bytes, response_bytes| -> Result<Arm, BenchError> {
            let limit =
                RoundTripLimit::beside(self.transport, settings, bench, request_bytes, response_bytes)?;
            Ok(Arm::RoundTrip { limit, effort })
        };
        let echo = || Arm::Exchange {
            program: Program::THIS,
            exchange: self.exchange(comparison, REQUEST_BYTES, SHORT_BYTES, Buffers::Copied),
            figure: Figure::MedianNanos,
        };
        Ok(Some(match self.kind {
            Kind::Echo => round_trip(REQUEST_BYTES, SHORT_BYTES)?,
            Kind::EchoBeside(calls) => {
                let limit = RoundTripLimit::of_calls(settings, calls, REQUEST_BYTES, SHORT_BYTES);
                Arm::RoundTrip { limit, effort }
            }
            Kind::CallRate => return Ok(None),
            Kind::MessageRate(_) => {
                let variant = best_ring_variant(bench.cores()?, RATE_BYTES)?;
                Arm::Ring { variant, payload_bytes: RATE_BYTES, effort }
            }
            Kind::StoreRead | Kind::Loaned(_) => echo(),
            Kind::ReplicatedWrite => {
                let receivers = usize::from(REPLICAS);
                Arm::FanOut { responders: bench.placement().of_backups(receivers), receivers, effort }
            }
            Kind::FlushedWrite => self.appends(1, effort),
            Kind::FlushedWriteRate => self.appends(WRITES_WINDOW, effort),
            Kind::Recovery(_) => unreachable!("both of its sides are made together"),
            Kind::PingPong(bytes) => round_trip(bytes, bytes)?,
            Kind::Bulk(message_bytes) if self.transport == TransportKind::TCP => {
                Arm::Connection { message_bytes, effort }
            }
            Kind::Bulk(bytes) => {
                Arm::Stream { plan: best_bandwidth_plan(bench.cores()?, bytes, Copies::One)?, effort }
            }
        }))
    }

    /// The bare loop beside writes that are flushed together.
    fn appends(&self, records: usize, effort: Effort) -> Arm {
        Arm::Appends { records, record_bytes: RECORD_BYTES, effort, figure: self.figure() }
    }

    /// Access to objects of a store.
    fn access(&self, comparison: &ComparePlan, access: StoreAccess, level: Level) -> Exchange {
        let work = StoreWork::new(access, OBJECTS, comparison.seed, level);
        let echo = self.exchange(comparison, REQUEST_BYTES, SHORT_BYTES, Buffers::Copied);
        Exchange { workload: ExchangeWork::Store(work), request_bytes: 0, ..echo }
    }

    fn figure(&self) -> Figure {
        match self.kind {
            Kind::CallRate | Kind::FlushedWriteRate => Figure::CallsPerSecond,
            Kind::Bulk(_) => Figure::SentBytesPerSecond,
            _ => Figure::MedianNanos,
        }
    }

    fn exchange(
        &self,
        comparison: &ComparePlan,
        request_bytes: usize,
        response_bytes: usize,
        buffers: Buffers,
    ) -> Exchange {
        Exchange {
            transport: self.transport.name().to_owned(),
            settings: comparison.assignments.clone(),
            workload: ExchangeWork::Echo,
            request_bytes,
            response_bytes,
            buffers,
            timing: if self.figure() == Figure::MedianNanos { Timing::EachCall } else { Timing::Window },
            in_flight: self.in_flight(),
            clients: 1,
            servers: 1,
            warmup_calls: 0,
            calls: u64::MAX,
            lasting: comparison.arm_lasting,
            seed: comparison.seed,
        }
    }

    fn message_rate(&self, comparison: &ComparePlan, mode: Mode) -> MessageRate {
        MessageRate {
            transport: self.transport.name().to_owned(),
            settings: comparison.assignments.clone(),
            mode,
            message_bytes: RATE_BYTES,
            in_flight: MESSAGES_WINDOW,
            messages: (comparison.arm_lasting.as_secs_f64() * MESSAGES_PER_SECOND).ceil() as u64,
            threads: 1,
            raw: None,
            traced: false,
            handler: Duration::ZERO,
            lasting: MESSAGES_LASTING_MAX.max(comparison.arm_lasting * 10),
            seed: comparison.seed,
        }
    }
}
