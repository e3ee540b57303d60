//! The environment variables by which a launcher tells a process its place in the cluster.

use std::ffi::OsString;

use super::LaunchError;

/// This process's rank, from 0.
pub const RANK_VARIABLE: &str = "FARCALL_RANK";
/// The number of ranks.
pub const SIZE_VARIABLE: &str = "FARCALL_SIZE";
/// `host:port` of the rendezvous.
pub const RENDEZVOUS_VARIABLE: &str = "FARCALL_RENDEZVOUS";
/// `1` when somebody other than rank 0 serves the rendezvous.
pub const EXTERNAL_VARIABLE: &str = "FARCALL_RENDEZVOUS_EXTERNAL";
/// `hostA:port,hostB:port,…`, one entry for each rank.
pub const HOSTS_VARIABLE: &str = "FARCALL_HOSTS";
/// The process that started this one and that it must not outlive.
pub const PARENT_VARIABLE: &str = "FARCALL_PARENT";
/// The processor core that the starting thread is to run on.
pub const CORE_VARIABLE: &str = "FARCALL_CORE";

/// All variables that say how a process was started; none of them is a parameter.
pub const LAUNCH_VARIABLES: [&str; 7] = [
    RANK_VARIABLE,
    SIZE_VARIABLE,
    RENDEZVOUS_VARIABLE,
    EXTERNAL_VARIABLE,
    HOSTS_VARIABLE,
    PARENT_VARIABLE,
    CORE_VARIABLE,
];

/// Reads one variable; `expected` completes the sentence "is not …".
pub(super) fn read<T>(
    lookup: impl Fn(&str) -> Option<OsString>,
    variable: &'static str,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, LaunchError> {
    let Some(value) = lookup(variable) else { return Ok(None) };
    match value.to_str().and_then(|text| parse(text.trim())) {
        Some(parsed) => Ok(Some(parsed)),
        None => Err(LaunchError::Invalid { variable, text: value.to_string_lossy().into_owned(), expected }),
    }
}
