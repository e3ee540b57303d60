//! What strangers write to a driver's TCP port and into packets' headers, as pure functions of some bytes.

use farcall_base::Address;
use farcall_driver::{HELLO_BYTES_MAX, LaneFault};

use crate::gid::{GRH_BYTES, Gid};
use crate::lane::fuzz::{Message, RING_BYTES_MIN, parse};

/// Reads `bytes` as handshake messages one after the other, as a header of a packet, and as an address.
#[doc(hidden)]
pub fn fuzz_handshake(bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        match Message::decode(rest) {
            Ok(Some((message, length))) => {
                assert!(0 < length && length <= rest.len(), "a message has a length, and is there");
                check(&message);
                rest = &rest[length..];
            }
            Ok(None) => break,
            Err(LaneFault::Unacceptable { .. }) => break,
            Err(other) => panic!("{other:?} is not what a message can cause"),
        }
    }
    if let Some(header) = bytes.first_chunk::<GRH_BYTES>() {
        let _some_address = Gid::source_of(header).ip();
    }
    if let Ok(address) = Address::new(bytes.to_vec())
        && let Ok(place) = parse(&address)
    {
        assert!(place.socket.port() != 0 && !place.socket.ip().is_unspecified(), "{place:?}");
    }
}

/// What is accepted has one encoding, and its offer keeps the limits that the rest relies on.
fn check(message: &Message<'_>) {
    let (Message::Call(_, offer) | Message::Answer(offer)) = message else { return };
    let ring_bytes = offer.memory.ring_bytes;
    assert!(ring_bytes.is_power_of_two() && ring_bytes >= RING_BYTES_MIN as u64);
    assert!(offer.hello.len() <= HELLO_BYTES_MAX);
    let again = message.encode();
    assert_eq!(Message::decode(&again), Ok(Some((message.clone(), again.len()))));
}
