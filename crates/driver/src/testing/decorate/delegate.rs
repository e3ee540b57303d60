//! What a decorator does not change, in one line.

use std::os::fd::RawFd;

use farcall_base::Instant;

use crate::{Datagram, DatagramLimits, Destination, Packet, SendError, Wait};
use farcall_base::{Address, AddressError};

/// Passes the named methods of [`Datagram`] on to a field.
macro_rules! delegate_datagram {
    ($inner:ident: $($method:ident),+ $(,)?) => {
        $($crate::decorate::delegate::delegate_datagram!(@$method $inner);)+
    };
    (@name $inner:ident) => {
        fn name(&self) -> &'static str {
            self.$inner.name()
        }
    };
    (@limits $inner:ident) => {
        fn limits(&self) -> $crate::DatagramLimits {
            self.$inner.limits()
        }
    };
    (@address $inner:ident) => {
        fn address(&self) -> farcall_base::Address {
            self.$inner.address()
        }
    };
    (@resolve $inner:ident) => {
        fn resolve(&mut self, address: &farcall_base::Address) -> Result<$crate::Destination, farcall_base::AddressError> {
            self.$inner.resolve(address)
        }
    };
    (@keep_peer $inner:ident) => {
        fn keep_peer(&mut self, peer: $crate::Destination, keep: bool) {
            self.$inner.keep_peer(peer, keep);
        }

        fn host_of(&self, peer: $crate::Destination) -> Option<u64> {
            self.$inner.host_of(peer)
        }
    };
    (@send_room $inner:ident) => {
        #[inline]
        fn send_room(&self) -> usize {
            self.$inner.send_room()
        }

        #[inline]
        fn is_backed_up(&self) -> bool {
            self.$inner.is_backed_up()
        }
    };
    (@flush $inner:ident) => {
        #[inline]
        fn flush(&mut self) {
            self.$inner.flush();
        }
    };
    (@release $inner:ident) => {
        #[inline]
        fn release(&mut self, packet: $crate::Packet) {
            self.$inner.release(packet);
        }
    };
    (@next_deadline $inner:ident) => {
        #[inline]
        fn next_deadline(&self) -> Option<farcall_base::Instant> {
            self.$inner.next_deadline()
        }
    };
    (@next_unreachable $inner:ident) => {
        fn next_unreachable(&mut self) -> Option<$crate::Destination> {
            self.$inner.next_unreachable()
        }

    };
}
pub(crate) use delegate_datagram;

/// Passes [`Wait`] on to the field `inner`.
macro_rules! delegate_wait {
    () => {
        fn prepare_wait(&mut self) {
            self.inner.prepare_wait();
        }

        fn finish_wait(&mut self) {
            self.inner.finish_wait();
        }

        fn wait_descriptors(&self) -> Vec<std::os::fd::RawFd> {
            self.inner.wait_descriptors()
        }
    };
}
pub(crate) use delegate_wait;

/// Passes everything of [`LaneDriver`](crate::LaneDriver) but `poll_event`, `take` and the associated types
/// on to the field `inner`.
macro_rules! delegate_lane_driver {
    () => {
        fn limits(&self) -> $crate::LaneLimits {
            self.inner.limits()
        }

        fn address(&self) -> farcall_base::Address {
            self.inner.address()
        }

        fn connect(
            &mut self,
            to: &farcall_base::Address,
            hello: &[u8],
            within: core::time::Duration,
        ) -> Result<$crate::LaneId, farcall_base::AddressError> {
            self.inner.connect(to, hello, within)
        }

        fn set_welcome(&mut self, welcome: &[u8]) {
            self.inner.set_welcome(welcome);
        }

        fn principal(&self, lane: $crate::LaneId) -> farcall_base::Principal {
            self.inner.principal(lane)
        }

        fn close(&mut self, lane: $crate::LaneId) {
            self.inner.close(lane);
        }

        fn loan(&mut self, bytes: usize) -> Result<$crate::Loan, $crate::LoanError> {
            self.inner.loan(bytes)
        }

        fn recycle(&mut self, loan: $crate::Loan) {
            self.inner.recycle(loan);
        }

        fn lend(
            &mut self,
            lane: $crate::LaneId,
            loan: $crate::Loan,
        ) -> Result<$crate::BlockDescriptor, $crate::Loan> {
            self.inner.lend(lane, loan)
        }

        fn take_back(
            &mut self,
            lane: $crate::LaneId,
            block: $crate::BlockDescriptor,
        ) -> Result<(), $crate::LaneFault> {
            self.inner.take_back(lane, block)
        }

        fn borrow(
            &mut self,
            lane: $crate::LaneId,
            block: $crate::BlockDescriptor,
        ) -> Result<Option<$crate::Block>, $crate::LaneFault> {
            self.inner.borrow(lane, block)
        }

        fn due_return(&mut self, lane: $crate::LaneId) -> Option<$crate::BlockDescriptor> {
            self.inner.due_return(lane)
        }
    };
}
pub(crate) use delegate_lane_driver;

/// A boxed driver is a driver, so that decorators can be chosen at run time.
impl<D: Datagram + ?Sized> Datagram for Box<D> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn limits(&self) -> DatagramLimits {
        (**self).limits()
    }

    fn address(&self) -> Address {
        (**self).address()
    }

    fn keep_peer(&mut self, peer: Destination, keep: bool) {
        (**self).keep_peer(peer, keep);
    }

    fn host_of(&self, peer: Destination) -> Option<u64> {
        (**self).host_of(peer)
    }

    fn resolve(&mut self, address: &Address) -> Result<Destination, AddressError> {
        (**self).resolve(address)
    }

    fn send(&mut self, to: Destination, priority: u8, parts: &[&[u8]]) -> Result<(), SendError> {
        (**self).send(to, priority, parts)
    }

    fn send_room(&self) -> usize {
        (**self).send_room()
    }

    fn flush(&mut self) {
        (**self).flush();
    }

    fn is_backed_up(&self) -> bool {
        (**self).is_backed_up()
    }

    fn receive(&mut self, packets: &mut Vec<Packet>) -> usize {
        (**self).receive(packets)
    }

    fn release(&mut self, packet: Packet) {
        (**self).release(packet);
    }

    fn next_unreachable(&mut self) -> Option<Destination> {
        (**self).next_unreachable()
    }

    fn next_deadline(&self) -> Option<Instant> {
        (**self).next_deadline()
    }
}

impl<D: Datagram + ?Sized> Wait for Box<D> {
    fn prepare_wait(&mut self) {
        (**self).prepare_wait();
    }

    fn finish_wait(&mut self) {
        (**self).finish_wait();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        (**self).wait_descriptors()
    }
}
