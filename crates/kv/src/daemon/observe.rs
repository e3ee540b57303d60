//! Observers of the phases of a turn and of the time that each takes.

/// A part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// What the slots of the last turn produced is sent. When they produced nothing, there is no such phase,
    /// and the look at what there is to send is the network's.
    Flush,
    /// The network is looked at, and answers are passed back.
    Network,
    /// Requests of others are served.
    Incoming,
    /// Requests in slots are answered or passed on.
    Slots,
    /// Clients are let in, and dead ones noticed.
    Attendance,
}

impl Phase {
    /// All of them, in the order of a turn.
    pub const ALL: [Self; 5] = [Self::Flush, Self::Network, Self::Incoming, Self::Slots, Self::Attendance];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Network => "network",
            Self::Incoming => "incoming",
            Self::Slots => "slots",
            Self::Attendance => "attendance",
        }
    }
}

/// Is told when phases end. Each begins when the one before ends. A phase may be left and come back within a
/// turn: requests of others come in the midst of the network's.
pub trait Observer {
    /// Whether it wants to be told. Nothing is done for those that do not.
    const OBSERVES: bool = true;

    /// A phase ended, for now, and dealt with this many requests, answers, records or clients.
    fn ended(&mut self, phase: Phase, dealt_with: usize);

    /// The turn is over.
    fn turn_ended(&mut self);
}

/// The observer of a daemon that nobody observes.
#[derive(Clone, Copy, Debug)]
pub struct NobodyObserves;

impl Observer for NobodyObserves {
    const OBSERVES: bool = false;

    #[inline]
    fn ended(&mut self, _: Phase, _: usize) {}

    #[inline]
    fn turn_ended(&mut self) {}
}
