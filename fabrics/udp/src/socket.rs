//! A socket: made once, with everything that the kernel is willing to give.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

use crate::UdpConfig;
use crate::name::Name;

/// Why a driver could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// "All interfaces" is no address that a peer can send to: name the address of one.
    #[error("cannot bind to {address}: peers cannot send to it; give the address of one interface")]
    Unspecified {
        /// The address asked for.
        address: SocketAddr,
    },
    /// A value of the configuration is out of its range.
    #[error("{parameter} is {value}, and must be between {least} and {most}")]
    OutOfRange {
        /// The field of [`UdpConfig`].
        parameter: &'static str,
        /// Its value.
        value: usize,
        /// The least allowed.
        least: usize,
        /// The most allowed.
        most: usize,
    },
    /// The system refused: the address is in use or not of this machine, or there is no memory.
    #[error("cannot use {address}: {source}")]
    System {
        /// The address asked for.
        address: SocketAddr,
        /// The system's own reason.
        source: io::Error,
    },
}

/// An open socket and what it can do.
#[derive(Debug)]
pub struct Socket {
    file: OwnedFd,
    /// Where it is bound, with its real port.
    pub local: SocketAddr,
    /// Whether the kernel cuts long buffers into packets (`UDP_SEGMENT`).
    pub segmentation: bool,
    /// Whether the kernel joins packets into long buffers (`UDP_GRO`).
    pub coalescing: bool,
    /// How many packets the last look at it brought: if any, there may be more.
    pub last_received: usize,
    /// Whether the peer that it is connected to has closed its port.
    pub was_refused: bool,
    /// Whether everything was taken that such a peer had sent.
    pub is_over: bool,
    /// Whether the network may have reported packets that it could not deliver.
    pub has_report: bool,
}

impl Socket {
    /// Opens and binds. Options that the kernel refuses are done without.
    pub fn open(config: &UdpConfig) -> io::Result<Self> {
        let socket = Self::open_for(config, false)?;
        let (level, option) = match config.bind {
            SocketAddr::V4(_) => (libc::SOL_IP, libc::IP_RECVERR),
            SocketAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_RECVERR),
        };
        // Without it peers that cannot be reached are found by their silence.
        let _ = set_option(&socket.file, level, option, 1);
        Ok(socket)
    }

    /// Opens another socket at the same address, which `config` must name. Sockets of other users cannot: the
    /// kernel compares users (`SO_REUSEPORT`). Those of this user that ask to share can for some
    /// microseconds, until the permission is taken back.
    pub fn open_beside(&self, config: &UdpConfig) -> io::Result<Self> {
        share_address(&self.file, true)?;
        let beside = Self::open_for(config, true);
        share_address(&self.file, false)?;
        let beside = beside?;
        share_address(&beside.file, false)?;
        Ok(beside)
    }

    fn open_for(config: &UdpConfig, shared: bool) -> io::Result<Self> {
        let family = if config.bind.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let file = socket_with(family, SocketType::DGRAM, flags, None)?;
        grow_buffers(&file, config.socket_buffer_bytes);
        if shared {
            share_address(&file, true)?;
        }
        bind(&file, &config.bind)?;
        let local = SocketAddr::try_from(getsockname(&file)?)?;
        let busy_poll_us = libc::c_int::try_from(config.busy_poll_us).unwrap_or(libc::c_int::MAX);
        // Best effort: raising it takes a privilege, and without it a receive only finds what has arrived
        // already.
        let _ = set_option(&file, libc::SOL_SOCKET, libc::SO_BUSY_POLL, busy_poll_us);
        let segmentation = config.segmentation && has_option(&file, libc::SOL_UDP, libc::UDP_SEGMENT);
        let wanted = config.coalescing.unwrap_or(!config.bind.ip().is_loopback());
        let coalescing = wanted && set_option(&file, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        Ok(Self {
            file,
            local,
            segmentation,
            coalescing,
            last_received: 0,
            was_refused: false,
            is_over: false,
            has_report: false,
        })
    }

    /// The descriptor, for system calls.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// From now on the socket sends to that peer, and gets what comes from it and nothing else. What it has
    /// is kept.
    pub fn connect(&mut self, peer: &Name) -> io::Result<()> {
        let name = core::ptr::from_ref(peer).cast();
        // SAFETY: the descriptor is open, and the kernel reads the name, of the length given.
        let result = unsafe { libc::connect(self.descriptor(), name, peer.bytes()) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        (self.was_refused, self.is_over) = (false, false);
        Ok(())
    }
}

/// Whether another socket of the same user may be bound to the same address that allows it, too.
fn share_address(file: &OwnedFd, allow: bool) -> io::Result<()> {
    set_option(file, libc::SOL_SOCKET, libc::SO_REUSEPORT, libc::c_int::from(allow))
}

/// Asks for more than the system's limit first, which a privileged process gets, then for what everybody
/// gets.
fn grow_buffers(file: &OwnedFd, bytes: usize) {
    if sockopt::set_socket_recv_buffer_size_force(file, bytes).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(file, bytes);
    }
    if set_option(file, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes as libc::c_int).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(file, bytes);
    }
}

fn set_option(file: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let bytes = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the descriptor is open, and the option reads `bytes` bytes of `value`.
    let result =
        unsafe { libc::setsockopt(file.as_raw_fd(), level, option, (&raw const value).cast(), bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn has_option(file: &OwnedFd, level: libc::c_int, option: libc::c_int) -> bool {
    let mut value: libc::c_int = 0;
    let mut bytes = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the descriptor is open, and the option writes at most `bytes` bytes of `value`.
    unsafe { libc::getsockopt(file.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut bytes) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a socket that asks to share by `option` can be bound to an address.
    fn can_bind(to: SocketAddr, option: libc::c_int) -> bool {
        let file = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .expect("a descriptor to spare");
        set_option(&file, libc::SOL_SOCKET, option, 1).expect("every socket has it");
        bind(&file, &to).is_ok()
    }

    #[test]
    fn nobody_shares_the_port_by_the_option_that_asks_for_no_user() {
        let config = UdpConfig::default();
        let socket = Socket::open(&config).expect("loopback");
        share_address(&socket.file, true).expect("every socket has it");
        assert!(!can_bind(socket.local, libc::SO_REUSEADDR), "while a second socket is made");
        share_address(&socket.file, false).expect("every socket has it");
        let beside = UdpConfig { bind: socket.local, ..config };
        let beside = socket.open_beside(&beside).expect("it may be shared");
        assert_eq!(beside.local, socket.local);
        for option in [libc::SO_REUSEADDR, libc::SO_REUSEPORT] {
            assert!(!can_bind(socket.local, option), "by option {option} afterwards");
        }
    }
}
