//! The file with a cluster's keys: one a line, 64 hexadecimal digits each; blank lines and those that begin
//! with `#` say nothing. The first key is used, the others are believed as well, so that keys are exchanged
//! without a stop.
//!
//! Only its owner may read it, as `ssh` demands of private keys: a regular file of the process's own user or
//! of root, without a permission for anybody else.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use farcall_base::ClusterKey;
use zeroize::Zeroizing;

use crate::watched_file::{FileRefused, FileRules, WatchedFile};

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Nobody but the owner reads or writes it.
pub(crate) const RULES: FileRules = FileRules { forbidden: 0o077, bytes_max: FILE_BYTES_MAX };

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
    /// It is longer than any that is read.
    #[error("{path} is longer than {FILE_BYTES_MAX} bytes, the limit of a file of keys")]
    TooLong {
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
    file: WatchedFile,
    keys: Vec<ClusterKey>,
}

impl KeyFile {
    /// Reads the keys.
    pub fn open(path: &Path) -> Result<Self, KeyFileError> {
        let found = RULES.read(path).map_err(|why| refused(path, why))?;
        let keys = parse(path, &found.bytes)?;
        Ok(Self { file: WatchedFile::new(path, RULES, found), keys })
    }

    /// The keys as they were read last, one to eight.
    pub fn keys(&self) -> &[ClusterKey] {
        &self.keys
    }

    /// Looks whether the file has changed, at most once a second, and reads it then; whether the keys are
    /// others now. When it cannot be read the keys stay what they were, and the next look tries again.
    pub fn renew(&mut self) -> Result<bool, KeyFileError> {
        let found = self.file.look().map_err(|why| refused(self.file.path(), why))?;
        let Some(found) = found else { return Ok(false) };
        let keys = parse(self.file.path(), &found.bytes)?;
        self.file.accept(found);
        let has_changed = keys != self.keys;
        self.keys = keys;
        Ok(has_changed)
    }

    /// Makes a file with one key, which nobody but this user can read. Fails where there is one already.
    pub fn create(path: &Path, key: &ClusterKey) -> io::Result<()> {
        create_secret(path, &Zeroizing::new(format!("{}\n", *key.to_digits())))
    }
}

/// Makes a file with a secret, which nobody but this user can read. Fails where there is one already.
pub(crate) fn create_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The lines of a file that say something, and their numbers from 1.
pub(crate) fn said_lines(bytes: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).zip(1..);
    lines.filter(|(line, _)| !line.is_empty() && !line.starts_with(b"#"))
}

pub(crate) fn refused(path: &Path, why: FileRefused) -> KeyFileError {
    let path = path.display().to_string();
    match why {
        FileRefused::Unreadable(reason) => KeyFileError::Unreadable { path, reason },
        FileRefused::NoFile => KeyFileError::NoFile { path },
        FileRefused::OfAnother(owner) => KeyFileError::OfAnother { path, owner },
        FileRefused::Permitted => KeyFileError::Exposed { path },
        FileRefused::TooLong => KeyFileError::TooLong { path },
    }
}

/// The keys of a file.
fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<ClusterKey>, KeyFileError> {
    let name = || path.display().to_string();
    let keys = said_lines(bytes).map(|(line, number)| {
        ClusterKey::from_digits(line).ok_or_else(|| KeyFileError::Malformed { path: name(), line: number })
    });
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    match keys.len() {
        1..=ClusterKey::RING_MAX => Ok(keys),
        number => Err(KeyFileError::Number { path: name(), keys: number }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::PathBuf;

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
        let long = "#".repeat(FILE_BYTES_MAX as usize + 1);
        assert!(matches!(why(&folder.write(&long)), KeyFileError::TooLong { .. }));
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
            file.file.let_second_pass();
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
