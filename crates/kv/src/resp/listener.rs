//! Where Redis clients connect: an address of TCP, with or without TLS, or the path of a Unix socket.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use farcall::policy::{PolicyFileError, Principal};
use farcall_shm::access;
use farcall_tcp::TlsError;
use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, socket_with, sockopt,
};

/// A place to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A host and a port.
    Tcp(String),
    /// The same, for clients that speak TLS.
    Tls(String),
    /// The path of a socket.
    Unix(PathBuf),
}

/// Why a text names no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is neither HOST:PORT, such as 127.0.0.1:6379, nor tls://HOST:PORT, nor the path of a socket, which has \
     a `/`"
)]
pub struct NoPlace(String);

impl core::str::FromStr for Place {
    type Err = NoPlace;

    /// What has a slash is a path, with or without `unix:` in front, unless `tls://` is.
    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let no_place = || NoPlace(text.to_owned());
        if let Some(address) = text.strip_prefix(TLS_PREFIX) {
            return is_address(address).then(|| Self::Tls(address.to_owned())).ok_or_else(no_place);
        }
        if text.contains("://") {
            return Err(no_place());
        }
        if let Some(path) = text.strip_prefix("unix:").or_else(|| text.contains('/').then_some(text)) {
            return Ok(Self::Unix(path.into()));
        }
        is_address(text).then(|| Self::Tcp(text.to_owned())).ok_or_else(no_place)
    }
}

/// What is written in front of an address where clients speak TLS.
pub const TLS_PREFIX: &str = "tls://";

fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl Place {
    /// The host and the port, unless it is a path.
    pub fn address(&self) -> Option<&str> {
        match self {
            Self::Tcp(address) | Self::Tls(address) => Some(address),
            Self::Unix(_) => None,
        }
    }

    /// Whether clients speak TLS there.
    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Tls(address) => write!(f, "{TLS_PREFIX}{address}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Why nobody can connect.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Choose another address or path.
    #[error("cannot listen at {place}: {reason}")]
    Bind {
        /// Where.
        place: Place,
        /// What the system says.
        #[source]
        reason: io::Error,
    },
    /// Remove the file, or choose another path.
    #[error("cannot listen at {place}: the file there is no socket")]
    NoSocket {
        /// Where.
        place: Place,
    },
    /// Another process listens there: end it, or choose another path.
    #[error("cannot listen at {place}: another process does")]
    Taken {
        /// Where.
        place: Place,
    },
    /// Say which certificate is shown to clients.
    #[error("{place} needs a certificate and its key to show to clients")]
    NoCertificate {
        /// Where.
        place: Place,
    },
    /// What is to be shown to clients cannot be.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The policy is of no use.
    #[error(transparent)]
    Policy(#[from] PolicyFileError),
    /// The system has too few descriptors.
    #[error("cannot wait for clients: {0}")]
    System(#[from] io::Error),
}

/// A socket that accepts clients.
#[derive(Debug)]
pub enum Listener {
    /// Over TCP.
    Tcp(TcpListener),
    /// Over TCP, by TLS.
    Tls(TcpListener),
    /// Over a Unix socket, whose file is removed in the end.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens at a place. A socket that a process left behind, and at which nobody listens, is replaced.
    /// Unless it `is_for_all`, only the user of this process can connect to a Unix socket.
    pub fn bind(place: &Place, is_for_all: bool) -> Result<Self, ListenError> {
        let failed = |reason| ListenError::Bind { place: place.clone(), reason };
        match place {
            Place::Tcp(address) => bind_tcp(address).map(Self::Tcp).map_err(failed),
            Place::Tls(address) => bind_tcp(address).map(Self::Tls).map_err(failed),
            Place::Unix(path) => {
                match fs::symlink_metadata(path) {
                    Ok(file) if !file.file_type().is_socket() => {
                        return Err(ListenError::NoSocket { place: place.clone() });
                    }
                    Ok(_) if UnixStream::connect(path).is_ok() => {
                        return Err(ListenError::Taken { place: place.clone() });
                    }
                    Ok(_) => fs::remove_file(path).map_err(failed)?,
                    Err(_) => {}
                }
                let listener = bind_unix(path, is_for_all).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    /// Where clients connect: the address with its port, also when any was asked for, or the path.
    pub fn place(&self) -> String {
        match self {
            Self::Tcp(listener) | Self::Tls(listener) => {
                let address = listener.local_addr().map_or_else(|_| String::new(), |at| at.to_string());
                format!("{}{address}", if self.is_tls() { TLS_PREFIX } else { "" })
            }
            Self::Unix(_, path) => path.display().to_string(),
        }
    }

    /// A client that has connected, its address, and who it is: over TCP nothing is proven.
    pub fn accept(&self) -> io::Result<(OwnedFd, String, Principal)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match self {
            Self::Tcp(listener) | Self::Tls(listener) => {
                let socket = accept_with(listener, flags)?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                // A peer whose machine is gone says nothing any more.
                sockopt::set_socket_keepalive(&socket, true)?;
                let peer = rustix::net::getpeername(&socket)?;
                let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                let address = peer.map_or_else(|| "?:0".to_owned(), |peer| peer.to_string());
                Ok((socket, address, Principal::Unproven))
            }
            Self::Unix(listener, path) => {
                let socket = accept_with(listener, flags)?;
                let principal = access::principal(&socket);
                Ok((socket, format!("{}:0", path.display()), principal))
            }
        }
    }

    /// The port at which clients connect over TCP.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(listener) | Self::Tls(listener) => listener.local_addr().ok().map(|at| at.port()),
            Self::Unix(..) => None,
        }
    }

    /// Whether clients speak TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

/// Clients that connect at once and are not accepted yet.
const BACKLOG: i32 = 1024;

fn bind_tcp(address: &str) -> io::Result<TcpListener> {
    let listener = bind_first(address.to_socket_addrs()?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn bind_first(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let bound = (|| -> io::Result<TcpListener> {
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(family, SocketType::STREAM, flags, None)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            rustix::net::bind(&socket, &address)?;
            rustix::net::listen(&socket, BACKLOG)?;
            Ok(socket.into())
        })();
        match bound {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind_unix(path: &Path, is_for_all: bool) -> io::Result<UnixListener> {
    let mode = if is_for_all { Mode::from_raw_mode(0o777) } else { Mode::RWXU };
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file has the socket's mode from its first moment on.
    fchmod(&socket, mode)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) | Self::Tls(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Somebody else may have removed it.
            let _gone = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        let place = |text: &str| text.parse::<Place>();
        assert_eq!(place("127.0.0.1:6379"), Ok(Place::Tcp("127.0.0.1:6379".to_owned())));
        assert_eq!(place("[::1]:0"), Ok(Place::Tcp("[::1]:0".to_owned())));
        assert_eq!(place("tls://[::1]:0"), Ok(Place::Tls("[::1]:0".to_owned())));
        assert_eq!(place("./a.sock"), Ok(Place::Unix("./a.sock".into())));
        assert_eq!(place("unix:a.sock"), Ok(Place::Unix("a.sock".into())));
        for text in ["", "a", ":1", "a:", "a:65536", "tls://a", "rediss://a:1"] {
            assert!(place(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
        let folder = std::env::temp_dir().join(format!("fc-resp-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("left.sock");
        let place = Place::Unix(path.clone());
        drop(UnixListener::bind(&path).expect("the first"));
        let listener = Listener::bind(&place, false).expect("nobody listens there");
        assert!(matches!(Listener::bind(&place, false), Err(ListenError::Taken { .. })));
        drop(listener);
        assert!(!path.exists());
        fs::write(&path, "text").expect("a file");
        assert!(matches!(Listener::bind(&place, false), Err(ListenError::NoSocket { .. })));
        fs::remove_dir_all(&folder).expect("the test's own");
    }
}
