//! How much memory the lane of a peer may pin.
//!
//! A lane takes memory that the card can reach: our ring, and as much as the peer's ring has for records that
//! leave. The second is the peer's choice, and all lanes of a process share what may be pinned; so both have
//! a limit, and a peer that is over it is refused before anything is made for it.

use farcall_driver::LaneFault;

use super::socket::unusable;
use crate::config::VerbsLaneConfig;

/// Whether a lane to a peer with a ring of this many bytes may be made, when `pinned_bytes` are pinned
/// already.
pub fn check(config: &VerbsLaneConfig, pinned_bytes: u64, peer_ring_bytes: u64) -> Result<(), LaneFault> {
    // A peer that is configured as we are is always possible.
    let ring_bytes_max = config.peer_ring_bytes_max.max(config.ring_bytes) as u64;
    if peer_ring_bytes > ring_bytes_max {
        return Err(unusable(format!(
            "its ring of {peer_ring_bytes} bytes is over the limit of {ring_bytes_max}; set verbs.peer_ring_bytes"
        )));
    }
    let (more, most) = (config.ring_bytes as u64 + peer_ring_bytes, config.pinned_bytes_max as u64);
    if pinned_bytes + more > most {
        return Err(unusable(format!(
            "{pinned_bytes} bytes are pinned, and {more} more are over the limit of {most}; set verbs.pinned_bytes"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(pinned_bytes: u64, peer_ring_bytes: u64) -> Option<String> {
        let config = VerbsLaneConfig {
            ring_bytes: 64 << 10,
            peer_ring_bytes_max: 1 << 20,
            pinned_bytes_max: 10 << 20,
            ..VerbsLaneConfig::default()
        };
        match check(&config, pinned_bytes, peer_ring_bytes) {
            Ok(()) => None,
            Err(LaneFault::Unacceptable { why }) => Some(why),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_peer_does_not_decide_how_much_is_pinned_for_it() {
        assert_eq!(refusal(0, 1 << 20), None);
        assert!(refusal(0, 2 << 20).is_some_and(|why| why.contains("verbs.peer_ring_bytes")));
        assert!(refusal(0, 1 << 30).is_some());
    }

    #[test]
    fn all_peers_together_pin_no_more_than_the_limit() {
        assert_eq!(refusal((10 << 20) - (128 << 10), 64 << 10), None);
        assert!(refusal((10 << 20) - (128 << 10) + 1, 64 << 10).is_some_and(|why| why.contains("pinned")));
    }

    #[test]
    fn a_ring_as_long_as_our_own_is_always_possible() {
        let config = VerbsLaneConfig { peer_ring_bytes_max: 4096, ..VerbsLaneConfig::default() };
        assert!(check(&config, 0, config.ring_bytes as u64).is_ok());
    }
}
