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
    Place, Reach, Record, Registry, RegistryError,
};

use super::counters::TakeoverTimes;
use super::fetching::Fetching;
use super::images::{Found, Images};
use super::{OpenRegistry, RegistryPlace, answer, target};
use crate::Shard;
use crate::durable::{Level, LogError, Recovered};
use crate::placement::{KeeperError, settle};
use crate::wire::BACKUP;

/// How often the record of a primary that lives is looked at.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// How long a registry that does not answer is left alone.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

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
    /// See the reason.
    #[error(transparent)]
    Map(#[from] KeeperError),
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
        // Others may be about to take over what the log has: from here on they are not.
        let is_taken = is_taken(plan, &claimed.record, &mut registry, &mut tell)?;
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
        let mut reach = OverEndpoint::new(endpoint, plan.lease);
        let folder = plan.data.as_deref().filter(|_| record.flushed);
        let images = Images { folder, shard: plan.of.0, store: record.log.store };
        if let Some(path) = images.of_others()? {
            return Err(PrimaryError::OtherStore { path, registry: plan.registry.clone() });
        }
        let mut fetching = Fetching::new(&record);
        let (mut own, mut disk, mut read_from) = match is_taken {
            true => (0, None, None),
            false => first_image(&images, &record, &mut tell)?,
        };
        loop {
            if disk.is_none() && (is_taken || record.replicas.is_empty()) {
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
                Err(error) if is_of_copy(&error, &read_from) && !is_taken && !record.replicas.is_empty() => {
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

/// Whether other shards have taken over what the recorded replicas have: then the shard begins with an empty
/// log. What it remembers of clients would be of no use, and might be taken for what they are told elsewhere.
/// A spread that is not done is given up.
fn is_taken(
    plan: &PrimaryPlan,
    record: &Record,
    registry: &mut OpenRegistry,
    tell: &mut impl FnMut(Waits),
) -> Result<bool, PrimaryError> {
    let (shard, shards) = plan.of;
    if shards == 1 {
        return Ok(false);
    }
    let mut is_told = false;
    loop {
        match settle(registry, plan.of) {
            Ok(map) => return Ok(map.taken(shard).is_some_and(|taken| record.is_from_before(taken.epoch))),
            Err(KeeperError::Registry(error)) if registry.may_come_back() => {
                if !core::mem::replace(&mut is_told, true) {
                    tell(Waits::Registry(error.to_string()));
                }
                std::thread::sleep(ASK_AGAIN_AFTER);
            }
            Err(error) => return Err(error.into()),
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
        LogError::Damaged { .. } | LogError::CutOff { .. } | LogError::NotALog => true,
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
        // An empty one would be a new log, and what the replicas have would be lost.
        Found::Image(disk) if disk.bytes() == 0 && !record.replicas.is_empty() => {
            tell(Waits::Instead("the log here is empty".to_owned()));
            None
        }
        Found::Image(disk) => Some(disk),
        Found::InUse(error) => {
            tell(Waits::Instead(error.to_string()));
            None
        }
        Found::None => None,
    };
    Ok((own, disk, None))
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
pub(super) struct OverEndpoint<'e> {
    endpoint: &'e Endpoint,
    connections: HashMap<String, Connection<'e>>,
    within: Duration,
}

impl<'e> OverEndpoint<'e> {
    /// A backup may take this long for an answer.
    pub fn new(endpoint: &'e Endpoint, within: Duration) -> Self {
        Self { endpoint, connections: HashMap::new(), within }
    }
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
    use super::super::fetching::tests::{Folder, claimed, images};
    use super::*;

    #[test]
    fn an_image_that_another_process_has_counts_as_none() {
        let folder = Folder::new("in-use");
        let images = images(&folder.0);
        let (own, other) = images.create().expect("room");
        let mut other = other.expect("it has a folder");
        let record = Record { own, ..claimed().1.record };
        let mut told = Vec::new();
        let mut first = || {
            let (_, disk, _) =
                first_image(&images, &record, &mut |waits| told.push(waits)).expect("it goes on");
            disk.is_some()
        };
        assert!(!first(), "two must not write to it");
        other.begin(farcall_disk::Job::Extend { bytes: 4096 });
        assert_eq!(other.wait().expect("it is done").outcome, Ok(()));
        drop(other);
        assert!(first());
        assert!(matches!(&told[..], [Waits::Instead(why)] if why.contains("in use by another process")));
    }

    /// A log that was emptied would be taken for a new one, and its replicas would be made so.
    #[test]
    fn an_image_that_has_nothing_counts_as_none_where_replicas_have_the_log() {
        let folder = Folder::new("emptied");
        let images = images(&folder.0);
        let (own, other) = images.create().expect("room");
        drop(other);
        let mut record = Record { own, ..claimed().1.record };
        let mut told = Vec::new();
        let mut first = |record: &Record| {
            first_image(&images, record, &mut |waits| told.push(waits)).expect("it goes on").1.is_some()
        };
        assert!(!first(&record), "a replica has what it had");
        record.replicas.clear();
        assert!(first(&record), "a store that begins");
        assert!(matches!(&told[..], [Waits::Instead(why)] if why.contains("is empty")));
    }
}
