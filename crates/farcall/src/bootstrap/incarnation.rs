//! What tells one life of a process and one machine from others, and what is drawn from the system's random
//! source because peers must not foretell it.

use rustix::rand::{GetRandomFlags, getrandom};
use rustix::system::uname;

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

/// The name of this machine.
pub(crate) fn host_name() -> String {
    let name = uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "an unnamed machine".to_owned() } else { name }
}

/// A number that the processes of one start of a machine share, whatever their containers are called; 0 when
/// the system does not say. FNV-1a, 64 bits, of the kernel's boot identifier.
pub(crate) fn machine_number() -> u64 {
    let Ok(boot) = std::fs::read("/proc/sys/kernel/random/boot_id") else { return 0 };
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    boot.iter().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_differ() {
        let lives: std::collections::HashSet<u64> = (0..1000).map(|_| random_incarnation()).collect();
        assert!(lives.len() == 1000 && !lives.contains(&0));
    }

    #[test]
    fn a_machine_has_one_number_and_a_name() {
        assert_eq!(machine_number(), machine_number());
        assert!(!host_name().is_empty());
    }
}
