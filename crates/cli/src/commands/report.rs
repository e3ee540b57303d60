//! `farcall report`: recorded runs as one page.

use farcall_lab::page::page;
use farcall_lab::run::RecordedRun;

use crate::arguments::runs::ReportArguments;
use crate::failure::Failure;

/// Reads all runs before the page is written.
pub fn run(arguments: &ReportArguments) -> Result<(), Failure> {
    let read = |path: &std::path::PathBuf| RecordedRun::read(path).map_err(Failure::run);
    let runs = arguments.runs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let path = &arguments.output;
    let failed = |error| Failure::Run(format!("cannot write to {}: {error}", path.display()));
    std::fs::write(path, page(&runs)).map_err(failed)
}
