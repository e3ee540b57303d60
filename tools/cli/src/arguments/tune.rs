//! The grammar of `farcall tune`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use farcall_tune::experiment::StrategyName;
use farcall_tune::result::Merging;

use super::{Output, one_of, whole_number};

/// `farcall tune`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Tune {
    /// What to do instead of a search
    #[command(subcommand)]
    pub action: Option<TuneAction>,
    /// Describes the space, what to run and what to read (TOML), or the space alone (OTPO's parameter files)
    #[arg(value_name = "FILE", required_unless_present_any = ["resume", "revalidate"])]
    pub file: Option<PathBuf>,
    /// The directory for journal, logs and results [default: the file's name with .tune, here]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["resume", "revalidate", "dry_run"])]
    pub record: Option<PathBuf>,
    /// Goes on with the tuning in a directory: runs the command that stands there, and says which
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "budget", "strategy", "confirm", "rehearse", "dry_run", "seed"])]
    pub resume: Option<PathBuf>,
    /// Runs the finalists of the tuning in a directory against the reference again, here and now, by the
    /// command that stands there, and says which
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "resume", "budget", "strategy", "rehearse", "dry_run"])]
    pub revalidate: Option<PathBuf>,
    /// Counts and checks the rows, says what a search with these options would do, and runs nothing
    #[arg(long)]
    pub dry_run: bool,
    /// With --dry-run: prints all rows
    #[arg(long, requires = "dry_run")]
    pub rows: bool,
    /// Tries the plan on a synthetic landscape instead of the machine: one with a peak, or a flat one
    #[arg(long, value_name = "LANDSCAPE", num_args = 0..=1, default_missing_value = "peaked")]
    pub rehearse: Option<LandscapeArgument>,
    /// How to search [default: as the file says, else halving]
    #[arg(long, value_parser = one_of(StrategyName::ALL, StrategyName::name, StrategyName::about))]
    pub strategy: Option<StrategyName>,
    /// About how many trials to make before the finalists run again [default: as the file says, else by the
    /// number of values]
    #[arg(long, value_name = "TRIALS", value_parser = whole_number::<1_000_000>)]
    pub budget: Option<u64>,
    /// How often to run the finalists again in fresh blocks [default: as the file says, else 20]
    #[arg(long, value_name = "BLOCKS", value_parser = whole_number::<10_000>)]
    pub confirm: Option<u64>,
    /// Decides every random choice
    #[arg(long, default_value = "1")]
    pub seed: u64,
    #[command(flatten)]
    pub output: Output,
}

/// What `farcall tune` does beside searching.
#[derive(Debug, Subcommand)]
pub enum TuneAction {
    /// Writes a space for what a program says of itself
    Import {
        /// Whose words they are
        source: ImportSource,
        /// The file with them; `-` is standard input, and farcall needs none
        #[arg(default_value = "-")]
        file: String,
    },
    /// Writes a smaller space from the equivalence sets of finished tunings
    Merge {
        /// Rows of any, or of all
        #[arg(value_parser = one_of(Merging::ALL, Merging::name, Merging::about))]
        merging: Merging,
        /// The directories of the tunings
        #[arg(required = true, num_args = 2..)]
        directories: Vec<PathBuf>,
    },
    /// Prints the result of a tuning, finished or not
    Report {
        /// The directory of the tuning
        directory: PathBuf,
        /// Writes the files of the result into the directory again
        #[arg(long)]
        write: bool,
        #[command(flatten)]
        output: Output,
    },
}

/// What describes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportSource {
    /// A parameter file of OTPO
    Otpo,
    /// The output of `ucx_info -c -f`
    Ucx,
    /// The output of `ompi_info --all --parsable`
    Openmpi,
    /// The output of `fi_info -e`
    Libfabric,
    /// The parameters of this program
    Farcall,
}

/// Synthetic landscapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LandscapeArgument {
    /// Three parameters matter and two act together
    Peaked,
    /// Nothing matters
    Flat,
}
