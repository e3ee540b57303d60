//! What processes hold and leave behind, as the system tells it.

use std::collections::BTreeMap;

/// The descriptors of shared things that this process has open, and its mappings of shared memory: how many
/// of each kind.
pub fn holdings() -> BTreeMap<String, usize> {
    let mut holdings = BTreeMap::new();
    let entries = std::fs::read_dir("/proc/self/fd").expect("a process can see its descriptors");
    for path in entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()) {
        let target = path.to_string_lossy();
        let kind = target.split(":[").next().unwrap_or_default();
        if kind == "socket" || kind.starts_with("/memfd:farcall") || target.contains("eventfd") {
            *holdings.entry(kind.to_owned()).or_default() += 1;
        }
    }
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a process can see its mappings");
    for name in maps.lines().filter_map(|line| line.split("/memfd:farcall").nth(1)) {
        *holdings.entry(format!("mapping of farcall{name}")).or_default() += 1;
    }
    holdings
}

/// The abstract names of the Unix sockets that a living process has.
pub fn socket_names(process: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).expect("the process lives");
    let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let inodes: Vec<String> = links
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let of_process = unix_sockets().into_iter().filter(|(inode, _)| inodes.contains(inode));
    of_process.filter_map(|(_, name)| name).collect()
}

/// The abstract names of all Unix sockets.
pub fn all_socket_names() -> Vec<String> {
    unix_sockets().into_iter().filter_map(|(_, name)| name).collect()
}

/// Inode and abstract name of each Unix socket.
fn unix_sockets() -> Vec<(String, Option<String>)> {
    let table = std::fs::read_to_string("/proc/net/unix").expect("the system lists its sockets");
    let row = |line: &str| {
        let mut fields = line.split_whitespace().skip(6);
        let inode = fields.next()?.to_owned();
        Some((inode, fields.next().filter(|name| name.starts_with('@')).map(str::to_owned)))
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// Named shared memory of ours: there is none at any time.
pub fn named_shared_memory() -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("farcall")).collect()
}

/// The memory of this process.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process can see its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}
