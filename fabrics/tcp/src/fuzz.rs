//! What comes over a connection, as a pure function of some bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use farcall_transport::{ARRIVAL_HEAD_BYTES_MAX, Arrival, Spares};

use crate::arrival::TcpArrival;
use crate::frame::FrameFault;
use crate::inbound::{Inbound, Intake};

/// The limit of the receiver.
const PAYLOAD_BYTES_MAX: usize = 1 << 16;

/// What came of a connection: the messages, and why it ended if it did.
type Read = (Vec<(Vec<u8>, Vec<u8>)>, Option<FrameFault>);

/// Reads bytes at once, and again in parts, some of which are read to where they belong: the messages are the
/// same, and within the limits.
#[doc(hidden)]
pub fn fuzz_connection(bytes: &[u8]) {
    let Some((&step, stream)) = bytes.split_first() else { return };
    let at_once = read(stream, stream.len().max(1));
    let in_parts = read(stream, 1 + usize::from(step));
    assert_eq!(at_once, in_parts, "how bytes come in parts says nothing");
    for (head, payload) in at_once.0 {
        assert!(head.len() <= ARRIVAL_HEAD_BYTES_MAX && payload.len() <= PAYLOAD_BYTES_MAX);
    }
}

fn read(stream: &[u8], step: usize) -> Read {
    let (mut inbound, mut arrivals) = (Inbound::default(), VecDeque::new());
    let mut spares = Spares::default();
    let mut fault = None;
    for part in stream.chunks(step) {
        if let Err(why) = read_part(part, &mut inbound, &mut spares, &mut arrivals) {
            fault = Some(why);
            break;
        }
    }
    let messages = arrivals
        .iter()
        .map(|arrival: &TcpArrival| (arrival.head().to_vec(), arrival.payload().as_slice().to_vec()));
    (messages.collect(), fault)
}

/// As a connection does: to the place of a piece first, then into a buffer behind the fragment.
fn read_part(
    part: &[u8],
    inbound: &mut Inbound,
    spares: &mut Spares,
    arrivals: &mut VecDeque<TcpArrival>,
) -> Result<(), FrameFault> {
    let mut intake =
        Intake { from: 1, payload_bytes_max: PAYLOAD_BYTES_MAX, is_first_only: false, spares, arrivals };
    let placed = inbound.place().map_or(0, |place| {
        let count = place.len().min(part.len());
        for (to, from) in place.iter_mut().zip(part) {
            to.write(*from);
        }
        count
    });
    if placed > 0 {
        // SAFETY: as many bytes were just written.
        unsafe { inbound.wrote_to_place(placed, &mut intake) };
    }
    let buffer = [inbound.fragment(), &part[placed..]].concat();
    let end = buffer.len();
    if end == 0 {
        return Ok(());
    }
    inbound.take_in(&Arc::new(buffer), 0, end, &mut intake)
}

#[cfg(test)]
mod tests {
    use farcall_base::Random;

    use super::*;
    use crate::frame::{Front, PREAMBLE, put_whole};

    #[test]
    fn how_bytes_are_parted_says_nothing_whatever_they_are() {
        let mut good = PREAMBLE.to_vec();
        put_whole(&mut good, b"head", &[1; 300]);
        good.extend_from_slice(Front::first(2, b"long", 500, 200).as_bytes());
        good.extend_from_slice(&[2; 200]);
        put_whole(&mut good, b"between", b"");
        good.extend_from_slice(Front::next(2, 300).as_bytes());
        good.extend_from_slice(&[3; 300]);
        assert_eq!(read(&good, 7), read(&good, good.len()));
        assert_eq!(read(&good, 7).0.len(), 3);
        let mut random = Random::new(7);
        for _ in 0..20_000 {
            let mut bytes = [&[random.bits() as u8][..], &good].concat();
            for _ in 0..1 + random.below(3) {
                let place = random.index(bytes.len());
                bytes[place] = random.bits() as u8;
            }
            fuzz_connection(&bytes);
        }
    }
}
