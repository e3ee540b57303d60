//! The rows of the performance budget that this machine can judge by itself.

mod arms;
mod words;

use farcall::TransportKind;
use farcall_limit::UdpCalls;

use super::verdict::BudgetVerdict;
use crate::record::Unit;
use crate::run::msgrate::Mode;
use crate::statistics::bootstrap::{Ratio, ratio_of_medians};

/// Length of the response of the short echo, in bytes.
const SHORT_BYTES: usize = 100;

/// Calls in flight where the rate of calls is measured.
const RATE_WINDOW: usize = 64;

/// Length of request and response there, in bytes.
const RATE_BYTES: usize = 8;

/// Messages in flight where the rate of messages is measured.
const MESSAGES_WINDOW: usize = 1000;

/// Bytes in flight in a bulk stream, and the bounds of how many messages that may be: as many as the bare
/// loop may have.
const BULK_WINDOW_BYTES: usize = 4 << 20;
const BULK_WINDOW_MESSAGES: core::ops::RangeInclusive<usize> = 2..=64;

/// Backups of the store whose writes wait for some.
const REPLICAS: u8 = 2;

/// Writes in flight where the rate of flushed ones is measured.
const WRITES_WINDOW: usize = 64;

/// The log of which the time of recovery has an absolute bound, and that bound in nanoseconds.
const BOUNDED_LOG_BYTES: usize = 1 << 30;
const RECOVERY_NANOS_MAX: f64 = 1.5e9;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The median round trip of 30 bytes and a short response, against the bare loop.
    Echo,
    /// The same, against a bare loop of the calls for bursts of packets between sockets.
    EchoBeside(UdpCalls),
    /// Short calls a second, many in flight, against an absolute figure.
    CallRate,
    /// Short tagged messages a second from one process to the other, against a bare ring.
    MessageRate(Mode),
    /// The median read of a short object of a store, against the echo of the same bytes.
    StoreRead,
    /// The median write of a short object that backups have in memory when it is answered, with the client in
    /// the thread of its server, against a line out to as many and their acknowledgements.
    ReplicatedWrite,
    /// The median write of a short object that is flushed when it is answered, against a block.
    FlushedWrite,
    /// Such writes a second, many in flight, against as many records in one write and flush.
    FlushedWriteRate,
    /// From the start of a process until its shard, with a log of this many bytes, has answered a read,
    /// against reading, summing up and indexing as much.
    Recovery(usize),
    /// The round trip of a loaned response that nobody touches, against that of the short echo.
    Loaned(usize),
    /// Request and response of this length, copied in and out, against the bare loop.
    PingPong(usize),
    /// Long requests sent from the caller's memory and read in place, against the bare stream with one copy.
    Bulk(usize),
}

/// What must hold for farcall's figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// Its ratio to the other is at most this.
    RatioAtMost(f64),
    /// Its ratio to the other is at least this.
    RatioAtLeast(f64),
    /// It is at least this, in the row's unit.
    FigureAtLeast(f64),
    /// It is over the other by at most this, in the row's unit.
    ExcessAtMost(f64),
    /// Its ratio to the other, and that of the other to it, are at most one and this.
    RatioWithin(f64),
    /// Its ratio to the other is at most the first, and it itself at most the second, in the row's unit.
    RatioAndFigureAtMost(f64, f64),
}

/// A line of the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetRow {
    transport: TransportKind,
    kind: Kind,
    budget: Option<Budget>,
    beside: Beside,
}

/// What farcall's figure stands beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// A limit.
    Limit,
    /// The same figure of another build.
    Program,
}

/// The rows for the transports that are here. A log that is recovered has about `log_bytes` bytes.
pub fn rows(log_bytes: usize) -> Vec<BudgetRow> {
    let row = |transport, kind, budget| BudgetRow { transport, kind, budget, beside: Beside::Limit };
    let of_memory = |transport| {
        vec![
            row(transport, Kind::Echo, Some(Budget::RatioAtMost(1.25))),
            row(transport, Kind::CallRate, Some(Budget::FigureAtLeast(30e6))),
            row(transport, Kind::MessageRate(Mode::Futures), Some(Budget::FigureAtLeast(60e6))),
            row(transport, Kind::MessageRate(Mode::Handler), Some(Budget::FigureAtLeast(100e6))),
            row(transport, Kind::StoreRead, Some(Budget::ExcessAtMost(60.0))),
            row(transport, Kind::ReplicatedWrite, Some(Budget::RatioAtMost(1.3))),
            row(transport, Kind::FlushedWrite, Some(Budget::RatioAtMost(1.15))),
            row(transport, Kind::FlushedWriteRate, Some(Budget::RatioAtLeast(0.8))),
            row(transport, Kind::Recovery(log_bytes), Some(recovery_budget(log_bytes))),
            row(transport, Kind::Loaned(1 << 20), Some(Budget::RatioAtMost(2.0))),
            row(transport, Kind::PingPong(10 << 10), None),
            row(transport, Kind::PingPong(100 << 10), None),
            row(transport, Kind::PingPong(1 << 20), None),
            row(transport, Kind::Bulk(64 << 10), Some(Budget::RatioAtLeast(0.9))),
            row(transport, Kind::Bulk(256 << 10), Some(Budget::RatioAtLeast(0.9))),
            row(transport, Kind::Bulk(1 << 20), Some(Budget::RatioAtLeast(0.9))),
        ]
    };
    let rows_of = |transport: &TransportKind| match transport.name() {
        "ring+shm" => of_memory(*transport),
        "basic+udp" | "homa+udp" => vec![
            // The fastest calls of a bare loop are on a connected socket that is all there is to look at.
            row(*transport, Kind::Echo, None),
            row(*transport, Kind::EchoBeside(UdpCalls::Many), Some(Budget::RatioAtMost(1.10))),
        ],
        "tcp" => vec![
            row(*transport, Kind::Echo, Some(Budget::RatioAtMost(1.05))),
            row(*transport, Kind::PingPong(10 << 10), None),
            row(*transport, Kind::PingPong(100 << 10), None),
            row(*transport, Kind::PingPong(1 << 20), Some(Budget::RatioAtMost(1.15))),
            row(*transport, Kind::Bulk(64 << 10), Some(Budget::RatioAtLeast(0.9))),
            row(*transport, Kind::Bulk(1 << 20), Some(Budget::RatioAtLeast(0.9))),
        ],
        _ => Vec::new(),
    };
    TransportKind::ALL.iter().flat_map(rows_of).collect()
}

/// At least 0.8 times as many objects a second as the bare loop; an absolute time for one length only.
fn recovery_budget(log_bytes: usize) -> Budget {
    const RATIO_MAX: f64 = 1.0 / 0.8;
    if log_bytes == BOUNDED_LOG_BYTES {
        Budget::RatioAndFigureAtMost(RATIO_MAX, RECOVERY_NANOS_MAX)
    } else {
        Budget::RatioAtMost(RATIO_MAX)
    }
}

/// The same rows for a comparison with another build, which may differ by the fraction `within`, if it is
/// asked whether it does; those that differ only in the limit are one. What an older build was never told to
/// do, to start backups or to recover a log, is not among them.
pub fn rows_of_builds(within: Option<f64>) -> Vec<BudgetRow> {
    let budget = within.map(Budget::RatioWithin);
    let is_compared = |row: &BudgetRow| {
        !matches!(row.kind, Kind::EchoBeside(_) | Kind::ReplicatedWrite | Kind::Recovery(_))
    };
    let rows = rows(BOUNDED_LOG_BYTES).into_iter().filter(is_compared);
    rows.map(|row| BudgetRow { budget, beside: Beside::Program, ..row }).collect()
}

impl BudgetRow {
    /// The name of the transport that is judged; `disk` where none is used.
    pub fn over(&self) -> &'static str {
        if self.log_bytes().is_some() { "disk" } else { self.transport.name() }
    }

    /// How long the log is that is recovered, if one is.
    pub fn log_bytes(&self) -> Option<usize> {
        if let Kind::Recovery(bytes) = self.kind { Some(bytes) } else { None }
    }

    /// Whether it writes to the disk of the folder for temporary files.
    pub fn is_of_disk(&self) -> bool {
        matches!(self.kind, Kind::FlushedWrite | Kind::FlushedWriteRate | Kind::Recovery(_))
    }

    /// What kind of comparison it is, in records.
    pub fn test(&self) -> &'static str {
        match self.beside {
            Beside::Limit => "limit",
            Beside::Program => "build",
        }
    }

    /// Whether it needs the folder for temporary files: for a log, or for the registry of backups.
    pub fn needs_folder(&self) -> bool {
        self.is_of_disk() || matches!(self.kind, Kind::ReplicatedWrite)
    }

    /// Whether its bare loop is chosen by where the cores are: another one may be the fastest near than far.
    pub(super) fn depends_on_distance(&self) -> bool {
        !self.is_of_disk()
    }

    /// The unit of its figures.
    pub fn unit(&self) -> Unit {
        match self.kind {
            Kind::CallRate | Kind::MessageRate(_) | Kind::FlushedWriteRate => Unit::PerSecond,
            Kind::Bulk(_) => Unit::BytesPerSecond,
            _ => Unit::Nanoseconds,
        }
    }

    /// What must hold, if anything must.
    pub fn budget(&self) -> Option<Budget> {
        self.budget
    }

    /// Calls in flight at a time.
    pub fn in_flight(&self) -> usize {
        match self.kind {
            Kind::CallRate => RATE_WINDOW,
            Kind::MessageRate(_) => MESSAGES_WINDOW,
            Kind::FlushedWriteRate => WRITES_WINDOW,
            Kind::Bulk(bytes) => {
                (BULK_WINDOW_BYTES / bytes).clamp(*BULK_WINDOW_MESSAGES.start(), *BULK_WINDOW_MESSAGES.end())
            }
            _ => 1,
        }
    }

    /// Judges the figures of the blocks of one regime.
    pub(super) fn verdict(
        &self,
        farcall: &[f64],
        pairs: &[(f64, f64)],
        ratio: Option<Ratio>,
        seed: u64,
    ) -> BudgetVerdict {
        let alone = |figures: &mut dyn Iterator<Item = f64>| {
            let figures: Vec<(f64, f64)> = figures.map(|figure| (figure, 1.0)).collect();
            ratio_of_medians(&figures, seed)
        };
        match self.budget {
            None => BudgetVerdict::NoBudget,
            Some(budget @ Budget::FigureAtLeast(_)) => {
                BudgetVerdict::of(budget, alone(&mut farcall.iter().copied()))
            }
            Some(budget @ Budget::ExcessAtMost(_)) => {
                BudgetVerdict::of(budget, alone(&mut pairs.iter().map(|(farcall, other)| farcall - other)))
            }
            Some(Budget::RatioAndFigureAtMost(ratio_max, figure_max)) => {
                let figure = alone(&mut farcall.iter().copied());
                let of_figure = BudgetVerdict::of(Budget::ExcessAtMost(figure_max), figure);
                BudgetVerdict::of(Budget::RatioAtMost(ratio_max), ratio).and(of_figure)
            }
            Some(budget) => BudgetVerdict::of(budget, ratio),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_for_each_transport() {
        let mut names: Vec<_> = rows(1 << 30).iter().map(|row| (row.over(), row.name())).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        for (over, name) in [
            ("ring+shm", "bulk64K"),
            ("ring+shm", "write100.replicated2"),
            ("ring+shm", "write100.flushed"),
            ("ring+shm", "writeRate100.flushed64"),
            ("disk", "recovery1G"),
        ] {
            assert!(names.contains(&(over, name.to_owned())), "{name} of {names:?}");
        }
    }

    #[test]
    fn builds_are_compared_by_figures_of_their_own() {
        let rows = rows_of_builds(Some(0.02));
        let echoes: Vec<_> = rows.iter().filter(|row| row.name().starts_with("echo100")).collect();
        assert!(echoes.iter().all(|row| row.description().ends_with("100 B back / the other build")));
        let mut transports: Vec<_> = echoes.iter().map(|row| row.over()).collect();
        transports.dedup();
        assert_eq!(transports.len(), echoes.len(), "one echo for each transport");
        assert!(rows.iter().all(|row| row.budget() == Some(Budget::RatioWithin(0.02))));
        assert!(rows_of_builds(None).iter().all(|row| row.budget().is_none()));
        let is_new = |row: &BudgetRow| row.log_bytes().is_some() || row.name().contains("replicated");
        assert!(!rows.iter().any(is_new), "an older build would do something else");
    }

    #[test]
    fn a_recovery_has_an_absolute_bound_at_one_length_only() {
        let budget = |bytes| {
            let rows = rows(bytes);
            rows.iter().find(|row| row.log_bytes().is_some()).and_then(BudgetRow::budget)
        };
        assert_eq!(budget(1 << 30), Some(Budget::RatioAndFigureAtMost(1.25, 1.5e9)));
        assert_eq!(budget(64 << 20), Some(Budget::RatioAtMost(1.25)));
        let row = rows(1 << 30).into_iter().find(|row| row.log_bytes().is_some()).expect("it is there");
        let judge = |nanos: f64, ratio: f64| {
            let figures: Vec<f64> = (0..10).map(|block| nanos + f64::from(block)).collect();
            let pairs: Vec<(f64, f64)> = figures.iter().map(|figure| (*figure, figure / ratio)).collect();
            row.verdict(&figures, &pairs, ratio_of_medians(&pairs, 1), 1)
        };
        assert_eq!(judge(1.4e9, 1.2), BudgetVerdict::Met);
        assert_eq!(judge(1.6e9, 1.2), BudgetVerdict::Missed, "it takes too long");
        assert_eq!(judge(1.4e9, 1.3), BudgetVerdict::Missed, "the bare loop is much faster");
    }

    #[test]
    fn an_excess_is_taken_block_by_block() {
        let row = BudgetRow {
            transport: TransportKind::RING_SHM,
            kind: Kind::StoreRead,
            budget: Some(Budget::ExcessAtMost(60.0)),
            beside: Beside::Limit,
        };
        // All blocks differ by 50, though the medians of either side move by hundreds.
        let pairs: Vec<(f64, f64)> =
            (0..20).map(|block| 300.0 + 40.0 * f64::from(block)).map(|o| (o + 50.0, o)).collect();
        let farcall: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        assert_eq!(row.verdict(&farcall, &pairs, ratio_of_medians(&pairs, 1), 1), BudgetVerdict::Met);
        let slower: Vec<(f64, f64)> = pairs.iter().map(|(farcall, other)| (farcall + 20.0, *other)).collect();
        assert_eq!(row.verdict(&farcall, &slower, None, 1), BudgetVerdict::Missed);
    }

    #[test]
    fn the_window_of_a_bulk_stream_is_bounded() {
        let window = |bytes| {
            let kind = Kind::Bulk(bytes);
            BudgetRow { transport: TransportKind::RING_SHM, kind, budget: None, beside: Beside::Limit }
                .in_flight()
        };
        assert_eq!((window(1 << 10), window(1 << 20), window(1 << 24)), (64, 4, 2));
    }
}
