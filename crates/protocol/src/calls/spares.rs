//! Memory of long messages that have ended, for the next ones. The system gives fresh memory page by page, as
//! it is written to: for a message of a megabyte that takes longer than its way over the loopback interface.

use super::sending::RECYCLED_BUFFER_BYTES_MAX;

/// The most memory that is kept, in bytes: a longest message each way, by the default limit.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// How many times its length the buffer of a message may have.
const WASTE_MAX: usize = 2;

/// Buffers to use again.
#[derive(Debug, Default)]
pub(super) struct Spares {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spares {
    /// Keeps a buffer; one that is short, and what would be too much, is dropped.
    pub(super) fn keep(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if bytes > RECYCLED_BUFFER_BYTES_MAX && self.bytes + bytes <= KEPT_BYTES_MAX {
            buffer.clear();
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }

    /// An empty buffer with room for a message of `bytes`: of those that fit, the one that was kept last, for
    /// it is in a near cache.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let fits = |buffer: &Vec<u8>| (bytes..=bytes.saturating_mul(WASTE_MAX)).contains(&buffer.capacity());
        let at = self.buffers.iter().rposition(fits)?;
        let buffer = self.buffers.remove(at);
        self.bytes -= buffer.capacity();
        Some(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 1 << 20;

    #[test]
    fn a_message_gets_the_last_buffer_that_fits_and_it_is_empty() {
        let mut spares = Spares::default();
        spares.keep(vec![1; LONG]);
        spares.keep(vec![2; 3 * LONG]);
        assert!(spares.take(LONG + 1).is_none(), "one is too short, the other three times as long");
        let buffer = spares.take(LONG).expect("the first fits");
        assert_eq!((buffer.len(), buffer.capacity()), (0, LONG));
        assert!(spares.take(LONG).is_none());
        assert!(spares.take(2 * LONG).is_some());
        assert_eq!((spares.bytes, spares.buffers.len()), (0, 0));
    }

    #[test]
    fn no_more_is_kept_than_the_bound_and_nothing_short() {
        let mut spares = Spares::default();
        (0..100).for_each(|_| spares.keep(Vec::with_capacity(3 * LONG)));
        assert!(spares.bytes <= KEPT_BYTES_MAX && spares.bytes + 3 * LONG > KEPT_BYTES_MAX);
        let kept = spares.buffers.len();
        spares.keep(vec![1; RECYCLED_BUFFER_BYTES_MAX]);
        assert_eq!(spares.buffers.len(), kept);
    }
}
