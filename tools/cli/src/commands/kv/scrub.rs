//! `farcall kv scrub`: whether all copies of the logs of a store are whole, and how they become so again.

use core::time::Duration;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread;

use farcall_base::printable;
use farcall_kv::Client;
use farcall_lab::units::Size;
use farcall_replica::{Damage, Fate, FateCounts, ScrubOutcome};
use serde_json::json;

use super::SCHEMA;
use super::refused::Failed;
use super::way::Connection;
use crate::arguments::kv::KvScrub;
use crate::failure::{Failure, Outcome};
use crate::output::Report;

/// The time between two questions whether a comparison is over.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Compares all copies of the log of each shard, and repairs them if it is to; then it compares them again.
pub fn run(scrub: &KvScrub) -> Result<(), Failure> {
    let connection = Connection::open(&scrub.place)?;
    let client = connection.client()?;
    let mut report = Report::open(scrub.place.json.as_ref())?;
    let (mut before, mut after) = (FateCounts::default(), FateCounts::default());
    let mut alone = Vec::new();
    for shard in 0..client.shards() {
        let replicated = client.replication(shard).wait();
        let replicated = replicated.map_err(|failure| failure.explained(connection.about("")))?.is_some();
        let compare = |repairs| compare(&connection, &client, shard, repairs);
        let (outcome, fates) = compare(scrub.repair)?;
        tell((shard, replicated), (&outcome, fates), &mut report)?;
        if replicated && outcome.replicas == 0 {
            alone.push(shard.to_string());
        }
        before.add_all(fates);
        if fates.of(Fate::Repaired) == 0 {
            after.add_all(fates);
        } else {
            report.line(format_args!("compared again, after the repair:"))?;
            let (outcome, found) = compare(false)?;
            tell((shard, replicated), (&outcome, found), &mut report)?;
            after.add_all(left_after(fates, found));
        }
    }
    verdict(before, after, &alone)
}

/// What is left after a repair, of which a comparison has `found` the rest. What the primary's disk did not
/// take looks as if it could be repaired.
fn left_after(repair: FateCounts, found: FateCounts) -> FateCounts {
    let mut left = FateCounts::default();
    let not_written = repair.of(Fate::NotWritten);
    for fate in Fate::ALL {
        let parts = match fate {
            Fate::Reparable => found.of(fate).saturating_sub(not_written),
            Fate::NotWritten => found.of(fate).max(not_written),
            Fate::Repaired | Fate::Lost | Fate::Unread => found.of(fate),
        };
        left.add(fate, parts);
    }
    left
}

/// What the command says at its end, and its status; the logs of shards that were alone were compared with
/// nothing.
fn verdict(before: FateCounts, after: FateCounts, alone: &[String]) -> Result<(), Failure> {
    let alone = (!alone.is_empty()).then(|| {
        format!(
            "no backup has a whole replica of shard {}, so nothing was compared; `farcall kv status` says what \
             it lacks",
            alone.join(", ")
        )
    });
    let Some((outcome, sentence)) = verdict_on_copies(before, after) else {
        let unreachable = |sentence| Err(Failure::Outcome(Outcome::Unreachable, sentence));
        return alone.map_or(Ok(()), unreachable);
    };
    let sentence = match alone {
        Some(alone) => format!("{sentence}; {alone}"),
        None => sentence,
    };
    Err(Failure::Outcome(outcome, sentence))
}

/// The same of what was compared; `None` if all copies were whole.
fn verdict_on_copies(before: FateCounts, after: FateCounts) -> Option<(Outcome, String)> {
    let sentence = match (before.of(Fate::Repaired), after.of(Fate::Reparable), after.of(Fate::Lost)) {
        _ if after.of(Fate::NotWritten) > 0 => format!(
            "{} parts of logs are whole at backups, and the primaries' disks do not take them: move these shards",
            after.of(Fate::NotWritten)
        ),
        _ if after.of(Fate::Unread) > 0 => format!(
            "of {} parts of logs no copy that was read is whole, and backups failed meanwhile: start them, and \
             ask again",
            after.of(Fate::Unread)
        ),
        (0, 0, 0) => return None,
        (repaired, 0, 0) => {
            let sentence =
                format!("{repaired} damaged parts are whole again; look after the disks they were on");
            return Some((Outcome::Repaired, sentence));
        }
        (_, reparable, 0) => {
            format!("{reparable} parts of logs are damaged, and whole elsewhere: give --repair")
        }
        (.., lost) => format!(
            "{lost} parts of logs are whole at no copy, and nothing was changed there; what the store has can be \
             read: keep it by `farcall kv export`"
        ),
    };
    Some((Outcome::Damaged, sentence))
}

/// Compares all copies of the log of a shard.
fn compare(
    connection: &Connection,
    client: &Client<'_>,
    shard: u32,
    repairs: bool,
) -> Result<(ScrubOutcome, FateCounts), Failure> {
    let run = RandomState::new().build_hasher().finish();
    loop {
        let found = client.scrub(shard, run, repairs).wait();
        match found.map_err(|failure| failure.explained(connection.about("")))? {
            Some(outcome) => return Ok(outcome),
            None => thread::sleep(ASK_AGAIN_AFTER),
        }
    }
}

fn tell(
    (shard, is_replicated): (u32, bool),
    (outcome, fates): (&ScrubOutcome, FateCounts),
    report: &mut Report,
) -> Result<(), Failure> {
    let bytes = Size(outcome.bytes as usize);
    match (is_replicated, outcome.bytes) {
        (true, _) if outcome.replicas == 0 => report.line(format_args!(
            "shard {shard}: compared with nothing, since no backup has a whole replica"
        ))?,
        (true, _) => {
            report.line(format_args!("shard {shard}: {bytes} compared at {} backups", outcome.replicas))?
        }
        (false, 0) => report.line(format_args!("shard {shard}: it has no log"))?,
        (false, _) => {
            report.line(format_args!("shard {shard}: {bytes} read, of which there are no replicas"))?
        }
    }
    for part in &outcome.damage {
        report.line(format_args!("  {}", sentence_of(part)))?;
    }
    let mut unnamed = fates;
    outcome.damage.iter().for_each(|part| unnamed.take(part.fate));
    for fate in Fate::ALL.into_iter().filter(|fate| unnamed.of(*fate) > 0) {
        report.line(format_args!("  and {} more: what was there {}", unnamed.of(fate), words_of(fate)))?;
    }
    let counts: serde_json::Map<_, _> =
        Fate::ALL.into_iter().map(|fate| (name_of(fate).to_owned(), fates.of(fate).into())).collect();
    let parts: Vec<_> = outcome.damage.iter().map(object_of).collect();
    report.object(&json!({
        "schema": SCHEMA,
        "kind": "scrubbed",
        "shard": shard,
        "log_bytes": outcome.bytes,
        "replicas": outcome.replicas,
        "differing": fates.all(),
        "fates": counts,
        "damage": parts,
    }))
}

/// The copies that are damaged, as they are called.
fn copies_of(part: &Damage) -> Vec<String> {
    let here = part.is_here.then(|| "the primary".to_owned());
    here.into_iter().chain(part.backups.iter().map(|backup| printable(backup).into_owned())).collect()
}

fn sentence_of(part: &Damage) -> String {
    let (copies, end) = (copies_of(part).join(" and "), part.at + part.bytes);
    let fate = words_of(part.fate);
    format!("bytes {} to {end} of the log are other ones at {copies}: what was there {fate}", part.at)
}

fn object_of(part: &Damage) -> serde_json::Value {
    let fate = name_of(part.fate);
    json!({ "at": part.at, "bytes": part.bytes, "fate": fate, "primary": part.is_here, "backups": part.backups })
}

/// What became of a part, behind "what was there".
fn words_of(fate: Fate) -> &'static str {
    match fate {
        Fate::Reparable => "can be written again from what is whole elsewhere",
        Fate::Repaired => "was written again from what is whole elsewhere",
        Fate::Lost => "is whole at no copy",
        Fate::NotWritten => "is whole elsewhere, but the primary's disk does not take it",
        Fate::Unread => "is whole at no copy that was read, and a backup failed before its copy was",
    }
}

/// The name of a fate in records.
fn name_of(fate: Fate) -> &'static str {
    match fate {
        Fate::Reparable => "reparable",
        Fate::Repaired => "repaired",
        Fate::Lost => "lost",
        Fate::NotWritten => "not_written",
        Fate::Unread => "unread",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(fates: &[(Fate, u64)]) -> FateCounts {
        let mut counts = FateCounts::default();
        fates.iter().for_each(|(fate, parts)| counts.add(*fate, *parts));
        counts
    }

    fn said(before: FateCounts, after: FateCounts, alone: &[String]) -> (Outcome, String) {
        match verdict(before, after, alone) {
            Err(Failure::Outcome(outcome, sentence)) => (outcome, sentence),
            other => panic!("it says something: {other:?}"),
        }
    }

    #[test]
    fn what_a_disk_does_not_take_is_not_said_to_be_repaired_by_what_was_given() {
        let repair = counts(&[(Fate::Repaired, 3), (Fate::NotWritten, 2)]);
        // Compared again they differ from what is whole elsewhere.
        let after = left_after(repair, counts(&[(Fate::Reparable, 2)]));
        let (outcome, sentence) = said(repair, after, &[]);
        assert_eq!(outcome, Outcome::Damaged);
        assert!(
            sentence.starts_with("2 parts of logs are whole at backups, and the primaries'"),
            "{sentence}"
        );
        let after = left_after(repair, counts(&[(Fate::Reparable, 3)]));
        assert_eq!((after.of(Fate::Reparable), after.of(Fate::NotWritten)), (1, 2), "one more since");
    }

    #[test]
    fn shards_that_were_alone_are_named_whatever_the_others_have() {
        let alone = ["1".to_owned(), "3".to_owned()];
        let none = FateCounts::default();
        assert!(verdict(none, none, &[]).is_ok());
        let (outcome, sentence) = said(none, none, &alone);
        assert_eq!(outcome, Outcome::Unreachable);
        assert!(sentence.starts_with("no backup has a whole replica of shard 1, 3"), "{sentence}");
        let (outcome, sentence) = said(counts(&[(Fate::Repaired, 1)]), none, &alone);
        assert_eq!(outcome, Outcome::Repaired);
        assert!(
            sentence.contains("whole again") && sentence.contains("; no backup has a whole"),
            "{sentence}"
        );
        let (outcome, sentence) = said(none, counts(&[(Fate::Lost, 1)]), &alone);
        assert_eq!(outcome, Outcome::Damaged);
        assert!(sentence.contains("at no copy") && sentence.contains("replica of shard 1, 3"), "{sentence}");
    }
}
