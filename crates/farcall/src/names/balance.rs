//! Which of several servers gets the next call.

use farcall_base::Random;

/// How calls are spread over the servers of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Each server in turn.
    #[default]
    RoundRobin,
    /// Of two servers drawn at random the one with fewer calls in flight over this connection (Mitzenmacher,
    /// IEEE TPDS 12(10), 2001): nearly as good as the least loaded of all, and without crowds.
    TwoChoices,
}

/// The state of a choice.
pub(super) struct Chooser {
    balance: Balance,
    turn: usize,
    random: Random,
}

impl Chooser {
    /// `seed` parts the connections that begin at the same time.
    pub(super) fn new(balance: Balance, seed: u64) -> Self {
        Self { balance, turn: seed as usize & 0xffff, random: Random::new(seed) }
    }

    pub(super) fn set(&mut self, balance: Balance) {
        self.balance = balance;
    }

    /// One of `candidates`, which are not empty; `load` is the number of calls in flight to one.
    pub(super) fn choose(&mut self, candidates: &[usize], load: impl Fn(usize) -> u32) -> usize {
        let count = candidates.len();
        match self.balance {
            Balance::RoundRobin => {
                self.turn = self.turn.wrapping_add(1);
                candidates[self.turn % count]
            }
            Balance::TwoChoices if count == 1 => candidates[0],
            Balance::TwoChoices => {
                let first = self.random.below(count as u64) as usize;
                let other = self.random.below(count as u64 - 1) as usize;
                let second = if other < first { other } else { other + 1 };
                let (first, second) = (candidates[first], candidates[second]);
                if load(second) < load(first) { second } else { first }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_turn() {
        let mut chooser = Chooser::new(Balance::RoundRobin, 7);
        let mut times = [0; 3];
        (0..30).for_each(|_| times[chooser.choose(&[0, 1, 2], |_| 0)] += 1);
        assert_eq!(times, [10, 10, 10]);
    }

    #[test]
    fn of_two_the_less_loaded_one_is_taken() {
        let mut chooser = Chooser::new(Balance::TwoChoices, 7);
        let load = |server| if server == 1 { 100 } else { 0 };
        let mut times = [0; 3];
        (0..300).for_each(|_| times[chooser.choose(&[0, 1, 2], load)] += 1);
        assert_eq!(times[1], 0, "the other one of each pair has fewer");
        assert!(times[0] > 50 && times[2] > 50, "{times:?}");
        assert_eq!(chooser.choose(&[1], load), 1);
    }
}
