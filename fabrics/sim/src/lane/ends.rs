//! The two ends of a simulated lane.

use core::ops::Range;
use std::sync::Arc;

use farcall_base::Instant;
use farcall_driver::{LaneFault, LaneReceiver, LaneSender, Loan, RECORD_HEADER_BYTES, Record, RecordKind};

use super::ring::Ring;
use crate::host::Host;

/// The writing end: the ring in the peer's memory, some time later.
pub struct SimLaneSender {
    host: Host,
    connection: u32,
    side: usize,
    ring: Arc<Ring>,
    /// The record that is being written; as long as the longest one yet.
    draft: Vec<u8>,
}

impl SimLaneSender {
    pub(super) fn new(host: Host, connection: u32, side: usize, ring: Arc<Ring>) -> Self {
        Self { host, connection, side, ring, draft: Vec::new() }
    }
}

impl LaneSender for SimLaneSender {
    fn ring_bytes(&self) -> usize {
        self.ring.bytes()
    }

    fn begin(&mut self, offset: usize, length: usize) {
        assert!(self.ring.has_place(offset, length), "a record outside the ring");
    }

    fn record(&mut self, offset: usize, length: usize) -> &mut [u8] {
        assert!(self.ring.has_place(offset, length), "a record outside the ring");
        let payload_bytes = length - RECORD_HEADER_BYTES;
        if self.draft.len() < payload_bytes {
            self.draft.resize(payload_bytes, 0);
        }
        &mut self.draft[..payload_bytes]
    }

    fn write_payload(&mut self, offset: usize, at: usize, payload: &[u8]) {
        self.record(offset, RECORD_HEADER_BYTES + at + payload.len())[at..].copy_from_slice(payload);
    }

    fn publish(&mut self, _kind: RecordKind, offset: usize, length: usize, next_offset: usize) {
        assert!(
            self.ring.has_place(offset, length) && self.ring.has_place(next_offset, RECORD_HEADER_BYTES),
            "a record outside the ring"
        );
        let payload = &self.draft[..length - RECORD_HEADER_BYTES];
        let mut world = self.host.fabric().lock();
        if world.is_current(self.host.id(), self.host.incarnation()) {
            world.publish(self.connection, self.side, offset, next_offset, payload);
        }
    }

    /// Simulated hosts are woken by what arrives.
    fn ring_doorbell(&mut self) -> bool {
        true
    }

    fn copy_payload(&mut self, _kind: RecordKind, loan: &mut Loan, payload: &[u8]) {
        loan.copy_from_slice(payload);
    }

    /// Simulated memory is there. What is given back is zero afterwards, as pages are that come again.
    fn fit(&mut self, used_bytes: usize, kept: Option<Range<usize>>) {
        if let Some(kept) = kept {
            self.ring.clear_all_but(used_bytes, &kept);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

/// The reading end: the ring in this host's memory.
pub struct SimLaneReceiver {
    host: Host,
    ring: Arc<Ring>,
}

impl SimLaneReceiver {
    pub(super) fn new(host: Host, ring: Arc<Ring>) -> Self {
        Self { host, ring }
    }
}

impl LaneReceiver for SimLaneReceiver {
    fn may_have_record(&self, _offset: usize) -> bool {
        true
    }

    #[inline]
    fn peek(&self, offset: usize, _bytes: Range<usize>) -> Result<Option<Record<'_>>, LaneFault> {
        let Some((record, fresh)) = self.ring.peek(offset)? else { return Ok(None) };
        if fresh {
            self.host.fabric().lock().charge_record(self.host.id(), record.len());
        }
        Ok(Some(record))
    }
}
