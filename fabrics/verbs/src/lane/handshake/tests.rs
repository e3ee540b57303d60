//! What messages of the handshake look like, and which are refused.

use super::offer::NUMBER_MAX;
use super::*;
use crate::device::Network;
use crate::gid::Gid;

fn offer(hello: &[u8]) -> Offer<'_> {
    let memory = PeerMemory {
        ring_address: 0x1000,
        ring_key: 7,
        ring_bytes: 8192,
        blocks_address: 0x2000,
        blocks_key: 8,
        blocks_bytes: 65_536,
    };
    Offer {
        network: Network::Roce,
        mtu: 5,
        lid: 3,
        gid: Gid([4; 16]),
        number: 17,
        sequence: 99,
        memory,
        manager: None,
        hello,
    }
}

#[test]
fn messages_survive_the_journey_in_any_pieces() {
    let messages = [
        Message::Call([1; COOKIE_BYTES], offer(&[9; HELLO_BYTES_MAX])),
        Message::Answer(offer(b"")),
        Message::Answer(Offer { manager: "10.1.2.3:4000".parse().ok(), ..offer(b"by rdma_cm") }),
        Message::Answer(Offer {
            manager: "[2001:db8::1]:1".parse().ok(),
            network: Network::Iwarp,
            ..offer(b"")
        }),
        Message::Ready,
        Message::Goodbye,
        Message::Stranger,
        Message::Refusal("because"),
    ];
    for message in messages {
        let bytes = message.encode();
        assert!(bytes.len() <= MESSAGE_BYTES_MAX);
        for end in 0..bytes.len() {
            assert_eq!(Message::decode(&bytes[..end]), Ok(None), "{end} bytes of {message:?}");
        }
        let with_next = [&bytes[..], b"next"].concat();
        assert_eq!(Message::decode(&with_next), Ok(Some((message.clone(), bytes.len()))));
    }
}

#[test]
fn what_no_correct_peer_offers_is_refused() {
    let good = offer(b"hi");
    let ring = |ring_bytes| Offer { memory: PeerMemory { ring_bytes, ..good.memory }, ..good.clone() };
    let blocks_bytes = BLOCK_BYTES_MAX as u64 + 1;
    let wrong = [
        ring(0),
        ring(4095),
        ring(6000),
        ring(u64::MAX),
        Offer { memory: PeerMemory { blocks_bytes, ..good.memory }, ..good.clone() },
        Offer { mtu: 0, ..good.clone() },
        Offer { mtu: 6, ..good.clone() },
        Offer { number: NUMBER_MAX + 1, ..good.clone() },
        Offer { sequence: u32::MAX, ..good.clone() },
        Offer { manager: "10.1.2.3:0".parse().ok(), ..good.clone() },
        Offer { manager: "[::]:4000".parse().ok(), ..good.clone() },
    ];
    for offer in wrong {
        let bytes = Message::Answer(offer.clone()).encode();
        let outcome = Message::decode(&bytes);
        assert!(matches!(outcome, Err(LaneFault::Unacceptable { .. })), "{offer:?}");
    }
    let mut other = Message::Answer(good.clone()).encode();
    other[FRAME_BYTES + 4] = 3;
    let why = "it speaks version 3 of the handshake, this program 2".to_owned();
    assert_eq!(Message::decode(&other), Err(LaneFault::Unacceptable { why }));
    assert!(Message::decode(b"GET / HTTP/1.1\r\n\r\n").is_err(), "another protocol");
}
