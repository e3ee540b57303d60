//! What the operations of an endpoint are known by.

/// What an operation is, as its context says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Send(u32),
    Frame(u32),
    Payload(u32),
}

impl Token {
    pub const fn to_word(self) -> u64 {
        let (kind, number) = match self {
            Self::Send(number) => (0, number),
            Self::Frame(number) => (1, number),
            Self::Payload(number) => (2, number),
        };
        kind << 32 | number as u64
    }

    #[inline]
    pub const fn from_word(word: u64) -> Self {
        let number = word as u32;
        match word >> 32 {
            0 => Self::Send(number),
            1 => Self::Frame(number),
            _ => Self::Payload(number),
        }
    }
}
