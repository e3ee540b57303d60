//! Memory of messages that have left or were read, for the next ones.

/// The longest buffer that counts as short, in bytes.
pub const SHORT_BYTES_MAX: usize = 64 << 10;
/// The most memory that is kept in short buffers, and in long ones, in bytes.
const KEPT_BYTES_MAX: [usize; 2] = [16 << 20, 32 << 20];

/// The most buffers that are kept of each kind: more than a poll brings, and so few that what each costs
/// beside its bytes is little.
const KEPT_BUFFERS_MAX: usize = 4096;

/// Buffers to use again. Short messages never get those of long ones, which would wander off with them: a
/// composed message takes its buffer along and leaves its sender another one.
#[derive(Debug)]
pub struct Spares<B = Vec<u8>>([Kept<B>; 2]);

/// A buffer that can be used again.
pub trait Spare: Default {
    /// How many bytes it has room for.
    fn capacity(&self) -> usize;

    /// Makes it empty, and leaves it its memory.
    fn clear(&mut self);
}

impl Spare for Vec<u8> {
    #[inline]
    fn capacity(&self) -> usize {
        self.capacity()
    }

    #[inline]
    fn clear(&mut self) {
        self.clear();
    }
}

impl<B> Default for Spares<B> {
    fn default() -> Self {
        Self(Default::default())
    }
}

#[derive(Debug)]
struct Kept<B> {
    buffers: Vec<B>,
    bytes: usize,
    /// Whether one was kept since the last was taken: it is the next to be taken, and was in use a moment
    /// ago.
    is_next_hot: bool,
}

impl<B> Default for Kept<B> {
    fn default() -> Self {
        Self { buffers: Vec::new(), bytes: 0, is_next_hot: false }
    }
}

impl<B: Spare> Spares<B> {
    /// An empty buffer for a message of this many bytes.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> B {
        let kept = &mut self.0[class(bytes)];
        kept.is_next_hot = false;
        let Some(buffer) = kept.buffers.pop() else { return B::default() };
        kept.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps a buffer, or drops it when there are enough. What was in it is gone.
    #[inline]
    pub fn keep(&mut self, mut buffer: B) {
        let bytes = buffer.capacity();
        let class = class(bytes);
        let kept = &mut self.0[class];
        let has_room = kept.bytes + bytes <= KEPT_BYTES_MAX[class] && kept.buffers.len() < KEPT_BUFFERS_MAX;
        if bytes > 0 && has_room {
            buffer.clear();
            kept.bytes += bytes;
            kept.is_next_hot = true;
            kept.buffers.push(buffer);
        }
    }

    /// Whether the buffer that is next to be taken for this many bytes was in use a moment ago, and so is in
    /// a near cache.
    #[inline]
    pub fn is_next_hot(&self, bytes: usize) -> bool {
        self.0[class(bytes)].is_next_hot
    }
}

/// 0 for short buffers, 1 for long ones.
#[inline]
const fn class(bytes: usize) -> usize {
    (bytes > SHORT_BYTES_MAX) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_get_short_buffers_and_long_ones_long_ones() {
        let mut spares = Spares::<Vec<u8>>::default();
        for bytes in [SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1] {
            spares.keep(vec![1; bytes]);
        }
        let (short, long) = (spares.take(1), spares.take(1 << 20));
        assert_eq!((short.len(), short.capacity()), (0, SHORT_BYTES_MAX));
        assert_eq!((long.len(), long.capacity()), (0, SHORT_BYTES_MAX + 1));
        assert_eq!((spares.take(1).capacity(), spares.take(1 << 20).capacity()), (0, 0));
    }

    #[test]
    fn what_was_kept_last_is_hot_and_taken_first() {
        let mut spares = Spares::<Vec<u8>>::default();
        assert!(!spares.is_next_hot(10));
        spares.keep(vec![1; 10]);
        spares.keep(vec![1; 20]);
        assert!(spares.is_next_hot(10) && !spares.is_next_hot(SHORT_BYTES_MAX + 1));
        assert_eq!(spares.take(10).capacity(), 20);
        assert!(!spares.is_next_hot(10), "the other was kept before");
        spares.keep(Vec::new());
        assert!(!spares.is_next_hot(10), "nothing was kept");
    }

    #[test]
    fn of_very_short_buffers_only_so_many_are_kept() {
        let mut spares = Spares::<Vec<u8>>::default();
        (0..=KEPT_BUFFERS_MAX).for_each(|_| spares.keep(vec![1; 16]));
        let kept = (0..=KEPT_BUFFERS_MAX).filter(|_| spares.take(16).capacity() > 0).count();
        assert_eq!(kept, KEPT_BUFFERS_MAX);
    }

    #[test]
    fn no_more_is_kept_than_the_bound_and_what_is_taken_makes_room() {
        let mut spares = Spares::<Vec<u8>>::default();
        let long = || Vec::with_capacity(KEPT_BYTES_MAX[1] / 2);
        (0..3).for_each(|_| spares.keep(long()));
        spares.keep(Vec::with_capacity(1));
        let mut taken = || spares.take(KEPT_BYTES_MAX[1]).capacity();
        assert_eq!([taken(), taken(), taken()], [KEPT_BYTES_MAX[1] / 2, KEPT_BYTES_MAX[1] / 2, 0]);
        (0..2).for_each(|_| spares.keep(long()));
        assert_eq!(spares.take(KEPT_BYTES_MAX[1]).capacity(), KEPT_BYTES_MAX[1] / 2);
    }
}
