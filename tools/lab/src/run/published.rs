//! Figures that others published, to stand beside ours where a simulated fabric is meant to be theirs.

/// The fabric profile of the machines that the figures of [`clusterperf`] come from.
const CLUSTERPERF_FABRIC: &str = "connectx2-qdr";

const CLUSTERPERF: &str = include_str!("../../data/connectx2-qdr-clusterperf.csv");

/// How farcall is configured like the published systems: 8 us of a link of 32 Gb/s before the first grant.
const CLUSTERPERF_SETTINGS: [&str; 2] = ["basic.rtt_bytes=32000", "homa.rtt_bytes=32000"];

/// The assignments that configure farcall like the systems that have published figures on the fabric of that
/// profile.
pub fn clusterperf_settings(fabric: &str) -> &'static [&'static str] {
    if fabric == CLUSTERPERF_FABRIC { &CLUSTERPERF_SETTINGS } else { &[] }
}

/// How calls were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Calls that each client keeps in flight.
    pub in_flight: usize,
    /// Processes that call.
    pub clients: usize,
    /// Processes that answer.
    pub servers: usize,
}

/// A published figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The figure, in nanoseconds or bytes per second.
    pub value: f64,
}

impl Published {
    /// How far `ours` is off, as a part of the published figure.
    pub fn error_of(&self, ours: f64) -> f64 {
        ours / self.value - 1.0
    }
}

/// The figure that clusterperf's row of this name has on the fabric of that profile, if there is one.
///
/// `transport` is farcall's name; what counts is its protocol.
pub fn clusterperf(
    fabric: &str,
    transport: &str,
    configuration: Configuration,
    row: &str,
) -> Option<Published> {
    let (protocol, _) = transport.split_once('+')?;
    if fabric != CLUSTERPERF_FABRIC || configuration.clients != 1 {
        return None;
    }
    let (in_flight, servers) = (configuration.in_flight.to_string(), configuration.servers.to_string());
    let wanted = [protocol, &in_flight, &servers, row];
    rows().find(|fields| fields[..4] == wanted).map(|fields| Published { value: in_base_unit(&fields) })
}

fn rows() -> impl Iterator<Item = [&'static str; 6]> {
    let lines = CLUSTERPERF.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let fields: Vec<_> = line.split(',').collect();
        fields.try_into().expect("the embedded file has six columns")
    })
}

fn in_base_unit(fields: &[&str; 6]) -> f64 {
    let factor = match fields[5] {
        "us" => 1e3,
        "MB/s" => 1_048_576.0,
        unit => unreachable!("the embedded file has no unit {unit}"),
    };
    factor * fields[4].parse::<f64>().expect("the embedded file has figures")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_CALL: Configuration = Configuration { in_flight: 1, clients: 1, servers: 1 };

    #[test]
    fn every_row_is_a_figure_and_there_once() {
        let mut names: Vec<_> = rows().map(|fields| fields[..4].to_vec()).collect();
        assert!(rows().all(|fields| in_base_unit(&fields) > 0.0));
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!((all, names.len()), (120, 120));
    }

    #[test]
    fn figures_are_found_by_protocol_and_configuration() {
        let find = |transport, configuration, row| {
            clusterperf("connectx2-qdr", transport, configuration, row).map(|published| published.value)
        };
        assert_eq!(find("basic+sim", ONE_CALL, "echo100"), Some(3_900.0));
        assert_eq!(find("homa+sim", ONE_CALL, "echo1M"), Some(348_600.0));
        let two = Configuration { in_flight: 2, ..ONE_CALL };
        assert_eq!(find("basic+sim", two, "echo1M"), Some(660_100.0));
        assert_eq!(find("basic+sim", ONE_CALL, "echoBw100"), Some(22.6 * 1_048_576.0));
        assert_eq!(find("ring+sim", ONE_CALL, "echo100"), None);
        assert_eq!(find("basic+sim", Configuration { clients: 2, ..ONE_CALL }, "echo100"), None);
        assert_eq!(clusterperf("ideal", "basic+sim", ONE_CALL, "echo100"), None);
    }

    #[test]
    fn errors_are_relative() {
        assert!((Published { value: 4_000.0 }.error_of(3_000.0) + 0.25).abs() < 1e-12);
    }
}
