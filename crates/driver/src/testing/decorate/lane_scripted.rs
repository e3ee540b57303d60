//! A lane driver that plays a part, for the decorators' own tests: a connection is up as soon as it is asked
//! for, and the ring from the peer holds one record at offset 0 and a damaged one at 128. It has no memory to
//! lend.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use crate::{
    Block, BlockDescriptor, LaneDriver, LaneEvent, LaneFault, LaneId, LaneLimits, LaneReceiver, LaneSender,
    Loan, LoanError, RECORD_HEADER_BYTES, Record, RecordKind, Wait,
};
use farcall_base::{Address, AddressError, Instant, Principal};

const RING_BYTES: usize = 4096;

/// The record at offset 0, in whole words because records are aligned.
static RECORD: [u64; 3] = [1, 2, 3];

/// The driver.
#[derive(Default)]
pub struct Scripted {
    lanes: u32,
    events: VecDeque<LaneEvent>,
    published: Arc<Mutex<Vec<usize>>>,
}

impl Scripted {
    /// The offsets of all records that reached the peers.
    pub fn published(&self) -> Arc<Mutex<Vec<usize>>> {
        self.published.clone()
    }
}

/// Connects, sees the connection, and takes its ends.
pub fn connected<L: LaneDriver>(driver: &mut L) -> (LaneId, L::Sender, L::Receiver) {
    let lane = driver.connect(&driver.address(), b"", Duration::ZERO).expect("its own address");
    assert!(matches!(driver.poll_event(), Some(LaneEvent::Connected { .. })));
    let (sender, receiver) = driver.take(lane).expect("the lane is up");
    (lane, sender, receiver)
}

/// The writing end.
pub struct ScriptedSender {
    record: Vec<u8>,
    published: Arc<Mutex<Vec<usize>>>,
}

impl LaneSender for ScriptedSender {
    fn ring_bytes(&self) -> usize {
        RING_BYTES
    }

    fn begin(&mut self, _offset: usize, _length: usize) {}

    fn record(&mut self, _offset: usize, length: usize) -> &mut [u8] {
        self.record.resize(length - RECORD_HEADER_BYTES, 0);
        &mut self.record
    }

    fn write_payload(&mut self, offset: usize, at: usize, payload: &[u8]) {
        self.record(offset, RECORD_HEADER_BYTES + at + payload.len())[at..].copy_from_slice(payload);
    }

    fn publish(&mut self, _kind: RecordKind, offset: usize, _length: usize, _next_offset: usize) {
        self.published.lock().expect("no panic").push(offset);
    }

    fn copy_payload(&mut self, _kind: RecordKind, loan: &mut Loan, payload: &[u8]) {
        loan.copy_from_slice(payload);
    }

    fn fit(&mut self, _used_bytes: usize, _kept: Option<Range<usize>>) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn ring_doorbell(&mut self) -> bool {
        true
    }
}

/// The reading end.
pub struct ScriptedReceiver;

impl LaneReceiver for ScriptedReceiver {
    fn may_have_record(&self, _offset: usize) -> bool {
        true
    }

    fn peek(&self, offset: usize, _bytes: Range<usize>) -> Result<Option<Record<'_>>, LaneFault> {
        match offset {
            0 => {
                // SAFETY: the static's 24 bytes, which live for ever and never change.
                #[expect(unsafe_code, reason = "a view of words as bytes")]
                let bytes = unsafe { core::slice::from_raw_parts(RECORD.as_ptr().cast(), 24) };
                Ok(Some(Record::new(bytes)))
            }
            128 => Err(LaneFault::Corrupt { what: "it is in the script" }),
            _ => Ok(None),
        }
    }
}

impl LaneDriver for Scripted {
    type Sender = ScriptedSender;
    type Receiver = ScriptedReceiver;

    fn limits(&self) -> LaneLimits {
        LaneLimits { ring_bytes: RING_BYTES, loan_bytes_max: 0, blocks_in_place: false }
    }

    fn address(&self) -> Address {
        Address::new(*b"script").expect("short")
    }

    fn connect(&mut self, _to: &Address, hello: &[u8], _within: Duration) -> Result<LaneId, AddressError> {
        self.lanes += 1;
        let lane = LaneId(self.lanes);
        self.events.push_back(LaneEvent::Connected { lane, welcome: hello.to_vec() });
        Ok(lane)
    }

    fn set_welcome(&mut self, _welcome: &[u8]) {}

    fn poll_event(&mut self) -> Option<LaneEvent> {
        self.events.pop_front()
    }

    fn take(&mut self, _lane: LaneId) -> Option<(ScriptedSender, ScriptedReceiver)> {
        let sender = ScriptedSender { record: Vec::new(), published: self.published.clone() };
        Some((sender, ScriptedReceiver))
    }

    fn principal(&self, _lane: LaneId) -> Principal {
        Principal::Unproven
    }

    fn close(&mut self, lane: LaneId) {
        self.events.push_back(LaneEvent::Down { lane, fault: LaneFault::Closed });
    }

    fn loan(&mut self, _bytes: usize) -> Result<Loan, LoanError> {
        Err(LoanError::Exhausted)
    }

    fn recycle(&mut self, _loan: Loan) {}

    fn lend(&mut self, _lane: LaneId, loan: Loan) -> Result<BlockDescriptor, Loan> {
        Err(loan)
    }

    fn take_back(&mut self, _lane: LaneId, _block: BlockDescriptor) -> Result<(), LaneFault> {
        Err(LaneFault::Corrupt { what: "nothing was lent" })
    }

    fn borrow(&mut self, _lane: LaneId, _block: BlockDescriptor) -> Result<Option<Block>, LaneFault> {
        Err(LaneFault::Corrupt { what: "nothing was lent" })
    }

    fn prepare(&mut self, _sender: &mut Self::Sender, _length: usize) -> bool {
        false
    }

    fn due_return(&mut self, _lane: LaneId) -> Option<BlockDescriptor> {
        None
    }
}

impl Wait for Scripted {
    fn prepare_wait(&mut self) {}

    fn finish_wait(&mut self) {}

    fn wait_descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }
}
