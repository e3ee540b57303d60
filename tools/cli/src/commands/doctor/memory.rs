//! Memory: files that processes share, pages, and whether counters can be read.

use farcall_lab::units::Size;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::finding::Finding;
use super::kernel::{Kernel, chosen};
use crate::ahead::memory::memory_words;

/// The length of the file that is tried.
const TRIED_BYTES: u64 = 1 << 20;

/// What is to be said of the memory of this machine.
pub fn findings(kernel: &Kernel, pins: bool) -> Vec<Finding> {
    vec![shared(kernel), huge_pages(kernel, pins), transparent(kernel), available(kernel), processes(kernel)]
}

/// Makes a sealed memory file as rings of processes of one machine are.
fn shared(kernel: &Kernel) -> Finding {
    const SUBJECT: &str = "memory files";
    const SETTING: &str = "/proc/sys/vm/memfd_noexec";
    let tried =
        memfd_create("farcall-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).and_then(|file| {
            ftruncate(&file, TRIED_BYTES)?;
            fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)
        });
    let policy = kernel.number(SETTING).filter(|policy| *policy > 0);
    let set = policy.map_or(String::new(), |policy| format!(" (vm.memfd_noexec={policy})"));
    match tried {
        Ok(()) => Finding::good(SUBJECT, format!("can be made and sealed{set}")),
        Err(error) => Finding::mend(
            SUBJECT,
            format!("cannot be made and sealed: {error}{set}"),
            "without them nothing is shared: lift the limit or the filter of system calls (seccomp) that refuses",
        ),
    }
}

fn huge_pages(kernel: &Kernel, pins: bool) -> Finding {
    const SUBJECT: &str = "huge pages";
    let of = |name: &str| {
        let text = kernel.field("/proc/meminfo", name)?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    let (Some(total), Some(free)) = (of("HugePages_Total"), of("HugePages_Free")) else {
        return Finding::note(SUBJECT, "not known: /proc/meminfo does not say");
    };
    let of_size =
        of("Hugepagesize").map_or(String::new(), |kib| format!(" of {}", Size((kib << 10) as usize)));
    match (total, free) {
        (0, _) if pins => Finding::note(SUBJECT, "none reserved; buffers of RDMA lie in small ones")
            .with("sysctl vm.nr_hugepages=64 makes registered memory cheaper for the device"),
        (0, _) => {
            Finding::good(SUBJECT, "none reserved, and none needed: only buffers of RDMA would use them")
        }
        (total, free) => Finding::good(SUBJECT, format!("{free} of {total}{of_size} are free")),
    }
}

fn transparent(kernel: &Kernel) -> Finding {
    const SUBJECT: &str = "transparent huge pages";
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
    match kernel.text(&format!("{FOLDER}/enabled")).as_deref().map(chosen) {
        None => Finding::note(SUBJECT, "not known: the kernel does not say"),
        Some("never") => Finding::note(SUBJECT, "never: a store's memory lies in small pages")
            .with("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
        Some(mode) => Finding::good(SUBJECT, mode),
    }
}

fn available(kernel: &Kernel) -> Finding {
    const SUBJECT: &str = "memory available";
    /// Below this much a store with its default settings does not fit.
    const BYTES_MIN: u64 = 512 << 20;
    match kernel.memory_available() {
        None => Finding::note(SUBJECT, "not known: /proc/meminfo does not say"),
        Some(bytes) if bytes < BYTES_MIN => Finding::warning(
            SUBJECT,
            memory_words(bytes),
            "end other programs, or give a store less with `farcall kv serve --memory`",
        ),
        Some(bytes) => Finding::good(SUBJECT, memory_words(bytes)),
    }
}

/// Whether the files are there by which `ps`, `top` and `stat` read other processes.
fn processes(kernel: &Kernel) -> Finding {
    const SUBJECT: &str = "/proc";
    if kernel.link("/proc/self/exe").is_some() {
        return Finding::good(SUBJECT, "is there: `farcall ps`, `top` and `stat` can read counters");
    }
    Finding::warning(
        SUBJECT,
        "cannot be read: `farcall ps`, `top` and `stat` see nothing, and measurements cannot start processes",
        "mount -t proc proc /proc",
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Good, Note, Warning};
    use super::super::kernel::tests::Machine;
    use super::*;

    #[test]
    fn pages_and_memory_are_read() {
        let machine = Machine::of(
            "memory",
            &[
                (
                    "/proc/meminfo",
                    "MemAvailable: 1024000 kB\nHugePages_Total: 8\nHugePages_Free: 3\nHugepagesize: 2048 kB\n",
                ),
                ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ],
        );
        let kernel = &machine.kernel;
        assert_eq!(huge_pages(kernel, true).state, "3 of 8 of 2M are free");
        assert_eq!(transparent(kernel), Finding::good("transparent huge pages", "madvise"));
        assert_eq!(available(kernel), Finding::good("memory available", "1000 MiB"));
        assert_eq!(processes(kernel).severity, Warning);
    }

    #[test]
    fn what_is_not_there_is_judged_by_what_needs_it() {
        let machine = Machine::of(
            "memory-none",
            &[
                ("/proc/meminfo", "MemAvailable: 1024 kB\nHugePages_Total: 0\nHugePages_Free: 0\n"),
                ("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
            ],
        );
        let kernel = &machine.kernel;
        assert_eq!((huge_pages(kernel, false).severity, huge_pages(kernel, true).severity), (Good, Note));
        assert_eq!((transparent(kernel).severity, available(kernel).severity), (Note, Warning));
    }
}
