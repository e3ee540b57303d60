//! Whom a process lets into its memory: processes of its own user.

use std::os::fd::OwnedFd;

use farcall_driver::LaneFault;
use rustix::net::sockopt;

use crate::handshake::refuse;

/// Refuses a peer that runs under another user.
pub fn same_user(socket: &OwnedFd) -> Result<(), LaneFault> {
    let peer = sockopt::socket_peercred(socket).map_err(refuse)?.uid;
    compare_users(peer.as_raw(), rustix::process::geteuid().as_raw())
}

fn compare_users(peer: u32, own: u32) -> Result<(), LaneFault> {
    if peer == own {
        return Ok(());
    }
    Err(refuse(format!("it runs as user {peer}, this process as user {own}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_of_the_same_user_are_taken() {
        assert_eq!(compare_users(1000, 1000), Ok(()));
        for (peer, own) in [(1000, 1001), (0, 1000), (1000, 0)] {
            let Err(LaneFault::Unacceptable { why }) = compare_users(peer, own) else {
                panic!("user {peer} was taken by user {own}")
            };
            assert!(why.contains(&peer.to_string()) && why.contains(&own.to_string()), "{why:?}");
        }
    }
}
