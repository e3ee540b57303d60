//! Tagged messages of UCX itself. UCX matches, and a slot that has completed is found in one of the two ways
//! that UCX has.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::null_mut;

use farcall_base::Address;
use farcall_ucx::sys::*;
use farcall_ucx::{Reach, UcxError};

use super::RawSlots;

/// How slots that have completed are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UcxCompletion {
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
    completion: UcxCompletion,
    /// Slots that callbacks have listed. They run inside calls of UCX only, when nobody here has a reference
    /// to it.
    done: Box<UnsafeCell<Vec<usize>>>,
    /// Where the next look at all slots goes on.
    next: usize,
}

impl RawUcx {
    /// A worker with this many slots of this many bytes, not connected yet.
    pub fn new(slots: usize, bytes: usize, completion: UcxCompletion) -> Result<Self, UcxError> {
        let worker = WorkerBox::with_features(UCP_FEATURE_TAG, false, Reach::Network)?;
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

    #[inline]
    fn param(&self, slot: usize, callback: OperationCallback) -> RequestParam {
        match self.completion {
            UcxCompletion::Check => no_param(),
            UcxCompletion::Callbacks => RequestParam {
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
            (true, UcxCompletion::Check) => State::Complete,
            (true, UcxCompletion::Callbacks) => {
                self.done.get_mut().push(slot);
                State::Complete
            }
        };
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

impl RawSlots for RawUcx {
    #[inline]
    fn memory(&mut self, slot: usize) -> &mut [u8] {
        let slot = &mut self.slots[slot];
        assert!(matches!(slot.state, State::Idle), "UCX uses this memory");
        &mut slot.memory
    }

    #[inline]
    fn send(&mut self, slot: usize) {
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

    #[inline]
    fn receive(&mut self, slot: usize) {
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
    fn next_complete(&mut self) -> Option<usize> {
        let found = match self.completion {
            UcxCompletion::Callbacks => self.done.get_mut().pop().or_else(|| {
                self.worker.progress();
                self.done.get_mut().pop()
            }),
            UcxCompletion::Check => self.look_through(self.next).or_else(|| {
                self.worker.progress();
                self.look_through(0)
            }),
        }?;
        self.slots[found].state = State::Idle;
        self.next = found + 1;
        Some(found)
    }

    fn progress(&mut self) {
        self.worker.progress();
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
        if let Ok(api) = api() {
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
