//! Parameters that nothing of a transport reads: set or varied they would change nothing, and a figure beside
//! them would be read as if they had.

use farcall::TransportKind;
use farcall::parameters::PARAMETERS;
use farcall_lab::explain::vary::Factor;

use super::measuring::Varying;
use super::{FABRIC, Tuning, name_of};
use crate::failure::Failure;

/// Groups that every endpoint reads, whatever its transport; all but simulated ones read `net`. A transport
/// that cannot seal refuses `security`.
const OF_ALL: [&str; 4] = ["endpoint", "log", "names", "security"];

/// Whether a transport reads a parameter. Names that there are not are for the settings to refuse.
fn reads(transport: TransportKind, parameter: &str) -> bool {
    let is_known = PARAMETERS.iter().any(|known| known.name == parameter);
    let group = parameter.split('.').next().unwrap_or_default();
    let parts: Vec<&str> = transport.name().split('+').collect();
    let has = |part: &str| parts.contains(&part);
    match group {
        _ if !is_known || OF_ALL.contains(&group) || has("auto") => true,
        "peers" => has("basic") || has("homa"),
        // Packets are lost, lanes only held up; a library sees to its own.
        "fault" => has("basic") || has("homa") || (has("ring") && is_of_lanes(parameter)),
        "net" => !has("sim"),
        group => has(group) && !is_of_others(parameter, &parts),
    }
}

/// What others of its group read, and not this pair: a ring of a simulated fabric has the length of its lanes
/// (`fabric.lanes.ring_bytes`); packets are not lent, and libraries have no packets.
fn is_of_others(parameter: &str, parts: &[&str]) -> bool {
    let has = |part: &str| parts.contains(&part);
    match parameter {
        "ring.ring_bytes" => has("sim"),
        "verbs.connect" | "verbs.block_bytes" | "verbs.peer_ring_bytes" | "verbs.pinned_bytes" => {
            !has("ring")
        }
        "ofi.mtu_bytes" => !has("basic") && !has("homa"),
        "ofi.eager_bytes" | "ofi.calls_max" | "ofi.message_bytes_max" => has("basic") || has("homa"),
        _ => false,
    }
}

fn is_of_lanes(parameter: &str) -> bool {
    ["fault.seed", "fault.delay_permille", "fault.delay_time"].contains(&parameter)
}

/// The sentence about a parameter that none of these reads.
fn needless(option: &str, parameter: &str, transports: &[TransportKind]) -> Failure {
    let names: Vec<&str> = transports.iter().map(|transport| transport.name()).collect();
    Failure::Usage(format!(
        "{option}: nothing of {} reads `{parameter}`; leave it out, or choose a --transport that does",
        names.join(", ")
    ))
}

/// Refuses assignments of `--set` to parameters that none of the transports reads.
pub fn check_settings_needed(settings: &[String], transports: &[TransportKind]) -> Result<(), Failure> {
    let set = settings.iter().filter(|text| !text.starts_with(FABRIC));
    let mut names = set.map(|text| text.split('=').next().unwrap_or_default());
    let needless_one = names.find(|name| !transports.iter().any(|&transport| reads(transport, name)));
    needless_one.map_or(Ok(()), |name| Err(needless("--set", name, transports)))
}

/// Refuses an option that stands for a parameter which the transport does not read.
pub fn check_option_needed(option: &str, parameter: &str, transport: TransportKind) -> Result<(), Failure> {
    if reads(transport, parameter) { Ok(()) } else { Err(needless(option, parameter, &[transport])) }
}

impl Tuning {
    /// Refuses parameters that none of the transports reads.
    pub fn check_needed(&self, transports: &[TransportKind]) -> Result<(), Failure> {
        check_settings_needed(&self.settings, transports)
    }
}

impl Varying {
    /// Of transports that nobody named those that read all that is varied.
    pub fn of_interest(&self, transports: Vec<TransportKind>) -> Vec<TransportKind> {
        transports.into_iter().filter(|&transport| self.needless_in(transport).is_none()).collect()
    }

    /// Refuses to vary what none of the transports reads: a difference found there would be chance. What is
    /// varied between two values of its own is not set as well.
    pub fn check_needed(&self, tuning: &Tuning, transports: &[TransportKind]) -> Result<(), Failure> {
        self.check_not_set(tuning)?;
        let read_by_one = transports.iter().any(|&transport| self.needless_in(transport).is_none());
        let needless_in = |&transport: &TransportKind| self.needless_in(transport);
        match transports.first().and_then(needless_in).filter(|_| !read_by_one) {
            Some(name) => Err(needless("--vary", name, transports)),
            None => Ok(()),
        }
    }

    fn check_not_set(&self, tuning: &Tuning) -> Result<(), Failure> {
        for varied in self.vary.iter().filter(|text| Factor::has_two_levels(text)) {
            if let Some(set) = tuning.settings.iter().find(|set| name_of(set) == name_of(varied)) {
                return Err(Failure::Usage(format!(
                    "--vary {varied} has both values itself, and nothing would use --set {set}; leave it out"
                )));
            }
        }
        Ok(())
    }

    fn needless_in(&self, transport: TransportKind) -> Option<&str> {
        let names = self.vary.iter().map(|text| text.split('=').next().unwrap_or_default());
        names.filter(|name| !name.starts_with(FABRIC)).find(|name| !reads(transport, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_reads_what_its_parts_have() {
        for (transport, parameter, expected) in [
            (TransportKind::RING_SHM, "ring.ring_bytes", true),
            (TransportKind::RING_SHM, "homa.overcommit", false),
            (TransportKind::RING_SHM, "udp.mtu_bytes", false),
            (TransportKind::RING_SHM, "fault.drop_permille", false),
            (TransportKind::RING_SHM, "fault.delay_permille", true),
            (TransportKind::HOMA_UDP, "homa.overcommit", true),
            (TransportKind::HOMA_UDP, "fault.drop_permille", true),
            (TransportKind::HOMA_UDP, "ring.inline_bytes", false),
            (TransportKind::BASIC_SIM, "endpoint.idle", true),
            (TransportKind::BASIC_SIM, "net.interface", false),
            (TransportKind::BASIC_UDP, "net.interface", true),
            (TransportKind::RING_SIM, "ring.ring_bytes", false),
            (TransportKind::RING_SIM, "ring.inline_bytes", true),
            (TransportKind::RING_VERBS, "verbs.block_bytes", true),
            (TransportKind::BASIC_VERBS, "verbs.block_bytes", false),
            (TransportKind::BASIC_VERBS, "verbs.mtu", true),
            (TransportKind::OFI, "ofi.mtu_bytes", false),
            (TransportKind::OFI, "ofi.eager_bytes", true),
            (TransportKind::BASIC_OFI, "ofi.mtu_bytes", true),
            (TransportKind::BASIC_OFI, "ofi.eager_bytes", false),
            (TransportKind::BASIC_SIM, "there.is_none", true),
        ] {
            assert_eq!(reads(transport, parameter), expected, "{transport} {parameter}");
        }
    }
}
