//! What differs between the protocols.
//!
//! Messages, slots, running at most once, assembly, questions and timers are one mechanism. A policy decides
//! who is granted how much and when, at which priority packets travel, in which order messages leave, and how
//! fast. It is chosen at compile time, and what a policy leaves to the defaults costs nothing.

use core::fmt;

use crate::session::Link;
use crate::wire::{Cutoffs, Protocol};
use farcall_base::Instant;

use super::assembly::Assembly;
use super::channel::Channel;
use super::ready::{Ready, Side, SlotRef};
use super::sending::{Cut, Sending};
use super::window::Window;

/// The priority of packets that keep others flowing; drivers with fewer levels use their highest.
pub const PRIORITY_CONTROL: u8 = 7;

/// A policy for all calls of an endpoint. It can be implemented within this crate only, because it looks
/// inside.
pub trait Policy: fmt::Debug + Send + Sized + 'static {
    /// The protocol that it makes; sessions are opened only between two of the same.
    const PROTOCOL: Protocol;

    /// Whether a peer has few unanswered questions at a time. Otherwise every slot asks for itself.
    const QUESTIONS_TAKE_TURNS: bool = false;

    /// What is kept for each session.
    type Peer: fmt::Debug + Default + Send;

    /// A session came up.
    fn session_up(&mut self, _link: &Link) -> Self::Peer {
        Self::Peer::default()
    }

    /// A session ended; none of its messages arrives any more.
    fn session_down(&mut self, _session: u16, _peer: &mut Self::Peer) {}

    /// A message of `length` bytes begins to arrive. True when the peer should be sent [`Policy::cutoffs`],
    /// because it used those of `version`.
    #[inline]
    fn began(&mut self, _peer: &mut Self::Peer, _length: u32, _version: u8, _cut: &Cut) -> bool {
        false
    }

    /// A piece of a long message came and others are missing, or the pace of the session permits more. True
    /// when a grant should be sent at once.
    fn arrived(
        &mut self,
        slot: SlotRef,
        peer: &Self::Peer,
        message: &mut Assembly,
        cut: &Cut,
        window: &mut Window,
    ) -> bool;

    /// A long message is complete, or was given up.
    fn over(&mut self, _slot: SlotRef, _message: &Assembly) {}

    /// The sender of a long message has been silent although it has permission to send.
    fn silent(&mut self, _slot: SlotRef) {}

    /// Whether [`Policy::schedule`] may have grants to give.
    #[inline]
    fn is_schedule_due(&self) -> bool {
        false
    }

    /// Gives the grants that are due after a burst of packets.
    fn schedule<B: AsRef<[u8]>>(&mut self, _incoming: &mut Incoming<'_, B, Self>) {}

    /// A tick passed.
    fn tick(&mut self) {}

    /// Panics unless what is kept about messages that arrive is true of them; for tests.
    fn check<'m>(&self, _message: impl Fn(SlotRef) -> Option<&'m Assembly>) {}

    /// The priority at which lost bytes should come again.
    #[inline]
    fn resend_priority(&self) -> u8 {
        0
    }

    /// The sizes and levels that the peers should use, to be told to one of them.
    fn cutoffs(&mut self, _peer: &mut Self::Peer) -> Option<Cutoffs> {
        None
    }

    /// The peer said which sizes and levels to use.
    fn learn_cutoffs(_peer: &mut Self::Peer, _cutoffs: &Cutoffs) {}

    /// The version of the cutoffs in use towards a peer, as it goes with every piece of a message.
    #[inline]
    fn cutoffs_version(_peer: &Self::Peer) -> u8 {
        0
    }

    /// The priority at which the first bytes of a message travel.
    #[inline]
    fn unscheduled_priority(_peer: &Self::Peer, _length: u32) -> u8 {
        0
    }

    /// In which of the queues a message of one packet waits; the first is served first.
    #[inline]
    fn whole_queue(_length: u32) -> usize {
        0
    }

    /// Until when messages wait, because the network card has enough to do; `None` when one may go.
    #[inline]
    fn hold_until(&mut self, _now: Instant) -> Option<Instant> {
        None
    }

    /// A packet of a message was sent; `bytes` are all of it.
    #[inline]
    fn sent(&mut self, _now: Instant, _bytes: usize) {}

    /// Whether the next packet should be that of the long message that waits longest. One does.
    #[inline]
    fn serves_oldest(&self) -> bool {
        false
    }

    /// While a long message waited, a packet of `bytes` was sent, of the one that waits longest when
    /// `oldest`.
    #[inline]
    fn served(&mut self, _bytes: usize, _oldest: bool) {}
}

/// The long messages that arrive, for a policy to give grants to.
#[derive(Debug)]
pub struct Incoming<'a, B, P: Policy> {
    pub(super) channels: &'a mut [Option<Box<Channel<B, P>>>],
    pub(super) ready: &'a mut Ready,
    pub(super) now: Instant,
}

impl<B: AsRef<[u8]>, P: Policy> Incoming<'_, B, P> {
    /// The message that a slot receives, its sender, and the window of the session.
    pub fn message(&mut self, slot: SlotRef) -> Option<(&mut Assembly, &P::Peer, &mut Window)> {
        let channel = self.channels.get_mut(usize::from(slot.session))?.as_deref_mut()?;
        let message = match slot.side {
            Side::Caller => channel.callers.get_mut(usize::from(slot.slot))?.response_mut(),
            Side::Server => channel.servers.get_mut(usize::from(slot.slot))?.request_mut(),
        };
        channel.window.at(self.now);
        message.map(|message| (message, &channel.peer, &mut channel.window))
    }

    /// Tells the sender of the message in a slot what it was granted, and has a message that waits for the
    /// pace of its session looked at again.
    pub fn queue_grant(&mut self, slot: SlotRef, granted: bool) {
        if let Some(channel) = self.channels.get_mut(usize::from(slot.session)).and_then(Option::as_deref_mut)
        {
            if granted {
                channel.queue_grant(slot, self.ready);
            }
            self.ready.note_pace(slot.session, &channel.window);
        }
    }
}

/// The priority of a piece: that of the unscheduled bytes, of the last grant, or of the question that wants
/// it again.
#[inline]
pub(super) fn priority_of<B: AsRef<[u8]>, P: Policy>(
    message: &Sending<B>,
    peer: &P::Peer,
    cut: &Cut,
    (offset, repeated): (u32, bool),
) -> u8 {
    if repeated {
        message.repeat_priority
    } else if offset < cut.unscheduled_bytes {
        P::unscheduled_priority(peer, message.length())
    } else {
        message.granted_priority
    }
}
