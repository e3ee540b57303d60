//! `farcall report`: recorded runs and tunings as one page.

use std::path::PathBuf;

use farcall_lab::explain::page::page_with;
use farcall_lab::explain::recorded::RecordedRun;
use farcall_lab::files::write_beside;

use super::tune;
use crate::arguments::runs::ReportArguments;
use crate::failure::Failure;

/// Reads everything before the page is written.
pub fn run(arguments: &ReportArguments) -> Result<(), Failure> {
    let (tunings, runs): (Vec<&PathBuf>, Vec<&PathBuf>) =
        arguments.runs.iter().partition(|path| tune::is_tuning(path));
    let read = |path: &&PathBuf| RecordedRun::read(path).map_err(Failure::run);
    let runs = runs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let tunings = tunings.iter().map(|path| tune::page_part(path)).collect::<Result<Vec<_>, _>>()?;
    let path = &arguments.output;
    let failed = |error| Failure::Run(format!("cannot write to {}: {error}", path.display()));
    write_beside(path, page_with(&runs, &tunings).as_bytes()).map_err(failed)
}
