//! One direction of a byte channel in shared memory, with as little in it as a channel can have.
//!
//! A message is cut into chunks, each in a slot of a small ring. A slot begins with its flag: the number of
//! the chunk that it holds, stored last by the sender and awaited by the receiver, so that flag and first
//! bytes travel in the same cache line. Where more chunks can be in flight than there are slots, the receiver
//! returns credits: the number of chunks that it has finished with, in a line of its own.

#![expect(
    unsafe_code,
    reason = "the bytes of a slot change hands by its flag, which the compiler cannot see"
)]

use core::sync::atomic::{AtomicU64, Ordering};

use crate::LimitError;
use crate::copying::{copy_cached, copy_nontemporal};
use crate::memory::{LINE_BYTES, LINE_PAIR_BYTES, SharedMemory};

/// The flag that ends the channel.
const STOPPED: u64 = u64::MAX;

/// Chunks longer than this start in a line of their own: copies of that length run faster when aligned.
const UNALIGNED_BYTES_MAX: usize = 1024;

/// How a pipe is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PipeShape {
    /// The most bytes in a slot.
    pub chunk_bytes: usize,
    /// How many slots there are; a power of two.
    pub slots: usize,
    /// Whether the receiver returns credits and the sender awaits them.
    pub credits: bool,
    /// How the sender writes.
    pub writes: Writes,
}

/// How lines are written that the receiver has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// As they come: each is regained when it is written.
    Plain,
    /// The sender fetches those of the next slot for writing, while it has nothing else to do. Some
    /// processors do little then.
    FetchedAhead,
    /// It stores to those of the next slot, while it has nothing else to do. That slot must be free.
    StoredAhead,
    /// By non-temporal stores, to memory.
    NonTemporal,
}

/// The memory of one direction.
pub(crate) struct Pipe {
    memory: SharedMemory,
    shape: PipeShape,
    header_bytes: usize,
    stride_bytes: usize,
}

/// The end that sends; there is one.
pub(crate) struct Sender<'a> {
    pipe: &'a Pipe,
    sent: u64,
    received: u64,
}

/// The end that receives; there is one.
pub(crate) struct Receiver<'a> {
    pipe: &'a Pipe,
    received: u64,
}

impl Pipe {
    /// Maps the memory.
    pub(crate) fn new(shape: PipeShape) -> Result<Self, LimitError> {
        assert!(
            shape.slots.is_power_of_two() && shape.chunk_bytes > 0,
            "the ring has slots that hold something"
        );
        assert!(
            shape.writes != Writes::StoredAhead || shape.slots > 1 && !shape.credits,
            "the next slot is free when a message is sent"
        );
        let header_bytes = if shape.chunk_bytes <= UNALIGNED_BYTES_MAX { 8 } else { 64 };
        let stride_bytes = (header_bytes + shape.chunk_bytes).next_multiple_of(LINE_PAIR_BYTES);
        let memory = SharedMemory::new(stride_bytes * shape.slots + 2 * LINE_PAIR_BYTES)?;
        Ok(Self { memory, shape, header_bytes, stride_bytes })
    }

    /// The two ends. That a pipe lends them by `&mut` makes them the only ones.
    pub(crate) fn ends(&mut self) -> (Sender<'_>, Receiver<'_>) {
        (Sender { pipe: self, sent: 0, received: 0 }, Receiver { pipe: self, received: 0 })
    }

    fn slot(&self, chunk: u64) -> usize {
        (chunk as usize & (self.shape.slots - 1)) * self.stride_bytes
    }

    fn flag(&self, chunk: u64) -> &AtomicU64 {
        self.memory.word(self.slot(chunk))
    }

    fn payload(&self, chunk: u64) -> *mut u8 {
        self.memory.bytes_at(self.slot(chunk) + self.header_bytes, self.shape.chunk_bytes)
    }

    fn credit(&self) -> &AtomicU64 {
        self.memory.word(self.stride_bytes * self.shape.slots + LINE_PAIR_BYTES)
    }
}

impl Sender<'_> {
    /// Copies a message in, chunk by chunk.
    ///
    /// # Safety
    /// On a pipe without credits, all chunks but the last `slots` (those of this message included) must have
    /// been received, as an answer to the message before shows.
    #[inline(always)]
    pub(crate) unsafe fn send(&mut self, message: &[u8]) {
        let chunk_bytes = self.pipe.shape.chunk_bytes;
        let mut rest = message;
        loop {
            let (chunk, later) = rest.split_at(rest.len().min(chunk_bytes));
            if self.pipe.shape.credits {
                self.await_credit();
            }
            // SAFETY: the payload holds `chunk_bytes` bytes, and the receiver does not look at the slot
            // between its return of the credit (or the answer that the caller promises) and the store of the
            // flag below.
            unsafe { self.copy(chunk, self.pipe.payload(self.sent)) };
            self.pipe.flag(self.sent).store(self.sent + 1, Ordering::Release);
            self.sent += 1;
            if later.is_empty() {
                break;
            }
            rest = later;
        }
        match self.pipe.shape.writes {
            Writes::Plain | Writes::NonTemporal => {}
            Writes::FetchedAhead => self.fetch_next(message.len().min(chunk_bytes)),
            // SAFETY: there are no credits, so that by the caller's promise all messages before this one were
            // received.
            Writes::StoredAhead => unsafe { self.clear_next(message.len().min(chunk_bytes)) },
        }
    }

    /// Ends the channel once every chunk that was sent has been received.
    ///
    /// # Safety
    /// As for [`Sender::send`].
    pub(crate) unsafe fn stop(&mut self) {
        if self.pipe.shape.credits {
            self.await_credit();
        }
        self.pipe.flag(self.sent).store(STOPPED, Ordering::Release);
    }

    /// Waits until the receiver has everything. On a pipe with credits only.
    pub(crate) fn drain(&mut self) {
        debug_assert!(self.pipe.shape.credits, "only credits tell what was received");
        while self.pipe.credit().load(Ordering::Acquire) < self.sent {
            core::hint::spin_loop();
        }
    }

    /// Copies a chunk as fast as can be to where the receiver has read.
    ///
    /// # Safety
    /// As many bytes at `to` are this thread's to write.
    #[inline(always)]
    unsafe fn copy(&self, from: &[u8], to: *mut u8) {
        // SAFETY: the caller vouches for it, and all of the memory was initialised when it was mapped.
        let to = unsafe { core::slice::from_raw_parts_mut(to, from.len()) };
        if self.pipe.shape.writes == Writes::NonTemporal {
            copy_nontemporal(to, from);
        } else {
            copy_cached(to, from);
        }
    }

    /// The lines of a coming chunk of `bytes` bytes, except the one of its flag, which the receiver watches.
    #[inline(always)]
    fn next_lines(&self, bytes: usize) -> impl Iterator<Item = *mut u8> {
        let (payload, header_bytes) = (self.pipe.payload(self.sent), self.pipe.header_bytes);
        let lines = (LINE_BYTES..header_bytes + bytes).step_by(LINE_BYTES);
        lines.map(move |offset| payload.wrapping_add(offset - header_bytes))
    }

    /// Writes to the lines of a coming chunk.
    ///
    /// # Safety
    /// The next slot must be free.
    #[inline(always)]
    unsafe fn clear_next(&self, bytes: usize) {
        for line in self.next_lines(bytes) {
            // SAFETY: inside the payload of a slot that is this thread's to write.
            unsafe { line.write_volatile(0) };
        }
    }

    /// Asks for the lines of a coming chunk.
    #[inline(always)]
    fn fetch_next(&self, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in self.next_lines(bytes) {
            // SAFETY: a prefetch has no effect that a program can see, whatever the address, and every 64-bit
            // processor takes the instruction (at worst as a no-op). The intrinsic asks for a shared copy,
            // which does not help.
            unsafe { core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags)) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = bytes;
    }

    #[inline(always)]
    fn await_credit(&mut self) {
        while self.sent - self.received >= self.pipe.shape.slots as u64 {
            self.received = self.pipe.credit().load(Ordering::Acquire);
        }
    }
}

impl Receiver<'_> {
    /// Waits for a message of `into.len()` bytes and copies it out; `false` when the channel has ended.
    #[inline(always)]
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> bool {
        let mut offset = 0;
        self.read(into.len(), |chunk| {
            into[offset..offset + chunk.len()].copy_from_slice(chunk);
            offset += chunk.len();
        })
    }

    /// Waits for a message of `bytes` bytes and shows its chunks in place; `false` when the channel has
    /// ended.
    #[inline(always)]
    pub(crate) fn read(&mut self, bytes: usize, mut look: impl FnMut(&[u8])) -> bool {
        let mut rest = bytes;
        loop {
            let length = rest.min(self.pipe.shape.chunk_bytes);
            if !self.await_chunk() {
                return false;
            }
            // SAFETY: the flag says that the sender wrote the chunk, which has this length because both sides
            // cut messages of one length in the same way; it does not write there again before it learns of
            // our progress.
            look(unsafe { core::slice::from_raw_parts(self.pipe.payload(self.received), length) });
            self.received += 1;
            if self.pipe.shape.credits {
                self.pipe.credit().store(self.received, Ordering::Release);
            }
            rest -= length;
            if rest == 0 {
                return true;
            }
        }
    }

    #[inline(always)]
    fn await_chunk(&self) -> bool {
        let flag = self.pipe.flag(self.received);
        loop {
            match flag.load(Ordering::Acquire) {
                number if number == self.received + 1 => return true,
                STOPPED => return false,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `messages` through a pipe and checks that they come out as they went in.
    fn passes(shape: PipeShape, lengths: &[usize]) {
        let mut pipe = Pipe::new(shape).expect("memory can be mapped");
        let (mut sender, mut receiver) = pipe.ends();
        let bytes = |length: usize| (0..length).map(|i| (i * 31 + length) as u8).collect::<Vec<u8>>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for &length in lengths {
                    // SAFETY: the pipe has credits.
                    unsafe { sender.send(&bytes(length)) };
                }
                // SAFETY: the pipe has credits.
                unsafe { sender.stop() };
            });
            for &length in lengths {
                let mut into = vec![0; length];
                assert!(receiver.receive(&mut into));
                assert_eq!(into, bytes(length));
            }
            assert!(!receiver.receive(&mut [0]), "the channel ends after the last message");
        });
    }

    #[test]
    fn messages_of_many_chunks_arrive_whole() {
        passes(
            PipeShape { chunk_bytes: 4096, slots: 4, credits: true, writes: Writes::Plain },
            &[1, 4096, 4097, 1 << 20, 100],
        );
    }

    #[test]
    fn messages_reuse_a_single_slot() {
        passes(
            PipeShape { chunk_bytes: 56, slots: 1, credits: true, writes: Writes::FetchedAhead },
            &[56, 0, 1, 1000],
        );
    }

    #[test]
    fn lines_are_won_back_only_where_messages_were_received() {
        let shape = |writes| PipeShape { chunk_bytes: 1000, slots: 2, credits: false, writes };
        for writes in [Writes::FetchedAhead, Writes::StoredAhead, Writes::NonTemporal] {
            let mut pipes = [(); 2].map(|()| Pipe::new(shape(writes)).expect("memory can be mapped"));
            let [there, back] = &mut pipes;
            let ((mut ask, mut asked), (mut answer, mut answered)) = (there.ends(), back.ends());
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let mut message = [0; 1000];
                    while asked.receive(&mut message) {
                        // SAFETY: the answer before was received, as the message shows.
                        unsafe { answer.send(&message) };
                    }
                });
                // Counted, for a failure here would leave the other side waiting.
                let mut whole = 0;
                for round in 0..1000_u32 {
                    let message = [round as u8 | 1; 1000];
                    let mut echo = [0; 1000];
                    // SAFETY: the message before was received, as its answer shows.
                    unsafe { ask.send(&message) };
                    whole += u32::from(answered.receive(&mut echo) && echo == message);
                }
                // SAFETY: as above.
                unsafe { ask.stop() };
                assert_eq!(whole, 1000, "{writes:?}");
            });
        }
    }
}
