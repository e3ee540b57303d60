//! `--install`: the peers that are missing, from the packages of the Debian system.

use std::process::Command;

use farcall_lab::compare::peers::Peer;

use crate::failure::Failure;

/// The packages of those peers that are not here.
fn packages_of(peers: &[Peer]) -> Vec<&'static str> {
    let missing = peers.iter().filter(|peer| peer.missing().is_some());
    let mut packages: Vec<&str> = missing.flat_map(|peer| peer.packages()).copied().collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Refuses to install anything as a user who cannot.
pub fn check(peers: &[Peer]) -> Result<(), Failure> {
    let packages = packages_of(peers);
    if packages.is_empty() || is_root() {
        return Ok(());
    }
    let line = format!("apt-get install {}", packages.join(" "));
    Err(Failure::Run(format!("--install needs root; run `{line}` as root, or leave --install out")))
}

/// Installs the packages of those peers that are not here.
pub fn install(peers: &[Peer]) -> Result<(), Failure> {
    let packages = packages_of(peers);
    if packages.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install {}", packages.join(" "));
    let mut command = Command::new("apt-get");
    command.args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(&packages);
    // A package's server would otherwise be asked about on the terminal.
    let output = command.env("DEBIAN_FRONTEND", "noninteractive").output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let why = text
                .lines()
                .rev()
                .find(|line| !line.trim().is_empty())
                .unwrap_or("it says nothing")
                .to_owned();
            Err(Failure::Run(format!("`{line}` failed: {why}; `apt-get update` may be needed")))
        }
        Err(error) => Err(Failure::Run(format!("--install needs apt-get, which is not here: {error}"))),
    }
}

/// Whether the effective user is root, as the system's own table of processes says.
fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.and_then(|users| users.split_whitespace().nth(1)) == Some("0")
}
