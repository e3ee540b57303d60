//! A connected, nonblocking UDP socket on the loopback interface.

#![expect(unsafe_code, reason = "some socket options have no safe wrapper")]

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use crate::LimitError;

/// The longest payload of a datagram over IPv4: 65,535 bytes less the headers of IP and UDP.
pub const DATAGRAM_BYTES_MAX: usize = 65_535 - 20 - 8;

/// The most segments that the kernel cuts one send into (`UDP_MAX_SEGMENTS` of older kernels).
const OFFLOADED_SEGMENTS_MAX: usize = 64;

/// The receive buffer that is asked for; the kernel may grant less without the right to force it.
const RECEIVE_BUFFER_BYTES: libc::c_int = 8 << 20;

/// A socket that only talks to its pair.
pub(super) struct Socket(UdpSocket);

impl Socket {
    /// Two sockets connected to each other.
    pub(super) fn pair() -> Result<(Self, Self), LimitError> {
        let open = || -> std::io::Result<_> {
            let sockets =
                (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
            sockets.0.connect(sockets.1.local_addr()?)?;
            sockets.1.connect(sockets.0.local_addr()?)?;
            sockets.0.set_nonblocking(true)?;
            sockets.1.set_nonblocking(true)?;
            Ok(sockets)
        };
        let (one, other) = open().map_err(failed("open"))?;
        let (one, other) = (Self(one), Self(other));
        one.enlarge_receive_buffer();
        other.enlarge_receive_buffer();
        Ok((one, other))
    }

    /// How many datagrams of a length fit the receive buffer for certain.
    pub(super) fn buffered_datagrams(&self, datagram_bytes: usize) -> Result<usize, LimitError> {
        let granted = self.option(libc::SOL_SOCKET, libc::SO_RCVBUF)?;
        // The kernel charges a datagram its memory: up to twice its length, and its bookkeeping.
        const BOOKKEEPING_BYTES: usize = 1024;
        Ok((usize::try_from(granted).unwrap_or(0) / (2 * datagram_bytes + BOOKKEEPING_BYTES)).max(1))
    }

    /// From now on one send may hold many segments of `segment_bytes`.
    pub(super) fn cut_into(&self, segment_bytes: usize) -> Result<(), LimitError> {
        self.set_option(libc::SOL_UDP, libc::UDP_SEGMENT, segment_bytes as libc::c_int)
            .map_err(failed("cut segments"))
    }

    /// From now on one receive may return many segments.
    pub(super) fn join_segments(&self) -> Result<(), LimitError> {
        self.set_option(libc::SOL_UDP, libc::UDP_GRO, 1).map_err(failed("join segments"))
    }

    /// The most segments in one send when the kernel cuts them.
    pub(super) fn offloaded_segments_max(segment_bytes: usize) -> usize {
        (DATAGRAM_BYTES_MAX / segment_bytes).min(OFFLOADED_SEGMENTS_MAX)
    }

    /// Sends one datagram, or one train of segments; retries while the kernel has no room.
    pub(super) fn send(&self, bytes: &[u8]) -> Result<(), LimitError> {
        loop {
            match self.0.send(bytes) {
                Ok(_) => return Ok(()),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(failed("send")(error)),
            }
        }
    }

    /// Receives one datagram, or joined segments, when there is one.
    pub(super) fn receive(&self, into: &mut [u8]) -> Result<Option<usize>, LimitError> {
        match self.0.recv(into) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_transient(&error) => Ok(None),
            Err(error) => Err(failed("receive")(error)),
        }
    }

    /// The descriptor, for calls that the standard library does not have.
    pub(super) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Best effort: what was granted is asked by `buffered_datagrams`.
    fn enlarge_receive_buffer(&self) {
        if self.set_option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES).is_err() {
            let _ = self.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES);
        }
    }

    fn set_option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> Result<(), Error> {
        let length = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the kernel reads `length` bytes of `value`.
        let outcome =
            unsafe { libc::setsockopt(self.0.as_raw_fd(), level, name, (&raw const value).cast(), length) };
        if outcome == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }

    fn option(&self, level: libc::c_int, name: libc::c_int) -> Result<libc::c_int, LimitError> {
        let (mut value, mut length) = (0, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the kernel writes at most `length` bytes to `value`.
        let outcome = unsafe {
            libc::getsockopt(self.0.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
        };
        if outcome == 0 { Ok(value) } else { Err(failed("report its buffer")(Error::last_os_error())) }
    }
}

/// Whether the same call may succeed a moment later.
pub(super) fn is_transient(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Names the call that failed.
pub(super) fn failed(what: &'static str) -> impl Fn(Error) -> LimitError {
    move |error| LimitError::Socket { what, reason: error.to_string() }
}
