//! What a message-passing library must be able to do.
//!
//! UCX, MPI and libfabric differ in everything but this: they carry whole messages of any length between
//! processes, lose none, and keep the order of those between two of them. What calls need beyond that
//! (sessions, limits, signs of life, cancellation) is the business of the layer above and the same for all.

use farcall_base::{Address, AddressError};
use farcall_base::{Instant, Principal};
use farcall_driver::{Destination, Wait};

use crate::{Incoming, Outgoing};

/// The longest head of a message, in bytes.
pub const ARRIVAL_HEAD_BYTES_MAX: usize = 64;

/// The most bytes in front of the payload of a composed message.
pub const COMPOSED_FRONT_BYTES_MAX: usize = 1 + ARRIVAL_HEAD_BYTES_MAX;

/// Begins a composed message, one whose head and payload lie together: the length of the head in one byte,
/// the head, and what the caller appends as payload. What was in `message` is gone.
///
/// # Panics
/// With a head longer than [`ARRIVAL_HEAD_BYTES_MAX`].
#[inline]
pub fn compose(message: &mut Vec<u8>, head: &[u8]) {
    assert!(head.len() <= ARRIVAL_HEAD_BYTES_MAX, "heads are short");
    message.clear();
    message.push(head.len() as u8);
    message.extend_from_slice(head);
}

/// Head and payload of a composed message; `None` when it ends within its head.
#[inline]
pub fn split_composed(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&head_bytes, rest) = message.split_first()?;
    rest.split_at_checked(usize::from(head_bytes))
}

/// What most libraries send at once: it fits the buffers of 8 KiB in which UCX copies what is short.
const SHORT_BYTES_MAX: usize = 7 << 10;

/// What waits in a library for one destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backlog {
    #[default]
    /// Nothing that has to wait for room.
    None,
    /// Something. Short messages gather meanwhile: to hand over more would only make that longer, and what
    /// comes together costs less at both ends.
    Some,
    /// So much that calls wait, too, until there is less.
    Full,
}

/// A message that has arrived, until it is given back with [`Library::release`].
pub trait Arrival {
    /// The head, as it was sent.
    fn head(&self) -> &[u8];

    /// The payload: in place if the library keeps it in memory of its own, otherwise in memory that can be
    /// kept.
    fn payload(&self) -> Incoming<'_>;
}

/// An instance of a message-passing library: what one endpoint sends and receives with.
///
/// A message is a head of at most [`ARRIVAL_HEAD_BYTES_MAX`] bytes and a payload. Nothing here blocks.
pub trait Library: Wait + Send {
    /// What [`Library::next_arrival`] gives.
    type Arrival: Arrival + Send;

    /// Whether its sleepers are woken when there is room again for what waits. Over others nobody sleeps
    /// while short messages gather.
    const WAKES_FOR_ROOM: bool = false;

    /// The name in transport strings and messages, such as `ucx`.
    fn name(&self) -> &'static str;

    /// The longest payload, in bytes.
    fn payload_bytes_max(&self) -> usize;

    /// The longest composed message, in bytes, that the library sends at once, by copying it and without
    /// asking its receiver. Short messages gather up to that.
    fn short_bytes_max(&self) -> usize {
        SHORT_BYTES_MAX
    }

    /// Where other processes reach this instance.
    fn address(&self) -> Address;

    /// The number to send to for an address: the same one for the same address until it is forgotten.
    fn resolve(&mut self, to: &Address) -> Result<Destination, AddressError>;

    /// The number to send to for an address from now on, because what led there may be over for the other
    /// side: a new one wherever the end of the former would be the end of both.
    fn resolve_again(&mut self, to: &Address) -> Result<Destination, AddressError> {
        self.resolve(to)
    }

    /// The number by which to answer a message whose sender says that it is reached at `address`; a `renewed`
    /// one as for [`Library::resolve_again`]. A library whose connections lead both ways answers over the one
    /// that the message came by, and until it is asked knows nothing of the peer that opened that.
    fn answer_to(
        &mut self,
        _arrival: &Self::Arrival,
        address: &Address,
        renewed: bool,
    ) -> Result<Destination, AddressError> {
        if renewed { self.resolve_again(address) } else { self.resolve(address) }
    }

    /// Whether what comes over a destination is sent by the one who is reached at `address`, as far as the
    /// library can tell: most cannot.
    fn comes_from(&self, _from: Destination, _address: &Address) -> bool {
        true
    }

    /// The host of a destination that something has come from, as a number that no other host has, where
    /// strangers connect: no host may open too many sessions. `None` where all are of one launch.
    fn host_of(&self, _of: Destination) -> Option<u64> {
        None
    }

    /// Who is at a destination that something has come from, as far as the library proves it.
    fn principal(&self, of: Destination) -> Principal;

    /// Lets go of what leads to a destination, once what was sent there has left. Its number may name another
    /// one later.
    fn forget(&mut self, to: Destination);

    /// Sends a message. What the library cannot take at once waits in it. After a failure the message is
    /// dropped and the destination is reported as lost.
    fn send(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>);

    /// Sends a message behind all that was sent to its destination before, also where short messages may
    /// overtake long ones: the last word of a session.
    fn send_behind(&mut self, to: Destination, head: &[u8], payload: Outgoing<'_>);

    /// Sends a composed message (see [`compose`]) and leaves an empty vector there, perhaps a short one that
    /// was used before. A library that can send from memory which is given to it takes the message itself
    /// instead of a copy.
    fn send_composed(&mut self, to: Destination, message: &mut Vec<u8>);

    /// How much waits in the library for a destination to have room.
    #[inline]
    fn backlog(&self, _to: Destination) -> Backlog {
        Backlog::None
    }

    /// Lets the library work: sends what waits, completes what has left, receives. Returns how much there was
    /// to do.
    fn progress(&mut self) -> usize;

    /// The next message that has arrived.
    fn next_arrival(&mut self) -> Option<Self::Arrival>;

    /// Ends the reading of a message.
    fn release(&mut self, arrival: Self::Arrival);

    /// The next destination that the library has found dead. Nothing sent there arrives any more.
    fn next_loss(&mut self) -> Option<Destination>;

    /// Why a destination was lost that [`Library::next_loss`] has just told, where there is more to say than
    /// that it is gone.
    fn reason_of_loss(&mut self, _of: Destination) -> Option<String> {
        None
    }

    /// Nothing was heard from a destination for the limit of silence; it is forgotten afterwards. What is on
    /// its way there need not be waited for, nor the process, by libraries that wait for all of them when
    /// they end.
    fn presume_dead(&mut self, _to: Destination) {}

    /// When [`Library::progress`] must run next although nothing arrives, after `now`.
    fn next_deadline(&self, now: Instant) -> Option<Instant>;
}

/// Whether what a transport needs is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is.
    Here {
        /// The library's version in its own words, or the devices.
        found: String,
    },
    /// It is not, or not in a way that it can be used.
    Absent {
        /// What is wrong and what to install or set.
        why: String,
    },
}
