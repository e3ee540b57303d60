//! What a caller can choose about packets through shared memory.

use core::time::Duration;
use std::io;

use super::layout::Layout;
use crate::handshake::RING_BYTES_MAX;

/// The least and the most slots that a peer can get.
const SLOTS: core::ops::RangeInclusive<usize> = 16..=4096;

/// The shortest and the longest MTU, in bytes.
const MTU_BYTES: core::ops::RangeInclusive<usize> = 64..=65_535;

/// The most packets that a configuration can let wait.
const QUEUE_PACKETS_MAX: usize = 1 << 16;

/// The configuration of a [`ShmDatagram`](crate::ShmDatagram).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShmDatagramConfig {
    /// The longest packet, in bytes; 64 to 65535. All peers should choose the same.
    pub mtu_bytes: usize,
    /// How many packets of one peer can be on their way or held here at a time; 16 to 4096. Each peer has its own
    /// slots, in this process's memory; only those that were ever used cost any.
    pub slots_per_peer: usize,
    /// Packets that wait at most, because their peer's slots are full or its connection is not up yet; 1 to 65536.
    pub queue_packets: usize,
    /// Whether the owner ever blocks; if not, peers save the look at its doorbell.
    pub may_sleep: bool,
    /// Whether what is long is copied past the caches; with `None`, where that is faster.
    pub past_caches: Option<bool>,
    /// How long a peer may take to answer a connection.
    pub connect_within: Duration,
    /// How long a peer may leave all of its slots full before packets to it are dropped instead of kept, so that a
    /// peer that hangs does not fill the queue for all others.
    pub stall_within: Duration,
}

impl Default for ShmDatagramConfig {
    fn default() -> Self {
        Self {
            mtu_bytes: 8192,
            slots_per_peer: 256,
            queue_packets: 256,
            may_sleep: true,
            past_caches: None,
            connect_within: Duration::from_secs(5),
            stall_within: Duration::from_millis(100),
        }
    }
}

impl ShmDatagramConfig {
    /// How the slots lie in memory, if everything is in its range.
    pub(crate) fn layout(&self) -> io::Result<Layout> {
        if !MTU_BYTES.contains(&self.mtu_bytes) {
            return Err(io::Error::other("an MTU is 64 to 65535 bytes"));
        }
        if !SLOTS.contains(&self.slots_per_peer) {
            return Err(io::Error::other("a peer has 16 to 4096 slots"));
        }
        if !(1..=QUEUE_PACKETS_MAX).contains(&self.queue_packets) {
            return Err(io::Error::other("the queue takes 1 to 65536 packets"));
        }
        Layout::new(self.slots_per_peer, self.mtu_bytes)
            .filter(|layout| layout.ring_bytes() <= RING_BYTES_MAX)
            .ok_or_else(|| io::Error::other("the slots of a peer need more than 1G"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused() {
        let good = ShmDatagramConfig::default();
        assert!(good.layout().is_ok());
        for bad in [
            ShmDatagramConfig { mtu_bytes: 63, ..good.clone() },
            ShmDatagramConfig { mtu_bytes: 65_536, ..good.clone() },
            ShmDatagramConfig { slots_per_peer: 15, ..good.clone() },
            ShmDatagramConfig { slots_per_peer: 4097, ..good.clone() },
            ShmDatagramConfig { queue_packets: 0, ..good.clone() },
            ShmDatagramConfig { queue_packets: QUEUE_PACKETS_MAX + 1, ..good },
        ] {
            assert!(bad.layout().is_err(), "{bad:?}");
        }
    }
}
