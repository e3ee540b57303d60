//! Writing a run's folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use super::environment::THROTTLED;
use super::{RESULTS_FILE, RUN_FILE, Run};
use crate::files::{create_new, write_beside};
use crate::groups::ControlGroups;
use crate::record::RecordWriter;
use crate::run::world::World;

/// A run that is being recorded.
pub struct RunFolder {
    path: PathBuf,
    run: Run,
    began: Instant,
    /// Periods in which a quota had been used up before it began.
    throttled_before: Option<u64>,
    results: RecordWriter<File>,
    /// The ranks at which it takes place.
    world: Option<Arc<World>>,
}

/// Why a run cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A run is never written over another: choose another folder, or remove that one.
    #[error("{} is there already and is not empty; choose another folder", .0.display())]
    NotEmpty(PathBuf),
    /// The file system's own reason.
    #[error("cannot write to {}: {error}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl RunFolder {
    /// Refuses a folder that cannot be taken: nothing is made yet.
    pub fn check(path: &Path) -> Result<(), WriteError> {
        match fs::read_dir(path).map(|mut entries| entries.next().is_some()) {
            Ok(true) => Err(WriteError::NotEmpty(path.to_owned())),
            Ok(false) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(WriteError::File { path: path.to_owned(), error }),
        }
    }

    /// Makes the folder, or takes an empty one, and says in it what is being run.
    pub fn create(path: &Path, run: Run) -> Result<Self, WriteError> {
        let failed = |error| WriteError::File { path: path.to_owned(), error };
        Self::check(path)?;
        fs::create_dir_all(path).map_err(failed)?;
        write_run(path, &run).map_err(failed)?;
        let results = create_new(&path.join(RESULTS_FILE)).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            run,
            began: Instant::now(),
            throttled_before: ControlGroups::of_this_process().periods_throttled(),
            results: RecordWriter::new(results),
            world: None,
        })
    }

    /// Says that the run takes place at the ranks of a launcher.
    pub fn at_ranks(&mut self, world: Arc<World>) -> Result<(), WriteError> {
        self.run.ranks = world.ranks().to_vec();
        self.world = Some(world);
        write_run(&self.path, &self.run).map_err(|error| WriteError::File { path: self.path.clone(), error })
    }

    /// Adds a record.
    pub fn record(&mut self, record: &impl Serialize) -> Result<(), WriteError> {
        self.results
            .write(record)
            .map_err(|error| WriteError::File { path: self.path.join(RESULTS_FILE), error })
    }

    /// Says that the run has ended.
    pub fn end(mut self) -> Result<(), WriteError> {
        let throttled = self.throttled_before.zip(ControlGroups::of_this_process().periods_throttled());
        if let Some((before, after)) = throttled {
            let periods = after.saturating_sub(before).to_string();
            self.run.environment.facts.insert(THROTTLED.to_owned(), periods);
        }
        self.run.window_seconds = Some(self.began.elapsed().as_secs_f64());
        self.world = None;
        write_run(&self.path, &self.run).map_err(|error| WriteError::File { path: self.path.clone(), error })
    }
}

impl Drop for RunFolder {
    /// A run that did not end may have lost a rank.
    fn drop(&mut self) {
        if let Some(lost) = self.world.take().and_then(|world| world.lost()) {
            self.run.lost = Some(lost.to_string());
            // What was recorded stays as it is.
            let _ = write_run(&self.path, &self.run);
        }
    }
}

fn write_run(folder: &Path, run: &Run) -> io::Result<()> {
    let text = serde_json::to_string_pretty(run)? + "\n";
    write_beside(&folder.join(RUN_FILE), text.as_bytes())
}
