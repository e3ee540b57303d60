//! The grammar of `farcall doctor`.

use clap::Args;
use farcall::bootstrap::HostPort;

use crate::output::Destination;

/// The port of probes, unless an address has another one.
pub const PORT: u16 = 7119;

/// `farcall doctor`.
///
/// Exits with 1 if something must be mended, with 0 otherwise, warnings or not.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Another machine, on which `farcall doctor --listen` runs: the path to it is examined, too
    #[arg(value_name = "PEER[:PORT]", value_parser = peer, conflicts_with = "listen")]
    pub peer: Option<HostPort>,
    /// Answers the probes of other machines, until it is ended
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, default_missing_value = "0.0.0.0:7119")]
    pub listen: Option<String>,
    /// Writes one JSON object for each finding to a file, or to standard output (instead of text) with `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// A host with or without a port.
fn peer(text: &str) -> Result<HostPort, String> {
    let bare_v6 = text.parse::<core::net::Ipv6Addr>().is_ok();
    let with_port = if bare_v6 { format!("[{text}]:{PORT}") } else { format!("{text}:{PORT}") };
    let whole = if bare_v6 { None } else { HostPort::parse(text) };
    whole.or_else(|| HostPort::parse(&with_port)).ok_or_else(|| {
        format!("`{text}` is not a host, with or without a port, such as node7 or 10.0.0.7:{PORT}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_may_do_without_a_port() {
        let shown = |text| peer(text).map(|place| place.to_string());
        assert_eq!(shown("node7"), Ok("node7:7119".to_owned()));
        assert_eq!(shown("node7:99"), Ok("node7:99".to_owned()));
        assert_eq!(shown("::1"), Ok("[::1]:7119".to_owned()));
        assert_eq!(shown("[::1]:99"), Ok("[::1]:99".to_owned()));
        assert!(peer("").is_err() && peer("node7:99999").is_err());
    }
}
