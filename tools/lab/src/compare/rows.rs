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

/// The rows for the transports that are here.
pub fn rows() -> Vec<BudgetRow> {
    let row = |transport, kind, budget| BudgetRow { transport, kind, budget, beside: Beside::Limit };
    let of_memory = |transport| {
        vec![
            row(transport, Kind::Echo, Some(Budget::RatioAtMost(1.25))),
            row(transport, Kind::CallRate, Some(Budget::FigureAtLeast(30e6))),
            row(transport, Kind::MessageRate(Mode::Futures), Some(Budget::FigureAtLeast(60e6))),
            row(transport, Kind::MessageRate(Mode::Handler), Some(Budget::FigureAtLeast(100e6))),
            row(transport, Kind::StoreRead, Some(Budget::ExcessAtMost(60.0))),
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

/// The same rows for a comparison with another build, which may differ by the fraction `within`, if it is
/// asked whether it does; those that differ only in the limit are one.
pub fn rows_of_builds(within: Option<f64>) -> Vec<BudgetRow> {
    let budget = within.map(Budget::RatioWithin);
    let rows = rows().into_iter().filter(|row| !matches!(row.kind, Kind::EchoBeside(_)));
    rows.map(|row| BudgetRow { budget, beside: Beside::Program, ..row }).collect()
}

impl BudgetRow {
    /// The transport that is judged.
    pub fn transport(&self) -> TransportKind {
        self.transport
    }

    /// What kind of comparison it is, in records.
    pub fn test(&self) -> &'static str {
        match self.beside {
            Beside::Limit => "limit",
            Beside::Program => "build",
        }
    }

    /// The unit of its figures.
    pub fn unit(&self) -> Unit {
        match self.kind {
            Kind::CallRate | Kind::MessageRate(_) => Unit::PerSecond,
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
            Some(budget) => BudgetVerdict::of(budget, ratio),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_for_each_transport() {
        let mut names: Vec<_> = rows().iter().map(|row| (row.transport().name(), row.name())).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.contains(&("ring+shm", "bulk64K".to_owned())), "{names:?}");
    }

    #[test]
    fn builds_are_compared_by_figures_of_their_own() {
        let rows = rows_of_builds(Some(0.02));
        let echoes: Vec<_> = rows.iter().filter(|row| row.name().starts_with("echo100")).collect();
        assert!(echoes.iter().all(|row| row.description().ends_with("100 B back / the other build")));
        let mut transports: Vec<_> = echoes.iter().map(|row| row.transport().name()).collect();
        transports.dedup();
        assert_eq!(transports.len(), echoes.len(), "one echo for each transport");
        assert!(rows.iter().all(|row| row.budget() == Some(Budget::RatioWithin(0.02))));
        assert!(rows_of_builds(None).iter().all(|row| row.budget().is_none()));
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
