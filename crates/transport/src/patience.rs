//! How long a message that nobody expects stays where it lies.

use crate::mail::Verdict;

/// Whether a message that nobody expects may be left where it lies until the next poll: its receive may be
/// about to be posted, and what is given to that from where it lies is not copied twice. It holds up what
/// comes behind it, so that waiting has to pay: no two polls in a row wait for messages that nobody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It has to be taken out.
    Never,
    /// It may be left.
    Once,
    /// The next message is the one that the last poll left. Others may be left when somebody expects it by
    /// now, and none in this poll when nobody does.
    Waited,
}

impl Patience {
    /// What it is after that became of a message.
    #[inline]
    pub fn after(self, verdict: Verdict) -> Self {
        match verdict {
            Verdict::Receive(_) | Verdict::HandOn => self.after_a_receive(),
            Verdict::Kept if self == Self::Waited => Self::Never,
            Verdict::Kept | Verdict::Left => self,
        }
    }

    /// What it is after a message that was expected.
    #[inline]
    pub fn after_a_receive(self) -> Self {
        if self == Self::Waited { Self::Once } else { self }
    }
}
