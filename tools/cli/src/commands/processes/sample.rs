//! One reading of a process: its counters, and what the kernel says of its time.

use std::fs;
use std::time::Instant;

use farcall::{CounterFile, CounterReadError, GroupSnapshot, Snapshot};

/// What a process had counted at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    pub pid: u32,
    pub at: Instant,
    pub snapshot: Snapshot,
    pub schedule: Option<Schedule>,
}

/// What the kernel counts of a process's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Time on a core, in nanoseconds.
    pub ran_nanos: u64,
    /// Time ready to run, without a core.
    pub waited_nanos: u64,
}

impl Sample {
    /// Reads a process now.
    pub fn read(pid: u32, at: Instant) -> Result<Self, CounterReadError> {
        Ok(Self { pid, at, snapshot: CounterFile::open_process(pid)?, schedule: schedule(pid) })
    }

    /// The group of that label; the first where several parts of an endpoint have it.
    pub fn group(&self, label: &str) -> Option<&GroupSnapshot> {
        self.snapshot.groups.iter().find(|group| group.label == label)
    }

    /// The same part's group at another time: a transport and its endpoint have one label, and different
    /// counters.
    pub fn same_group(&self, as_then: &GroupSnapshot) -> Option<&GroupSnapshot> {
        let is_same = |group: &&GroupSnapshot| {
            let names = group.counters.iter().map(|counter| &counter.name);
            group.label == as_then.label && names.eq(as_then.counters.iter().map(|counter| &counter.name))
        };
        self.snapshot.groups.iter().find(is_same)
    }
}

/// Adds up the threads of a process; `None` where the kernel does not tell.
pub fn schedule(pid: u32) -> Option<Schedule> {
    let mut sum = Schedule::default();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // A thread may end while its process is read.
        let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
        let (ran, waited) = parse(&text)?;
        sum.ran_nanos += ran;
        sum.waited_nanos += waited;
    }
    Some(sum)
}

fn parse(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Counters as a test wants them.
#[cfg(test)]
pub mod testing {
    use farcall::{CounterSnapshot, GroupSnapshot};

    /// A group of these counters, without units and sentences.
    pub fn group(label: &str, counters: &[(&str, u64)]) -> GroupSnapshot {
        let counter = |&(name, value): &(&str, u64)| CounterSnapshot {
            name: name.to_owned(),
            unit: String::new(),
            doc: String::new(),
            value,
        };
        GroupSnapshot { label: label.to_owned(), counters: counters.iter().map(counter).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_account_of_this_process_grows() {
        assert_eq!(parse("123 45 6\n"), Some((123, 45)));
        assert_eq!(parse("nothing"), None);
        let before = schedule(std::process::id());
        let busy = (0..2_000_000_u64).fold(0, |sum, number| sum ^ number.wrapping_mul(sum | 1));
        let after = schedule(std::process::id());
        if let (Some(before), Some(after)) = (before, after) {
            assert!(after.ran_nanos > before.ran_nanos, "{busy}");
        }
    }
}
