//! Peers that break the rules lose their connection and nothing else.

use std::os::fd::{AsFd, OwnedFd};

use farcall_base::Address;
use farcall_driver::conformance::until;
use farcall_driver::{LaneDriver, LaneEvent, LaneFault, LaneReceiver};
use farcall_shm::{ShmConfig, ShmLanes, ShmReceiver};

mod raw;
use raw::{Offer, call, memory, receive, send, send_offer, write_word};

const RING_BYTES: usize = 4096;
const MARK: u64 = 0xfa2c_a11d << 32;

fn lanes() -> ShmLanes {
    ShmLanes::new(config()).expect("memory")
}

fn config() -> ShmConfig {
    ShmConfig { ring_bytes: RING_BYTES, block_bytes: 1 << 16, ..ShmConfig::default() }
}

/// The driver still takes a correct peer, and that is the first thing that it hears of.
fn assert_unharmed(mut driver: ShmLanes) {
    let mut peer = lanes();
    let within = core::time::Duration::from_secs(20);
    peer.connect(&driver.address(), b"honest", within).expect("an address of this kind");
    match until("the next event", || driver.poll_event()) {
        LaneEvent::Accepted { hello, .. } => assert_eq!(hello, b"honest"),
        other => panic!("instead of the honest peer: {other:?}"),
    }
}

/// Why the driver at `address` refuses a message with these descriptors.
fn refusal(address: &Address, message: &[u8], descriptors: &[&OwnedFd]) -> String {
    let socket = call(address);
    let descriptors: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
    send(&socket, message, &descriptors);
    let (answer, rights) = receive(&socket);
    assert!(rights.is_empty(), "memory for a peer that was to be refused");
    assert_eq!(answer.first(), Some(&b'R'), "instead of a refusal: {answer:?}");
    String::from_utf8(answer[1..].to_vec()).expect("text")
}

#[test]
fn wrong_offers_are_refused_with_a_reason() {
    let driver = lanes();
    let address = driver.address();
    let memories = [memory(4096 + RING_BYTES, true), memory(4096, true), memory(0, false)];
    let all: Vec<_> = memories.iter().collect();
    let good = Offer::good(RING_BYTES, b"hello");
    let cut = good.encode();
    for (message, reason) in [
        (b"garbage".to_vec(), "short offer"),
        (cut[..cut.len() - 1].to_vec(), "damaged"),
        (vec![0xff; 4000], "does not speak"),
        (Offer { magic: *b"fDGM", ..good.clone() }.encode(), "does not speak"),
        (Offer { version: 1, ..good.clone() }.encode(), "version 1"),
        (Offer { ring_bytes: 0, ..good.clone() }.encode(), "not a power of two"),
        (Offer { ring_bytes: 5000, ..good.clone() }.encode(), "not a power of two"),
        (Offer { ring_bytes: 128 << 20, ..good.clone() }.encode(), "not a power of two"),
        (Offer { ring_bytes: u64::MAX, ..good.clone() }.encode(), "not a power of two"),
        (Offer { ring_bytes: 8192, ..good.clone() }.encode(), "instead of"),
        (Offer { block_bytes: u64::MAX, ..good.clone() }.encode(), "larger than"),
        (Offer { block_bytes: 0, ..good.clone() }.encode(), "instead of"),
        (Offer { block_bytes: 8192, ..good.clone() }.encode(), "instead of"),
        (Offer { hello_bytes: 4, ..good.clone() }.encode(), "damaged"),
    ] {
        let refusal = refusal(&address, &message, &all);
        assert!(refusal.contains(reason), "{refusal:?} does not say {reason:?}");
    }
    assert_unharmed(driver);
}

#[test]
fn wrong_memory_is_refused_with_a_reason() {
    let driver = lanes();
    let address = driver.address();
    let (ring, blocks, bell) = (memory(4096 + RING_BYTES, true), memory(4096, true), memory(0, false));
    let (loose_ring, loose_blocks) = (memory(4096 + RING_BYTES, false), memory(4096, false));
    let socket = call(&address);
    let message = Offer::good(RING_BYTES, b"").encode();
    for (descriptors, reason) in [
        (vec![], "without its memory"),
        (vec![&ring, &blocks], "without its memory"),
        (vec![&ring, &blocks, &bell, &bell], "without its memory"),
        (vec![&ring, &blocks, &bell, &bell, &bell, &bell], "without its memory"),
        (vec![&loose_ring, &blocks, &bell], "not sealed"),
        (vec![&ring, &loose_blocks, &bell], "not sealed"),
        (vec![&blocks, &ring, &bell], "instead of"),
        (vec![&socket, &blocks, &bell], "no memfd"),
    ] {
        let refusal = refusal(&address, &message, &descriptors);
        assert!(refusal.contains(reason), "{refusal:?} does not say {reason:?}");
    }
    drop(socket);
    assert_unharmed(driver);
}

/// A TCP socket that another thread of its owner keeps locked would hang whoever rings it.
#[test]
fn a_doorbell_that_may_hang_us_is_refused() {
    let driver = lanes();
    let (ring, blocks) = (memory(4096 + RING_BYTES, true), memory(4096, true));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let tcp: OwnedFd = std::net::TcpStream::connect(at).expect("it listens").into();
    let message = Offer { may_sleep: true, ..Offer::good(RING_BYTES, b"") }.encode();
    for bell in [&tcp, &blocks] {
        let refusal = refusal(&driver.address(), &message, &[&ring, &blocks, bell]);
        assert!(refusal.contains("doorbell"), "{refusal:?}");
    }
    assert_unharmed(driver);
}

#[test]
fn a_process_that_wants_more_addresses_than_its_share_is_refused_until_it_gives_some_back() {
    let lane_bytes = 4096 + RING_BYTES + 4096;
    let config = ShmConfig { process_bytes_max: 2 * lane_bytes, ..config() };
    let driver = ShmLanes::new(config).expect("memory");
    let address = driver.address();
    let connect = || {
        let socket = call(&address);
        send_offer(&socket, &Offer::good(RING_BYTES, b""), &memory(4096 + RING_BYTES, true));
        let (answer, _) = receive(&socket);
        (socket, String::from_utf8_lossy(&answer).into_owned())
    };
    let first = [connect(), connect()];
    assert!(first.iter().all(|(_, answer)| answer.starts_with("fSHM")), "{first:?}");
    let (_, refused) = connect();
    assert!(refused.starts_with('R') && refused.contains("shm.process_bytes_max"), "{refused:?}");
    drop(first);
    // It is given back when the driver has noticed.
    let mut driver = driver;
    until("there is room again", || {
        while driver.poll_event().is_some() {}
        connect().1.starts_with("fSHM").then_some(())
    });
}

#[test]
fn peers_that_call_and_say_nothing_or_hang_up_do_no_harm() {
    let driver = lanes();
    let silent: Vec<_> = (0..20).map(|_| call(&driver.address())).collect();
    (0..20).for_each(|_| drop(call(&driver.address())));
    assert_unharmed(driver);
    drop(silent);
}

/// A lane to a raw peer: the driver, its receiving end, and the ring as the raw peer got it.
fn lane_to_raw_peer() -> (ShmLanes, ShmReceiver, OwnedFd, OwnedFd) {
    let mut driver = lanes();
    let socket = call(&driver.address());
    send_offer(&socket, &Offer::good(RING_BYTES, b""), &memory(4096 + RING_BYTES, true));
    let (_, rights) = receive(&socket);
    let [ring, _blocks, _bell] = <[OwnedFd; 3]>::try_from(rights).expect("three descriptors");
    match until("the raw peer is accepted", || driver.poll_event()) {
        LaneEvent::Accepted { lane, .. } => {
            let (_, receiver) = driver.take(lane).expect("a lane that is up");
            (driver, receiver, ring, socket)
        }
        other => panic!("instead of a caller: {other:?}"),
    }
}

#[test]
fn wrong_flags_and_lengths_in_a_ring_are_corrupt() {
    let (driver, receiver, ring, _socket) = lane_to_raw_peer();
    let corrupt = |result| matches!(result, Err(LaneFault::Corrupt { .. }));
    for flag in [1, u64::MAX, 64, MARK, MARK | 7, MARK | 4097, MARK | 0xffff_ffff, MARK ^ 1 << 63 | 64] {
        write_word(&ring, 0, flag);
        assert!(corrupt(receiver.peek(0, 0..64)), "flag {flag:#x}");
    }
    write_word(&ring, 4032, MARK | 72);
    assert!(corrupt(receiver.peek(4032, 0..64)), "a record across the end");
    write_word(&ring, 4032, MARK | 64);
    assert_eq!(receiver.peek(4032, 0..64).expect("a record").map(|record| record.len()), Some(56));
    assert_unharmed(driver);
}

/// What a flag tells of a copy only has memory read that is the peer's, and is no record.
#[test]
fn progress_of_blocks_that_are_not_there_is_no_record() {
    const PROGRESS: u64 = 1 << 58;
    let (driver, receiver, ring, _socket) = lane_to_raw_peer();
    for block_and_lines in [0, 1, 64, 65, 1 << 30, (1 << 30) - 1, (1 << 58) - 1] {
        write_word(&ring, 0, PROGRESS | block_and_lines);
        assert!(!receiver.may_have_record(0), "{block_and_lines:#x}");
        assert!(receiver.peek(0, 0..64).expect("no fault").is_none(), "{block_and_lines:#x}");
    }
    write_word(&ring, 0, MARK | 64);
    assert!(receiver.may_have_record(0) && receiver.peek(0, 0..64).expect("no fault").is_some());
    assert_unharmed(driver);
}

/// Needs the right to become another user, and shows nothing without it; the comparison itself has its own
/// test.
#[test]
fn a_process_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: not root, so this process cannot be two users");
        return;
    }
    let driver = lanes();
    let address = driver.address();
    let stranger = std::thread::spawn(move || {
        // Credentials belong to threads as far as the kernel is concerned; only this one changes.
        let nobody = rustix::process::Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may be anybody");
        let (answer, _) = receive(&call(&address));
        String::from_utf8(answer).expect("text")
    });
    let answer = stranger.join().expect("no panic");
    assert_eq!(answer, "Rit runs as user 65534, this process as user 0");
    assert_unharmed(driver);
}
