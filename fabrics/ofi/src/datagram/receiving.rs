//! Receiving: buffers wait with the provider, are lent as packets, and come back.

use core::ptr::NonNull;
use std::rc::Rc;

use crate::libfabric::{Context, Endpoint, Posted};
use farcall_driver::{Destination, Packet};

/// Where a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    WithProvider,
    /// Taken from the provider and lent, or about to be.
    Out,
}

/// The receiving half of a driver.
pub struct Receiving {
    /// All buffers, one after the other. Left to the packets that are out when the driver ends.
    memory: Vec<u8>,
    buffer_bytes: usize,
    uses: Vec<Use>,
    contexts: Vec<Rc<Context>>,
    free: Vec<u32>,
    with_provider: usize,
    depth: usize,
}

impl Receiving {
    /// This many buffers of this many bytes, of which `depth` are kept with the provider.
    pub fn new(buffers: usize, buffer_bytes: usize, depth: usize) -> Self {
        let numbers = 0..buffers as u32;
        Self {
            memory: vec![0; buffers * buffer_bytes],
            buffer_bytes,
            uses: vec![Use::Free; buffers],
            contexts: numbers.clone().map(|number| Rc::new(Context::new(u64::from(number)))).collect(),
            free: numbers.collect(),
            with_provider: 0,
            depth,
        }
    }

    /// Gives free buffers to the provider.
    #[inline]
    pub fn refill(&mut self, endpoint: &mut Endpoint) {
        while self.with_provider < self.depth {
            let Some(number) = self.free.pop() else { return };
            let start = self.start(number).as_ptr();
            let memory = core::ptr::slice_from_raw_parts_mut(start, self.buffer_bytes);
            // SAFETY: nobody touches the buffer before `take`, and the endpoint is closed before the memory
            // is dropped.
            #[expect(unsafe_code, reason = "the provider writes into the memory later")]
            let posted = unsafe { endpoint.receive(memory, &self.contexts[number as usize]) };
            if posted != Posted::Taken {
                return self.free.push(number);
            }
            self.uses[number as usize] = Use::WithProvider;
            self.with_provider += 1;
        }
    }

    /// The provider is done with a buffer.
    ///
    /// # Panics
    /// When it did not have it.
    #[inline]
    pub fn take(&mut self, number: u32) {
        let place = &mut self.uses[number as usize];
        assert_eq!(*place, Use::WithProvider, "a receive is completed once");
        *place = Use::Out;
        self.with_provider -= 1;
    }

    /// The first bytes of a buffer that was taken.
    #[inline]
    pub fn bytes(&self, number: u32, count: usize) -> &[u8] {
        assert!(count <= self.buffer_bytes && self.uses[number as usize] == Use::Out, "only what was taken");
        // SAFETY: the bytes lie in the buffer, are initialised, and nobody writes to them until it comes
        // back. No reference is made to other buffers, to which the provider may be writing.
        #[expect(unsafe_code, reason = "the provider writes to the memory beside")]
        unsafe {
            core::slice::from_raw_parts(self.memory.as_ptr().add(self.place(number)), count)
        }
    }

    /// Lends what follows the first `at` bytes of a buffer that was taken.
    ///
    /// # Panics
    /// When the buffer was not taken, or is shorter.
    #[inline]
    pub fn lend(&mut self, number: u32, at: usize, bytes: usize, source: Destination) -> Packet {
        let is_out = self.uses[number as usize] == Use::Out;
        assert!(is_out && at + bytes <= self.buffer_bytes, "only what has arrived is lent");
        let start = self.start(number);
        // SAFETY: the bytes lie in the buffer, are initialised, and nobody writes to them until the buffer
        // comes back. The memory is never dropped while buffers are out.
        #[expect(unsafe_code, reason = "the loan of the driver's memory")]
        unsafe {
            Packet::from_raw(start.add(at), bytes as u32, source, number)
        }
    }

    /// Makes a buffer that is out free.
    ///
    /// # Panics
    /// When it is none of this driver's, or not out.
    #[inline]
    pub fn put_back(&mut self, number: u32) {
        let place = self.uses.get_mut(number as usize).filter(|place| **place == Use::Out);
        *place.expect("a packet goes back to the driver that lent it, once") = Use::Free;
        self.free.push(number);
    }

    /// Where a buffer begins in the memory.
    #[inline]
    fn place(&self, number: u32) -> usize {
        assert!((number as usize) < self.uses.len(), "a buffer that there is");
        number as usize * self.buffer_bytes
    }

    /// A pointer to a whole buffer: of the memory's own, not of a reference to a part of it.
    #[inline]
    fn start(&mut self, number: u32) -> NonNull<u8> {
        let place = self.place(number);
        // SAFETY: inside the memory (`place` checks it), whose pointer is not null.
        #[expect(unsafe_code, reason = "the provider writes to the memory")]
        unsafe {
            NonNull::new_unchecked(self.memory.as_mut_ptr().add(place))
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if self.uses.contains(&Use::Out) {
            core::mem::forget(core::mem::take(&mut self.memory));
        }
    }
}
