//! The grammar of `farcall benchkv`.

use core::str::FromStr;
use core::time::Duration;

use clap::Args;
use farcall::TransportKind;
use farcall_lab::run::benchkv::Distribution;
use farcall_lab::units::Size;

use super::measuring::{Rehearsal, Tracing, Varying};
use super::ranks::OverRanks;
use super::{Output, Recording, Tuning, parse_seconds, whole_number};

/// The most clients of a rank.
const CLIENTS_MAX: u64 = 256;

/// `farcall benchkv`.
#[derive(Clone, Debug, Args)]
pub struct BenchKvArguments {
    /// Daemons, each a process with a shard of the store [default: 1; one at each rank of a launcher]
    #[arg(long, value_parser = whole_number::<64>)]
    pub ranks: Option<u64>,
    /// Client processes of each rank, which reach its daemon through shared-memory slots
    #[arg(long, default_value = "1", value_parser = whole_number::<CLIENTS_MAX>, conflicts_with = "sweep")]
    pub clients: u64,
    /// Requests that each client keeps in flight: its slots
    #[arg(
        long = "in-flight",
        alias = "queue-depth",
        default_value = "1",
        value_parser = whole_number::<1024>
    )]
    pub queue_depth: u64,
    /// Keys of each rank
    #[arg(long, default_value = "1024", value_parser = whole_number::<100_000_000>)]
    pub keys: u64,
    /// The share of requests that read; the others overwrite
    #[arg(long, default_value = "0.5", value_parser = parse_share)]
    pub read_ratio: f64,
    /// How keys are chosen: uniform or zipfian
    #[arg(long, default_value = "uniform")]
    pub distribution: Distribution,
    /// Bytes in the rings between daemons [default: that of ring.ring_bytes]
    #[arg(long, value_name = "SIZE")]
    pub ring_size: Option<Size>,
    /// Seconds that a run lasts
    #[arg(long, default_value = "3", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Runs, by the same processes
    #[arg(long, default_value = "3", value_parser = whole_number::<1000>, conflicts_with = "vary")]
    pub runs: u64,
    /// Repeats everything with other numbers of clients, and finds the knee, such as clients=1,2,4,8,16
    #[arg(long, value_name = "clients=NUMBERS")]
    pub sweep: Option<SweepArgument>,
    /// The transport between daemons [default: ring+shm, or basic+udp between machines]
    #[arg(long, value_name = "NAME")]
    pub transport: Option<TransportKind>,
    #[command(flatten)]
    pub over: OverRanks,
    #[command(flatten)]
    pub tracing: Tracing,
    #[command(flatten)]
    pub varying: Varying,
    #[command(flatten)]
    pub tuning: Tuning,
    #[command(flatten)]
    pub recording: Recording,
    #[command(flatten)]
    pub rehearsal: Rehearsal,
    #[command(flatten)]
    pub output: Output,
}

impl BenchKvArguments {
    /// How many daemons there are.
    pub fn ranks(&self) -> u64 {
        self.ranks.or_else(|| self.over.places()).unwrap_or(1)
    }

    /// The transport that the command line names, or the one that reaches all.
    pub fn transport(&self) -> TransportKind {
        let named = self.over.named_or_one_of(self.transport.as_slice());
        named.first().copied().unwrap_or(TransportKind::BASIC_UDP)
    }
}

/// Numbers of clients to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepArgument(pub Vec<u64>);

impl FromStr for SweepArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.strip_prefix("clients=").map(|list| list.split(','));
        let numbers =
            numbers.ok_or_else(|| format!("`{text}` is not clients=NUMBERS, such as clients=1,2,4"))?;
        numbers.map(whole_number::<CLIENTS_MAX>).collect::<Result<_, _>>().map(Self)
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is not a number from 0 to 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_and_shares_are_read() {
        assert_eq!("clients=1,2,16".parse(), Ok(SweepArgument(vec![1, 2, 16])));
        for text in ["", "1,2", "clients=", "clients=0", "clients=1,x", "keys=1"] {
            assert!(text.parse::<SweepArgument>().is_err(), "{text}");
        }
        assert_eq!((parse_share("0"), parse_share("1"), parse_share("0.25")), (Ok(0.0), Ok(1.0), Ok(0.25)));
        assert!(["", "-0.1", "1.1", "nan", "half"].iter().all(|text| parse_share(text).is_err()));
    }
}
