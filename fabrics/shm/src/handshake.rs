//! The messages that set up a lane: one each way over a Unix socket, with the memory attached.
//!
//! The socket keeps message boundaries, so an offer is one `sendmsg` with three descriptors: the ring that
//! the receiver of the offer will write into, the block memory that it may read, and the descriptor that
//! wakes the sender.
//!
//! An offer is received and checked on a thread that may be lost ([`intake`](crate::intake)): its descriptors
//! are whatever the peer passed, and even to close one may wait.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use farcall_driver::{HELLO_BYTES_MAX, LaneFault};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType, recvmsg, send, sendmsg, sockopt,
};
use rustix::process::{Resource, getrlimit};

use crate::intake::ForeignFd;
use crate::options::Caller;
use crate::quota::Ledger;
use crate::ring_memory::CONTROL_BYTES;
use crate::segment::{Mapping, PeerAccess};

const MAGIC: [u8; 4] = *b"fSHM";
const REFUSAL: u8 = b'R';
const GOODBYE: u8 = b'D';
const VERSION: u8 = 2;
const HEADER_BYTES: usize = 26;
const MESSAGE_BYTES_MAX: usize = HEADER_BYTES + HELLO_BYTES_MAX;

/// The descriptors of an offer: a ring, blocks and a doorbell.
const OFFERED: usize = 3;

/// The smallest ring, in bytes.
pub const RING_BYTES_MIN: usize = 4096;
/// The largest ring, in bytes.
pub const RING_BYTES_MAX: usize = 64 << 20;
/// The largest block memory, in bytes.
pub const BLOCK_BYTES_MAX: usize = 16 << 30;

/// What one side offers to the other.
pub struct Offer<'a> {
    /// The ring that we read.
    pub ring: BorrowedFd<'a>,
    /// Bytes in that ring, without its control page.
    pub ring_bytes: usize,
    /// The memory that we lend.
    pub blocks: BorrowedFd<'a>,
    /// Bytes in that memory.
    pub block_bytes: usize,
    /// What wakes us.
    pub doorbell: BorrowedFd<'a>,
    /// Whether we ever sleep, so that the doorbell must be looked after.
    pub may_sleep: bool,
    /// The hello or welcome of the layer above.
    pub hello: &'a [u8],
}

/// What the other side offered, checked and mapped.
pub struct Accepted {
    /// The peer's ring, for writing.
    pub ring: Arc<Mapping>,
    /// The peer's block memory, for reading.
    pub blocks: Mapping,
    /// What wakes the peer; `None` if it never sleeps.
    pub doorbell: Option<Arc<ForeignFd>>,
    /// The hello or welcome.
    pub hello: Vec<u8>,
}

/// Sends an offer.
pub fn send_offer(socket: impl AsFd, offer: &Offer<'_>) -> io::Result<()> {
    let message = encode_offer(offer);
    let descriptors = [offer.ring, offer.blocks, offer.doorbell];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(OFFERED))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)),
        "the space is that of three descriptors"
    );
    sendmsg(socket, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The process that made an offer, and the quota that its memory counts to.
pub struct Account<'a> {
    /// The process.
    pub caller: Caller,
    /// What is in use.
    pub ledger: &'a Arc<Ledger>,
}

/// Receives, checks and maps the peer's offer; `None` when it has not come yet. May be hung by the peer.
pub fn receive_offer(socket: impl AsFd, account: &Account<'_>) -> Result<Option<Accepted>, LaneFault> {
    let mut message = [0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = match recvmsg(socket, &mut [IoSliceMut::new(&mut message)], &mut ancillary, flags) {
        Ok(received) if received.bytes == 0 => return Err(LaneFault::PeerGone),
        Ok(received) => received,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
        Err(_) => return Err(LaneFault::PeerGone),
    };
    let descriptors: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    // The kernel leaves out those for which this process has no number left.
    if received.flags.contains(ReturnFlags::CTRUNC) && descriptors.len() < OFFERED {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        return Err(refuse(format!("no descriptors are left for another connection (ulimit -n {most})")));
    }
    accept_offer(&message[..received.bytes], descriptors, account).map(Some)
}

/// Tells the peer why its offer was refused.
pub fn send_refusal(socket: impl AsFd, why: &str) {
    let mut message = vec![REFUSAL];
    message.extend(&why.as_bytes()[..why.len().min(HELLO_BYTES_MAX)]);
    // A peer that is gone needs no explanation.
    let _peer_gone = send(socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Tells the peer that the lane is down, while blocks of its memory may still be read here.
pub fn send_goodbye(socket: impl AsFd) {
    // A peer that is gone knows.
    let _peer_gone = send(socket, &[GOODBYE], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

fn encode_offer(offer: &Offer<'_>) -> Vec<u8> {
    let mut message = Vec::with_capacity(MESSAGE_BYTES_MAX);
    message.extend(MAGIC);
    message.extend([VERSION, u8::from(offer.may_sleep), 0, 0]);
    message.extend((offer.ring_bytes as u64).to_le_bytes());
    message.extend((offer.block_bytes as u64).to_le_bytes());
    message.extend((offer.hello.len() as u16).to_le_bytes());
    message.extend(offer.hello);
    message
}

fn accept_offer(
    message: &[u8],
    descriptors: Vec<OwnedFd>,
    account: &Account<'_>,
) -> Result<Accepted, LaneFault> {
    let Terms { ring_bytes, block_bytes, may_sleep, hello } = Terms::parse(message)?;
    let [ring, blocks, doorbell]: [OwnedFd; 3] =
        descriptors.try_into().map_err(|_| refuse("an offer without its memory"))?;
    if may_sleep {
        check_doorbell(doorbell.as_fd())?;
    }
    let Account { caller, ledger } = *account;
    let claim = |bytes| ledger.claim(caller, bytes).map(Some).map_err(refuse);
    let ring_bytes = CONTROL_BYTES + ring_bytes;
    let (ring_claim, blocks_claim) = (claim(ring_bytes)?, claim(block_bytes)?);
    let ring = Mapping::counted(ring.as_fd(), ring_bytes, PeerAccess::Write, ring_claim).map_err(refuse)?;
    let blocks = Mapping::counted(blocks.as_fd(), block_bytes, PeerAccess::Read, blocks_claim);
    Ok(Accepted {
        ring: Arc::new(ring),
        blocks: blocks.map_err(refuse)?,
        doorbell: may_sleep.then(|| Arc::new(ForeignFd::new(doorbell, caller))),
        hello: hello.to_vec(),
    })
}

/// What an offer says, within the bounds.
struct Terms<'a> {
    ring_bytes: usize,
    block_bytes: usize,
    may_sleep: bool,
    hello: &'a [u8],
}

impl<'a> Terms<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, LaneFault> {
        if let [REFUSAL, why @ ..] = message {
            return Err(refuse(format!("it refused us: {}", String::from_utf8_lossy(why))));
        }
        let (header, hello) =
            message.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| refuse("a short offer"))?;
        if header[..4] != MAGIC {
            return Err(refuse("it does not speak farcall's shared-memory handshake"));
        }
        if header[4] != VERSION {
            return Err(refuse(format!(
                "it speaks version {} of the handshake, this program {VERSION}",
                header[4]
            )));
        }
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let ring_bytes = usize::try_from(number(8)).unwrap_or(usize::MAX);
        let block_bytes = usize::try_from(number(16)).unwrap_or(usize::MAX);
        if !ring_bytes.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes) {
            return Err(refuse(format!(
                "its ring of {ring_bytes} bytes is not a power of two from 4K to 64M"
            )));
        }
        if block_bytes > BLOCK_BYTES_MAX {
            return Err(refuse("its block memory is larger than 16G"));
        }
        if usize::from(u16::from_le_bytes([header[24], header[25]])) != hello.len() {
            return Err(refuse("a damaged offer"));
        }
        Ok(Self { ring_bytes, block_bytes, may_sleep: header[5] != 0, hello })
    }
}

/// Ringing must not block, whatever is passed as a doorbell. Of stream sockets of this machine that is so; of
/// others it is not (a TCP socket is locked while another thread sends, whatever flags say). Neither question
/// takes a lock.
fn check_doorbell(doorbell: BorrowedFd<'_>) -> Result<(), LaneFault> {
    let kind = (sockopt::socket_domain(doorbell), sockopt::socket_type(doorbell));
    if kind == (Ok(AddressFamily::UNIX), Ok(SocketType::STREAM)) {
        return Ok(());
    }
    Err(refuse("its doorbell is not a stream socket of this machine"))
}

/// A peer, or what it offers, cannot be taken, for that reason.
pub fn refuse(why: impl ToString) -> LaneFault {
    LaneFault::Unacceptable { why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use rustix::net::{SocketFlags, socketpair};

    use super::*;
    use crate::doorbell::Doorbell;
    use crate::quota::Quota;
    use crate::segment::Segment;

    fn receive(socket: &OwnedFd) -> Result<Option<Accepted>, LaneFault> {
        let quota = Quota { process_bytes: 1 << 20, total_bytes: 1 << 20 };
        let ledger = Arc::new(Ledger::new(quota, None));
        receive_offer(socket, &Account { caller: Caller::Number(0), ledger: &ledger })
    }

    /// The example of `docs/shared-memory.md`.
    #[test]
    fn an_offer_has_these_bytes_and_is_understood() {
        let segment = |bytes, access| Segment::create("farcall-test", bytes, access).expect("a memfd").0;
        let ring = segment(CONTROL_BYTES + 4096, PeerAccess::Write);
        let blocks = segment(65_536, PeerAccess::Read);
        let doorbell = Doorbell::new().expect("sockets");
        let offer = Offer {
            ring: ring.as_fd(),
            ring_bytes: 4096,
            blocks: blocks.as_fd(),
            block_bytes: 65_536,
            doorbell: doorbell.for_peers(),
            may_sleep: true,
            hello: b"hi",
        };
        let golden = b"fSHM\x02\x01\0\0\0\x10\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\x02\0hi";
        assert_eq!(encode_offer(&offer), golden);

        let flags = SocketFlags::CLOEXEC;
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("sockets");
        assert!(matches!(receive(&far), Ok(None)), "nothing has come yet");
        send_offer(&near, &offer).expect("room");
        let accepted = receive(&far).expect("a good offer").expect("an offer");
        assert_eq!((accepted.hello.as_slice(), accepted.ring.len()), (&b"hi"[..], CONTROL_BYTES + 4096));
        assert_eq!((accepted.blocks.len(), accepted.doorbell.is_some()), (65_536, true));
    }

    #[test]
    fn a_refusal_and_an_end_are_understood() {
        let flags = SocketFlags::CLOEXEC;
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("sockets");
        send_refusal(&near, "because");
        drop(near);
        let refused = receive(&far).err();
        assert_eq!(refused, Some(LaneFault::Unacceptable { why: "it refused us: because".into() }));
        assert_eq!(receive(&far).err(), Some(LaneFault::PeerGone));
    }

    #[test]
    fn only_stream_sockets_of_this_machine_are_doorbells() {
        let bell = Doorbell::new().expect("sockets");
        assert_eq!(check_doorbell(bell.for_peers()), Ok(()));
        let flags = SocketFlags::CLOEXEC;
        let socket = |family, kind| rustix::net::socket_with(family, kind, flags, None).expect("a socket");
        for wrong in [
            socket(AddressFamily::INET, SocketType::STREAM),
            socket(AddressFamily::UNIX, SocketType::SEQPACKET),
            socket(AddressFamily::UNIX, SocketType::DGRAM),
            std::io::pipe().expect("a pipe").1.into(),
            std::fs::File::open("/dev/null").expect("it is everywhere").into(),
        ] {
            assert!(check_doorbell(wrong.as_fd()).is_err(), "{wrong:?}");
        }
    }
}
