//! Running trials one after the other, until there are no more or somebody stops it.

use core::time::Duration;
use std::time::Instant;

use farcall_tune::objective::{Objective, ObjectiveError};
use farcall_tune::result::EquivalenceSet;
use farcall_tune::tuning::{Tuning, TuningError};

use crate::failure::Failure;
use crate::progress::{Interrupt, Progress};

/// How often the present best is worked out for the progress bar.
const LOOK: Duration = Duration::from_secs(5);

/// How far the trials came.
pub enum Measured {
    /// To the end.
    All,
    /// Somebody stopped them.
    Interrupted,
}

/// Runs all trials that are left.
pub fn all(
    tuning: &mut Tuning,
    objective: &mut dyn Objective,
    interrupt: &Interrupt,
    quiet: bool,
) -> Result<Measured, Failure> {
    let mut done = tuning.session().evidence().samples().len();
    let progress = Progress::new(done + tuning.session().remaining(), quiet);
    progress.resume_after(done);
    let (mut looked, mut best) = (Instant::now(), String::new());
    loop {
        if interrupt.has_come() {
            return Ok(Measured::Interrupted);
        }
        match tuning.step(objective) {
            Ok(true) => {}
            Ok(false) => return Ok(Measured::All),
            Err(TuningError::Objective(ObjectiveError::Interrupted)) => return Ok(Measured::Interrupted),
            Err(error) => return Err(Failure::run(error)),
        }
        done += 1;
        progress.step();
        if progress.is_visible() {
            let remaining = tuning.session().remaining();
            progress.resize(done + remaining);
            if looked.elapsed() > LOOK {
                best = present_best(tuning);
                looked = Instant::now();
            }
            progress.begin(&best);
        }
    }
}

/// The best so far, and how many there are that may be as good.
fn present_best(tuning: &Tuning) -> String {
    let known = tuning.session().knowledge();
    let Some(set) = EquivalenceSet::new(&known, 0) else { return String::new() };
    let row = known.problem.space.describe(known.problem.row(set.best));
    let words: Vec<String> = row.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("the best is {} and {} that may be as good", words.join(" "), set.members.len() - 1)
}
