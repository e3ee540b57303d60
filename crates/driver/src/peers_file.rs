//! The file with the public keys of peers: `name key` a line, the key as 64 hexadecimal digits; blank lines
//! and those that begin with `#` say nothing. A name may have several lines, so that keys are exchanged
//! without a stop.
//!
//! The keys are no secret, but whoever can write the file says who is let in: it is the process's own user's
//! or root's, and nobody else can write it.

use std::path::Path;

use farcall_base::PublicKey;

use crate::key_file::said_lines;
use crate::watched_file::{FileRefused, FileRules, WatchedFile};

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The most keys of a file.
pub const PEERS_MAX: usize = 8192;

/// The longest name of a peer, in bytes.
pub const PEER_NAME_BYTES_MAX: usize = 64;

/// Nobody but the owner writes it.
const RULES: FileRules = FileRules { forbidden: 0o022, bytes_max: FILE_BYTES_MAX };

/// Why no peers are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeersFileError {
    /// It is not there, or may not be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// Which file.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// Others could let themselves in: `chmod go-w` it.
    #[error("others can write {path}, and with it let themselves in; chmod go-w it")]
    Writable {
        /// Which file.
        path: String,
    },
    /// Another user could change it.
    #[error("{path} is user {owner}'s: the file of peers must be this user's or root's")]
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
    #[error("{path} is longer than {FILE_BYTES_MAX} bytes, the limit of a file of peers")]
    TooLong {
        /// Which.
        path: String,
    },
    /// A line is no name with a key.
    #[error(
        "line {line} of {path} is no name of 1 to {PEER_NAME_BYTES_MAX} letters, digits and -_./@ with a \
         public key of 64 hexadecimal digits"
    )]
    Malformed {
        /// Which file.
        path: String,
        /// Which line, from 1.
        line: usize,
    },
    /// There are too many.
    #[error("{path} holds more than {PEERS_MAX} keys")]
    TooMany {
        /// Which file.
        path: String,
    },
}

/// A peer and one of its keys, as a line says it.
pub type Peer = (String, PublicKey);

/// A file of peers that is looked at again from time to time.
pub struct PeersFile {
    file: WatchedFile,
    peers: Vec<Peer>,
}

impl PeersFile {
    /// Reads the peers. There may be none: nobody is let in then.
    pub fn open(path: &Path) -> Result<Self, PeersFileError> {
        let found = RULES.read(path).map_err(|why| refused(path, why))?;
        let peers = parse(path, &found.bytes)?;
        Ok(Self { file: WatchedFile::new(path, RULES, found), peers })
    }

    /// The peers as they were read last, line by line.
    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// Looks whether the file has changed, at most once a second, and reads it then; whether the peers are
    /// others now. When it cannot be read they stay what they were, and the next look tries again.
    pub fn renew(&mut self) -> Result<bool, PeersFileError> {
        let found = self.file.look().map_err(|why| refused(self.file.path(), why))?;
        let Some(found) = found else { return Ok(false) };
        let peers = parse(self.file.path(), &found.bytes)?;
        self.file.accept(found);
        let has_changed = peers != self.peers;
        self.peers = peers;
        Ok(has_changed)
    }
}

fn refused(path: &Path, why: FileRefused) -> PeersFileError {
    let path = path.display().to_string();
    match why {
        FileRefused::Unreadable(reason) => PeersFileError::Unreadable { path, reason },
        FileRefused::NoFile => PeersFileError::NoFile { path },
        FileRefused::OfAnother(owner) => PeersFileError::OfAnother { path, owner },
        FileRefused::Permitted => PeersFileError::Writable { path },
        FileRefused::TooLong => PeersFileError::TooLong { path },
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Peer>, PeersFileError> {
    let name = || path.display().to_string();
    let mut peers = Vec::new();
    for (line, number) in said_lines(bytes) {
        if peers.len() == PEERS_MAX {
            return Err(PeersFileError::TooMany { path: name() });
        }
        let peer = peer(line).ok_or_else(|| PeersFileError::Malformed { path: name(), line: number })?;
        peers.push(peer);
    }
    Ok(peers)
}

/// `name key`
fn peer(line: &[u8]) -> Option<Peer> {
    let end = line.iter().position(u8::is_ascii_whitespace)?;
    let (name, key) = line.split_at(end);
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./@".contains(byte);
    let is_name = (1..=PEER_NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(is_of_name);
    let name = core::str::from_utf8(name).ok().filter(|_| is_name)?;
    Some((name.to_owned(), PublicKey::from_digits(key.trim_ascii())?))
}

/// Reads bytes as a file of peers.
#[doc(hidden)]
pub fn fuzz_peers(bytes: &[u8]) {
    let Ok(peers) = parse(Path::new("peers"), bytes) else { return };
    let lines: String = peers.iter().map(|(name, key)| format!("{name} {key}\n")).collect();
    assert_eq!(parse(Path::new("peers"), lines.as_bytes()), Ok(peers), "what was read is read again");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Peer>, PeersFileError> {
        parse(Path::new("peers"), text.as_bytes())
    }

    #[test]
    fn a_line_is_a_name_and_a_key() {
        let [one, two] = ["0a", "1B"].map(|byte| byte.repeat(32));
        let peers = read(&format!("# who\nworker-1 {one}\n\n  worker-1\t {two} \nspiffe/web@eu {one}\r\n"));
        let [one, two] = [0x0a, 0x1b].map(|byte| PublicKey([byte; 32]));
        let named = |name: &str, key| (name.to_owned(), key);
        assert_eq!(
            peers,
            Ok(vec![named("worker-1", one), named("worker-1", two), named("spiffe/web@eu", one)])
        );
        assert_eq!(read(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_none_is_said_with_its_line() {
        let key = "0a".repeat(32);
        let long = "a".repeat(PEER_NAME_BYTES_MAX + 1);
        for line in [
            key.clone(),
            "worker".into(),
            "worker 0a".into(),
            format!("{long} {key}"),
            format!("wor:ker {key}"),
            format!("w\u{e9} {key}"),
            format!("worker {key} {key}"),
            format!("worker {key} # of May"),
        ] {
            let error = PeersFileError::Malformed { path: "peers".into(), line: 2 };
            assert_eq!(read(&format!("# who\n{line}\n")), Err(error), "{line}");
        }
        let many = format!("w {key}\n").repeat(PEERS_MAX + 1);
        assert_eq!(read(&many), Err(PeersFileError::TooMany { path: "peers".into() }));
    }
}
