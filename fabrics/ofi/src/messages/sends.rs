//! Messages that the provider is sending: their memory has to stay where it is until it says that it is done.
//!
//! A slot holds a frame, a copy of a payload, or what owns the payload. Slots and the memory of frames and
//! copies are used again, so that sending a small message allocates nothing.

use std::rc::Rc;

use crate::libfabric::{Context, Endpoint, Posted};
use farcall_driver::{Destination, Loan};
use farcall_transport::{Outgoing, Payload, Spares};

use crate::messages::Token;
use crate::messages::frame::FRAME_TAG;

/// Where the bytes of a message are.
enum Body {
    /// A frame, or a copy of a payload.
    Copy(Vec<u8>),
    Loan(Loan),
    Shared(Payload),
}

/// One message on its way out.
struct Slot {
    body: Body,
    tag: u64,
    context: Rc<Context>,
    /// Where it goes; `None` while the slot is vacant.
    to: Option<Destination>,
}

/// All messages on their way out.
#[derive(Default)]
pub struct Sends {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    spares: Spares,
}

impl Sends {
    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.vacant.len() == self.slots.len()
    }

    /// Takes a frame, and leaves an empty buffer for it. It is not sent yet.
    #[inline]
    pub fn add_frame(&mut self, to: Destination, frame: &mut Vec<u8>) -> u32 {
        let copy = core::mem::replace(frame, self.spares.take(0));
        self.add(to, FRAME_TAG, Body::Copy(copy))
    }

    /// Takes a payload that has a tag of its own. It is not sent yet.
    #[cold]
    pub fn add_payload(&mut self, to: Destination, tag: u64, payload: Outgoing<'_>) -> u32 {
        let body = match payload {
            Outgoing::Slice(bytes) => {
                let mut copy = self.spares.take(bytes.len());
                copy.extend_from_slice(bytes);
                Body::Copy(copy)
            }
            Outgoing::Loan(loan) => Body::Loan(loan),
            Outgoing::Shared(payload) => Body::Shared(payload),
        };
        self.add(to, tag, body)
    }

    #[inline]
    fn add(&mut self, to: Destination, tag: u64, body: Body) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| self.grow());
        let slot = &mut self.slots[number as usize];
        (slot.to, slot.tag, slot.body) = (Some(to), tag, body);
        number
    }

    /// Gives a message to the provider.
    #[inline]
    pub fn post(&mut self, endpoint: &mut Endpoint, number: u32, at: u64) -> Posted {
        let slot = &self.slots[number as usize];
        let bytes: &[u8] = match &slot.body {
            Body::Copy(bytes) => bytes,
            Body::Loan(loan) => loan,
            Body::Shared(payload) => payload,
        };
        // SAFETY: bytes and context are kept by the slot, untouched, until `finish` runs, which it does when
        // the provider is done or has not taken the message. At the end of the endpoint they are kept for
        // good.
        #[expect(unsafe_code, reason = "the provider reads the memory later")]
        unsafe {
            endpoint.send_tagged(bytes, at, slot.tag, &slot.context)
        }
    }

    /// The provider is done with a message, or never had it. Gives where it was going.
    #[inline]
    pub fn finish(&mut self, number: u32) -> Option<Destination> {
        let slot = self.slots.get_mut(number as usize)?;
        let to = slot.to.take()?;
        if let Body::Copy(copy) = core::mem::replace(&mut slot.body, Body::Copy(Vec::new())) {
            self.spares.keep(copy);
        }
        self.vacant.push(number);
        Some(to)
    }

    /// Keeps the memory of what is in flight for good: a peer may still be reading it.
    pub fn leak(&mut self) {
        for slot in self.slots.drain(..).filter(|slot| slot.to.is_some()) {
            core::mem::forget(slot);
        }
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let number = u32::try_from(self.slots.len()).expect("sessions bound what is in flight");
        self.slots.push(Slot {
            body: Body::Copy(Vec::new()),
            tag: 0,
            context: Rc::new(Context::new(Token::Send(number).to_word())),
            to: None,
        });
        number
    }
}
