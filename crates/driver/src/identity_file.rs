//! The file with the private key of a process: one line, `private` and 64 hexadecimal digits; blank lines and
//! those that begin with `#` say nothing. The word keeps it from being taken for a cluster key, which others
//! have.
//!
//! It is as secret as a file of cluster keys, and the same rules hold for it ([`super::KeyFile`]).

use std::fmt::Write;
use std::io;
use std::path::Path;

use farcall_base::PrivateKey;
use zeroize::Zeroizing;

use crate::key_file::{SECRET, create_secret};
use crate::watched_file::{FileContent, FileError, FileRules, WatchedFile, said_lines};

/// Stands in front of the key.
const WORD: &[u8] = b"private ";

/// Why there is no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityFileError {
    /// The file cannot be used, whatever it holds.
    #[error(transparent)]
    File(#[from] FileError),
    /// It holds something else.
    #[error(
        "{path} is no file of one private key, `private` and 64 hexadecimal digits: \
         farcall key generate --identity makes one"
    )]
    Malformed {
        /// Which file.
        path: String,
    },
}

/// A file with a private key that is looked at again from time to time.
pub type IdentityFile = WatchedFile<PrivateKey>;

impl FileContent for PrivateKey {
    const RULES: FileRules = SECRET;

    type Error = IdentityFileError;

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, IdentityFileError> {
        let malformed = || IdentityFileError::Malformed { path: path.display().to_string() };
        let mut lines = said_lines(bytes);
        let (Some((line, _)), None) = (lines.next(), lines.next()) else { return Err(malformed()) };
        let digits = line.strip_prefix(WORD).ok_or_else(malformed)?;
        Self::from_digits(digits.trim_ascii()).ok_or_else(malformed)
    }
}

impl IdentityFile {
    /// The key as it was read last.
    pub fn key(&self) -> &PrivateKey {
        self.content()
    }

    /// Makes a file with a key, which nobody but this user can read. Fails where there is one already.
    pub fn create(path: &Path, key: &PrivateKey, comment: &str) -> io::Result<()> {
        let mut text = Zeroizing::new(String::with_capacity(256));
        writeln!(text, "# {comment}").map_err(io::Error::other)?;
        writeln!(text, "private {}", *key.to_digits()).map_err(io::Error::other)?;
        create_secret(path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_is_one_line_with_its_word_in_front() {
        let path = Path::new("identity");
        let digits = "0a".repeat(32);
        let text = format!("# of May\n\nprivate {digits}\n");
        assert_eq!(PrivateKey::parse(path, text.as_bytes()), Ok(PrivateKey::new([0x0a; 32])));
        // A file of cluster keys, which others have, is none.
        for text in [digits.clone(), String::new(), format!("{text}private {digits}"), "private 0a".into()] {
            assert_eq!(
                PrivateKey::parse(path, text.as_bytes()),
                Err(IdentityFileError::Malformed { path: "identity".into() })
            );
        }
    }

    #[test]
    fn a_new_file_holds_the_key_and_is_this_users_alone() {
        use std::os::unix::fs::MetadataExt;
        let path = std::env::temp_dir().join(format!("farcall-identity-{}", std::process::id()));
        let key = PrivateKey::new([7; 32]);
        IdentityFile::create(&path, &key, "a comment").expect("there was none");
        let (mode, read) = (path.metadata().map(|file| file.mode() & 0o777), IdentityFile::open(&path));
        let again = IdentityFile::create(&path, &key, "a comment");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(mode.expect("it is there"), 0o600);
        assert_eq!(*read.expect("it is good").key(), key);
        assert!(again.is_err());
    }
}
