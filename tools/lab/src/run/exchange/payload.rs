//! What senders and receivers do with payloads.

use core::hint::black_box;

use farcall_limit::read_every_word;

use super::Buffers;

/// Looks at received payloads in the one way that a measurement asks for.
#[derive(Debug)]
pub(super) struct Receiver {
    buffers: Buffers,
    copy: Vec<u8>,
}

impl Receiver {
    /// Prepares for payloads of at most `bytes_max` bytes.
    pub(super) fn new(buffers: Buffers, bytes_max: usize) -> Self {
        Self { buffers, copy: vec![0; bytes_max] }
    }

    /// Copies the payload out, reads it, or leaves it alone. Says whether it has the right length.
    #[inline]
    pub(super) fn look_at(&mut self, payload: &[u8], bytes: usize) -> bool {
        if payload.len() != bytes {
            return false;
        }
        match self.buffers {
            Buffers::Copied => {
                self.copy[..bytes].copy_from_slice(payload);
                black_box(&mut self.copy);
            }
            Buffers::Read => _ = black_box(read_every_word(payload)),
            Buffers::Loaned => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_another_length_are_noticed() {
        for buffers in [Buffers::Copied, Buffers::Read, Buffers::Loaned] {
            let mut receiver = Receiver::new(buffers, 100);
            assert!(receiver.look_at(&[1; 100], 100) && receiver.look_at(&[], 0));
            assert!(!receiver.look_at(&[1; 99], 100) && !receiver.look_at(&[1; 101], 100));
        }
    }

    #[test]
    fn copied_payloads_are_copied() {
        let mut receiver = Receiver::new(Buffers::Copied, 4);
        assert!(receiver.look_at(&[1, 2, 3], 3));
        assert_eq!(receiver.copy, [1, 2, 3, 0]);
    }
}
