//! What the machine is, as the kernel tells it. What cannot be read is left out, never guessed.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::groups::ControlGroups;

/// Facts by name, such as `cpu`; docs/results.md lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment {
    /// The facts.
    pub facts: BTreeMap<String, String>,
}

/// The fact that says how much processor time the control groups of a run may have.
pub(super) const QUOTA: &str = "cpu_quota";

/// The fact that says in how many periods that was used up during the run.
pub(super) const THROTTLED: &str = "cpu_periods_throttled";

/// What changes from run to run on the same machine.
const PASSING: [&str; 2] = ["load", THROTTLED];

impl Environment {
    /// Asks the kernel.
    pub fn probe() -> Self {
        let cpu_information = read("/proc/cpuinfo");
        let of_cpu = |field| cpu_information.as_deref().and_then(|text| field_of(text, field));
        let status = read("/proc/self/status");
        let memory = read("/proc/meminfo");
        let of_memory = |field| memory.as_deref().and_then(|text| field_of(text, field));
        let hypervisor =
            of_cpu("flags").map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
        let groups = ControlGroups::of_this_process();
        let facts = [
            ("cpu", of_cpu("model name")),
            ("virtual", hypervisor.map(|is| if is { "yes" } else { "no" }.to_owned())),
            ("cores_online", read("/sys/devices/system/cpu/online")),
            ("cores_allowed", status.as_deref().and_then(|text| field_of(text, "Cpus_allowed_list"))),
            (QUOTA, groups.cores_max().map(|cores| format!("{cores} cores"))),
            ("memory_limit", groups.memory_bytes_max().map(|bytes| format!("{bytes} bytes"))),
            ("governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
            ("smt", read("/sys/devices/system/cpu/smt/control")),
            ("clock", read("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
            ("kernel", read("/proc/sys/kernel/osrelease")),
            ("memory", of_memory("MemTotal")),
            ("huge_pages", of_memory("HugePages_Total")),
            ("transparent_huge_pages", read("/sys/kernel/mm/transparent_hugepage/enabled")),
            ("load", read("/proc/loadavg")),
        ];
        let known = facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?)));
        Self { facts: known.collect() }
    }

    /// Facts that differ, by name, with both sides; those that change from run to run are left out.
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<(&'a str, Option<&'a str>, Option<&'a str>)> {
        let mut names: Vec<_> = self.facts.keys().chain(other.facts.keys()).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let of = |facts: &'a BTreeMap<String, String>, name: &str| facts.get(name).map(String::as_str);
        names
            .into_iter()
            .filter(|name| !PASSING.contains(name))
            .map(|name| (name, of(&self.facts, name), of(&other.facts, name)))
            .filter(|(_, own, others)| own != others)
            .collect()
    }
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The value behind `field:` in the first line that begins with it.
fn field_of(text: &str, field: &str) -> Option<String> {
    let value =
        |line: &str| Some(line.strip_prefix(field)?.trim_start().strip_prefix(':')?.trim().to_owned());
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 7\nmodel name\t: A CPU\n";
        assert_eq!(field_of(text, "model name").as_deref(), Some("A CPU"));
        assert_eq!(field_of(text, "model").as_deref(), Some("7"));
        assert_eq!(field_of(text, "name"), None);
    }

    #[test]
    fn this_machine_has_a_kernel_and_differs_from_none() {
        let own = Environment::probe();
        assert!(own.facts.contains_key("kernel") && own.differences(&own).is_empty());
        let other = Environment { facts: [("kernel".to_owned(), "another".to_owned())].into() };
        assert!(
            own.differences(&other)
                .iter()
                .any(|(name, _, theirs)| *name == "kernel" && *theirs == Some("another"))
        );
    }
}
