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

use crate::watched_file::{FileContent, FileError, FileRules, WatchedFile, parse_lines};

/// Nobody but the owner reads or writes a secret.
pub(crate) const SECRET: FileRules = FileRules {
    what: "a file of keys",
    forbidden: 0o077,
    others: ("read", ": it holds a secret; chmod 600 it"),
    bytes_max: 64 << 10,
};

/// Why there are no keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// The file, or a line of it, is of no use.
    #[error(transparent)]
    File(#[from] FileError),
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
pub type KeyFile = WatchedFile<Vec<ClusterKey>>;

impl FileContent for Vec<ClusterKey> {
    const RULES: FileRules = SECRET;

    type Error = KeyFileError;

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, KeyFileError> {
        let wanted = "key of 64 hexadecimal digits: farcall key generate makes one";
        let keys = parse_lines(path, bytes, wanted, ClusterKey::from_digits)?;
        match keys.len() {
            1..=ClusterKey::RING_MAX => Ok(keys),
            number => Err(KeyFileError::Number { path: path.display().to_string(), keys: number }),
        }
    }
}

impl KeyFile {
    /// The keys as they were read last, one to eight.
    pub fn keys(&self) -> &[ClusterKey] {
        self.content()
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
        let why = |path: &Path| KeyFile::open(path).expect_err("it is refused");
        let refused = |path: &Path| match why(path) {
            KeyFileError::File(why) => why,
            KeyFileError::Number { .. } => panic!("the file itself is of no use"),
        };
        let path = folder.write(&format!("{}\nno key\n", "0a".repeat(32)));
        assert!(matches!(refused(&path), FileError::Malformed { line: 2, .. }));
        assert!(matches!(why(&folder.write("# none\n")), KeyFileError::Number { keys: 0, .. }));
        let nine = format!("{}\n", "0a".repeat(32)).repeat(9);
        assert!(matches!(why(&folder.write(&nine)), KeyFileError::Number { keys: 9, .. }));
        let long = "#".repeat(SECRET.bytes_max as usize + 1);
        assert!(matches!(refused(&folder.write(&long)), FileError::TooLong { .. }));
        let path = folder.write(&"0a".repeat(32));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("the file is ours");
        assert!(matches!(refused(&path), FileError::Permitted { verb: "read", .. }));
        assert!(matches!(refused(&folder.0), FileError::NoFile { .. }));
        assert!(matches!(refused(&folder.0.join("absent")), FileError::Unreadable { .. }));
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
            file.let_second_pass();
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
