//! What a shard says of its replicas.

use core::time::Duration;

use farcall_replica::{Damage, Fate, FateCounts, MirrorStatus, ReplicaStage, ReplicaStatus, ScrubOutcome};

use super::fields::{Fields, Malformed};
use crate::durable::Level;

/// The replicas of a shard's log, as its primary sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication {
    /// The epoch.
    pub epoch: u64,
    /// What every acknowledged write of its durable tables survives at least.
    pub level: Level,
    /// Bytes of the log's image.
    pub bytes: u64,
    /// What is left of the primary's lease.
    pub lease_left: Duration,
    /// Writes of the log so far, and their bytes.
    pub writes: u64,
    /// See there.
    pub written_bytes: u64,
    /// Replicas that have failed.
    pub failures: u64,
    /// The replicas.
    pub replicas: Vec<ReplicaStatus>,
    /// Why the level is not reached now; empty while it is.
    pub trouble: String,
}

const STAGE_BEGINNING: u8 = 0;
const STAGE_COPYING: u8 = 1;
const STAGE_WHOLE: u8 = 2;

impl Replication {
    /// What a mirror says.
    pub fn of(status: MirrorStatus) -> Self {
        let trouble = trouble_of(&status).unwrap_or_default();
        let MirrorStatus { record, replicas, bytes, lease_left, writes, written_bytes, failures, .. } =
            status;
        let replicated = Level::Replicated { replicas: record.wanted as u8, flushed: record.flushed };
        Self {
            epoch: record.epoch,
            level: replicated,
            bytes,
            lease_left,
            writes,
            written_bytes,
            failures,
            replicas,
            trouble,
        }
    }

    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = vec![self.level.to_wire(), self.replicas.len() as u8];
        let lease_left_us = u64::try_from(self.lease_left.as_micros()).unwrap_or(u64::MAX);
        let numbers = [self.epoch, self.bytes, lease_left_us, self.writes, self.written_bytes, self.failures];
        numbers.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
        for replica in &self.replicas {
            let (stage, copied) = match replica.stage {
                ReplicaStage::Beginning => (STAGE_BEGINNING, 0),
                ReplicaStage::Copying(copied) => (STAGE_COPYING, copied),
                ReplicaStage::Whole => (STAGE_WHOLE, 0),
            };
            to.extend_from_slice(&[stage, u8::from(replica.is_recorded)]);
            let numbers = [replica.replica, copied, replica.behind_bytes];
            numbers.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
            put_text(&replica.backup, &mut to);
        }
        to.extend_from_slice(self.trouble.as_bytes());
        to
    }

    /// Reads it from a message.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(message);
        let level = Level::from_wire(fields.u8()?).ok_or(Malformed)?;
        let count = fields.u8()?;
        let (epoch, bytes, lease_left_us) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (writes, written_bytes, failures) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mut replicas = Vec::new();
        for _ in 0..count {
            let (stage, is_recorded) = (fields.u8()?, fields.u8()? != 0);
            let (replica, copied, behind_bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
            let stage = match stage {
                STAGE_BEGINNING => ReplicaStage::Beginning,
                STAGE_COPYING => ReplicaStage::Copying(copied),
                STAGE_WHOLE => ReplicaStage::Whole,
                _ => return Err(Malformed),
            };
            let backup = text(&mut fields)?;
            replicas.push(ReplicaStatus { backup, replica, stage, is_recorded, behind_bytes });
        }
        let trouble = core::str::from_utf8(fields.rest()).map_err(|_| Malformed)?.to_owned();
        let lease_left = Duration::from_micros(lease_left_us);
        Ok(Self { epoch, level, bytes, lease_left, writes, written_bytes, failures, replicas, trouble })
    }
}

/// Why the level is not reached now, or will not be: without its registry a primary takes no write once its
/// lease is over, however many backups it has.
fn trouble_of(status: &MirrorStatus) -> Option<String> {
    const REFUSED: &str = "reads and writes are refused until it does";
    let MirrorStatus { trouble, silence, lease_left, .. } = status;
    let of_registry = match silence {
        Some(silence) if lease_left.is_zero() => Some(format!("{silence}; the lease is over, and {REFUSED}")),
        Some(silence) => Some(format!("{silence}; once the lease is over {REFUSED}")),
        None if lease_left.is_zero() && trouble.is_none() => {
            Some(format!("the lease is over, and the registry has not answered yet; {REFUSED}"))
        }
        None => None,
    };
    let troubles: Vec<&str> = trouble.iter().chain(&of_registry).map(String::as_str).collect();
    (!troubles.is_empty()).then(|| troubles.join("; "))
}

fn put_text(text: &str, to: &mut Vec<u8>) {
    to.extend_from_slice(&(text.len() as u32).to_le_bytes());
    to.extend_from_slice(text.as_bytes());
}

fn text(fields: &mut Fields<'_>) -> Result<String, Malformed> {
    let bytes = fields.length()?;
    core::str::from_utf8(fields.bytes(bytes)?).map(str::to_owned).map_err(|_| Malformed)
}

/// The number of a comparison of all replicas, and whether what is damaged is to be written again.
pub fn decode_scrub(message: &[u8]) -> Result<(u64, bool), Malformed> {
    match message {
        [repairs @ (0 | 1), run @ ..] => {
            let run = u64::from_le_bytes(run.try_into().map_err(|_| Malformed)?);
            Ok((run, *repairs == 1))
        }
        _ => Err(Malformed),
    }
}

/// The most damaged parts that an answer names.
const NAMED_MAX: usize = 1000;

/// Appends what a comparison of all replicas found; one in progress is an empty message.
pub fn encode_scrubbed(outcome: &ScrubOutcome, to: &mut Vec<u8>) {
    let mut fates = FateCounts::default();
    outcome.damage.iter().for_each(|part| fates.add(part.fate, 1));
    let counts = Fate::ALL.into_iter().map(|fate| fates.of(fate));
    let numbers = [outcome.bytes, outcome.replicas as u64].into_iter().chain(counts);
    numbers.for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
    for Damage { at, bytes, fate, is_here, backups } in outcome.damage.iter().take(NAMED_MAX) {
        to.extend_from_slice(&at.to_le_bytes());
        to.extend_from_slice(&bytes.to_le_bytes());
        to.extend_from_slice(&[*fate as u8, u8::from(*is_here), backups.len() as u8]);
        backups.iter().for_each(|backup| put_text(backup, to));
    }
}

/// Reads what a comparison found, and how many parts met which fate, those included that are not named;
/// `None` while it is in progress.
pub fn decode_scrubbed(message: &[u8]) -> Result<Option<(ScrubOutcome, FateCounts)>, Malformed> {
    if message.is_empty() {
        return Ok(None);
    }
    let mut fields = Fields(message);
    let (bytes, replicas) = (fields.u64()?, fields.u64()? as usize);
    let (mut fates, mut named, mut parts) = (FateCounts::default(), FateCounts::default(), 0_u64);
    for fate in Fate::ALL {
        let count = fields.u64()?;
        // No log has so many parts that their number overflows.
        parts = parts.checked_add(count).ok_or(Malformed)?;
        fates.add(fate, count);
    }
    let mut damage = Vec::new();
    while !fields.is_empty() {
        let (at, bytes) = (fields.u64()?, fields.u64()?);
        let fate = *Fate::ALL.get(usize::from(fields.u8()?)).ok_or(Malformed)?;
        named.add(fate, 1);
        let (is_here, count) = (fields.u8()? != 0, fields.u8()?);
        let backups = (0..count).map(|_| text(&mut fields)).collect::<Result<_, _>>()?;
        damage.push(Damage { at, bytes, fate, is_here, backups });
    }
    let is_possible = Fate::ALL.into_iter().all(|fate| named.of(fate) <= fates.of(fate));
    let is_all = named.all() == parts.min(NAMED_MAX as u64);
    if !is_possible || !is_all {
        return Err(Malformed);
    }
    Ok(Some((ScrubOutcome { bytes, replicas, damage }, fates)))
}

#[cfg(test)]
mod tests {
    use farcall_replica::{LogId, Record};

    use super::*;

    #[test]
    fn a_primary_whose_registry_is_silent_is_in_trouble() {
        let record = Record {
            log: LogId { store: 1, shard: 0 },
            shards: 1,
            epoch: 2,
            primary: "p:1".to_owned(),
            incarnation: 1,
            beat: 1,
            lease: Duration::from_secs(2),
            own: 0,
            wanted: 1,
            flushed: false,
            replicas: Vec::new(),
        };
        let status = |lease_ms, trouble: Option<&str>, silence: Option<&str>| MirrorStatus {
            record: record.clone(),
            replicas: Vec::new(),
            bytes: 0,
            lease_left: Duration::from_millis(lease_ms),
            trouble: trouble.map(str::to_owned),
            silence: silence.map(str::to_owned),
            writes: 0,
            written_bytes: 0,
            failures: 0,
        };
        let said = |lease_ms, trouble, silence| Replication::of(status(lease_ms, trouble, silence)).trouble;
        assert_eq!(said(9, None, None), "");
        let silent = Some("the registry at r does not answer: no");
        assert!(said(9, None, silent).contains("does not answer: no; once the lease is over reads"));
        assert!(said(0, None, silent).contains("does not answer: no; the lease is over, and reads"));
        assert!(said(0, None, None).starts_with("the lease is over"));
        assert!(said(0, Some("0 of 1"), silent).starts_with("0 of 1; the registry at r"));
        assert_eq!(said(0, Some("another one is"), None), "another one is");
    }

    #[test]
    fn what_is_said_is_understood_and_no_part_of_it() {
        let replica = |backup: &str, stage| ReplicaStatus {
            backup: backup.to_owned(),
            replica: 7,
            stage,
            is_recorded: stage == ReplicaStage::Whole,
            behind_bytes: 100,
        };
        let status = Replication {
            epoch: 9,
            level: Level::Replicated { replicas: 2, flushed: true },
            bytes: 1 << 20,
            lease_left: Duration::from_micros(1500),
            writes: 5,
            written_bytes: 6,
            failures: 1,
            replicas: vec![replica("a:1", ReplicaStage::Whole), replica("b:2", ReplicaStage::Copying(4096))],
            trouble: "1 of 2 replicas are whole".to_owned(),
        };
        let message = status.encode();
        assert_eq!(Replication::decode(&message), Ok(status.clone()));
        let named = message.len() - status.trouble.len();
        assert!((0..named).all(|bytes| Replication::decode(&message[..bytes]).is_err()));
        let backups = vec!["a:1".to_owned()];
        let part = Damage { at: 4096, bytes: 7, fate: Fate::Repaired, is_here: true, backups };
        let outcome = ScrubOutcome { bytes: 5, replicas: 2, damage: vec![part.clone(), part] };
        let mut message = Vec::new();
        encode_scrubbed(&outcome, &mut message);
        let mut fates = FateCounts::default();
        fates.add(Fate::Repaired, 2);
        assert_eq!(decode_scrubbed(&message), Ok(Some((outcome.clone(), fates))));
        assert_eq!(decode_scrubbed(&[]), Ok(None));
        assert!((1..message.len()).all(|bytes| decode_scrubbed(&message[..bytes]).is_err()));
        // Of more than are named it is known what became of them.
        let fate_of = |number| Fate::ALL[number % Fate::ALL.len()];
        let damage: Vec<_> = (0..NAMED_MAX + 7)
            .map(|number| Damage { fate: fate_of(number), ..outcome.damage[0].clone() })
            .collect();
        let mut fates = FateCounts::default();
        damage.iter().for_each(|part| fates.add(part.fate, 1));
        let mut message = Vec::new();
        encode_scrubbed(&ScrubOutcome { damage, ..outcome }, &mut message);
        let (named, of_all) = decode_scrubbed(&message).expect("it is whole").expect("it is over");
        assert_eq!((named.damage.len(), of_all), (NAMED_MAX, fates));
        assert_eq!(decode_scrub(&[0, 7, 0, 0, 0, 0, 0, 0, 0]), Ok((7, false)));
        assert_eq!(decode_scrub(&[1, 0, 1, 0, 0, 0, 0, 0, 0]), Ok((256, true)));
        for malformed in [&[][..], &[1], &[2, 0, 0, 0, 0, 0, 0, 0, 0], &[0; 10]] {
            assert_eq!(decode_scrub(malformed), Err(Malformed));
        }
    }
}
