//! What UCX's callbacks leave behind for the code that runs when UCX does not.
//!
//! The callbacks get a raw pointer to a [`Shared`] and make a reference of it for their own duration only.
//! They run inside calls of UCX, on the thread that made the call, and the rest of the crate holds no
//! reference across such calls ([`SharedBox::with`] cannot call UCX). So there is never more than one
//! reference.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::rc::Rc;

use farcall_driver::Destination;
use farcall_transport::{
    ARRIVAL_HEAD_BYTES_MAX, Arrival, COMPOSED_FRONT_BYTES_MAX, Incoming, Payload, Spares, split_composed,
};

use crate::api::Api;
use crate::ffi::*;

/// The longest message that is copied even if UCX would leave it here, in bytes: a copy costs less than
/// giving it back.
const COPIED_BYTES_MAX: usize = 256;

/// The head of a message that travelled apart from its payload, copied out of UCX's memory.
#[derive(Clone, Copy)]
pub struct HeadBytes {
    bytes: [u8; ARRIVAL_HEAD_BYTES_MAX],
    length: u8,
}

impl HeadBytes {
    /// A copy of `bytes`; `None` when they are too many.
    pub fn copy(bytes: &[u8]) -> Option<Self> {
        let mut copy = [0; ARRIVAL_HEAD_BYTES_MAX];
        copy.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { bytes: copy, length: bytes.len() as u8 })
    }
}

/// A message that has arrived.
pub struct UcxArrival {
    /// `None` when it is composed: then the head is in front of the payload.
    pub head: Option<Box<HeadBytes>>,
    pub body: Body,
}

/// Where its bytes are.
pub enum Body {
    /// Nowhere: there are none.
    Empty,
    /// In UCX's memory, which is ours to read until it is released.
    InPlace { data: NonNull<u8>, length: usize },
    /// Copied, into memory that is used again.
    Copied(Vec<u8>),
    /// In memory that can be kept.
    Fetched(Payload),
}

// SAFETY: the data is read by the holder of the arrival, and given back to UCX by the worker that it came
// from, with which it moves.
#[expect(unsafe_code, reason = "UCX's memory is known by a pointer")]
unsafe impl Send for UcxArrival {}

impl UcxArrival {
    /// An arrival, unless it is composed and has no head.
    pub fn new(head: Option<Box<HeadBytes>>, body: Body) -> Option<Self> {
        let this = Self { head, body };
        (this.head.is_some() || split_composed(this.bytes()).is_some()).then_some(this)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Empty => &[],
            #[expect(unsafe_code, reason = "the payload is in UCX's memory")]
            Body::InPlace { data, length } => {
                // SAFETY: UCX promised the data to the callback that made this arrival, until it is released,
                // which consumes the arrival.
                unsafe { core::slice::from_raw_parts(data.as_ptr(), *length) }
            }
            Body::Copied(bytes) => bytes,
            Body::Fetched(payload) => payload,
        }
    }
}

impl Arrival for UcxArrival {
    #[inline]
    fn head(&self) -> &[u8] {
        match &self.head {
            Some(head) => &head.bytes[..usize::from(head.length)],
            None => split_composed(self.bytes()).map_or(&[], |(head, _)| head),
        }
    }

    #[inline]
    fn payload(&self) -> Incoming<'_> {
        match (&self.head, &self.body) {
            (Some(_), Body::Fetched(payload)) => Incoming::Owned(payload),
            (Some(_), _) => Incoming::Borrowed(self.bytes()),
            (None, _) => Incoming::Borrowed(split_composed(self.bytes()).map_or(&[], |(_, payload)| payload)),
        }
    }
}

/// A long message that its sender keeps until it is fetched.
pub struct Announced {
    pub head: Option<Box<HeadBytes>>,
    /// What UCX wants to see again.
    pub descriptor: NonNull<c_void>,
    pub length: usize,
}

/// What the callback of one operation or endpoint knows: where to leave word, and the number of what it is
/// about.
///
/// UCX has pointers to tickets, and nobody writes to them.
pub struct Ticket {
    pub shared: *mut Shared,
    pub number: u32,
}

/// What the callbacks leave behind.
pub struct Shared {
    /// To give requests back, which only their callbacks may do.
    pub api: &'static Api,
    pub arrivals: VecDeque<UcxArrival>,
    /// Empty buffers for the next arrivals.
    pub spares: Spares,
    pub announced: Vec<Announced>,
    /// Fetches that have ended, by number, and how many bytes came; `None` for those that failed.
    pub fetched: Vec<(u32, Option<usize>)>,
    /// Sends that have ended, by the numbers of their slots.
    pub sent: Vec<u32>,
    pub lost: VecDeque<Destination>,
    /// The requests of endpoints that are not closed completely yet.
    pub closing: Vec<*mut c_void>,
    /// The longest payload that is accepted.
    pub payload_bytes_max: usize,
}

impl Shared {
    /// A copy of a message that is UCX's only for the moment.
    #[inline]
    fn copy(&mut self, bytes: &[u8]) -> Body {
        let mut copy = self.spares.take(bytes.len());
        copy.extend_from_slice(bytes);
        Body::Copied(copy)
    }

    #[inline]
    fn arrive(&mut self, head: Option<Box<HeadBytes>>, body: Body) {
        if let Some(arrival) = UcxArrival::new(head, body) {
            self.arrivals.push_back(arrival);
        }
    }
}

/// The one owner of a [`Shared`], which stays where it is.
pub struct SharedBox(Box<UnsafeCell<Shared>>);

impl SharedBox {
    pub fn new(api: &'static Api, payload_bytes_max: usize) -> Self {
        Self(Box::new(UnsafeCell::new(Shared {
            api,
            arrivals: VecDeque::new(),
            spares: Spares::default(),
            announced: Vec::new(),
            fetched: Vec::new(),
            sent: Vec::new(),
            lost: VecDeque::new(),
            closing: Vec::new(),
            payload_bytes_max,
        })))
    }

    /// A ticket for the callback of `number`.
    pub fn ticket(&self, number: u32) -> Rc<Ticket> {
        Rc::new(Ticket { shared: self.0.get(), number })
    }

    /// Uses it between calls of UCX: `use_it` has no way to call UCX, which would run callbacks.
    #[inline]
    pub fn with<R>(&mut self, use_it: impl FnOnce(&mut Shared) -> R) -> R {
        // SAFETY: `&mut self` excludes other uses of this method, and no callback runs while `use_it` does
        // (see above).
        #[expect(unsafe_code, reason = "callbacks have a pointer to it")]
        let shared = unsafe { &mut *self.0.get() };
        use_it(shared)
    }

    /// Leaves the state to callbacks for good; nobody else uses it again.
    pub fn leak(&mut self) {
        let fresh = Self::new(self.with(|shared| shared.api), 0);
        core::mem::forget(core::mem::replace(self, fresh));
    }

    /// The pointer for callbacks.
    pub fn for_callbacks(&self) -> *mut Shared {
        self.0.get()
    }
}

/// UCX's callback for a message.
///
/// # Safety
/// For UCX only: `argument` is the pointer of a living [`SharedBox`] that nobody has a reference to, and the
/// rest is as UCX's headers say.
#[expect(unsafe_code, reason = "called by UCX with raw pointers")]
pub unsafe extern "C" fn on_message(
    argument: *mut c_void,
    header: *const c_void,
    header_length: usize,
    data: *mut c_void,
    length: usize,
    param: *const ReceiveParam,
) -> Status {
    // SAFETY: promised by the caller.
    let (shared, attributes) = unsafe { (&mut *argument.cast::<Shared>(), (*param).recv_attr) };
    let head = match header_length {
        0 => None,
        // SAFETY: UCX gives a header of that length for the time of the callback.
        _ => match HeadBytes::copy(unsafe { core::slice::from_raw_parts(header.cast(), header_length) }) {
            Some(head) => Some(Box::new(head)),
            // What no correct peer sends is dropped here: UCX takes the data back.
            None => return UCS_OK,
        },
    };
    if length > shared.payload_bytes_max + COMPOSED_FRONT_BYTES_MAX {
        return UCS_OK;
    }
    let Some(data) = NonNull::new(data).filter(|_| length > 0) else {
        shared.arrive(head, Body::Empty);
        return UCS_OK;
    };
    if attributes & UCP_AM_RECV_ATTR_FLAG_RNDV != 0 {
        shared.announced.push(Announced { head, descriptor: data, length });
        return UCS_INPROGRESS;
    }
    let data = data.cast::<u8>();
    // SAFETY: UCX gives data of that length for the time of the callback.
    let bytes = unsafe { core::slice::from_raw_parts(data.as_ptr(), length) };
    if attributes & UCP_AM_RECV_ATTR_FLAG_DATA == 0 || length <= COPIED_BYTES_MAX {
        let body = shared.copy(bytes);
        shared.arrive(head, body);
        return UCS_OK;
    }
    match UcxArrival::new(head, Body::InPlace { data, length }) {
        Some(arrival) => {
            shared.arrivals.push_back(arrival);
            UCS_INPROGRESS
        }
        None => UCS_OK,
    }
}
