//! The grammar of the commands of `farcall kv` that work on many objects, on tables, and over time.

use core::time::Duration;
use std::path::PathBuf;

use clap::Args;
use farcall_kv::durable::Level;

use super::super::{parse_seconds, whole_number};
use super::{KvPlace, KvTable, KvWritten, parse_level};

/// `farcall kv mget`.
#[derive(Debug, Args)]
pub struct KvMget {
    /// The objects' keys
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<String>,
    #[command(flatten)]
    pub written: KvWritten,
    #[command(flatten)]
    pub table: KvTable,
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv mput`.
#[derive(Debug, Args)]
pub struct KvMput {
    /// Keys, each with its value behind it
    #[arg(value_name = "KEY VALUE", required = true, allow_negative_numbers = true)]
    pub pairs: Vec<String>,
    /// Writes each only if there is no such object
    #[arg(long)]
    pub if_absent: bool,
    #[command(flatten)]
    pub written: KvWritten,
    #[command(flatten)]
    pub table: KvTable,
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv watch`.
#[derive(Debug, Args)]
pub struct KvWatch {
    /// The object's key
    #[arg(value_name = "KEY")]
    pub key: String,
    /// How often the store is asked; of changes in between only the last is seen
    #[arg(long, default_value = "0.1", value_name = "SECONDS", value_parser = parse_seconds)]
    pub every: Duration,
    /// Ends after so many lines [default: never]
    #[arg(long, value_name = "LINES", value_parser = whole_number::<{ u64::MAX }>)]
    pub limit: Option<u64>,
    #[command(flatten)]
    pub written: KvWritten,
    #[command(flatten)]
    pub table: KvTable,
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv export`.
#[derive(Debug, Args)]
pub struct KvExport {
    /// Where to write; `-` is standard output [default: standard output]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub table: KvTable,
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv import`.
#[derive(Debug, Args)]
pub struct KvImport {
    /// What to read, `-` for standard input: a line has `key` or `key_base64`, and `value` or `value_base64`
    /// [default: standard input]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Leaves objects alone that are there already
    #[arg(long)]
    pub if_absent: bool,
    #[command(flatten)]
    pub table: KvTable,
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv create`.
#[derive(Debug, Args)]
pub struct KvCreate {
    /// The table
    #[arg(value_name = "TABLE")]
    pub table: String,
    /// What its writes survive: `memory`, `flushed`, `replicated=N` or `replicated=N,flushed`. A store that
    /// cannot give it refuses
    #[arg(long, default_value = "memory", value_name = "LEVEL", value_parser = parse_level)]
    pub level: Level,
    #[command(flatten)]
    pub place: KvPlace,
}

/// `farcall kv restore`.
#[derive(Debug, Args)]
pub struct KvRestore {
    /// What `kv backup --export` wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Leaves objects alone that are there already
    #[arg(long)]
    pub if_absent: bool,
    #[command(flatten)]
    pub place: KvPlace,
}
