//! How a process becomes the primary of a shard, before it serves: it waits for its turn, and brings back
//! what the last primary had.

use core::time::Duration;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use farcall::bootstrap::random_incarnation;
use farcall::{Clock, Connection, Endpoint};
use farcall_disk::{Disk, DiskError, FileDisk, MemoryDisk, OpenError};
use farcall_replica::{
    Candidate, Claim, ClaimError, Claimed, FetchError, FileRegistry, Life, LogId, Mirror, MirrorOf, NoAnswer,
    Place, Reach, Record, Recovery, Registry, RegistryError, RegistryWorker,
};

use super::{answer, target};
use crate::Shard;
use crate::durable::{Level, LogError, Recovered};
use crate::wire::BACKUP;

/// How often the record of a primary that lives is looked at.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// What a process wants to be the primary of.
#[derive(Clone, Debug)]
pub struct PrimaryPlan {
    /// The folder of the registry.
    pub registry: PathBuf,
    /// The folder for the log; without one it is in memory.
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
    /// See the reason.
    #[error(transparent)]
    Disk(#[from] OpenError),
    /// See the reason.
    #[error(transparent)]
    Log(#[from] LogError),
    /// See the reason.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Give it a directory.
    #[error("a level with `flushed` takes a directory for the log: give --data DIR")]
    NoData,
}

/// A process that is the primary, before it serves.
#[derive(Debug)]
pub struct Primary {
    /// What mirrors the log.
    pub mirror: Mirror,
    /// Asks the registry.
    pub registry: RegistryWorker,
    /// Says that this process lives.
    pub life: Life,
    /// What the log had.
    pub recovered: Recovered,
    /// The replica that was read, if one was.
    pub read_from: Option<Place>,
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
        let mut registry = FileRegistry::open(&plan.registry)?;
        let incarnation = random_incarnation();
        let life = registry.live(incarnation)?;
        let claimed = claim(plan, incarnation, &mut registry, &mut tell)?;
        if let Some(before) = claimed.before {
            registry.bury(before);
        }
        let record = claimed.record.clone();
        if record.flushed && plan.data.is_none() {
            return Err(PrimaryError::NoData);
        }
        let mut reach = OverEndpoint { endpoint, connections: HashMap::new(), within: plan.lease };
        let images = Images { folder: plan.data.as_deref(), shard: plan.of.0 };
        let mut recovery = Recovery::new(record.clone());
        let (mut own, mut disk, mut read_from) = first_image(&images, &record)?;
        loop {
            if disk.is_none() && record.replicas.is_empty() {
                (own, disk) = images.create()?;
            }
            let image = match disk.take() {
                Some(image) => image,
                None => {
                    let (number, place, image) =
                        fetch(&images, &record, &mut recovery, &mut reach, &mut tell)?;
                    (own, read_from) = (number, Some(place));
                    image
                }
            };
            let (mirror, mirrored) = Mirror::new(mirror_of(plan, &claimed, own), image);
            match shard.open_mirrored_log(mirrored, mirror.clone(), plan.log_bytes_max) {
                Ok(recovered) => {
                    images.remove_others(own);
                    let registry = RegistryWorker::start(Box::new(registry));
                    let registry = registry
                        .map_err(|reason| PrimaryError::Folder { path: plan.registry.clone(), reason })?;
                    return Ok(Self { mirror, registry, life, recovered, read_from });
                }
                // Another replica may be whole.
                Err(error @ (LogError::Damaged { .. } | LogError::NotALog))
                    if !record.replicas.is_empty() =>
                {
                    if let Some(place) = read_from.take() {
                        recovery.is_damaged(&place, &error.to_string());
                    }
                    shard.clear();
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Waits until nobody else is the primary.
fn claim(
    plan: &PrimaryPlan,
    incarnation: u64,
    registry: &mut dyn Registry,
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
    let mut is_told = false;
    loop {
        if let Some(claimed) = candidate.try_claim(registry, &|| clock.now())? {
            return Ok(claimed);
        }
        if !is_told {
            is_told = true;
            let found = registry.load(&Record::key(shard))?;
            let found = found.and_then(|found| Record::decode(&found.value));
            tell(Waits::Lease(found.map_or_else(String::new, |record| record.primary)));
        }
        std::thread::sleep(LOOK_AGAIN_AFTER);
    }
}

/// An image of a log: its number, its disk if it is here, and the backup that it came from, if it did.
type Image = (u64, Option<Box<dyn Disk>>, Option<Place>);

/// The image here, if it is the one that the record names.
fn first_image(images: &Images<'_>, record: &Record) -> Result<Image, PrimaryError> {
    let own = record.own;
    let disk = if own == 0 { None } else { images.open(own)? };
    Ok((own, disk, None))
}

/// Reads a replica, however long it takes until one can be read.
fn fetch(
    images: &Images<'_>,
    record: &Record,
    recovery: &mut Recovery,
    reach: &mut OverEndpoint<'_>,
    tell: &mut impl FnMut(Waits),
) -> Result<(u64, Place, Box<dyn Disk>), PrimaryError> {
    let mut is_told = false;
    loop {
        let mut number = 0;
        let mut make = || {
            let made = images.create().map_err(|_| FetchError::Here(DiskError::Full))?;
            number = made.0;
            Ok(made.1.expect("one was made"))
        };
        match recovery.fetch(reach, &mut make) {
            Ok((place, disk)) => return Ok((number, place, disk)),
            Err(error @ FetchError::NoReplica(_)) => {
                if !is_told {
                    is_told = true;
                    tell(Waits::Replica(error.to_string()));
                }
                // A backup may be about to start.
                std::thread::sleep(LOOK_AGAIN_AFTER);
                *recovery = Recovery::new(record.clone());
            }
            Err(error) => return Err(error.into()),
        }
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

/// The images of a shard's log in a folder, by their numbers; without a folder they are in memory.
struct Images<'a> {
    folder: Option<&'a Path>,
    shard: u32,
}

impl Images<'_> {
    fn path(&self, folder: &Path, number: u64) -> PathBuf {
        folder.join(format!("shard-{}-{number:016x}.log", self.shard))
    }

    /// The image of this number, if it is here.
    fn open(&self, number: u64) -> Result<Option<Box<dyn Disk>>, PrimaryError> {
        let Some(path) = self.folder.map(|folder| self.path(folder, number)) else { return Ok(None) };
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(Box::new(FileDisk::open(&path)?)))
    }

    /// An empty image with a number of its own.
    fn create(&self) -> Result<(u64, Option<Box<dyn Disk>>), PrimaryError> {
        let Some(folder) = self.folder else { return Ok((0, Some(Box::new(MemoryDisk::new())))) };
        let number = random_incarnation() | 1;
        Ok((number, Some(Box::new(FileDisk::open(&self.path(folder, number))?))))
    }

    /// Removes images of other numbers: nobody will ask for them any more.
    fn remove_others(&self, number: u64) {
        let Some(folder) = self.folder else { return };
        let (own, prefix) = (self.path(folder, number), format!("shard-{}-", self.shard));
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_image = entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(&prefix) && name.ends_with(".log"));
            if is_image && entry.path() != own {
                // One that stays is of no harm.
                let _ = fs::remove_file(entry.path());
            }
        }
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
