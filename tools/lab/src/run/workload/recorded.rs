//! Arrivals that were recorded elsewhere: a file with a JSON object a line, which says when a message is due,
//! how long it is, and who sends it to whom.
//!
//! Slowdown compares a message with the best time of its length, so that there must not be too many lengths.
//! Where a file has more than [`CLASSES_MAX`], those within an eighth of an octave are sent as one: with
//! their mean, so that all together are as long as in the file.

use core::str::FromStr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use farcall::Instant;
use farcall::parameters::quantity::parse_duration;
use farcall_base::Random;
use serde::Deserialize;
use serde_json::Value;

use super::arrivals::Arrival;
use super::{Roles, SizeClass, SizeMix};
use crate::units::Size;

/// The most messages of a file: every rank holds all of them.
pub const MESSAGES_MAX: usize = 1_000_000;

/// The longest line.
pub const LINE_BYTES_MAX: u64 = 4096;

/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The longest time from the first message to the last, as it is replayed.
pub const LASTS_MAX: Duration = Duration::from_secs(3_600);

/// The shortest: a burst within less has no rate that could be a load, and a clock that counts nanoseconds no
/// times for its messages.
pub const LASTS_MIN: Duration = Duration::from_micros(1);

/// The most lengths that are sent as they are.
pub const CLASSES_MAX: usize = 256;

/// Parts of an octave within which lengths are one class where there are more.
const CLASSES_OF_OCTAVE: f64 = 8.0;

/// Messages and when they are due.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    path: PathBuf,
    /// Of the file's text: ranks on other machines must have the same one.
    digest: u64,
    messages: Vec<Message>,
    classes: Vec<SizeClass>,
    bytes: u64,
}

/// A message of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Message {
    /// Since the first one.
    at_nanos: u64,
    /// Its length until the classes are known, and then the number of its class.
    class: u32,
    from: Option<u32>,
    peer: Option<u32>,
}

/// A line as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Seconds, or text with a unit.
    time: Value,
    /// Bytes, or text with a unit.
    size: Value,
    peer: Option<u32>,
    from: Option<u32>,
}

/// Why arrivals cannot be replayed: correct the file, or what is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordedError {
    /// The file cannot be read.
    #[error("{} cannot be read: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
    /// A line is not one of arrivals.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The file as a whole cannot be replayed.
    #[error("{}: {why}", path.display())]
    Whole {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl FromStr for Recorded {
    type Err = RecordedError;

    fn from_str(path: &str) -> Result<Self, RecordedError> {
        Self::load(Path::new(path))
    }
}

impl Recorded {
    /// The messages of a file.
    pub fn load(path: &Path) -> Result<Self, RecordedError> {
        let failed =
            |error: std::io::Error| RecordedError::File { path: path.to_owned(), why: error.to_string() };
        let path = std::path::absolute(path).map_err(failed)?;
        let file = std::fs::File::open(&path).map_err(failed)?;
        Self::read(&path, BufReader::new(file))
    }

    /// The messages of what is read, known by `path`.
    pub fn read(path: &Path, mut text: impl BufRead) -> Result<Self, RecordedError> {
        let (mut messages, mut digest) = (Vec::new(), DefaultHasher::new());
        let (mut line, mut first_nanos) = (Vec::new(), None);
        for number in 1.. {
            line.clear();
            let wrong = |why: String| RecordedError::Line { path: path.to_owned(), line: number, why };
            let failed = |error: std::io::Error| wrong(error.to_string());
            text.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line).map_err(failed)?;
            if line.len() as u64 > LINE_BYTES_MAX {
                return Err(wrong(format!("it is longer than {LINE_BYTES_MAX} bytes")));
            }
            if line.is_empty() {
                break;
            }
            line.hash(&mut digest);
            if line.trim_ascii().is_empty() {
                continue;
            }
            if messages.len() == MESSAGES_MAX {
                return Err(wrong(format!("there are more than {MESSAGES_MAX} messages; cut the file")));
            }
            let mut message = message(&line).map_err(&wrong)?;
            let first = *first_nanos.get_or_insert(message.at_nanos);
            let last = messages.last().map_or(0, |last: &Message| last.at_nanos);
            message.at_nanos =
                message.at_nanos.checked_sub(first).filter(|at| *at >= last).ok_or_else(|| {
                    wrong("its time is before that of the line above; sort the file by time".to_owned())
                })?;
            messages.push(message);
        }
        if messages.last().is_none_or(|last| last.at_nanos == 0) {
            let why = "there are no two messages at different times".to_owned();
            return Err(RecordedError::Whole { path: path.to_owned(), why });
        }
        let bytes = messages.iter().map(|message| u64::from(message.class)).sum();
        let classes = classify(&mut messages);
        Ok(Self { path: path.to_owned(), digest: digest.finish(), messages, classes, bytes })
    }

    /// Refuses what is not this file: another machine may have another one at its path.
    pub(super) fn check_digest(&self, digest: u64) -> Result<(), RecordedError> {
        let why = || "this machine has another file of that name than rank 0's".to_owned();
        let refused = || RecordedError::Whole { path: self.path.clone(), why: why() };
        if self.digest == digest { Ok(()) } else { Err(refused()) }
    }

    /// Refuses messages of or to ranks that there are not, and times that are too long.
    pub fn check(&self, roles: Roles, speed: f64) -> Result<(), RecordedError> {
        let whole = |why: String| RecordedError::Whole { path: self.path.clone(), why };
        self.check_lasts(speed).map_err(whole)?;
        let (ranks, senders) = (roles.receivers() as u32, roles.senders() as u32);
        for (number, message) in self.messages.iter().enumerate() {
            let sender = self.sender_of(number, roles);
            let own = matches!(roles, Roles::Everyone(_)).then_some(sender);
            let why = match (message.from, message.peer) {
                (Some(from), _) if from >= senders => {
                    format!("message {} is sent by {from}, and there are {senders} senders", number + 1)
                }
                (_, Some(peer)) if peer >= ranks => {
                    format!("message {} goes to peer {peer}, and there are {ranks} receivers", number + 1)
                }
                (Some(_), Some(peer)) if own == Some(peer) => {
                    format!("message {} goes from {peer} to itself", number + 1)
                }
                _ => continue,
            };
            return Err(whole(format!("{why}; see --nodes, --clients and --servers")));
        }
        Ok(())
    }

    /// Refuses times that are too long or too short.
    fn check_lasts(&self, speed: f64) -> Result<(), String> {
        let lasts = self.lasts(speed);
        let bound = match lasts {
            _ if lasts > LASTS_MAX => format!("at most {LASTS_MAX:?} are replayed; add --speed"),
            _ if lasts < LASTS_MIN => format!("at least {LASTS_MIN:?} is replayed; ask for less --speed"),
            _ => return Ok(()),
        };
        Err(format!("it lasts {lasts:?} at {speed} times its speed, and {bound}"))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The fingerprint of its text.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// From the first message to the last, replayed this many times as fast.
    pub fn lasts(&self, speed: f64) -> Duration {
        let nanos = self.messages.last().map_or(0, |last| last.at_nanos);
        Duration::from_nanos((nanos as f64 / speed) as u64)
    }

    /// Messages a second of all senders together, replayed this many times as fast.
    pub fn per_second(&self, speed: f64) -> f64 {
        self.messages.len() as f64 / self.lasts(speed).as_secs_f64()
    }

    /// The lengths.
    pub fn mix(&self) -> SizeMix {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        SizeMix::recorded(name, self.classes.clone(), self.bytes as f64 / self.messages.len() as f64)
    }

    /// Who sends a message: senders that are not named take turns.
    fn sender_of(&self, number: usize, roles: Roles) -> u32 {
        let message = self.messages[number];
        let senders = roles.senders();
        message.from.unwrap_or_else(|| {
            let turn = (number % senders) as u32;
            match roles {
                // A message for the one whose turn it is is the next one's.
                Roles::Everyone(_) if message.peer == Some(turn) => (turn + 1) % senders as u32,
                _ => turn,
            }
        })
    }
}

fn message(line: &[u8]) -> Result<Message, String> {
    let Line { time, size, peer, from } =
        serde_json::from_slice(line).map_err(|error| format!("it is no arrival: {error}"))?;
    let (at_nanos, bytes) = (nanos(&time)?, bytes(&size)?);
    if !(1..=MESSAGE_BYTES_MAX).contains(&bytes) {
        let most = Size(MESSAGE_BYTES_MAX);
        return Err(format!("a message of {bytes} bytes is not sent: from 1 byte to {most} are"));
    }
    Ok(Message { at_nanos, class: bytes as u32, from, peer })
}

fn nanos(time: &Value) -> Result<u64, String> {
    let wrong = || format!("{time} is no time: seconds from 0 on, or text such as \"12us\"");
    match time {
        Value::Number(seconds) => {
            let nanos = seconds.as_f64().map(|seconds| seconds * 1e9);
            nanos.filter(|nanos| (0.0..u64::MAX as f64).contains(nanos)).map(|nanos| nanos.round() as u64)
        }
        Value::String(text) => parse_duration(text).ok().and_then(|time| u64::try_from(time.as_nanos()).ok()),
        _ => None,
    }
    .ok_or_else(wrong)
}

fn bytes(size: &Value) -> Result<usize, String> {
    let wrong = || format!("{size} is no size: a whole number of bytes, or text such as \"1K\"");
    match size {
        Value::Number(bytes) => bytes.as_u64().and_then(|bytes| usize::try_from(bytes).ok()),
        Value::String(text) => text.parse::<Size>().ok().map(|size| size.0),
        _ => None,
    }
    .ok_or_else(wrong)
}

/// Puts the numbers of classes in the place of lengths; gives the classes, in order of length.
fn classify(messages: &mut [Message]) -> Vec<SizeClass> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    messages.iter().for_each(|message| *counts.entry(message.class).or_default() += 1);
    let is_exact = counts.len() <= CLASSES_MAX;
    let group_of = |bytes: u32| match is_exact {
        true => bytes,
        false => (f64::from(bytes).log2() * CLASSES_OF_OCTAVE) as u32,
    };
    // Of each group the messages and their bytes.
    let mut groups: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for (&bytes, &count) in &counts {
        let group = groups.entry(group_of(bytes)).or_default();
        *group = (group.0 + count, group.1 + count * u64::from(bytes));
    }
    let numbers: BTreeMap<u32, u32> = groups.keys().copied().zip(0..).collect();
    messages.iter_mut().for_each(|message| message.class = numbers[&group_of(message.class)]);
    let (all, mut before) = (messages.len() as u64, 0);
    let class = |(count, bytes): (u64, u64)| {
        // The tenth that the middle one of them is in.
        let decile = (10 * (2 * before + count) / (2 * all)).min(9) as u8;
        before += count;
        let mean = (bytes as f64 / count as f64).round() as u32;
        SizeClass { bytes: mean, weight: u32::try_from(count).unwrap_or(u32::MAX), decile }
    };
    groups.into_values().map(class).collect()
}

/// The messages of a file that one sender sends.
#[derive(Clone, Debug)]
pub(super) struct Replayed {
    file: Arc<Recorded>,
    speed: f64,
    roles: Roles,
    /// Which sender this is, from 0.
    sender: u32,
    /// The ranks that it sends to.
    receivers: Vec<u32>,
    /// The next message of the file.
    next: usize,
    begun: Instant,
    /// Draws receivers that are not named.
    random: Random,
}

impl Replayed {
    /// The messages of a sender, from `begun` on.
    pub(super) fn new(
        file: &Arc<Recorded>,
        speed: f64,
        roles: Roles,
        rank: u32,
        seed: u64,
        begun: Instant,
    ) -> Self {
        Self {
            file: Arc::clone(file),
            speed,
            roles,
            sender: rank - roles.first_sender(),
            receivers: roles.receivers_of(rank),
            next: 0,
            begun,
            random: Random::new(seed),
        }
    }

    /// The next message; after the last one, one that is never due.
    pub(super) fn next(&mut self) -> Arrival {
        while let Some(message) = self.file.messages.get(self.next) {
            let sender = self.file.sender_of(self.next, self.roles);
            self.next += 1;
            if sender != self.sender {
                continue;
            }
            let nanos = (message.at_nanos as f64 / self.speed) as u64;
            let place = |peer| self.receivers.iter().position(|&rank| rank == peer);
            let receiver = message.peer.and_then(place);
            return Arrival {
                at: Instant::from_nanos(self.begun.as_nanos().saturating_add(nanos)),
                class: message.class as usize,
                receiver: receiver.unwrap_or_else(|| self.random.index(self.receivers.len())),
            };
        }
        Arrival { at: Instant::from_nanos(u64::MAX), class: 0, receiver: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Recorded, String> {
        Recorded::read(Path::new("a.jsonl"), text.as_bytes()).map_err(|error| error.to_string())
    }

    fn replayed(file: &Arc<Recorded>, roles: Roles, rank: u32, speed: f64) -> Vec<(u64, u32, usize)> {
        let mut replayed = Replayed::new(file, speed, roles, rank, 1, Instant::from_nanos(1_000));
        core::iter::repeat_with(|| replayed.next())
            .take_while(|arrival| arrival.at.as_nanos() < u64::MAX)
            .map(|arrival| (arrival.at.as_nanos(), file.classes[arrival.class].bytes, arrival.receiver))
            .collect()
    }

    #[test]
    fn every_sender_sends_its_messages_when_they_are_due_at_the_speed_asked_for() {
        let text = "{\"time\": 5.0, \"size\": 100, \"from\": 1, \"peer\": 0}\n\n\
                    {\"time\": \"5000001us\", \"size\": \"1K\", \"from\": 0, \"peer\": 2}\n\
                    {\"time\": 5.000002, \"size\": 100, \"from\": 1, \"peer\": 2}\n";
        let file = Arc::new(read(text).expect("it is right"));
        let roles = Roles::Everyone(3);
        assert_eq!(file.check(roles, 1.0), Ok(()));
        assert_eq!(file.lasts(2.0), Duration::from_micros(1));
        assert_eq!(replayed(&file, roles, 0, 1.0), [(2_000, 1_024, 1)]);
        assert_eq!(replayed(&file, roles, 1, 2.0), [(1_000, 100, 0), (2_000, 100, 1)]);
        assert!(replayed(&file, roles, 2, 1.0).is_empty());
        assert!((file.mix().mean_bytes() - 408.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_named_is_dealt_to_senders_and_drawn_for_receivers() {
        let lines = (0..1_000).map(|number| format!("{{\"time\": {number}, \"size\": 8}}\n"));
        let file = Arc::new(read(&lines.collect::<String>()).expect("it is right"));
        let roles = Roles::Apart { clients: 4, servers: 2 };
        assert_eq!(file.check(roles, 1.0), Ok(()));
        for rank in 2..6 {
            let messages = replayed(&file, roles, rank, 1.0);
            let first = messages.iter().filter(|message| message.2 == 0).count();
            assert!(messages.len() == 250 && (80..170).contains(&first), "{first} of {}", messages.len());
        }
        let to_all = "{\"time\":0,\"size\":8,\"peer\":0}\n{\"time\":1,\"size\":8,\"peer\":0}\n";
        let file = Arc::new(read(to_all).expect("it is right"));
        let of_rank = |rank| replayed(&file, Roles::Everyone(2), rank, 1.0).len();
        assert_eq!((of_rank(0), of_rank(1)), (0, 2), "no rank sends to itself");
    }

    #[test]
    fn many_lengths_are_sent_with_the_means_of_their_neighbours() {
        let seed = 0xa771;
        println!("seed {seed:#x}");
        let mut random = Random::new(seed);
        let sizes: Vec<u64> = (0..5_000).map(|_| 1 + random.below(100_000)).collect();
        let line = |(number, size): (usize, &u64)| format!("{{\"time\": {number}, \"size\": {size}}}\n");
        let file = read(&sizes.iter().enumerate().map(line).collect::<String>()).expect("it is right");
        assert!(file.classes.len() <= CLASSES_MAX && file.classes.is_sorted_by_key(|class| class.bytes));
        assert!(file.classes.is_sorted_by_key(|class| class.decile));
        let sent: u64 =
            file.messages.iter().map(|one| u64::from(file.classes[one.class as usize].bytes)).sum();
        let written: u64 = sizes.iter().sum();
        assert!((sent as f64 / written as f64 - 1.0).abs() < 1e-3, "{sent} instead of {written}");
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line() {
        let one = "{\"time\": 1, \"size\": 8}\n";
        let long = " ".repeat(LINE_BYTES_MAX as usize + 1);
        let cases = [
            ("", "a.jsonl: there are no two messages at different times"),
            (one, "a.jsonl: there are no two messages at different times"),
            (
                "{\"time\": 1, \"size\": 8, \"port\": 1}",
                "a.jsonl, line 1: it is no arrival: unknown field `port`",
            ),
            ("\n{\"time\": 1}", "a.jsonl, line 2: it is no arrival: missing field `size`"),
            ("{\"time\": -1, \"size\": 8}", "line 1: -1 is no time: seconds from 0 on"),
            ("{\"time\": \"1h\", \"size\": 8}", "line 1: \"1h\" is no time"),
            ("{\"time\": [], \"size\": 8}", "line 1: [] is no time"),
            ("{\"time\": 1, \"size\": 0}", "a message of 0 bytes is not sent: from 1 byte to 64M are"),
            ("{\"time\": 1, \"size\": \"1GiB\"}", "\"1GiB\" is no size: a whole number of bytes"),
            ("{\"time\": 1, \"size\": 1.5}", "line 1: 1.5 is no size"),
            (&long, "line 1: it is longer than 4096 bytes"),
        ];
        for (text, expected) in cases {
            let found = read(text).expect_err(text);
            assert!(found.contains(expected), "{found} instead of {expected}");
        }
        let back = format!("{one}{{\"time\": 0.5, \"size\": 8}}");
        assert!(read(&back).expect_err("it goes back").contains("line 2: its time is before"));
    }

    #[test]
    fn messages_of_ranks_that_there_are_not_are_refused() {
        let check = |line: &str, roles| {
            let file = read(&format!("{line}\n{{\"time\": 2, \"size\": 8}}")).expect("it is right");
            file.check(roles, 1.0).map_err(|error| error.to_string())
        };
        let apart = Roles::Apart { clients: 2, servers: 1 };
        for (line, roles, expected) in [
            ("{\"time\":1,\"size\":8,\"from\":2}", apart, "message 1 is sent by 2, and there are 2 senders"),
            (
                "{\"time\":1,\"size\":8,\"peer\":1}",
                apart,
                "message 1 goes to peer 1, and there are 1 receivers",
            ),
            (
                "{\"time\":1,\"size\":8,\"from\":1,\"peer\":1}",
                Roles::Everyone(2),
                "message 1 goes from 1 to itself",
            ),
        ] {
            let refused = check(line, roles).expect_err(line);
            assert!(refused.contains(expected) && refused.contains("see --nodes"), "{refused}");
        }
        let day = "{\"time\":0,\"size\":8}\n{\"time\":86400,\"size\":8}";
        let file = read(day).expect("it is right");
        assert!(file.check(apart, 1.0).expect_err("a day").to_string().contains("add --speed"));
        assert_eq!(file.check(apart, 24.0), Ok(()));
        let burst = read("{\"time\":0,\"size\":8}\n{\"time\":\"2us\",\"size\":8}").expect("it is right");
        assert_eq!(burst.check(apart, 2.0), Ok(()));
        for speed in [2.1, 1e3, f64::MAX] {
            let refused = burst.check(apart, speed).expect_err("it is over at once").to_string();
            assert!(refused.contains("at least 1µs is replayed; ask for less --speed"), "{refused}");
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic_or_break_its_bounds() {
        let seed = 0x0bad;
        println!("seed {seed:#x}");
        let mut random = Random::new(seed);
        let words: [&[u8]; 12] = [
            b"{\"time\":",
            b"1",
            b"0.5e9",
            b"\"2ms\"",
            b",\"size\":",
            b"\"1K\"",
            b"8",
            b",\"peer\":",
            b",\"from\":",
            b"}",
            b"\n",
            b"\xff",
        ];
        for _ in 0..20_000 {
            let text: Vec<u8> =
                (0..random.index(40)).flat_map(|_| words[random.index(words.len())]).copied().collect();
            if let Ok(file) = Recorded::read(Path::new("fuzz"), &*text) {
                assert!(file.messages.is_sorted_by_key(|message| message.at_nanos));
                assert!(file.messages.iter().all(|message| (message.class as usize) < file.classes.len()));
            }
        }
    }
}
