//! Messages that UCX is sending: their memory has to stay where it is until UCX says that it is done.
//!
//! A slot holds the head and either a copy of the payload or what owns it. Slots and the memory of copies are
//! used again, so that sending a small message allocates nothing.

use core::ffi::c_void;
use core::ptr::null_mut;
use std::rc::Rc;

use farcall_driver::{Destination, Loan};
use farcall_transport::{ARRIVAL_HEAD_BYTES_MAX, Outgoing, Payload, Spares, compose};

use crate::api::Api;
use crate::ffi::*;
use crate::shared::{SharedBox, Ticket};
use crate::worker::MESSAGE_ID;

/// The longest slice that is composed with its head, in bytes. Longer ones are worth keeping by their
/// receiver, which then has them without a head in front.
const COMPOSED_BYTES_MAX: usize = 4 << 10;

/// The most memory of copies that waits for a silent peer without a session, in bytes.
const RESTING_BYTES_MAX: usize = 1 << 20;

/// Whatever must not be dropped before UCX is done.
#[expect(dead_code, reason = "held, not used")]
enum Owner {
    Loan(Loan),
    Shared(Payload),
}

/// One message on its way out.
struct Slot {
    /// The head of a message that travels apart from it, and its length; 0 for a composed one.
    head: [u8; ARRIVAL_HEAD_BYTES_MAX],
    head_bytes: usize,
    copy: Vec<u8>,
    /// What keeps a payload alive that is sent without a copy.
    owner: Option<Owner>,
    ticket: Rc<Ticket>,
    /// Where it goes; `None` while the slot is vacant.
    to: Option<Destination>,
    /// Whether it counts as one that waits.
    waits: bool,
}

impl Slot {
    fn set_head(&mut self, head: &[u8]) {
        self.head[..head.len()].copy_from_slice(head);
        self.head_bytes = head.len();
    }
}

/// All messages on their way out.
#[derive(Default)]
pub struct Sends {
    /// Boxed, because UCX has pointers into them.
    #[expect(clippy::vec_box, reason = "a slot must not move when there are more of them")]
    slots: Vec<Box<Slot>>,
    vacant: Vec<u32>,
    spares: Spares,
    /// By destination: the composed messages on their way that were given as such.
    waiting: Vec<u32>,
    /// All of them.
    waiting_in_all: u32,
}

/// What UCX did with a message.
pub enum Sent {
    /// It has it, or will have sent it later.
    Accepted,
    /// The endpoint is of no more use.
    Failed,
}

/// What UCX did with a message, and whether it still needs its memory.
enum Transmission {
    Done,
    InFlight,
    Failed,
}

impl From<Transmission> for Sent {
    #[inline]
    fn from(transmission: Transmission) -> Self {
        match transmission {
            Transmission::Done | Transmission::InFlight => Self::Accepted,
            Transmission::Failed => Self::Failed,
        }
    }
}

impl Sends {
    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.vacant.len() == self.slots.len()
    }

    /// Whether something is on its way to `to`.
    pub fn any_to(&self, to: Destination) -> bool {
        self.slots.iter().any(|slot| slot.to == Some(to))
    }

    /// Whether what is on its way to `to` are copies that take less than [`RESTING_BYTES_MAX`].
    pub fn are_short_to(&self, to: Destination) -> bool {
        let mut in_flight = self.slots.iter().filter(|slot| slot.to == Some(to));
        let bytes = in_flight.try_fold(0, |bytes, slot| match slot.owner {
            Some(_) => None,
            None => Some(bytes + slot.copy.capacity()),
        });
        bytes.is_some_and(|bytes| bytes < RESTING_BYTES_MAX)
    }

    /// Gives a message to UCX. The `endpoint` must be that of the destination, and of the worker whose
    /// callbacks use `shared`. A short slice goes composed with its head, for which UCX has a shorter way.
    #[inline]
    pub fn send(
        &mut self,
        api: &Api,
        shared: &SharedBox,
        to: (Destination, *mut Endpoint),
        head: &[u8],
        payload: Outgoing<'_>,
    ) -> Sent {
        let number = self.vacant.pop().unwrap_or_else(|| self.add(shared));
        let slot = &mut *self.slots[number as usize];
        slot.head_bytes = 0;
        let place = match payload {
            Outgoing::Slice(bytes) if bytes.len() <= COMPOSED_BYTES_MAX => {
                slot.copy = self.spares.take(bytes.len());
                compose(&mut slot.copy, head);
                slot.copy.extend_from_slice(bytes);
                (slot.copy.as_ptr(), slot.copy.len())
            }
            Outgoing::Slice(bytes) => {
                slot.set_head(head);
                slot.copy = self.spares.take(bytes.len());
                slot.copy.extend_from_slice(bytes);
                (slot.copy.as_ptr(), slot.copy.len())
            }
            Outgoing::Loan(loan) => {
                slot.set_head(head);
                let place = (loan.as_ptr(), loan.len());
                slot.owner = Some(Owner::Loan(loan));
                place
            }
            Outgoing::Shared(payload) => {
                slot.set_head(head);
                let place = (payload.as_ptr(), payload.len());
                slot.owner = Some(Owner::Shared(payload));
                place
            }
        };
        self.hand_over(api, to, number, place)
    }

    /// Gives a composed message to UCX, and an empty buffer for it to the caller. The rest is as for `send`.
    /// What UCX takes at once never comes into a slot.
    #[inline]
    pub fn send_composed(
        &mut self,
        api: &Api,
        shared: &SharedBox,
        to: (Destination, *mut Endpoint),
        message: &mut Vec<u8>,
    ) -> Sent {
        if self.vacant.is_empty() {
            let number = self.add(shared);
            self.vacant.push(number);
        }
        let number = self.vacant[self.vacant.len() - 1];
        let slot = &mut *self.slots[number as usize];
        slot.head_bytes = 0;
        let sent = transmit(api, to.1, slot, (message.as_ptr(), message.len()));
        if let Transmission::InFlight = sent {
            self.keep_waiting(to.0, message);
        } else {
            message.clear();
        }
        sent.into()
    }

    /// Puts a message that UCX has not taken yet into the slot that it was given for. Its bytes stay where
    /// they are.
    #[cold]
    fn keep_waiting(&mut self, to: Destination, message: &mut Vec<u8>) {
        let number = self.vacant.pop().expect("the slot that it was given for");
        let slot = &mut *self.slots[number as usize];
        slot.copy = core::mem::replace(message, self.spares.take(0));
        (slot.to, slot.waits) = (Some(to), true);
        let place = to.0 as usize;
        if self.waiting.len() <= place {
            self.waiting.resize(place + 1, 0);
        }
        self.waiting[place] += 1;
        self.waiting_in_all += 1;
    }

    /// Whether composed messages to a destination wait for room.
    #[inline]
    pub fn any_waits_for(&self, to: Destination) -> bool {
        self.waiting_in_all > 0 && self.waiting.get(to.0 as usize).is_some_and(|&waiting| waiting > 0)
    }

    /// Gives the message of a slot to UCX; the slot owns the bytes at `place`.
    #[inline]
    fn hand_over(
        &mut self,
        api: &Api,
        (to, endpoint): (Destination, *mut Endpoint),
        number: u32,
        place: (*const u8, usize),
    ) -> Sent {
        let slot = &mut *self.slots[number as usize];
        slot.to = Some(to);
        let sent = transmit(api, endpoint, slot, place);
        if !matches!(sent, Transmission::InFlight) {
            self.finish(number);
        }
        sent.into()
    }

    /// UCX is done with a slot.
    #[inline]
    pub fn finish(&mut self, number: u32) {
        let slot = &mut *self.slots[number as usize];
        slot.owner = None;
        let to = slot.to.take();
        if core::mem::take(&mut slot.waits)
            && let Some(Destination(to)) = to
        {
            self.waiting[to as usize] -= 1;
            self.waiting_in_all -= 1;
        }
        self.spares.keep(core::mem::take(&mut slot.copy));
        self.vacant.push(number);
    }

    #[cold]
    fn add(&mut self, shared: &SharedBox) -> u32 {
        let number = u32::try_from(self.slots.len()).expect("sessions bound what is in flight");
        self.slots.push(Box::new(Slot {
            head: [0; ARRIVAL_HEAD_BYTES_MAX],
            head_bytes: 0,
            copy: Vec::new(),
            owner: None,
            ticket: shared.ticket(number),
            to: None,
            waits: false,
        }));
        number
    }
}

/// Gives a message to UCX with the head and the ticket of a slot. It must be in the slot when this returns
/// that it is in flight, and stay there.
#[inline]
fn transmit(
    api: &Api,
    endpoint: *mut Endpoint,
    slot: &Slot,
    (data, length): (*const u8, usize),
) -> Transmission {
    let param = RequestParam {
        op_attr_mask: UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        callback: OperationCallback { send: Some(on_sent) },
        user_data: Rc::as_ptr(&slot.ticket).cast_mut().cast(),
        ..no_param()
    };
    let (head, head_bytes) = (slot.head.as_ptr().cast(), slot.head_bytes);
    // SAFETY: the endpoint lives. Head and payload stay in the slot, and the slot where it is, until UCX
    // returns null, an error, or calls `on_sent` with it; then `finish` runs, and not before.
    #[expect(unsafe_code, reason = "a call of UCX")]
    let request =
        unsafe { (api.ucp_am_send_nbx)(endpoint, MESSAGE_ID, head, head_bytes, data.cast(), length, &param) };
    if request.is_null() {
        Transmission::Done
    } else if is_error(request) {
        Transmission::Failed
    } else {
        Transmission::InFlight
    }
}

/// Parameters of an operation with none of them set.
pub fn no_param() -> RequestParam {
    RequestParam {
        op_attr_mask: 0,
        flags: 0,
        request: null_mut(),
        callback: OperationCallback { send: None },
        datatype: 0,
        user_data: null_mut(),
        reply_buffer: null_mut(),
        memory_type: 0,
        recv_info: null_mut(),
        memh: null_mut(),
    }
}

/// UCX's callback for a message that it has sent, or has given up. What went wrong the error handler of the
/// endpoint says.
///
/// # Safety
/// For UCX only, with the ticket of a slot.
#[expect(unsafe_code, reason = "called by UCX with raw pointers")]
unsafe extern "C" fn on_sent(request: *mut c_void, _: Status, ticket: *mut c_void) {
    // SAFETY: the ticket and the shared state outlive the worker, and nobody has a reference to the latter
    // while UCX runs. The request is the one that ends here.
    unsafe {
        let Ticket { shared, number } = *ticket.cast::<Ticket>();
        (*shared).sent.push(number);
        ((*shared).api.ucp_request_free)(request);
    }
}
