//! Files of settings that processes look at again: whom they must belong to, and when they are read.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as WallTime};

use zeroize::Zeroizing;

/// A file is looked at for changes at most this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a file must be: beside this a regular one, of the process's own user or of root.
#[derive(Clone, Copy, Debug)]
pub struct FileRules {
    /// Permissions that it must not have.
    pub forbidden: u32,
    /// How long it may be.
    pub bytes_max: u64,
}

/// Why a file is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRefused {
    /// It is not there, or may not be read; the system's reason.
    Unreadable(String),
    /// It is a folder, a pipe or a device.
    NoFile,
    /// It is this user's.
    OfAnother(u32),
    /// It has a permission that it must not have.
    Permitted,
    /// It is longer than it may be.
    TooLong,
}

/// What was found in a file.
pub struct FileFound {
    /// All of it. It may hold a secret.
    pub bytes: Zeroizing<Vec<u8>>,
    stamp: FileStamp,
}

impl FileRules {
    /// Reads a file.
    pub fn read(&self, path: &Path) -> Result<FileFound, FileRefused> {
        let unreadable = |error: io::Error| FileRefused::Unreadable(error.to_string());
        // A pipe must not keep whoever opens it waiting.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = File::options().read(true).custom_flags(nonblocking).open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() {
            return Err(FileRefused::NoFile);
        }
        let owner = about.uid();
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(FileRefused::OfAnother(owner));
        }
        if about.mode() & self.forbidden != 0 {
            return Err(FileRefused::Permitted);
        }
        // As much at once as there may be, so that no copy of a secret is left behind where it did not fit.
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.bytes_max as usize + 1));
        file.take(self.bytes_max + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > self.bytes_max {
            return Err(FileRefused::TooLong);
        }
        Ok(FileFound { bytes, stamp: FileStamp::of(&about) })
    }
}

/// A file that is looked at from time to time.
#[derive(Debug)]
pub struct WatchedFile {
    path: PathBuf,
    rules: FileRules,
    stamp: FileStamp,
    looked: WallTime,
}

impl WatchedFile {
    /// A file of which this was found just now.
    pub fn new(path: &Path, rules: FileRules, found: FileFound) -> Self {
        Self { path: path.to_owned(), rules, stamp: found.stamp, looked: WallTime::now() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is there now, at most once a second; `None` if it is what was accepted last.
    pub fn look(&mut self) -> Result<Option<FileFound>, FileRefused> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(None);
        }
        self.looked = WallTime::now();
        if self.path.metadata().is_ok_and(|file| FileStamp::of(&file) == self.stamp) {
            return Ok(None);
        }
        self.rules.read(&self.path).map(Some)
    }

    /// What was found is of use. Otherwise it is found again by the next look.
    pub fn accept(&mut self, found: FileFound) {
        self.stamp = found.stamp;
    }

    /// The next look is no less than a second after the last one; for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn let_second_pass(&mut self) {
        self.looked = self.looked.checked_sub(LOOK_EVERY).expect("the machine has run for a second");
    }
}

/// What changes when a file does, for those that read it again then.
#[derive(Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// When it was written, or its rights or owner were changed: seconds and nanoseconds.
    changed: (i64, i64),
    bytes: u64,
    inode: u64,
}

impl FileStamp {
    /// Of the file that this is said of.
    pub fn of(file: &Metadata) -> Self {
        Self { changed: (file.ctime(), file.ctime_nsec()), bytes: file.len(), inode: file.ino() }
    }
}
