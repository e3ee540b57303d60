//! Who wants to know how long the phases of a turn take.

/// A part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// What the last turn produced is sent, requests of others are served, and answers are passed back.
    Network,
    /// Requests in slots are answered or passed on.
    Slots,
    /// Clients are let in, and dead ones noticed.
    Attendance,
}

impl Phase {
    /// All of them, in the order of a turn.
    pub const ALL: [Self; 3] = [Self::Network, Self::Slots, Self::Attendance];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Slots => "slots",
            Self::Attendance => "attendance",
        }
    }
}

/// Is told when phases end. Each begins when the one before ends.
pub trait Observer {
    /// A phase ended, and dealt with so many requests, answers, records or clients.
    fn ended(&mut self, phase: Phase, dealt_with: usize);
}

/// The observer of a daemon that nobody observes.
#[derive(Clone, Copy, Debug)]
pub struct NobodyObserves;

impl Observer for NobodyObserves {
    #[inline]
    fn ended(&mut self, _: Phase, _: usize) {}
}
