//! How fast messages leave.
//!
//! What a network card has in its queue cannot be overtaken any more, neither by a shorter message nor by
//! priority. So packets of messages are held back while the card has more to do than a short time's work; the
//! time is reckoned from the link's rate, as in HomaModule, because cards do not tell. Control packets are
//! never held back.

use core::time::Duration;

use farcall_base::Instant;

/// What a packet occupies on an Ethernet beside its own bytes: preamble, frame, gap, IPv4 and UDP headers.
const OVERHEAD_BYTES: u64 = 66;

const PICOS_PER_NANO: u64 = 1000;

/// An estimate of the queue of the network card.
#[derive(Debug)]
pub(super) struct Pacer {
    /// `None` while the link is not known: no packet is held back.
    picos_per_byte: Option<u64>,
    backlog: Duration,
    /// When the card will have sent all that it was given, in picoseconds.
    idle_at_picos: u64,
}

impl Pacer {
    pub(super) fn new(link_bits_per_second: Option<u64>, backlog: Duration) -> Self {
        let picos_per_byte = link_bits_per_second.map(|bits| 8_000_000_000_000_u64.div_ceil(bits));
        Self { picos_per_byte, backlog, idle_at_picos: 0 }
    }

    /// Until when the next packet has to wait; `None` when it may go.
    #[inline]
    pub(super) fn hold_until(&self, now: Instant) -> Option<Instant> {
        self.picos_per_byte?;
        let idle_at = Instant::from_nanos(self.idle_at_picos / PICOS_PER_NANO);
        let ahead = idle_at.since(now).checked_sub(self.backlog)?;
        (!ahead.is_zero()).then(|| now + ahead)
    }

    /// A packet of `bytes` was given to the card.
    #[inline]
    pub(super) fn sent(&mut self, now: Instant, bytes: usize) {
        let Some(picos_per_byte) = self.picos_per_byte else { return };
        let busy_until = self.idle_at_picos.max(now.as_nanos().saturating_mul(PICOS_PER_NANO));
        self.idle_at_picos = busy_until.saturating_add((bytes as u64 + OVERHEAD_BYTES) * picos_per_byte);
    }
}
