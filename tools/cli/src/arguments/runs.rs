//! The grammar of the commands that read figures instead of measuring them.

use core::time::Duration;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use farcall::TransportKind;
use farcall_lab::explain::analysis::input::{Assumption, Tolerances};

use super::{Output, parse_seconds, whole_number};
use crate::output::Destination;

/// `farcall audit`.
#[derive(Debug, Args)]
pub struct Audit {
    /// Tables of figures, what measuring programs printed, or documents about them (.toml)
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// By how much the sides of a law may differ: `little=15%`, `product=`, `balance=` or `same=`
    #[arg(long, value_name = "LAW=PART", value_parser = parse_tolerance)]
    pub tolerance: Vec<(String, f64)>,
    /// Leaves out what follows from an assumption that the audit shows, such as `closed_loop`
    #[arg(long, value_name = "ASSUMPTION")]
    pub strike: Vec<Assumption>,
    /// Writes one JSON object for each finding to a file, or to standard output (instead of text) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `little=15%` or `little=0.15`.
fn parse_tolerance(text: &str) -> Result<(String, f64), String> {
    let wrong = || {
        let laws = Tolerances::NAMES.join(", ");
        format!("write a law and a part, such as little=15% or product=0.02; the laws are {laws}")
    };
    let (law, part) = text.split_once('=').ok_or_else(wrong)?;
    let percent =
        part.strip_suffix('%').map(|digits| digits.trim().parse::<f64>().map(|percent| percent / 100.0));
    let part = percent.unwrap_or_else(|| part.parse()).map_err(|_| wrong())?;
    let known = Tolerances::default().set(law, part);
    known.then(|| (law.to_owned(), part)).ok_or_else(wrong)
}

/// `farcall explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Folders that --record made; several are put side by side
    #[arg(value_name = "RUN", required_unless_present = "pid")]
    pub runs: Vec<PathBuf>,
    /// Watches processes that run instead: what limits each, and who waits for whom among them
    #[arg(
        long,
        value_name = "PID",
        num_args = 1..,
        value_parser = whole_number::<{ u32::MAX as u64 }>,
        conflicts_with_all = ["runs", "try_out"]
    )]
    pub pid: Vec<u64>,
    /// With --pid: for how long
    #[arg(long, default_value = "10", value_parser = parse_seconds, requires = "pid")]
    pub seconds: Duration,
    /// Carries out the experiment that could refute the first cause of each run, on a simulated fabric, and
    /// says whether it did
    #[arg(long = "try")]
    pub try_out: bool,
    /// With --try: how many times at most the run as it was and the changed one are done, each time with
    /// another seed; it ends after five, ten, twenty and so on, once the outcome is certain
    #[arg(long, default_value = "40", value_name = "PAIRS", value_parser = whole_number::<1000>, requires = "try_out")]
    pub pairs: u64,
    /// With --try: the record is your own, and its command may read the files that it names
    #[arg(long, requires = "try_out")]
    pub trust: bool,
    /// Writes one JSON object for each finding to a file, or to standard output (instead of text) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `farcall calibrate`.
#[derive(Debug, Args)]
pub struct Calibrate {
    /// Folders of runs of `perf echo` that --record made, such as between two hosts [default: measures here]
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The transport whose measurements the profile is fitted to
    #[arg(long, value_name = "NAME")]
    pub transport: TransportKind,
    /// Where the profile is written
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Writes one JSON object for each measurement and its prediction to a file, or to standard output
    /// (instead of a table) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `farcall sim causes`.
#[derive(Debug, Args)]
pub struct Causes {
    /// How many seeds each cause is put in with
    #[arg(long, default_value = "20", value_parser = whole_number::<{ u32::MAX as u64 }>)]
    pub seeds: u64,
    /// The first of them
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Causes, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub cause: Vec<String>,
    /// Carries out the experiment that could refute the cause that is named first, as `explain --try` does,
    /// and says how often it was confirmed or refuted
    #[arg(long = "try", conflicts_with = "here")]
    pub try_out: bool,
    /// With --try: at most how many pairs of runs an experiment has
    #[arg(long, default_value = "40", value_name = "PAIRS", value_parser = whole_number::<1000>, requires = "try_out")]
    pub pairs: u64,
    /// Puts those in that this machine can be given, over real transports, instead of into a simulated fabric
    #[arg(long)]
    pub here: bool,
    #[command(flatten)]
    pub output: Output,
}

/// `farcall diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// The run before, or several separated by commas; from five pairs on differences have intervals
    #[arg(value_name = "BEFORE", value_delimiter = ',', required = true, num_args = 1)]
    pub before: Vec<PathBuf>,
    /// The run after, or as many as before, each taken next to its partner
    #[arg(value_name = "AFTER", value_delimiter = ',', required = true, num_args = 1)]
    pub after: Vec<PathBuf>,
    /// Decides how the bootstrap draws
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Writes one JSON object for each difference to a file, or to standard output (instead of a table) with
    /// `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `farcall report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Folders that --record made, and directories of tunings
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The page, which is made or written over
    #[arg(short, long, value_name = "FILE.html")]
    pub output: PathBuf,
}

/// `farcall serve-report`.
#[derive(Debug, Args)]
pub struct ServeReport {
    /// The folder in which --record made folders
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Where it listens
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8117")]
    pub listen: String,
}

/// `farcall ps`.
#[derive(Debug, Args)]
pub struct Ps {
    /// Seconds over which rates are taken
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = parse_seconds)]
    pub interval: Duration,
    /// Writes one JSON object for each process to a file, or to standard output (instead of a table) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `farcall top`.
#[derive(Debug, Args)]
pub struct Top {
    /// The processes, by their numbers [default: all that have counters]
    #[arg(value_name = "PID", value_parser = whole_number::<{ i32::MAX as u64 }>)]
    pub processes: Vec<u64>,
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    pub interval: Duration,
    /// The order of processes: by their numbers the least first, by all else the greatest
    #[arg(long, value_name = "BY", default_value = "process")]
    pub sort: TopSort,
    /// Prints once as plain text and ends, as it does where standard output is no terminal
    #[arg(long)]
    pub once: bool,
    /// Ends after this many intervals [default: on a terminal at a key, or with the processes that were
    /// named; elsewhere after one]
    #[arg(long, value_parser = whole_number::<{ u64::MAX }>, conflicts_with = "once")]
    pub count: Option<u64>,
}

/// `farcall export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Serves them over HTTP at /metrics until it is ended, instead of printing them once; 127.0.0.1:9464 is
    /// where scrapers of this machine look
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Seconds for which a process that has ended is still listed, with what it counted last
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = parse_seconds, requires = "listen")]
    pub remember: Duration,
    /// The most series that are listed; groups for which there is no room are counted instead
    #[arg(long, value_name = "NUMBER", default_value = "100K", value_parser = whole_number::<{ u32::MAX as u64 }>)]
    pub series: u64,
}

/// What `farcall top` sorts processes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopSort {
    /// Their numbers
    Process,
    /// Calls made and served a second
    Calls,
    /// Calls in flight
    InFlight,
    /// The part of their polls that found something
    Busy,
    /// What held them up
    Stalls,
}
