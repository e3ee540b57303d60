//! What the writes of a table survive.

use core::fmt;

/// The level of a table: which failures its acknowledged writes survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// None: what is written is gone with its process.
    #[default]
    Memory,
    /// The end of the process, and a power cut; not the loss of the disk.
    Flushed,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Flushed];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Flushed => "flushed",
        }
    }

    /// The level with that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// Its number in messages and logs.
    pub const fn to_wire(self) -> u8 {
        self as u8
    }

    /// The level that a number means.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_and_numbers() {
        for level in Level::ALL {
            assert_eq!(Level::named(&level.to_string()), Some(level));
            assert_eq!(Level::from_wire(level.to_wire()), Some(level));
        }
        assert_eq!((Level::named("disk"), Level::from_wire(2)), (None, None));
    }
}
