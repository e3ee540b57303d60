//! The grammar of the command line. Text becomes typed values here and nowhere else.

pub mod benchkv;
pub mod compare;
pub mod doctor;
pub mod given;
pub mod kv;
pub mod measuring;
mod msgrate;
mod needless;
mod perf;
pub mod ranks;
#[cfg(test)]
mod reference;
pub mod runs;
mod shuffle;
mod tune;

use core::time::Duration;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use farcall::TransportKind;
use farcall::parameters::Settings;
use farcall::parameters::quantity::parse_duration;
use farcall_swarm::LeftOut;

use crate::failure::Failure;
use crate::output::Destination;
use benchkv::BenchKvArguments;
use compare::Compare;
use doctor::Doctor;
use kv::Kv;
pub use msgrate::Msgrate;
pub use needless::{check_option_needed, check_settings_needed};
pub use perf::Perf;
use runs::{Audit, Calibrate, Diff, Explain, Export, Ps, ReportArguments, ServeReport, Top};
pub use shuffle::{Growth, Ranks, Shuffle};
pub use tune::{ImportSource, LandscapeArgument, Tune, TuneAction};

/// Calls between the processes of a cluster in about a microsecond, and where every nanosecond went.
#[derive(Debug, Parser)]
#[command(name = "farcall", version, about, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measures calls between processes of this machine, beside what the machine can do at best
    Perf(Perf),
    /// Measures all-to-all shuffles and other collective operations, on simulated fabrics and on this machine
    Shuffle(Shuffle),
    /// Measures tagged messages from one process to another
    Msgrate(Msgrate),
    /// Runs simulations that look for faults of farcall itself
    #[command(subcommand)]
    Sim(Sim),
    /// Compares farcall with the limit of this machine and with programs of others, interleaved in one run
    Compare(Compare),
    /// Checks figures that somebody published or recorded: what cannot be true, what limits, and what would tell
    Audit(Audit),
    /// Explains runs that were recorded, or processes that run: what limits, how sure, and what next
    Explain(Explain),
    /// Fits a fabric profile to this machine or to recorded runs of a pair of hosts, and says how well it
    /// predicts what it has not seen
    Calibrate(Calibrate),
    /// Makes one page of recorded runs that needs nothing else: findings, tables, curves and the machine
    Report(ReportArguments),
    /// Shows recorded runs in a browser: a list, and the page of one or of several side by side
    ServeReport(ServeReport),
    /// Tells two recorded runs apart: the machine and parameters first, then every figure
    Diff(Diff),
    /// Lists the transports of this program and the RDMA devices of this machine, and with --parameters everything that can be tuned
    Info(Info),
    /// Examines this machine, and the path to another one, and says what to mend
    Doctor(Doctor),
    /// Lists the processes of this machine that use farcall, with rates and stalls
    Ps(Ps),
    /// Prints the counters of a running process
    Stat(Stat),
    /// Shows live what processes, endpoints, ways and stores do, with rates and stalls; `h` lists its keys
    Top(Top),
    /// Serves the counters of all processes of this machine to Prometheus and others of its kind
    Export(Export),
    /// Measures a store of polling daemons and clients on shared-memory slots
    Benchkv(Box<BenchKvArguments>),
    /// Serves a key-value store, or uses one
    Kv(Kv),
    /// Serves the names under which servers of an open cluster listen
    Registry(Registry),
    /// Prints what a shell needs to complete the words of this program
    Completions(Completions),
    /// Writes the manual of this program: pages for `man`
    Manual(Manual),
    /// Makes the key of a cluster, or says which keys a file holds
    #[command(subcommand)]
    Key(Key),
    /// Checks the rules that say who may do what
    #[command(subcommand)]
    Policy(Policy),
    /// Finds the settings of a program that cannot be told apart from the best
    Tune(Tune),
}

/// `farcall sim`.
#[derive(Debug, Subcommand)]
pub enum Sim {
    /// Runs random clusters under random faults, and checks the rules that must hold whatever happens
    Swarm(Swarm),
    /// Puts every known cause of slowness into a simulated fabric, and says how often `explain` names it
    /// first
    Causes(runs::Causes),
}

/// `farcall sim swarm`.
#[derive(Debug, Args)]
pub struct Swarm {
    /// How many seeds; a single one is described before it runs
    #[arg(long, default_value = "200", value_parser = whole_number::<{ u32::MAX as u64 }>)]
    pub seeds: u64,
    /// The first of them
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Transports that each seed runs over, separated by commas [default: all simulated ones]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub transport: Vec<TransportKind>,
    /// What to leave out of the one seed, as a shrunk scenario says
    #[arg(long, value_name = "LIST", conflicts_with = "minutes")]
    pub without: Option<LeftOut>,
    /// Goes on to further seeds, as many at a time, until so many minutes are over
    #[arg(long, value_name = "MINUTES")]
    pub minutes: Option<u64>,
    #[command(flatten)]
    pub output: Output,
}

/// `farcall info`.
#[derive(Debug, Args)]
pub struct Info {
    /// Lists every parameter with its value here, range, scope and environment variable
    #[arg(long)]
    pub parameters: bool,
    /// Opens a session to a server, by its name, farcall://host:port/name or transport://host:port, and shows
    /// which transport it takes, and why none of the others
    #[arg(long, value_name = "TARGET", conflicts_with = "parameters")]
    pub peer: Option<String>,
    /// With --peer: a transport, or several with slashes between them, best first
    #[arg(long, value_name = "NAME", default_value = "auto", requires = "peer")]
    pub transport: TransportKind,
    /// Sets a parameter, so that the listing shows it
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Writes one JSON object for each line to a file, or to standard output with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `farcall registry`.
#[derive(Debug, Args)]
pub struct Registry {
    /// Where it listens: an address of this machine, or 0.0.0.0 or [::] for all interfaces
    #[arg(long, default_value = farcall::bootstrap::REGISTRY_DEFAULT, value_name = "HOST:PORT")]
    pub listen: String,
    /// Serves a world of so many ranks besides
    #[arg(long, value_name = "NUMBER", value_parser = whole_number::<{ farcall::bootstrap::RANKS_MAX as u64 }>)]
    pub ranks: Option<u64>,
    /// Writes one JSON object to a file, or to standard output with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `farcall key`.
#[derive(Debug, Subcommand)]
pub enum Key {
    /// Makes a file with a new key, which only this user can read
    Generate {
        /// The file; there must be none yet
        file: PathBuf,
        /// Makes the private key of one process instead of a cluster's, and says its public half
        #[arg(long)]
        identity: bool,
        /// Writes one JSON object to a file, or to standard output with `-`
        #[arg(long, value_name = "FILE")]
        json: Option<Destination>,
    },
    /// Says what the cluster keys of a file are called, or the public half of a private key; nothing secret
    Show {
        /// The file
        file: PathBuf,
        /// Writes one JSON object to a file, or to standard output with `-`
        #[arg(long, value_name = "FILE")]
        json: Option<Destination>,
    },
}

/// `farcall policy`.
#[derive(Debug, Subcommand)]
pub enum Policy {
    /// Reads a policy; with --identity and --do says whether it allows something, and by which line. The exit
    /// status is 1 for what is refused
    Check {
        /// The file
        file: PathBuf,
        /// Who wants to do it: `uid N`, `key NAME`, `identity NAME`, `certificate NAME`, `password`, or
        /// `none`
        #[arg(long, requires = "act", value_name = "WHO")]
        identity: Option<String>,
        /// What is to be done, such as `service 10: call` or `table users: write`
        #[arg(long = "do", requires = "identity", value_name = "WHAT")]
        act: Option<String>,
        /// Writes one JSON object to a file, or to standard output with `-`
        #[arg(long, value_name = "FILE")]
        json: Option<Destination>,
    },
}

/// `farcall stat`.
#[derive(Debug, Args)]
pub struct Stat {
    /// The process, by its number
    #[arg(value_name = "PID", value_parser = whole_number::<{ i32::MAX as u64 }>)]
    pub process: u64,
    /// Writes one JSON object for each counter to a file, or to standard output with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `farcall completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// For which shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// `farcall manual`.
#[derive(Debug, Args)]
pub struct Manual {
    /// The folder for the pages, which is made if need be
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// What changes how farcall runs.
#[derive(Clone, Debug, Args)]
pub struct Tuning {
    /// Sets a parameter; can be repeated [measured processes spin unless endpoint.idle is set]
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Decides every random choice
    #[arg(long, default_value = "1")]
    pub seed: u64,
}

/// Where a whole run goes.
#[derive(Clone, Debug, Args)]
pub struct Recording {
    /// Keeps the run in a new folder: what was asked, the machine, and every figure; see `farcall explain`
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
}

/// Where results go.
#[derive(Clone, Debug, Args)]
pub struct Output {
    /// Writes one JSON object for each figure to a file, or to standard output (instead of tables) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
    /// Prints no progress
    #[arg(long)]
    pub quiet: bool,
}

/// What measured processes have unless told otherwise: a waiting core that sleeps would measure its waking, and a process
/// that gets no core for a second is slow, not dead. Of one that ended its parent knows at once.
pub const MEASURED: [&str; 2] = ["endpoint.idle=spin", "endpoint.peer_timeout=20s"];

/// What assignments to the values of a simulated fabric begin with.
pub const FABRIC: &str = "fabric.";

impl Tuning {
    /// The assignments to the values of a simulated fabric, without the prefix.
    pub fn of_fabric(&self) -> Vec<&str> {
        self.settings.iter().filter_map(|text| text.strip_prefix(FABRIC)).collect()
    }

    /// Sets parameters, instead of what they are set to.
    pub fn replace(&mut self, assignments: &[String]) {
        let is_replaced = |one: &String| assignments.iter().any(|other| name_of(other) == name_of(one));
        self.settings.retain(|one| !is_replaced(one));
        self.settings.extend_from_slice(assignments);
    }

    /// The assignments for measured processes, and the settings that they lead to.
    pub fn load(&self) -> Result<(Vec<String>, Settings), Failure> {
        self.load_with(&[])
    }

    /// As `load`, with defaults that the assignments of the command line come after. What is said of the fabric is left
    /// out.
    pub fn load_with(&self, defaults: &[&str]) -> Result<(Vec<String>, Settings), Failure> {
        check_set_once(&self.settings)?;
        let defaults = MEASURED.into_iter().chain(defaults.iter().copied()).map(str::to_owned);
        let own = self.settings.iter().filter(|text| !text.starts_with(FABRIC)).cloned();
        let assignments: Vec<String> = defaults.chain(own).collect();
        let settings = load_settings(&assignments)?;
        Ok((assignments, settings))
    }
}

/// The settings of this process with the assignments of a command line.
pub fn load_set(assignments: &[String]) -> Result<Settings, Failure> {
    check_set_once(assignments)?;
    load_settings(assignments)
}

/// The parameter that an assignment is to.
fn name_of(assignment: &str) -> &str {
    assignment.split('=').next().unwrap_or_default().trim()
}

/// Refuses two assignments to one parameter: whoever wrote the first would take its value for what was used.
fn check_set_once(assignments: &[String]) -> Result<(), Failure> {
    for (index, second) in assignments.iter().enumerate() {
        if let Some(first) = assignments[..index].iter().find(|first| name_of(first) == name_of(second)) {
            return Err(Failure::Usage(format!(
                "--set {first} and --set {second} are of one parameter; leave one of them out"
            )));
        }
    }
    Ok(())
}

/// Refuses a list that has something twice: it would be measured twice, under one name.
pub fn check_once<T: PartialEq + core::fmt::Display>(option: &str, list: &[T]) -> Result<(), Failure> {
    let is_twice = |index: &usize| list[..*index].contains(&list[*index]);
    match (0..list.len()).find(is_twice) {
        Some(index) => {
            let twice = &list[index];
            Err(Failure::Usage(format!("{option} has {twice} twice; each is measured once, so name it once")))
        }
        None => Ok(()),
    }
}

/// The settings of this process with these assignments.
pub fn load_settings(assignments: &[String]) -> Result<Settings, Failure> {
    Settings::load(assignments.iter().cloned()).map_err(|error| Failure::Usage(error.to_string()))
}

/// The path of a file, or standard output.
impl From<&str> for Destination {
    fn from(text: &str) -> Self {
        if text == "-" { Self::StandardOutput } else { Self::File(PathBuf::from(text)) }
    }
}

/// One of some things with names, each with what it is in the words of the help.
fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
    about: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let names = all.map(|one| PossibleValue::new(name(one)).help(about(one)));
    let named = move |text: String| all.into_iter().find(|&one| name(one) == text);
    PossibleValuesParser::new(names).map(move |text| named(text).expect("it is one of the names"))
}

/// What may follow a count, and how much of it one is. Counts are decimal, lengths in bytes are binary.
const MULTIPLES: [(char, u64); 3] = [('K', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];

/// A count as people write it: 10000 or 10K.
fn count(text: &str) -> Option<u64> {
    let multiple = MULTIPLES.iter().find_map(|(letter, times)| Some((text.strip_suffix(*letter)?, *times)));
    let (digits, times) = multiple.unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(times)
}

/// A whole number, also 0.
fn count_or_none(text: &str) -> Result<u64, String> {
    count(text).ok_or_else(|| format!("`{text}` is not a whole number, such as 1000 or 1K"))
}

/// A whole number from 1 to `MAX`.
fn whole_number<const MAX: u64>(text: &str) -> Result<u64, String> {
    let number = count(text).filter(|number| (1..=MAX).contains(number));
    number.ok_or_else(|| match MAX {
        u64::MAX => format!("`{text}` is not a whole number above 0, such as 10000 or 10K"),
        _ => format!("`{text}` is not a whole number from 1 to {MAX}"),
    })
}

/// A positive time of at most a day: a number of seconds, with or without a fraction, or a whole number with
/// its unit.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    const SECONDS_MAX: f64 = 86_400.0;
    let seconds = match parse_duration(text) {
        Ok(time) => Some(time.as_secs_f64()),
        Err(_) => text.parse().ok(),
    };
    let seconds = seconds.filter(|seconds: &f64| *seconds > 0.0 && *seconds <= SECONDS_MAX);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        format!(
            "`{text}` is no time above 0 and up to {SECONDS_MAX} seconds; write 10 or 0.5 of them, or 200ms"
        )
    })
}

/// A positive number of percent, of at most a hundred.
fn parse_percent(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a number of percent above 0 and up to 100, such as 2 or 0.5");
    let percent: f64 = text.parse().map_err(|_| wrong())?;
    if percent > 0.0 && percent <= 100.0 { Ok(percent) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeMap;

    /// Commands that measure, in the order of the table.
    const MEASURING: [&str; 5] = ["perf", "shuffle", "msgrate", "benchkv", "compare"];

    /// Every option of the commands that measure, and which of them have it.
    fn table() -> String {
        let grammar = Arguments::command();
        let mut options: BTreeMap<String, (Vec<String>, [bool; 5])> = BTreeMap::new();
        for (place, name) in MEASURING.into_iter().enumerate() {
            let command = grammar.find_subcommand(name).expect("it is a command");
            for option in command.get_arguments() {
                let Some(long) = option.get_long().filter(|long| *long != "help") else { continue };
                let (old, has) = options.entry(long.to_owned()).or_default();
                has[place] = true;
                let aliases = option.get_all_aliases().into_iter().flatten();
                for alias in aliases.map(|alias| format!("`--{alias}`")) {
                    if !old.contains(&alias) {
                        old.push(alias);
                    }
                }
            }
        }
        let head =
            format!("| option | {} | old names |\n|---|{}---|\n", MEASURING.join(" | "), "---|".repeat(5));
        let row = |(option, (old, has)): (String, (Vec<String>, [bool; 5]))| {
            let has = has.map(|has| if has { "x" } else { "" }).join(" | ");
            format!("| `--{option}` | {has} | {} |\n", old.join(", "))
                .replace("|  |", "| |")
                .replace("|  |", "| |")
        };
        head + &options.into_iter().map(row).collect::<String>()
    }

    /// `FARCALL_TIDY_LOWER=1` writes it.
    #[test]
    fn the_documented_table_of_commands_and_options_is_the_grammars() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        let documentation = std::fs::read_to_string(path).expect("the page is there");
        let begin = documentation.find("| option |").expect("the page has the table");
        let table = table();
        if std::env::var_os("FARCALL_TIDY_LOWER").is_some() {
            std::fs::write(path, documentation[..begin].to_owned() + &table).expect("it can be written");
        } else {
            assert_eq!(
                documentation[begin..],
                table,
                "FARCALL_TIDY_LOWER=1 writes the table of docs/options.md"
            );
        }
    }

    #[test]
    fn old_names_are_taken() {
        for line in [
            "farcall perf --concurrent-ops 2",
            "farcall msgrate --size 8 --inflight 1 --messages 10K --seconds 9",
            "farcall benchkv --queue-depth 2",
            "farcall shuffle --ops 3 --launches 1",
            "farcall compare --inflight 8",
        ] {
            assert!(Arguments::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }

    #[test]
    fn the_grammar_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn counts_are_whole_numbers_within_their_bounds() {
        assert_eq!((whole_number::<64>("1"), whole_number::<64>("64")), (Ok(1), Ok(64)));
        for text in ["", "0", "65", "-1", "1.5", "1K"] {
            assert!(whole_number::<64>(text).is_err(), "{text}");
        }
        assert_eq!(whole_number::<{ u64::MAX }>("10K"), Ok(10_000));
        assert_eq!(
            (count_or_none("0"), count_or_none("2M"), count("3G")),
            (Ok(0), Ok(2_000_000), Some(3_000_000_000))
        );
        for text in ["K", "1k", "1KK", "99999999999G", "1 K"] {
            assert_eq!(count(text), None, "{text}");
        }
    }

    #[test]
    fn seconds_are_positive_numbers() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_seconds("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_seconds("10s"), Ok(Duration::from_secs(10)));
        for text in ["", "0", "-1", "nan", "inf", "1e9", "0s", "86401s", "200 parsecs", "99999999999999999s"]
        {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }
}
