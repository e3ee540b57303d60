//! A shard with replicas, a backup and a registry in one thread.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use farcall_base::Instant;
use farcall_disk::testing::{Faults, SimulatedDisk};
use farcall_replica::{
    Backup, BackupEntry, Candidate, Claim, FolderShelf, Handled, LogId, MemoryRegistry, Mirror, MirrorOf,
    NoAnswer, Outgoing,
};

use super::*;
use crate::durable::{Held, LOG_BYTES_MIN, Released};

const LEASE: Duration = Duration::from_millis(300);
const LEVEL: Level = Level::Replicated { replicas: 1, flushed: false };

/// Takes one answer, or the promise of one.
struct Parks<'a>(&'a mut Option<Result<Vec<u8>, Code>>);

impl Answer for Parks<'_> {
    fn send(self, message: &[u8]) {
        Taken(self.0).send(message);
    }

    fn send_filled(self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        Taken(self.0).send_filled(bytes, fill);
    }

    fn refuse(self, code: Code) {
        Taken(self.0).refuse(code);
    }

    fn park(self) -> Parked {
        Parked::Numbered(1)
    }
}

/// A shard with the tables `memory` and `orders`, which has a replica.
struct Replicated {
    shard: Shard,
    mirror: Mirror,
    disk: SimulatedDisk,
    registry: MemoryRegistry,
    backup: Option<Backup>,
    now: Arc<AtomicU64>,
}

impl Replicated {
    fn new() -> Self {
        let mut registry = MemoryRegistry::default();
        let now = Arc::new(AtomicU64::new(1));
        let clock = {
            let now = Arc::clone(&now);
            move || Instant::from_nanos(now.load(Ordering::Relaxed))
        };
        let claim = Claim {
            log: LogId { store: 9, shard: 0 },
            shards: 1,
            primary: "primary".to_owned(),
            incarnation: 1,
            lease: LEASE,
            wanted: 1,
            flushed: false,
        };
        let claimed = Candidate::new(claim).try_claim(&mut registry, &clock);
        let claimed = claimed.expect("it answers").expect("nobody has it");
        let (at, domain) = ("backup".to_owned(), "elsewhere".to_owned());
        registry.announce(BackupEntry { at, domain, has_disk: false });
        let disk = SimulatedDisk::new(1, Faults::default());
        let of = MirrorOf {
            record: claimed.record,
            revision: claimed.revision,
            set_at: claimed.set_at,
            lease: LEASE,
            own: 0,
            domain: "here".to_owned(),
            clock: Box::new(clock),
        };
        let (mirror, mirrored) = Mirror::new(of, Box::new(disk.clone()));
        let mut shard = Shard::new(Store::new(MEMORY_BYTES_MIN).expect("enough"), 0, 1);
        shard.open_mirrored_log(mirrored, mirror.clone(), LOG_BYTES_MIN).expect("an empty disk");
        shard.create_table("memory").expect("the first");
        shard.create_table_at("orders", LEVEL).expect("the second");
        let shelf = FolderShelf::new(None).expect("memory");
        let backup = Some(Backup::open(Box::new(shelf)).expect("nothing is there"));
        Self { shard, mirror, disk, registry, backup, now }
    }

    /// One whose replica is whole and recorded.
    fn serving() -> Self {
        let mut this = Self::new();
        this.settle();
        assert!(this.mirror.may_read() && this.mirror.may_write(), "{:?}", this.mirror.status());
        this
    }

    fn pass(&self, time: Duration) {
        self.now.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Passes on what the shard, its backup and the registry have to say, for as many turns as anything takes
    /// here.
    fn settle(&mut self) {
        const TURNS: u32 = 1000;
        for _ in 0..TURNS {
            self.shard.turn_log();
            let mut messages = Vec::new();
            let (_, job) = self.mirror.turn_with(&mut messages);
            for Outgoing { token, message, .. } in messages {
                let answer = match self.backup.as_mut().map(|backup| backup.handle(&message)) {
                    Some(Handled::Now(answer)) => answer.map_err(NoAnswer::Refused),
                    Some(Handled::Later(_)) => panic!("memory is never late"),
                    None => Err(NoAnswer::Silent),
                };
                self.mirror.answered(token, answer.as_deref().map_err(|why| *why));
            }
            if let Some(job) = job {
                self.mirror.registry_answered(job.carry_out(&mut self.registry));
            }
        }
    }

    /// The answer to a request; `None` while it waits.
    fn asked(&mut self, service: Service, message: &[u8]) -> Option<Result<Vec<u8>, Code>> {
        let mut taken = None;
        self.shard.answer(service, message, Parks(&mut taken));
        taken
    }
}

fn put(table: &str) -> Vec<u8> {
    let name = Name::new(TableId::of(table).expect("short"), b"key").expect("a good key");
    let value = Value::new(b"value").expect("short");
    let mut message = Vec::new();
    MultiPutRequest::encode_item(&PutRequest { name, value, condition: Condition::Always }, &mut message);
    message
}

fn objects_in(shard: &Shard, table: &str) -> usize {
    let name = Name::new(TableId::of(table).expect("short"), b"key").expect("a good key");
    usize::from(shard.store().get(name).expect("a table").is_some())
}

#[test]
fn tables_in_memory_do_not_wait_for_the_log_or_its_replicas() {
    let mut of = Replicated::new();
    assert!(!of.mirror.may_read(), "there is no replica yet");
    // All or nothing, where it says that nothing was changed.
    let both = [put("memory"), put("orders")].concat();
    assert_eq!(of.asked(MULTI_PUT, &both), Some(Err(Code::TooFewReplicas)));
    assert_eq!(objects_in(&of.shard, "memory"), 0);
    assert!(of.asked(MULTI_PUT, &put("memory")).expect("at once").is_ok());
    assert_eq!(objects_in(&of.shard, "memory"), 1);
    let ask_for = |table: &str| {
        let table = TableId::of(table).expect("short");
        let (mut names, mut scan) = (Vec::new(), Vec::new());
        MultiGetRequest::encode_item(Name::new(table, b"key").expect("a good key"), &mut names);
        ScanRequest { table, page_bytes: 1 << 10, from: ScanFrom::Hash(0) }.encode(&mut scan);
        [(MULTI_GET, names), (SCAN, scan)]
    };
    for (service, message) in ask_for("memory") {
        assert!(of.asked(service, &message).expect("at once").is_ok());
    }
    for (service, message) in ask_for("orders") {
        assert_eq!(of.asked(service, &message), Some(Err(Code::TooFewReplicas)));
    }
}

#[test]
fn a_shard_whose_disk_has_failed_is_handed_over_and_has_nothing_more_to_do() {
    let mut of = Replicated::serving();
    of.disk.set_faults(Faults { fails_from: Some(0), ..Faults::default() });
    assert_eq!(of.asked(MULTI_PUT, &put("orders")), None, "it waits for the disk");
    of.settle();
    let Released { answer, .. } = of.shard.release().expect("nobody waits for ever");
    assert_eq!(answer, Held::Refused(Code::DiskFailed));
    assert!(!of.shard.is_flushing(), "there is nothing to wait for");
    assert_eq!(of.asked(HAND_OVER, &[]), Some(Ok(Vec::new())));
    assert!(of.shard.is_handed_over(), "nothing that was promised is left");
}

#[test]
fn a_shard_whose_replicas_are_missing_is_not_handed_over_and_goes_on() {
    let mut of = Replicated::serving();
    let backup = of.backup.take();
    assert_eq!(of.asked(MULTI_PUT, &put("orders")), None, "it waits for the replica");
    // Nobody knows yet that the replica is lost.
    assert_eq!(of.asked(HAND_OVER, &[]), Some(Ok(Vec::new())));
    assert!(!of.mirror.status().record.replicas.is_empty() && !of.shard.is_handed_over());
    of.settle();
    of.pass(LEASE / 2);
    of.settle();
    assert!(!of.shard.is_handed_over(), "a write waits");
    of.pass(LEASE / 2);
    of.settle();
    let Released { answer, .. } = of.shard.release().expect("nobody waits for ever");
    assert_eq!(answer, Held::Refused(Code::LevelNotReached));
    assert_eq!(of.shard.may_answer(), Ok(()), "it is read again");
    assert_eq!(of.asked(HAND_OVER, &[]), Some(Err(Code::TooFewReplicas)));
    of.backup = backup;
    of.pass(LEASE / 2);
    of.settle();
    assert_eq!(of.mirror.status().trouble, None);
    assert_eq!(of.asked(HAND_OVER, &[]), Some(Ok(Vec::new())));
    assert!(of.shard.is_handed_over());
}

#[test]
fn a_write_that_waits_for_no_disk_is_sent_in_the_turn_in_which_it_came() {
    let mut of = Replicated::serving();
    assert_eq!(of.asked(MULTI_PUT, &put("orders")), None, "it waits for the replica");
    of.shard.turn_log();
    let mut messages = Vec::new();
    of.mirror.turn_with(&mut messages);
    let Outgoing { token, message, .. } = messages.pop().expect("another write may never come");
    let backup = of.backup.as_mut().expect("it is there");
    assert_eq!(backup.handle(&message), Handled::Now(Ok(Vec::new())));
    of.mirror.answered(token, Ok(&[]));
    of.shard.turn_log();
    let Released { answer, .. } = of.shard.release().expect("it is everywhere");
    assert!(answer.answer().is_ok());
}
