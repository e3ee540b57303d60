//! Sockets: made once, with what each needs.

use core::mem::MaybeUninit;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, accept_with, bind,
    connect, getpeername, getsockname, listen, recv, send, sendmsg, socket_with, sockopt,
};

use crate::TcpConfig;
use crate::outbound::Writer;
use crate::secured::TlsError;

/// The most connections that the kernel keeps until they are accepted; less where the system allows less.
const BACKLOG: i32 = 4096;

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// "All interfaces" is no address that a peer can connect to: name the address of one.
    #[error("cannot listen at {address}: peers cannot connect to it; give the address of one interface")]
    Unspecified {
        /// The address asked for.
        address: SocketAddr,
    },
    /// What is to secure the connections cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refused: the address is in use or not of this machine, or there are no descriptors left.
    #[error("cannot listen at {address}: {source}")]
    System {
        /// The address asked for.
        address: SocketAddr,
        /// The system's own reason.
        source: io::Error,
    },
}

/// Whether accepting failed for what has become of one connection, and not for want of descriptors or memory:
/// Linux passes errors of the network on to the caller.
pub fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::CONNABORTED
                | Errno::PERM
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::OPNOTSUPP
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET
        )
    )
}

/// Why the system opens no connection, as far as users can do something about it.
pub fn why_not_opened(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => "the process or the system has no descriptor left",
        Some(Errno::NETUNREACH | Errno::HOSTUNREACH) => "the system knows no route there",
        Some(Errno::NETDOWN) => "the network is down",
        Some(Errno::ADDRNOTAVAIL) => "the system has no free port, or no address of that kind",
        Some(Errno::NOMEM | Errno::NOBUFS) => "the system has no memory for a connection",
        _ => "the system opens no connection there",
    }
}

/// A socket that others connect to, and where it listens.
pub fn open_listener(config: &TcpConfig) -> Result<(OwnedFd, SocketAddr), ListenError> {
    let address = config.bind;
    if address.ip().is_unspecified() {
        return Err(ListenError::Unspecified { address });
    }
    let open = || -> io::Result<(OwnedFd, SocketAddr)> {
        let file = open_socket(address)?;
        // A fixed port can be taken again although connections of a former process are not forgotten.
        sockopt::set_socket_reuseaddr(&file, true)?;
        bind(&file, &address)?;
        listen(&file, BACKLOG)?;
        let local = SocketAddr::try_from(getsockname(&file)?)?;
        Ok((file, local))
    };
    open().map_err(|source| ListenError::System { address, source })
}

fn open_socket(to: SocketAddr) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    Ok(socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?)
}

/// A connection of which the kernel has promised nothing yet.
pub fn dial(to: SocketAddr) -> io::Result<Stream> {
    let file = open_socket(to)?;
    prepare(&file)?;
    match connect(&file, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(Stream { file }),
        Err(error) => Err(error.into()),
    }
}

/// The next one who connected; `None` when there is none.
pub fn accept(listener: &OwnedFd) -> io::Result<Option<(Stream, SocketAddr)>> {
    let file = match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(file) => file,
        Err(Errno::AGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // It may be gone by now, which reading it will tell.
    let Ok(peer) = getpeername(&file) else { return Err(Errno::CONNABORTED.into()) };
    let Some(peer) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) else {
        return Err(Errno::CONNABORTED.into());
    };
    prepare(&file)?;
    Ok(Some((Stream { file }, peer)))
}

/// Options of every connection: nothing is delayed to be sent with more.
///
/// No `TCP_USER_TIMEOUT`: it ends a connection whose peer acknowledges and does not read, which is late and
/// not dead. Silence is the session's to judge.
fn prepare(file: &OwnedFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(file, true)?)
}

/// A connection's socket.
pub struct Stream {
    file: OwnedFd,
}

impl Stream {
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Whether both ends are this socket: one that connects to a free port of its own machine may meet
    /// itself.
    pub fn is_own_peer(&self) -> bool {
        let own = getsockname(&self.file).ok().and_then(|own| SocketAddr::try_from(own).ok());
        let peer = getpeername(&self.file).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
        own.is_some() && own == peer
    }

    /// Reads into `buffer`; `None` when nothing is there, `Some(0)` at the end.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match recv(&self.file, buffer, RecvFlags::empty()) {
            Ok((count, _)) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads into `place` and, when that is full, into `buffer`. Says how many bytes came; the first of them
    /// are in `place`.
    pub fn read_both(&self, place: &mut [MaybeUninit<u8>], buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let parts = [
            libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() },
            libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() },
        ];
        // SAFETY: the kernel writes to these two places, within their lengths, and they are borrowed
        // exclusively meanwhile.
        let count = unsafe { libc::readv(self.file.as_raw_fd(), parts.as_ptr(), parts.len() as i32) };
        match usize::try_from(count) {
            Ok(count) => Ok(Some(count)),
            Err(_) => match io::Error::last_os_error() {
                error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    Ok(None)
                }
                error => Err(error),
            },
        }
    }
}

impl Writer for Stream {
    #[inline]
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let sent = match parts {
            [part] => send(&self.file, part, SendFlags::NOSIGNAL),
            parts => sendmsg(&self.file, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL),
        };
        match sent {
            Ok(count) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}
