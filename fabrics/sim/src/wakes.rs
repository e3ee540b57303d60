//! When each host runs next: a tournament of the hosts' times, whose winner runs first.
//!
//! A host's next turn is moved far more often than it runs, each time that something arrives or a deadline
//! changes. As events these would leave a stale one behind for each move; here a move is one path to the
//! root. Among equals the lower host wins.

use crate::time::Picos;

/// The next turn of each host.
#[derive(Debug)]
pub struct Wakes {
    /// A complete binary tree: the second half are the hosts, each node before it has the earlier of its two
    /// children.
    tree: Vec<(Picos, u32)>,
    leaves: usize,
}

impl Wakes {
    /// No turns, for `hosts` hosts.
    pub fn new(hosts: usize) -> Self {
        let leaves = hosts.next_power_of_two();
        let mut tree = vec![(Picos::NEVER, u32::MAX); 2 * leaves];
        for (host, leaf) in (0..).zip(&mut tree[leaves..]) {
            leaf.1 = host;
        }
        for node in (1..leaves).rev() {
            tree[node] = tree[2 * node].min(tree[2 * node + 1]);
        }
        Self { tree, leaves }
    }

    /// Sets the time of a host's next turn; [`Picos::NEVER`] for none.
    #[inline]
    pub fn set(&mut self, host: u32, at: Picos) {
        let mut node = self.leaves + host as usize;
        self.tree[node].0 = at;
        while node > 1 {
            node /= 2;
            let winner = self.tree[2 * node].min(self.tree[2 * node + 1]);
            if self.tree[node] == winner {
                break;
            }
            self.tree[node] = winner;
        }
    }

    /// When `host` runs next.
    #[inline]
    pub fn of(&self, host: u32) -> Picos {
        self.tree[self.leaves + host as usize].0
    }

    /// The time of the next turn of all, and whose it is.
    #[inline]
    pub fn next(&self) -> (Picos, u32) {
        self.tree[1]
    }
}

#[cfg(test)]
mod tests {
    use farcall_base::Random;

    use super::*;

    #[test]
    fn the_winner_is_that_of_a_search() {
        let seed = 0x7a4e;
        println!("seed {seed:#x}");
        let mut random = Random::new(seed);
        for hosts in [1_u32, 2, 3, 7, 8, 200] {
            let mut wakes = Wakes::new(hosts as usize);
            let mut plain = vec![Picos::NEVER; hosts as usize];
            assert_eq!(wakes.next(), (Picos::NEVER, 0));
            for _ in 0..1_000 {
                let host = random.below(u64::from(hosts)) as u32;
                let at = if random.chance(0.2) { Picos::NEVER } else { Picos(random.below(50)) };
                wakes.set(host, at);
                plain[host as usize] = at;
                let winner = plain.iter().copied().zip(0..).min().expect("there are hosts");
                assert_eq!((wakes.next(), wakes.of(host)), (winner, at));
            }
        }
    }
}
