//! Hostile clients and hostile daemons, as a pure function of some bytes.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use farcall_shm::cells::cell_bytes;
use farcall_shm::intake::ForeignFd;
use farcall_shm::options::Caller;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::attached::{Attached, GROUP, LOOKS_AT_A_SLOT, TakenRequest};
use super::{SlotClient, SlotLayout, SlotMessage, hello};

const LAYOUT: SlotLayout = SlotLayout { slots: 4, request_bytes: 120, response_bytes: 56 };

/// Fills the requests' cells and then the responses' with what `bytes` say. The daemon takes each slot once
/// at most, the client each response, and no message is over its limit.
#[doc(hidden)]
pub fn fuzz_slots(bytes: &[u8]) {
    let (here, there) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("sockets");
    let _never_understood = hello::understand(bytes, None);
    let mut served = Attached::new(ForeignFd::new(here, Caller::Number(0)), LAYOUT).expect("memory");
    let Ok(hello::Attachment::Segment(layout, segment)) = hello::receive(&there) else {
        panic!("an honest daemon offers a segment")
    };
    assert_eq!(layout, LAYOUT);
    let mut client = SlotClient::new(there, layout, &segment).expect("a segment that is in order");
    (0..LAYOUT.slots).for_each(|slot| client.ask(slot, 0, b"honest"));
    let (requests, responses) = bytes.split_at(bytes.len() / 2);
    write(&segment, 0, LAYOUT.request_bytes, requests);
    let mut group: [TakenRequest; GROUP] = core::array::from_fn(|_| TakenRequest::new(LAYOUT));
    let mut taken = [false; LAYOUT.slots];
    for _ in 0..LAYOUT.slots * LOOKS_AT_A_SLOT as usize {
        let count = served.collect(&mut group);
        assert!(count <= GROUP.min(LAYOUT.slots));
        for request in &group[..count] {
            let slot = request.slot;
            assert!(!core::mem::replace(&mut taken[slot], true), "slot {slot} was taken twice");
            assert!(request.request().bytes.len() <= LAYOUT.request_bytes);
        }
    }
    let (start, _) = LAYOUT.extent();
    write(&segment, start, LAYOUT.response_bytes, responses);
    for slot in 0..LAYOUT.slots {
        if let Some(SlotMessage { bytes, .. }) = client.take(slot) {
            assert!(bytes.len() <= LAYOUT.response_bytes);
            client.ask(slot, 0, b"honest");
            assert!(client.is_asked(slot), "the slot was free");
        }
    }
}

/// Writes cells: four bytes choose the header, so that a fuzzer need not guess it, the next are repeated as
/// contents.
fn write(segment: &OwnedFd, start: usize, message_bytes: usize, bytes: &[u8]) {
    let file = File::from(segment.try_clone().expect("a descriptor to spare"));
    for (slot, chunk) in bytes.chunks(8).take(LAYOUT.slots).enumerate() {
        let byte = |place: usize| u64::from(chunk.get(place).copied().unwrap_or(0));
        let sequence = if byte(0) < 200 { 1 } else { byte(0) << 24 | byte(3) };
        let length = if byte(1) < 200 { byte(1) } else { byte(1) << 8 | byte(3) };
        let header = sequence << 32 | byte(2) << 24 | length;
        let mut cell: Vec<u8> = chunk.iter().copied().cycle().take(cell_bytes(message_bytes)).collect();
        cell[..8].copy_from_slice(&header.to_le_bytes());
        file.write_all_at(&cell, (start + slot * cell_bytes(message_bytes)) as u64).expect("it fits");
    }
}
