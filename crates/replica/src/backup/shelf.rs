//! Where a backup's replicas lie: in its memory, or in a folder.
//!
//! In the folder each replica is a file, and each log has one more that says which epoch is the latest:
//! a backup that was started again refuses what it refused before.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use farcall_disk::{Disk, FileDisk, MemoryBudget, MemoryDisk, OpenError};
use rustix::fs::{FlockOperation, flock};

use crate::message::{LogId, Refusal};

/// The file that a backup has locked.
const BACKUP_LOCK: &str = "lock";

/// The file that stores share, and a backup has locked as well. A registry may be in the folder of a store,
/// and has a file of its own that is called as the other.
const USE_LOCK: &str = "use.lock";

/// A replica that was there when its backup was started.
pub struct Stored {
    /// The log that it is of.
    pub log: LogId,
    /// The latest epoch of the log that the backup knew.
    pub epoch: u64,
    /// Its number.
    pub replica: u64,
    /// Its image.
    pub disk: Box<dyn Disk>,
}

/// Why a backup cannot be started in a folder.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// See the reason.
    #[error("cannot use {path}: {reason}", path = path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// Give it a directory.
    #[error("{path} is a file, and replicas need a directory: give one", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
    },
    /// End the other process, or give this one a folder of its own.
    #[error(transparent)]
    Disk(#[from] OpenError),
    /// See there.
    #[error(
        "{path} is in use by another backup, or by a store; give each a directory of its own",
        path = path.display()
    )]
    Shared {
        /// The folder.
        path: PathBuf,
    },
    /// Restore the file, or remove the log's files there: its primary then copies it again.
    #[error("{path} is damaged; remove it with the log's replicas beside it", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// Where replicas are stored.
pub trait Shelf: Send {
    /// What is there. Called once, first.
    fn stored(&mut self) -> Result<Vec<Stored>, ShelfError>;

    /// Makes an empty image, for a log whose latest epoch is this; a flushed one survives a power cut.
    fn create(&mut self, of: (LogId, u64), replica: u64, flushed: bool) -> Result<Box<dyn Disk>, Refusal>;

    /// From now on, and after a start, this is the latest epoch of a log.
    fn raise_epoch(&mut self, log: LogId, epoch: u64) -> Result<(), Refusal>;

    /// Removes an image, of a replica that nobody uses any more.
    fn remove(&mut self, log: LogId, replica: u64);
}

/// The shelf of a process: flushed replicas in a folder, if there is one, and others in memory.
#[derive(Debug)]
pub struct FolderShelf {
    folder: Option<PathBuf>,
    /// Logs of which something lies in the folder.
    flushed: BTreeMap<LogId, u64>,
    /// Held as long as this backup uses the folder.
    locks: Vec<File>,
    /// What replicas in memory may take together, if they are bounded.
    budget: Option<MemoryBudget>,
}

impl FolderShelf {
    /// A shelf with a folder, which is created if need be; without one every replica is in memory.
    pub fn new(folder: Option<&Path>) -> Result<Self, ShelfError> {
        if let Some(folder) = folder {
            if folder.exists() && !folder.is_dir() {
                return Err(ShelfError::File { path: folder.to_owned() });
            }
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|reason| ShelfError::System { path: folder.to_owned(), reason })?;
        }
        Ok(Self {
            folder: folder.map(Path::to_owned),
            flushed: BTreeMap::new(),
            locks: Vec::new(),
            budget: None,
        })
    }

    /// Replicas in memory take no more than this together: what would be more is refused as by a
    /// full disk.
    #[must_use]
    pub fn within(self, memory_bytes: u64) -> Self {
        Self { budget: Some(MemoryBudget::new(memory_bytes)), ..self }
    }

    /// Makes sure that no other backup uses the folder, whose replicas would not know of the epochs here, and
    /// no store, whose logs an export would take for copies of these.
    fn lock(&mut self, folder: &Path) -> Result<(), ShelfError> {
        let exclusive = |name| lock_file(folder, name, FlockOperation::NonBlockingLockExclusive);
        self.locks = vec![exclusive(BACKUP_LOCK)?, exclusive(USE_LOCK)?];
        Ok(())
    }

    fn image(folder: &Path, LogId { store, shard }: LogId, replica: u64) -> PathBuf {
        folder.join(format!("{store:016x}-{shard}-{replica:016x}.replica"))
    }

    fn epoch_file(folder: &Path, LogId { store, shard }: LogId) -> PathBuf {
        folder.join(format!("{store:016x}-{shard}.epoch"))
    }

    fn write_epoch(folder: &Path, log: LogId, epoch: u64) -> io::Result<()> {
        let bytes = epoch.to_le_bytes();
        let content = [&bytes[..], &crc32c::crc32c(&bytes).to_le_bytes()].concat();
        replace_file(&Self::epoch_file(folder, log), &content)
    }
}

impl Shelf for FolderShelf {
    fn stored(&mut self) -> Result<Vec<Stored>, ShelfError> {
        let Some(folder) = self.folder.clone() else { return Ok(Vec::new()) };
        self.lock(&folder)?;
        let system = |reason| ShelfError::System { path: folder.clone(), reason };
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).map_err(system)? {
            let path = entry.map_err(system)?.path();
            let Some((log, replica)) = image_named(&path) else { continue };
            let epoch = match self.flushed.get(&log) {
                Some(epoch) => *epoch,
                None => read_epoch(&Self::epoch_file(&folder, log))?,
            };
            self.flushed.insert(log, epoch);
            let disk = Box::new(FileDisk::open(&path)?);
            found.push(Stored { log, epoch, replica, disk });
        }
        Ok(found)
    }

    fn create(
        &mut self,
        (log, epoch): (LogId, u64),
        replica: u64,
        flushed: bool,
    ) -> Result<Box<dyn Disk>, Refusal> {
        if !flushed {
            let disk = self.budget.clone().map_or_else(MemoryDisk::new, MemoryDisk::within);
            return Ok(Box::new(disk));
        }
        let folder = self.folder.as_ref().ok_or(Refusal::NoDisk)?;
        if self.flushed.get(&log).is_none_or(|known| *known < epoch) {
            Self::write_epoch(folder, log, epoch).map_err(|_| Refusal::DiskFailed)?;
            self.flushed.insert(log, epoch);
        }
        let disk = FileDisk::open(&Self::image(folder, log, replica)).map_err(|_| Refusal::DiskFailed)?;
        Ok(Box::new(disk))
    }

    fn raise_epoch(&mut self, log: LogId, epoch: u64) -> Result<(), Refusal> {
        let (Some(folder), Some(known)) = (&self.folder, self.flushed.get_mut(&log)) else { return Ok(()) };
        Self::write_epoch(folder, log, epoch).map_err(|_| Refusal::DiskFailed)?;
        *known = epoch;
        Ok(())
    }

    fn remove(&mut self, log: LogId, replica: u64) {
        if let Some(folder) = &self.folder {
            // One in memory has no file. One that stays takes room until this backup is started again, finds
            // it, and is sent the next fence.
            let _ = fs::remove_file(Self::image(folder, log, replica));
        }
    }
}

/// A folder that holds logs of shards, and not the replicas of a backup, as long as this is.
#[derive(Debug)]
pub struct FolderOfLogs {
    _lock: File,
}

impl FolderOfLogs {
    /// Makes sure that no backup uses a folder. Shards may use it together: each has files of its own.
    pub fn share(folder: &Path) -> Result<Self, ShelfError> {
        Ok(Self { _lock: lock_file(folder, USE_LOCK, FlockOperation::NonBlockingLockShared)? })
    }
}

fn lock_file(folder: &Path, name: &str, how: FlockOperation) -> Result<File, ShelfError> {
    let path = folder.join(name);
    // Some file systems share the lock of a file that can be read only.
    let opened = OpenOptions::new().create(true).read(true).append(true).open(&path);
    let file = opened.map_err(|reason| ShelfError::System { path, reason })?;
    flock(&file, how).map_err(|_| ShelfError::Shared { path: folder.to_owned() })?;
    Ok(file)
}

/// The log and the number that the name of an image says.
fn image_named(path: &Path) -> Option<(LogId, u64)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".replica")?;
    let (store, rest) = name.split_once('-')?;
    let (shard, replica) = rest.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some((LogId { store: hex(store)?, shard: shard.parse().ok()? }, hex(replica)?))
}

fn read_epoch(path: &Path) -> Result<u64, ShelfError> {
    let content = fs::read(path).map_err(|reason| ShelfError::System { path: path.to_owned(), reason })?;
    let epoch = content
        .split_first_chunk::<8>()
        .filter(|(bytes, crc)| **crc == crc32c::crc32c(&bytes[..]).to_le_bytes());
    let epoch = epoch.map(|(bytes, _)| u64::from_le_bytes(*bytes));
    epoch.ok_or_else(|| ShelfError::Damaged { path: path.to_owned() })
}

/// Replaces the content of a file as a whole: after a power cut it is the old one or the new one.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".draft");
    let draft = Path::new(&draft);
    let mut file = File::create(draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(draft, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
