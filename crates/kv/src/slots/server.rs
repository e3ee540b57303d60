//! The daemon's side: all clients and their slots.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use farcall_base::Principal;
use farcall_shm::access::Access;
use farcall_shm::intake::ForeignFd;
use farcall_shm::options::caller;
use farcall_shm::place::Door;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::attached::{Attached, GROUP, Responder, TakenRequest};
use super::{SlotLayout, SlotMessage, hello};

/// The most clients that are let in by one turn of attendance.
const ACCEPTS_PER_TURN: usize = 16;

/// Names a request's slot: the client's place, which client it was that had it, and the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotAddress {
    client: u16,
    generation: u32,
    slot: u16,
}

impl SlotAddress {
    /// The address as a number, for tokens.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.client) << 16 | u64::from(self.slot)
    }

    /// The address that a number came from.
    pub fn from_bits(bits: u64) -> Self {
        Self { client: (bits >> 16) as u16, generation: (bits >> 32) as u32, slot: bits as u16 }
    }
}

/// What a turn of attendance did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attendance {
    /// Clients that came.
    pub attached: usize,
    /// Clients that went, or were sent away because they broke the rules.
    pub detached: usize,
    /// Clients that found no place.
    pub refused: usize,
}

/// A place for a client.
#[derive(Debug, Default)]
struct Place {
    client: Option<Attached>,
    /// How many clients had it before.
    generation: u32,
}

/// A daemon's clients.
#[derive(Debug)]
pub struct SlotServer {
    /// `None` for a daemon that has no slots to give.
    door: Option<Door>,
    access: Access,
    layout: SlotLayout,
    places: Box<[Place]>,
    attached: usize,
    /// Requests that were taken out of slots.
    group: [TakenRequest; GROUP],
}

impl SlotServer {
    /// Listens at a name for up to `clients_max` clients of this user at a time.
    ///
    /// # Panics
    /// When the layout or the number of clients is out of bounds.
    pub fn bind(name: &str, layout: SlotLayout, clients_max: usize) -> io::Result<Self> {
        Self::bind_at(name, &Access::default(), layout, clients_max)
    }

    /// As [`bind`](Self::bind), for the clients that may, in the folder where they look.
    pub fn bind_at(name: &str, access: &Access, layout: SlotLayout, clients_max: usize) -> io::Result<Self> {
        assert!(layout.is_valid() && clients_max <= usize::from(u16::MAX), "bounds of the caller's making");
        let door = Some(Door::open(name, access)?);
        Ok(Self { access: access.clone(), ..Self::with(door, layout, clients_max) })
    }

    /// The slots of a daemon that has none to give: it serves the network only.
    pub fn none(layout: SlotLayout) -> Self {
        Self::with(None, layout, 0)
    }

    fn with(door: Option<Door>, layout: SlotLayout, clients_max: usize) -> Self {
        let places = (0..clients_max).map(|_| Place::default()).collect();
        let group = core::array::from_fn(|_| TakenRequest::new(layout));
        Self { door, access: Access::default(), layout, places, attached: 0, group }
    }

    /// Clients that are attached.
    pub fn attached(&self) -> usize {
        self.attached
    }

    /// What the slots of each client can hold.
    pub fn layout(&self) -> SlotLayout {
        self.layout
    }

    /// A descriptor that can be read while callers wait to be attended to; `None` where nobody can call.
    pub fn waker(&self) -> io::Result<Option<OwnedFd>> {
        self.door.as_ref().map(Door::waker).transpose()
    }

    /// How many places for clients there are.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Who the client at a place is, as the kernel says.
    pub fn principal(&self, place: usize) -> Principal {
        let client = self.places.get(place).and_then(|place| place.client.as_ref());
        client.map_or(Principal::Unproven, |client| client.principal().clone())
    }

    /// Lets new clients in and notices those that are gone. Makes system calls: not for every turn of a poll
    /// loop.
    pub fn attend(&mut self) -> Attendance {
        let mut attendance = Attendance { detached: self.detach_gone(), ..Attendance::default() };
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(Ok(socket)) = self.door.as_ref().map(Door::accept) else { break };
            // A client may send descriptors, which would be closed with its socket: elsewhere.
            let caller = caller(socket.as_fd());
            let socket = ForeignFd::new(socket, caller);
            if self.admit(socket) {
                attendance.attached += 1;
            } else {
                attendance.refused += 1;
            }
        }
        attendance
    }

    fn detach_gone(&mut self) -> usize {
        let clients = self.places.iter().filter_map(|place| place.client.as_ref());
        let mut polled: Vec<PollFd<'_>> =
            clients.map(|client| PollFd::from_borrowed_fd(client.socket().as_fd(), PollFlags::IN)).collect();
        // An interrupted look is repeated at the next turn. Clients send nothing: whatever is there is their
        // end.
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _interrupted = poll(&mut polled, Some(&at_once));
        let gone: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let mut detached = 0;
        let taken = self.places.iter_mut().filter(|place| place.client.is_some());
        for (place, gone) in taken.zip(gone) {
            if gone || place.client.as_ref().is_some_and(|client| client.is_bad()) {
                place.client = None;
                place.generation = place.generation.wrapping_add(1);
                detached += 1;
            }
        }
        self.attached -= detached;
        detached
    }

    /// Gives a caller its slots; says whether it got them.
    fn admit(&mut self, socket: ForeignFd) -> bool {
        let clients_max = self.places.len();
        let vacant = self.places.iter_mut().find(|place| place.client.is_none());
        let why = match (self.access.allow.check(&socket), vacant) {
            (Err(fault), _) => fault.to_string(),
            (Ok(_), None) => format!("it has {clients_max} clients, the limit"),
            (Ok(_), Some(place)) => match Attached::new(socket, self.layout) {
                Ok(client) => {
                    place.client = Some(client);
                    self.attached += 1;
                    return true;
                }
                // The caller sees its socket closed: it is gone itself, or the system is short of something.
                Err(_) => return false,
            },
        };
        hello::refuse(&socket, &why);
        false
    }

    /// Calls `take` with requests that have come to the client at a place, a bounded number; gives how many
    /// there were. What `take` gets is a copy, which the client cannot change any more.
    ///
    /// `take` gives the response if there is one at once; otherwise it is owed to the address.
    ///
    /// All are copied before the first is taken. A response is a store to a line that the client holds, and a
    /// processor that reads what it has just copied may have to wait for the stores before it: that would put
    /// the transfers of the responses' lines one behind the other.
    #[inline]
    pub fn scan(
        &mut self,
        place: usize,
        mut take: impl FnMut(SlotAddress, SlotMessage<'_>, &mut Responder<'_>),
    ) -> usize {
        let Self { places, group, .. } = self;
        let Place { client: Some(client), generation } = &mut places[place] else { return 0 };
        let taken = client.collect(group);
        for request in &group[..taken] {
            let (client_number, generation, slot) = (place as u16, *generation, request.slot as u16);
            let address = SlotAddress { client: client_number, generation, slot };
            take(address, request.request(), &mut client.responder(request.slot));
        }
        taken
    }

    /// Looks at all slots of all clients, so that the next [`scan`](Self::scan) of a client takes what has
    /// come, wherever it is; says whether there is anything. Takes lines from clients that are about to write
    /// them: for a daemon that has waited.
    pub fn seek(&mut self) -> bool {
        let mut has_any = false;
        for client in self.places.iter_mut().filter_map(|place| place.client.as_mut()) {
            has_any |= client.seek();
        }
        has_any
    }

    /// Takes the request of an address once more, as if it had come just now.
    pub fn take_again(&mut self, to: SlotAddress) {
        if let Some(mut responder) = self.owed(to) {
            responder.leave();
        }
    }

    /// Gives the response that is owed to an address. One for a client that is gone goes nowhere.
    pub fn respond(&mut self, to: SlotAddress, tag: u8, response: &[u8]) {
        if let Some(mut responder) = self.owed(to) {
            responder.respond(tag, response);
        }
    }

    fn owed(&mut self, to: SlotAddress) -> Option<Responder<'_>> {
        let place = self.places.get_mut(usize::from(to.client))?;
        let client = place.client.as_mut().filter(|_| place.generation == to.generation)?;
        client.owed(usize::from(to.slot))
    }
}
