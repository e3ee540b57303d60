//! The file with a cluster's keys: one a line, 64 hexadecimal digits each; blank lines and those that begin
//! with `#` say nothing. The first key is used, the others are believed as well, so that keys are exchanged
//! without a stop.
//!
//! Only its owner may read it, as `ssh` demands of private keys: a regular file of the process's own user or
//! of root, without a permission for anybody else.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as WallTime};

use farcall_base::ClusterKey;
use zeroize::Zeroizing;

use crate::FileStamp;

/// The permissions by which others than the owner read or write a file.
const OTHERS: u32 = 0o077;

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The file is looked at for changes at most this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why there are no keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// It is not there, or may not be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// Which file.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// Others could read the keys: `chmod 600` it.
    #[error("others can read {path}: it holds a secret; chmod 600 it")]
    Exposed {
        /// Which file.
        path: String,
    },
    /// Another user could change the keys.
    #[error("{path} is user {owner}'s: the file of a key must be this user's or root's")]
    OfAnother {
        /// Which file.
        path: String,
        /// Whose it is.
        owner: u32,
    },
    /// It is a folder, a pipe or a device.
    #[error("{path} is no regular file")]
    NoFile {
        /// Which.
        path: String,
    },
    /// A line is no key.
    #[error("line {line} of {path} is no key of 64 hexadecimal digits: farcall key generate makes one")]
    Malformed {
        /// Which file.
        path: String,
        /// Which line, from 1.
        line: usize,
    },
    /// There is no key in it, or there are too many.
    #[error("{path} holds {keys} keys: one to {max} are wanted", max = ClusterKey::RING_MAX)]
    Number {
        /// Which file.
        path: String,
        /// How many there are.
        keys: usize,
    },
}

/// A file of cluster keys that is looked at again from time to time.
pub struct KeyFile {
    path: PathBuf,
    stamp: FileStamp,
    looked: WallTime,
    keys: Vec<ClusterKey>,
}

impl KeyFile {
    /// Reads the keys.
    pub fn open(path: &Path) -> Result<Self, KeyFileError> {
        let (stamp, keys) = read(path)?;
        Ok(Self { path: path.to_owned(), stamp, looked: WallTime::now(), keys })
    }

    /// The keys as they were read last, one to eight.
    pub fn keys(&self) -> &[ClusterKey] {
        &self.keys
    }

    /// Looks whether the file has changed, at most once a second, and reads it then; whether the keys are
    /// others now. When it cannot be read the keys stay what they were, and the next look tries again.
    pub fn renew(&mut self) -> Result<bool, KeyFileError> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(false);
        }
        self.looked = WallTime::now();
        if self.path.metadata().is_ok_and(|file| FileStamp::of(&file) == self.stamp) {
            return Ok(false);
        }
        let (stamp, keys) = read(&self.path)?;
        self.stamp = stamp;
        let has_changed = keys != self.keys;
        self.keys = keys;
        Ok(has_changed)
    }

    /// Makes a file with one key, which nobody but this user can read. Fails where there is one already.
    pub fn create(path: &Path, key: &ClusterKey) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let text = Zeroizing::new(format!("{}\n", *key.to_digits()));
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}

fn read(path: &Path) -> Result<(FileStamp, Vec<ClusterKey>), KeyFileError> {
    let name = || path.display().to_string();
    let unreadable = |error: io::Error| KeyFileError::Unreadable { path: name(), reason: error.to_string() };
    // A pipe must not keep whoever opens it waiting.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(nonblocking).open(path).map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() {
        return Err(KeyFileError::NoFile { path: name() });
    }
    let owner = about.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(KeyFileError::OfAnother { path: name(), owner });
    }
    if about.mode() & OTHERS != 0 {
        return Err(KeyFileError::Exposed { path: name() });
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize));
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    let keys = parse(&bytes).map_err(|line| KeyFileError::Malformed { path: name(), line })?;
    if keys.is_empty() || keys.len() > ClusterKey::RING_MAX {
        return Err(KeyFileError::Number { path: name(), keys: keys.len() });
    }
    Ok((FileStamp::of(&about), keys))
}

/// The keys of a file, or the line that is none.
fn parse(bytes: &[u8]) -> Result<Vec<ClusterKey>, usize> {
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).zip(1..);
    let said = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with(b"#"));
    said.map(|(line, number)| ClusterKey::from_digits(line).ok_or(number)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder that is gone with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("farcall-keys-{name}-{}", std::process::id()));
            fs::create_dir(&path).expect("the folder is new");
            Self(path)
        }

        fn write(&self, text: &str) -> PathBuf {
            let path = self.0.join("cluster.key");
            fs::write(&path, text).expect("the folder is ours");
            fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("the file is ours");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn keys_are_read_in_their_order_and_comments_are_not() {
        let folder = Folder::new("order");
        let path = folder.write(&format!("# of May\n{}\n\n  {}\n", "0a".repeat(32), "1B".repeat(32)));
        let file = KeyFile::open(&path).expect("it is good");
        assert_eq!(file.keys(), [ClusterKey::new([0x0a; 32]), ClusterKey::new([0x1b; 32])]);
    }

    #[test]
    fn a_file_that_is_no_secret_or_holds_no_keys_is_refused_with_the_reason() {
        let folder = Folder::new("refused");
        let why = |path: &Path| KeyFile::open(path).err().expect("it is refused");
        let path = folder.write(&format!("{}\nno key\n", "0a".repeat(32)));
        assert!(matches!(why(&path), KeyFileError::Malformed { line: 2, .. }));
        assert!(matches!(why(&folder.write("# none\n")), KeyFileError::Number { keys: 0, .. }));
        let nine = format!("{}\n", "0a".repeat(32)).repeat(9);
        assert!(matches!(why(&folder.write(&nine)), KeyFileError::Number { keys: 9, .. }));
        let path = folder.write(&"0a".repeat(32));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("the file is ours");
        assert!(matches!(why(&path), KeyFileError::Exposed { .. }));
        assert!(matches!(why(&folder.0), KeyFileError::NoFile { .. }));
        assert!(matches!(why(&folder.0.join("absent")), KeyFileError::Unreadable { .. }));
    }

    #[test]
    fn a_new_file_is_this_users_alone_and_replaces_none() {
        let folder = Folder::new("created");
        let path = folder.0.join("new.key");
        let key = ClusterKey::new([7; 32]);
        KeyFile::create(&path, &key).expect("there was none");
        assert_eq!(path.metadata().expect("it is there").mode() & 0o777, 0o600);
        assert_eq!(KeyFile::open(&path).expect("it is good").keys(), std::slice::from_ref(&key));
        assert!(KeyFile::create(&path, &key).is_err());
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_bad_one_changes_nothing() {
        let folder = Folder::new("changed");
        let path = folder.write(&"0a".repeat(32));
        let mut file = KeyFile::open(&path).expect("it is good");
        let look = |file: &mut KeyFile| {
            file.looked = file.looked.checked_sub(LOOK_EVERY).expect("the machine has run for a second");
            file.renew()
        };
        assert_eq!(look(&mut file), Ok(false));
        folder.write("garbage");
        assert!(look(&mut file).is_err());
        assert_eq!(file.keys(), [ClusterKey::new([0x0a; 32])]);
        folder.write(&format!("{}\n# longer", "0b".repeat(32)));
        assert_eq!(look(&mut file), Ok(true));
        assert_eq!(file.keys(), [ClusterKey::new([0x0b; 32])]);
        assert_eq!(file.renew(), Ok(false), "it is looked at once a second");
    }
}
