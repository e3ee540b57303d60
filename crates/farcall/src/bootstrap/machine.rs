//! Which machine this is, for peers: a name for people, a number to compare.

use rustix::system::uname;

/// The name of this machine.
pub(super) fn host_name() -> String {
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
    fn a_machine_has_one_number_and_a_name() {
        assert_eq!(machine_number(), machine_number());
        assert!(!host_name().is_empty());
    }
}
