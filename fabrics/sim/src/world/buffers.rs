//! The memory that packets lie in.
//!
//! Buffers are used again: what a run holds at its peak is what it ever allocates.

use core::ops::Range;

/// The shortest buffer: small packets are common, and a spare for each few bytes of difference would be none.
const BUFFER_BYTES_MIN: usize = 128;

/// What buffers are longer than a power of two. Allocated one after the other, their beginnings, where all
/// headers are, would otherwise compete for the same few sets of a cache.
pub const STAGGER_BYTES: usize = 3 * 64;

/// What is carried of a packet's end, whatever else is: transports put tags and numbers behind a payload.
const TRAILER_BYTES: usize = 16;

/// Buffers that are a little longer than powers of two, and spares of each length.
#[derive(Debug)]
pub struct Buffers {
    /// How many bytes of a packet's start are really written. All others of a buffer are zero, but for the
    /// trailer.
    carried_bytes: usize,
    spares: Vec<Vec<Box<[u8]>>>,
    /// Bytes in all buffers, spare or not.
    bytes: usize,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { carried_bytes: usize::MAX, spares: Vec::new(), bytes: 0 }
    }
}

impl Buffers {
    /// From now on only the first `bytes` bytes of each packet are carried, and a trailer.
    pub fn carry_at_most(&mut self, bytes: usize) {
        self.carried_bytes = bytes;
        // What the spares have carried may be more.
        let spares = core::mem::take(&mut self.spares);
        self.bytes -= spares.iter().flatten().map(|spare| spare.len()).sum::<usize>();
    }

    /// A buffer with the bytes of `parts` at its start.
    #[inline]
    pub fn filled(&mut self, length: usize, parts: &[&[u8]]) -> Box<[u8]> {
        let mut buffer = self.take(length);
        let carried = length.min(self.carried_bytes);
        copy(&mut buffer[..carried], parts, 0);
        if self.carried_bytes < usize::MAX {
            let before = buffer.last_chunk_mut().expect("a buffer is longer than its packets");
            let before = core::mem::replace(before, (length as u64).to_le_bytes());
            buffer[self.trailer(u64::from_le_bytes(before) as usize)].fill(0);
            let trailer = self.trailer(length);
            copy(&mut buffer[trailer.clone()], parts, trailer.start);
        }
        buffer
    }

    /// Where the trailer of a packet is that is carried apart. How long the last packet of a buffer was is at
    /// the buffer's end, where no packet reaches.
    fn trailer(&self, length: usize) -> Range<usize> {
        length.saturating_sub(TRAILER_BYTES).max(self.carried_bytes).min(length)..length
    }

    /// A buffer of at least `length` bytes; among those that are carried are some of earlier packets.
    #[inline]
    fn take(&mut self, length: usize) -> Box<[u8]> {
        let capacity = length.max(BUFFER_BYTES_MIN).next_power_of_two();
        let class = capacity.trailing_zeros() as usize;
        if let Some(spare) = self.spares.get_mut(class).and_then(Vec::pop) {
            return spare;
        }
        self.bytes += capacity + STAGGER_BYTES;
        vec![0; capacity + STAGGER_BYTES].into_boxed_slice()
    }

    /// Takes a buffer back.
    #[inline]
    pub fn keep(&mut self, buffer: Box<[u8]>) {
        if buffer.is_empty() {
            return;
        }
        let class = (buffer.len() - STAGGER_BYTES).trailing_zeros() as usize;
        if self.spares.len() <= class {
            self.spares.resize_with(class + 1, Vec::new);
        }
        self.spares[class].push(buffer);
    }

    /// Bytes in all buffers that there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A buffer will never come back.
    pub fn forget(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }
}

/// Fills `to` with what `parts`, one behind the other, have from `from` on.
#[inline]
fn copy(to: &mut [u8], parts: &[&[u8]], mut from: usize) {
    let mut rest = to;
    for part in parts {
        let Some(wanted) = part.get(from..) else {
            from -= part.len();
            continue;
        };
        from = 0;
        let (here, after) = rest.split_at_mut(wanted.len().min(rest.len()));
        here.copy_from_slice(&wanted[..here.len()]);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_and_the_trailer_are_carried_and_nothing_between() {
        let mut buffers = Buffers::default();
        let used = buffers.filled(200, &[&[9; 200]]);
        buffers.keep(used);
        buffers.carry_at_most(50);
        for _ in 0..2 {
            let buffer = buffers.filled(200, &[&[1; 20], &[2; 170], &[3; 10]]);
            assert_eq!((buffer[19], buffer[20], buffer[49]), (1, 2, 2));
            assert!(buffer[50..184].iter().all(|byte| *byte == 0));
            assert_eq!((buffer[184], buffer[189], buffer[190], buffer[199]), (2, 2, 3, 3));
            buffers.keep(buffer);
        }
        assert_eq!(buffers.bytes, 256 + STAGGER_BYTES);
        let shorter = buffers.filled(150, &[&[4; 150]]);
        buffers.keep(shorter);
        let longer = buffers.filled(250, &[&[5; 250]]);
        assert!(longer[50..234].iter().all(|byte| *byte == 0), "nothing is left of the trailer before");
        buffers.keep(longer);
        for length in [0, 1, 49, 50, 51, 60, 66, 67] {
            let packet: Vec<u8> = (0..length).collect();
            let (head, tail) = packet.split_at(packet.len() / 3);
            let buffer = buffers.filled(packet.len(), &[head, &[], tail]);
            let whole = packet.len() <= 66;
            assert!(!whole || buffer[..packet.len()] == packet[..], "{length} bytes");
            assert_eq!(buffer[..packet.len()].last(), packet.last());
            buffers.keep(buffer);
        }
    }
}
