//! The one message of an attachment: the daemon's, with the segment.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, send as send_bytes, sendmsg,
};

use super::SlotLayout;

const MAGIC: [u8; 4] = *b"fSLT";
const VERSION: u8 = 3;
const REFUSAL: u8 = b'R';
const BYTES: usize = 20;
/// A refusal is its mark and a sentence.
const BYTES_MAX: usize = 257;

/// What a daemon answers.
pub enum Attachment {
    /// The segment and its layout.
    Segment(SlotLayout, OwnedFd),
    /// Why not.
    Refused(String),
}

/// Sends the segment.
pub fn send(socket: impl AsFd, layout: &SlotLayout, segment: BorrowedFd<'_>) -> io::Result<()> {
    let mut message = [0; BYTES];
    message[..4].copy_from_slice(&MAGIC);
    message[4] = VERSION;
    for (place, number) in [layout.slots, layout.request_bytes, layout.response_bytes].into_iter().enumerate()
    {
        message[8 + 4 * place..12 + 4 * place].copy_from_slice(&(number as u32).to_le_bytes());
    }
    let descriptors = [segment];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)), "the space is that of one");
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&message)], &mut ancillary, flags)?;
    Ok(())
}

/// Says why there is no segment.
pub fn refuse(socket: impl AsFd, why: &str) {
    let mut message = vec![REFUSAL];
    message.extend(&why.as_bytes()[..why.len().min(BYTES_MAX - 1)]);
    // A client that is gone needs no explanation.
    let _client_gone = send_bytes(socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Receives the daemon's answer, when it is there.
pub fn receive(socket: impl AsFd) -> io::Result<Attachment> {
    let mut message = [0; BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut message)], &mut ancillary, flags)?;
    let segment = ancillary.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    understand(&message[..received.bytes], segment)
}

/// Reads an answer and what came with it.
pub fn understand(message: &[u8], segment: Option<OwnedFd>) -> io::Result<Attachment> {
    if let [REFUSAL, why @ ..] = message {
        return Ok(Attachment::Refused(String::from_utf8_lossy(why).into_owned()));
    }
    let (Ok(message), Some(segment)) = (<&[u8; BYTES]>::try_from(message), segment) else {
        return Err(io::Error::other("the daemon ended, or does not offer slots"));
    };
    if message[..4] != MAGIC || message[4] != VERSION {
        return Err(io::Error::other("the daemon offers slots of another version"));
    }
    let number = |place: usize| {
        let bytes = message[8 + 4 * place..12 + 4 * place].try_into().expect("four bytes");
        u32::from_le_bytes(bytes) as usize
    };
    let layout = SlotLayout { slots: number(0), request_bytes: number(1), response_bytes: number(2) };
    if !layout.is_valid() {
        return Err(io::Error::other("the daemon offers slots that nobody can have"));
    }
    Ok(Attachment::Segment(layout, segment))
}
