//! Sending, receiving, and finding what is done.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{null_mut, slice_from_raw_parts};

use crate::libfabric::Endpoint;
use crate::libfabric::types::*;

/// Memory that a provider may use for one operation while it lasts, and what the operation is known by.
///
/// It must stay where it is until the operation is done: an operation's completion leads back here without a
/// search.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    /// `struct fi_context2`: eight words, first of all, because the provider gets a pointer to them.
    provider: UnsafeCell<[usize; 8]>,
    token: u64,
}

impl Context {
    /// A context whose completions carry `token`.
    pub fn new(token: u64) -> Self {
        Self { provider: UnsafeCell::new([0; 8]), token }
    }

    fn as_ptr(&self) -> *mut c_void {
        core::ptr::from_ref(self).cast_mut().cast()
    }
}

/// What became of an operation that was to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The provider has it.
    Taken,
    /// It has no room now: try again after a look at the completions.
    Again,
    /// It never will.
    Failed,
}

impl Posted {
    #[inline]
    fn from_result(result: isize) -> Self {
        const AGAIN: isize = -(FI_EAGAIN as isize);
        match result {
            0 => Self::Taken,
            AGAIN => Self::Again,
            _ => Self::Failed,
        }
    }
}

/// An operation that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// That of its [`Context`].
    pub token: u64,
    /// The bytes received; of no meaning for others.
    pub bytes: usize,
    /// The number of the error, 0 when all went well.
    pub error: c_int,
}

/// The most completions that are read at a time.
const COMPLETIONS_PER_READ: usize = 16;

#[expect(unsafe_code, reason = "calls of libfabric")]
impl Endpoint {
    /// Begins to send a tagged message.
    ///
    /// # Safety
    /// Bytes and context stay where and what they are until the operation is done or the endpoint is closed.
    #[inline]
    pub unsafe fn send_tagged(
        &mut self,
        bytes: *const [u8],
        to: fi_addr_t,
        tag: u64,
        context: &Context,
    ) -> Posted {
        let ep = self.ep.as_ptr();
        // SAFETY: the endpoint is open and was offered with tagged messages; the rest is promised by the
        // caller.
        Posted::from_result(unsafe {
            ((*(*ep).tagged).send)(ep, bytes.cast(), bytes.len(), null_mut(), to, tag, context.as_ptr())
        })
    }

    /// Sends a short tagged message, which is copied meanwhile and has no completion.
    #[inline]
    pub fn inject_tagged(&mut self, bytes: &[u8], to: fi_addr_t, tag: u64) -> Posted {
        let ep = self.ep.as_ptr();
        // SAFETY: the endpoint is open and was offered with tagged messages; the bytes are not used
        // afterwards.
        Posted::from_result(unsafe {
            ((*(*ep).tagged).inject)(ep, bytes.as_ptr().cast(), bytes.len(), to, tag)
        })
    }

    /// Begins to receive the next tagged message with `tag`, from whomever.
    ///
    /// # Safety
    /// As for [`Endpoint::send_tagged`]; and nobody else touches the bytes meanwhile.
    #[inline]
    pub unsafe fn receive_tagged(&mut self, into: *mut [u8], tag: u64, context: &Context) -> Posted {
        let (ep, any) = (self.ep.as_ptr(), FI_ADDR_UNSPEC);
        // SAFETY: as above.
        Posted::from_result(unsafe {
            ((*(*ep).tagged).recv)(ep, into.cast(), into.len(), null_mut(), any, tag, 0, context.as_ptr())
        })
    }

    /// Begins to send a packet.
    ///
    /// # Safety
    /// As for [`Endpoint::send_tagged`].
    #[inline]
    pub unsafe fn send(&mut self, bytes: *const [u8], to: fi_addr_t, context: &Context) -> Posted {
        let ep = self.ep.as_ptr();
        // SAFETY: the endpoint is open; the rest is promised by the caller.
        Posted::from_result(unsafe {
            ((*(*ep).msg).send)(ep, bytes.cast(), bytes.len(), null_mut(), to, context.as_ptr())
        })
    }

    /// Sends a short packet, which is copied meanwhile and has no completion.
    #[inline]
    pub fn inject(&mut self, bytes: &[u8], to: fi_addr_t) -> Posted {
        let ep = self.ep.as_ptr();
        // SAFETY: the endpoint is open; the bytes are not used afterwards.
        Posted::from_result(unsafe { ((*(*ep).msg).inject)(ep, bytes.as_ptr().cast(), bytes.len(), to) })
    }

    /// Begins to receive the next packet.
    ///
    /// # Safety
    /// As for [`Endpoint::receive_tagged`].
    #[inline]
    pub unsafe fn receive(&mut self, into: *mut [u8], context: &Context) -> Posted {
        let (ep, any) = (self.ep.as_ptr(), FI_ADDR_UNSPEC);
        // SAFETY: the endpoint is open; the rest is promised by the caller.
        Posted::from_result(unsafe {
            ((*(*ep).msg).recv)(ep, into.cast(), into.len(), null_mut(), any, context.as_ptr())
        })
    }

    /// Asks for a receive to be given up. It still completes, with an error, unless it has completed already.
    pub fn cancel(&mut self, context: &Context) {
        let ep = self.ep.as_ptr();
        // SAFETY: the endpoint is open; a context without an operation is not found.
        unsafe {
            ((*(*ep).ops).cancel)(ep.cast(), context.as_ptr());
        }
    }

    /// Lets the provider work and hands what is done to `take`, at most a few at a time. Returns how many
    /// there were.
    #[inline]
    pub fn completions(&mut self, mut take: impl FnMut(Completion)) -> usize {
        let cq = self.cq.as_ptr();
        let mut entries = [const { MaybeUninit::<fi_cq_msg_entry>::uninit() }; COMPLETIONS_PER_READ];
        // SAFETY: the queue is open and has the format of these entries; there is room for that many.
        let read = unsafe { ((*(*cq).ops).read)(cq, entries.as_mut_ptr().cast(), COMPLETIONS_PER_READ) };
        if read == -(FI_EAVAIL as isize) {
            return self.failure().into_iter().map(take).count();
        }
        let count = usize::try_from(read).unwrap_or(0);
        // SAFETY: that many entries were written.
        let entries = unsafe { &*slice_from_raw_parts(entries.as_ptr().cast::<fi_cq_msg_entry>(), count) };
        for entry in entries {
            if let Some(token) = token(entry.op_context) {
                take(Completion { token, bytes: entry.len, error: 0 });
            }
        }
        count
    }

    /// The next operation that failed.
    #[cold]
    fn failure(&mut self) -> Option<Completion> {
        let cq = self.cq.as_ptr();
        // SAFETY: numbers and pointers may be 0 and null.
        let mut entry: fi_cq_err_entry = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the queue is open, and the entry lives through the call. The provider has no memory to
        // describe errors in.
        let read = unsafe { ((*(*cq).ops).readerr)(cq, &mut entry, 0) };
        if read != 1 {
            return None;
        }
        token(entry.op_context).map(|token| Completion { token, bytes: entry.len, error: entry.err })
    }
}

/// The token of the operation with that context; `None` for what has none.
#[inline]
#[expect(unsafe_code, reason = "a pointer that made its way through libfabric")]
fn token(context: *mut c_void) -> Option<u64> {
    // SAFETY: contexts of operations are pointers to a `Context`, which stays there until the operation is
    // done: now.
    (!context.is_null()).then(|| unsafe { (*context.cast::<Context>()).token })
}
