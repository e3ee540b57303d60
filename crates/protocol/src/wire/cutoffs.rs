//! CUTOFFS: which priorities a receiver wants the first bytes of messages to have, by the messages' lengths.

use super::{Flags, HEADER_BYTES, Malformed, bytes_at, malformed};

/// The most priorities that packets are told apart by.
pub const PRIORITIES_MAX: u8 = 8;

/// The highest version of cutoffs; after it comes 1 again. 0 stands for none.
pub const CUTOFFS_VERSION_MAX: u8 = 15;

const LENGTHS_MAX: usize = PRIORITIES_MAX as usize - 1;

/// Lengths of messages and the priorities of their unscheduled bytes: the shortest messages have the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutoffs {
    version: u8,
    top: u8,
    count: u8,
    /// Ascending; of them `count` are in use.
    lengths: [u32; LENGTHS_MAX],
}

impl Cutoffs {
    /// Before anything is known: all messages alike, at priority `top`.
    pub const fn unknown(top: u8) -> Self {
        let top = if top < PRIORITIES_MAX { top } else { PRIORITIES_MAX - 1 };
        Self { version: 0, top, count: 0, lengths: [0; LENGTHS_MAX] }
    }

    /// Messages of at most `lengths[0]` bytes get `top`, those of at most `lengths[1]` the next lower, and so
    /// on; longer ones than all get the level below. `None` unless the lengths ascend and there is a level
    /// for each.
    pub fn new(version: u8, top: u8, lengths: &[u32]) -> Option<Self> {
        let valid = (1..=CUTOFFS_VERSION_MAX).contains(&version)
            && top < PRIORITIES_MAX
            && lengths.len() <= usize::from(top)
            && lengths.is_sorted_by(|shorter, longer| shorter < longer);
        if !valid {
            return None;
        }
        let mut kept = [0; LENGTHS_MAX];
        kept[..lengths.len()].copy_from_slice(lengths);
        Some(Self { version, top, count: lengths.len() as u8, lengths: kept })
    }

    /// Which edition of the receiver's cutoffs it is; 0 when nothing is known.
    #[inline]
    pub const fn version(&self) -> u8 {
        self.version
    }

    /// The priority of the shortest messages.
    #[inline]
    pub const fn top(&self) -> u8 {
        self.top
    }

    /// The lengths that part the levels, ascending.
    #[inline]
    pub fn lengths(&self) -> &[u32] {
        &self.lengths[..usize::from(self.count)]
    }

    /// The priority of the unscheduled bytes of a message of `length` bytes.
    #[inline]
    pub fn priority(&self, length: u32) -> u8 {
        let longer_than = self.lengths().iter().take_while(|cutoff| length > **cutoff).count();
        self.top - longer_than as u8
    }

    pub(super) fn parse(flags: Flags, packet: &[u8]) -> Result<Self, Malformed> {
        let [top] = bytes_at::<1>(packet, HEADER_BYTES)?;
        let (entries, rest) = packet[HEADER_BYTES + 1..].as_chunks::<4>();
        let mut lengths = [0; LENGTHS_MAX];
        if entries.len() > LENGTHS_MAX || !rest.is_empty() {
            return malformed("cutoffs of impossible length");
        }
        for (length, entry) in lengths.iter_mut().zip(entries) {
            *length = u32::from_le_bytes(*entry);
        }
        match Self::new(flags.argument(), top, &lengths[..entries.len()]) {
            Some(cutoffs) => Ok(cutoffs),
            None => malformed("impossible cutoffs"),
        }
    }
}
