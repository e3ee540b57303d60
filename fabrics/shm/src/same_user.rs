//! The right to share memory: processes of the same user have it.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt;

/// Checks that the process at the other end of a Unix socket runs under the user of this one. The kernel
/// answers for what the check relies on.
///
/// # Errors
/// `PermissionDenied`, with both users in words, when it does not.
pub fn same_user(socket: impl AsFd) -> io::Result<()> {
    let peer = sockopt::socket_peercred(socket)?.uid;
    compare_users(peer.as_raw(), rustix::process::geteuid().as_raw())
}

fn compare_users(peer: u32, own: u32) -> io::Result<()> {
    if peer == own {
        return Ok(());
    }
    let why = format!("it runs as user {peer}, this process as user {own}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_of_the_same_user_are_taken() {
        assert!(compare_users(1000, 1000).is_ok());
        for (peer, own) in [(1000, 1001), (0, 1000), (1000, 0)] {
            let refused = compare_users(peer, own).expect_err("another user");
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            let why = refused.to_string();
            assert!(why.contains(&peer.to_string()) && why.contains(&own.to_string()), "{why:?}");
        }
    }
}
