//! Who this process is and whom it knows, from the files that the settings name.

use std::io;
use std::path::Path;
use std::sync::Arc;

use farcall_base::{PrivateKey, PublicKey};
use farcall_driver::{IdentityFile, IdentityFileError, KeyFileError, PeersFile, PeersFileError};
use farcall_protocol::keys::{BadPeers, Identities, KnownPeer, public_half};
use farcall_sim::Host;

use crate::bootstrap::random;

/// Why there are no keys or no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The file of the cluster key is of no use.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// That of the private key is of no use.
    #[error(transparent)]
    Own(#[from] IdentityFileError),
    /// That of the peers is of no use.
    #[error(transparent)]
    Peers(#[from] PeersFileError),
    /// What it says contradicts itself.
    #[error("security.peers_file: {0}")]
    BadPeers(#[from] BadPeers),
    /// One of the two parameters is set, and not the other.
    #[error("security.identity_file and security.peers_file go together: set both or none")]
    Half,
    /// There is no cluster key.
    #[error("security.identity_file needs a cluster key beside it: set security.key_file")]
    NoClusterKey,
}

/// The two files, for as long as an endpoint lives.
pub(super) struct FileIdentity {
    own: IdentityFile,
    peers: PeersFile,
    known: Arc<Identities>,
}

impl FileIdentity {
    /// Reads both.
    pub(super) fn open(own: &Path, peers: &Path) -> Result<Self, IdentityError> {
        let (own, peers) = (IdentityFile::open(own)?, PeersFile::open(peers)?);
        let known = Arc::new(identities(&own, &peers)?);
        Ok(Self { own, peers, known })
    }

    /// What they say.
    pub(super) fn known(&self) -> Arc<Identities> {
        Arc::clone(&self.known)
    }

    /// Whether they say something else now, and what is of no use in one of them: that changes nothing, and
    /// does not hold up what has changed in the other. Asked for each OPEN: what both say together is looked
    /// at when one of them has changed, and never otherwise.
    pub(super) fn renew(&mut self) -> (bool, Option<IdentityError>) {
        let (own, peers) = (self.own.renew(), self.peers.renew());
        let has_changed = own == Ok(true) || peers == Ok(true);
        let trouble = own.err().map(IdentityError::from).or(peers.err().map(IdentityError::from));
        if !has_changed {
            return (false, trouble);
        }
        match identities(&self.own, &self.peers) {
            Ok(known) => {
                self.known = Arc::new(known);
                (true, trouble)
            }
            Err(why) => (false, Some(why.into())),
        }
    }
}

fn identities(own: &IdentityFile, peers: &PeersFile) -> Result<Identities, BadPeers> {
    let known = |(name, key): &(String, PublicKey)| KnownPeer { name: name.as_str().into(), key: *key };
    Identities::new(own.key().clone(), peers.peers().iter().map(known).collect())
}

/// Who a simulated host is: its key follows from the name of the file and its number, and it knows all others
/// as `host-` with their numbers.
pub(super) fn simulated_identities(own: &str, host: &Host) -> Arc<Identities> {
    let private = |number: usize| {
        let mut key = [0; PrivateKey::BYTES];
        key.iter_mut().zip(own.bytes()).for_each(|(byte, of_name)| *byte = of_name);
        key[24..].copy_from_slice(&(number as u64).to_le_bytes());
        PrivateKey::new(key)
    };
    let known =
        |number| KnownPeer { name: format!("host-{number}").into(), key: public_half(&private(number)) };
    let peers = (0..host.fabric().host_count()).map(known).collect();
    let made = Identities::new(private(host.number()), peers);
    Arc::new(made.expect("each host has a key of its own"))
}

/// Makes a file with a new private key, which only this user can read, and gives the public half. Fails where
/// there is a file already.
pub fn create_identity_file(path: &Path) -> io::Result<PublicKey> {
    let private = PrivateKey::new(random());
    let public = public_half(&private);
    IdentityFile::create(path, &private, &format!("the public half is {public}"))?;
    Ok(public)
}

/// The public half of the private key of a file, for the file of peers of others.
pub fn public_key_of(path: &Path) -> Result<PublicKey, IdentityFileError> {
    IdentityFile::open(path).map(|file| public_half(file.key()))
}
