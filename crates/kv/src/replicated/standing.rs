//! What a primary says of its backups: that it waits for them, that one is lost, that the level is reached
//! again. Each change is said once.

use std::collections::BTreeSet;

use farcall::said::{Kind, Level};
use farcall_base::printable;
use farcall_replica::{MirrorStatus, Place, ReplicaStage, ReplicaStatus};

/// What is said of backups that have a log no longer.
static LOST: Kind = Kind::new(Level::Warning, "backups that were lost");
/// What is said of backups that are waited for, and that have a log.
static BACKED: Kind = Kind::new(Level::Info, "backups that are waited for, or have a log");

/// What is said of registries that do not answer.
static SILENT: Kind = Kind::new(Level::Warning, "registries that do not answer");

/// Looks at a mirror that has no replicas yet before it is said that they are waited for: most starts are
/// over by then.
const QUIET_LOOKS: u32 = 5;

/// What was said last.
#[derive(Debug, Default)]
pub struct Standing {
    /// The replicas that counted when the level was reached last; `None` before it first was.
    reached: Option<Vec<Place>>,
    /// The backups of those that are lost.
    lost: BTreeSet<String>,
    /// Looks before the level was reached first.
    looks: u32,
    /// It was said that the registry does not answer.
    is_silent: bool,
}

/// A change, with its sentence.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Lost(String),
    Backed(String),
    Silent(String),
}

impl Standing {
    /// Says what has changed.
    pub fn look(&mut self, status: &MirrorStatus) {
        for change in self.changes(status) {
            match change {
                Change::Lost(sentence) => LOST.say(sentence),
                Change::Backed(sentence) => BACKED.say(sentence),
                Change::Silent(sentence) => SILENT.say(sentence),
            }
        }
    }

    fn changes(&mut self, status: &MirrorStatus) -> Vec<Change> {
        let mut changes = self.changes_of_backups(status);
        changes.extend(self.change_of_registry(status));
        changes
    }

    /// That the registry does not answer, and that it does again: each once.
    fn change_of_registry(&mut self, status: &MirrorStatus) -> Option<Change> {
        let shard = status.record.log.shard;
        let was_silent = core::mem::replace(&mut self.is_silent, status.silence.is_some());
        match &status.silence {
            Some(silence) if !was_silent => Some(Change::Silent(format!(
                "shard {shard}: {silence}; once the lease is over reads and writes are refused until it does"
            ))),
            None if was_silent => Some(Change::Silent(format!("shard {shard}: the registry answers again"))),
            _ => None,
        }
    }

    fn changes_of_backups(&mut self, status: &MirrorStatus) -> Vec<Change> {
        let holding = counting(&status.replicas);
        let shard = status.record.log.shard;
        match (&status.trouble, self.reached.take()) {
            (Some(trouble), None) => {
                self.looks = self.looks.saturating_add(1);
                let backups = match status.record.wanted {
                    1 => "a backup that takes".to_owned(),
                    wanted => format!("{wanted} backups that take"),
                };
                let sentence = format!("shard {shard} waits for {backups} its log: {trouble}");
                (self.looks == QUIET_LOOKS).then_some(Change::Backed(sentence)).into_iter().collect()
            }
            (Some(trouble), Some(before)) => {
                let gone = missing(&before, &holding);
                self.reached = Some(before);
                let is_new = |backup: &String| self.lost.insert(backup.clone());
                let new: Vec<String> = gone.into_iter().filter(is_new).collect();
                let lost = |backup: &String| {
                    Change::Lost(format!(
                        "shard {shard} has lost the backup {}: {trouble}; writes wait for another one",
                        printable(backup)
                    ))
                };
                new.iter().map(lost).collect()
            }
            (None, before) => {
                let sentence = self.reached_again(before.as_deref(), &holding);
                self.reached = Some(holding);
                self.lost.clear();
                sentence.map(|words| Change::Backed(format!("shard {shard}: {words}"))).into_iter().collect()
            }
        }
    }

    /// What is said where the level is reached, if something is.
    fn reached_again(&self, before: Option<&[Place]>, holding: &[Place]) -> Option<String> {
        let Some(before) = before else {
            let backups: Vec<_> = holding.iter().map(|place| printable(&place.backup)).collect();
            let was_said = self.looks >= QUIET_LOOKS;
            return was_said.then(|| format!("its log is at {} now", backups.join(" and ")));
        };
        if before == holding {
            return None;
        }
        let (gone, come) = (missing(before, holding), missing(holding, before));
        if gone.is_empty() && come.is_empty() {
            let again = holding.iter().filter(|place| !before.contains(place));
            let again: Vec<_> = again.map(|place| printable(&place.backup)).collect();
            return Some(format!("its log is at {} again", again.join(" and ")));
        }
        Some(format!("its log is at {} in place of {}", named(&come), named(&gone)))
    }
}

/// The replicas that have everything and are recorded.
fn counting(replicas: &[ReplicaStatus]) -> Vec<Place> {
    let counts = |replica: &&ReplicaStatus| replica.stage == ReplicaStage::Whole && replica.is_recorded;
    let place = |replica: &ReplicaStatus| Place { backup: replica.backup.clone(), replica: replica.replica };
    let mut places: Vec<Place> = replicas.iter().filter(counts).map(place).collect();
    places.sort();
    places
}

/// The backups of places of which the others have none.
fn missing(places: &[Place], others: &[Place]) -> Vec<String> {
    let is_missing = |place: &&Place| others.iter().all(|other| other.backup != place.backup);
    places.iter().filter(is_missing).map(|place| place.backup.clone()).collect()
}

fn named(backups: &[String]) -> String {
    match backups {
        [] => "none".to_owned(),
        backups => backups.iter().map(|backup| printable(backup)).collect::<Vec<_>>().join(" and "),
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use farcall_replica::{LogId, Record};

    use super::*;

    /// What a mirror of two replicas says that has these, by their backups and numbers.
    fn status(replicas: &[(&str, u64)]) -> MirrorStatus {
        let of = |&(backup, replica): &(&str, u64)| ReplicaStatus {
            backup: backup.to_owned(),
            replica,
            stage: ReplicaStage::Whole,
            is_recorded: true,
            behind_bytes: 0,
        };
        let record = Record {
            log: LogId { store: 1, shard: 3 },
            shards: 4,
            epoch: 2,
            primary: "p:1".to_owned(),
            incarnation: 1,
            beat: 1,
            lease: Duration::from_secs(2),
            own: 0,
            wanted: 2,
            flushed: false,
            replicas: Vec::new(),
        };
        let trouble = (replicas.len() < 2).then(|| format!("{} of 2 replicas are whole", replicas.len()));
        MirrorStatus {
            record,
            replicas: replicas.iter().map(of).collect(),
            bytes: 0,
            lease_left: Duration::ZERO,
            trouble,
            silence: None,
            writes: 0,
            written_bytes: 0,
            failures: 0,
        }
    }

    #[test]
    fn each_change_is_said_once() {
        let mut standing = Standing::default();
        let mut look = |replicas: &[(&str, u64)]| {
            let first = standing.changes(&status(replicas));
            assert_eq!(standing.changes(&status(replicas)), [], "said once");
            first
        };
        let lost = |words: &str| vec![Change::Lost(words.to_owned())];
        let backed = |words: &str| vec![Change::Backed(words.to_owned())];
        assert_eq!(look(&[("a", 1), ("b", 2)]), [], "a start that waits for nobody says nothing");
        let sentence =
            "shard 3 has lost the backup b: 1 of 2 replicas are whole; writes wait for another one";
        assert_eq!(look(&[("a", 1)]), lost(sentence));
        assert_eq!(look(&[("a", 1), ("b", 3)]), backed("shard 3: its log is at b again"));
        assert_eq!(look(&[("a", 1), ("c", 4)]), backed("shard 3: its log is at c in place of b"));
        assert_eq!(look(&[]).len(), 2, "both are lost");
        assert_eq!(look(&[("a", 5)]), [], "it is not enough");
        let sentence = "shard 3: its log is at d and e in place of a and c";
        assert_eq!(look(&[("d", 6), ("e", 7)]), backed(sentence));
    }

    #[test]
    fn a_registry_that_is_silent_is_said_once_and_that_it_is_back() {
        let mut standing = Standing::default();
        let mut look = |silence: Option<&str>| {
            let whole = status(&[("a", 1), ("b", 2)]);
            standing.changes(&MirrorStatus { silence: silence.map(str::to_owned), ..whole })
        };
        assert_eq!(look(None), []);
        let said = look(Some("the registry at r does not answer: no"));
        assert!(
            matches!(&said[..], [Change::Silent(words)] if words.starts_with("shard 3: the registry at r"))
        );
        assert_eq!(look(Some("the registry at r does not answer: why")), [], "said once");
        assert_eq!(look(None), [Change::Silent("shard 3: the registry answers again".to_owned())]);
        assert_eq!(look(None), []);
    }

    #[test]
    fn a_start_that_waits_says_so_and_when_it_is_over() {
        let mut standing = Standing::default();
        let mut look = |replicas: &[(&str, u64)]| standing.changes(&status(replicas));
        (1..QUIET_LOOKS).for_each(|_| assert_eq!(look(&[]), [], "most are over soon"));
        let waits = "shard 3 waits for 2 backups that take its log: 0 of 2 replicas are whole";
        assert_eq!(look(&[]), [Change::Backed(waits.to_owned())]);
        assert_eq!(look(&[("a", 1)]), []);
        let over = "shard 3: its log is at a and b now";
        assert_eq!(look(&[("a", 1), ("b", 2)]), [Change::Backed(over.to_owned())]);
    }
}
