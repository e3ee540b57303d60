//! What `top` reads: the processes that are wanted, as they were and as they are.

use std::collections::{BTreeSet, HashMap};

use super::core_use::{CoreTimes, CoreUse};
use super::history::History;
use crate::arguments::runs::Top;
use crate::commands::processes::sample::Sample;
use crate::commands::processes::{Found, Process, all, one};
use crate::failure::Failure;

/// What the kernel says of a process.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct About {
    pub command: String,
    pub is_stopped: bool,
}

/// What was read, twice, and what is remembered of the readings before.
#[derive(Default)]
pub struct Readings {
    pub before: Vec<Sample>,
    pub after: Vec<Sample>,
    pub history: History,
    /// Of the processes of the last reading.
    pub about: HashMap<u32, About>,
    /// Sentences about processes that are not listed.
    pub left_out: Vec<String>,
    core_times: CoreTimes,
    /// What the cores did between the last two readings.
    pub cores: Vec<CoreUse>,
}

impl Readings {
    /// The first reading. A process that is named must be there and count.
    pub fn first(top: &Top) -> Result<Self, Failure> {
        let mut seen = Self::default();
        let named: BTreeSet<_> = top.processes.iter().map(|pid| *pid as u32).collect();
        if named.is_empty() {
            seen.look(top)?;
        } else {
            let processes = named.into_iter().map(one).collect::<Result<_, _>>()?;
            seen.add(Found { processes, ..Found::default() });
        }
        seen.look_at_cores();
        Ok(seen)
    }

    /// Reads the processes that were named and are still there, or all; a failure when there is none.
    pub fn look(&mut self, top: &Top) -> Result<(), Failure> {
        let named = |process: &u32| top.processes.contains(&u64::from(*process));
        let found = if top.processes.is_empty() {
            all()?
        } else {
            let processes = self.after.iter().map(|sample| sample.pid).filter(named);
            Found { processes: processes.filter_map(|pid| one(pid).ok()).collect(), ..Found::default() }
        };
        if found.processes.is_empty() {
            let nothing = "no process that can be seen from here has farcall counters".to_owned();
            let sentences: Vec<_> = core::iter::once(nothing).chain(found.left_out()).collect();
            return Err(Failure::Run(sentences.join("; ")));
        }
        self.add(found);
        Ok(())
    }

    /// Adds a reading.
    pub fn add(&mut self, found: Found) {
        self.left_out = found.left_out();
        let about = |process: &Process| {
            let about = About { command: process.command_with_number(), is_stopped: process.is_stopped };
            (process.sample.pid, about)
        };
        self.about = found.processes.iter().map(about).collect();
        let now = found.processes.into_iter().map(|process| process.sample).collect();
        self.before = core::mem::replace(&mut self.after, now);
        self.history.add(&self.before, &self.after);
    }

    /// Adds a reading of the machine's cores.
    pub fn look_at_cores(&mut self) {
        let now = CoreTimes::now();
        self.cores = now.uses_since(&self.core_times);
        self.core_times = now;
    }

    /// The processes that were read twice, as they were and as they are.
    pub fn pairs(&self) -> impl Iterator<Item = (&Sample, &Sample)> {
        self.after.iter().filter_map(|now| Some((self.before.iter().find(|then| then.pid == now.pid)?, now)))
    }

    /// What is known of a process of the last reading.
    pub fn command_of(&self, pid: u32) -> &str {
        self.about.get(&pid).map_or("", |about| &about.command)
    }

    /// Whether it does nothing until it is let go on.
    pub fn is_stopped(&self, pid: u32) -> bool {
        self.about.get(&pid).is_some_and(|about| about.is_stopped)
    }
}
