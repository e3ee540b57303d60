//! A peer made by hand: it speaks the handshake byte by byte, so that it can also speak it wrongly.
#![allow(dead_code, reason = "each test program uses its part")]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use farcall_base::Address;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg,
    socket_with,
};

/// Bytes of a ring's control page.
pub const CONTROL_BYTES: usize = 4096;

/// What a peer may say wrongly.
#[derive(Clone)]
pub struct Offer {
    pub magic: [u8; 4],
    pub version: u8,
    pub may_sleep: bool,
    pub ring_bytes: u64,
    pub block_bytes: u64,
    pub hello_bytes: u16,
    pub hello: Vec<u8>,
}

impl Offer {
    /// One that a correct peer could make.
    pub fn good(ring_bytes: usize, hello: &[u8]) -> Self {
        Self {
            magic: *b"fSHM",
            version: 2,
            may_sleep: false,
            ring_bytes: ring_bytes as u64,
            block_bytes: 4096,
            hello_bytes: hello.len() as u16,
            hello: hello.to_vec(),
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        bytes.extend([self.version, u8::from(self.may_sleep), 0, 0]);
        bytes.extend(self.ring_bytes.to_le_bytes());
        bytes.extend(self.block_bytes.to_le_bytes());
        bytes.extend(self.hello_bytes.to_le_bytes());
        bytes.extend(&self.hello);
        bytes
    }
}

/// A connected socket; calls on it block.
pub fn call(address: &Address) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
    let name = SocketAddrUnix::new_abstract_name(&address.as_bytes()[1..]).expect("a name");
    connect(&socket, &name).expect("somebody listens");
    socket
}

/// Memory of so many bytes.
pub fn memory(bytes: usize, sealed: bool) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("raw-peer", flags).expect("a memfd");
    ftruncate(&file, bytes as u64).expect("a size");
    if sealed {
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).expect("seals");
    }
    file
}

/// Sends a message with descriptors, at most eight.
pub fn send(socket: &OwnedFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)), "at most eight descriptors");
    }
    sendmsg(socket, &[IoSlice::new(message)], &mut ancillary, SendFlags::NOSIGNAL).expect("somebody listens");
}

/// Sends a whole offer, with memory of the sizes given.
pub fn send_offer(socket: &OwnedFd, offer: &Offer, ring: &OwnedFd) {
    let (blocks, bell) = (memory(4096, true), memory(0, false));
    send(socket, &offer.encode(), &[ring.as_fd(), blocks.as_fd(), bell.as_fd()]);
}

/// The next message and what came with it; waits for it.
pub fn receive(socket: &OwnedFd) -> (Vec<u8>, Vec<OwnedFd>) {
    let mut message = [0; 1024];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut message)];
    let bytes = recvmsg(socket, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC).expect("an answer").bytes;
    let rights = ancillary.drain().filter_map(|part| match part {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    (message[..bytes].to_vec(), rights.flatten().collect())
}

/// Writes a word into a ring, behind its control page.
pub fn write_word(ring: &OwnedFd, offset: usize, word: u64) {
    let at = (CONTROL_BYTES + offset) as u64;
    assert_eq!(rustix::io::pwrite(ring, &word.to_ne_bytes(), at).expect("shared memory"), 8);
}
