//! The images of a shard's log in a folder: which store they are of, and which of them counts.
//!
//! The name of an image has the store's number, so that a process that was given the folder of one store and
//! the registry of another one never takes the one for the other, or removes what it does not know.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use farcall::bootstrap::random_incarnation;
use farcall_disk::{Disk, FileDisk, MemoryDisk, OpenError};

use super::PrimaryError;

/// The log of a shard that has no replicas.
pub fn log_without_replicas(folder: &Path, shard: u32) -> PathBuf {
    folder.join(format!("shard-{shard}.log"))
}

/// The images of a shard's log that is replicated, of any store, in a folder; none if there is no folder.
pub fn images_in(folder: &Path, shard: u32) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let prefix = format!("shard-{shard}-");
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(&prefix) && name.ends_with(".log")) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// An image that was looked for.
pub enum Found {
    None,
    Image(Box<dyn Disk>),
    /// Another process has it.
    InUse(OpenError),
}

/// The images of one store; without a folder they are in memory.
pub struct Images<'a> {
    pub folder: Option<&'a Path>,
    pub shard: u32,
    pub store: u64,
}

impl Images<'_> {
    fn prefix(&self) -> String {
        format!("shard-{}-{:016x}-", self.shard, self.store)
    }

    fn path(&self, folder: &Path, number: u64) -> PathBuf {
        folder.join(format!("{}{number:016x}.log", self.prefix()))
    }

    fn is_own(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(&self.prefix()))
    }

    /// An image or log in the folder that is of another store, if there is one.
    pub fn of_others(&self) -> Result<Option<PathBuf>, PrimaryError> {
        let Some(folder) = self.folder else { return Ok(None) };
        let cannot = |reason| PrimaryError::Folder { path: folder.to_owned(), reason };
        let alone = log_without_replicas(folder, self.shard);
        if alone.try_exists().map_err(cannot)? {
            return Ok(Some(alone));
        }
        Ok(images_in(folder, self.shard).map_err(cannot)?.into_iter().find(|path| !self.is_own(path)))
    }

    /// The image of this number, if it is here and no other process has it: one that was replaced and stands
    /// still may have it for long.
    pub fn open(&self, number: u64) -> Result<Found, PrimaryError> {
        let Some(path) = self.folder.map(|folder| self.path(folder, number)) else { return Ok(Found::None) };
        if !path.exists() {
            return Ok(Found::None);
        }
        match FileDisk::open(&path) {
            Ok(disk) => Ok(Found::Image(Box::new(disk))),
            Err(error @ OpenError::InUse { .. }) => Ok(Found::InUse(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an image that is of no use.
    pub fn remove(&self, number: u64) {
        if let Some(folder) = self.folder {
            // One that stays goes with the others of the store, once there is one that counts.
            let _ = fs::remove_file(self.path(folder, number));
        }
    }

    /// An empty image with a number of its own.
    pub fn create(&self) -> Result<(u64, Option<Box<dyn Disk>>), PrimaryError> {
        let Some(folder) = self.folder else { return Ok((0, Some(Box::new(MemoryDisk::new())))) };
        let number = random_incarnation() | 1;
        Ok((number, Some(Box::new(FileDisk::open(&self.path(folder, number))?))))
    }

    /// Removes images of the store with other numbers: nobody will ask for them any more.
    pub fn remove_others(&self, number: u64) {
        let Some(folder) = self.folder else { return };
        let own = self.path(folder, number);
        for path in images_in(folder, self.shard).unwrap_or_default() {
            if path != own && self.is_own(&path) {
                // One that stays is of no harm.
                let _ = fs::remove_file(path);
            }
        }
    }
}
