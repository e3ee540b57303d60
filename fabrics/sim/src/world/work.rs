//! What processors of hosts were at work on, kind by kind.

use crate::time::Picos;

/// A kind of work of a host's processor; the profile has a cost for each but [`Work::Handler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Turns of the poll loop that found something, by themselves.
    Poll,
    /// Making packets.
    MakePackets,
    /// Copying bytes into packets.
    CopyOut,
    /// Writing descriptors.
    Descriptors,
    /// Ringing doorbells.
    Doorbells,
    /// Taking packets in.
    TakePackets,
    /// Copying bytes out of packets.
    CopyIn,
    /// Handlers and completions, at the profile's cost.
    Serving,
    /// What handlers spend beyond that.
    Handler,
}

impl Work {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Poll,
        Self::MakePackets,
        Self::CopyOut,
        Self::Descriptors,
        Self::Doorbells,
        Self::TakePackets,
        Self::CopyIn,
        Self::Serving,
        Self::Handler,
    ];
}

/// Processor time by kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent([Picos; Work::ALL.len()]);

impl Spent {
    /// The time for one kind.
    pub fn on(&self, work: Work) -> Picos {
        self.0[work as usize]
    }

    #[inline]
    pub(super) fn add(&mut self, work: Work, span: Picos) {
        self.0[work as usize] += span;
    }
}
