//! The grammar of the commands that read figures instead of measuring them.

use std::path::PathBuf;

use clap::Args;

use crate::output::Destination;

/// `farcall audit`.
#[derive(Debug, Args)]
pub struct Audit {
    /// Tables of figures (.csv), or documents about them (.toml)
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Writes one JSON object for each finding to a file, or to standard output (instead of text) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `farcall explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Folders that --record made; several are put side by side
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Writes one JSON object for each finding to a file, or to standard output (instead of text) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
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
    /// Writes one JSON object for each difference to a file, or to standard output (instead of a table) with `-`
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
