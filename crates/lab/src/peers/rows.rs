//! Cells in which farcall, the bare loops and the peers of one path run in turn.

use core::time::Duration;

use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall_limit::{
    BandwidthPlan, Copies, Effort, TCP_MESSAGE_BYTES_MAX, best_bandwidth_plan, stream, tcp_ping_pong,
};

use super::{Ask, Path, Peer, PeerStatistic};
use crate::bench::{Bench, BenchError, RoundTripLimit};
use crate::blocks::{Blocks, Distance, Plan};
use crate::bootstrap::{Ratio, median, ratio_of_medians};
use crate::exchange::{Buffers, Exchange, StoreAccess, StoreWork, Timing, Workload};
use crate::msgrate::{self, MessageRate, MessageRateResult, Mode};
use crate::regime::Regime;
use crate::units::Size;

/// How many blocks are tried for each one that is to be kept, while the cores move.
const TRIES_PER_BLOCK: usize = 3;

/// A figure that is printed in steps of more than this part of it is no figure.
const STEP_MAX: f64 = 0.02;

/// Objects in farcall's store, as many as in those of others.
const OBJECTS: u64 = 10_000;

/// Requests under way where stores are compared by their rates, and messages of streams.
const WINDOW: usize = 16;

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
    /// Blocks to keep of each cell.
    pub blocks: usize,
    /// How long each arm runs in a block, beside what it takes to start.
    pub arm_lasting: Duration,
    /// Decides orders and resampling.
    pub seed: u64,
}

/// What runs in a cell.
enum Arm {
    /// With what it is set to beside everything else, each as `name=value`.
    Farcall(TransportKind, &'static [&'static str]),
    Limit(RoundTripLimit),
    Stream(BandwidthPlan),
    Tcp,
    Peer(Peer),
}

/// What an arm found in a block.
#[derive(Clone, Debug, PartialEq)]
enum Found {
    /// Medians and means of round trips, in nanoseconds, and the rate.
    Farcall { p50: f64, mean: f64, trimmed: f64, per_second: f64 },
    /// One figure and the step in which it was printed.
    Other { value: f64, step: f64 },
    /// Nothing, and why.
    Nothing(String),
}

/// A cell under measurement: call [`CellRun::block`] until it is complete.
pub struct CellRun {
    path: Path,
    size: Size,
    in_flight: usize,
    arms: Vec<Arm>,
    orders: std::vec::IntoIter<Vec<usize>>,
    blocks: Blocks<Found>,
    wanted: usize,
    lasting: Duration,
    assignments: Vec<String>,
    seed: u64,
}

/// What is found for a peer beside a transport.
#[derive(Clone, Debug, PartialEq)]
pub struct CellLine {
    /// Where both run.
    pub path: Path,
    /// Length of messages or objects.
    pub size: Size,
    /// Requests under way.
    pub in_flight: usize,
    /// farcall's transport.
    pub transport: TransportKind,
    /// The peer's name.
    pub peer: String,
    /// What both figures are: times in nanoseconds, or with many under way requests per second.
    pub statistic: Option<PeerStatistic>,
    /// The figures and their ratio, or why there are none.
    pub outcome: Result<Outcome, String>,
    /// Blocks in which the cores moved.
    pub discarded: usize,
}

/// Two figures of the same kind, and how they compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Where the cores were.
    pub regime: Regime,
    /// farcall's figure: the median of its blocks.
    pub farcall: f64,
    /// The peer's.
    pub peer: f64,
    /// farcall's over the peer's.
    pub ratio: Ratio,
}

impl PeerPlan {
    /// The cells of every path on which there are peers.
    pub fn cells(&self, bench: &Bench) -> Result<Vec<CellRun>, BenchError> {
        let mut paths: Vec<Path> = self.peers.iter().map(|peer| peer.path).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut cells = Vec::new();
        for path in paths {
            let windows: &[usize] = match path {
                Path::Stream => &[WINDOW],
                _ if path.is_store() => &[1, WINDOW],
                _ => &[1],
            };
            for (size, &in_flight) in
                self.sizes.iter().flat_map(|size| windows.iter().map(move |w| (*size, w)))
            {
                cells.push(self.cell(path, size, in_flight, bench)?);
            }
        }
        Ok(cells)
    }

    fn cell(&self, path: Path, size: Size, in_flight: usize, bench: &Bench) -> Result<CellRun, BenchError> {
        let of_path = || self.peers.iter().filter(|peer| peer.path == path);
        let native = path.transports().iter().map(|&transport| (transport, &[][..]));
        let over_others = of_path().filter_map(Peer::farcall_over_the_same);
        let ours = native.chain(over_others).map(|(transport, settings)| Arm::Farcall(transport, settings));
        let mut arms: Vec<Arm> = ours.collect();
        let limit = |transport| RoundTripLimit::beside(transport, &self.settings, bench, size.0, size.0);
        match path {
            Path::Memory => arms.push(Arm::Limit(limit(TransportKind::RingShm)?)),
            // A request of a bare datagram loop is a single datagram.
            Path::Loopback => {
                if let Ok(limit) = limit(TransportKind::BasicUdp) {
                    arms.push(Arm::Limit(limit));
                }
                if size.0 <= TCP_MESSAGE_BYTES_MAX {
                    arms.push(Arm::Tcp);
                }
            }
            Path::Stream => arms.push(Arm::Stream(best_bandwidth_plan(bench.cores(), size.0, Copies::Two)?)),
            Path::LocalStore | Path::RemoteStore => {}
        }
        arms.extend(of_path().map(|&peer| Arm::Peer(peer)));
        let seed = self.seed ^ size.0 as u64;
        let plan = Plan { arms: arms.len(), blocks: self.blocks * TRIES_PER_BLOCK, seed };
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

impl Path {
    fn is_store(self) -> bool {
        matches!(self, Self::LocalStore | Self::RemoteStore)
    }

    /// The transports that take it.
    fn transports(self) -> &'static [TransportKind] {
        match self {
            Self::Memory | Self::Stream | Self::LocalStore => &[TransportKind::RingShm],
            Self::Loopback => &[TransportKind::BasicUdp, TransportKind::HomaUdp],
            Self::RemoteStore => &[TransportKind::BasicUdp],
        }
    }

    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Memory => "messages through shared memory",
            Self::Stream => "messages one way through shared memory",
            Self::Loopback => "messages over the loopback interface",
            Self::LocalStore => "reads of a store by a process of its host",
            Self::RemoteStore => "reads of a store over the loopback interface",
        }
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

    /// Runs one more block, in which every arm runs once. What a peer cannot do is kept as its figure's reason.
    pub fn block(&mut self, bench: &Bench) -> Result<(), BenchError> {
        let Some(order) = self.orders.next() else { return Ok(()) };
        let mut blocks = core::mem::take(&mut self.blocks);
        let outcome =
            blocks.run(&order, || bench.distance_nanos(), |arm| self.measure(&self.arms[arm], bench));
        self.blocks = blocks;
        outcome
    }

    fn measure(&self, arm: &Arm, bench: &Bench) -> Result<Found, BenchError> {
        let effort = Effort::lasting(self.lasting);
        let other = |nanos: u64| Found::Other { value: nanos as f64, step: 0.0 };
        Ok(match arm {
            Arm::Farcall(transport, settings) if self.path == Path::Stream => {
                self.stream(*transport, settings, bench)
            }
            Arm::Farcall(transport, settings) => match self.round_trips(*transport, settings, bench) {
                // What a library of others cannot carry here is no reason to leave out everything else.
                Err(error) if TransportKind::LIBRARIES.contains(transport) => {
                    Found::Nothing(error.to_string())
                }
                found => found?,
            },
            Arm::Limit(limit) => other(limit.measure(bench, effort)?.p50_nanos),
            Arm::Stream(plan) => {
                let bytes_per_second = stream(bench.cores(), *plan, effort)?.bytes_per_second;
                Found::Other { value: bytes_per_second / self.size.0 as f64, step: 0.0 }
            }
            Arm::Tcp => other(tcp_ping_pong(bench.cores(), self.size.0, effort)?.p50_nanos),
            Arm::Peer(peer) if self.waits_on_sleeper(peer) => Found::Nothing(SLEEPS.to_owned()),
            Arm::Peer(peer) => match (peer.measure)(self.ask(bench)) {
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
        let result = bench.exchange(&self.exchange(transport, settings))?;
        let found = result.latencies.summary().and_then(|summary| {
            let (p50, mean) = (summary.p50_nanos? as f64, summary.mean_nanos);
            let trimmed = summary.trimmed_mean_nanos;
            Some(Found::Farcall { p50, mean, trimmed, per_second: result.calls_per_second })
        });
        found.ok_or(BenchError::TooFewCalls { calls: result.calls, bytes: self.size.0 })
    }

    fn ask(&self, bench: &Bench) -> Ask {
        Ask { cores: bench.cores(), bytes: self.size.0, in_flight: self.in_flight, lasting: self.lasting }
    }

    /// An arm's own settings, and behind them those of all.
    fn settings_with(&self, own: &[&str]) -> Vec<String> {
        own.iter().map(|&text| text.to_owned()).chain(self.assignments.clone()).collect()
    }

    /// Tagged messages one way, copied in and out, each matched with a receive.
    fn stream(&self, transport: TransportKind, settings: &[&str], bench: &Bench) -> Found {
        let rate = MessageRate {
            transport: transport.name().to_owned(),
            settings: self.settings_with(settings),
            mode: Mode::Callbacks,
            message_bytes: self.size.0,
            in_flight: self.in_flight,
            messages: self.ask(bench).stream_messages(),
            threads: 1,
            raw: None,
            lasting: STREAM_WITHIN,
        };
        match msgrate::run(&rate) {
            Ok(MessageRateResult { elapsed, messages }) => {
                Found::Other { value: messages as f64 / elapsed.as_secs_f64(), step: 0.0 }
            }
            Err(error) => Found::Nothing(error.to_string()),
        }
    }

    /// Whether the peer's figure would be the time that the system takes to wake it.
    fn waits_on_sleeper(&self, peer: &Peer) -> bool {
        peer.sleeps && self.in_flight == 1
    }

    fn exchange(&self, transport: TransportKind, settings: &[&str]) -> Exchange {
        let work = StoreWork { access: StoreAccess::Read, objects: OBJECTS, seed: self.seed };
        let store = self.path.is_store();
        Exchange {
            transport: transport.name().to_owned(),
            settings: self.settings_with(settings),
            workload: if store { Workload::Store(work) } else { Workload::Echo },
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
        }
    }

    /// How far the cores were apart, around every block.
    pub fn distances(&self) -> &[Distance] {
        &self.blocks.distances
    }

    /// What was found: each peer and bare loop beside each transport, in each regime that the cores were in.
    pub fn lines(&self) -> Vec<CellLine> {
        let transports = self.arms.iter().enumerate().filter_map(|(index, arm)| match arm {
            Arm::Farcall(transport, _) => Some((index, *transport)),
            _ => None,
        });
        let others = |(farcall, transport)| {
            let others = (0..self.arms.len()).filter(|&arm| !matches!(self.arms[arm], Arm::Farcall(..)));
            others.flat_map(move |arm| self.lines_of(farcall, transport, arm))
        };
        transports.flat_map(others).collect()
    }

    fn lines_of(&self, farcall: usize, transport: TransportKind, arm: usize) -> Vec<CellLine> {
        let line = |outcome| CellLine {
            path: self.path,
            size: self.size,
            in_flight: self.in_flight,
            transport,
            peer: self.arms[arm].name(),
            statistic: self.arms[arm].statistic(),
            outcome,
            discarded: self.blocks.discarded,
        };
        let regimes = self.blocks.regimes();
        if regimes.is_empty() {
            return vec![line(Err("the cores moved during every block".to_owned()))];
        }
        // A cell without numbers says why once, not for each regime.
        let found = regimes.iter().map(|&regime| self.outcome(farcall, arm, regime));
        match found.collect::<Result<Vec<_>, _>>() {
            Ok(outcomes) => outcomes.into_iter().map(|outcome| line(Ok(outcome))).collect(),
            Err(why) => vec![line(Err(why))],
        }
    }

    fn outcome(&self, farcall: usize, arm: usize, regime: Regime) -> Result<Outcome, String> {
        let both = [farcall, arm].map(|arm| self.blocks.of_arm(regime, arm));
        if let Some(Found::Nothing(why)) =
            both.into_iter().flatten().find(|found| matches!(found, Found::Nothing(_)))
        {
            return Err(why.clone());
        }
        let coarse =
            |found: &&Found| matches!(found, Found::Other { value, step } if *step > STEP_MAX * value);
        if let Some(Found::Other { value, step }) = self.blocks.of_arm(regime, arm).find(coarse) {
            return Err(format!(
                "it prints steps of {step:.0} ns, {:.0} % of its figure",
                step / value * 100.0
            ));
        }
        let statistic = self.arms[arm].statistic();
        let rate = self.in_flight > 1;
        let figure = |found: &Found| match (found, statistic) {
            (Found::Farcall { per_second, .. }, _) if rate => Some(*per_second),
            (Found::Farcall { p50, .. }, None | Some(PeerStatistic::P50)) => Some(*p50),
            (Found::Farcall { trimmed, .. }, Some(PeerStatistic::LeastMean)) => Some(*trimmed),
            (Found::Farcall { mean, .. }, _) => Some(*mean),
            (Found::Other { value, .. }, _) => Some(*value),
            (Found::Nothing(_), _) => None,
        };
        let pairs = self.blocks.pairs(regime, farcall, arm, figure);
        let nothing = || "too few blocks".to_owned();
        let of = |side: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(side).collect::<Vec<_>>());
        Ok(Outcome {
            regime,
            farcall: of(|pair| pair.0).ok_or_else(nothing)?,
            peer: of(|pair| pair.1).ok_or_else(nothing)?,
            ratio: ratio_of_medians(&pairs, self.seed).ok_or_else(nothing)?,
        })
    }
}

/// Why a single request to a peer that sleeps is not compared.
const SLEEPS: &str =
    "it sleeps until a message comes, and farcall polls: that would measure how fast the system wakes it";

impl Arm {
    fn name(&self) -> String {
        match self {
            Self::Farcall(transport, _) => transport.name().to_owned(),
            Self::Limit(limit) => limit.words().to_owned(),
            Self::Stream(_) => "bare copies in and out of shared memory".to_owned(),
            Self::Tcp => "bare system calls on a TCP connection".to_owned(),
            Self::Peer(peer) => peer.name.to_owned(),
        }
    }

    /// `None` for our own loops, whose medians are compared with medians.
    fn statistic(&self) -> Option<PeerStatistic> {
        match self {
            Self::Peer(peer) => Some(peer.statistic),
            _ => None,
        }
    }
}
