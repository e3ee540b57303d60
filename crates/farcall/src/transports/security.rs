//! Cluster keys and identities for transports: from the files that the settings name, and to no transport
//! that would not use them.

use std::io;
use std::path::Path;

use farcall_base::ClusterKey;
use farcall_driver::{KeyFile, KeyFileError};
use farcall_protocol::keys::Keyring;
use farcall_transport::KeySource;

use super::identity::{FileIdentity, IdentityError, simulated_identities};
use super::{Fabric, Protocol, Site, TransportKind};
use crate::bootstrap::random;
use crate::parameters::Settings;
use crate::said::{Kind, Level};

/// What is said of files that have changed and cannot be read.
static KEYS_UNCHANGED: Kind = Kind::new(Level::Error, "keys that were not renewed");

/// The keys of a file, and who this process is and whom it knows, for as long as an endpoint lives.
struct FileKeys {
    file: KeyFile,
    identity: Option<FileIdentity>,
    /// Whether it was said that a changed file cannot be read.
    said: bool,
}

fn ring_of(file: &KeyFile) -> Keyring {
    Keyring::new(file.keys().to_vec()).expect("a file of keys has one to eight")
}

impl FileKeys {
    fn ring(&self) -> Keyring {
        let ring = ring_of(&self.file);
        match &self.identity {
            Some(identity) => ring.identified_by(identity.known()),
            None => ring,
        }
    }

    /// Whether any of the files has changed, and what is of no use in another one. All are looked at: what
    /// has changed in one is not held up by another, nor forgotten for it.
    fn renew(&mut self) -> (bool, Option<IdentityError>) {
        let keys = self.file.renew();
        let (identity, trouble) = self.identity.as_mut().map_or((false, None), FileIdentity::renew);
        (keys == Ok(true) || identity, keys.err().map(IdentityError::from).or(trouble))
    }
}

impl KeySource for FileKeys {
    fn keys(&mut self) -> Keyring {
        self.ring()
    }

    fn changed(&mut self) -> Option<Keyring> {
        let (changed, trouble) = self.renew();
        self.said &= !changed;
        if let Some(why) = trouble
            && !core::mem::replace(&mut self.said, true)
        {
            KEYS_UNCHANGED.say(format_args!("what that file says of keys stays as it was: {why}"));
        }
        changed.then(|| self.ring())
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
pub(super) fn keys(
    settings: &Settings,
    site: &Site<'_>,
) -> Result<Option<Box<dyn KeySource>>, IdentityError> {
    let security = &settings.security;
    let identity = match (security.identity_file, security.peers_file) {
        (Some(own), Some(peers)) => Some((own, peers)),
        (None, None) => None,
        _ => return Err(IdentityError::Half),
    };
    let Some(path) = security.key_file else {
        return if identity.is_some() { Err(IdentityError::NoClusterKey) } else { Ok(None) };
    };
    if let Site::Simulated(host) = site {
        let mut key = [0; ClusterKey::BYTES];
        key.iter_mut().zip(path.as_str().bytes()).for_each(|(byte, of_name)| *byte = of_name);
        let ring = Keyring::new(vec![ClusterKey::new(key)]).expect("it is one key");
        let ring = match identity {
            Some((own, _)) => ring.identified_by(simulated_identities(own.as_str(), host)),
            None => ring,
        };
        return Ok(Some(Box::new(SimulatedKey(ring))));
    }
    let file = KeyFile::open(Path::new(path.as_str()))?;
    let open = |(own, peers): (crate::parameters::Text, crate::parameters::Text)| {
        FileIdentity::open(Path::new(own.as_str()), Path::new(peers.as_str()))
    };
    let identity = identity.map(open).transpose()?;
    Ok(Some(Box::new(FileKeys { file, identity, said: false })))
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
    Ok(ring_of(&file).names().collect())
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

/// A transport that would send in clear although there is a key, or would let peers in that prove less than
/// the settings ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unprotected {
    /// It does not seal what it sends.
    #[error("what {0} sends is not sealed by security.key_file: use basic+udp, homa+udp or tcp+tls")]
    NotSealed(TransportKind),
    /// Its peers prove something else, or nothing.
    #[error(
        "peers over {0} do not prove the identities that security.identity_file asks for: use basic+udp or \
         homa+udp"
    )]
    NotIdentified(TransportKind),
}

/// Whether peers prove by key pairs of their own who they are: over packets alone. A user of this machine or
/// a certificate would be a proof of another kind, which no list of peers is compared with.
fn identifies(kind: TransportKind) -> bool {
    match kind {
        TransportKind::Pair { protocol, .. } => protocol != Protocol::Ring,
        TransportKind::Tcp { .. } | TransportKind::Library(_) => false,
        TransportKind::Auto | TransportKind::Listed(_) => true,
    }
}

/// Refuses a transport that would ignore the key or the identity that the settings name.
pub(super) fn check(kind: TransportKind, settings: &Settings) -> Result<(), Unprotected> {
    if settings.security.key_file.is_some() && !seals(kind) {
        return Err(Unprotected::NotSealed(kind));
    }
    if settings.security.identity_file.is_some() && !identifies(kind) {
        return Err(Unprotected::NotIdentified(kind));
    }
    Ok(())
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
            assert_eq!(check(kind, &settings), Err(Unprotected::NotSealed(kind)));
        }
        for kind in [TransportKind::BASIC_UDP, TransportKind::HOMA_VERBS, TransportKind::TCP_TLS] {
            assert_eq!(check(kind, &settings), Ok(()));
        }
    }

    #[test]
    fn with_an_identity_no_transport_takes_peers_that_prove_something_else() {
        let mut settings = Settings::default();
        settings.security.key_file = Text::parse("cluster.key");
        settings.security.identity_file = Text::parse("own");
        for kind in [TransportKind::BASIC_UDP, TransportKind::HOMA_VERBS, TransportKind::AUTO] {
            assert_eq!(check(kind, &settings), Ok(()));
        }
        settings.tls.cert = Text::parse("cert.pem");
        for kind in [TransportKind::RING_SHM, TransportKind::TCP_TLS] {
            assert_eq!(check(kind, &settings), Err(Unprotected::NotIdentified(kind)));
        }
    }
}
