//! Cores that were taken away: a process was put on one, and since then somebody has said that it may not use
//! it. It goes on where the kernel puts it, beside others, and slower.

use core::fmt;
use std::fs;

use super::sample::Sample;
use crate::commands::doctor::numbers;

/// The label of the counters that say where a process was placed.
const PLACEMENT: &str = "placement";

/// A process that is not where it was placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The core that it was put on.
    pub core: usize,
    /// Threads that may not use it any more.
    pub threads: usize,
    /// The cores that they may use.
    pub allowed: Vec<usize>,
}

impl Taken {
    /// What was taken from a process; `None` where it was not placed, or is where it was.
    ///
    /// Threads that were started before the process was placed may use other cores too, and are no sign of
    /// anything as long as they may use this one.
    pub fn of(sample: &Sample) -> Option<Self> {
        let placement = sample.group(PLACEMENT)?;
        let core = placement.counters.iter().find(|counter| counter.name == "core")?.value as usize;
        let tasks = fs::read_dir(format!("/proc/{}/task", sample.pid)).ok()?.flatten();
        let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
        Self::of_threads(core, statuses.filter_map(|status| allowed(&status)))
    }

    fn of_threads(core: usize, threads: impl Iterator<Item = Vec<usize>>) -> Option<Self> {
        let mut elsewhere: Vec<_> = threads.filter(|allowed| !allowed.contains(&core)).collect();
        let threads = elsewhere.len();
        Some(Self { core, threads, allowed: elsewhere.pop()? })
    }

    /// What can be done.
    pub const ADVICE: &str =
        "give the core back (taskset -pc, cpuset.cpus), or start it again with FARCALL_CORE on another";
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { core, threads, allowed } = self;
        let (word, verb) = if *threads == 1 { ("thread", "goes") } else { ("threads", "go") };
        let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
        write!(
            f,
            "core {core}, which it was put on, was taken away: {threads} {word} {verb} on at {}",
            allowed.join(", ")
        )
    }
}

/// The cores that a thread may use, by what the kernel says of it.
fn allowed(status: &str) -> Option<Vec<usize>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(numbers(list.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_may_not_use_the_core_any_more_are_counted() {
        let statuses = |lists: &[&str]| {
            let texts = lists.iter().map(|list| format!("Name:\tx\nCpus_allowed_list:\t{list}\n"));
            texts.filter_map(|text| allowed(&text)).collect::<Vec<_>>()
        };
        let of = |lists: &[&str]| Taken::of_threads(3, statuses(lists).into_iter());
        assert_eq!(of(&["3", "0-7"]), None);
        let taken = of(&["0-2,5", "0-7", "5"]).expect("two threads may not");
        assert_eq!((taken.threads, &*taken.allowed), (2, &[5][..]));
        assert!(taken.to_string().ends_with("2 threads go on at 5"), "{taken}");
    }
}
