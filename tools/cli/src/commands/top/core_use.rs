//! How busy the cores of this machine are, by the kernel's account.

/// What the kernel says of each core, in ticks since the start of the machine, in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub struct CoreTimes(Vec<CoreTime>);

#[derive(Clone, Copy, Debug)]
struct CoreTime {
    core: u32,
    busy: u64,
    all: u64,
}

/// A core, and the part of a time in which it was busy, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreUse {
    pub core: u32,
    pub busy: f64,
}

impl CoreTimes {
    /// As it is now; nothing where there is no `/proc`.
    pub fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(CoreTime::parse).collect())
    }

    /// What each core that was there both times did between `before` and this reading. A core for which no
    /// tick passed is left out.
    pub fn uses_since(&self, before: &Self) -> Vec<CoreUse> {
        let used = |now: &CoreTime| {
            let then = before.0.iter().find(|then| then.core == now.core)?;
            let all = now.all.checked_sub(then.all).filter(|all| *all > 0)?;
            let busy = now.busy.saturating_sub(then.busy).min(all);
            Some(CoreUse { core: now.core, busy: busy as f64 / all as f64 })
        };
        self.0.iter().filter_map(used).collect()
    }
}

impl CoreTime {
    /// A line of a core: user, nice, system, idle, waiting for input and output, interrupts of both kinds,
    /// stolen; what guests took is in `user` already (`proc_stat(5)`).
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let core = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let all = ticks.iter().sum();
        let idle: u64 = ticks.get(3..5)?.iter().sum();
        Some(Self { core, busy: all - idle, all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
cpu  9 9 9 9 9 9 9 9 9 9
cpu0 10 0 10 100 0 0 0 0 0 0
cpu7 0 0 0 5 5 0 0 0 0 0
intr 3
";
    const AFTER: &str = "\
cpu  9 9 9 9 9 9 9 9 9 9
cpu0 30 5 25 140 10 3 7 0 0 0
cpu2 1 1 1 1 1 1 1 1 1 1
cpu7 0 0 0 5 5 0 0 0 0 0
";

    #[test]
    fn a_core_is_busy_when_it_neither_idles_nor_waits_for_a_disk() {
        let uses = CoreTimes::parse(AFTER).uses_since(&CoreTimes::parse(BEFORE));
        // 50 of 100 ticks. One core came meanwhile, and for one no tick passed.
        assert_eq!(uses, [CoreUse { core: 0, busy: 0.5 }]);
    }

    #[test]
    fn what_is_no_account_says_nothing() {
        for text in ["", "cpu0", "cpu0 1 2 3", "cpux 1 2 3 4 5", "cpu0 a b c d e"] {
            assert!(CoreTimes::parse(text).uses_since(&CoreTimes::parse(text)).is_empty(), "{text}");
        }
    }
}
