//! A client's socket, plain or with TLS between it and the bytes of requests and replies.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use farcall::policy::Principal;
use farcall_tcp::TlsClient;
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// A socket, which does not block.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    tls: Option<Box<TlsClient>>,
}

impl From<OwnedFd> for Socket {
    fn from(socket: OwnedFd) -> Self {
        Self { socket, tls: None }
    }
}

impl Socket {
    /// A socket with TLS around it.
    pub fn secured(socket: OwnedFd, tls: TlsClient) -> Self {
        Self { socket, tls: Some(Box::new(tls)) }
    }

    /// Reads what has come; `None` when nothing has. 0 is the end.
    pub fn read(&mut self, to: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some(tls) = &mut self.tls {
            return tls.read(self.socket.as_fd(), to);
        }
        match recv(&self.socket, to, RecvFlags::DONTWAIT) {
            Ok((read, _)) => Ok(Some(read)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends bytes; how many it took, and `None` when it takes none now.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        if let Some(tls) = &mut self.tls {
            return tls.write(self.socket.as_fd(), bytes);
        }
        loop {
            match send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => return Ok(Some(sent)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends what was taken before and still waits.
    pub fn push(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| tls.push(self.socket.as_fd()))
    }

    /// Whether something was taken that the socket under it did not take yet.
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// How many bytes there are to be read that no event announces.
    pub fn unread_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.unread_bytes())
    }

    /// How many bytes there are to be read, at most.
    pub fn come_bytes(&self) -> io::Result<usize> {
        let come = usize::try_from(ioctl_fionread(&self.socket)?).unwrap_or(usize::MAX);
        Ok(come.saturating_add(self.unread_bytes()))
    }

    /// Whether the client has not proved to speak TLS yet, which it must.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Who the client has proved to be, once.
    pub fn take_proof(&mut self) -> Option<Principal> {
        self.tls.as_mut()?.take_proof()
    }

    /// Memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.memory_bytes())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(self.socket.as_fd());
        }
    }
}
