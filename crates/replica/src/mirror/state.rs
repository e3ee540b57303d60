//! The state of a mirror: the disk here, its replicas, and when a write is done.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use farcall_base::Instant;
use farcall_base::canary::{Rule, leaves_out};
use farcall_disk::{Blocks, Disk, DiskError, Done, Job};

use super::member::{Member, Purpose};
use super::membership::{Agreement, Failed};
use super::repair::Examination;
use super::scrub::{Scrub, ScrubOutcome};
use super::{ClockOf, MirrorOf, MirrorStatus, NoAnswer, Outgoing, ReplicaStage, ReplicaStatus};
use crate::message::{PIECE_BYTES_MAX, Refusal, Subject};
use crate::record::{BackupEntry, Record};

/// What a process that was replaced gets from its disk: that of a stale handle.
const DEPOSED: DiskError = DiskError::Failed { code: 116 };

/// How long nothing is copied after the disk here could not be read.
const COPY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The stage of the process.
#[derive(Debug)]
pub enum Phase {
    /// The log is being opened.
    Opening,
    Serving,
    /// Another process is the primary.
    Deposed(String),
}

/// What the disk here is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    /// A job of the log; whether it is a write.
    Job {
        writes: bool,
    },
    /// A piece is read for a replica that is copied.
    Copying {
        token: u64,
        at: u64,
    },
    /// A piece is read to be compared.
    Scrubbing {
        at: u64,
    },
    /// A piece of a part that differs is read.
    Examining {
        offset: usize,
    },
    /// A piece is written again.
    Mending,
}

/// A place that could not be read for a copy. Until this time nothing is copied, and comparisons and repairs
/// have the disk.
pub(super) struct Unreadable {
    at: u64,
    until: Instant,
}

pub struct State {
    pub(super) clock: ClockOf,
    pub(super) domain: String,
    /// The number of the image here, 0 if it ends with the process.
    pub(super) own: u64,
    /// How long it may answer without renewing, and a write waits.
    pub(super) lease: Duration,
    pub(super) phase: Phase,
    pub(super) agreement: Agreement,
    pub(super) members: Vec<Member>,
    pub(super) tokens: u64,
    /// Backups that are known, and those that have failed since they had a whole replica.
    pub(super) backups: Vec<BackupEntry>,
    pub(super) failed: BTreeMap<String, Failed>,
    /// What is to be said to backups without a replica that counts. Nobody waits for their answers.
    pub(super) visits: VecDeque<Outgoing>,
    local: Box<dyn Disk>,
    pub(super) stage: Stage,
    /// The job of the log that is done here, and whether it is a write.
    done: Option<(Done, bool)>,
    /// The job of the log that begins when a piece was read, or a part was examined.
    waiting: Option<Job>,
    /// Since when the log's write is done here and not everywhere; since when there are too few replicas.
    waits_since: Option<Instant>,
    pub(super) short_since: Option<Instant>,
    pub(super) scrub: Option<Scrub>,
    /// What the last comparisons found, by their runs, the newest first.
    pub(super) scrubs_done: VecDeque<(u64, ScrubOutcome)>,
    pub(super) examined: Option<Examination>,
    /// Where the disk here cannot read what is to be copied.
    pub(super) unreadable: Option<Unreadable>,
    writes: u64,
    written_bytes: u64,
    failures: u64,
}

impl State {
    pub fn new(of: MirrorOf, local: Box<dyn Disk>) -> Self {
        let MirrorOf { record, revision, set_at, lease, own, domain, clock } = of;
        Self {
            agreement: Agreement::new(record, revision, set_at),
            short_since: Some(clock()),
            clock,
            domain,
            lease,
            own,
            phase: Phase::Opening,
            members: Vec::new(),
            tokens: 0,
            backups: Vec::new(),
            failed: BTreeMap::new(),
            visits: VecDeque::new(),
            local,
            stage: Stage::Idle,
            done: None,
            waiting: None,
            waits_since: None,
            scrub: None,
            scrubs_done: VecDeque::new(),
            examined: None,
            unreadable: None,
            writes: 0,
            written_bytes: 0,
            failures: 0,
        }
    }

    pub fn record(&self) -> &Record {
        &self.agreement.record
    }

    pub fn bytes(&self) -> u64 {
        self.local.bytes()
    }

    /// What requests are about; the replica is filled in by each member.
    pub(super) fn subject(&self) -> Subject {
        let Record { log, epoch, .. } = self.agreement.record;
        Subject { log, replica: 0, epoch }
    }

    pub(super) fn whole(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.is_whole())
    }

    pub fn serve(&mut self) {
        self.phase = Phase::Serving;
    }

    pub fn deposed(&self) -> Option<String> {
        if let Phase::Deposed(why) = &self.phase { Some(why.clone()) } else { None }
    }

    pub(super) fn depose(&mut self, why: String) {
        if !matches!(self.phase, Phase::Deposed(_)) {
            self.phase = Phase::Deposed(why);
            self.members.clear();
            self.visits.clear();
            (self.scrub, self.examined) = (None, None);
            self.resume();
        }
    }

    /// Begins the job of the log that waits, if nothing keeps it from that.
    pub(super) fn resume(&mut self) {
        if self.stage == Stage::Idle
            && !self.is_held()
            && let Some(job) = self.waiting.take()
        {
            self.begin_now(job);
        }
    }

    /// Begins a job of the log, once the disk is free.
    pub fn begin(&mut self, job: Job) {
        match self.stage {
            Stage::Idle if !self.is_held() => self.begin_now(job),
            _ => self.waiting = Some(job),
        }
    }

    fn begin_now(&mut self, job: Job) {
        let writes = matches!(job, Job::Write { .. });
        let subject = self.subject();
        match &job {
            Job::Write { at, blocks, flush } => {
                let flush = *flush && self.agreement.record.flushed;
                for member in self.members.iter_mut().filter(|member| member.has(*at)) {
                    member.write(subject, (*at, false), blocks, flush);
                }
            }
            // One that is copied becomes as long by its last piece.
            Job::Extend { bytes } => {
                let bytes = self.local.bytes() + bytes;
                for member in self.members.iter_mut().filter(|member| member.is_whole()) {
                    member.extend(subject, bytes);
                }
            }
            Job::Read { .. } => {}
        }
        self.local.begin(job);
        self.stage = Stage::Job { writes };
    }

    /// What became of the log's job, once it is done here and wherever it must be.
    pub fn poll(&mut self) -> Option<Done> {
        self.poll_local();
        self.take_done()
    }

    pub fn wait(&mut self) -> Option<Done> {
        if self.stage != Stage::Idle
            && let Some(done) = self.local.wait()
        {
            self.local_done(done);
        }
        self.take_done()
    }

    fn take_done(&mut self) -> Option<Done> {
        let (done, writes) = self.done.as_ref()?;
        let (writes, has_failed) = (*writes, done.outcome.is_err());
        let is_deposed = matches!(self.phase, Phase::Deposed(_));
        if writes && !has_failed && !is_deposed && !self.is_everywhere() {
            self.waits_since.get_or_insert_with(|| (self.clock)());
            return None;
        }
        self.waits_since = None;
        let (done, _) = self.done.take()?;
        let outcome = if writes && is_deposed { Err(DEPOSED) } else { done.outcome };
        if writes && outcome.is_ok() && matches!(self.phase, Phase::Serving) {
            self.writes += 1;
            self.written_bytes += done.blocks.len() as u64;
        }
        Some(Done { outcome, ..done })
    }

    /// Whether every recorded replica has confirmed all that it was sent, and there are enough of them.
    fn is_everywhere(&self) -> bool {
        if matches!(self.phase, Phase::Opening) {
            return true;
        }
        let Agreement { record, .. } = &self.agreement;
        let has_all = |place: &crate::record::Place| {
            let member = self.members.iter().find(|member| member.place == *place);
            match member {
                Some(member) => member.is_settled(),
                None => leaves_out(Rule::RecordedReplicas),
            }
        };
        self.agreement.is_settled()
            && record.replicas.len() >= record.wanted as usize
            && record.replicas.iter().all(has_all)
    }

    fn poll_local(&mut self) {
        if self.stage != Stage::Idle
            && let Some(done) = self.local.poll()
        {
            self.local_done(done);
        }
    }

    fn local_done(&mut self, done: Done) {
        match self.stage {
            Stage::Job { writes } => {
                self.done = Some((done, writes));
            }
            Stage::Copying { token, at } => {
                let subject = self.subject();
                let end = at + done.blocks.len() as u64;
                let is_last = end == self.local.bytes();
                let flush = self.agreement.record.flushed && is_last;
                let until = (self.clock)() + COPY_AGAIN_AFTER;
                self.unreadable = done.outcome.is_err().then_some(Unreadable { at, until });
                if let Some(member) = self.members.iter_mut().find(|member| member.token == token)
                    && done.outcome.is_ok()
                {
                    member.write(subject, (at, is_last), &done.blocks, flush);
                    member.stage = ReplicaStage::Copying(end);
                }
            }
            Stage::Scrubbing { at } => self.scrub_read(at, &done.blocks, done.outcome.is_ok()),
            Stage::Examining { offset } => self.examined_here(offset, &done.blocks, done.outcome.is_ok()),
            Stage::Mending => self.mended_here(done.outcome.is_ok()),
            Stage::Idle => {}
        }
        self.stage = Stage::Idle;
        self.resume();
    }

    /// Reads the next piece for an examination, a replica that is copied, or a comparison, if the disk is
    /// free.
    fn read_ahead(&mut self) -> bool {
        if self.stage != Stage::Idle || !matches!(self.phase, Phase::Serving) {
            return false;
        }
        if self.is_held() {
            let Some((job, stage)) = self.examination_job() else { return self.go_on_examining() };
            self.local.begin(job);
            self.stage = stage;
            self.poll_local();
            return true;
        }
        let bytes = self.local.bytes();
        let may_copy = self.unreadable.as_ref().is_none_or(|place| (self.clock)() >= place.until);
        let next = |member: &Member| match member.stage {
            ReplicaStage::Copying(at) if may_copy && at < bytes && member.is_settled() => {
                Some((member.token, at))
            }
            _ => None,
        };
        let (stage, at, length) = match self.members.iter().find_map(next) {
            Some((token, at)) => {
                (Stage::Copying { token, at }, at, (bytes - at).min(PIECE_BYTES_MAX as u64) as usize)
            }
            None => match self.scrub_wants() {
                Some((at, length)) => (Stage::Scrubbing { at }, at, length),
                None => return false,
            },
        };
        self.local.begin(Job::Read { at, blocks: Blocks::zeroed(length) });
        self.stage = stage;
        self.poll_local();
        true
    }

    pub fn turn(&mut self) -> bool {
        self.poll_local();
        let happened = self.read_ahead();
        let bytes = self.local.bytes();
        // While the image becomes longer nobody knows yet how long it is.
        let is_growing = matches!(self.stage, Stage::Job { writes: false });
        for member in self.members.iter_mut().filter(|_| !is_growing) {
            if matches!(member.stage, ReplicaStage::Copying(next) if next >= bytes) && member.is_settled() {
                member.stage = ReplicaStage::Whole;
                self.failed.remove(&member.place.backup);
            }
        }
        if matches!(self.phase, Phase::Serving) {
            self.look_after_members();
        }
        happened
    }

    pub fn next_message(&mut self) -> Option<Outgoing> {
        self.members.iter_mut().find_map(Member::next_message).or_else(|| self.visits.pop_front())
    }

    pub fn answered(&mut self, token: u64, outcome: Result<&[u8], NoAnswer>) {
        let Some(place) = self.members.iter().position(|member| member.token == token) else { return };
        let member = &mut self.members[place];
        let purpose = member.answered();
        match (purpose, outcome) {
            (_, Err(NoAnswer::Refused(Refusal::OlderEpoch))) => {
                self.depose(Refusal::OlderEpoch.to_string());
            }
            // Its disk cannot read there. Everything else it has, and takes what is written.
            (Some(Purpose::Sum { at }), Err(NoAnswer::Refused(Refusal::DiskFailed))) => {
                self.scrub_summed(at, &[]);
            }
            (Some(Purpose::Read { at }), Err(NoAnswer::Refused(Refusal::DiskFailed))) => {
                self.unreadable_there(token, at);
            }
            (_, Err(why)) => self.failed(place, why),
            (Some(Purpose::Begin), Ok(_)) => member.stage = ReplicaStage::Copying(0),
            (Some(Purpose::Sum { at }), Ok(sum)) => {
                self.scrub_summed(at, sum);
            }
            (Some(Purpose::Read { at }), Ok(piece)) => self.examined_there(token, at, piece),
            // A backup that was started again answers, and has nothing.
            (Some(Purpose::Tidy), Ok(held)) if !member.is_held(held) => {
                self.failed(place, NoAnswer::Refused(Refusal::NoSuchReplica));
            }
            (Some(Purpose::Write | Purpose::Tidy) | None, Ok(_)) => {}
        }
    }

    pub fn lost(&mut self, backup: &str) {
        if let Some(place) = self.members.iter().position(|member| member.place.backup == backup) {
            self.failed(place, NoAnswer::Silent);
        }
    }

    fn failed(&mut self, place: usize, why: NoAnswer) {
        /// A backup that is full or has no disk will not have one soon.
        const UNFIT_FOR: Duration = Duration::from_secs(5);
        const SILENT_FOR: Duration = Duration::from_millis(100);
        let member = self.members.remove(place);
        self.failures += 1;
        let (time, words) = match why {
            NoAnswer::Refused(refusal @ (Refusal::NoDisk | Refusal::Full | Refusal::DiskFailed)) => {
                (UNFIT_FOR, refusal.to_string())
            }
            NoAnswer::Refused(refusal) => (SILENT_FOR, refusal.to_string()),
            NoAnswer::Silent => (SILENT_FOR, "it does not answer".to_owned()),
        };
        let at = (self.clock)();
        self.failed.insert(member.place.backup, Failed { at, until: at + time, why: words });
    }

    pub fn may_read(&self) -> bool {
        let is_leased = leaves_out(Rule::Leases) || (self.clock)() < self.agreement.lease_until;
        matches!(self.phase, Phase::Serving) && self.agreement.has_own_replicas() && is_leased
    }

    pub fn waits_for_backups(&self) -> bool {
        let is_leased = (self.clock)() < self.agreement.lease_until;
        matches!(self.phase, Phase::Serving) && !self.agreement.has_own_replicas() && is_leased
    }

    pub fn may_write(&self) -> bool {
        matches!(self.phase, Phase::Serving)
            && self.agreement.has_own_replicas()
            && !self.is_late(self.short_since)
    }

    pub fn is_overdue(&self) -> bool {
        !matches!(self.phase, Phase::Opening) && self.is_late(self.waits_since)
    }

    /// Whether something has lasted for longer than a write waits: as long as the lease.
    fn is_late(&self, since: Option<Instant>) -> bool {
        since.is_some_and(|since| (self.clock)() >= since + self.lease)
    }

    pub fn status(&self) -> MirrorStatus {
        let Agreement { record, lease_until, .. } = &self.agreement;
        let replicas = self.members.iter().map(|member| ReplicaStatus {
            backup: member.place.backup.clone(),
            replica: member.place.replica,
            stage: member.stage,
            is_recorded: record.replicas.contains(&member.place),
            behind_bytes: member.behind_bytes()
                + match member.stage {
                    ReplicaStage::Beginning => self.bytes(),
                    ReplicaStage::Copying(next) => self.bytes().saturating_sub(next),
                    ReplicaStage::Whole => 0,
                },
        });
        MirrorStatus {
            record: record.clone(),
            replicas: replicas.collect(),
            bytes: self.bytes(),
            lease_left: *lease_until - (self.clock)(),
            trouble: self.trouble(),
            silence: self.agreement.silence.clone(),
            writes: self.writes,
            written_bytes: self.written_bytes,
            failures: self.failures,
        }
    }

    fn trouble(&self) -> Option<String> {
        if let Phase::Deposed(why) = &self.phase {
            return Some(why.clone());
        }
        self.short_since?;
        let (whole, wanted) = (self.whole().count(), self.agreement.record.wanted);
        let mut words = format!("{whole} of {wanted} replicas are whole");
        let now = (self.clock)();
        for (backup, failed) in self.failed.iter().filter(|(_, failed)| failed.until > now) {
            words += &format!("; {backup}: {}", failed.why);
        }
        if let Some(copying) = &self.unreadable {
            words += &format!(
                "; the disk here cannot read byte {} of the log: `farcall kv scrub --repair` \
                               writes it again if a replica has it",
                copying.at
            );
        }
        Some(words)
    }
}

impl Member {
    pub(super) fn is_whole(&self) -> bool {
        self.stage == ReplicaStage::Whole
    }
}
