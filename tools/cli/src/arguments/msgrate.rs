//! The grammar of `farcall msgrate`.

use core::time::Duration;

use clap::Args;
use farcall::TransportKind;
use farcall_lab::run::msgrate::{Mode, Raw};
use farcall_lab::units::Size;

use super::measuring::{Rehearsal, Tracing, Varying};
use super::perf::handler_time;
use super::ranks::OverRanks;
use super::{Output, Recording, Tuning, parse_seconds, whole_number};

/// `farcall msgrate`.
#[derive(Clone, Debug, Args)]
pub struct Msgrate {
    /// How sends and receives complete, separated by commas: futures, callbacks, callbacks-reaped,
    /// callbacks-avail, callbacks-resubmit, dynamic, pointer, handler [default: all]
    #[arg(long, value_delimiter = ',', value_name = "MODES", hide_default_value = true, default_values_t = Mode::ALL.iter().copied())]
    pub mode: Vec<Mode>,
    /// Transports, separated by commas; the processes of mpi are started by `mpirun` [default: ring+shm, or
    /// basic+udp between machines]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub transport: Vec<TransportKind>,
    /// Also measures the same loop on the library of ucx or mpi itself, with completions found by: waitany
    /// (callbacks of UCX), testany (MPI only), test
    #[arg(long, value_delimiter = ',', value_name = "WAYS")]
    pub raw: Vec<Raw>,
    /// How often everything that is compared is measured, in random order, between two looks at how far the
    /// cores are apart; the one with the median time is reported, and ratios have intervals from five on
    #[arg(long, default_value = "1", value_parser = whole_number::<99>)]
    pub runs: u64,
    /// Lengths of messages, separated by commas
    #[arg(
        long = "sizes",
        alias = "size",
        value_delimiter = ',',
        default_value = "1,8,1K",
        value_name = "SIZES"
    )]
    pub size: Vec<Size>,
    /// Messages that each thread keeps in flight on either side, separated by commas
    #[arg(
        long = "in-flight",
        alias = "inflight",
        value_delimiter = ',',
        default_value = "1,10,1000",
        value_parser = whole_number::<16384>
    )]
    pub inflight: Vec<u64>,
    /// Messages of each measurement, all threads together
    #[arg(
        long = "count",
        alias = "messages",
        default_value = "5000000",
        value_parser = whole_number::<{ u64::MAX }>
    )]
    pub messages: u64,
    /// Threads of each of the two processes, which have an endpoint each
    #[arg(long, default_value = "1", value_parser = whole_number::<64>)]
    pub threads: u64,
    /// Seconds after which a measurement has failed
    #[arg(long = "within", alias = "seconds", default_value = "60", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// How long the receiver works on each message, such as 500ns
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = handler_time)]
    pub handler: Duration,
    #[command(flatten)]
    pub tuning: Tuning,
    #[command(flatten)]
    pub varying: Varying,
    #[command(flatten)]
    pub over: OverRanks,
    #[command(flatten)]
    pub tracing: Tracing,
    #[command(flatten)]
    pub recording: Recording,
    #[command(flatten)]
    pub rehearsal: Rehearsal,
    #[command(flatten)]
    pub output: Output,
}

impl Msgrate {
    /// Those that the command line names, or the one that reaches all.
    pub fn transports(&self) -> Vec<TransportKind> {
        self.over.named_or_one_of(&self.transport)
    }
}
