//! Which replicas count: what the registry has agreed to, and what it is to agree to next.

use core::time::Duration;

use farcall_base::{Instant, seed_of_stream};

use super::Outgoing;
use super::member::Member;
use super::state::State;
use crate::message::{Request, Subject};
use crate::record::{BackupEntry, Place, Record};
use crate::registry::{Compared, Registry, RegistryError};
use crate::takeover::Claimed;

/// The time between two looks for backups, and two attempts at a registry that does not answer.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The time between two looks for what is left at backups that have no replica which counts.
const VISIT_EVERY: Duration = Duration::from_secs(60);

/// A lease ends for its holder by this part of it before it ends for others: clocks run at different speeds.
const DRIFT_PART: u32 = 10;

/// A lease is renewed when this part of it is over.
const RENEWED_PART: u32 = 3;

/// A backup that has failed.
pub struct Failed {
    pub at: Instant,
    /// It is not asked again before this time.
    pub until: Instant,
    pub why: String,
}

/// What a registry is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryJob {
    /// Which backups there are.
    Backups,
    /// To set a record of the expected revision.
    Set {
        /// Its key.
        key: String,
        /// The revision that it must have.
        expected: u64,
        /// The record.
        value: Vec<u8>,
    },
}

/// What a registry has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryAnswer {
    /// The backups.
    Backups(Result<Vec<BackupEntry>, RegistryError>),
    /// What became of the attempt.
    Set(Result<Compared, RegistryError>),
}

impl RegistryJob {
    /// Asks a registry.
    pub fn carry_out(&self, registry: &mut dyn Registry) -> RegistryAnswer {
        match self {
            Self::Backups => RegistryAnswer::Backups(registry.backups()),
            Self::Set { key, expected, value } => {
                RegistryAnswer::Set(registry.compare_and_set(key, *expected, value))
            }
        }
    }
}

/// What the registry is asked to agree to, until it is known whether it has.
struct Proposal {
    record: Record,
    /// When the first attempt to set it began, and when the last one did.
    first_begun: Instant,
    begun: Instant,
    /// Whether it changes which replicas count.
    changes: bool,
}

/// What the registry has agreed to.
pub struct Agreement {
    pub record: Record,
    revision: u64,
    /// Replicas of this primary have higher numbers, and those of earlier primaries lower ones.
    first_replica: u64,
    /// Until then nobody else is the primary.
    pub lease_until: Instant,
    renew_at: Instant,
    look_at: Instant,
    visit_at: Instant,
    /// The registry did not answer: it is asked again then.
    again_at: Instant,
    /// The record names replicas of this primary, and not those that it was recovered from.
    has_own: bool,
    proposed: Option<Proposal>,
    /// Why the registry did not answer last; `None` once it has.
    pub silence: Option<String>,
    /// A job is out.
    is_asked: bool,
    /// Backups were asked for to be visited.
    is_visiting: bool,
}

fn lease_from(begun: Instant, record: &Record) -> (Instant, Instant) {
    let lease = record.lease;
    (begun + (lease - lease / DRIFT_PART), begun + lease / RENEWED_PART)
}

impl Agreement {
    pub fn new(record: Record, revision: u64, set_at: Instant) -> Self {
        let (lease_until, renew_at) = lease_from(set_at, &record);
        Self {
            first_replica: record.first_replica(),
            record,
            revision,
            lease_until,
            renew_at,
            look_at: set_at,
            visit_at: set_at + VISIT_EVERY,
            again_at: set_at,
            has_own: false,
            proposed: None,
            silence: None,
            is_asked: false,
            is_visiting: false,
        }
    }

    /// Whether the record names replicas that this primary has made.
    pub fn has_own_replicas(&self) -> bool {
        self.has_own
    }

    /// The replicas at a backup that count, or may count by now.
    fn replicas_at(&self, backup: &str) -> Vec<u64> {
        let proposed = self.proposed.iter().flat_map(|proposal| &proposal.record.replicas);
        let places = self.record.replicas.iter().chain(proposed);
        let mut numbers: Vec<u64> =
            places.filter(|place| place.backup == backup).map(|place| place.replica).collect();
        numbers.dedup();
        numbers
    }

    /// Whether it is known which replicas count: not while another set of them may be recorded already.
    pub fn is_settled(&self) -> bool {
        self.has_own && self.proposed.as_ref().is_none_or(|proposal| !proposal.changes)
    }
}

impl State {
    /// Begins replicas where there are too few, and notes since when that is so.
    pub(super) fn look_after_members(&mut self) {
        if self.is_as_recorded() {
            self.short_since = None;
            return;
        }
        let wanted = self.agreement.record.wanted as usize;
        let recorded = &self.agreement.record.replicas;
        let is_there = |place: &&Place| self.whole().any(|member| member.place == **place);
        let there = recorded.iter().filter(is_there).count();
        if self.agreement.has_own && there >= wanted {
            self.short_since = None;
        } else if self.short_since.is_none() {
            self.short_since = Some((self.clock)());
        }
        while self.members.len() < wanted {
            let Some(backup) = self.choose_backup() else { return };
            self.tokens += 1;
            let replica = self.agreement.first_replica + self.tokens;
            let retained = self.agreement.replicas_at(&backup.at);
            let place = Place { backup: backup.at, replica };
            let mut member = Member::new(self.tokens, place, backup.domain);
            member.begin(self.subject(), retained, self.agreement.record.flushed);
            self.members.push(member);
        }
    }

    /// The backup for the next replica: by a hash of its name and the log's, so that the replicas of a log
    /// stay together as long as their backups do, and few sets of machines have all replicas of anything.
    /// Those that have failed come behind all others, the last one last: dead ones that are still listed,
    /// however many, do not keep a live one from its turn.
    fn choose_backup(&mut self) -> Option<BackupEntry> {
        let now = (self.clock)();
        let log = self.agreement.record.log;
        let is_listed = |at: &String| self.backups.iter().any(|entry| entry.at == *at);
        self.failed.retain(|at, failed| failed.until > now || is_listed(at));
        let is_free = |entry: &&BackupEntry| {
            entry.domain != self.domain
                && self.failed.get(&entry.at).is_none_or(|failed| failed.until <= now)
                && (entry.has_disk || !self.agreement.record.flushed)
                && self
                    .members
                    .iter()
                    .all(|member| member.domain != entry.domain && member.place.backup != entry.at)
        };
        let weight = |entry: &&BackupEntry| {
            let name = u64::from(crc32c::crc32c(entry.at.as_bytes()));
            let failed_at = self.failed.get(&entry.at).map(|failed| failed.at);
            (failed_at, seed_of_stream(log.store ^ u64::from(log.shard), name), entry.at.clone())
        };
        self.backups.iter().filter(is_free).min_by_key(weight).cloned()
    }

    /// Whether the replicas of this primary are those that the record names, as many as are wanted, and all
    /// whole: then there is nothing to begin, and nothing to record. So it is in nearly every turn.
    fn is_as_recorded(&self) -> bool {
        let Record { replicas, wanted, .. } = &self.agreement.record;
        let is_recorded = |member: &Member| member.is_whole() && replicas.contains(&member.place);
        self.agreement.has_own
            && self.members.len() == *wanted as usize
            && replicas.len() == self.members.len()
            && self.members.iter().all(is_recorded)
    }

    /// The set of replicas that should be recorded, if it is another one than is.
    fn wanted_replicas(&self) -> Option<Vec<Place>> {
        if self.is_as_recorded() {
            return None;
        }
        let record = &self.agreement.record;
        let mut places: Vec<Place> = self.whole().map(|member| member.place.clone()).collect();
        places.sort();
        let is_other = !self.agreement.has_own || places != record.replicas;
        (is_other && places.len() >= record.wanted as usize).then_some(places)
    }

    pub fn renewed(&mut self, Claimed { record, revision, set_at, .. }: &Claimed) {
        let Agreement { has_own, is_asked, proposed, .. } = &self.agreement;
        debug_assert!(!has_own && !is_asked && proposed.is_none(), "it has had no turn");
        self.agreement = Agreement::new(record.clone(), *revision, *set_at);
    }

    pub fn next_registry_job(&mut self) -> Option<RegistryJob> {
        if self.agreement.is_asked || self.deposed().is_some() {
            return None;
        }
        let now = (self.clock)();
        if now < self.agreement.again_at {
            return None;
        }
        let replicas = self.wanted_replicas();
        let is_due = now >= self.agreement.renew_at || self.agreement.proposed.is_some();
        if replicas.is_some() || is_due {
            return Some(self.propose(now, replicas));
        }
        let lacks_members = self.members.len() < self.agreement.record.wanted as usize;
        if lacks_members && now >= self.agreement.look_at {
            self.agreement.look_at = now + LOOK_AGAIN_AFTER;
            self.agreement.is_asked = true;
            return Some(RegistryJob::Backups);
        }
        if self.agreement.has_own && now >= self.agreement.visit_at {
            self.agreement.visit_at = now + VISIT_EVERY;
            self.agreement.is_asked = true;
            self.agreement.is_visiting = true;
            return Some(RegistryJob::Backups);
        }
        None
    }

    /// An attempt whose outcome is not known is made again as it was: it may have been done, and another one
    /// in its place would hide that from the lease and from what backups are to retain.
    fn propose(&mut self, now: Instant, replicas: Option<Vec<Place>>) -> RegistryJob {
        let agreement = &mut self.agreement;
        let fresh = || {
            let mut record = agreement.record.clone();
            record.beat += 1;
            let changes = replicas.is_some();
            if let Some(replicas) = replicas {
                record.epoch += 1;
                record.own = self.own;
                record.lease = self.lease;
                record.replicas = replicas;
            }
            Proposal { record, first_begun: now, begun: now, changes }
        };
        let proposal = match agreement.proposed.take() {
            Some(last) => Proposal { begun: now, ..last },
            None => fresh(),
        };
        let value = proposal.record.encode();
        agreement.proposed = Some(proposal);
        agreement.is_asked = true;
        let key = Record::key(agreement.record.log.shard);
        RegistryJob::Set { key, expected: agreement.revision, value }
    }

    pub fn registry_answered(&mut self, answer: RegistryAnswer) {
        self.agreement.is_asked = false;
        self.agreement.silence = match &answer {
            RegistryAnswer::Backups(Err(silent)) | RegistryAnswer::Set(Err(silent)) => {
                Some(silent.to_string())
            }
            RegistryAnswer::Backups(Ok(_)) | RegistryAnswer::Set(Ok(_)) => None,
        };
        match answer {
            RegistryAnswer::Backups(Ok(backups)) => {
                self.backups = backups;
                if core::mem::take(&mut self.agreement.is_visiting) {
                    self.visit();
                }
            }
            RegistryAnswer::Set(Ok(compared)) => self.compared(compared),
            // It is asked again; meanwhile the lease may end.
            RegistryAnswer::Backups(Err(_)) | RegistryAnswer::Set(Err(_)) => {
                self.agreement.again_at = (self.clock)() + LOOK_AGAIN_AFTER;
            }
        }
    }

    fn compared(&mut self, compared: Compared) {
        let Some(proposal) = self.agreement.proposed.take() else { return };
        let (revision, record, begun) = match compared {
            Compared::Set(revision) => (revision, proposal.record, proposal.begun),
            Compared::Other(found) => {
                let found = found.and_then(|found| Some((found.revision, Record::decode(&found.value)?)));
                match found {
                    // An attempt whose answer was lost, the first one for all that is known.
                    Some((revision, record)) if record.incarnation == proposal.record.incarnation => {
                        (revision, record, proposal.first_begun)
                    }
                    Some((_, record)) => {
                        let Record { primary, epoch, .. } = record;
                        return self.depose(format!("{primary} is the primary since epoch {epoch}"));
                    }
                    None => return self.depose("the registry has lost its record".to_owned()),
                }
            }
        };
        let changed = record.epoch != self.agreement.record.epoch;
        (self.agreement.lease_until, self.agreement.renew_at) = lease_from(begun, &record);
        self.agreement.record = record;
        self.agreement.revision = revision;
        self.agreement.has_own |= changed;
        self.tidy(changed);
    }

    /// Has backups that have no member drop what they have of the log: those that were away when their
    /// replicas were replaced. A visit has a number as a replica has, so one that arrives late drops none of
    /// later ones.
    fn visit(&mut self) {
        for BackupEntry { at: backup, .. } in self.backups.clone() {
            if self.members.iter().any(|member| member.place.backup == backup) {
                continue;
            }
            self.tokens += 1;
            let token = self.tokens;
            let subject = Subject { replica: self.agreement.first_replica + token, ..self.subject() };
            let retained = self.agreement.replicas_at(&backup);
            let message = Request::Fence { retained }.encode(subject);
            self.visits.push_back(Outgoing { backup, token, message });
        }
    }

    /// Has the backups of all members, or of those with nothing to do, drop replicas that do not count. That
    /// is also a sign of life of backups that nothing is written to.
    fn tidy(&mut self, all: bool) {
        let subject = self.subject();
        for member in self.members.iter_mut().filter(|member| all || member.is_settled()) {
            // What is recorded counts until then: it may be all that a successor has.
            let recorded = self.agreement.replicas_at(&member.place.backup);
            member.tidy(subject, recorded);
        }
    }
}
