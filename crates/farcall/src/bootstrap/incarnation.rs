//! What is drawn from the system's random source: numbers of lives, and what peers must not foretell.

use rustix::rand::{GetRandomFlags, getrandom};

/// Draws the number of this process's life; never 0.
pub fn random_incarnation() -> u64 {
    loop {
        let number = u64::from_ne_bytes(random());
        if number != 0 {
            return number;
        }
    }
}

/// Bytes from the system's random source.
pub fn random<const N: usize>() -> [u8; N] {
    loop {
        let mut bytes = [0; N];
        // A signal may interrupt the call, or cut it short, before the source is ready: then it is asked again.
        if getrandom(&mut bytes, GetRandomFlags::empty()) == Ok(N) {
            return bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_differ() {
        let lives: std::collections::HashSet<u64> = (0..1000).map(|_| random_incarnation()).collect();
        assert!(lives.len() == 1000 && !lives.contains(&0));
    }
}
