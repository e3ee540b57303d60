//! Hostile offers and hostile rings, as pure functions of some bytes.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use farcall_driver::{HELLO_BYTES_MAX, LaneFault, LaneReceiver, RECORD_ALIGN, RECORD_HEADER_BYTES};
use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};

use crate::doorbell::Doorbell;
use crate::flags::MARK;
use crate::handshake::{Account, RING_BYTES_MIN, receive_offer};
use crate::options::Caller;
use crate::quota::{Ledger, Quota};
use crate::ring::ShmReceiver;
use crate::ring_memory::CONTROL_BYTES;
use crate::segment::{PeerAccess, Segment};

/// Bytes in the block memory of a right offer; a changed one can declare what another descriptor has.
const BLOCK_BYTES: usize = 4096;

/// Sends an offer with what `bytes` say is wrong with it: how many descriptors of which kind come along, and
/// how the message differs from a right one.
#[doc(hidden)]
pub fn fuzz_offer(bytes: &[u8]) {
    let Some((&[count, kinds, change], rest)) = bytes.split_first_chunk::<3>() else { return };
    let (here, there) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("sockets");
    let message = message(change, rest);
    let attached: Vec<OwnedFd> = (0..count % 6).map(|place| descriptor(place, kinds)).collect();
    let borrowed: Vec<BorrowedFd<'_>> = attached.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(6))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)), "there is space for six");
    }
    sendmsg(&there, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL)
        .expect("a peer that reads");
    let quota = Quota { process_bytes: 1 << 30, total_bytes: 1 << 30 };
    let ledger = Arc::new(Ledger::new(quota, None));
    match receive_offer(&here, &Account { caller: Caller::Number(0), ledger: &ledger }) {
        Ok(Some(accepted)) => {
            let ring_bytes = accepted.ring.len() - CONTROL_BYTES;
            assert!(ring_bytes.is_power_of_two() && ring_bytes >= RING_BYTES_MIN);
            let attached_bytes = fstat(&attached[1]).expect("an open descriptor").st_size;
            assert_eq!(accepted.blocks.len() as i64, attached_bytes, "the whole of the file, and no more");
            assert!(accepted.hello.len() <= HELLO_BYTES_MAX);
        }
        Ok(None) => panic!("the offer was there"),
        Err(LaneFault::Unacceptable { .. } | LaneFault::PeerGone) => {}
        Err(other) => panic!("{other:?} is not what an offer can cause"),
    }
}

/// A right offer with `rest` as hello, changed at the place that `change` names, or `rest` alone.
fn message(change: u8, rest: &[u8]) -> Vec<u8> {
    if change == u8::MAX {
        return rest.to_vec();
    }
    let mut message = b"fSHM\x02\x01\0\0".to_vec();
    message.extend((RING_BYTES_MIN as u64).to_le_bytes());
    message.extend((BLOCK_BYTES as u64).to_le_bytes());
    let (patch, hello) = rest.split_at(rest.len().min(usize::from(change & 7)));
    message.extend((hello.len() as u16).to_le_bytes());
    for (offset, byte) in patch.iter().enumerate() {
        message[(usize::from(change >> 3) + offset) % 26] = *byte;
    }
    message.extend(hello);
    message
}

/// What is passed as the descriptor at `place`: what belongs there, or, with the bits of `kinds`, something
/// else.
fn descriptor(place: u8, kinds: u8) -> OwnedFd {
    let segment = |bytes| Segment::create("farcall-fuzz", bytes, PeerAccess::Write).expect("a memory file").0;
    let sealed = match place {
        0 => segment(CONTROL_BYTES + RING_BYTES_MIN),
        1 => segment(BLOCK_BYTES),
        _ => segment(64),
    };
    match (kinds >> ((place % 4) * 2)) & 3 {
        0 if place == 2 => {
            let bell = Doorbell::new().expect("sockets");
            bell.for_peers().try_clone_to_owned().expect("a descriptor to spare")
        }
        0 => sealed.as_fd().try_clone_to_owned().expect("a descriptor to spare"),
        1 => {
            let loose = memfd_create("farcall-fuzz", MemfdFlags::CLOEXEC).expect("a memory file");
            ftruncate(&loose, (CONTROL_BYTES + RING_BYTES_MIN) as u64).expect("it can grow");
            loose
        }
        2 => File::open("/dev/null").expect("it is everywhere").into(),
        _ => segment(16384).as_fd().try_clone_to_owned().expect("a descriptor to spare"),
    }
}

/// Reads a ring whose memory is `bytes`, from record to record as a transport would, and from every line of
/// it.
#[doc(hidden)]
pub fn fuzz_ring(bytes: &[u8]) {
    let segment_bytes = CONTROL_BYTES + RING_BYTES_MIN;
    let (segment, mapping) =
        Segment::create("farcall-fuzz", segment_bytes, PeerAccess::Write).expect("a memory file");
    let mut file = File::from(segment.as_fd().try_clone_to_owned().expect("a descriptor to spare"));
    file.write_all(&[0; CONTROL_BYTES]).expect("a memory file takes what is written");
    file.write_all(&ring_content(bytes)).expect("it fits");
    let mapping = Arc::new(mapping);
    for copies in [false, true] {
        read_all(&ShmReceiver::new(Arc::clone(&mapping), Weak::new(), copies));
    }
}

fn read_all(receiver: &ShmReceiver) {
    for offset in (0..RING_BYTES_MIN).step_by(RECORD_ALIGN) {
        match receiver.peek(offset, 0..RECORD_ALIGN) {
            Ok(None) | Err(LaneFault::Corrupt { .. }) => {}
            Ok(Some(record)) => {
                assert!(RECORD_HEADER_BYTES + record.len() <= RING_BYTES_MIN - offset, "it leaves the ring");
                for at in (0..=record.len().next_multiple_of(8)).step_by(8) {
                    assert_eq!(record.word(at).is_some(), at + 8 <= record.len());
                }
            }
            Err(other) => panic!("{other:?} is not what a ring's memory can cause"),
        }
    }
}

/// Lines of a ring: each starts with a choice of flag, so that a fuzzer need not guess the mark.
fn ring_content(bytes: &[u8]) -> Vec<u8> {
    let mut content = vec![0; RING_BYTES_MIN];
    for (line, chunk) in content.chunks_exact_mut(RECORD_ALIGN).zip(bytes.chunks(10)) {
        let mut flag = [0; 8];
        flag.iter_mut().zip(&chunk[1..]).for_each(|(to, from)| *to = *from);
        let flag = u64::from_le_bytes(flag);
        let flag = match chunk[0] % 3 {
            0 => flag,
            1 => MARK << 32 | (flag & 0xffff),
            _ => MARK << 32 | (flag & 0xffff_ffff),
        };
        line[..8].copy_from_slice(&flag.to_le_bytes());
        line[8..].fill(chunk[chunk.len() - 1]);
    }
    content
}
