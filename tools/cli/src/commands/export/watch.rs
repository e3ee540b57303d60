//! The processes that are watched: found at each look, kept open, remembered for a while after their end.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use farcall::{CounterReader, Snapshot};

use crate::commands::processes::sample::{Schedule, schedule};
use crate::commands::processes::{program_of, status_of};
use crate::failure::Failure;

/// The most processes that are remembered after their end: each keeps some 64 KiB of the system's memory.
const ENDED_MAX: usize = 256;

/// One process over its life: a number can be given to another one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Life {
    pid: u32,
    /// In the kernel's ticks since it booted.
    started: u64,
}

/// A process whose counter file is open here.
struct Watched {
    reader: CounterReader,
    program: String,
    user: Option<u32>,
    /// Its number in its own PID namespace.
    number_there: u32,
    /// Of the last look at which it ran.
    schedule: Option<Schedule>,
    /// A process between its fork and its program has the file of its parent, and another one a moment later.
    is_owner: bool,
    /// When it was seen to have ended.
    ended: Option<Instant>,
}

/// One process as it is at a look.
#[derive(Debug)]
pub struct Seen {
    pub pid: u32,
    /// Its program, without arguments: those may hold what is nobody's business.
    pub program: String,
    pub user: Option<u32>,
    pub is_up: bool,
    pub schedule: Option<Schedule>,
    pub snapshot: Snapshot,
}

/// What a look found.
#[derive(Debug, Default)]
pub struct Sight {
    /// In the order of their numbers.
    pub processes: Vec<Seen>,
    /// Processes that this user may not look into.
    pub not_allowed: u64,
    /// Processes whose counter files cannot be read: of another version, or damaged.
    pub unreadable: u64,
    /// How long the look took.
    pub took: Duration,
}

/// Everything that is watched.
pub struct Watch {
    lives: HashMap<Life, Watched>,
    remember: Duration,
}

impl Watch {
    /// Remembers ended processes for this long.
    pub fn new(remember: Duration) -> Self {
        Self { lives: HashMap::new(), remember }
    }

    /// Looks for processes that are new or have ended, and reads all.
    pub fn look(&mut self) -> Result<Sight, Failure> {
        let now = Instant::now();
        let mut sight = Sight::default();
        let running = running()?;
        for &life in &running {
            self.note_running(life, &mut sight);
        }
        self.note_ended(&running, now);
        let numbers: Vec<_> = self.lives.values().map(|watched| watched.number_there).collect();
        for (life, watched) in &mut self.lives {
            let Ok(snapshot) = watched.reader.read() else {
                sight.unreadable += 1;
                continue;
            };
            watched.is_owner = u64::from(watched.number_there) == snapshot.owner;
            let is_listed_already =
                !watched.is_owner && numbers.iter().any(|&number| u64::from(number) == snapshot.owner);
            if !is_listed_already {
                sight.processes.push(watched.seen(life.pid, snapshot));
            }
        }
        sight.processes.sort_unstable_by_key(|seen| (seen.pid, seen.is_up));
        // A number that was given away again belongs to the process that has it now.
        sight.processes.reverse();
        sight.processes.dedup_by_key(|seen| seen.pid);
        sight.processes.reverse();
        sight.took = now.elapsed();
        Ok(sight)
    }

    fn note_running(&mut self, life: Life, sight: &mut Sight) {
        if let Some(watched) = self.lives.get_mut(&life).filter(|watched| watched.is_owner) {
            watched.schedule = schedule(life.pid).or(watched.schedule);
            return;
        }
        use farcall::CounterReadError::{NoCounters, NoProcess, NotAllowed};
        match CounterReader::open(life.pid) {
            Ok(reader) => {
                let status = status_of(life.pid);
                let watched = Watched {
                    reader,
                    program: program_of(life.pid).unwrap_or_default(),
                    user: status.user,
                    number_there: status.number_there.unwrap_or(life.pid),
                    schedule: schedule(life.pid),
                    is_owner: true,
                    ended: None,
                };
                self.lives.insert(life, watched);
            }
            Err(NoCounters { .. } | NoProcess { .. }) => {}
            Err(NotAllowed { .. }) => sight.not_allowed += 1,
            Err(_) => sight.unreadable += 1,
        }
    }

    /// Forgets who ended long ago, and the longest ended of too many.
    fn note_ended(&mut self, running: &[Life], now: Instant) {
        for (life, watched) in &mut self.lives {
            if !running.contains(life) {
                watched.ended.get_or_insert(now);
            }
        }
        let mut ended: Vec<_> =
            self.lives.iter().filter_map(|(life, watched)| Some((watched.ended?, *life))).collect();
        ended.sort_unstable_by_key(|(at, life)| (*at, life.started));
        let too_many = ended.len().saturating_sub(ENDED_MAX);
        for (place, (at, life)) in ended.into_iter().enumerate() {
            if place < too_many || now.duration_since(at) >= self.remember {
                self.lives.remove(&life);
            }
        }
    }
}

impl Watched {
    fn seen(&self, pid: u32, snapshot: Snapshot) -> Seen {
        Seen {
            pid,
            program: self.program.clone(),
            user: self.user,
            is_up: self.ended.is_none(),
            schedule: self.schedule,
            snapshot,
        }
    }
}

/// The processes that can be seen from here.
fn running() -> Result<Vec<Life>, Failure> {
    let listing = fs::read_dir("/proc")
        .map_err(|error| Failure::Run(format!("cannot list processes: /proc cannot be read: {error}")))?;
    let numbers = listing.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(numbers.filter_map(|pid| Some(Life { pid, started: started(pid)? })).collect())
}

/// When a process began; `None` of one that has ended and is only waited for.
fn started(pid: u32) -> Option<u64> {
    parse_start(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may hold anything, also parentheses and spaces.
fn parse_start(stat: &str) -> Option<u64> {
    /// Counted from the state, which is the first field behind the name.
    const START: usize = 19;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.clone().next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(START)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_found_behind_any_name_and_the_dead_have_none() {
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        assert_eq!(parse_start(&format!("12 (a) b (c)) S {rest}")), Some(777));
        assert_eq!(parse_start(&format!("12 (a) Z {rest}")), None);
        assert_eq!(parse_start("12 (a"), None);
    }

    #[test]
    fn this_process_is_seen_if_it_counts_and_is_remembered_when_it_has_ended() {
        // What makes this process count.
        farcall::CounterFile::process();
        let mut watch = Watch::new(Duration::from_secs(3600));
        let own = std::process::id();
        let find = |sight: &Sight| sight.processes.iter().find(|seen| seen.pid == own).map(|seen| seen.is_up);
        assert_eq!(find(&watch.look().expect("/proc is there")), Some(true));
        watch.note_ended(&[], Instant::now());
        assert!(watch.lives.values().all(|watched| watched.ended.is_some()));
        watch.remember = Duration::ZERO;
        watch.note_ended(&[], Instant::now());
        assert!(watch.lives.is_empty(), "nothing is remembered for longer than was asked");
    }
}
