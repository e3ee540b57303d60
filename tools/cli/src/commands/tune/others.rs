//! What `farcall tune` does beside searching: import, merge, report.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use farcall_lab::explain::page::PagePart;
use farcall_tune::import;
use farcall_tune::result::{Merging, Summary, merge as merge_sets, part};
use farcall_tune::tuning::Tuning;

use super::directory::Directory;
use super::load::Loaded;
use super::show;
use crate::arguments::{ImportSource, Output};
use crate::failure::Failure;
use crate::output::{Report, print_text};

/// Prints a space for what a program says of itself.
pub fn import(source: ImportSource, file: &str) -> Result<(), Failure> {
    let text = || match file {
        "-" => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        }
        path => std::fs::read_to_string(path),
    };
    let text = || text().map_err(|error| Failure::Run(format!("cannot read {file}: {error}")));
    let space = match source {
        ImportSource::Farcall => import::farcall(),
        ImportSource::Otpo => import::otpo::read(&text()?).map_err(Failure::run)?,
        ImportSource::Ucx => import::ucx(&text()?).map_err(Failure::run)?,
        ImportSource::Openmpi => import::open_mpi(&text()?).map_err(Failure::run)?,
        ImportSource::Libfabric => import::libfabric(&text()?).map_err(Failure::run)?,
    };
    print_text(&space.write())
}

/// Prints a smaller space.
pub fn merge(merging: Merging, directories: &[PathBuf]) -> Result<(), Failure> {
    let directories: Vec<Directory> = directories.iter().cloned().map(Directory::new).collect();
    let sets = directories.iter().map(Directory::set).collect::<Result<Vec<_>, _>>()?;
    let first =
        directories.first().ok_or_else(|| Failure::Usage("name the directories of tunings".to_owned()))?;
    let (space, rows) = merge_sets(&first.experiment()?, &sets, merging).map_err(Failure::run)?;
    let text = format!("# The values of the {rows} rows in the merged sets.\n{}", space.write());
    print_text(&text)
}

/// Prints the result of a tuning, and writes its files again if it should.
pub fn report(path: &Path, write: bool, output: &Output) -> Result<(), Failure> {
    with_result(path, |directory, tuning, summary| {
        if write {
            directory.keep_result(tuning.session(), summary)?;
        }
        show::summary(summary, &mut Report::open(output.json.as_ref())?)
    })
}

/// Whether a directory is that of a tuning.
pub fn is_tuning(path: &Path) -> bool {
    Directory::new(path.to_owned()).has_journal()
}

/// The result of a tuning as a part of a page.
pub fn page_part(path: &Path) -> Result<PagePart, Failure> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    with_result(path, |_, _, summary| Ok(part(&name, summary)))
}

/// Does something with what a journal comes to.
fn with_result<T>(
    path: &Path,
    use_it: impl FnOnce(&Directory, &Tuning, &Summary) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let directory = Directory::new(path.to_owned());
    let (begin, lines) = directory.read_journal()?;
    let loaded = Loaded::resume(&directory, &begin)?;
    let tuning = Tuning::recorded(&loaded.problem, &lines).map_err(Failure::run)?;
    let nothing = || Failure::Run(format!("nothing has been measured in {} yet", path.display()));
    let summary = Summary::new(tuning.session()).ok_or_else(nothing)?;
    use_it(&directory, &tuning, &summary)
}
