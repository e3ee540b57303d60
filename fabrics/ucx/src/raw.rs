//! Tagged messages of UCX itself, with as little around them as a program can have: what the transport is
//! held against.
//!
//! A number of slots, each with memory of its own and at most one operation in flight; the tag of a slot's
//! messages is its number. UCX matches, and a slot that has completed is found in one of the two ways that
//! UCX has.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::null_mut;

use farcall_base::Address;

use crate::address::unwrap;
use crate::ffi::*;
use crate::library::UcxError;
use crate::sends::no_param;
use crate::worker::{WorkerBox, refused, zeroed};

/// How slots that have completed are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawCompletion {
    /// Callbacks list them.
    Callbacks,
    /// The request of every slot is asked in turn.
    Check,
}

enum State {
    Idle,
    InFlight(*mut c_void),
    /// It was complete at once, which has not been reported.
    Complete,
}

/// What a callback is given.
struct Ticket {
    done: *mut Vec<usize>,
    slot: usize,
}

struct Slot {
    memory: Box<[u8]>,
    ticket: Box<Ticket>,
    state: State,
}

/// A worker, its only peer, and the slots.
pub struct RawUcx {
    worker: core::mem::ManuallyDrop<WorkerBox>,
    endpoint: *mut Endpoint,
    slots: Vec<Slot>,
    completion: RawCompletion,
    /// Slots that callbacks have listed. They run inside calls of UCX only, when nobody here has a reference
    /// to it.
    done: Box<UnsafeCell<Vec<usize>>>,
    /// Where the next look at all slots goes on.
    next: usize,
}

impl RawUcx {
    /// A worker with this many slots of this many bytes, not connected yet.
    pub fn new(slots: usize, bytes: usize, completion: RawCompletion) -> Result<Self, UcxError> {
        let worker = WorkerBox::with_features(UCP_FEATURE_TAG, false)?;
        let done = Box::new(UnsafeCell::new(Vec::with_capacity(slots)));
        let slot = |slot| Slot {
            memory: vec![0; bytes].into(),
            ticket: Box::new(Ticket { done: done.get(), slot }),
            state: State::Idle,
        };
        let slots = (0..slots).map(slot).collect();
        let worker = core::mem::ManuallyDrop::new(worker);
        Ok(Self { worker, endpoint: null_mut(), slots, completion, done, next: 0 })
    }

    /// Where the other side reaches this one.
    pub fn address(&self) -> Result<Address, UcxError> {
        self.worker.address()
    }

    /// Connects to the other side.
    pub fn connect(&mut self, to: &Address) -> Result<(), UcxError> {
        let unknown =
            |_| UcxError::Refused { what: "a peer", why: "the address is not one of UCX's".to_owned() };
        let address = unwrap(to).map_err(unknown)?;
        // SAFETY: the structure holds numbers and pointers; null and 0 are among their values.
        #[expect(unsafe_code, reason = "a structure of C")]
        let mut params: EndpointParams = unsafe { zeroed() };
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = address.as_ptr().cast();
        // SAFETY: the worker lives, and the address is what another worker gave, unaltered, as `unwrap` has
        // checked.
        #[expect(unsafe_code, reason = "a call of UCX")]
        let status =
            unsafe { (self.worker.api.ucp_ep_create)(self.worker.worker, &params, &mut self.endpoint) };
        if status == UCS_OK { Ok(()) } else { Err(refused(self.worker.api, "a peer", status)) }
    }

    /// The memory of a slot that is idle.
    ///
    /// # Panics
    /// When something is in flight there.
    #[inline]
    pub fn memory(&mut self, slot: usize) -> &mut [u8] {
        let slot = &mut self.slots[slot];
        assert!(matches!(slot.state, State::Idle), "UCX uses this memory");
        &mut slot.memory
    }

    /// Sends what is in a slot's memory.
    ///
    /// # Panics
    /// When something is in flight there, or there is no peer.
    #[inline]
    pub fn send(&mut self, slot: usize) {
        assert!(!self.endpoint.is_null(), "connect first");
        let (memory, length) = (self.memory(slot).as_ptr(), self.memory(slot).len());
        let param = self.param(slot, OperationCallback { send: Some(on_sent) });
        // SAFETY: the endpoint lives. The memory stays where it is and is not touched while the slot is not
        // idle, which it is again when UCX says that it is done.
        #[expect(unsafe_code, reason = "a call of UCX")]
        let request = unsafe {
            (self.worker.api.ucp_tag_send_nbx)(self.endpoint, memory.cast(), length, slot as u64, &param)
        };
        self.begun(slot, request);
    }

    /// Receives into a slot's memory.
    ///
    /// # Panics
    /// When something is in flight there.
    #[inline]
    pub fn receive(&mut self, slot: usize) {
        let (memory, length) = (self.memory(slot).as_mut_ptr(), self.memory(slot).len());
        let param = self.param(slot, OperationCallback { tag: Some(on_received) });
        let worker = self.worker.worker;
        // SAFETY: as in `send`.
        #[expect(unsafe_code, reason = "a call of UCX")]
        let request = unsafe {
            (self.worker.api.ucp_tag_recv_nbx)(worker, memory.cast(), length, slot as u64, u64::MAX, &param)
        };
        self.begun(slot, request);
    }

    #[inline]
    fn param(&self, slot: usize, callback: OperationCallback) -> RequestParam {
        match self.completion {
            RawCompletion::Check => no_param(),
            RawCompletion::Callbacks => RequestParam {
                op_attr_mask: UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                callback,
                user_data: (&raw const *self.slots[slot].ticket).cast_mut().cast(),
                ..no_param()
            },
        }
    }

    #[inline]
    fn begun(&mut self, slot: usize, request: StatusPointer) {
        assert!(!is_error(request), "UCX refuses a message");
        self.slots[slot].state = match (request.is_null(), self.completion) {
            (false, _) => State::InFlight(request),
            (true, RawCompletion::Check) => State::Complete,
            (true, RawCompletion::Callbacks) => {
                self.done.get_mut().push(slot);
                State::Complete
            }
        };
    }

    /// The next slot that has completed, if there is one; lets UCX work when it must.
    #[inline]
    pub fn next_complete(&mut self) -> Option<usize> {
        let found = match self.completion {
            RawCompletion::Callbacks => self.done.get_mut().pop().or_else(|| {
                self.worker.progress();
                self.done.get_mut().pop()
            }),
            RawCompletion::Check => self.look_through(self.next).or_else(|| {
                self.worker.progress();
                self.look_through(0)
            }),
        }?;
        self.slots[found].state = State::Idle;
        self.next = found + 1;
        Some(found)
    }

    /// Lets UCX work.
    pub fn progress(&mut self) {
        self.worker.progress();
    }

    /// The first slot from `start` on that has completed.
    fn look_through(&mut self, start: usize) -> Option<usize> {
        (start..self.slots.len()).find(|&slot| match self.slots[slot].state {
            State::Idle => false,
            State::Complete => true,
            State::InFlight(request) => {
                // SAFETY: the request has not been freed; it is freed once, because the slot is idle
                // afterwards.
                #[expect(unsafe_code, reason = "calls of UCX")]
                unsafe {
                    let is_done = (self.worker.api.ucp_request_check_status)(request) != UCS_INPROGRESS;
                    if is_done {
                        (self.worker.api.ucp_request_free)(request);
                    }
                    is_done
                }
            }
        })
    }
}

/// UCX's callback for a message that was sent. The request stays; it is freed here.
///
/// # Safety
/// For UCX only, with the ticket of a slot.
#[expect(unsafe_code, reason = "called by UCX with raw pointers")]
unsafe extern "C" fn on_sent(request: *mut c_void, _: Status, ticket: *mut c_void) {
    // SAFETY: promised above.
    unsafe { on_received(request, UCS_OK, null_mut(), ticket) }
}

/// UCX's callback for a message that was received.
///
/// # Safety
/// For UCX only, with the ticket of a slot.
#[expect(unsafe_code, reason = "called by UCX with raw pointers")]
unsafe extern "C" fn on_received(request: *mut c_void, _: Status, _: *const c_void, ticket: *mut c_void) {
    // SAFETY: ticket and list outlive the worker, and nobody has a reference to the list while UCX runs. The
    // request is the one that ends here. UCX was opened, or it would not call.
    unsafe {
        let ticket = &*ticket.cast::<Ticket>();
        (*ticket.done).push(ticket.slot);
        if let Ok(api) = crate::api::api() {
            (api.ucp_request_free)(request);
        }
    }
}

/// With operations in flight, the worker and all that it may touch stay until the process ends.
impl Drop for RawUcx {
    fn drop(&mut self) {
        if self.slots.iter().all(|slot| matches!(slot.state, State::Idle)) {
            // SAFETY: it is not used again.
            #[expect(unsafe_code, reason = "a worker that is only dropped when UCX permits it")]
            unsafe {
                core::mem::ManuallyDrop::drop(&mut self.worker);
            }
        } else {
            core::mem::forget(core::mem::take(&mut self.slots));
            core::mem::forget(core::mem::take(&mut self.done));
        }
    }
}
