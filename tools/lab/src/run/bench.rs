//! Where measurements run: the two cores, how far they are apart, and the bare loops beside each exchange.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall_limit::{
    CorePair, CoresError, DATAGRAM_BYTES_MAX, DistanceProbe, Effort, Latency, LimitError, MessagePlan,
    UdpCalls, UdpPlan, allowed_cores, best_message_plan, best_udp_plan, crowding, ping_pong, tcp_ping_pong,
    udp_ping_pong,
};

use crate::run::Heard;
use crate::run::exchange::{
    Exchange, ExchangeError, ExchangeResult, Instruments, Placement, run, run_by, run_together, run_with,
};
use crate::run::msgrate::MessageRateError;
use crate::run::program::Program;
use crate::run::recovery::RecoveryError;
use crate::run::regime::Standing;
use crate::run::world::World;

/// Why something could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// The bare loops could not run.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The processes could not do their work.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The processes could not exchange messages.
    #[error(transparent)]
    Messages(#[from] MessageRateError),
    /// No log could be made, or recovered.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// There are no two cores.
    #[error(transparent)]
    Cores(#[from] CoresError),
    /// A median needs more calls than fitted into the time.
    #[error(
        "only {calls} calls of {bytes} bytes fitted into a block, too few for a median; let blocks last longer"
    )]
    TooFewCalls {
        /// How many did.
        calls: u64,
        /// Length of the longer one of request and response.
        bytes: usize,
    },
    /// Bare loops run on cores of this machine.
    #[error("bare loops run on this machine, not at the ranks of a launcher; run it without the launcher")]
    NotHere,
    /// Somebody asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// The host moved the cores all the time, and no block was left.
    #[error("the cores moved during every one of {blocks} blocks of {what}; run it again, with more blocks")]
    NeverSteady {
        /// What was measured.
        what: String,
        /// How many blocks were tried.
        blocks: usize,
    },
}

/// Where everything is measured: on two cores of this machine, or at the ranks of a launcher.
pub struct Bench {
    here: Option<(CorePair, DistanceProbe)>,
    placement: Placement,
    heard: Box<Heard<'static>>,
}

impl Bench {
    /// The first two cores that this process may use; more processes take the other cores.
    pub fn new() -> Result<Self, BenchError> {
        let cores = CorePair::first_allowed()?;
        let placement = Placement::new(cores, allowed_cores()?);
        Ok(Self { here: Some((cores, DistanceProbe::new(cores)?)), placement, heard: Box::new(|_| ()) })
    }

    /// The ranks of a launcher. There is nothing bare to compare with.
    pub fn at_ranks(world: Arc<World>) -> Self {
        Self { here: None, placement: Placement::at_ranks(world), heard: Box::new(|_| ()) }
    }

    /// Tells `heard` from now on which part of a measurement is done.
    pub fn tell(&mut self, heard: impl Fn(f64) + Send + Sync + 'static) {
        self.heard = Box::new(heard);
    }

    /// This part of a measurement is done, from 0 to 1.
    pub(crate) fn has_done(&self, part: f64) {
        (self.heard)(part);
    }

    /// The ranks of a launcher, if it is at those.
    pub fn world(&self) -> Option<&Arc<World>> {
        self.placement.world()
    }

    /// The two cores; an error at the ranks of a launcher, which have others.
    pub fn cores(&self) -> Result<CorePair, BenchError> {
        self.here.as_ref().map(|(cores, _)| *cores).ok_or(BenchError::NotHere)
    }

    /// How far they are apart, in nanoseconds there and back; infinitely at the ranks of a launcher.
    pub fn distance_nanos(&self) -> Result<f64, BenchError> {
        self.here.as_ref().map_or(Ok(f64::INFINITY), |(_, probe)| Ok(probe.measure()?.trimmed_mean_nanos))
    }

    /// How far they are apart, and whether somebody else uses them.
    pub fn standing(&self) -> Result<Standing, BenchError> {
        Ok(Standing { distance_nanos: self.distance_nanos()?, is_crowded: self.are_crowded()? })
    }

    /// Waits until nobody else uses the two cores, for so long at most.
    pub fn wait_until_alone(&self, at_most: Duration) -> Result<(), BenchError> {
        let begun = Instant::now();
        while begun.elapsed() < at_most && self.are_crowded()? == Some(true) {}
        Ok(())
    }

    /// `None` on processors of which it cannot be told.
    fn are_crowded(&self) -> Result<Option<bool>, BenchError> {
        let Some((cores, _)) = &self.here else { return Ok(None) };
        Ok(crowding(*cores)?.map(|crowding| crowding.is_crowded()))
    }

    /// Where processes run.
    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Measures an exchange between processes.
    pub fn exchange(&self, exchange: &Exchange) -> Result<ExchangeResult, BenchError> {
        Ok(run(exchange, &self.placement)?)
    }

    /// As [`Bench::exchange`], between processes of that program.
    pub(crate) fn exchange_by(
        &self,
        program: &Program,
        exchange: &Exchange,
    ) -> Result<ExchangeResult, BenchError> {
        Ok(run_by(program, exchange, Instruments::default(), &self.placement)?)
    }

    /// Measures a store with backups whose client is in the thread of its server; see [`run_together`].
    pub(crate) fn exchange_together(&self, exchange: &Exchange) -> Result<ExchangeResult, BenchError> {
        self.cores()?;
        Ok(run_together(exchange, &self.placement)?)
    }

    /// As [`Bench::exchange`], with something beside the exchange.
    pub fn exchange_with(
        &self,
        exchange: &Exchange,
        instruments: Instruments,
    ) -> Result<ExchangeResult, BenchError> {
        Ok(run_with(exchange, instruments, &self.placement)?)
    }
}

/// The bare loop that moves the same bytes as an exchange with one call in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundTripLimit {
    /// Through shared memory.
    Memory(MessagePlan),
    /// Through the loopback interface.
    Loopback(UdpPlan),
    /// Over a connection of the loopback interface.
    Connection {
        /// Length of the request.
        request_bytes: usize,
        /// Length of the response.
        response_bytes: usize,
    },
}

impl RoundTripLimit {
    /// The fastest bare loop beside calls over `transport` with requests and responses of these lengths.
    pub fn beside(
        transport: TransportKind,
        settings: &Settings,
        bench: &Bench,
        request_bytes: usize,
        response_bytes: usize,
    ) -> Result<Self, BenchError> {
        if transport == TransportKind::TCP {
            return Ok(Self::Connection { request_bytes, response_bytes });
        }
        if transport.name().ends_with("+udp") {
            let segment_bytes = settings.udp.mtu_bytes.unwrap_or(DATAGRAM_BYTES_MAX);
            let plan = best_udp_plan(bench.cores()?, request_bytes, response_bytes, segment_bytes)?;
            return Ok(Self::Loopback(plan));
        }
        Ok(Self::Memory(best_message_plan(bench.cores()?, request_bytes, response_bytes)?))
    }

    /// A bare loop of the given system calls.
    pub fn of_calls(
        settings: &Settings,
        calls: UdpCalls,
        request_bytes: usize,
        response_bytes: usize,
    ) -> Self {
        let segment_bytes = settings.udp.mtu_bytes.unwrap_or(DATAGRAM_BYTES_MAX);
        Self::Loopback(UdpPlan { request_bytes, response_bytes, segment_bytes, calls })
    }

    /// Runs it.
    pub fn measure(&self, bench: &Bench, effort: Effort) -> Result<Latency, BenchError> {
        Ok(match *self {
            Self::Memory(plan) => ping_pong(bench.cores()?, plan, effort)?,
            Self::Loopback(plan) => udp_ping_pong(bench.cores()?, plan, effort)?,
            Self::Connection { request_bytes, response_bytes } => {
                tcp_ping_pong(bench.cores()?, request_bytes, response_bytes, effort)?
            }
        })
    }

    /// What it is, in a few words.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Memory(_) => "bare copies through shared memory",
            Self::Loopback(_) => "bare system calls on the loopback interface",
            Self::Connection { .. } => "bare system calls on a connection of the loopback interface",
        }
    }
}
