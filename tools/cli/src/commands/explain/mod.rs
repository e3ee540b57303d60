//! `farcall explain`: what recorded runs say, by the laws that `audit` holds everybody's figures against.

mod allowed;
mod here;
mod live;
pub mod rerun;
pub mod score;
mod shard;
mod trial;
mod waits;

use farcall_base::printable;
use farcall_lab::explain::recorded::{RecordedRun, explain as findings};

use self::allowed::Trust;
use super::audit::show;
use crate::arguments::runs::Explain;
use crate::failure::Failure;
use crate::output::Report;

/// Reads all runs before anything is said of one.
pub fn run(explain: &Explain) -> Result<(), Failure> {
    if !explain.pid.is_empty() {
        let pids: Vec<_> = explain.pid.iter().map(|pid| *pid as u32).collect();
        let mut report = Report::open(explain.json.as_ref())?;
        return show(&live::watch(&pids, explain.seconds)?, &mut report);
    }
    let read = |path: &std::path::PathBuf| RecordedRun::read(path).map_err(Failure::run);
    let runs = explain.runs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut report = Report::open(explain.json.as_ref())?;
    for recorded in &runs {
        let run = &recorded.run;
        let ended = match run.window_seconds {
            Some(seconds) => format!("{seconds:.1} s"),
            None => "did not end: its last figures are missing".to_owned(),
        };
        let words = printable(&run.arguments.join(" ")).into_owned();
        let (name, figures) = (printable(&recorded.name), recorded.figures.len());
        report
            .line(format_args!("# {name}: farcall {words}; {figures} figures, seed {}, {ended}", run.seed))?;
    }
    show(&findings(&runs), &mut report)?;
    if explain.try_out {
        for run in &runs {
            let tried =
                trial::of_run(run, explain.pairs, Trust::of(explain.trust))?.map(|tried| tried.finding);
            show(&tried.into_iter().collect::<Vec<_>>(), &mut report)?;
        }
    }
    Ok(())
}
