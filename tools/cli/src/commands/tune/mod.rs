//! `farcall tune`: the settings of a program that cannot be told apart from the best.

mod directory;
mod load;
mod measure;
mod others;
mod show;

use std::path::PathBuf;

use farcall_tune::plan::Plan;
use farcall_tune::result::Summary;
use farcall_tune::tuning::Tuning;

use crate::arguments::{Tune, TuneAction};
use crate::failure::Failure;
use crate::output::Report;
use crate::progress::Interrupt;
use directory::Directory;
use load::Loaded;
use measure::Measured;
pub use others::{is_tuning, page_part};

/// Searches, goes on, or does one of the other things.
pub fn run(tune: &Tune) -> Result<(), Failure> {
    match &tune.action {
        Some(TuneAction::Import { source, file }) => return others::import(*source, file),
        Some(TuneAction::Merge { merging, directories }) => return others::merge(*merging, directories),
        Some(TuneAction::Report { directory, write, output }) => {
            return others::report(directory, *write, output);
        }
        None => {}
    }
    if let Some(path) = &tune.resume {
        return resume(tune, path.clone());
    }
    if let Some(path) = &tune.revalidate {
        return revalidate(tune, path.clone());
    }
    let file = tune
        .file
        .as_ref()
        .ok_or_else(|| Failure::Usage("name a file that describes the space".to_owned()))?;
    let loaded = Loaded::read(file, tune)?;
    loaded.check_budget(tune, &loaded.plan(tune))?;
    let mut report = Report::open(tune.output.json.as_ref())?;
    if tune.dry_run {
        return show::dry_run(&loaded, &loaded.plan(tune), tune.rows, &mut report);
    }
    show::findings(&loaded.problem, &mut report)?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    begin(tune, &loaded, PathBuf::from(format!("{stem}.tune")), &mut report)
}

fn begin(tune: &Tune, loaded: &Loaded, default_path: PathBuf, report: &mut Report) -> Result<(), Failure> {
    let plan = loaded.plan(tune);
    // A rehearsal leaves nothing behind unless it is told to.
    let path = tune.record.clone().or_else(|| (!plan.rehearsal).then_some(default_path));
    let directory = path.map(Directory::new);
    let interrupt = Interrupt::watch()?;
    let mut objective = loaded.objective(&plan, directory.as_ref(), &interrupt)?;
    let record = directory.as_ref().map(Directory::path);
    let mut tuning = Tuning::begin(&loaded.problem, &plan, record).map_err(Failure::run)?;
    if let Some(directory) = &directory {
        directory.keep_experiment(&loaded.file)?;
        directory.add_session()?;
    }
    let outcome = measure::all(&mut tuning, objective.as_mut(), &interrupt, tune.output.quiet);
    conclude(&tuning, outcome, directory.as_ref(), report)
}

fn resume(tune: &Tune, path: PathBuf) -> Result<(), Failure> {
    let directory = Directory::new(path);
    let (journal, begin, lines) = directory.journal()?;
    let loaded = Loaded::resume(&directory, &begin)?;
    let mut report = Report::open(tune.output.json.as_ref())?;
    let interrupt = Interrupt::watch()?;
    let mut objective = loaded.objective(&begin.plan, Some(&directory), &interrupt)?;
    if !begin.plan.rehearsal {
        show::command(&loaded, &directory, &mut report)?;
    }
    let mut tuning = Tuning::resume(&loaded.problem, &begin, journal, &lines).map_err(Failure::run)?;
    directory.add_session()?;
    let outcome = measure::all(&mut tuning, objective.as_mut(), &interrupt, tune.output.quiet);
    conclude(&tuning, outcome, Some(&directory), &mut report)
}

/// The finalists again: what was found in one allocation may be gone in the next.
fn revalidate(tune: &Tune, path: PathBuf) -> Result<(), Failure> {
    let directory = Directory::new(path);
    let (begin, lines) = directory.read_journal()?;
    let loaded = Loaded::resume(&directory, &begin)?;
    let earlier = Tuning::recorded(&loaded.problem, &lines).map_err(Failure::run)?;
    let finalists = farcall_tune::result::finalists(&earlier.session().knowledge());
    if finalists.is_empty() {
        return Err(Failure::Run(
            "the reference itself is the only finalist; there is nothing to compare".to_owned(),
        ));
    }
    let mut report = Report::open(tune.output.json.as_ref())?;
    let interrupt = Interrupt::watch()?;
    let plan =
        Plan { confirm: tune.confirm.map_or(begin.plan.confirm, |blocks| blocks as usize), ..begin.plan };
    let mut objective = loaded.objective(&plan, Some(&directory), &interrupt)?;
    if !plan.rehearsal {
        show::command(&loaded, &directory, &mut report)?;
    }
    let mut tuning = Tuning::of_finalists(&loaded.problem, finalists, plan.confirm, tune.seed);
    directory.add_session()?;
    measure::all(&mut tuning, objective.as_mut(), &interrupt, tune.output.quiet)?;
    let summary =
        Summary::new(tuning.session()).ok_or_else(|| Failure::Run("nothing was measured".to_owned()))?;
    directory.keep_revalidation(&summary)?;
    show::confirmation(&summary, &mut report)
}

/// Shows what there is, whole or not, and says how to go on.
fn conclude(
    tuning: &Tuning,
    outcome: Result<Measured, Failure>,
    directory: Option<&Directory>,
    report: &mut Report,
) -> Result<(), Failure> {
    if let Some(summary) = Summary::new(tuning.session()) {
        show::summary(&summary, report)?;
        if let Some(directory) = directory {
            directory.keep_result(tuning.session(), &summary)?;
            report.line(format_args!("# everything is in {}", directory.path().display()))?;
        }
    }
    match (outcome?, directory) {
        (Measured::All, _) => Ok(()),
        (Measured::Interrupted, Some(directory)) => Err(Failure::Run(format!(
            "interrupted; go on with `farcall tune --resume {}`",
            directory.path().display()
        ))),
        (Measured::Interrupted, None) => Err(Failure::Run("interrupted".to_owned())),
    }
}
