//! What peers write into frames and addresses, as a pure function of some bytes.

use crate::libfabric::fuzz_place;
use farcall_transport::{ARRIVAL_HEAD_BYTES_MAX, compose};

use crate::messages::frame::{Contents, parse, payload_tag, put_announcement, sender_of};
use crate::messages::peers::KIND;

/// Reads `bytes` as a frame, and as what is in an address behind its checksum.
#[doc(hidden)]
pub fn fuzz_frame(bytes: &[u8]) {
    if let Some((head_bytes, contents)) = parse(bytes) {
        check(bytes, head_bytes, contents);
    }
    fuzz_place(bytes, KIND);
}

/// What is accepted has one encoding, and a head that fits an arrival.
fn check(frame: &[u8], head_bytes: usize, contents: Contents) {
    assert!(head_bytes <= ARRIVAL_HEAD_BYTES_MAX);
    let (head, rest) = frame[1..].split_at(head_bytes);
    let mut again = Vec::new();
    match contents {
        Contents::Whole => {
            compose(&mut again, head);
            again.extend_from_slice(rest);
        }
        Contents::Announced { bytes, tag } => {
            put_announcement(&mut again, head, bytes, tag);
            assert_eq!(payload_tag(sender_of(tag), tag as u16), tag, "all of a tag is read");
        }
    }
    assert_eq!(again, frame);
}
