//! The grammar of `farcall kv check`.

use std::path::PathBuf;

use clap::Args;

use crate::output::Destination;

/// `farcall kv check`.
#[derive(Debug, Args)]
pub struct KvCheck {
    /// Histories: docs/protocol/history.md says what their lines are
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Writes one JSON object for each file to a file, or to standard output (instead of text) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}
