//! Files of settings that processes look at again: whom they must belong to, what their lines are, and when
//! they are read.
//!
//! Keys, peers and policies are such files. Each says by [`FileContent`] what it must be and how it is read;
//! the rest is the same for all: nobody else may have certain permissions, and what is of no use changes
//! nothing.

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
    /// What it is, such as `a policy`.
    pub what: &'static str,
    /// Permissions that it must not have.
    pub forbidden: u32,
    /// What others could do with one of these, and why that is wrong: a verb, and what follows the name of
    /// the file.
    pub others: (&'static str, &'static str),
    /// How long it may be.
    pub bytes_max: u64,
}

/// Why a file of settings is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is not there, or may not be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// Which file.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// Others have a permission that they must not have: `chmod` it.
    #[error("others can {verb} {path}{why}")]
    Permitted {
        /// Which file.
        path: String,
        /// What they can do with it.
        verb: &'static str,
        /// Why they must not.
        why: &'static str,
    },
    /// Another user could change it.
    #[error("{path} is user {owner}'s: {what} must be this user's or root's")]
    OfAnother {
        /// Which file.
        path: String,
        /// Whose it is.
        owner: u32,
        /// What it is.
        what: &'static str,
    },
    /// It is a folder, a pipe or a device.
    #[error("{path} is no regular file")]
    NoFile {
        /// Which.
        path: String,
    },
    /// It is longer than any that is read.
    #[error("{path} is longer than {bytes_max} bytes, the limit of {what}")]
    TooLong {
        /// Which file.
        path: String,
        /// How long it may be.
        bytes_max: u64,
        /// What it is.
        what: &'static str,
    },
    /// A line says something else than it should.
    #[error("line {line} of {path} is no {wanted}")]
    Malformed {
        /// Which file.
        path: String,
        /// Which line, from 1.
        line: usize,
        /// What it should say.
        wanted: &'static str,
    },
}

/// What is read from a file.
pub trait FileContent: PartialEq + Sized {
    /// What the file must be.
    const RULES: FileRules;

    /// Why it is of no use.
    type Error: From<FileError>;

    /// Reads what the file has.
    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Self::Error>;
}

/// The lines of a file that say something, and their numbers from 1. Blank ones, and those that begin with
/// `#`, say nothing.
pub fn said_lines(bytes: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).zip(1..);
    lines.filter(|(line, _)| !line.is_empty() && !line.starts_with(b"#"))
}

/// What each of these lines says; the first that is none of what is `wanted` is said with its number.
pub fn parse_lines<T>(
    path: &Path,
    bytes: &[u8],
    wanted: &'static str,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<Vec<T>, FileError> {
    let parsed = said_lines(bytes).map(|(line, number)| {
        let malformed = || FileError::Malformed { path: path.display().to_string(), line: number, wanted };
        parse(line).ok_or_else(malformed)
    });
    parsed.collect()
}

/// What was found in a file.
struct FileFound {
    /// All of it. It may hold a secret.
    bytes: Zeroizing<Vec<u8>>,
    stamp: FileStamp,
}

impl FileRules {
    /// Reads a file.
    fn read(&self, path: &Path) -> Result<FileFound, FileError> {
        let name = || path.display().to_string();
        let unreadable = |error: io::Error| FileError::Unreadable { path: name(), reason: error.to_string() };
        // A pipe must not keep whoever opens it waiting.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = File::options().read(true).custom_flags(nonblocking).open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        let (owner, what) = (about.uid(), self.what);
        if !about.is_file() {
            return Err(FileError::NoFile { path: name() });
        }
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(FileError::OfAnother { path: name(), owner, what });
        }
        if about.mode() & self.forbidden != 0 {
            let (verb, why) = self.others;
            return Err(FileError::Permitted { path: name(), verb, why });
        }
        // As much at once as there may be, so that no copy of a secret is left behind where it did not fit.
        let bytes_max = self.bytes_max;
        let mut bytes = Zeroizing::new(Vec::with_capacity(bytes_max as usize + 1));
        file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > bytes_max {
            return Err(FileError::TooLong { path: name(), bytes_max, what });
        }
        Ok(FileFound { bytes, stamp: FileStamp::of(&about) })
    }
}

/// A file that is looked at from time to time, and what it said last.
#[derive(Debug)]
pub struct WatchedFile<T> {
    path: PathBuf,
    stamp: FileStamp,
    looked: WallTime,
    /// Whether the last look found it of use.
    is_of_use: bool,
    content: T,
}

impl<T: FileContent> WatchedFile<T> {
    /// Reads a file.
    ///
    /// # Errors
    /// It is of no use, for a reason that the error says.
    pub fn open(path: &Path) -> Result<Self, T::Error> {
        let FileFound { bytes, stamp } = T::RULES.read(path)?;
        let content = T::parse(path, &bytes)?;
        Ok(Self { path: path.to_owned(), stamp, looked: WallTime::now(), is_of_use: true, content })
    }

    /// What it said when it was read last.
    pub fn content(&self) -> &T {
        &self.content
    }

    /// Whether the last look found it of use, so that this is what it says.
    pub fn is_of_use(&self) -> bool {
        self.is_of_use
    }

    /// Looks whether the file has changed, at most once a second, and reads it then; whether it says
    /// something else now. When it is of no use what it said stays, and the next look tries again.
    ///
    /// # Errors
    /// It has changed, and is of no use.
    pub fn renew(&mut self) -> Result<bool, T::Error> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(false);
        }
        self.looked = WallTime::now();
        let is_same = self.path.metadata().is_ok_and(|file| FileStamp::of(&file) == self.stamp);
        self.is_of_use = is_same;
        if is_same {
            return Ok(false);
        }
        let FileFound { bytes, stamp } = T::RULES.read(&self.path)?;
        let content = T::parse(&self.path, &bytes)?;
        (self.stamp, self.is_of_use) = (stamp, true);
        let has_changed = content != self.content;
        self.content = content;
        Ok(has_changed)
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A whole number a line.
    #[derive(Debug, PartialEq)]
    struct Numbers(Vec<u64>);

    impl FileContent for Numbers {
        const RULES: FileRules = FileRules {
            what: "a file of numbers",
            forbidden: 0o022,
            others: ("write", ", and must not"),
            bytes_max: 100,
        };

        type Error = FileError;

        fn parse(path: &Path, bytes: &[u8]) -> Result<Self, FileError> {
            let number = |line: &[u8]| str::from_utf8(line).ok()?.parse::<u64>().ok();
            parse_lines(path, bytes, "whole number", number).map(Self)
        }
    }

    #[test]
    fn whatever_a_file_is_it_says_why_it_is_of_no_use() {
        let folder = std::env::temp_dir().join(format!("farcall-watched-{}", std::process::id()));
        fs::create_dir(&folder).expect("the folder is new");
        let path = folder.join("numbers");
        let write = |text: &str, mode| {
            fs::write(&path, text).expect("the folder is ours");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("the file is ours");
        };
        let said = |path: &Path| {
            WatchedFile::<Numbers>::open(path).map_err(|why| why.to_string()).map(|it| it.content)
        };
        let name = path.display();
        let mut found = vec![said(&path).expect_err("it is not there")];
        write("# numbers\n 1\n\n2", 0o644);
        assert_eq!(said(&path), Ok(Numbers(vec![1, 2])));
        write("# numbers\n1\ntwo\nthree", 0o644);
        found.push(said(&path).expect_err("two is none"));
        write("1", 0o664);
        found.push(said(&path).expect_err("others may write it"));
        write(&"#".repeat(101), 0o644);
        found.push(said(&path).expect_err("it is long"));
        found.push(said(&folder).expect_err("it is a folder"));
        fs::remove_dir_all(&folder).expect("it is ours");
        let expected = [
            format!("cannot read {name}: No such file or directory (os error 2)"),
            format!("line 3 of {name} is no whole number"),
            format!("others can write {name}, and must not"),
            format!("{name} is longer than 100 bytes, the limit of a file of numbers"),
            format!("{} is no regular file", folder.display()),
        ];
        assert_eq!(found, expected);
    }
}
