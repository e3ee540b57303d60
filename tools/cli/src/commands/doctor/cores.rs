//! The cores that this process may use: how many, how far apart, whose else, and how they tell the time.

use core::hint::black_box;
use std::time::Instant;

use farcall::Clock;
use farcall_lab::run::bench::Bench;
use farcall_lab::run::regime::{Regime, Standing};

use super::finding::Finding;
use super::kernel::{Kernel, chosen, numbers};
use crate::commands::processes::{self, cores::Taken};

/// Readings of a clock that are timed together.
const READINGS: u32 = 20_000;

/// A reading that takes longer leaves the processor's own counter for the kernel or the hypervisor.
const READING_NANOS_MAX: f64 = 100.0;

/// Sources of time that are read without a system call.
const FAST_SOURCES: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// The cores that this process may use.
pub fn allowed(kernel: &Kernel) -> Vec<usize> {
    numbers(&kernel.field("/proc/self/status", "Cpus_allowed_list").unwrap_or_default())
}

/// What is to be said of them.
pub fn findings(kernel: &Kernel) -> Vec<Finding> {
    let allowed = allowed(kernel);
    let mut findings = vec![
        number(kernel, &allowed),
        siblings(kernel, &allowed),
        distance(),
        governor(kernel),
        source(kernel),
        reading(),
    ];
    findings.extend(taken());
    findings
}

/// Processes that were put on a core, and may not use it any more.
fn taken() -> Vec<Finding> {
    let processes = processes::all().map(|found| found.processes).unwrap_or_default();
    let taken =
        processes.iter().filter_map(|process| Some((process.sample.pid, Taken::of(&process.sample)?)));
    let finding = |(pid, taken): (u32, Taken)| {
        Finding::warning(format!("process {pid}"), taken.to_string(), Taken::ADVICE)
    };
    taken.map(finding).collect()
}

fn number(kernel: &Kernel, allowed: &[usize]) -> Finding {
    const SUBJECT: &str = "cores";
    let online = kernel.text("/sys/devices/system/cpu/online").map(|list| numbers(&list).len());
    let of = online.map_or(String::new(), |online| format!(" of {online}"));
    match allowed {
        [] => Finding::note(SUBJECT, "not known: /proc does not say"),
        [only] => Finding::warning(
            SUBJECT,
            format!("1{of} may be used, number {only}: caller and server take turns on it"),
            "widen the affinity mask or the container's set of cores, or set endpoint.idle=block",
        ),
        cores => Finding::good(SUBJECT, format!("{}{of} may be used", cores.len())),
    }
}

/// Whether the first two cores, on which measurements run, are threads of one.
fn siblings(kernel: &Kernel, allowed: &[usize]) -> Finding {
    const SUBJECT: &str = "hardware threads";
    let [first, second, ..] = allowed else { return Finding::note(SUBJECT, "there is one core only") };
    let path = format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list");
    let Some(list) = kernel.text(&path) else {
        return Finding::note(SUBJECT, "not known: the kernel does not say which share a core");
    };
    let siblings = numbers(&list);
    if siblings.contains(second) {
        return Finding::warning(
            SUBJECT,
            format!("cores {first} and {second}, the first that may be used, are threads of one"),
            "place what polls on different cores: taskset, or FARCALL_CORE for each process",
        );
    }
    match siblings.len() {
        1 => Finding::good(SUBJECT, "one a core"),
        threads => {
            Finding::good(SUBJECT, format!("{threads} a core; the first two cores are different ones"))
        }
    }
}

/// Measured with two threads, for some milliseconds.
fn distance() -> Finding {
    const SUBJECT: &str = "distance of two cores";
    let measured = Bench::new().and_then(|bench| Ok((bench.cores()?, bench.standing()?)));
    let (cores, standing) = match measured {
        Ok(measured) => measured,
        Err(error) => return Finding::note(SUBJECT, format!("not measured: {error}")),
    };
    let Standing { distance_nanos, is_crowded } = standing;
    let state = format!(
        "{distance_nanos:.0} ns there and back between {} and {}: {}",
        cores.responder,
        cores.initiator,
        match Regime::of(standing) {
            Regime::Near | Regime::NearCrowded => "one L3 cache",
            Regime::Far | Regime::FarCrowded | Regime::Ranks =>
                "not one L3 cache, so that short messages take four times as long",
        }
    );
    if is_crowded == Some(true) {
        return Finding::warning(
            SUBJECT,
            format!("{state}; somebody else uses one of them"),
            "end other programs, or look again: other tenants of a virtual machine come and go",
        );
    }
    match Regime::of(standing) {
        Regime::Near | Regime::NearCrowded => Finding::good(SUBJECT, state),
        Regime::Far | Regime::FarCrowded | Regime::Ranks => Finding::note(SUBJECT, state),
    }
}

fn governor(kernel: &Kernel) -> Finding {
    const SUBJECT: &str = "frequency";
    match kernel.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").as_deref() {
        None => Finding::good(SUBJECT, "not the kernel's business, as on virtual machines"),
        Some("powersave") => Finding::warning(
            SUBJECT,
            "governor powersave: cores that wait become slow",
            "cpupower frequency-set -g performance",
        ),
        Some(governor) => Finding::good(SUBJECT, format!("governor {governor}")),
    }
}

fn source(kernel: &Kernel) -> Finding {
    const SUBJECT: &str = "clock source";
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match kernel.text(path).as_deref().map(chosen) {
        None => Finding::note(SUBJECT, "not known: the kernel does not say"),
        Some(source) if FAST_SOURCES.contains(&source) => Finding::good(SUBJECT, source),
        Some(source) => Finding::warning(
            SUBJECT,
            format!("{source}, which takes a system call to read"),
            "boot with clocksource=tsc if the processor's counter is steady; dmesg says why it was left",
        ),
    }
}

/// Times the clock that endpoints read.
fn reading() -> Finding {
    const SUBJECT: &str = "reading the clock";
    let clock = Clock::new();
    let begun = Instant::now();
    for _ in 0..READINGS {
        black_box(clock.now());
    }
    let nanos = begun.elapsed().as_nanos() as f64 / f64::from(READINGS);
    let state = format!("{nanos:.0} ns");
    if nanos <= READING_NANOS_MAX {
        return Finding::good(SUBJECT, state);
    }
    Finding::warning(
        SUBJECT,
        format!("{state}: the cycle counter is not read directly, or this core was taken away meanwhile"),
        "look again; if it stays, let the hypervisor pass the counter on (no trapping of rdtsc)",
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Good, Note, Warning};
    use super::super::kernel::tests::Machine;
    use super::*;

    const SIBLINGS: &str = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

    #[test]
    fn threads_of_one_core_are_told_from_cores() {
        let one = Machine::of(
            "siblings",
            &[(SIBLINGS, "0-1\n"), ("/proc/self/status", "Cpus_allowed_list:\t0-1\n")],
        );
        assert_eq!(allowed(&one.kernel), [0, 1]);
        assert_eq!(siblings(&one.kernel, &[0, 1]).severity, Warning);
        assert_eq!(siblings(&one.kernel, &[0, 2]).severity, Good);
        assert_eq!(siblings(&one.kernel, &[0]).severity, Note);
        assert_eq!(
            (number(&one.kernel, &[3]).severity, number(&one.kernel, &[0, 1]).severity),
            (Warning, Good)
        );
    }

    #[test]
    fn sources_of_time_that_cost_a_system_call_are_named() {
        for (name, severity) in [("tsc", Good), ("kvm-clock", Good), ("hpet", Warning), ("acpi_pm", Warning)]
        {
            let machine = Machine::of(&format!("clock-{name}"), &[(SOURCE, name)]);
            assert_eq!(source(&machine.kernel).severity, severity, "{name}");
        }
    }
}
