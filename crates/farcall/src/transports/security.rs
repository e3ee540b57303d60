//! Cluster keys for transports: from the file that the settings name, and to no transport that would not use
//! them.

use std::io;
use std::path::Path;

use farcall_base::ClusterKey;
use farcall_driver::{KeyFile, KeyFileError};
use farcall_protocol::keys::Keyring;
use farcall_transport::KeySource;

use super::{Fabric, Protocol, Site, TransportKind};
use crate::bootstrap::random;
use crate::parameters::Settings;
use crate::said::{Kind, Level};

/// What is said of files that have changed and cannot be read.
static KEYS_UNCHANGED: Kind = Kind::new(Level::Error, "keys that were not renewed");

/// The keys of a file, for as long as an endpoint lives.
struct FileKeys {
    file: KeyFile,
    /// Whether it was said that the changed file cannot be read.
    said: bool,
}

impl FileKeys {
    fn ring(&self) -> Keyring {
        Keyring::new(self.file.keys().to_vec()).expect("a file of keys has one to eight")
    }
}

impl KeySource for FileKeys {
    fn keys(&mut self) -> Keyring {
        self.ring()
    }

    fn changed(&mut self) -> Option<Keyring> {
        match self.file.renew() {
            Ok(changed) => {
                self.said &= !changed;
                changed.then(|| self.ring())
            }
            Err(why) => {
                if !core::mem::replace(&mut self.said, true) {
                    KEYS_UNCHANGED.say(format_args!("the keys stay what they were: {why}"));
                }
                None
            }
        }
    }
}

/// The one key of a simulated host.
struct SimulatedKey(Keyring);

impl KeySource for SimulatedKey {
    fn keys(&mut self) -> Keyring {
        self.0.clone()
    }

    fn changed(&mut self) -> Option<Keyring> {
        None
    }
}

/// Where an endpoint has its keys from, if the settings name a file. Simulated hosts have no files: their key
/// follows from the name, so that a simulation is the same on every machine.
pub(super) fn keys(settings: &Settings, site: &Site<'_>) -> Result<Option<Box<dyn KeySource>>, KeyFileError> {
    let Some(path) = settings.security.key_file else { return Ok(None) };
    if let Site::Simulated(_) = site {
        let mut key = [0; ClusterKey::BYTES];
        key.iter_mut().zip(path.as_str().bytes()).for_each(|(byte, of_name)| *byte = of_name);
        let ring = Keyring::new(vec![ClusterKey::new(key)]).expect("it is one key");
        return Ok(Some(Box::new(SimulatedKey(ring))));
    }
    let file = KeyFile::open(Path::new(path.as_str()))?;
    Ok(Some(Box::new(FileKeys { file, said: false })))
}

/// Makes a file with one new key, which only this user can read, and says what the key is called. Fails where
/// there is a file already.
pub fn create_key_file(path: &Path) -> io::Result<String> {
    let key = ClusterKey::new(random());
    KeyFile::create(path, &key)?;
    let ring = Keyring::new(vec![key]).expect("it is one key");
    Ok(ring.names().collect())
}

/// What the keys of a file are called, in their order; the first one is used. A name says nothing about its
/// key but which one it is.
pub fn names_of_keys(path: &Path) -> Result<Vec<String>, KeyFileError> {
    let file = KeyFile::open(path)?;
    Ok(FileKeys { file, said: false }.ring().names().collect())
}

/// Whether what a transport sends is sealed where there is a key, or never leaves this machine's kernel.
fn seals(kind: TransportKind) -> bool {
    match kind {
        TransportKind::Pair { protocol: Protocol::Ring, fabric } => fabric == Fabric::Shm,
        TransportKind::Pair { .. } => true,
        TransportKind::Tcp { secured } => secured,
        TransportKind::Library(_) => false,
        // Each of their ways is checked by itself.
        TransportKind::Auto | TransportKind::Listed(_) => true,
    }
}

/// A transport that would send in clear although there is a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what {0} sends is not sealed by security.key_file: use basic+udp, homa+udp or tcp+tls")]
pub struct NotSealed(TransportKind);

/// Refuses a transport that would ignore the key that the settings name.
pub(super) fn check(kind: TransportKind, settings: &Settings) -> Result<(), NotSealed> {
    if settings.security.key_file.is_some() && !seals(kind) { Err(NotSealed(kind)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Text;

    #[test]
    fn with_a_key_no_transport_sends_in_clear() {
        let mut settings = Settings::default();
        for kind in [TransportKind::TCP, TransportKind::UCX, TransportKind::RING_VERBS] {
            assert_eq!(check(kind, &settings), Ok(()));
        }
        settings.security.key_file = Text::parse("cluster.key");
        for kind in [TransportKind::TCP, TransportKind::UCX, TransportKind::RING_VERBS] {
            assert_eq!(check(kind, &settings), Err(NotSealed(kind)));
        }
        for kind in [TransportKind::BASIC_UDP, TransportKind::HOMA_VERBS, TransportKind::TCP_TLS] {
            assert_eq!(check(kind, &settings), Ok(()));
        }
    }
}
