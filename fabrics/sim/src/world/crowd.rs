//! How long those in a queue have waited, all together, without a note of when each came.

use crate::time::Picos;

/// The members of a queue, counted over time: the sum of their waits is the area under their number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crowd {
    members: u64,
    counted_to: Picos,
    waited: Picos,
}

impl Crowd {
    /// One more is there from `now` on.
    #[inline]
    pub fn join(&mut self, now: Picos) {
        self.count_to(now);
        self.members += 1;
    }

    /// One has left at `now`.
    #[inline]
    pub fn leave(&mut self, now: Picos) {
        self.count_to(now);
        self.members = self.members.saturating_sub(1);
    }

    /// Nobody is there any more.
    pub fn clear(&mut self, now: Picos) {
        self.count_to(now);
        self.members = 0;
    }

    /// The sum of all waits until `now`.
    pub fn waited(&self, now: Picos) -> Picos {
        self.waited + (now - self.counted_to).times(self.members)
    }

    /// Hosts are ahead of the fabric's time, so that a step may lie before the last one; it then adds
    /// nothing.
    #[inline]
    fn count_to(&mut self, now: Picos) {
        self.waited += (now - self.counted_to).times(self.members);
        self.counted_to = self.counted_to.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_under_the_number_is_the_sum_of_the_waits() {
        let mut crowd = Crowd::default();
        crowd.join(Picos(10));
        crowd.join(Picos(20));
        crowd.leave(Picos(50));
        assert_eq!(crowd.waited(Picos(60)), Picos(40 + 40));
        crowd.clear(Picos(60));
        assert_eq!(crowd.waited(Picos(90)), Picos(80));
    }
}
