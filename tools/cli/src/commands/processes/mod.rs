//! The processes of this machine that count: found, named and read, without their help.
//!
//! Only what `/proc` shows can be found: processes of this process's own PID namespace and of those below it,
//! and the files of those that this user may look into.

pub mod change;
pub mod cores;
pub mod sample;

use std::fs;
use std::path::Path;
use std::time::Instant;

use farcall::CounterReadError;
use farcall_base::printable;

use crate::failure::Failure;
use sample::Sample;

/// The longest command that is read, in characters, and the longest that a line of text shows: workers are
/// told what to do in one long argument.
const COMMAND_CHARS_MAX: usize = 4096;
const SHOWN_CHARS_MAX: usize = 120;

/// What a process that this program starts again is called by: the link to itself.
const SELF_LINK: &str = "/proc/self/exe";

/// What is said of a process that does nothing until it is let go on.
pub const STOPPED: &str = "stopped";

/// A process with counters.
pub struct Process {
    pub sample: Sample,
    /// Its number in its own PID namespace.
    pub number_there: u32,
    /// The user that it runs as.
    pub user: Option<u32>,
    /// Whether a signal or a debugger holds it: it does nothing until it is let go on.
    pub is_stopped: bool,
    pub command: String,
}

impl Process {
    fn of(sample: Sample, command: String) -> Self {
        let status = status_of(sample.pid);
        Self {
            number_there: status.number_there.unwrap_or(sample.pid),
            user: status.user,
            is_stopped: status.is_stopped,
            sample,
            command,
        }
    }

    /// Its command, with its number in its own PID namespace before it where that is another one.
    pub fn command_with_number(&self) -> String {
        let Self { sample, number_there, command, .. } = self;
        if *number_there == sample.pid {
            command.clone()
        } else {
            format!("({number_there} inside) {command}")
        }
    }
}

/// What looking at every process found.
#[derive(Default)]
pub struct Found {
    /// In the order of their numbers.
    pub processes: Vec<Process>,
    /// How many may not be looked into, because they are other users'.
    pub not_allowed: usize,
    /// Processes whose counters this program cannot read, each with the reason.
    pub unreadable: Vec<(u32, String)>,
}

impl Found {
    /// A sentence for each process that is not among them though it may count, and one for those of other
    /// users.
    pub fn left_out(&self) -> Vec<String> {
        let unreadable = self.unreadable.iter();
        let mut said: Vec<_> =
            unreadable.map(|(pid, why)| format!("process {pid} is left out: {why}")).collect();
        if self.not_allowed > 0 {
            let count = self.not_allowed;
            said.push(format!("{count} processes of other users were not looked into; root sees all"));
        }
        said
    }
}

/// All processes with counters that can be seen from here.
pub fn all() -> Result<Found, Failure> {
    let listing = fs::read_dir("/proc")
        .map_err(|error| Failure::Run(format!("cannot list processes: /proc cannot be read: {error}")))?;
    let mut found = Found::default();
    for entry in listing.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        look_at(pid, &mut found);
    }
    found.processes.sort_unstable_by_key(|process| process.sample.pid);
    drop_forked(&mut found.processes);
    Ok(found)
}

fn look_at(pid: u32, found: &mut Found) {
    // Threads of the kernel and processes that have ended have none.
    let Some(command) = command_of(pid) else { return };
    match Sample::read(pid, Instant::now()) {
        Ok(sample) => found.processes.push(Process::of(sample, command)),
        // It has no counters, or ended a moment ago.
        Err(CounterReadError::NoCounters { .. } | CounterReadError::NoProcess { .. }) => {}
        Err(CounterReadError::NotAllowed { .. }) => found.not_allowed += 1,
        Err(_) if !Path::new(&format!("/proc/{pid}")).exists() => {}
        Err(error) => found.unreadable.push((pid, error.to_string())),
    }
}

/// A process that was forked and runs no other program has its parent's counters open: they are the
/// parent's, as long as that is there.
fn drop_forked(processes: &mut Vec<Process>) {
    let owners: Vec<u64> = processes
        .iter()
        .filter(|process| u64::from(process.number_there) == process.sample.snapshot.owner)
        .map(|process| process.sample.snapshot.owner)
        .collect();
    processes.retain(|process| {
        let owner = process.sample.snapshot.owner;
        u64::from(process.number_there) == owner || !owners.contains(&owner)
    });
}

/// One process that counts.
pub fn one(pid: u32) -> Result<Process, Failure> {
    let sample = read(pid)?;
    Ok(Process::of(sample, command_of(pid).unwrap_or_default()))
}

/// The counters of one process; without any the sentence names those of its children that have some.
pub fn read(pid: u32) -> Result<Sample, Failure> {
    Sample::read(pid, Instant::now()).map_err(|error| match error {
        CounterReadError::NoCounters { .. } => match children_that_count(pid).as_slice() {
            [] => Failure::run(error),
            [child] => Failure::Run(format!("{error}; its child {child} has")),
            children => {
                let numbers: Vec<_> = children.iter().map(u32::to_string).collect();
                Failure::Run(format!("{error}; its children {} have", numbers.join(", ")))
            }
        },
        error => Failure::run(error),
    })
}

fn children_that_count(parent: u32) -> Vec<u32> {
    let processes = all().map_or_else(|_| Vec::new(), |found| found.processes);
    let numbers = processes.iter().map(|process| process.sample.pid);
    numbers.filter(|&pid| status_of(pid).parent == Some(parent)).collect()
}

/// What the kernel says of a process.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub parent: Option<u32>,
    pub user: Option<u32>,
    /// Its number in its own PID namespace.
    pub number_there: Option<u32>,
    /// Whether a signal or a debugger holds it.
    pub is_stopped: bool,
}

/// Nothing is known of a process that has ended.
pub fn status_of(pid: u32) -> Status {
    parse_status(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default())
}

fn parse_status(text: &str) -> Status {
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let first = |name| of(name)?.split_whitespace().next()?.parse().ok();
    Status {
        parent: first("PPid"),
        user: first("Uid"),
        // From the namespace of the reader down to its own.
        number_there: of("NSpid").and_then(|numbers| numbers.split_whitespace().last()?.parse().ok()),
        is_stopped: of("State").is_some_and(|state| state.trim_start().starts_with(['T', 't'])),
    }
}

/// The command line, as people would have written it; `None` where there is none.
fn command_of(pid: u32) -> Option<String> {
    let line = command_line(pid)?;
    let mut words = words(&line);
    let command = words.next().map(|program| name_of(pid, program))?;
    let command = words.fold(command, |command, word| format!("{command} {word}"));
    Some(cut(&printable(&command), COMMAND_CHARS_MAX))
}

/// The name of its program alone.
pub fn program_of(pid: u32) -> Option<String> {
    let line = command_line(pid)?;
    Some(shortened(&printable(&name_of(pid, words(&line).next()?))))
}

fn command_line(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(String::from_utf8_lossy(&line).into_owned())
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('\0').filter(|word| !word.is_empty())
}

fn name_of(pid: u32, program: &str) -> String {
    let link = (program == SELF_LINK).then(|| fs::read_link(format!("/proc/{pid}/exe")).ok()).flatten();
    let path = link.as_deref().unwrap_or(Path::new(program));
    path.file_name().map_or(program.into(), |name| name.to_string_lossy()).into_owned()
}

/// A command, as a line of text shows it.
pub fn shortened(command: &str) -> String {
    cut(command, SHOWN_CHARS_MAX)
}

fn cut(command: &str, chars_max: usize) -> String {
    match command.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use farcall::Snapshot;

    fn process(pid: u32, number_there: u32, owner: u64) -> Process {
        let snapshot = Snapshot { owner, unlisted_groups: 0, groups: Vec::new() };
        let sample = Sample { pid, at: Instant::now(), snapshot, schedule: None };
        Process { sample, number_there, user: Some(0), is_stopped: false, command: String::new() }
    }

    #[test]
    fn the_kernels_words_give_parent_user_and_the_number_in_the_innermost_namespace() {
        let text =
            "Name:\tx\nState:\tT (stopped)\nPid:\t77\nPPid:\t7\nUid:\t1000\t0\t0\t0\nNSpid:\t77\t12\t1\n";
        let expected = Status { parent: Some(7), user: Some(1000), number_there: Some(1), is_stopped: true };
        assert_eq!(parse_status(text), expected);
        assert_eq!(parse_status(""), Status::default());
    }

    #[test]
    fn forked_processes_are_their_parents_counters_again() {
        let mut processes = vec![process(10, 10, 10), process(11, 11, 10), process(20, 1, 1)];
        drop_forked(&mut processes);
        let left: Vec<_> = processes.iter().map(|process| process.sample.pid).collect();
        assert_eq!(
            left,
            [10, 20],
            "the child has its parent's file; a container's first process has its own"
        );
        let mut orphan = vec![process(11, 11, 10)];
        drop_forked(&mut orphan);
        assert_eq!(orphan.len(), 1, "without the parent the file is seen through the child only");
    }

    #[test]
    fn a_command_is_one_line_whatever_its_arguments_are() {
        let mut reader = Command::new("sh");
        reader.args(["-c", "read line", "x\n 1 root"]).stdin(Stdio::piped());
        let mut reader = reader.spawn().expect("a shell");
        // For a moment the kernel shows no arguments of a new process.
        let shown = core::iter::repeat_with(|| command_of(reader.id())).find(Option::is_some).flatten();
        reader.kill().and_then(|()| reader.wait()).expect("it is ours");
        assert_eq!(shown.as_deref(), Some("sh -c read line x\\u{a} 1 root"));
    }

    #[test]
    fn long_commands_are_cut() {
        assert_eq!(shortened("farcall kv serve"), "farcall kv serve");
        assert_eq!(shortened(&"ä".repeat(200)).chars().count(), SHOWN_CHARS_MAX + 1);
    }
}
