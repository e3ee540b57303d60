//! The memory that packets lie in.
//!
//! Buffers are used again: what a run holds at its peak is what it ever allocates.

/// The shortest buffer: small packets are common, and a spare for each few bytes of difference would be none.
const BUFFER_BYTES_MIN: usize = 128;

/// What buffers are longer than a power of two. Allocated one after the other, their beginnings, where all
/// headers are, would otherwise compete for the same few sets of a cache.
pub const STAGGER_BYTES: usize = 3 * 64;

/// Buffers that are a little longer than powers of two, and spares of each length.
#[derive(Debug)]
pub struct Buffers {
    /// How many bytes of a packet are really written; all others of a buffer stay zero.
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
    /// From now on only the first `bytes` bytes of each packet are carried.
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
        let mut rest = &mut buffer[..length.min(self.carried_bytes)];
        for part in parts {
            let (here, after) = rest.split_at_mut(part.len().min(rest.len()));
            here.copy_from_slice(&part[..here.len()]);
            rest = after;
        }
        buffer
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_carried_is_zero() {
        let mut buffers = Buffers::default();
        let used = buffers.filled(200, &[&[9; 200]]);
        buffers.keep(used);
        buffers.carry_at_most(50);
        for _ in 0..2 {
            let buffer = buffers.filled(200, &[&[1; 20], &[2; 180]]);
            assert_eq!((buffer[19], buffer[20], buffer[49]), (1, 2, 2));
            assert!(buffer[50..].iter().all(|byte| *byte == 0));
            buffers.keep(buffer);
        }
        assert_eq!(buffers.bytes, 256 + STAGGER_BYTES);
    }
}
