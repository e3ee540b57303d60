//! One client's slots, as the daemon sees them.

use std::io;
use std::sync::Arc;

use farcall_base::Principal;
use farcall_shm::access;
use farcall_shm::cells::{BadLength, CellCopy, CellHeader, Cells};
use farcall_shm::intake::ForeignFd;
use farcall_shm::segment::{PeerAccess, Segment};

use super::{SlotLayout, SlotMessage, hello, slot_ahead};

/// Scans that find a slot empty before the next slot is looked at. Requests mostly come in the order of the
/// slots.
pub const LOOKS_AT_A_SLOT: u32 = 8;

/// The most requests that one scan takes.
pub const GROUP: usize = 16;

/// A request that was taken out of its slot.
#[derive(Debug)]
pub struct TakenRequest {
    pub slot: usize,
    header: CellHeader,
    message: CellCopy,
}

impl TakenRequest {
    /// Memory for a request.
    pub fn new(layout: SlotLayout) -> Self {
        let header = CellHeader { tag: 0, length: 0 };
        Self { slot: 0, header, message: CellCopy::new(layout.request_bytes) }
    }

    /// What it says.
    #[inline]
    pub fn request(&self) -> SlotMessage<'_> {
        let CellHeader { tag, length } = self.header;
        SlotMessage { tag, bytes: self.message.bytes(length) }
    }
}

/// Where a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The request with the slot's number may come.
    Waiting,
    /// It has come; its response is owed.
    Owed,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    stage: Stage,
    /// The number of the request that is waited for, or owed a response.
    sequence: u32,
}

/// A client's part.
#[derive(Debug)]
pub struct Attached {
    socket: ForeignFd,
    principal: Principal,
    requests: Cells,
    responses: Cells,
    slots: Box<[Slot]>,
    /// Where the next scan begins.
    next_slot: usize,
    /// Scans that found nothing there.
    looks: u32,
    /// It broke the rules.
    is_bad: bool,
}

impl Attached {
    /// Gives a client its slots.
    pub fn new(socket: ForeignFd, layout: SlotLayout) -> io::Result<Self> {
        let (responses, bytes) = layout.extent();
        let (segment, mapping) = Segment::create("farcall-slots", bytes, PeerAccess::Write)?;
        hello::send(&socket, &layout, segment.as_fd())?;
        let mapping = Arc::new(mapping);
        Ok(Self {
            principal: access::principal(&socket),
            socket,
            requests: Cells::new(Arc::clone(&mapping), 0, layout.request_bytes, layout.slots),
            responses: Cells::new(mapping, responses, layout.response_bytes, layout.slots),
            // Fresh memory is zero, so the first message is number one.
            slots: vec![Slot { stage: Stage::Waiting, sequence: 1 }; layout.slots].into(),
            next_slot: 0,
            looks: 0,
            is_bad: false,
        })
    }

    /// What is readable when the client is gone.
    pub fn socket(&self) -> &ForeignFd {
        &self.socket
    }

    /// Who it is, as the kernel says.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Whether it broke the rules.
    pub fn is_bad(&self) -> bool {
        self.is_bad
    }

    /// Copies the requests that have come into a group; gives how many.
    ///
    /// It begins where it ended before, and ends at the first slot whose request has not come: looking at
    /// slots that their client is about to write would take the lines away from it. After some looks that
    /// find nothing it goes on behind that slot, so that each is looked at, whatever the order in which
    /// requests come.
    #[inline]
    pub fn collect(&mut self, group: &mut [TakenRequest; GROUP]) -> usize {
        let mut places = group.iter_mut();
        let mut number = self.next_slot;
        for _ in 0..self.slots.len() {
            let next = if number + 1 == self.slots.len() { 0 } else { number + 1 };
            let slot = &mut self.slots[number];
            if slot.stage == Stage::Waiting {
                let cell = self.requests.cell(number);
                match cell.published(slot.sequence) {
                    Ok(None) => {
                        self.looks += 1;
                        if self.looks == LOOKS_AT_A_SLOT {
                            (number, self.looks) = (next, 0);
                        }
                        break;
                    }
                    Ok(Some(header)) => {
                        let Some(to) = places.next() else { break };
                        self.responses.prefetch_for_write(slot_ahead(number, self.slots.len()));
                        cell.read(header, &mut to.message);
                        (to.slot, to.header) = (number, header);
                        self.slots[number].stage = Stage::Owed;
                    }
                    Err(BadLength) => self.is_bad = true,
                }
                self.looks = 0;
            }
            number = next;
        }
        self.next_slot = number;
        GROUP - places.len()
    }

    /// Looks at all slots, and lets the next collection begin at the first whose request has come; says
    /// whether there is one. For a daemon that has yielded: it may get the core back milliseconds later, and
    /// would yield again after each look that finds nothing.
    pub fn seek(&mut self) -> bool {
        let Self { requests, slots, next_slot, .. } = &*self;
        let has_come = |number: &usize| {
            let Slot { stage, sequence } = slots[*number];
            stage == Stage::Waiting && requests.cell(*number).published(sequence) != Ok(None)
        };
        let found = (*next_slot..slots.len()).chain(0..*next_slot).find(has_come);
        if let Some(number) = found {
            (self.next_slot, self.looks) = (number, 0);
        }
        found.is_some()
    }

    /// What responds in a slot.
    #[inline]
    pub fn responder(&mut self, number: usize) -> Responder<'_> {
        Responder { responses: &self.responses, slot: &mut self.slots[number], number }
    }

    /// The same, if there is such a slot and a response is owed there.
    pub fn owed(&mut self, number: usize) -> Option<Responder<'_>> {
        let is_owed = self.slots.get(number).is_some_and(|slot| slot.stage == Stage::Owed);
        is_owed.then(|| self.responder(number))
    }
}

/// Gives the response to a request that is being taken.
pub struct Responder<'a> {
    responses: &'a Cells,
    slot: &'a mut Slot,
    number: usize,
}

impl Responder<'_> {
    /// Does not respond: the request is taken once more, as if it had come just now.
    pub fn leave(&mut self) {
        assert_eq!(self.slot.stage, Stage::Owed, "a request has one response");
        self.slot.stage = Stage::Waiting;
    }

    /// Responds; the slot waits for its next request.
    ///
    /// # Panics
    /// When the response is over the limit, or was given before.
    #[inline(always)]
    pub fn respond(&mut self, tag: u8, response: &[u8]) {
        assert_eq!(self.slot.stage, Stage::Owed, "a request has one response");
        self.responses.cell(self.number).publish(self.slot.sequence, tag, response);
        *self.slot = Slot { stage: Stage::Waiting, sequence: self.slot.sequence.wrapping_add(1) };
    }
}
