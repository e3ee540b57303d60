//! Which packets came before.

/// How many packet numbers behind the highest are told apart. A packet that is later than that is dropped: as
/// much traffic of a higher priority may overtake it.
pub const WINDOW_PACKETS: u64 = 4096;

const WORDS: u64 = WINDOW_PACKETS / 64 + 1;

/// The numbers that came, as far as they are told apart: a bit for each, in a ring of words of which the one
/// ahead is being filled (RFC 6479).
#[derive(Debug)]
pub(super) struct Window {
    /// One more than the highest that came.
    next: u64,
    came: Box<[u64; WORDS as usize]>,
}

impl Default for Window {
    fn default() -> Self {
        Self { next: 0, came: Box::new([0; WORDS as usize]) }
    }
}

impl Window {
    /// The number that would come next if nothing were lost.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether a packet with this number is none that came before, as far as can be told.
    #[inline]
    pub(super) fn is_new(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        let (word, bit) = place(number);
        self.next - number <= WINDOW_PACKETS && self.came[word] & bit == 0
    }

    /// It came. Only numbers that are new may be marked, and only of packets that proved to be authentic.
    #[inline]
    pub(super) fn mark(&mut self, number: u64) {
        debug_assert!(self.is_new(number));
        if number >= self.next {
            self.clear_up_to(number);
            self.next = number + 1;
        }
        let (word, bit) = place(number);
        self.came[word] |= bit;
    }

    /// Clears the words that begin behind the highest number so far, up to that of `number`.
    #[inline]
    fn clear_up_to(&mut self, number: u64) {
        let first = self.next.div_ceil(64);
        let last = number / 64;
        for word in first..=last.min(first.saturating_add(WORDS - 1)) {
            self.came[(word % WORDS) as usize] = 0;
        }
    }
}

#[inline]
fn place(number: u64) -> (usize, u64) {
    ((number / 64 % WORDS) as usize, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use farcall_base::Random;

    use super::*;

    #[test]
    fn numbers_are_told_apart_in_any_order_as_a_set_would() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (mut window, mut came, mut highest) = (Window::default(), BTreeSet::new(), 0_u64);
            for _ in 0..20_000 {
                let ahead = [0, 1, 3, 64, 700, 5000][random.below(6) as usize];
                let number = (highest + random.below(ahead + 1)).saturating_sub(random.below(4500));
                let is_late = number + WINDOW_PACKETS < highest + 1;
                assert_eq!(window.is_new(number), !is_late && !came.contains(&number), "{number} {highest}");
                if window.is_new(number) {
                    window.mark(number);
                    came.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }

    #[test]
    fn a_jump_over_the_whole_window_forgets_all_of_it() {
        let mut window = Window::default();
        (0..200).for_each(|number| window.mark(number));
        window.mark(1 << 40);
        let oldest = (1 << 40) + 1 - WINDOW_PACKETS;
        assert!((oldest..1 << 40).all(|number| window.is_new(number)));
        assert!(!window.is_new(oldest - 1) && !window.is_new(1 << 40));
    }
}
