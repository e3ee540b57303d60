//! How a process becomes the primary of a shard, before it serves: it waits for its turn, and brings back
//! what the last primary had.

use core::time::Duration;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use farcall::bootstrap::random_incarnation;
use farcall::{Clock, Connection, Endpoint};
use farcall_disk::{Disk, DiskError, OpenError};
use farcall_replica::{
    Candidate, Claim, ClaimError, Claimed, FetchError, Keeper, Life, LogId, Mirror, MirrorOf, NoAnswer,
    Place, Reach, Record, Recovery, Registry, RegistryError,
};

use super::counters::TakeoverTimes;
use super::images::{Found, Images};
use super::{OpenRegistry, RegistryPlace, answer, target};
use crate::Shard;
use crate::durable::{Level, LogError, Recovered};
use crate::wire::BACKUP;

/// How often the record of a primary that lives is looked at.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// How long a registry that does not answer is left alone.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// How long it waits before replicas none of which could be read are asked again: at first, and at most. It
/// becomes twice as long each time.
const FETCH_AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// What a process wants to be the primary of.
#[derive(Clone, Debug)]
pub struct PrimaryPlan {
    /// Where the registry is.
    pub registry: RegistryPlace,
    /// The folder for the log, if its tables are flushed; without one it is in memory.
    pub data: Option<PathBuf>,
    /// Where clients find this process.
    pub at: String,
    /// The shard, and how many there are.
    pub of: (u32, u32),
    /// How long this process may answer without renewing.
    pub lease: Duration,
    /// What its tables are to survive.
    pub level: Level,
    /// What this process may be lost with.
    pub domain: String,
    /// The longest that the log may become.
    pub log_bytes_max: u64,
}

/// What a process waits for before it is the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The lease of another process, which is there.
    Lease(String),
    /// A replica that can be read.
    Replica(String),
    /// The registry, which does not answer.
    Registry(String),
    /// A replica, which is read instead of the log here: that is damaged, or another process has it.
    Instead(String),
}

/// Why a process cannot become the primary.
#[derive(Debug, thiserror::Error)]
pub enum PrimaryError {
    /// See the reason.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// See the reason.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// See the reason.
    #[error("{path}: {reason}", path = path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        reason: std::io::Error,
    },
    /// Raise the limit of threads.
    #[error("no thread can be started that asks the registry: {reason}")]
    Thread {
        /// What the system says.
        reason: std::io::Error,
    },
    /// See the reason.
    #[error(transparent)]
    Disk(#[from] OpenError),
    /// See the reason.
    #[error(transparent)]
    Log(#[from] LogError),
    /// See the reason.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Give the registry that the log is of, or another directory.
    #[error(
        "{path} is a log of this shard that the registry at {registry} does not know; give the registry that \
         it was made with, or another --data, or keep what it has by `farcall kv backup --export`",
        path = path.display()
    )]
    OtherStore {
        /// The log.
        path: PathBuf,
        /// The registry.
        registry: RegistryPlace,
    },
    /// Give it a directory.
    #[error(
        "the shard's tables are recorded with a level that has `flushed`, which takes a directory for the log: \
         give --data DIR"
    )]
    NoData,
}

/// A process that is the primary, before it serves.
#[derive(Debug)]
pub struct Primary {
    /// What mirrors the log.
    pub mirror: Mirror,
    /// Renews what makes it the primary, until the mirror does; see [`Keeper::hand_to`].
    pub keeper: Keeper,
    /// Says that this process lives, where the registry can tell.
    pub life: Option<Life>,
    /// What the log had.
    pub recovered: Recovered,
    /// The replica that was read, if one was.
    pub read_from: Option<Place>,
    /// Where the time went until now.
    pub times: TakeoverTimes,
}

impl Primary {
    /// Becomes the primary of a shard, whose durable tables come back from the log here or from a replica;
    /// `tell` is told, once each, what it waits for. The endpoint reaches backups.
    pub fn begin(
        plan: &PrimaryPlan,
        shard: &mut Shard,
        endpoint: &Endpoint,
        mut tell: impl FnMut(Waits),
    ) -> Result<Self, PrimaryError> {
        let (begun, mut times) = (Instant::now(), TakeoverTimes::default());
        let mut registry = OpenRegistry::open(&plan.registry)?;
        let incarnation = random_incarnation();
        let life = registry.live(incarnation)?;
        refuse_without_folder(plan, &mut registry)?;
        let claimed = claim(plan, incarnation, &mut registry, &mut tell)?;
        times.wait = begun.elapsed();
        // One whose first attempt was set although nobody said so comes after itself.
        if let Some(before) = claimed.before.filter(|before| *before != incarnation) {
            registry.bury(before);
        }
        let record = claimed.record.clone();
        if record.flushed && plan.data.is_none() {
            return Err(PrimaryError::NoData);
        }
        let clock = Clock::new();
        let keeper = Keeper::start(Box::new(registry), claimed.clone(), move || clock.now());
        let keeper = keeper.map_err(|reason| PrimaryError::Thread { reason })?;
        let mut reach = OverEndpoint { endpoint, connections: HashMap::new(), within: plan.lease };
        let folder = plan.data.as_deref().filter(|_| record.flushed);
        let images = Images { folder, shard: plan.of.0, store: record.log.store };
        if let Some(path) = images.of_others()? {
            return Err(PrimaryError::OtherStore { path, registry: plan.registry.clone() });
        }
        let mut fetching = Fetching::new(&record);
        let (mut own, mut disk, mut read_from) = first_image(&images, &record, &mut tell)?;
        loop {
            if disk.is_none() && record.replicas.is_empty() {
                (own, disk) = images.create()?;
            }
            let image = match disk.take() {
                Some(image) => image,
                None => {
                    let begun = Instant::now();
                    let (number, place, image) = fetching.fetch(&images, &mut reach, &keeper, &mut tell)?;
                    times.fetch += begun.elapsed();
                    (own, read_from) = (number, Some(place));
                    image
                }
            };
            let (mirror, mirrored) = Mirror::new(mirror_of(plan, &claimed, own), image);
            match shard.open_mirrored_log(mirrored, mirror.clone(), plan.log_bytes_max) {
                Ok(recovered) => {
                    times.replay = recovered.took;
                    // It may have been read from a replica that was damaged before.
                    keeper.set_renewing(true);
                    images.remove_others(own);
                    return Ok(Self { mirror, keeper, life, recovered, read_from, times });
                }
                // Another copy may be whole.
                Err(error) if is_of_copy(&error, &read_from) && !record.replicas.is_empty() => {
                    match read_from.take() {
                        Some(place) => {
                            images.remove(own);
                            fetching.is_damaged(place, &error.to_string());
                        }
                        None => tell(Waits::Instead(error.to_string())),
                    }
                    shard.clear();
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Before anybody waits for this process: what it cannot do without.
fn refuse_without_folder(plan: &PrimaryPlan, registry: &mut OpenRegistry) -> Result<(), PrimaryError> {
    // One that does not answer is waited for by the claim.
    let found = registry.load(&Record::key(plan.of.0)).ok().flatten();
    let record = found.and_then(|found| Record::decode(&found.value));
    if plan.data.is_none() && record.is_some_and(|record| record.flushed) {
        return Err(PrimaryError::NoData);
    }
    Ok(())
}

/// Whether an error is of one copy of the log, and another one may do. A disk that fails is where what was
/// read from a replica would go as well, but one that had the log already may have failed at that place only.
fn is_of_copy(error: &LogError, read_from: &Option<Place>) -> bool {
    match error {
        LogError::Damaged { .. } | LogError::NotALog => true,
        LogError::Disk(DiskError::Failed { .. }) => read_from.is_none(),
        _ => false,
    }
}

/// What was told already.
#[derive(Default)]
struct Told {
    lease: bool,
    registry: bool,
}

impl Told {
    fn once(&mut self, waits: Waits, tell: &mut impl FnMut(Waits)) {
        let is_told = match waits {
            Waits::Lease(_) => &mut self.lease,
            Waits::Registry(_) | Waits::Replica(_) | Waits::Instead(_) => &mut self.registry,
        };
        if !core::mem::replace(is_told, true) {
            tell(waits);
        }
    }
}

/// Waits until nobody else is the primary.
fn claim(
    plan: &PrimaryPlan,
    incarnation: u64,
    registry: &mut OpenRegistry,
    tell: &mut impl FnMut(Waits),
) -> Result<Claimed, PrimaryError> {
    let (shard, shards) = plan.of;
    let mut candidate = Candidate::new(Claim {
        log: LogId { store: random_incarnation(), shard },
        shards,
        primary: plan.at.clone(),
        incarnation,
        lease: plan.lease,
        wanted: u32::from(plan.level.replicas()),
        flushed: plan.level.is_flushed(),
    });
    let clock = Clock::new();
    let mut told = Told::default();
    let mut is_listed = false;
    loop {
        match candidate.try_claim(registry, &|| clock.now()) {
            Ok(Some(claimed)) => {
                if is_listed {
                    registry.waits_no_more(shard, incarnation);
                }
                return Ok(claimed);
            }
            Ok(None) if !is_listed => {
                is_listed = true;
                registry.wait_for(shard, incarnation, &plan.at)?;
            }
            Ok(None) => {}
            Err(ClaimError::Registry(error)) if registry.may_come_back() => {
                told.once(Waits::Registry(error.to_string()), tell);
                std::thread::sleep(ASK_AGAIN_AFTER);
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        if !told.lease {
            // One that does not answer is asked again in the next round.
            let found = registry.load(&Record::key(shard)).ok().flatten();
            let found = found.and_then(|found| Record::decode(&found.value));
            if let Some(record) = found.filter(|record| record.incarnation != incarnation) {
                told.once(Waits::Lease(record.primary), tell);
            }
        }
        std::thread::sleep(LOOK_AGAIN_AFTER);
    }
}

/// An image of a log: its number, its disk if it is here, and the backup that it came from, if it did.
type Image = (u64, Option<Box<dyn Disk>>, Option<Place>);

/// The image here, if it is the one that the record names.
fn first_image(
    images: &Images<'_>,
    record: &Record,
    tell: &mut impl FnMut(Waits),
) -> Result<Image, PrimaryError> {
    let own = record.own;
    let disk = match if own == 0 { Found::None } else { images.open(own)? } {
        Found::Image(disk) => Some(disk),
        Found::InUse(error) => {
            tell(Waits::Instead(error.to_string()));
            None
        }
        Found::None => None,
    };
    Ok((own, disk, None))
}

/// How replicas are read until one is whole.
struct Fetching<'r> {
    record: &'r Record,
    recovery: Recovery,
    /// Replicas that were read, and are no log.
    damaged: Vec<Place>,
    is_told: bool,
    /// How long the next pause is.
    pause: Duration,
}

impl<'r> Fetching<'r> {
    fn new(record: &'r Record) -> Self {
        let [pause, _] = FETCH_AGAIN_AFTER;
        let recovery = Recovery::new(record.clone());
        Self { record, recovery, damaged: Vec::new(), is_told: false, pause }
    }

    /// What was read last is of no use. It is read again once no other can be: its backup may be repaired.
    fn is_damaged(&mut self, place: Place, why: &str) {
        self.recovery.is_damaged(&place, why);
        if !self.damaged.contains(&place) {
            self.damaged.push(place);
        }
    }

    /// Reads a replica, however long it takes until one can be read. While none can, the claim is not
    /// renewed, nor is it for one that was damaged: another process may reach one, or have the log.
    fn fetch(
        &mut self,
        images: &Images<'_>,
        reach: &mut dyn Reach,
        keeper: &Keeper,
        tell: &mut impl FnMut(Waits),
    ) -> Result<(u64, Place, Box<dyn Disk>), PrimaryError> {
        loop {
            let (mut made, damaged) = (Vec::new(), &self.damaged);
            let mut make = |place: &Place| {
                if !damaged.contains(place) {
                    keeper.set_renewing(true);
                }
                let (number, disk) = images.create().map_err(|_| FetchError::Here(DiskError::Full))?;
                made.push(number);
                Ok(disk.expect("one was made"))
            };
            let fetched = self.recovery.fetch(reach, &mut make);
            let kept = if fetched.is_ok() { made.pop() } else { None };
            // What was read in part is of no use to anybody.
            made.iter().for_each(|number| images.remove(*number));
            match fetched {
                Ok((place, disk)) => {
                    let number = kept.expect("it was read into one that was made");
                    return Ok((number, place, disk));
                }
                Err(error @ FetchError::NoReplica(_)) => self.wait(&error, keeper, tell),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits before all replicas are tried again: a backup may be about to start.
    fn wait(&mut self, error: &FetchError, keeper: &Keeper, tell: &mut impl FnMut(Waits)) {
        let [_, pause_max] = FETCH_AGAIN_AFTER;
        keeper.set_renewing(false);
        if !core::mem::replace(&mut self.is_told, true) {
            tell(Waits::Replica(error.to_string()));
        }
        std::thread::sleep(self.pause);
        self.pause = pause_max.min(self.pause * 2);
        self.recovery = Recovery::again(self.record.clone(), &self.damaged);
    }
}

fn mirror_of(plan: &PrimaryPlan, claimed: &Claimed, own: u64) -> MirrorOf {
    let Claimed { record, revision, set_at, .. } = claimed.clone();
    let clock = Clock::new();
    MirrorOf {
        record,
        revision,
        set_at,
        lease: plan.lease,
        own,
        domain: plan.domain.clone(),
        clock: Box::new(move || clock.now()),
    }
}

/// Backups, reached over an endpoint.
struct OverEndpoint<'e> {
    endpoint: &'e Endpoint,
    connections: HashMap<String, Connection<'e>>,
    within: Duration,
}

impl Reach for OverEndpoint<'_> {
    fn ask(&mut self, backup: &str, message: &[u8]) -> Result<Vec<u8>, NoAnswer> {
        if !self.connections.contains_key(backup) {
            let connection = self.endpoint.connect(&target(backup)).map_err(|_| NoAnswer::Silent)?;
            self.connections.insert(backup.to_owned(), connection);
        }
        let connection = &self.connections[backup];
        let peer = connection.wait(self.within).map_err(|_| NoAnswer::Silent)?;
        let outcome = self.endpoint.call(peer, BACKUP, message).within(self.within).wait();
        match outcome {
            Ok(response) => Ok(response.to_vec()),
            Err(error) => answer(&Err(error)).map(<[u8]>::to_vec),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use farcall_disk::{Blocks, Job};
    use farcall_replica::{Held, MemoryRegistry, Refusal, Request};

    use super::*;

    const BYTES: u64 = 1 << 20;

    /// A backup whose replica cannot be read to its end until it was tried so often.
    struct Flaky {
        failures: usize,
        begun: usize,
    }

    impl Reach for Flaky {
        fn ask(&mut self, _: &str, message: &[u8]) -> Result<Vec<u8>, NoAnswer> {
            match Request::decode(message).expect("a request").1 {
                Request::Fence { .. } => {
                    let mut answer = Vec::new();
                    Held { replica: 5, bytes: BYTES }.encode(&mut answer);
                    Ok(answer)
                }
                Request::Read { at: 0, .. } => {
                    self.begun += 1;
                    // At first not even the begin can be read.
                    if self.begun == 1 { Err(NoAnswer::Silent) } else { Ok(b"log".to_vec()) }
                }
                Request::Read { .. } if self.begun <= self.failures => {
                    Err(NoAnswer::Refused(Refusal::DiskFailed))
                }
                _ => Ok(Vec::new()),
            }
        }
    }

    /// A claim whose one replica is at the flaky backup.
    fn claimed() -> (MemoryRegistry, Claimed) {
        let mut registry = MemoryRegistry::default();
        let mut candidate = Candidate::new(Claim {
            log: LogId { store: 9, shard: 0 },
            shards: 1,
            primary: "primary".to_owned(),
            incarnation: 1,
            lease: Duration::from_secs(600),
            wanted: 1,
            flushed: true,
        });
        let claimed = candidate.try_claim(&mut registry, &|| farcall_base::Instant::ZERO);
        let mut claimed = claimed.expect("it answers").expect("nobody has it");
        claimed.record.replicas = vec![Place { backup: "backup".to_owned(), replica: 5 }];
        (registry, claimed)
    }

    /// A folder of the test's own.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("farcall-{name}-{}", std::process::id()));
            std::fs::create_dir(&folder).expect("room");
            Self(folder)
        }

        fn files(&self) -> usize {
            std::fs::read_dir(&self.0).expect("it is there").count()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("the test's own");
        }
    }

    fn images(folder: &Path) -> Images<'_> {
        Images { folder: Some(folder), shard: 0, store: 9 }
    }

    #[test]
    fn replicas_that_cannot_be_read_to_their_end_leave_nothing_here() {
        let folder = Folder::new("flaky");
        let (registry, claimed) = claimed();
        let record = claimed.record.clone();
        let zero = || farcall_base::Instant::ZERO;
        let keeper = Keeper::start(Box::new(registry), claimed, zero).expect("a thread");
        let (mut reach, mut fetching) = (Flaky { failures: 3, begun: 0 }, Fetching::new(&record));
        let mut told = Vec::new();
        let mut tell = |waits| told.push(waits);
        let images = images(&folder.0);
        let fetched = fetching.fetch(&images, &mut reach, &keeper, &mut tell);
        let (number, place, mut disk) = fetched.expect("it can be read in the end");
        assert_eq!((reach.begun, place.replica, disk.bytes()), (4, 5, BYTES));
        assert_eq!(folder.files(), 1, "the one that was read");
        disk.begin(Job::Read { at: 0, blocks: Blocks::zeroed(4096) });
        assert_eq!(&disk.wait().expect("it is there").blocks[..4], b"log\0");
        assert!(matches!(told[..], [Waits::Replica(_)]), "it is said once: {told:?}");
        images.remove(number);
        assert_eq!(folder.files(), 0);
    }

    /// Two backups, of which one does not answer for so many rounds.
    struct Late {
        silent_rounds: usize,
        asked: usize,
    }

    impl Reach for Late {
        fn ask(&mut self, backup: &str, message: &[u8]) -> Result<Vec<u8>, NoAnswer> {
            let Request::Fence { .. } = Request::decode(message).expect("a request").1 else {
                return Ok(b"log".to_vec());
            };
            if backup == "late" {
                self.asked += 1;
                if self.asked <= self.silent_rounds {
                    return Err(NoAnswer::Silent);
                }
            }
            let mut answer = Vec::new();
            Held { replica: if backup == "late" { 6 } else { 5 }, bytes: BYTES }.encode(&mut answer);
            Ok(answer)
        }
    }

    #[test]
    fn a_damaged_replica_is_read_again_behind_all_others_after_pauses_and_without_a_claim() {
        let folder = Folder::new("damaged");
        let (registry, mut claimed) = claimed();
        claimed.record.replicas.push(Place { backup: "late".to_owned(), replica: 6 });
        let record = claimed.record.clone();
        let zero = || farcall_base::Instant::ZERO;
        let keeper = Keeper::start(Box::new(registry), claimed, zero).expect("a thread");
        let (mut reach, mut fetching) = (Late { silent_rounds: 2, asked: 0 }, Fetching::new(&record));
        let images = images(&folder.0);
        let mut told = 0;
        let mut fetch = |fetching: &mut Fetching<'_>| {
            let fetched = fetching.fetch(&images, &mut reach, &keeper, &mut |_| told += 1);
            let (number, place, _) = fetched.expect("one can be read");
            images.remove(number);
            place
        };
        let [pause, _] = FETCH_AGAIN_AFTER;
        for (pauses, renews) in [(0, true), (1, false)] {
            let place = fetch(&mut fetching);
            assert_eq!((&*place.backup, keeper.is_renewing()), ("backup", renews));
            assert_eq!(fetching.pause, pause * (1 << pauses));
            fetching.is_damaged(place, "it is no log");
        }
        let place = fetch(&mut fetching);
        assert_eq!((&*place.backup, keeper.is_renewing()), ("late", true), "it was never damaged");
        assert_eq!((fetching.pause, told), (pause * 4, 1));
    }

    #[test]
    fn an_image_that_another_process_has_counts_as_none() {
        let folder = Folder::new("in-use");
        let images = images(&folder.0);
        let (own, other) = images.create().expect("room");
        let record = Record { own, ..claimed().1.record };
        let mut told = Vec::new();
        let mut first = || {
            let (_, disk, _) =
                first_image(&images, &record, &mut |waits| told.push(waits)).expect("it goes on");
            disk.is_some()
        };
        assert!(!first(), "two must not write to it");
        drop(other);
        assert!(first());
        assert!(matches!(&told[..], [Waits::Instead(why)] if why.contains("in use by another process")));
    }
}
