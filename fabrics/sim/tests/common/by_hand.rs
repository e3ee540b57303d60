//! Drivers on a fabric that moves on whenever they are used.

use core::ops::Range;
use core::time::Duration;
use std::os::fd::RawFd;

use farcall_base::{Address, AddressError, Instant, Principal};
use farcall_driver::{
    Block, BlockDescriptor, Datagram, DatagramLimits, Destination, LaneDriver, LaneEvent, LaneFault, LaneId,
    LaneLimits, LaneReceiver, LaneSender, Loan, LoanError, Packet, Record, RecordKind, SendError, Wait,
};
use farcall_sim::Fabric;

/// A driver, or an end of a lane, that lets the fabric settle after what may have an effect elsewhere, and when it finds
/// nothing.
pub struct ByHand<D> {
    fabric: Fabric,
    inner: D,
}

impl<D> ByHand<D> {
    pub fn new(fabric: &Fabric, inner: D) -> Self {
        Self { fabric: fabric.clone(), inner }
    }

    /// Does something that may have an effect elsewhere.
    fn effect<T>(&mut self, effect: impl FnOnce(&mut D) -> T) -> T {
        let result = effect(&mut self.inner);
        self.fabric.settle();
        result
    }
}

impl<D: Datagram> Datagram for ByHand<D> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn limits(&self) -> DatagramLimits {
        self.inner.limits()
    }

    fn address(&self) -> Address {
        self.inner.address()
    }

    fn resolve(&mut self, address: &Address) -> Result<Destination, AddressError> {
        self.inner.resolve(address)
    }

    fn keep_peer(&mut self, peer: Destination, keep: bool) {
        self.inner.keep_peer(peer, keep);
    }

    fn host_of(&self, peer: Destination) -> Option<u64> {
        self.inner.host_of(peer)
    }

    fn send(&mut self, to: Destination, priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        let sent = self.inner.send(to, priority, parts);
        if sent.is_err() {
            self.fabric.settle();
        }
        sent
    }

    fn send_room(&self) -> usize {
        self.inner.send_room()
    }

    fn flush(&mut self) {
        self.effect(Datagram::flush);
    }

    fn is_backed_up(&self) -> bool {
        self.inner.is_backed_up()
    }

    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        self.inner.receive(packets)
    }

    fn release(&mut self, packet: Packet) {
        self.inner.release(packet);
    }

    fn next_unreachable(&mut self) -> Option<Destination> {
        self.inner.next_unreachable()
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

impl<D: Wait> Wait for ByHand<D> {
    fn prepare_wait(&mut self) {
        self.inner.prepare_wait();
    }

    fn finish_wait(&mut self) {
        self.inner.finish_wait();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.inner.wait_descriptors()
    }
}

impl<L: LaneDriver> LaneDriver for ByHand<L> {
    type Sender = ByHand<L::Sender>;
    type Receiver = ByHand<L::Receiver>;

    fn limits(&self) -> LaneLimits {
        self.inner.limits()
    }

    fn address(&self) -> Address {
        self.inner.address()
    }

    fn connect(&mut self, to: &Address, hello: &[u8], within: Duration) -> Result<LaneId, AddressError> {
        self.effect(|inner| inner.connect(to, hello, within))
    }

    fn set_welcome(&mut self, welcome: &[u8]) {
        self.inner.set_welcome(welcome);
    }

    fn poll_event(&mut self) -> Option<LaneEvent> {
        self.fabric.settle();
        self.inner.poll_event()
    }

    fn take(&mut self, lane: LaneId) -> Option<(Self::Sender, Self::Receiver)> {
        let (sender, receiver) = self.inner.take(lane)?;
        Some((ByHand::new(&self.fabric, sender), ByHand::new(&self.fabric, receiver)))
    }

    fn principal(&self, lane: LaneId) -> Principal {
        self.inner.principal(lane)
    }

    fn close(&mut self, lane: LaneId) {
        self.effect(|inner| inner.close(lane));
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.inner.loan(bytes)
    }

    fn recycle(&mut self, loan: Loan) {
        self.inner.recycle(loan);
    }

    fn lend(&mut self, lane: LaneId, loan: Loan) -> Result<BlockDescriptor, Loan> {
        self.effect(|inner| inner.lend(lane, loan))
    }

    fn take_back(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<(), LaneFault> {
        self.inner.take_back(lane, block)
    }

    fn borrow(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<Option<Block>, LaneFault> {
        self.inner.borrow(lane, block)
    }

    fn prepare(&mut self, sender: &mut Self::Sender, length: usize) -> bool {
        self.inner.prepare(&mut sender.inner, length)
    }

    fn due_return(&mut self, lane: LaneId) -> Option<BlockDescriptor> {
        self.inner.due_return(lane)
    }
}

impl<S: LaneSender> LaneSender for ByHand<S> {
    fn ring_bytes(&self) -> usize {
        self.inner.ring_bytes()
    }

    fn begin(&mut self, offset: usize, length: usize) {
        self.inner.begin(offset, length);
    }

    fn record(&mut self, offset: usize, length: usize) -> &mut [u8] {
        self.inner.record(offset, length)
    }

    fn write_payload(&mut self, offset: usize, at: usize, payload: &[u8]) {
        self.inner.write_payload(offset, at, payload);
    }

    fn publish(&mut self, kind: RecordKind, offset: usize, length: usize, next_offset: usize) {
        self.effect(|inner| inner.publish(kind, offset, length, next_offset));
    }

    fn copy_payload(&mut self, kind: RecordKind, loan: &mut Loan, payload: &[u8]) {
        self.inner.copy_payload(kind, loan, payload);
    }

    fn fit(&mut self, used_bytes: usize, kept: Option<Range<usize>>) {
        self.inner.fit(used_bytes, kept);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner.next_deadline()
    }

    fn ring_doorbell(&mut self) -> bool {
        self.inner.ring_doorbell()
    }
}

impl<R: LaneReceiver> LaneReceiver for ByHand<R> {
    fn may_have_record(&self, offset: usize) -> bool {
        self.inner.may_have_record(offset)
    }

    fn peek(&self, offset: usize, bytes: Range<usize>) -> Result<Option<Record<'_>>, LaneFault> {
        self.inner.peek(offset, bytes)
    }
}
