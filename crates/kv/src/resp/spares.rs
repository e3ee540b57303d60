//! Memory for replies, or requests, that is kept for the next ones, of whatever client: the system gives
//! fresh memory page by page, which for long ones takes longer than to send or receive them.

use super::UNREAD_BYTES_MAX;
use crate::VALUE_BYTES_MAX;

/// Longer buffers go only to clients with long replies or requests: what one that never reads has is its own.
const SHORT_BYTES_MAX: usize = 64 << 10;

/// The longest buffer that is kept: as long as one becomes, by doubling, with a value behind as many unsent
/// replies as a client may have.
pub const BUFFER_BYTES_MAX: usize = 2 * (UNREAD_BYTES_MAX + VALUE_BYTES_MAX);

/// All of them together, in bytes.
const BYTES_MAX: usize = 16 << 20;

/// As many as are kept at most, however short they are.
const BUFFERS_MAX: usize = 256;

/// The buffers.
#[derive(Debug, Default)]
pub struct Spares {
    short: Vec<Vec<u8>>,
    long: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spares {
    /// A buffer as it was kept, for a client that needs, or needed, this many bytes: the last one that has as
    /// many, or the last one.
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        let kept = if bytes > SHORT_BYTES_MAX { &mut self.long } else { &mut self.short };
        let fits = kept.iter().rposition(|buffer| buffer.capacity() >= bytes);
        let place = fits.or_else(|| kept.len().checked_sub(1));
        let buffer = place.map(|place| kept.swap_remove(place)).unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps a buffer that nobody needs, or drops it when there are enough.
    pub fn keep(&mut self, buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        let kept = if bytes > SHORT_BYTES_MAX { &mut self.long } else { &mut self.short };
        let has_room = kept.len() < BUFFERS_MAX && self.bytes + bytes <= BYTES_MAX;
        if has_room && (1..=BUFFER_BYTES_MAX).contains(&bytes) {
            self.bytes += bytes;
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_until_there_are_enough_and_no_longer_than_one_client_needs() {
        let mut spares = Spares::default();
        spares.keep(Vec::with_capacity(BUFFER_BYTES_MAX + 1));
        spares.keep(Vec::new());
        assert_eq!(spares.take(0).capacity(), 0, "nothing was worth keeping");
        (0..BUFFERS_MAX).for_each(|_| spares.keep(Vec::with_capacity(BUFFER_BYTES_MAX)));
        let kept = BYTES_MAX / BUFFER_BYTES_MAX;
        assert_eq!((spares.long.len(), spares.bytes), (kept, kept * BUFFER_BYTES_MAX));
        assert_eq!(spares.take(SHORT_BYTES_MAX).capacity(), 0, "long ones are for long replies");
        (0..kept).for_each(|_| assert!(spares.take(SHORT_BYTES_MAX + 1).capacity() >= BUFFER_BYTES_MAX));
        (0..=BUFFERS_MAX).for_each(|_| spares.keep(Vec::with_capacity(1)));
        assert_eq!(spares.short.len(), BUFFERS_MAX);
    }
}
