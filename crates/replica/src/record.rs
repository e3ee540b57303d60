//! The record of a log in the registry: who its primary is, in which epoch, and where its replicas are.
//!
//! It is text, for people who look at it, and ends with a checksum, for processes that do. Every change goes
//! from one revision to the next by compare and set, so that two processes can never both believe that theirs
//! counts.

use core::fmt::Write;
use core::time::Duration;

use crate::message::LogId;

/// What the first line of a record says.
const TITLE: &str = "farcall-kv-shard 1";

/// The number of a replica is the epoch that its primary has claimed and, in these lowest bits, the how
/// many-th replica of that primary it is: with ten failures a second they last for thirteen years.
const REPLICAS_BITS: u32 = 32;

/// An epoch is below this, so that the one behind it can be told from it in the numbers of replicas.
const EPOCHS_MAX: u64 = u64::MAX >> REPLICAS_BITS;

/// A replica, by its number and the address of its backup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Where the backup is.
    pub backup: String,
    /// The number of the replica.
    pub replica: u64,
}

/// The record of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The log.
    pub log: LogId,
    /// How many shards the store has.
    pub shards: u32,
    /// Rises with every primary and with every change of the replicas.
    pub epoch: u64,
    /// Where the primary is.
    pub primary: String,
    /// The incarnation of the primary: a process that is started again is another one.
    pub incarnation: u64,
    /// Rises as long as the primary lives: one that stands still for the lease has lost it.
    pub beat: u64,
    /// How long a primary may answer without renewing.
    pub lease: Duration,
    /// The image on the primary's own disk, by its number; 0 for none.
    pub own: u64,
    /// How many replicas every acknowledged write has.
    pub wanted: u32,
    /// Whether they are flushed.
    pub flushed: bool,
    /// The replicas that have every acknowledged write.
    pub replicas: Vec<Place>,
}

impl Record {
    /// Under which key the registry has it.
    pub fn key(shard: u32) -> String {
        format!("shard-{shard}")
    }

    /// The text.
    pub fn encode(&self) -> Vec<u8> {
        let Self { log: LogId { store, shard }, shards, epoch, primary, incarnation, beat, .. } = self;
        let mut text = String::new();
        let mut line = |line: core::fmt::Arguments<'_>| {
            writeln!(text, "{line}").expect("text takes any length");
        };
        line(format_args!("{TITLE}"));
        line(format_args!("store {store:016x}"));
        line(format_args!("shard {shard} {shards}"));
        line(format_args!("epoch {epoch}"));
        line(format_args!("primary {primary} {incarnation:016x}"));
        line(format_args!("beat {beat}"));
        line(format_args!("lease_ms {}", self.lease.as_millis()));
        line(format_args!("own {:016x}", self.own));
        line(format_args!("wanted {} {}", self.wanted, u8::from(self.flushed)));
        for Place { backup, replica } in &self.replicas {
            line(format_args!("replica {backup} {replica:016x}"));
        }
        let crc = crc32c::crc32c(text.as_bytes());
        writeln!(text, "crc {crc:08x}").expect("text takes any length");
        text.into_bytes()
    }

    /// Below the numbers of all replicas that a primary makes which has claimed this record, and not below
    /// those of earlier ones: the numbers of a log's replicas rise.
    pub fn first_replica(&self) -> u64 {
        self.epoch << REPLICAS_BITS
    }

    /// Whether it names replicas, and all were made by primaries that had claimed the log before an epoch.
    pub fn is_from_before(&self, epoch: u64) -> bool {
        let is_before = |place: &Place| place.replica >> REPLICAS_BITS < epoch;
        !self.replicas.is_empty() && self.replicas.iter().all(is_before)
    }

    /// Reads the text; `None` if it is damaged, or of another version.
    pub fn decode(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        let (body, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let crc = u32::from_str_radix(last.strip_prefix("crc ")?, 16).ok()?;
        if crc32c::crc32c(&text.as_bytes()[..body.len() + 1]) != crc {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let mut words = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let store = hex(words("store")?)?;
        let (shard, shards) = words("shard")?.split_once(' ')?;
        let epoch = words("epoch")?.parse().ok().filter(|epoch| *epoch < EPOCHS_MAX)?;
        let (primary, incarnation) = words("primary")?.split_once(' ')?;
        let beat = words("beat")?.parse().ok().filter(|beat| *beat < u64::MAX)?;
        let lease = Duration::from_millis(words("lease_ms")?.parse().ok()?);
        let own = hex(words("own")?)?;
        let (wanted, flushed) = words("wanted")?.split_once(' ')?;
        let replicas = lines.map(|line| {
            let (backup, replica) = line.strip_prefix("replica ")?.split_once(' ')?;
            Some(Place { backup: backup.to_owned(), replica: hex(replica)? })
        });
        Some(Self {
            log: LogId { store, shard: shard.parse().ok()? },
            shards: shards.parse().ok()?,
            epoch,
            primary: primary.to_owned(),
            incarnation: hex(incarnation)?,
            beat,
            lease,
            own,
            wanted: wanted.parse().ok()?,
            flushed: flushed == "1",
            replicas: replicas.collect::<Option<_>>()?,
        })
    }
}

/// A backup, as it says that it is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupEntry {
    /// Where it is.
    pub at: String,
    /// What it may be lost with: no two replicas of a log lie in one domain.
    pub domain: String,
    /// Whether it has a disk.
    pub has_disk: bool,
}

impl BackupEntry {
    /// What keys of backups begin with.
    pub const PREFIX: &'static str = "backup-";

    /// Under which key the registry has it.
    pub fn key(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
        format!("{}{}", Self::PREFIX, self.at.chars().map(plain).collect::<String>())
    }

    /// The text.
    pub fn encode(&self) -> Vec<u8> {
        let Self { at, domain, has_disk } = self;
        format!("farcall-kv-backup 1\nat {at}\ndomain {domain}\ndisk {}\n", u8::from(*has_disk)).into_bytes()
    }

    /// Reads the text; `None` if it is something else.
    pub fn decode(text: &[u8]) -> Option<Self> {
        let mut lines = core::str::from_utf8(text).ok()?.lines();
        if lines.next()? != "farcall-kv-backup 1" {
            return None;
        }
        let mut word = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
        Some(Self { at: word("at")?, domain: word("domain")?, has_disk: word("disk")? == "1" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let place = |backup: &str, replica| Place { backup: backup.to_owned(), replica };
        Record {
            log: LogId { store: 0xfeed, shard: 2 },
            shards: 3,
            epoch: 9,
            primary: "127.0.0.1:7117".to_owned(),
            incarnation: 0xabc,
            beat: 12,
            lease: Duration::from_millis(2000),
            own: 5,
            wanted: 2,
            flushed: true,
            replicas: vec![place("127.0.0.1:7201", 1), place("[::1]:7202", u64::MAX)],
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_damage_is_noticed() {
        let text = record().encode();
        assert_eq!(Record::decode(&text), Some(record()));
        for at in 0..text.len() {
            let mut damaged = text.clone();
            damaged[at] ^= 1;
            assert_eq!(Record::decode(&damaged), None, "byte {at}");
            assert_eq!(Record::decode(&text[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn a_record_that_nobody_could_follow_is_none() {
        let last = Record { epoch: EPOCHS_MAX - 1, beat: u64::MAX - 1, ..record() };
        assert_eq!(Record::decode(&last.encode()), Some(last.clone()));
        for beyond in [Record { epoch: EPOCHS_MAX, ..last.clone() }, Record { beat: u64::MAX, ..last }] {
            assert_eq!(Record::decode(&beyond.encode()), None);
        }
    }

    #[test]
    fn replicas_say_whose_they_are() {
        let mut record = record();
        let numbers = [5 << REPLICAS_BITS | 1, 7 << REPLICAS_BITS | 9];
        record.replicas.iter_mut().zip(numbers).for_each(|(place, number)| place.replica = number);
        assert!(record.is_from_before(8) && !record.is_from_before(7));
        record.replicas.clear();
        assert!(!record.is_from_before(8), "it names none");
    }

    #[test]
    fn a_backup_is_read_as_it_was_written() {
        let entry = BackupEntry { at: "[::1]:7201".to_owned(), domain: "rack 1".to_owned(), has_disk: true };
        assert_eq!(BackupEntry::decode(&entry.encode()), Some(entry.clone()));
        assert_eq!(BackupEntry::decode(b"something else"), None);
        assert_eq!(entry.key(), "backup-___1__7201");
    }
}
