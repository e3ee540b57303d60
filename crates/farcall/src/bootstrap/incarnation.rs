//! A number that tells one life of a rank from the next.

use rustix::rand::{GetRandomFlags, getrandom};

/// Draws the number of this process's life from the system's random source; never 0.
pub fn random_incarnation() -> u64 {
    loop {
        let mut bytes = [0; 8];
        // A signal may interrupt the call, or cut it short, before the source is ready: then it is asked again.
        let filled = getrandom(&mut bytes, GetRandomFlags::empty());
        let number = u64::from_ne_bytes(bytes);
        if filled == Ok(bytes.len()) && number != 0 {
            return number;
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
