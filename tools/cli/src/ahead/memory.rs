//! The memory that simulations take, held against what there is.

use farcall_lab::groups::ControlGroups;

use crate::commands::doctor::kernel::Kernel;
use crate::failure::Failure;

/// What a simulation takes, and what makes it take less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes, of all launches that are simulated at a time.
    pub bytes: u64,
    /// The options that ask for so many hosts.
    pub asked_by: &'static str,
    /// Of several launches at a time the bytes of one, and the options with which there is one.
    pub alone: Option<(u64, &'static str)>,
}

impl Memory {
    /// Refuses a simulation that takes more than there is.
    pub fn check(&self) -> Result<(), Failure> {
        free_bytes().map_or(Ok(()), |free| self.fits(free))
    }

    fn fits(&self, free: u64) -> Result<(), Failure> {
        if self.bytes <= free {
            return Ok(());
        }
        let alone = self.alone.filter(|(bytes, _)| *bytes <= free);
        let alone = alone.map_or_else(String::new, |(_, options)| {
            format!(", or simulate one launch at a time with {options}")
        });
        Err(Failure::Run(format!(
            "{}: the simulation takes some {} of memory, and this machine has {} free; ask for fewer{alone}",
            self.asked_by,
            memory_words(self.bytes),
            memory_words(free)
        )))
    }
}

/// Memory that this process may still take, as far as the system says.
pub fn free_bytes() -> Option<u64> {
    let free = Kernel::of_this_machine().memory_available()?;
    Some(ControlGroups::of_this_process().memory_bytes_max().map_or(free, |limit| limit.min(free)))
}

/// Bytes of memory, in words.
pub fn memory_words(bytes: u64) -> String {
    const GIB: f64 = (1_u64 << 30) as f64;
    const MIB: f64 = (1_u64 << 20) as f64;
    match bytes as f64 {
        bytes if bytes >= GIB => format!("{:.1} GiB", bytes / GIB),
        bytes => format!("{:.0} MiB", (bytes / MIB).max(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_what_helps() {
        let alone = Some((1 << 30, "--runs 1"));
        let memory = Memory { bytes: 3 << 30, asked_by: "--nodes", alone };
        let said = |free| memory.fits(free).expect_err("it is more").sentences().concat();
        assert_eq!(memory.fits(3 << 30), Ok(()));
        let both = "some 3.0 GiB of memory, and this machine has 2.0 GiB free; ask for fewer, \
                    or simulate one launch at a time with --runs 1";
        assert_eq!(said(2 << 30), format!("--nodes: the simulation takes {both}"));
        let fewer = said(1 << 29);
        assert!(fewer.ends_with("this machine has 512 MiB free; ask for fewer"), "{fewer}");
    }
}
