//! How the processes of a host find the daemons of a store there: by names that follow from the store's.
//!
//! Anybody can work these names out, and take the abstract ones. In the folder of a user's sockets nobody
//! else can.

use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;

use farcall::bootstrap::HostPort;

use crate::slots::{Access, AttachError, SlotLayout, SlotServer};
use xxhash_rust::xxh3::xxh3_64;

use super::client::DaemonClient;

/// The most daemons of one store on one host.
pub const DAEMONS_PER_HOST_MAX: u32 = 64;

/// A daemon looks after its clients now and then only, and a busy machine may let it wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

fn name(store: &str, number: u32) -> String {
    format!("farcall-kv-{:016x}-{number}", xxh3_64(store.as_bytes()))
}

/// What the processes of a host call a store by, of those names of its place that mean the same: `localhost`
/// and `127.0.0.1` are one store here.
pub fn name_on_host(at: &HostPort) -> String {
    let at = at.to_string();
    let addresses = at.to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    let loopback = addresses.iter().filter(|address| address.ip().is_loopback());
    let first = loopback.min_by_key(|address| address.is_ipv6()).map(ToString::to_string);
    first.unwrap_or(at)
}

/// Listens as one of the daemons of a store, by the first name that is free.
pub fn listen_on_host(
    store: &str,
    access: &Access,
    layout: SlotLayout,
    clients_max: usize,
) -> io::Result<SlotServer> {
    for number in 0..DAEMONS_PER_HOST_MAX {
        match SlotServer::bind_at(&name(store, number), access, layout, clients_max) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
    Err(io::Error::other(format!("all {DAEMONS_PER_HOST_MAX} names of the store's daemons here are taken")))
}

/// Attaches to the first daemon of a store on this host that takes another client. The error is that of the
/// last one that was there.
pub fn attach_on_host(store: &str, access: &Access) -> Result<DaemonClient, AttachError> {
    attach_on_host_within(store, access, ANSWER_WITHIN)
}

/// The same; each daemon that is there may take this long to answer, and no longer than two seconds.
pub fn attach_on_host_within(
    store: &str,
    access: &Access,
    within: Duration,
) -> Result<DaemonClient, AttachError> {
    let mut last = AttachError::NotThere;
    for number in 0..DAEMONS_PER_HOST_MAX {
        match DaemonClient::attach_present(&name(store, number), access, within.min(ANSWER_WITHIN)) {
            Err(AttachError::NotThere) => {}
            Err(error) => last = error,
            attached => return attached,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use farcall_shm::folder::Directory;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};

    use super::*;

    const LAYOUT: SlotLayout = SlotLayout { slots: 1, request_bytes: 56, response_bytes: 56 };

    /// A folder of the test's own.
    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("the test's own");
        }
    }

    #[test]
    fn names_that_others_occupy_stop_no_daemon_that_has_a_folder() {
        let store = format!("squatted-{}", std::process::id());
        let squatters: Vec<_> = (0..DAEMONS_PER_HOST_MAX)
            .map(|number| {
                let squatter = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
                let name = SocketAddrUnix::new_abstract_name(name(&store, number).as_bytes());
                bind(&squatter, &name.expect("short")).expect("free");
                squatter
            })
            .collect();
        let folder = Folder(std::env::temp_dir().join(format!("fc-{store}")));
        let access = Access { directory: Directory::At(folder.0.clone()), ..Access::default() };
        let mut server = listen_on_host(&store, &access, LAYOUT, 1).expect("nobody else has the folder");
        let mut second = listen_on_host(&store, &access, LAYOUT, 1).expect("the next name");
        std::thread::scope(|scope| {
            let client = scope.spawn(|| attach_on_host(&store, &access));
            while !client.is_finished() {
                server.attend();
                second.attend();
            }
            assert!(client.join().expect("it does not panic").is_ok());
        });
        assert_eq!((server.attached(), second.attached()), (1, 0));
        drop(squatters);
    }
}
