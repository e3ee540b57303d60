//! Cells in which farcall, the bare loops and the peers of one path run in turn.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use farcall::parameters::Settings;
use farcall::{Clock, TransportKind};
use farcall_kv::durable::Level;
use farcall_limit::{Effort, TCP_MESSAGE_BYTES_MAX, ring_rate, stream, tcp_ping_pong};

use super::arm::Arm;
use super::outcome::Found;
use super::{Ask, Path, Peer};
use crate::run::bench::{Bench, BenchError, RoundTripLimit};
use crate::run::blocks::{BlockPlan, Blocks, Distance};
use crate::run::exchange::{Buffers, Exchange, ExchangeWork, StoreAccess, StoreWork, Timing};
use crate::run::msgrate::{self, MessageRate, MessageRateResult, Mode};
use crate::units::Size;

/// How many blocks are tried for each one that is to be kept, while the cores move.
const TRIES_PER_BLOCK: usize = 3;

/// The longest that a stream of messages may take.
const STREAM_WITHIN: Duration = Duration::from_secs(20);

/// What the comparison is made of.
#[derive(Clone, Debug)]
pub struct PeerPlan {
    /// farcall's parameters, each as `name=value`.
    pub assignments: Vec<String>,
    /// The same, checked.
    pub settings: Settings,
    /// Which peers to run: those that are here.
    pub peers: Vec<Peer>,
    /// Lengths of messages and objects.
    pub sizes: Vec<Size>,
    /// Messages in flight in streams, and requests where stores are compared by their rates; a single request
    /// is compared in any case.
    pub in_flight: Vec<usize>,
    /// Blocks to keep of each cell.
    pub blocks: usize,
    /// How long each arm runs in a block, beside what it takes to start.
    pub arm_lasting: Duration,
    /// Decides orders and resampling.
    pub seed: u64,
}

/// A cell under measurement: call [`CellRun::block`] until it is complete.
pub struct CellRun {
    pub(super) path: Path,
    pub(super) size: Size,
    pub(super) in_flight: usize,
    pub(super) arms: Vec<Arm>,
    orders: std::vec::IntoIter<Vec<usize>>,
    pub(super) blocks: Blocks<Found>,
    wanted: usize,
    lasting: Duration,
    assignments: Vec<String>,
    pub(super) seed: u64,
}

impl PeerPlan {
    /// The cells of every path on which there are peers.
    pub fn cells(&self, bench: &Bench) -> Result<Vec<CellRun>, BenchError> {
        let places = self.places().into_iter();
        places.map(|(path, size, in_flight)| self.cell(path, size, in_flight, bench)).collect()
    }

    /// For each of these cells its name, and about how many programs and loops run in a block of it.
    pub fn outline(&self) -> Vec<(String, usize)> {
        let outlined = |(path, size, in_flight): (Path, Size, usize)| {
            let peers = self.peers.iter().filter(|peer| peer.path == path).count();
            let name = format!("{} {size}, {in_flight} in flight", path.words());
            // One bare loop.
            (name, peers + path.transports().len() + 1)
        };
        self.places().into_iter().map(outlined).collect()
    }

    /// Path, length and number in flight of each cell.
    fn places(&self) -> Vec<(Path, Size, usize)> {
        let mut paths: Vec<Path> = self.peers.iter().map(|peer| peer.path).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut places = Vec::new();
        for path in paths {
            let windows = self.windows(path);
            let of_size = |&size: &Size| windows.iter().map(move |&in_flight| (path, size, in_flight));
            places.extend(self.sizes.iter().flat_map(of_size));
        }
        places
    }

    /// How much is in flight at a time on a path.
    fn windows(&self, path: Path) -> Vec<usize> {
        let mut windows = match path {
            _ if path.is_one_way() => self.in_flight.clone(),
            _ if path.is_store() => [1].into_iter().chain(self.in_flight.iter().copied()).collect(),
            _ => vec![1],
        };
        windows.sort_unstable();
        windows.dedup();
        windows
    }

    fn cell(&self, path: Path, size: Size, in_flight: usize, bench: &Bench) -> Result<CellRun, BenchError> {
        let of_path = || self.peers.iter().filter(|peer| peer.path == path);
        let native = path.transports().iter().map(|&transport| (transport, &[][..]));
        let over_others = of_path().filter_map(Peer::farcall_over_the_same);
        let ours = native.chain(over_others).map(|(transport, settings)| Arm::Farcall(transport, settings));
        let mut arms: Vec<Arm> = ours.collect();
        let limit = |transport| RoundTripLimit::beside(transport, &self.settings, bench, size.0, size.0);
        match path {
            Path::Memory => arms.push(Arm::Limit(limit(TransportKind::RING_SHM)?)),
            // A request of a bare datagram loop is a single datagram.
            Path::Loopback => {
                if let Ok(limit) = limit(TransportKind::BASIC_UDP) {
                    arms.push(Arm::Limit(limit));
                }
                if size.0 <= TCP_MESSAGE_BYTES_MAX {
                    arms.push(Arm::Tcp);
                }
            }
            Path::Stream | Path::Publication => arms.extend(Arm::bare_stream(bench, size.0)?),
            Path::LocalStore | Path::RemoteStore => {}
        }
        arms.extend(of_path().map(|&peer| Arm::Peer(peer)));
        let seed = self.seed ^ size.0 as u64;
        let plan = BlockPlan { arms: arms.len(), blocks: self.blocks * TRIES_PER_BLOCK, seed };
        Ok(CellRun {
            path,
            size,
            in_flight,
            arms,
            orders: plan.orders().into_iter(),
            blocks: Blocks::new(),
            wanted: self.blocks,
            lasting: self.arm_lasting,
            assignments: self.assignments.clone(),
            seed,
        })
    }
}

impl CellRun {
    /// Its name in progress bars.
    pub fn name(&self) -> String {
        format!("{}, {}", self.path.words(), self.size)
    }

    /// Whether there are enough blocks, or so many were discarded that no more are tried.
    pub fn is_complete(&self) -> bool {
        self.blocks.kept.len() >= self.wanted || self.orders.len() == 0
    }

    /// Runs one more block, in which every arm runs once, unless it is interrupted; then there is no such
    /// block. What a peer cannot do is kept as its figure's reason.
    pub fn block(&mut self, bench: &Bench, interrupted: &AtomicBool) -> Result<(), BenchError> {
        let Some(order) = self.orders.next() else { return Ok(()) };
        let mut blocks = core::mem::take(&mut self.blocks);
        let measure = |arm: usize| {
            let found = self.measure(&self.arms[arm], bench);
            // It may be what ended a program, too.
            if interrupted.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(found) }
        };
        let outcome = blocks.run(&order, || bench.distance_nanos(), measure);
        self.blocks = blocks;
        outcome
    }

    /// What an arm finds. One that cannot be measured is no reason to leave out everything else.
    fn measure(&self, arm: &Arm, bench: &Bench) -> Found {
        self.figure(arm, bench).unwrap_or_else(|error| Found::Nothing(format!("{}: {error}", arm.name())))
    }

    fn figure(&self, arm: &Arm, bench: &Bench) -> Result<Found, BenchError> {
        let effort = Effort::lasting(self.lasting);
        let other = |value: f64| Found::Other { value, step: 0.0 };
        Ok(match arm {
            Arm::Farcall(transport, settings) if self.path.is_one_way() => {
                self.stream(*transport, settings, bench)?
            }
            Arm::Farcall(transport, settings) => self.round_trips(*transport, settings, bench)?,
            Arm::Limit(limit) => other(limit.measure(bench, effort)?.median_nanos),
            Arm::Stream(plan) => {
                other(stream(bench.cores()?, *plan, effort)?.bytes_per_second / self.size.0 as f64)
            }
            Arm::ShortStream(variant) => {
                other(ring_rate(bench.cores()?, self.size.0, *variant, effort)?.messages_per_second)
            }
            Arm::Tcp => other(tcp_ping_pong(bench.cores()?, self.size.0, self.size.0, effort)?.median_nanos),
            Arm::Peer(peer) if self.waits_on_sleeper(peer) => Found::Nothing(SLEEPS.to_owned()),
            Arm::Peer(peer) => match (peer.measure)(self.ask(bench)?) {
                Ok(figure) => Found::Other { value: figure.value, step: figure.step },
                Err(error) => Found::Nothing(error.to_string()),
            },
        })
    }

    /// Calls, each timed.
    fn round_trips(
        &self,
        transport: TransportKind,
        settings: &[&str],
        bench: &Bench,
    ) -> Result<Found, BenchError> {
        let result = bench.exchange(&self.exchange(transport, settings, bench)?)?;
        let found = result.latencies.summary().and_then(|summary| {
            let (p50, mean) = (result.latencies.median_nanos(&Clock::new())?, summary.mean_nanos);
            let trimmed = summary.trimmed_mean_nanos;
            Some(Found::Farcall { p50, mean, trimmed, per_second: result.calls_per_second })
        });
        found.ok_or(BenchError::TooFewCalls { calls: result.calls, bytes: self.size.0 })
    }

    fn ask(&self, bench: &Bench) -> Result<Ask, BenchError> {
        let cores = bench.cores()?;
        Ok(Ask { cores, bytes: self.size.0, in_flight: self.in_flight, lasting: self.lasting })
    }

    /// An arm's own settings, and behind them those of all.
    fn settings_with(&self, own: &[&str]) -> Vec<String> {
        own.iter().map(|&text| text.to_owned()).chain(self.assignments.clone()).collect()
    }

    /// Tagged messages one way, copied in and read. Where they are matched, each receive is posted again at
    /// once: the peers keep their window full, too.
    fn stream(
        &self,
        transport: TransportKind,
        settings: &[&str],
        bench: &Bench,
    ) -> Result<Found, BenchError> {
        let rate = MessageRate {
            transport: transport.name().to_owned(),
            settings: self.settings_with(settings),
            mode: if self.path == Path::Publication { Mode::Handler } else { Mode::Futures },
            message_bytes: self.size.0,
            in_flight: self.in_flight,
            messages: self.ask(bench)?.stream_messages(),
            threads: 1,
            raw: None,
            traced: false,
            handler: Duration::ZERO,
            lasting: STREAM_WITHIN,
            seed: 0,
        };
        Ok(match msgrate::run(&rate) {
            Ok(MessageRateResult { elapsed, messages, .. }) => {
                Found::Other { value: messages as f64 / elapsed.as_secs_f64(), step: 0.0 }
            }
            Err(error) => Found::Nothing(format!("{transport}: {error}")),
        })
    }

    /// Whether the peer's figure would be the time that the system takes to wake it.
    fn waits_on_sleeper(&self, peer: &Peer) -> bool {
        peer.sleeps && self.in_flight == 1
    }

    fn exchange(
        &self,
        transport: TransportKind,
        settings: &[&str],
        bench: &Bench,
    ) -> Result<Exchange, BenchError> {
        let objects = self.ask(bench)?.objects() as u64;
        let work = StoreWork::new(StoreAccess::Read, objects, self.seed, Level::Memory);
        let store = self.path.is_store();
        Ok(Exchange {
            transport: transport.name().to_owned(),
            settings: self.settings_with(settings),
            workload: if store { ExchangeWork::Store(work) } else { ExchangeWork::Echo },
            request_bytes: if store { 0 } else { self.size.0 },
            response_bytes: self.size.0,
            buffers: Buffers::Copied,
            timing: Timing::EachCall,
            in_flight: self.in_flight,
            clients: 1,
            servers: 1,
            warmup_calls: 0,
            calls: u64::MAX,
            lasting: self.lasting,
            seed: self.seed,
        })
    }

    /// How far the cores were apart, around every block.
    pub fn distances(&self) -> &[Distance] {
        &self.blocks.distances
    }
}

/// Why a single request to a peer that sleeps is not compared.
const SLEEPS: &str =
    "it sleeps until a message comes, and farcall polls: that would measure how fast the system wakes it";
