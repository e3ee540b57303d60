//! Messages that the provider is sending: their memory has to stay where it is until it says that it is done.
//!
//! A slot holds a frame or a copy of a payload, or what owns the payload. Slots and their memory are used again, so that
//! sending a small message allocates nothing.

use std::rc::Rc;

use farcall_driver::{Destination, Loan};
use farcall_libfabric::{Context, Endpoint, Posted};
use farcall_transport::{Outgoing, Payload};

use crate::token::Token;

/// The most memory for copies that is kept for the next sends, in bytes.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// Where the bytes of a message are.
enum Body {
    /// In the slot's own memory.
    Copy,
    Loan(Loan),
    Shared(Payload),
}

/// One message on its way out.
struct Slot {
    copy: Vec<u8>,
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
    kept_bytes: usize,
}

impl Sends {
    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.vacant.len() == self.slots.len()
    }

    /// Takes a message. It is not sent yet.
    #[inline]
    pub fn add(&mut self, to: Destination, tag: u64, payload: Outgoing<'_>) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| self.grow());
        let slot = &mut self.slots[number as usize];
        (slot.to, slot.tag) = (Some(to), tag);
        slot.body = match payload {
            Outgoing::Slice(bytes) => {
                let before = slot.copy.capacity();
                slot.copy.clear();
                slot.copy.extend_from_slice(bytes);
                self.kept_bytes += slot.copy.capacity() - before;
                Body::Copy
            }
            Outgoing::Loan(loan) => Body::Loan(loan),
            Outgoing::Shared(payload) => Body::Shared(payload),
        };
        number
    }

    /// Gives a message to the provider.
    #[inline]
    pub fn post(&mut self, endpoint: &mut Endpoint, number: u32, at: u64) -> Posted {
        let slot = &self.slots[number as usize];
        let bytes: &[u8] = match &slot.body {
            Body::Copy => &slot.copy,
            Body::Loan(loan) => loan,
            Body::Shared(payload) => payload,
        };
        // SAFETY: bytes and context are kept by the slot, untouched, until `finish` runs, which it does when the provider is
        // done or has not taken the message. At the end of the endpoint they are kept for good.
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
        slot.body = Body::Copy;
        if self.kept_bytes > KEPT_BYTES_MAX {
            self.kept_bytes -= slot.copy.capacity();
            slot.copy = Vec::new();
        }
        self.vacant.push(number);
        Some(to)
    }

    /// Keeps the memory of what is under way for good: a peer may still be reading it.
    pub fn leak(&mut self) {
        for slot in self.slots.drain(..).filter(|slot| slot.to.is_some()) {
            core::mem::forget(slot);
        }
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let number = u32::try_from(self.slots.len()).expect("sessions bound what is under way");
        self.slots.push(Slot {
            copy: Vec::new(),
            body: Body::Copy,
            tag: 0,
            context: Rc::new(Context::new(Token::Send(number).to_word())),
            to: None,
        });
        number
    }
}
