//! Which processes share the cores of a machine. A machine is a running kernel: containers on it may have
//! names of their own, and a process that polls on a core that another one polls on waits for it for
//! milliseconds.

use std::collections::BTreeMap;

use super::RankAbout;

/// What ranks on one machine have in common.
fn machine(about: &RankAbout) -> &str {
    if about.kernel.is_empty() { &about.host } else { &about.kernel }
}

/// The core of each of these ranks' next process: of those that it may use, one that fewest others have.
pub(super) fn of_processes(abouts: &[RankAbout], ranks: &[u32]) -> Vec<Option<u32>> {
    let mut used: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    let core = |&rank: &u32| {
        let about = abouts.get(rank as usize)?;
        let uses = |core: usize| used.get(&(machine(about), core)).copied().unwrap_or_default();
        // The first core of a machine works for everybody else, too.
        let last_is_first = about.cores.iter().skip(1).chain(about.cores.first());
        let core = *last_is_first.min_by_key(|&&core| uses(core))?;
        *used.entry((machine(about), core)).or_default() += 1;
        u32::try_from(core).ok()
    };
    ranks.iter().map(core).collect()
}

/// Whether a machine has fewer cores than the processes of these ranks.
pub(super) fn are_shared(abouts: &[RankAbout], ranks: &[u32]) -> bool {
    let mut machines: BTreeMap<&str, (usize, Vec<usize>)> = BTreeMap::new();
    for about in ranks.iter().filter_map(|&rank| abouts.get(rank as usize)) {
        let (processes, cores) = machines.entry(machine(about)).or_default();
        *processes += 1;
        cores.extend(&about.cores);
    }
    machines.into_values().any(|(processes, mut cores)| {
        cores.sort_unstable();
        cores.dedup();
        processes > cores.len()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::recorded::Environment;

    /// Ranks with two cores each, by the name and the kernel of their machine.
    fn ranks(machines: &[(&str, &str)]) -> Vec<RankAbout> {
        let about = |(rank, (host, kernel)): (usize, &(&str, &str))| RankAbout {
            rank: rank as u32,
            host: (*host).to_owned(),
            kernel: (*kernel).to_owned(),
            pid: 1,
            cores: vec![0, 1],
            environment: Environment::default(),
            clock: String::new(),
            clock_offset_ns: 0,
            clock_error_ns: 0,
        };
        machines.iter().enumerate().map(about).collect()
    }

    #[test]
    fn containers_of_one_machine_share_its_cores() {
        let abouts = ranks(&[("pod-a", "k"), ("pod-b", "k"), ("pod-c", "k"), ("other", "l")]);
        assert_eq!(of_processes(&abouts, &[0, 1, 3]), [Some(1), Some(0), Some(1)]);
        assert!(!are_shared(&abouts, &[0, 1, 3]));
        assert!(are_shared(&abouts, &[0, 1, 2]));
    }

    #[test]
    fn cores_that_only_some_may_use_are_left_to_them() {
        let mut abouts = ranks(&[("pod-a", "k"), ("pod-b", "k"), ("pod-c", "k")]);
        abouts[0].cores = vec![1];
        abouts[2].cores = Vec::new();
        assert_eq!(of_processes(&abouts, &[0, 1, 2]), [Some(1), Some(0), None]);
    }

    #[test]
    fn where_no_kernel_is_known_the_name_of_the_machine_counts() {
        let abouts = ranks(&[("a", ""), ("a", ""), ("b", "")]);
        assert_eq!(of_processes(&abouts, &[0, 1, 2]), [Some(1), Some(0), Some(1)]);
        assert!(are_shared(&abouts, &[0, 1, 0]) && !are_shared(&abouts, &[0, 1, 2]));
    }
}
