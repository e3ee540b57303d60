//! The environment variables by which a launcher tells a process its place in the cluster.

use std::ffi::OsString;
use std::path::PathBuf;

use super::LaunchError;
use super::hosts::HostPort;
use crate::names::{ETCD_SCHEME, EtcdPlace};

/// What addresses of registries may begin with.
pub const URL_SCHEME: &str = "farcall://";

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

/// Where names are kept, for processes without ranks: `host:port`, `farcall://host:port`,
/// `etcd://host:port/prefix` or `file:PATH`.
pub const NAMES_VARIABLE: &str = "FARCALL_NAMES";

/// All variables that say how a process was started; none of them is a parameter.
pub const LAUNCH_VARIABLES: [&str; 8] = [
    RANK_VARIABLE,
    SIZE_VARIABLE,
    RENDEZVOUS_VARIABLE,
    EXTERNAL_VARIABLE,
    HOSTS_VARIABLE,
    PARENT_VARIABLE,
    CORE_VARIABLE,
    NAMES_VARIABLE,
];

/// Where a process without a rank finds names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamesPlace {
    /// Nothing said otherwise.
    Default,
    /// In a registry.
    Registry(HostPort),
    /// In a file.
    File(PathBuf),
    /// In etcd.
    Etcd(EtcdPlace),
}

impl NamesPlace {
    /// What [`NAMES_VARIABLE`] says.
    pub(crate) fn from_env() -> Result<Self, LaunchError> {
        Self::from_lookup(|variable| std::env::var_os(variable))
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, LaunchError> {
        const EXPECTED: &str = "host:port, farcall://host:port, etcd://host:port/prefix or file:PATH";
        Ok(read(lookup, NAMES_VARIABLE, EXPECTED, Self::parse)?.unwrap_or(Self::Default))
    }

    /// Reads where names are.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("file:") {
            Some("") => None,
            Some(path) => Some(Self::File(path.into())),
            None if text.starts_with(ETCD_SCHEME) => EtcdPlace::parse(text).map(Self::Etcd),
            None => HostPort::parse_url(text).map(Self::Registry),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_a_registry_in_etcd_or_in_a_file() {
        let parse = |text: Option<&str>| NamesPlace::from_lookup(|_| text.map(OsString::from));
        let registry = HostPort::parse("[::1]:7117").expect("a place");
        assert_eq!(parse(None), Ok(NamesPlace::Default));
        for text in ["[::1]:7117", "farcall://[::1]:7117"] {
            assert_eq!(parse(Some(text)), Ok(NamesPlace::Registry(registry.clone())));
        }
        assert_eq!(parse(Some("file:/etc/names")), Ok(NamesPlace::File("/etc/names".into())));
        let etcd = EtcdPlace::parse("etcd://a:2379/eu").map(NamesPlace::Etcd);
        assert_eq!(parse(Some("etcd://a:2379/eu")).ok(), etcd);
        for text in ["", "host", "file:", "http://host:1", "farcall://host", "etcd://host"] {
            assert!(parse(Some(text)).is_err(), "{text}");
        }
    }
}
