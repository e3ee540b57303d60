//! How the processes of a host find the daemons of a store there: by abstract names that follow from the
//! store's.

use core::time::Duration;
use std::io;

use crate::slots::{AttachError, SlotLayout, SlotServer};
use xxhash_rust::xxh3::xxh3_64;

use super::client::DaemonClient;

/// The most daemons of one store on one host.
pub const DAEMONS_PER_HOST_MAX: u32 = 64;

/// A daemon looks after its clients now and then only, and a busy machine may let it wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

fn name(store: &str, number: u32) -> String {
    format!("farcall-kv-{:016x}-{number}", xxh3_64(store.as_bytes()))
}

/// Listens as one of the daemons of a store, by the first name that is free.
pub fn listen_on_host(store: &str, layout: SlotLayout, clients_max: usize) -> io::Result<SlotServer> {
    for number in 0..DAEMONS_PER_HOST_MAX {
        match SlotServer::bind(&name(store, number), layout, clients_max) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
    Err(io::Error::other(format!("this host has {DAEMONS_PER_HOST_MAX} daemons of the store, the most")))
}

/// Attaches to the first daemon of a store on this host that takes another client. The error is that of the
/// last one that was there.
pub fn attach_on_host(store: &str) -> Result<DaemonClient, AttachError> {
    let mut last = AttachError::NotThere;
    for number in 0..DAEMONS_PER_HOST_MAX {
        match DaemonClient::attach_present(&name(store, number), ANSWER_WITHIN) {
            Err(AttachError::NotThere) => {}
            Err(error) => last = error,
            attached => return attached,
        }
    }
    Err(last)
}
