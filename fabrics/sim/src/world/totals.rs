//! What has happened on the whole fabric: sums, and a fingerprint of every event.

use crate::time::Picos;

/// Sums over a fabric, since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Simulated time.
    pub now: Picos,
    /// Events of all kinds, turns of hosts included.
    pub events: u64,
    /// Events of packets: each stage of a way that one packet passed at one time.
    pub packet_events: u64,
    /// Turns that hosts have run.
    pub turns: u64,
    /// Packets that hosts have sent; those of lanes included, also below.
    pub packets_sent: u64,
    /// Packets that reached the memory of their host.
    pub packets_delivered: u64,
    /// Payload of the packets delivered.
    pub bytes_delivered: u64,
    /// Packets that found the buffer of a switch's port full.
    pub drops_port: u64,
    /// Packets that found the buffer of the receiving NIC full.
    pub drops_nic: u64,
    /// Packets that found their host's receive queue full.
    pub drops_receive_queue: u64,
    /// Packets to hosts that were down, or from hosts that crashed before they left.
    pub drops_host_down: u64,
    /// Packets lost to a fault.
    pub drops_fault: u64,
    /// Packets lost to a partition.
    pub drops_partition: u64,
    /// Packets that a fault sent twice.
    pub duplicated: u64,
    /// Packets that a fault let others overtake.
    pub reordered: u64,
    /// Packets that a fault delayed.
    pub delayed: u64,
    /// How long faults have held packets up, all together.
    pub held_up: Picos,
    /// Packets whose bits a fault flipped.
    pub corrupted: u64,
    /// Packets that a fault cut short.
    pub truncated: u64,
    /// The most events that have waited at a time.
    pub peak_events: usize,
    /// The most packets that have been on the fabric at a time.
    pub peak_packets: usize,
    /// Memory that the fabric holds for events, packets and rings of lanes, in bytes. Of the rings only what
    /// has been written to is really there.
    pub memory_bytes: usize,
}

impl Totals {
    /// Packets that were lost, for whatever reason.
    pub fn drops(&self) -> u64 {
        self.drops_port
            + self.drops_nic
            + self.drops_receive_queue
            + self.drops_host_down
            + self.drops_fault
            + self.drops_partition
    }
}

/// The multiplier of FxHash, of rustc: odd, and its bits well mixed.
const MULTIPLIER: u64 = 0x51_7c_c1_b7_27_22_0a_95;

/// A fingerprint of a run: every event goes into it, so that two runs with the same one were the same run. It
/// is for comparing runs of one program, not a check against malice; what counts is that it costs little.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceHash(u64);

impl TraceHash {
    /// Notes that something of a `kind` happened.
    #[inline]
    pub fn note(&mut self, at: Picos, kind: u8, who: u32, what: u64) {
        self.word(at.0);
        self.word(u64::from(kind) << 32 | u64::from(who));
        self.word(what);
    }

    /// The fingerprint so far.
    pub fn value(self) -> u64 {
        self.0
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    }
}
