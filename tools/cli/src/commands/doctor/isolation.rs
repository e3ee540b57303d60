//! Where this process is shut in: namespaces, and the group that bounds its memory and time.

use super::finding::Finding;
use super::kernel::Kernel;
use super::size;

/// The namespaces that a machine begins with, by the numbers that the kernel gives them
/// (`include/linux/proc_ns.h`); that of the network has a fixed one in new kernels only.
const FIRST: [(&str, u64); 3] = [("user", 0xEFFF_FFFD), ("pid", 0xEFFF_FFFC), ("ipc", 0xEFFF_FFFF)];

/// Memory below which a store with its default settings does not fit.
const MEMORY_BYTES_MIN: u64 = 512 << 20;

/// Processes and threads of a group below which programs fail to start.
const TASKS_MIN: u64 = 64;

/// Limits from here on are those of a counter that has none.
const UNLIMITED_MIN: u64 = 1 << 62;

/// What is to be said of the namespaces of this process.
pub fn namespaces(kernel: &Kernel) -> Vec<Finding> {
    ["user", "net", "ipc", "pid"].into_iter().map(|kind| namespace(kernel, kind)).collect()
}

fn namespace(kernel: &Kernel, kind: &str) -> Finding {
    let subject = format!("{kind} namespace");
    let Some(link) = kernel.link(&format!("/proc/self/ns/{kind}")) else {
        return Finding::note(subject, "not known: /proc does not say");
    };
    let number = link.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok();
    let first = FIRST.iter().find(|(first, _)| *first == kind).map(|(_, number)| *number);
    let is_first = match first {
        Some(first) => number == Some(first),
        // Where the first process of the machine can be seen, it tells.
        None => kernel.link(&format!("/proc/1/ns/{kind}")).as_ref() == Some(&link),
    };
    if is_first {
        return Finding::good(subject, if first.is_some() { "the machine's" } else { "that of process 1" });
    }
    let of_its_own = Finding::note(subject, "one of its own");
    match kind {
        "net" => of_its_own.with(
            "abstract sockets and loopback reach this namespace only: to share memory with processes outside, \
             mount one folder on both sides and name it in shm.directory",
        ),
        "user" => of_its_own.with(
            "users outside may have other numbers: where both sides are the same user under two, set \
             shm.allow=any on both and let the folder's mode decide",
        ),
        "pid" => of_its_own.with("`farcall ps` and `top` see the processes of this namespace only"),
        _ => of_its_own,
    }
}

/// What is to be said of the control groups, with this many cores to run on.
pub fn groups(kernel: &Kernel, cores: usize) -> Vec<Finding> {
    vec![memory(kernel), time(kernel, cores), tasks(kernel)]
}

/// The least value of a limit in the group of this process and all above it, in version 2 or 1.
fn least(kernel: &Kernel, controller: &str, v2: &str, v1: &str) -> Option<u64> {
    let values = places(kernel, controller).into_iter().flat_map(|place| {
        [v2, v1].into_iter().filter_map(|name| kernel.number(&format!("{place}/{name}"))).collect::<Vec<_>>()
    });
    values.filter(|value| *value < UNLIMITED_MIN).min()
}

/// The folders of the group and of those above it. A container often sees its own at the top.
fn places(kernel: &Kernel, controller: &str) -> Vec<String> {
    let mut places = Vec::new();
    let groups = kernel.text("/proc/self/cgroup").unwrap_or_default();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let mounts: &[String] = &if controllers.is_empty() {
            vec!["/sys/fs/cgroup".to_owned(), "/sys/fs/cgroup/unified".to_owned()]
        } else if controllers.split(',').any(|name| name == controller) {
            vec![format!("/sys/fs/cgroup/{controllers}"), format!("/sys/fs/cgroup/{controller}")]
        } else {
            continue;
        };
        for mount in mounts {
            let mut path = path.trim_end_matches('/');
            loop {
                places.push(format!("{mount}{path}"));
                match path.rsplit_once('/') {
                    Some((above, _)) => path = above,
                    None => break,
                }
            }
        }
    }
    places
}

fn memory(kernel: &Kernel) -> Finding {
    const SUBJECT: &str = "memory of the cgroup";
    match least(kernel, "memory", "memory.max", "memory.limit_in_bytes") {
        None => Finding::good(SUBJECT, "unlimited"),
        Some(bytes) if bytes < MEMORY_BYTES_MIN => Finding::warning(
            SUBJECT,
            format!("{}: what does not fit ends the process", size(bytes)),
            "raise memory.max, or give a store less with `farcall kv serve --memory`",
        ),
        Some(bytes) => Finding::note(SUBJECT, size(bytes)),
    }
}

fn time(kernel: &Kernel, cores: usize) -> Finding {
    const SUBJECT: &str = "processor time of the cgroup";
    let Some((quota, throttled)) = quota(kernel) else { return Finding::good(SUBJECT, "unlimited") };
    let stopped = match throttled {
        0 => String::new(),
        times => format!("; stopped {times} times so far"),
    };
    let state = format!("{quota:.1} cores' worth{stopped}");
    if quota >= cores as f64 {
        return Finding::note(SUBJECT, state);
    }
    Finding::warning(
        SUBJECT,
        format!("{state}, while {cores} may be used at a time: then it stands still for some milliseconds"),
        "raise cpu.max, or set endpoint.idle=block so that waiting takes no time",
    )
}

/// The least quota in cores, and how often it stopped the group.
fn quota(kernel: &Kernel) -> Option<(f64, u64)> {
    let quotas = places(kernel, "cpu").into_iter().filter_map(|place| {
        let two = || {
            let text = kernel.text(&format!("{place}/cpu.max"))?;
            let (quota, period) = text.split_once(' ')?;
            Some((quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?))
        };
        let one = || {
            let of = |name: &str| kernel.text(&format!("{place}/{name}"))?.parse::<f64>().ok();
            Some((of("cpu.cfs_quota_us").filter(|quota| *quota > 0.0)?, of("cpu.cfs_period_us")?))
        };
        let (quota, period) = two().or_else(one)?;
        let stopped = kernel.field(&format!("{place}/cpu.stat"), "nr_throttled");
        Some((quota / period, stopped.and_then(|number| number.parse().ok()).unwrap_or(0)))
    });
    quotas.min_by(|one, other| one.0.total_cmp(&other.0))
}

fn tasks(kernel: &Kernel) -> Finding {
    const SUBJECT: &str = "tasks of the cgroup";
    match least(kernel, "pids", "pids.max", "pids.max") {
        None => Finding::good(SUBJECT, "unlimited"),
        Some(number) if number < TASKS_MIN => Finding::warning(
            SUBJECT,
            number.to_string(),
            "raise pids.max: a node has some threads of its own",
        ),
        Some(number) => Finding::note(SUBJECT, number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Good, Note, Warning};
    use super::super::kernel::tests::Machine;
    use super::*;

    #[test]
    fn limits_of_every_group_above_count() {
        let machine = Machine::of(
            "groups-2",
            &[
                ("/proc/self/cgroup", "0::/pod/box\n"),
                ("/sys/fs/cgroup/pod/box/memory.max", "max\n"),
                ("/sys/fs/cgroup/pod/memory.max", "268435456\n"),
                ("/sys/fs/cgroup/pod/box/cpu.max", "150000 100000\n"),
                ("/sys/fs/cgroup/pod/box/cpu.stat", "usage_usec 5\nnr_throttled 7\n"),
            ],
        );
        let findings = groups(&machine.kernel, 2);
        assert_eq!(findings[0].severity, Warning);
        assert!(findings[0].state.starts_with("256M"), "{findings:?}");
        assert_eq!(findings[1].severity, Warning);
        assert!(findings[1].state.starts_with("1.5 cores' worth; stopped 7 times so far"), "{findings:?}");
        assert_eq!(groups(&machine.kernel, 1)[1].severity, Note, "one core cannot use it up");
        assert_eq!(findings[2].severity, Good);
    }

    #[test]
    fn the_first_version_of_groups_is_read_too() {
        let machine = Machine::of(
            "groups-1",
            &[
                ("/proc/self/cgroup", "4:memory:/\n3:pids:/x\n2:cpu,cpuacct:/\n0::/\n"),
                ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("/sys/fs/cgroup/pids/pids.max", "20\n"),
                ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
                ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ],
        );
        let severities: Vec<_> = groups(&machine.kernel, 2).iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Good, Warning, Warning]);
    }

    #[test]
    fn a_machine_that_says_nothing_has_no_limits() {
        let machine = Machine::of("groups-0", &[]);
        assert!(groups(&machine.kernel, 2).iter().all(|finding| finding.severity == Good));
        assert!(namespaces(&machine.kernel).iter().all(|finding| finding.severity == Note));
    }
}
