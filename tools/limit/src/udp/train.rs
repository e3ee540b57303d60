//! A message as a train of datagrams, with the headers of `sendmmsg` and `recvmmsg` prepared once.

#![expect(unsafe_code, reason = "sendmmsg and recvmmsg have no safe wrapper")]

use std::io::Error;

use super::socket::{Socket, failed, is_transient};
use crate::LimitError;

/// The most datagrams in one call.
const BURST_DATAGRAMS_MAX: usize = 32;

/// A message that is cut into segments; the last one may be shorter.
pub(super) struct Train {
    message: Vec<u8>,
    segment_bytes: usize,
    headers: Vec<libc::mmsghdr>,
    /// What the headers point to.
    _parts: Vec<libc::iovec>,
}

// SAFETY: the pointers in the headers lead to the two other vectors, which move with them.
unsafe impl Send for Train {}

impl Train {
    /// A message of `bytes` bytes, at least one, in segments of `segment_bytes`.
    pub(super) fn new(bytes: usize, segment_bytes: usize) -> Self {
        let mut message = vec![1; bytes];
        let mut parts: Vec<_> = message
            .chunks_mut(segment_bytes)
            .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() })
            .collect();
        let headers = parts.iter_mut().map(header_of).collect();
        Self { message, segment_bytes, headers, _parts: parts }
    }

    /// How many segments there are.
    pub(super) fn segments(&self) -> usize {
        self.headers.len()
    }

    /// The bytes from the `first` segment on, at most `count` segments.
    pub(super) fn bytes(&mut self, first: usize, count: usize) -> &mut [u8] {
        let start = first * self.segment_bytes;
        let end = ((first + count) * self.segment_bytes).min(self.message.len());
        &mut self.message[start..end]
    }

    /// Sends at most `count` segments from the `first` on; returns how many the kernel took.
    pub(super) fn send(&mut self, socket: &Socket, first: usize, count: usize) -> Result<usize, LimitError> {
        let burst = &mut self.headers[first..first + count.min(BURST_DATAGRAMS_MAX)];
        // SAFETY: the headers describe parts of `message`, which lives as long as they do and is only read.
        let taken = unsafe { libc::sendmmsg(socket.descriptor(), burst.as_mut_ptr(), burst.len() as u32, 0) };
        datagrams(taken, "send a burst")
    }

    /// Receives segments from the `first` on, as many as have arrived; returns how many.
    pub(super) fn receive(&mut self, socket: &Socket, first: usize) -> Result<usize, LimitError> {
        let end = self.headers.len().min(first + BURST_DATAGRAMS_MAX);
        let burst = &mut self.headers[first..end];
        let none = core::ptr::null_mut();
        // SAFETY: the headers describe disjoint parts of `message`, which lives as long as they do and is
        // borrowed exclusively here.
        let taken =
            unsafe { libc::recvmmsg(socket.descriptor(), burst.as_mut_ptr(), burst.len() as u32, 0, none) };
        let received = datagrams(taken, "receive a burst")?;
        for (offset, header) in burst[..received].iter().enumerate() {
            let due = self.segment_bytes.min(self.message.len() - (first + offset) * self.segment_bytes);
            if header.msg_len as usize != due {
                return Err(LimitError::PacketsLost);
            }
        }
        Ok(received)
    }
}

/// A header that describes one datagram, without a name: the socket is connected.
fn header_of(part: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: a plain C structure, for which zero is a valid value.
    let mut header: libc::mmsghdr = unsafe { core::mem::zeroed() };
    header.msg_hdr.msg_iov = part;
    header.msg_hdr.msg_iovlen = 1;
    header
}

/// What a call returned, as a number of datagrams; none when it would have blocked.
fn datagrams(taken: libc::c_int, what: &'static str) -> Result<usize, LimitError> {
    if let Ok(taken) = usize::try_from(taken) {
        return Ok(taken);
    }
    match Error::last_os_error() {
        error if is_transient(&error) => Ok(0),
        error => Err(failed(what)(error)),
    }
}
