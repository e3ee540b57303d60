//! Where the memory of long messages comes back to a transport, from whatever thread dropped it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The most memory that waits here, in bytes; more is freed by whoever gives it back.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The mailbox of one transport.
#[derive(Debug, Default)]
pub struct Home {
    /// Whether something waits: all that a poll looks at.
    has_any: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Home {
    /// Gives a buffer back.
    pub(crate) fn give_back(&self, buffer: Vec<u8>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = waiting.bytes + buffer.capacity();
        if bytes <= WAITING_BYTES_MAX {
            waiting.bytes = bytes;
            waiting.buffers.push(buffer);
            self.has_any.store(true, Ordering::Release);
        }
    }

    /// Takes what was given back.
    #[inline]
    pub(crate) fn take(&self, take: impl FnMut(Vec<u8>)) {
        if self.has_any.load(Ordering::Acquire) {
            self.take_all(take);
        }
    }

    fn take_all(&self, take: impl FnMut(Vec<u8>)) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_any.store(false, Ordering::Relaxed);
        waiting.bytes = 0;
        waiting.buffers.drain(..).for_each(take);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Payload;

    fn returned(home: &Home) -> usize {
        let mut count = 0;
        home.take(|_| count += 1);
        count
    }

    #[test]
    fn memory_comes_back_with_the_last_holder_from_any_thread_unless_it_is_taken() {
        let home = Arc::new(Home::default());
        let payload = || Payload::with_home(&home, vec![7; 100]);
        let (first, second) = (payload(), payload());
        let clone = first.clone();
        drop(first);
        assert_eq!(returned(&home), 0, "a clone is left");
        std::thread::spawn(move || drop(clone)).join().expect("no panic");
        assert_eq!(returned(&home), 1);
        assert_eq!(second.into_vec().expect("nobody shares it"), [7; 100]);
        assert_eq!(returned(&home), 0);
    }

    #[test]
    fn what_is_too_much_is_freed() {
        let home = Home::default();
        for _ in 0..2 {
            (0..5).for_each(|_| home.give_back(Vec::with_capacity(WAITING_BYTES_MAX / 4)));
            assert_eq!(returned(&home), 4);
        }
    }
}
