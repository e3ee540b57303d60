//! Copies that are damaged on their disks: they are found, written again, and lost only if none is whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use farcall_disk::testing::{Faults, SimulatedDisk};
use farcall_disk::{Blocks, Disk, Done, Job};

use super::*;
use crate::backup::{Backup, Handled, Shelf, ShelfError, Stored};
use crate::record::BackupEntry;
use crate::registry::MemoryRegistry;
use crate::takeover::{Candidate, Claim, Claimed};

const LEASE: Duration = Duration::from_millis(300);
const BYTES: u64 = 2 << 20;
/// A part of the image that is certified as a whole.
const PART: u64 = 1 << 20;

/// Every block is right whose bytes are all the same: a damaged one is found by itself.
struct EvenBlocks;

impl Certificate for EvenBlocks {
    fn compose(&self, copies: &[&[u8]]) -> Option<Vec<u8>> {
        let blocks = |copy: &[u8]| copy.chunks(4096).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let copies: Vec<Vec<Vec<u8>>> = copies.iter().map(|copy| blocks(copy)).collect();
        let is_even = |block: &&Vec<u8>| block.iter().all(|byte| *byte == block[0]);
        let right = |place: usize| copies.iter().map(|copy| &copy[place]).find(is_even).cloned();
        (0..copies[0].len()).map(right).collect::<Option<Vec<_>>>().map(|blocks| blocks.concat())
    }
}

/// A shelf with one disk, which a test can damage, and make unreadable at a place.
struct OneDisk(SimulatedDisk, Arc<AtomicU64>);

impl Shelf for OneDisk {
    fn stored(&mut self) -> Result<Vec<Stored>, ShelfError> {
        Ok(Vec::new())
    }

    fn create(&mut self, _: (LogId, u64), _: u64, _: bool) -> Result<Box<dyn Disk>, Refusal> {
        Ok(Box::new(Unreadable { disk: self.0.clone(), at: Arc::clone(&self.1), fails: false }))
    }

    fn raise_epoch(&mut self, _: LogId, _: u64) -> Result<(), Refusal> {
        Ok(())
    }

    fn remove(&mut self, _: LogId, _: u64) {}
}

/// A disk of which a range cannot be read until it is written again.
struct Unreadable {
    disk: SimulatedDisk,
    at: Arc<AtomicU64>,
    fails: bool,
}

/// No place is unreadable.
const NOWHERE: u64 = u64::MAX;

impl Disk for Unreadable {
    fn bytes(&self) -> u64 {
        self.disk.bytes()
    }

    fn begin(&mut self, job: Job) {
        let lost = self.at.load(Ordering::Relaxed);
        let has = |at: u64, blocks: &Blocks| (at..at + blocks.len() as u64).contains(&lost);
        match &job {
            Job::Write { at, blocks, .. } if has(*at, blocks) => self.at.store(NOWHERE, Ordering::Relaxed),
            Job::Read { at, blocks } => self.fails = has(*at, blocks),
            _ => {}
        }
        self.disk.begin(job);
    }

    fn poll(&mut self) -> Option<Done> {
        let done = self.disk.poll()?;
        let fails = core::mem::take(&mut self.fails);
        let outcome = if fails { Err(farcall_disk::DiskError::Failed { code: 5 }) } else { done.outcome };
        Some(Done { outcome, ..done })
    }

    fn wait(&mut self) -> Option<Done> {
        self.poll()
    }
}

/// A primary and two backups, with their disks.
struct Copies {
    backups: BTreeMap<String, Backup>,
    /// Of the primary, and of the backups in their order.
    disks: Vec<SimulatedDisk>,
    /// Where each of them cannot be read.
    lost: Vec<Arc<AtomicU64>>,
    now: Arc<AtomicU64>,
    registry: MemoryRegistry,
    runs: u64,
    mirror: Mirror,
    disk: Box<dyn Disk>,
}

impl Copies {
    fn new() -> Self {
        Self::with_spares(0)
    }

    /// The same, with more backups than are needed.
    fn with_spares(spares: u64) -> Self {
        let disks: Vec<SimulatedDisk> =
            (0..3 + spares).map(|seed| SimulatedDisk::new(seed, Faults::default())).collect();
        let lost: Vec<_> = disks.iter().map(|_| Arc::new(AtomicU64::new(NOWHERE))).collect();
        let (mut registry, mut backups) = (MemoryRegistry::default(), BTreeMap::new());
        for (number, disk) in disks.iter().enumerate().skip(1) {
            let at = format!("backup:{number}");
            let backup = Backup::open(Box::new(OneDisk(disk.clone(), Arc::clone(&lost[number]))))
                .expect("nothing is there");
            backups.insert(at.clone(), backup);
            registry.announce(BackupEntry { domain: at.clone(), at, has_disk: true });
        }
        let claim = Claim {
            log: LogId { store: 9, shard: 0 },
            shards: 1,
            primary: "primary:1".to_owned(),
            incarnation: 1,
            lease: LEASE,
            wanted: 2,
            flushed: true,
        };
        let now = Arc::new(AtomicU64::new(1));
        let time = Arc::clone(&now);
        let clock = move || Instant::from_nanos(time.load(Ordering::Relaxed));
        let claimed = Candidate::new(claim).try_claim(&mut registry, &clock).expect("it answers");
        let Claimed { record, revision, set_at, .. } = claimed.expect("nobody has it");
        let (own, domain, clock) = (1, "primary".to_owned(), Box::new(clock));
        let of = MirrorOf { record, revision, set_at, lease: LEASE, own, domain, clock };
        let local = Unreadable { disk: disks[0].clone(), at: Arc::clone(&lost[0]), fails: false };
        let (mirror, disk) = Mirror::new(of, Box::new(local));
        let mut this = Self { backups, disks, lost, now, registry, runs: 0, mirror, disk };
        this.disk.begin(Job::Extend { bytes: BYTES });
        this.disk.wait().expect("it is opened").outcome.expect("there is room");
        this.mirror.serve();
        this.settle();
        this.write(8192, 7);
        this
    }

    /// Passes on all that there is to say, and certifies what differs, until nothing happens any more.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut happened = self.mirror.turn();
            if let Some(place) = self.mirror.suspect() {
                self.mirror.examine(place / PART * PART, PART, Box::new(EvenBlocks));
                happened = true;
            }
            while let Some(message) = self.mirror.next_message() {
                self.pass_on(message);
                happened = true;
            }
            if let Some(job) = self.mirror.next_registry_job() {
                self.mirror.registry_answered(job.carry_out(&mut self.registry));
                happened = true;
            }
            if !happened {
                return;
            }
        }
        panic!("it never settles");
    }

    fn pass_on(&mut self, Outgoing { backup, token, message }: Outgoing) {
        let backup = self.backups.get_mut(&backup).expect("it is there");
        match backup.handle(&message) {
            Handled::Now(answer) => {
                self.mirror.answered(token, answer.as_deref().map_err(|why| NoAnswer::Refused(*why)));
            }
            Handled::Later(_) => panic!("these disks are never late"),
        }
    }

    /// Writes a block, and waits until it is everywhere.
    fn write(&mut self, at: u64, byte: u8) {
        let mut blocks = Blocks::zeroed(4096);
        blocks.fill(byte);
        self.disk.begin(Job::Write { at, blocks, flush: true });
        self.settle();
        self.disk.poll().expect("it is everywhere").outcome.expect("it is written");
    }

    fn scrub(&mut self, repairs: bool) -> ScrubOutcome {
        self.runs += 1;
        assert_eq!(self.mirror.scrub(self.runs, repairs), None, "nothing of another run");
        self.settle();
        self.mirror.scrub(self.runs, repairs).expect("it is over")
    }

    /// Turns until a comparison has found where copies differ.
    fn turn_until_suspect(&mut self) -> u64 {
        let place = (0..1000).find_map(|_| {
            self.mirror.turn();
            while let Some(message) = self.mirror.next_message() {
                self.pass_on(message);
            }
            self.mirror.suspect()
        });
        place.expect("it differs")
    }

    fn are_whole(&self) -> bool {
        let platters: Vec<Vec<u8>> =
            self.disks.iter().map(|disk| disk.platter()[..BYTES as usize].to_vec()).collect();
        let is_right = |place: usize, byte: u8| (8192..12_288).contains(&place) == (byte == 7);
        platters.iter().all(|platter| platter.iter().enumerate().all(|(place, byte)| is_right(place, *byte)))
    }
}

#[test]
fn copies_that_are_the_same_are_whole() {
    let mut copies = Copies::new();
    let outcome = copies.scrub(true);
    assert_eq!((outcome.bytes, outcome.replicas, outcome.damage), (BYTES, 2, Vec::new()));
    assert!(copies.are_whole());
}

#[test]
fn a_damaged_copy_is_named_and_written_again_only_if_it_is_to_be() {
    for (damaged, is_here) in [(0, true), (1, false), (2, false)] {
        let mut copies = Copies::new();
        copies.disks[damaged].flip_bit(8192 + 100, 3);
        let backups = if is_here { Vec::new() } else { vec![format!("backup:{damaged}")] };
        let part = |fate| Damage { at: 0, bytes: PART, fate, is_here, backups: backups.clone() };
        assert_eq!(copies.scrub(false).damage, [part(Fate::Reparable)], "copy {damaged}");
        assert!(!copies.are_whole(), "a comparison changes nothing");
        assert_eq!(copies.scrub(true).damage, [part(Fate::Repaired)], "copy {damaged}");
        assert!(copies.are_whole(), "copy {damaged}");
        assert_eq!(copies.scrub(true).damage, []);
        let replicas = copies.mirror.status().replicas;
        assert!(replicas.iter().all(|replica| replica.is_recorded), "no replica had to be made again");
        assert_eq!(copies.mirror.status().failures, 0);
        copies.write(4096 * 300, 7);
    }
}

#[test]
fn what_is_damaged_at_all_copies_at_different_places_is_put_together() {
    let mut copies = Copies::new();
    copies.disks[0].flip_bit(8192, 0);
    copies.disks[1].flip_bit(0, 0);
    copies.disks[2].flip_bit(40_960, 0);
    copies.disks[2].flip_bit(PART + 7, 0);
    let outcome = copies.scrub(true);
    let found: Vec<_> = outcome.damage.iter().map(|part| (part.at, part.fate, part.is_here)).collect();
    assert_eq!(found, [(0, Fate::Repaired, true), (PART, Fate::Repaired, false)]);
    assert!(copies.are_whole());
}

#[test]
fn what_is_whole_nowhere_is_said_and_left_as_it_is() {
    let mut copies = Copies::new();
    // The same block everywhere, but not the same damage.
    copies.disks.iter().zip(0..).for_each(|(disk, bit)| disk.flip_bit(8192, bit));
    copies.disks[1].flip_bit(PART, 0);
    let before: Vec<Vec<u8>> = copies.disks.iter().map(SimulatedDisk::platter).collect();
    let damage = copies.scrub(true).damage;
    let fates: Vec<_> = damage.iter().map(|part| (part.at, part.fate)).collect();
    assert_eq!(fates, [(0, Fate::Lost), (PART, Fate::Repaired)]);
    assert_eq!((damage[0].is_here, damage[0].backups.len()), (true, 2));
    for (disk, before) in copies.disks.iter().zip(before) {
        assert!(disk.platter()[..PART as usize] == before[..PART as usize], "it is as it was");
    }
    copies.write(4096 * 300, 7);
}

/// The only whole copy is at a backup that fails while it is asked for it: nobody knows that it is lost.
#[test]
fn what_only_a_replica_has_that_falls_silent_is_not_called_lost() {
    let mut copies = Copies::new();
    copies.disks[0].flip_bit(8192, 0);
    copies.disks[1].flip_bit(8192, 1);
    copies.mirror.scrub(1, true);
    let place = copies.turn_until_suspect();
    copies.mirror.examine(place / PART * PART, PART, Box::new(EvenBlocks));
    while let Some(message) = copies.mirror.next_message() {
        if message.backup == "backup:2" {
            copies.mirror.answered(message.token, Err(NoAnswer::Silent));
            break;
        }
        copies.pass_on(message);
    }
    copies.settle();
    let damage = copies.mirror.scrub(1, true).expect("it is over").damage;
    assert_eq!(damage.iter().map(|part| part.fate).collect::<Vec<_>>(), [Fate::Unread]);
    // Whoever has it still has it.
    assert!(copies.disks[2].platter()[8192..12_288].iter().all(|byte| *byte == 7));
}

#[test]
fn what_cannot_be_read_here_comes_from_a_replica() {
    let mut copies = Copies::new();
    copies.lost[0].store(8192, Ordering::Relaxed);
    let part = |fate| Damage { at: 0, bytes: PART, fate, is_here: true, backups: Vec::new() };
    assert_eq!(copies.scrub(false).damage, [part(Fate::Reparable)], "and the comparison ends");
    assert_eq!(copies.scrub(true).damage, [part(Fate::Repaired)]);
    assert_eq!(copies.lost[0].load(Ordering::Relaxed), NOWHERE, "it was written");
    assert!(copies.are_whole() && copies.scrub(false).damage.is_empty());
}

#[test]
fn a_replica_that_cannot_be_read_somewhere_is_written_again_there_and_stays() {
    for place in [8192, PART + 8192] {
        let mut copies = Copies::new();
        copies.lost[1].store(place, Ordering::Relaxed);
        let at = place / PART * PART;
        let part = |fate| {
            let backups = vec!["backup:1".to_owned()];
            Damage { at, bytes: PART, fate, is_here: false, backups }
        };
        assert_eq!(copies.scrub(false).damage, [part(Fate::Reparable)], "and the comparison ends");
        assert_eq!(copies.scrub(true).damage, [part(Fate::Repaired)]);
        assert_eq!(copies.lost[1].load(Ordering::Relaxed), NOWHERE, "it was written");
        assert_eq!(copies.mirror.status().failures, 0, "no replica had to be made again");
        assert!(copies.are_whole() && copies.scrub(false).damage.is_empty());
    }
}

#[test]
fn what_cannot_be_read_for_a_copy_is_repaired_first_and_then_copied() {
    let mut copies = Copies::with_spares(1);
    let replicas = copies.mirror.status().replicas;
    let number = |backup: &str| backup["backup:".len()..].parse::<usize>().expect("a number");
    let (lost, kept) = (replicas[0].backup.clone(), replicas[1].backup.clone());
    copies.lost[0].store(8192, Ordering::Relaxed);
    copies.mirror.lost(&lost);
    copies.now.fetch_add(LEASE.as_nanos() as u64 / 10, Ordering::Relaxed);
    copies.settle();
    let trouble = copies.mirror.status().trouble.expect("one replica lacks");
    assert!(trouble.contains("the disk here cannot read byte 0 of the log"), "{trouble}");
    let damage = copies.scrub(true).damage;
    assert_eq!(
        damage.iter().map(|part| (part.fate, part.is_here)).collect::<Vec<_>>(),
        [(Fate::Repaired, true)]
    );
    copies.settle();
    let replicas = copies.mirror.status().replicas;
    assert!(replicas.iter().all(|replica| replica.is_recorded) && replicas.len() == 2, "{replicas:?}");
    let other = replicas.iter().find(|replica| replica.backup != kept).expect("another one");
    assert_eq!(copies.disks[number(&other.backup)].platter()[8192], 7);
}

#[test]
fn a_write_that_comes_while_a_part_is_examined_waits_and_is_not_overwritten() {
    let mut copies = Copies::new();
    copies.disks[0].flip_bit(8192, 0);
    copies.mirror.scrub(1, true);
    let place = copies.turn_until_suspect();
    copies.mirror.examine(place / PART * PART, PART, Box::new(EvenBlocks));
    let mut blocks = Blocks::zeroed(4096);
    blocks.fill(9);
    copies.disk.begin(Job::Write { at: 8192, blocks, flush: true });
    assert!(copies.disk.poll().is_none(), "it has not begun");
    copies.settle();
    copies.disk.poll().expect("it was done behind the repair").outcome.expect("it is written");
    assert!(copies.disks.iter().all(|disk| disk.platter()[8192..12_288].iter().all(|byte| *byte == 9)));
}

#[test]
fn a_primary_that_is_replaced_while_it_examines_says_so_to_the_write_that_waits() {
    let mut copies = Copies::new();
    copies.disks[0].flip_bit(8192, 0);
    copies.mirror.scrub(1, true);
    let place = copies.turn_until_suspect();
    copies.mirror.examine(place / PART * PART, PART, Box::new(EvenBlocks));
    copies.disk.begin(Job::Write { at: 8192, blocks: Blocks::zeroed(4096), flush: true });
    let first = copies.mirror.next_message().expect("a question to a backup");
    copies.mirror.answered(first.token, Err(NoAnswer::Refused(Refusal::OlderEpoch)));
    let outcome = (0..10).find_map(|_| {
        copies.mirror.turn();
        copies.disk.poll()
    });
    assert!(outcome.expect("it does not wait for ever").outcome.is_err());
}

/// Whoever has asked for a comparison may be gone before it ends, and damage may come after it.
#[test]
fn what_one_run_found_answers_no_other() {
    let mut copies = Copies::new();
    assert_eq!(copies.mirror.scrub(100, false), None);
    assert_eq!(copies.mirror.scrub(101, true), None, "it waits for the other");
    copies.settle();
    copies.disks[1].flip_bit(8192, 0);
    assert_eq!(copies.mirror.scrub(101, true), None, "and begins by itself");
    copies.settle();
    let repaired = copies.mirror.scrub(101, true).expect("it is over");
    assert_eq!(repaired.damage.iter().map(|part| part.fate).collect::<Vec<_>>(), [Fate::Repaired]);
    assert_eq!(copies.mirror.scrub(100, false).expect("it is kept").damage, []);
    assert!(copies.are_whole());
}
