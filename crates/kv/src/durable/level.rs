//! What the writes of a table survive.

use core::fmt;

/// The most replicas that a level asks for.
pub const REPLICAS_MAX: u8 = 7;

/// The level of a table: which failures its acknowledged writes survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// None: what is written is gone with its process.
    #[default]
    Memory,
    /// The end of the process, and a power cut; not the loss of the disk.
    Flushed,
    /// The end of as many processes and hosts as there are replicas; a power cut of all of them, and the loss
    /// of as many disks, if they are flushed.
    Replicated {
        /// Processes besides the primary that have each write, from 1 to [`REPLICAS_MAX`].
        replicas: u8,
        /// Whether it is on their disks, and on the primary's.
        flushed: bool,
    },
}

impl Level {
    /// How levels are written.
    pub const FORMS: &str =
        "`memory`, `flushed`, `replicated=N` or `replicated=N,flushed` with N from 1 to 7";

    /// The level that is written so.
    pub fn named(text: &str) -> Option<Self> {
        let (words, flushed) = match text.strip_suffix(",flushed") {
            Some(words) => (words, true),
            None => (text, false),
        };
        match (words, flushed) {
            ("memory", false) => Some(Self::Memory),
            ("flushed", false) => Some(Self::Flushed),
            (words, flushed) => {
                let number = words.strip_prefix("replicated=")?;
                let replicas = number.parse().ok().filter(|number| (1..=REPLICAS_MAX).contains(number))?;
                Some(Self::Replicated { replicas, flushed })
            }
        }
    }

    /// Whether writes are on a disk when they are answered.
    pub const fn is_flushed(self) -> bool {
        matches!(self, Self::Flushed | Self::Replicated { flushed: true, .. })
    }

    /// How many other processes have a write when it is answered.
    pub const fn replicas(self) -> u8 {
        if let Self::Replicated { replicas, .. } = self { replicas } else { 0 }
    }

    /// The level that survives what either survives.
    pub fn and(self, other: Self) -> Self {
        let flushed = self.is_flushed() || other.is_flushed();
        Self::of(self.replicas().max(other.replicas()), flushed)
    }

    /// That of so many replicas, 0 for none, on disks or in memory.
    pub(crate) const fn of(replicas: u8, flushed: bool) -> Self {
        match (replicas, flushed) {
            (0, false) => Self::Memory,
            (0, true) => Self::Flushed,
            (replicas, flushed) => Self::Replicated { replicas, flushed },
        }
    }

    /// Whether it survives whatever the other does.
    pub fn covers(self, other: Self) -> bool {
        self.and(other) == self
    }

    /// Its number in messages and logs: whether it is flushed, and twice the replicas.
    pub const fn to_wire(self) -> u8 {
        self.replicas() << 1 | self.is_flushed() as u8
    }

    /// The level that a number means.
    pub fn from_wire(number: u8) -> Option<Self> {
        match (number >> 1, number & 1 == 1) {
            (0, false) => Some(Self::Memory),
            (0, true) => Some(Self::Flushed),
            (replicas @ 1..=REPLICAS_MAX, flushed) => Some(Self::Replicated { replicas, flushed }),
            _ => None,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.pad("memory"),
            Self::Flushed => f.pad("flushed"),
            Self::Replicated { replicas, flushed: false } => write!(f, "replicated={replicas}"),
            Self::Replicated { replicas, flushed: true } => write!(f, "replicated={replicas},flushed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_and_numbers() {
        let levels: Vec<Level> = (0..=u8::MAX).filter_map(Level::from_wire).collect();
        assert_eq!(levels.len(), 2 + 2 * usize::from(REPLICAS_MAX));
        for level in levels {
            assert_eq!(Level::named(&level.to_string()), Some(level));
            assert_eq!(Level::from_wire(level.to_wire()), Some(level));
            assert_eq!(level.and(Level::Memory), level);
        }
        assert_eq!((Level::Memory.to_wire(), Level::Flushed.to_wire()), (0, 1), "as they always were");
        for none in
            ["disk", "replicated", "replicated=0", "replicated=8", "memory,flushed", "flushed,flushed"]
        {
            assert_eq!(Level::named(none), None, "{none}");
        }
        let replicated = Level::Replicated { replicas: 2, flushed: false };
        assert_eq!(replicated.and(Level::Flushed).to_string(), "replicated=2,flushed");
        assert!(!replicated.covers(Level::Flushed) && !Level::Flushed.covers(replicated));
        assert!(replicated.and(Level::Flushed).covers(replicated) && replicated.covers(Level::Memory));
    }
}
