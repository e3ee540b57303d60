//! Memory: payloads that were received and are kept, and loans to be filled and sent.

use core::cell::RefCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;

use farcall::{Loan, Payload};

use crate::border::{give, guarded};
use crate::endpoint::EndpointHandle;
use crate::status::Status::{self, FARCALL_INVALID_ARGUMENT, FARCALL_RESOURCES};

/// The most bytes that are kept in the handle itself.
const SHORT_BYTES_MAX: usize = 232;

/// The most handles that were released on a thread and are kept for its next ones.
const SPARE_HANDLES_MAX: usize = 16;

/// What was received, kept until it is released. Holders may be on any thread, one at a time.
///
/// Short bytes are copied into the handle, and its memory is used again: to receive them, look at them and
/// release them allocates nothing.
pub struct PayloadHandle {
    /// What is longer; `None` of what lies in `bytes`.
    long: Option<Payload>,
    short_bytes: usize,
    bytes: [MaybeUninit<u8>; SHORT_BYTES_MAX],
}

/// Memory of a handle that was released.
type Spare = Box<MaybeUninit<PayloadHandle>>;

thread_local!(static SPARE: RefCell<Vec<Spare>> = const { RefCell::new(Vec::new()) });

impl PayloadHandle {
    /// A holder of memory that could be kept as it was.
    pub fn give(payload: Payload) -> *mut Self {
        let spare = memory();
        let handle = Box::into_raw(spare).cast::<Self>();
        // SAFETY: the handle's memory; of short bytes there are none, and the rest need not be initialised.
        unsafe {
            (&raw mut (*handle).long).write(Some(payload));
            (&raw mut (*handle).short_bytes).write(0);
        }
        handle
    }

    /// A copy, if the bytes are short.
    #[inline]
    pub fn copy(bytes: &[u8]) -> Option<*mut Self> {
        if bytes.len() > SHORT_BYTES_MAX {
            return None;
        }
        let handle = Box::into_raw(memory()).cast::<Self>();
        // SAFETY: the handle's memory has room for them, and is not theirs.
        unsafe {
            (&raw mut (*handle).long).write(None);
            (&raw mut (*handle).short_bytes).write(bytes.len());
            let place = (&raw mut (*handle).bytes).cast::<u8>();
            place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Some(handle)
    }

    /// A copy of bytes that lie in memory of somebody else.
    pub fn copied(bytes: &[u8]) -> *mut Self {
        Self::copy(bytes).unwrap_or_else(|| Self::give(bytes.to_vec().into()))
    }

    fn bytes(&self) -> &[u8] {
        match &self.long {
            Some(payload) => payload,
            // SAFETY: as many were copied there.
            None => unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.short_bytes) },
        }
    }
}

/// Memory for a handle.
#[inline]
fn memory() -> Spare {
    // While a thread ends there are no spare ones any more.
    let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
    spare.unwrap_or_else(Box::new_uninit)
}

/// Memory that can be written in place and sent without a copy, until it is sent or dropped.
pub struct LoanHandle(pub Loan);

/// The bytes of a payload, valid until it is released; null of null.
///
/// From any thread. Neither allocates nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_payload_data(payload: *const PayloadHandle) -> *const c_void {
    // SAFETY: null or not released, as in the header.
    unsafe { payload.as_ref() }.map_or(core::ptr::null(), |payload| payload.bytes().as_ptr().cast())
}

/// The length of a payload in bytes; 0 of null. From any thread. Neither allocates nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_payload_length(payload: *const PayloadHandle) -> usize {
    // SAFETY: null or not released, as in the header.
    unsafe { payload.as_ref() }.map_or(0, |payload| payload.bytes().len())
}

/// Another holder of the same bytes, without a copy of long ones; null of null.
///
/// From any thread. Allocates. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_payload_share(payload: *const PayloadHandle) -> *mut PayloadHandle {
    // SAFETY: null or not released, as in the header.
    unsafe { payload.as_ref() }.map_or(core::ptr::null_mut(), |payload| match &payload.long {
        Some(long) => PayloadHandle::give(long.clone()),
        None => PayloadHandle::copied(payload.bytes()),
    })
}

/// Ends the use of a payload; memory that the sender lent is returned to it. Null is allowed.
///
/// From any thread, also after the endpoint was closed. Frees, or keeps a little for the next payloads of the
/// thread. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_payload_release(payload: *mut PayloadHandle) {
    guarded(|| {
        if payload.is_null() {
            return Ok(());
        }
        // SAFETY: it is ours, made of such memory, and used no more.
        let memory = unsafe {
            let mut memory: Spare = Box::from_raw(payload.cast());
            memory.assume_init_drop();
            memory
        };
        // While a thread ends it is simply freed.
        let _ended = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_HANDLES_MAX {
                spare.push(memory);
            }
        });
        Ok(())
    });
}

/// Lends memory to be written in place and sent by one of the functions that end in `_loan`, or to be given
/// back by `farcall_loan_drop`. What is in it is left over from earlier loans.
///
/// From the endpoint's thread, also inside a callback. Allocates. Does not block. FARCALL_RESOURCES if there
/// is no memory left to lend.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_loan(
    endpoint: *mut EndpointHandle,
    bytes: usize,
    loan: *mut *mut LoanHandle,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let handle = EndpointHandle::of(endpoint)?;
        if loan.is_null() {
            return Err(FARCALL_INVALID_ARGUMENT);
        }
        let lent = match handle.inside() {
            Some(context) => context.loan(bytes),
            None => handle.endpoint.loan(bytes),
        };
        let lent = lent.map_err(|_| FARCALL_RESOURCES)?;
        give(loan, Box::into_raw(Box::new(LoanHandle(lent))));
        Ok(())
    })
}

/// The memory of a loan; null of null. From the thread that fills it. Neither allocates nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_loan_data(loan: *mut LoanHandle) -> *mut c_void {
    // SAFETY: null or neither sent nor dropped, as in the header.
    unsafe { loan.as_mut() }.map_or(core::ptr::null_mut(), |loan| loan.0.as_mut_ptr().cast())
}

/// Its length in bytes; 0 of null. From the thread that fills it. Neither allocates nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_loan_length(loan: *const LoanHandle) -> usize {
    // SAFETY: null or neither sent nor dropped, as in the header.
    unsafe { loan.as_ref() }.map_or(0, |loan| loan.0.len())
}

/// Shortens a loan to its first `bytes`: what will be sent.
///
/// From the thread that fills it. Neither allocates nor blocks. FARCALL_INVALID_ARGUMENT if it is shorter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_loan_truncate(loan: *mut LoanHandle, bytes: usize) -> Status {
    guarded(|| {
        // SAFETY: null or neither sent nor dropped, as in the header.
        let loan = unsafe { loan.as_mut() }.filter(|loan| bytes <= loan.0.len());
        loan.ok_or(FARCALL_INVALID_ARGUMENT)?.0.truncate(bytes);
        Ok(())
    })
}

/// Gives a loan back unsent. Null is allowed.
///
/// From any thread, also after the endpoint was closed. Frees. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_loan_drop(loan: *mut LoanHandle) {
    guarded(|| {
        if !loan.is_null() {
            // SAFETY: it is ours, and used no more.
            drop(unsafe { Box::from_raw(loan) });
        }
        Ok(())
    });
}

/// Takes a loan back from C, to be sent.
///
/// # Safety
/// `loan` is null or neither sent nor dropped.
pub unsafe fn take_loan(loan: *mut LoanHandle) -> Result<Loan, Status> {
    if loan.is_null() {
        return Err(FARCALL_INVALID_ARGUMENT);
    }
    // SAFETY: as promised; C uses it no more.
    Ok(unsafe { Box::from_raw(loan) }.0)
}
