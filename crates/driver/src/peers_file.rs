//! The file with the public keys of peers: `name key` a line, the key as 64 hexadecimal digits; blank lines
//! and those that begin with `#` say nothing. A name may have several lines, so that keys are exchanged
//! without a stop.
//!
//! The keys are no secret, but whoever can write the file says who is let in: it is the process's own user's
//! or root's, and nobody else can write it.

use std::path::Path;

use farcall_base::PublicKey;

use crate::watched_file::{FileContent, FileError, FileRules, WatchedFile, parse_lines};

/// The most keys of a file.
pub const PEERS_MAX: usize = 8192;

/// The longest name of a peer, in bytes.
pub const PEER_NAME_BYTES_MAX: usize = 64;

/// Why no peers are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeersFileError {
    /// The file, or a line of it, is of no use.
    #[error(transparent)]
    File(#[from] FileError),
    /// There are too many.
    #[error("{path} holds more than {PEERS_MAX} keys")]
    TooMany {
        /// Which file.
        path: String,
    },
}

/// A peer and one of its keys, as a line says it.
pub type Peer = (String, PublicKey);

/// A file of peers that is looked at again from time to time. There may be none in it: nobody is let in then.
pub type PeersFile = WatchedFile<Vec<Peer>>;

impl FileContent for Vec<Peer> {
    const RULES: FileRules = FileRules {
        what: "a file of peers",
        forbidden: 0o022,
        others: ("write", ", and with it let themselves in; chmod go-w it"),
        bytes_max: 1 << 20,
    };

    type Error = PeersFileError;

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, PeersFileError> {
        const { assert!(PEER_NAME_BYTES_MAX == 64, "as the sentence says") };
        let wanted = "name of 1 to 64 letters, digits and -_./@ with a public key of 64 hexadecimal digits";
        let peers = parse_lines(path, bytes, wanted, peer)?;
        let too_many = || PeersFileError::TooMany { path: path.display().to_string() };
        if peers.len() <= PEERS_MAX { Ok(peers) } else { Err(too_many()) }
    }
}

impl PeersFile {
    /// The peers as they were read last, line by line.
    pub fn peers(&self) -> &[Peer] {
        self.content()
    }
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
    let Ok(peers) = Vec::<Peer>::parse(Path::new("peers"), bytes) else { return };
    let lines: String = peers.iter().map(|(name, key)| format!("{name} {key}\n")).collect();
    let again = Vec::parse(Path::new("peers"), lines.as_bytes());
    assert_eq!(again, Ok(peers), "what was read is read again");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Peer>, PeersFileError> {
        Vec::parse(Path::new("peers"), text.as_bytes())
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
            let error = read(&format!("# who\n{line}\n")).expect_err(&line).to_string();
            assert!(error.starts_with("line 2 of peers is no name of 1 to 64 letters"), "{line}: {error}");
        }
        let many = format!("w {key}\n").repeat(PEERS_MAX + 1);
        assert_eq!(read(&many), Err(PeersFileError::TooMany { path: "peers".into() }));
    }
}
