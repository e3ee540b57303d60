//! A policy's file, which is looked at again from time to time.
//!
//! A policy is no secret, but whoever can write it has every right: the file is the process's own user's or
//! root's, and nobody else can write it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use farcall_driver::{FileContent, FileError, FileRules, WatchedFile};

use super::{Policy, PolicyError};
use crate::said::{Kind, Level};

/// What is said of files that have changed and are of no use.
static POLICY_UNCHANGED: Kind = Kind::new(Level::Error, "policies that were not renewed");

/// Why changed files are of no use, as it was said last: once for the process, which may hold several parts
/// of itself to one file.
static SAID: LazyLock<Mutex<HashMap<PathBuf, PolicyFileError>>> = LazyLock::new(Mutex::default);

/// Why there is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFileError {
    /// The file cannot be used, whatever it says.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no text.
    #[error("{path} is no text in UTF-8")]
    NoText {
        /// Which file.
        path: String,
    },
    /// A line is no rule.
    #[error("{path}, {error}")]
    Malformed {
        /// Which file.
        path: String,
        /// Which line, and what is wrong with it.
        error: PolicyError,
    },
}

impl FileContent for Policy {
    const RULES: FileRules = FileRules {
        what: "a policy",
        forbidden: 0o022,
        others: ("write", ", and with it give themselves every right; chmod go-w it"),
        bytes_max: 256 << 10,
    };

    type Error = PolicyFileError;

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, PolicyFileError> {
        let name = || path.display().to_string();
        let text = str::from_utf8(bytes).map_err(|_| PolicyFileError::NoText { path: name() })?;
        text.parse().map_err(|error| PolicyFileError::Malformed { path: name(), error })
    }
}

/// A policy and the file that it is read from.
#[derive(Debug)]
pub struct PolicyFile {
    file: WatchedFile<Policy>,
    path: PathBuf,
    /// It was of no use when it was looked at last.
    is_useless: bool,
}

impl PolicyFile {
    /// Reads a policy.
    ///
    /// # Errors
    /// The file is of no use, for a reason that the error says.
    pub fn open(path: &Path) -> Result<Self, PolicyFileError> {
        Ok(Self { file: WatchedFile::open(path)?, path: path.to_owned(), is_useless: false })
    }

    /// The policy as it was read last.
    pub fn policy(&self) -> &Policy {
        self.file.content()
    }

    /// Looks whether the file has changed, at most once a second, and reads it then; whether the policy is
    /// another one now. A file that is of no use changes nothing, which standard error says once for each
    /// reason; the next look tries again.
    pub fn renew(&mut self) -> bool {
        match self.file.renew() {
            Ok(has_changed) => {
                if self.is_useless && self.file.is_of_use() {
                    self.is_useless = false;
                    said().remove(&self.path);
                }
                has_changed
            }
            Err(why) => {
                self.is_useless = true;
                if is_news(&self.path, &why) {
                    POLICY_UNCHANGED.say(format_args!("the policy stays what it was: {why}"));
                }
                false
            }
        }
    }
}

fn said() -> MutexGuard<'static, HashMap<PathBuf, PolicyFileError>> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes why a file is of no use; whether that was not said yet.
fn is_news(path: &Path, why: &PolicyFileError) -> bool {
    said().insert(path.to_owned(), why.clone()).as_ref() != Some(why)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    /// A folder that is gone with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("farcall-policy-{name}-{}", std::process::id()));
            fs::create_dir(&path).expect("the folder is new");
            Self(path)
        }

        fn write(&self, text: impl AsRef<[u8]>) -> PathBuf {
            let path = self.0.join("policy");
            fs::write(&path, text).expect("the folder is ours");
            fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("the file is ours");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_that_others_can_write_or_that_is_no_policy_is_refused() {
        let folder = Folder::new("refused");
        let why = |path: &Path| PolicyFile::open(path).expect_err("it is refused");
        let path = folder.write("service 1: call by any\nservice x: call by any\n");
        assert!(why(&path).to_string().contains("line 2: "), "{}", why(&path));
        assert!(matches!(why(&folder.write(b"\xff")), PolicyFileError::NoText { .. }));
        let long = "#".repeat(Policy::RULES.bytes_max as usize + 1);
        let refused = |path: &Path| match why(path) {
            PolicyFileError::File(why) => why,
            other => panic!("the file itself is of no use: {other}"),
        };
        assert!(matches!(refused(&folder.write(long)), FileError::TooLong { .. }));
        let path = folder.write("service 1: call by any\n");
        for mode in [0o664, 0o646] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("the file is ours");
            assert!(matches!(refused(&path), FileError::Permitted { verb: "write", .. }));
        }
        assert!(matches!(refused(&folder.0), FileError::NoFile { .. }));
        assert!(matches!(refused(&folder.0.join("absent")), FileError::Unreadable { .. }));
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_bad_one_changes_nothing() {
        let folder = Folder::new("changed");
        let mut file = PolicyFile::open(&folder.write("service 1: call by any\n")).expect("it is good");
        let look = |file: &mut PolicyFile| {
            file.file.let_second_pass();
            file.renew()
        };
        assert!(!look(&mut file), "nothing has changed");
        folder.write("garbage");
        assert!(!look(&mut file));
        assert_eq!(file.policy().len(), 1, "the policy stays what it was");
        folder.write("# none at all");
        assert!(look(&mut file));
        assert!(file.policy().is_empty());
        folder.write("# of another length, and none");
        assert!(!look(&mut file), "it says the same");
    }

    /// A store holds its endpoint, its daemon and its doors to one file.
    #[test]
    fn why_a_file_is_of_no_use_is_said_once_whoever_looks_at_it() {
        let folder = Folder::new("said");
        let path = folder.write("service 1: call by any\n");
        let mut files = [0, 1].map(|_| PolicyFile::open(&path).expect("it is good"));
        let why = |text: &str| PolicyFile::open(&folder.write(text)).expect_err("it is refused");
        for text in ["garbage", "# one\nmore garbage"] {
            let why = why(text);
            files[0].file.let_second_pass();
            files[0].renew();
            assert!(!is_news(&path, &why), "the first has said it");
        }
        folder.write("service 1: call by any\n");
        files.iter_mut().for_each(|file| file.file.let_second_pass());
        files.iter_mut().for_each(|file| _ = file.renew());
        assert!(is_news(&path, &why("garbage")), "it was of use meanwhile");
    }
}
