//! What the network says of packets that it could not deliver: ICMP messages, which the kernel keeps in a
//! queue of their own (`IP_RECVERR`), with the address that the packet was sent to.

use std::net::SocketAddr;
use std::os::fd::RawFd;

use crate::name::{NAME_BYTES_MAX, Name};

/// Room for one report: its header, the error and the address of the host that sent it.
const CONTROL_BYTES: usize = 128;

/// Room for the beginning of the packet, which is of no interest.
const PACKET_BYTES: usize = 64;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// The address of the next packet that could not be delivered: nothing listens there, or no way leads there.
/// Reports of other things are read past.
pub fn next(descriptor: RawFd) -> Option<SocketAddr> {
    loop {
        if let (name, true) = read(descriptor)? {
            return name.to_socket_address();
        }
    }
}

/// Reads one report: where the packet was sent to, and whether that cannot be reached; `None` when there is
/// no other one.
fn read(descriptor: RawFd) -> Option<(Name, bool)> {
    let (mut name, mut control, mut packet) =
        (Name::empty(), Control([0; CONTROL_BYTES]), [0_u8; PACKET_BYTES]);
    let mut part = libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: PACKET_BYTES };
    // SAFETY: a header of zeros is valid: null pointers, zero lengths.
    let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = NAME_BYTES_MAX;
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    (header.msg_control, header.msg_controllen) = ((&raw mut control).cast(), CONTROL_BYTES as _);
    // SAFETY: the kernel writes to the name, the part and the control messages, each of the length given, and
    // all of them live until the call returns.
    let read = unsafe {
        libc::recvmsg(descriptor, &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT | libc::MSG_TRUNC)
    };
    if read < 0 {
        return None;
    }
    // SAFETY: the kernel wrote `msg_controllen` bytes of control messages to `msg_control`.
    let message = unsafe { libc::CMSG_FIRSTHDR(&raw const header).as_ref() };
    let is_report = |message: &&libc::cmsghdr| {
        let kind = (message.cmsg_level, message.cmsg_type);
        kind == (libc::SOL_IP, libc::IP_RECVERR) || kind == (libc::SOL_IPV6, libc::IPV6_RECVERR)
    };
    let Some(message) = message.filter(is_report) else { return Some((name, false)) };
    // SAFETY: the data of this message begins with such an error, not necessarily aligned.
    let error = unsafe { libc::CMSG_DATA(message).cast::<libc::sock_extended_err>().read_unaligned() };
    let is_of_network = matches!(error.ee_origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6);
    let is_unreachable =
        matches!(error.ee_errno as i32, libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH);
    Some((name, is_of_network && is_unreachable))
}
