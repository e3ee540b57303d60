//! A folder as a registry: for the processes of one machine.
//!
//! A value is a file that is replaced as a whole, under a lock of the folder. A process that wants others to
//! notice its end at once holds a lock of a file of its own: the kernel drops it when the process ends,
//! however it does.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{Compared, Registry, RegistryError, Versioned};
use crate::backup::replace_file;
use crate::record::BackupEntry;

/// A registry in a folder.
#[derive(Debug)]
pub struct FileRegistry {
    folder: PathBuf,
    lock: File,
}

/// The sign of life of a process, as long as it is not dropped. What stays then says that it has ended.
#[derive(Debug)]
pub struct Life {
    _lock: File,
}

impl FileRegistry {
    /// The registry in a folder, which is created if need be.
    pub fn open(folder: &Path) -> Result<Self, RegistryError> {
        let opened = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(folder.join("lock")));
        let lock = opened.map_err(|error| error_at(folder, &error))?;
        Ok(Self { folder: folder.to_owned(), lock })
    }

    /// Says that the process with this incarnation lives, until it ends.
    pub fn live(&self, incarnation: u64) -> Result<Life, RegistryError> {
        let path = self.life(incarnation);
        let locked = OpenOptions::new().create(true).append(true).open(path).and_then(|file| {
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(file)
        });
        let lock = locked.map_err(|error| error_at(&self.folder, &error))?;
        Ok(Life { _lock: lock })
    }

    /// Removes what is left of a process that has ended, and was replaced.
    pub fn bury(&self, incarnation: u64) {
        // What stays is of no harm.
        let _ = fs::remove_file(self.life(incarnation));
    }

    /// Says that a backup is there. Its last entry counts.
    pub fn announce(&self, backup: &BackupEntry) -> Result<(), RegistryError> {
        let written = replace_file(&self.folder.join(backup.key()), &backup.encode());
        written.map_err(|error| error_at(&self.folder, &error))
    }

    /// Leaves a note, which replaces one of the same name.
    pub fn note(&self, name: &str, text: &[u8]) -> Result<(), RegistryError> {
        replace_file(&self.folder.join(name), text).map_err(|error| error_at(&self.folder, &error))
    }

    /// Removes a note.
    pub fn remove_note(&self, name: &str) {
        // One that stays is of a process that has ended, or is not asked for.
        let _ = fs::remove_file(self.folder.join(name));
    }

    /// The names and texts of notes whose names begin so.
    pub fn notes(&self, beginning: &str) -> Result<Vec<(String, Vec<u8>)>, RegistryError> {
        let read = || {
            let mut found = Vec::new();
            for entry in fs::read_dir(&self.folder)? {
                let path = entry?.path();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if name.starts_with(beginning) && !name.ends_with(".draft") {
                    found.push((name.to_owned(), fs::read(&path)?));
                }
            }
            found.sort();
            Ok(found)
        };
        read().map_err(|error| error_at(&self.folder, &error))
    }

    fn life(&self, incarnation: u64) -> PathBuf {
        self.folder.join(format!("life-{incarnation:016x}"))
    }

    fn read(&self, key: &str) -> io::Result<Option<Versioned>> {
        let content = match fs::read(self.folder.join(key)) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = || io::Error::other(format!("{key} is damaged; restore it from a copy"));
        let end = content.iter().position(|&byte| byte == b'\n').ok_or_else(damaged)?;
        let line = core::str::from_utf8(&content[..end]).map_err(|_| damaged())?;
        let revision = line.strip_prefix("revision ").and_then(|number| number.parse().ok());
        Ok(Some(Versioned { revision: revision.ok_or_else(damaged)?, value: content[end + 1..].to_vec() }))
    }

    fn set(&self, key: &str, expected: u64, value: &[u8]) -> io::Result<Compared> {
        flock(&self.lock, FlockOperation::LockExclusive)?;
        let outcome = (|| {
            let found = self.read(key)?;
            if found.as_ref().map_or(0, |found| found.revision) != expected {
                return Ok(Compared::Other(found));
            }
            let revision = expected + 1;
            let content = [format!("revision {revision}\n").as_bytes(), value].concat();
            replace_file(&self.folder.join(key), &content)?;
            Ok(Compared::Set(revision))
        })();
        flock(&self.lock, FlockOperation::Unlock)?;
        outcome
    }

    fn entries(&self) -> io::Result<Vec<BackupEntry>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let is_one = path.extension().is_none_or(|extension| extension != "draft")
                && path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .is_some_and(|name| name.starts_with(BackupEntry::PREFIX));
            if is_one {
                found.extend(BackupEntry::decode(&fs::read(path)?));
            }
        }
        found.sort();
        Ok(found)
    }
}

fn error_at(folder: &Path, error: &io::Error) -> RegistryError {
    RegistryError { place: format!("file:{}", folder.display()), reason: error.to_string() }
}

impl Registry for FileRegistry {
    fn load(&mut self, key: &str) -> Result<Option<Versioned>, RegistryError> {
        self.read(key).map_err(|error| error_at(&self.folder, &error))
    }

    fn compare_and_set(&mut self, key: &str, expected: u64, value: &[u8]) -> Result<Compared, RegistryError> {
        self.set(key, expected, value).map_err(|error| error_at(&self.folder, &error))
    }

    fn backups(&mut self) -> Result<Vec<BackupEntry>, RegistryError> {
        self.entries().map_err(|error| error_at(&self.folder, &error))
    }

    fn has_ended(&mut self, incarnation: u64) -> bool {
        // Where there is no file the lease decides.
        let Ok(file) = OpenOptions::new().append(true).open(self.life(incarnation)) else { return false };
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("farcall-registry-{name}-{}", std::process::id());
            Self(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(name))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the test's own");
        }
    }

    #[test]
    fn one_of_many_that_expect_the_same_revision_sets_a_value() {
        let folder = Folder::new("compare");
        let registry = || FileRegistry::open(&folder.0).expect("a folder");
        let attempt = |number: u8| registry().compare_and_set("key", 0, &[number]).expect("it answers");
        let outcomes: Vec<Compared> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8_u8).map(|number| scope.spawn(move || attempt(number))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Compared::Set(1)).count(), 1);
        let found = registry().load("key").expect("it answers").expect("it was set");
        for other in outcomes.iter().filter(|outcome| **outcome != Compared::Set(1)) {
            assert_eq!(*other, Compared::Other(Some(found.clone())), "the others see what was set");
        }
        assert_eq!(registry().compare_and_set("key", 1, b"next"), Ok(Compared::Set(2)));
        assert_eq!(registry().load("none"), Ok(None));
    }

    #[test]
    fn the_end_of_a_process_is_known_once_its_lock_is_gone() {
        let folder = Folder::new("life");
        let mut registry = FileRegistry::open(&folder.0).expect("a folder");
        assert!(!registry.has_ended(7), "nobody knows");
        let life = registry.live(7).expect("it is alone");
        assert!(!registry.has_ended(7));
        drop(life);
        assert!(registry.has_ended(7));
        registry.bury(7);
        assert!(!registry.has_ended(7), "nobody knows any more");
    }

    #[test]
    fn backups_announce_themselves() {
        let folder = Folder::new("backups");
        let mut registry = FileRegistry::open(&folder.0).expect("a folder");
        let entry = |at: &str| BackupEntry { at: at.to_owned(), domain: at.to_owned(), has_disk: false };
        ["b:2", "a:1", "b:2"].into_iter().for_each(|at| registry.announce(&entry(at)).expect("room"));
        assert_eq!(registry.backups(), Ok(vec![entry("a:1"), entry("b:2")]));
        fs::write(folder.0.join("shard-0"), "revision x\n").expect("a file");
        let error = registry.load("shard-0").expect_err("it is no number");
        assert!(error.to_string().ends_with("shard-0 is damaged; restore it from a copy"), "{error}");
    }
}
