//! The grammar of `--trace`, the same for every command that makes calls or sends messages.

use std::path::{Path, PathBuf};

use clap::Args;

use super::vary::Varying;
use crate::failure::Failure;

/// Whether calls or messages are traced, and what becomes of them.
#[derive(Clone, Debug, Args)]
pub struct Tracing {
    /// Traces calls or messages: prints what each part of them took, and writes the newest ones to a file
    /// that Perfetto reads
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub trace: Option<Option<PathBuf>>,
}

impl Tracing {
    /// Whether there is a trace.
    pub fn is_on(&self) -> bool {
        self.trace.is_some()
    }

    /// Where they are to be written.
    pub fn file(&self) -> Option<&Path> {
        self.trace.as_ref()?.as_deref()
    }

    /// Refuses to trace `what` of several configurations, or to write that of several measurements to one
    /// file; `how` says how to get one.
    pub fn check(
        &self,
        varying: &Varying,
        what: &str,
        measurements: usize,
        how: &str,
    ) -> Result<(), Failure> {
        if self.is_on() && !varying.vary.is_empty() {
            return Err(Failure::Usage(
                "--trace is for one configuration, and --vary measures several; leave one of them out"
                    .to_owned(),
            ));
        }
        if self.file().is_some() && measurements > 1 {
            return Err(Failure::Usage(format!("--trace=FILE takes the {what} of one measurement; {how}")));
        }
        Ok(())
    }
}
