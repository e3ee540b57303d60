//! What the control groups of this process allow it: memory, and processor time in each period.
//!
//! A container sees all memory and all cores of its host. Beyond the first it is killed, beyond the second it
//! stands still until the next period, and neither shows anywhere else.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits of version 1 that are no limits are written as the largest number of whole pages.
const NO_LIMIT_FROM: u64 = 1 << 60;

/// The control groups of a process, the own one first, then those that it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlGroups {
    memory: Vec<PathBuf>,
    processor: Vec<PathBuf>,
}

impl ControlGroups {
    /// Those of this process; none where the system does not show them.
    pub fn of_this_process() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::of(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
    }

    /// Those that the two files of a process name.
    fn of(groups: &str, mounts: &str) -> Self {
        let folders = |controller: &str| {
            // With version 1 a controller has a hierarchy of its own; version 2 has one, without a name.
            let named = folder_of(groups, mounts, controller);
            named.or_else(|| folder_of(groups, mounts, "")).unwrap_or_default()
        };
        Self { memory: folders("memory"), processor: folders("cpu") }
    }

    /// The most memory that this process and the others of its groups may have.
    pub fn memory_bytes_max(&self) -> Option<u64> {
        let limit = |folder: &PathBuf| {
            let text = read(folder, "memory.max").or_else(|| read(folder, "memory.limit_in_bytes"))?;
            text.parse().ok().filter(|bytes| *bytes < NO_LIMIT_FROM)
        };
        self.memory.iter().filter_map(limit).min()
    }

    /// The cores' worth of time that they may have in each period.
    pub fn cores_max(&self) -> Option<f64> {
        let quota = |folder: &PathBuf| {
            let text = read(folder, "cpu.max").or_else(|| {
                let part = |name| read(folder, name);
                Some(format!("{} {}", part("cpu.cfs_quota_us")?, part("cpu.cfs_period_us")?))
            })?;
            let (quota, period) = text.split_once(' ')?;
            // "max" and -1 stand for none.
            let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
            (quota > 0.0 && period > 0.0).then_some(quota / period)
        };
        self.processor.iter().filter_map(quota).min_by(f64::total_cmp)
    }

    /// In how many periods they stood still because their time was used up, since the groups were made.
    pub fn periods_throttled(&self) -> Option<u64> {
        let throttled = |folder: &PathBuf| {
            let text = read(folder, "cpu.stat")?;
            text.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.trim().parse().ok())
        };
        self.processor.iter().filter_map(throttled).max()
    }
}

/// The folder of the group under this controller, and those above it.
fn folder_of(groups: &str, mounts: &str, controller: &str) -> Option<Vec<PathBuf>> {
    let has = |list: &str| list.split(',').any(|name| name == controller);
    let group = groups.lines().find_map(|line| {
        let (names, path) = line.split_once(':')?.1.split_once(':')?;
        has(names).then_some(path)
    })?;
    let (root, mounted) = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let (mut place, mut kind) = (place.split(' ').skip(3), kind.split(' '));
        let (root, mounted) = (place.next()?, place.next()?);
        let is_it = match kind.next()? {
            "cgroup2" => controller.is_empty(),
            "cgroup" => !controller.is_empty() && has(kind.nth(1)?),
            _ => false,
        };
        is_it.then_some((root, mounted))
    })?;
    // A container may see the groups from its own on, and be told a path from the host's first one on.
    let below = Path::new(group).strip_prefix(root).or_else(|_| Path::new(group).strip_prefix("/")).ok()?;
    let own = Path::new(mounted).join(below);
    Some(own.ancestors().take_while(|folder| folder.starts_with(mounted)).map(Path::to_owned).collect())
}

fn read(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "25 1 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
                         26 25 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n\
                         27 25 0:24 /pod /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n\
                         28 25 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn groups_of_both_versions_are_found_up_to_their_mount() {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let first = ControlGroups::of("5:memory:/pod/a\n4:cpu,cpuacct:/\n0::/pod/a\n", MIXED);
        assert_eq!(first.memory, paths(&["/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory"]));
        assert_eq!(first.processor, paths(&["/sys/fs/cgroup/cpu"]));
        let mounts = "26 25 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let second = ControlGroups::of("0::/user/b\n", mounts);
        let own = paths(&["/sys/fs/cgroup/user/b", "/sys/fs/cgroup/user", "/sys/fs/cgroup"]);
        assert_eq!((&second.memory, &second.processor), (&own, &own));
        assert_eq!(ControlGroups::of("", ""), ControlGroups::default());
    }

    #[test]
    fn the_least_limit_counts() {
        let folder = std::env::temp_dir().join(format!("farcall-groups-{}", std::process::id()));
        let (inner, outer) = (folder.join("inner"), folder.clone());
        fs::create_dir_all(&inner).expect("a folder of the test's own");
        let write = |folder: &Path, name: &str, text: &str| {
            fs::write(folder.join(name), text).expect("a file of the test's own");
        };
        let groups = ControlGroups {
            memory: vec![inner.clone(), outer.clone()],
            processor: vec![inner.clone(), outer.clone()],
        };
        assert_eq!(
            (groups.memory_bytes_max(), groups.cores_max(), groups.periods_throttled()),
            (None, None, None)
        );
        write(&inner, "memory.max", "max\n");
        write(&outer, "memory.max", "1048576\n");
        write(&inner, "cpu.max", "40000 100000\n");
        write(&outer, "cpu.max", "max 100000\n");
        write(&inner, "cpu.stat", "nr_periods 9\nnr_throttled 7\n");
        assert_eq!(groups.memory_bytes_max(), Some(1 << 20));
        assert_eq!(groups.cores_max(), Some(0.4));
        assert_eq!(groups.periods_throttled(), Some(7));
        fs::remove_dir_all(folder).expect("the test's own");
    }
}
