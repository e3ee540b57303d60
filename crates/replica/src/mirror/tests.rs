//! A mirror, backups and a registry in one thread, step by step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use farcall_disk::{Blocks, MemoryDisk};

use super::*;
use crate::backup::{Backup, FolderShelf, Handled};
use crate::record::{BackupEntry, Place};
use crate::registry::{MemoryRegistry, Registry};
use crate::takeover::{Candidate, Claim, Reach, Recovery};

const LEASE: Duration = Duration::from_millis(300);

/// Backups that are there, a registry and a clock.
struct Cluster {
    backups: BTreeMap<String, Backup>,
    registry: MemoryRegistry,
    now: Arc<AtomicU64>,
}

impl Cluster {
    fn new(backups: u32) -> Self {
        let mut this = Self {
            backups: BTreeMap::new(),
            registry: MemoryRegistry::default(),
            now: Arc::new(AtomicU64::new(1)),
        };
        (0..backups).for_each(|number| this.start_backup(number));
        this
    }

    fn start_backup(&mut self, number: u32) {
        let at = format!("backup:{number}");
        let shelf = FolderShelf::new(None).expect("memory");
        self.backups.insert(at.clone(), Backup::open(Box::new(shelf)).expect("nothing is there"));
        self.registry.announce(BackupEntry { domain: at.clone(), at, has_disk: false });
    }

    fn clock(&self) -> ClockOf {
        let now = Arc::clone(&self.now);
        Box::new(move || Instant::from_nanos(now.load(Ordering::Relaxed)))
    }

    fn pass(&self, time: Duration) {
        self.now.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    fn candidate(incarnation: u64, wanted: u32) -> Candidate {
        Candidate::new(Claim {
            log: LogId { store: 9, shard: 0 },
            shards: 1,
            primary: format!("primary:{incarnation}"),
            incarnation,
            lease: LEASE,
            wanted,
            flushed: false,
        })
    }

    fn claim(&mut self, incarnation: u64, wanted: u32) -> MirrorOf {
        let clock = self.clock();
        let claimed = Self::candidate(incarnation, wanted).try_claim(&mut self.registry, &clock);
        let claimed = claimed.expect("it answers").expect("nobody has it");
        self.mirror_of(claimed)
    }

    fn mirror_of(&self, claimed: crate::takeover::Claimed) -> MirrorOf {
        let crate::takeover::Claimed { record, revision, set_at, .. } = claimed;
        let (own, domain) = (0, "primary".to_owned());
        MirrorOf { record, revision, set_at, lease: LEASE, own, domain, clock: self.clock() }
    }

    /// Sends what a mirror has to say, and passes everything back, until nothing happens any more.
    fn settle(&mut self, mirror: &Mirror) {
        for _ in 0..10_000 {
            let mut happened = mirror.turn();
            while let Some(Outgoing { backup, token, message }) = mirror.next_message() {
                let answer = self.ask(&backup, &message);
                mirror.answered(token, answer.as_deref().map_err(|why| *why));
                happened = true;
            }
            if let Some(job) = mirror.next_registry_job() {
                mirror.registry_answered(job.carry_out(&mut self.registry));
                happened = true;
            }
            if !happened {
                return;
            }
        }
        panic!("it never settles");
    }
}

/// The parts of [`Mirror::turn_with`], one by one.
impl Mirror {
    pub(super) fn turn(&self) -> bool {
        self.lock().turn()
    }

    pub(super) fn next_message(&self) -> Option<Outgoing> {
        self.lock().next_message()
    }

    pub(super) fn next_registry_job(&self) -> Option<RegistryJob> {
        self.lock().next_registry_job()
    }
}

impl Reach for Cluster {
    fn ask(&mut self, backup: &str, message: &[u8]) -> Result<Vec<u8>, NoAnswer> {
        let backup = self.backups.get_mut(backup).ok_or(NoAnswer::Silent)?;
        match backup.handle(message) {
            Handled::Now(answer) => answer.map_err(NoAnswer::Refused),
            Handled::Later(_) => panic!("memory is never late"),
        }
    }
}

fn block(byte: u8) -> Blocks {
    let mut blocks = Blocks::zeroed(4096);
    blocks.fill(byte);
    blocks
}

fn write(disk: &mut dyn Disk, at: u64, byte: u8) {
    disk.begin(Job::Write { at, blocks: block(byte), flush: true });
}

/// A primary with an image of 1 MiB, whose replicas are whole.
fn serving(cluster: &mut Cluster, incarnation: u64, wanted: u32) -> (Mirror, Box<dyn Disk>) {
    let of = cluster.claim(incarnation, wanted);
    let (mirror, mut disk) = Mirror::new(of, Box::new(MemoryDisk::new()));
    disk.begin(Job::Extend { bytes: 1 << 20 });
    disk.wait().expect("it is opened");
    write(&mut *disk, 0, 1);
    disk.wait().expect("nothing else is waited for yet");
    mirror.serve();
    cluster.settle(&mirror);
    (mirror, disk)
}

fn recovered(cluster: &mut Cluster, incarnation: u64) -> Box<dyn Disk> {
    let record = cluster.claim(incarnation, 2).record;
    let mut make = |_: &Place| Ok(Box::new(MemoryDisk::new()) as Box<dyn Disk>);
    Recovery::new(record).fetch(cluster, &mut make).expect("a replica").1
}

fn byte_at(disk: &mut dyn Disk, at: u64) -> u8 {
    disk.begin(Job::Read { at, blocks: Blocks::zeroed(4096) });
    disk.wait().expect("it is there").blocks[0]
}

#[test]
fn a_write_is_done_when_every_replica_has_it_and_any_one_is_enough() {
    for lost in ["backup:0", "backup:1"] {
        write_and_lose(lost);
    }
}

fn write_and_lose(lost: &str) {
    let mut cluster = Cluster::new(2);
    let (mirror, mut disk) = serving(&mut cluster, 1, 2);
    assert!(mirror.may_read() && mirror.may_write(), "{:?}", mirror.status());
    write(&mut *disk, 8192, 7);
    assert!(disk.poll().is_none(), "no replica has it yet");
    let first = mirror.next_message().expect("to one backup");
    let answer = cluster.ask(&first.backup, &first.message);
    mirror.answered(first.token, answer.as_deref().map_err(|why| *why));
    assert!(disk.poll().is_none(), "one of two is not enough");
    cluster.settle(&mirror);
    assert!(disk.poll().expect("both have it").outcome.is_ok());
    cluster.registry.ended(1);
    cluster.backups.remove(lost).expect("it is there");
    let mut disk = recovered(&mut cluster, 2);
    assert_eq!((byte_at(&mut *disk, 0), byte_at(&mut *disk, 8192)), (1, 7));
}

#[test]
fn a_failed_replica_leaves_the_record_before_anything_is_done_without_it() {
    let mut cluster = Cluster::new(3);
    let (mirror, mut disk) = serving(&mut cluster, 1, 2);
    let before = mirror.status().record;
    let lost = before.replicas[0].backup.clone();
    cluster.backups.remove(&lost);
    write(&mut *disk, 8192, 7);
    // Everything is passed on but what the registry is asked.
    for _ in 0..100 {
        mirror.turn();
        while let Some(Outgoing { backup, token, message }) = mirror.next_message() {
            let answer = cluster.ask(&backup, &message);
            mirror.answered(token, answer.as_deref().map_err(|why| *why));
        }
    }
    assert!(disk.poll().is_none(), "the record still names the lost one");
    cluster.settle(&mirror);
    assert!(disk.poll().expect("another has it").outcome.is_ok());
    let after = mirror.status().record;
    assert!(after.epoch > before.epoch && after.replicas.iter().all(|place| place.backup != lost));
    assert_eq!(after.replicas.len(), 2);
    assert_eq!(mirror.status().failures, 1);
}

#[test]
fn without_enough_backups_a_write_waits_and_is_overdue_after_the_lease() {
    let mut cluster = Cluster::new(2);
    let (mirror, mut disk) = serving(&mut cluster, 1, 2);
    cluster.backups.remove("backup:0");
    write(&mut *disk, 8192, 7);
    cluster.settle(&mirror);
    assert!(disk.poll().is_none() && !mirror.is_overdue() && mirror.may_write());
    cluster.pass(LEASE);
    cluster.settle(&mirror);
    assert!(disk.poll().is_none() && mirror.is_overdue() && !mirror.may_write());
    let trouble = mirror.status().trouble.expect("it says so");
    assert_eq!(trouble, "1 of 2 replicas are whole; backup:0: it does not answer");
    // Another one comes: what waits is done.
    cluster.start_backup(5);
    cluster.pass(LEASE);
    cluster.settle(&mirror);
    assert!(disk.poll().expect("there are two again").outcome.is_ok());
    assert!(mirror.may_write() && mirror.status().trouble.is_none());
}

#[test]
fn a_primary_that_was_replaced_writes_nothing_and_reads_nothing() {
    let mut cluster = Cluster::new(2);
    let (mirror, mut disk) = serving(&mut cluster, 1, 2);
    let clock = cluster.clock();
    let mut candidate = Cluster::candidate(2, 2);
    let mut registry = cluster.registry.clone();
    let mut attempt = || candidate.try_claim(&mut registry, &clock).expect("it answers");
    assert!(attempt().is_none(), "the lease is not over");
    // The primary stands still for longer than its lease.
    cluster.pass(LEASE);
    assert!(!mirror.may_read(), "its own lease ends before that of others");
    let claimed = attempt().expect("the lease is over");
    let record = claimed.record.clone();
    Recovery::new(record).fence(&mut cluster).expect("both answer");
    write(&mut *disk, 8192, 7);
    cluster.settle(&mirror);
    let outcome = disk.poll().expect("it is over").outcome;
    assert_eq!(outcome, Err(farcall_disk::DiskError::Failed { code: 116 }));
    let why = mirror.deposed().expect("it knows");
    assert!(why.contains("later epoch") || why.contains("primary:2"), "{why}");
}

#[test]
fn no_two_replicas_lie_in_one_domain_or_with_the_primary() {
    let mut cluster = Cluster::new(0);
    for (at, domain) in [("a:1", "rack 1"), ("a:2", "rack 1"), ("b:1", "primary")] {
        cluster.registry.announce(BackupEntry {
            at: at.to_owned(),
            domain: domain.to_owned(),
            has_disk: false,
        });
        let shelf = FolderShelf::new(None).expect("memory");
        cluster.backups.insert(at.to_owned(), Backup::open(Box::new(shelf)).expect("nothing is there"));
    }
    let (mirror, _disk) = serving(&mut cluster, 1, 2);
    assert!(!mirror.may_read() && !mirror.may_write());
    assert_eq!(mirror.status().replicas.len(), 1);
    let key = Record::key(0);
    let found = cluster.registry.load(&key).expect("it answers").expect("it was claimed");
    assert_eq!(
        Record::decode(&found.value).expect("a record").replicas,
        [],
        "one is not enough to be recorded"
    );
}

#[test]
fn a_replica_is_as_long_as_the_image_however_blank_that_is() {
    let mut cluster = Cluster::new(2);
    let (mirror, mut disk) = serving(&mut cluster, 1, 2);
    let bytes_of = |cluster: &mut Cluster, mirror: &Mirror| {
        let Record { log, epoch, replicas, .. } = mirror.status().record;
        let fence = crate::message::Request::Fence { retained: vec![replicas[0].replica] };
        let subject = crate::message::Subject { log, replica: 0, epoch };
        let held = cluster.ask(&replicas[0].backup, &fence.encode(subject)).expect("it is there");
        crate::message::Held::decode_all(&held).expect("a list")[0].bytes
    };
    assert_eq!(bytes_of(&mut cluster, &mirror), 1 << 20);
    disk.begin(Job::Extend { bytes: 3 << 20 });
    disk.poll().expect("it is longer here").outcome.expect("there is room");
    cluster.settle(&mirror);
    assert_eq!(bytes_of(&mut cluster, &mirror), 4 << 20);
}

#[test]
fn recorded_replicas_stay_until_others_are_recorded() {
    let mut cluster = Cluster::new(2);
    let (first, _) = serving(&mut cluster, 1, 2);
    let recorded = first.status().record.replicas;
    cluster.registry.ended(1);
    cluster.backups.remove("backup:1");
    // The next one has a replica at the backup that is left, which is one too few to be recorded.
    let (second, _) = serving(&mut cluster, 2, 2);
    let stages: Vec<_> = second.status().replicas.iter().map(|replica| replica.stage).collect();
    assert_eq!((stages, second.may_read()), (vec![ReplicaStage::Whole], false));
    cluster.pass(4 * LEASE);
    cluster.settle(&second);
    assert_eq!(second.status().record.beat, first.status().record.beat + 2, "it has claimed, and renewed");
    let left = recorded.iter().find(|place| place.backup == "backup:0").expect("one was there");
    assert!(cluster.backups["backup:0"].has(second.log(), left.replica), "it is all that a third one has");
    cluster.registry.ended(2);
    assert_eq!(byte_at(&mut *recovered(&mut cluster, 3), 0), 1);
}

/// Has the registry do what is asked for, and loses its answer.
fn lose_answer(cluster: &mut Cluster, mirror: &Mirror) {
    let job = mirror.next_registry_job().expect("something is to be recorded");
    assert!(matches!(job, RegistryJob::Set { .. }), "{job:?}");
    job.carry_out(&mut cluster.registry);
    let (place, reason) = ("memory".to_owned(), "its answer was lost".to_owned());
    mirror.registry_answered(RegistryAnswer::Set(Err(crate::registry::RegistryError { place, reason })));
}

#[test]
fn a_lease_counts_from_the_attempt_that_was_done_and_not_from_the_one_that_found_out() {
    let mut cluster = Cluster::new(2);
    let (mirror, _disk) = serving(&mut cluster, 1, 2);
    cluster.pass(LEASE / 3);
    lose_answer(&mut cluster, &mirror);
    let clock = cluster.clock();
    let (mut candidate, mut registry) = (Cluster::candidate(2, 2), cluster.registry.clone());
    assert!(candidate.try_claim(&mut registry, &clock).expect("it answers").is_none(), "it is renewed");
    cluster.pass(LEASE / 3);
    let job = mirror.next_registry_job().expect("it asks again");
    mirror.registry_answered(job.carry_out(&mut cluster.registry));
    assert!(mirror.may_read(), "it knows by now that it was renewed");
    cluster.pass(LEASE - LEASE / 3);
    assert!(candidate.try_claim(&mut registry, &clock).expect("it answers").is_some(), "the lease is over");
    assert!(!mirror.may_read(), "two processes may read");
}

/// A primary one of whose replicas is lost, until the one that takes its place is whole and not recorded yet;
/// gives its backup too.
fn replacing(cluster: &mut Cluster) -> (Mirror, Box<dyn Disk>, String) {
    let (mirror, disk) = serving(cluster, 1, 2);
    let recorded = mirror.status().record.replicas;
    let is_spare = |at: &&String| recorded.iter().all(|place| place.backup != **at);
    let spare = cluster.backups.keys().find(is_spare).expect("there are three").clone();
    cluster.backups.remove(&recorded[0].backup);
    mirror.lost(&recorded[0].backup);
    fill(cluster, &mirror);
    (mirror, disk, spare)
}

/// Has backups answer until every replica is whole.
fn fill(cluster: &mut Cluster, mirror: &Mirror) {
    for _ in 0..1000 {
        mirror.turn();
        while let Some(Outgoing { backup, token, message }) = mirror.next_message() {
            let answer = cluster.ask(&backup, &message);
            mirror.answered(token, answer.as_deref().map_err(|why| *why));
        }
        let replicas = mirror.status().replicas;
        if replicas.len() == 2 && replicas.iter().all(|replica| replica.stage == ReplicaStage::Whole) {
            return;
        }
    }
    panic!("it is never whole: {:?}", mirror.status());
}

fn recorded_at(cluster: &Cluster, backup: &str) -> Option<u64> {
    let found = cluster.registry.clone().load(&Record::key(0)).expect("it answers").expect("it is there");
    let record = Record::decode(&found.value).expect("a record");
    record.replicas.iter().find(|place| place.backup == backup).map(|place| place.replica)
}

#[test]
fn a_replica_that_may_be_recorded_stays_until_it_is_known_whether_it_is() {
    let mut cluster = Cluster::new(3);
    let (mirror, _disk, spare) = replacing(&mut cluster);
    lose_answer(&mut cluster, &mirror);
    let replica = recorded_at(&cluster, &spare).expect("it is recorded");
    // The session to it ends, and it is reached again, before the registry says what it has done.
    mirror.lost(&spare);
    cluster.registry.set_silent(true);
    for _ in 0..10 {
        cluster.pass(LEASE);
        cluster.settle(&mirror);
    }
    assert!(cluster.backups[&spare].has(mirror.log(), replica), "a successor may need it");
}

#[test]
fn a_message_that_comes_late_drops_no_later_replica() {
    let mut cluster = Cluster::new(3);
    let (mirror, _disk, spare) = replacing(&mut cluster);
    let job = mirror.next_registry_job().expect("the new one is to be recorded");
    mirror.registry_answered(job.carry_out(&mut cluster.registry));
    let late = core::iter::from_fn(|| mirror.next_message()).find(|message| message.backup == spare);
    let late = late.expect("older replicas are to be dropped");
    // Its time is over, and the same backup gets another replica before it arrives.
    mirror.answered(late.token, Err(NoAnswer::Silent));
    mirror.lost(&mirror.status().record.replicas[0].backup);
    cluster.pass(LEASE / 2);
    while let Some(RegistryJob::Backups) = mirror.next_registry_job() {
        mirror.registry_answered(RegistryJob::Backups.carry_out(&mut cluster.registry));
    }
    fill(&mut cluster, &mirror);
    let replicas = mirror.status().replicas;
    let later = replicas.iter().find(|replica| replica.backup == spare).expect("it is used again");
    cluster.ask(&spare, &late.message).expect("it is of the same epoch");
    assert!(cluster.backups[&spare].has(mirror.log(), later.replica), "it is about to be recorded");
}

#[test]
fn dead_backups_that_are_listed_do_not_keep_a_live_one_from_its_turn() {
    const LISTED: u32 = 4;
    for live in 0..LISTED {
        let mut cluster = Cluster::new(LISTED);
        let live = format!("backup:{live}");
        cluster.backups.retain(|at, _| *at == live);
        let (mirror, _) = Mirror::new(cluster.claim(1, 1), Box::new(MemoryDisk::new()));
        mirror.serve();
        let turns = (0..100).position(|_| {
            mirror.turn();
            while let Some(Outgoing { backup, token, message }) = mirror.next_message() {
                let answer = cluster.ask(&backup, &message);
                if answer.is_err() {
                    // It is looked for as long as a message may take.
                    cluster.pass(LEASE);
                }
                mirror.answered(token, answer.as_deref().map_err(|why| *why));
            }
            while let Some(job) = mirror.next_registry_job() {
                mirror.registry_answered(job.carry_out(&mut cluster.registry));
            }
            mirror.may_write()
        });
        assert!(turns.is_some(), "{live} is never asked: {:?}", mirror.status());
        assert!(mirror.status().failures < u64::from(LISTED), "each was asked once at most");
    }
}

#[test]
fn what_is_left_at_a_backup_that_came_back_is_dropped() {
    let mut cluster = Cluster::new(3);
    let (mirror, _disk) = serving(&mut cluster, 1, 2);
    let left = mirror.status().record.replicas[0].clone();
    let away = cluster.backups.remove(&left.backup).expect("it is there");
    mirror.lost(&left.backup);
    cluster.pass(LEASE / 10);
    cluster.settle(&mirror);
    assert!(mirror.may_write() && mirror.status().record.replicas.iter().all(|place| *place != left));
    cluster.backups.insert(left.backup.clone(), away);
    // The log's replicas are where they are: nobody needs it.
    for _ in 0..1000 {
        cluster.pass(LEASE / 3);
        cluster.settle(&mirror);
    }
    assert!(!cluster.backups[&left.backup].has(mirror.log(), left.replica), "it would stay for ever");
    for place in mirror.status().record.replicas {
        assert!(cluster.backups[&place.backup].has(mirror.log(), place.replica), "it counts");
    }
}
