//! Where things lie in a counter file. The same text for people is `docs/counters.md`; keep the two together.
//!
//! Three tables follow the header: what is live (small, read whole by every reader), the values (each group
//! on cache lines of its own), and the descriptions. All numbers are little-endian. Everything follows from
//! the number of group slots, so that a reader has no offset to distrust.

/// `FARCALLC` as the first eight bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FARCALLC");
/// The version of this layout; readers refuse any other.
pub const VERSION: u32 = 1;
/// The memory file's name, which `/proc/PID/fd` shows as `/memfd:farcall-counters (deleted)`.
pub const FILE_NAME: &str = "farcall-counters";

/// The most groups that one process can have in its file at a time. Further groups count privately.
pub const GROUPS_MAX: usize = 1024;
/// The most counters of one group.
pub const COUNTERS_PER_GROUP_MAX: usize = 64;
/// The longest label of a group, in bytes; longer ones are cut.
pub const LABEL_BYTES_MAX: usize = 96;
/// The longest name of a counter, in bytes.
pub const NAME_BYTES_MAX: usize = 40;
/// The longest unit of a counter, in bytes.
pub const UNIT_BYTES_MAX: usize = 16;
/// The longest description of a counter, in bytes.
pub const DOC_BYTES_MAX: usize = 200;

/// The header, padded to a page.
pub const HEADER_BYTES: usize = 4096;
/// Header field, u64: [`MAGIC`], written last.
pub const HEADER_MAGIC: usize = 0;
/// Header field, u32: [`VERSION`].
pub const HEADER_VERSION: usize = 8;
/// Header field, u32: the number of group slots.
pub const HEADER_CAPACITY: usize = 12;
/// Header field, u64: the process that made the file.
pub const HEADER_OWNER: usize = 16;
/// Header field, u64: groups that found no slot and count privately now.
pub const HEADER_UNLISTED: usize = 24;

/// One slot of the group table.
pub const GROUP_BYTES: usize = 128;
/// Group field, u64: bit 0 tells whether the slot is live; the bits above count its changes.
pub const GROUP_STATE: usize = 0;
/// Group field, u64: how many counters it has.
pub const GROUP_COUNTERS: usize = 8;
/// Group field: the label, UTF-8, padded with zeros.
pub const GROUP_LABEL: usize = 16;
/// The bit of the state that tells a live slot.
pub const STATE_LIVE: u64 = 1;

/// The values of one group: whole pairs of cache lines, because processors fetch lines in pairs.
pub const VALUES_BYTES: usize = COUNTERS_PER_GROUP_MAX * 8;
/// One counter's description: name, unit and doc, each UTF-8 and padded with zeros.
pub const DESCRIPTION_BYTES: usize = NAME_BYTES_MAX + UNIT_BYTES_MAX + DOC_BYTES_MAX;

const _: () = assert!(VALUES_BYTES.is_multiple_of(128), "groups must not share cache lines");
const _: () = assert!(GROUP_LABEL + LABEL_BYTES_MAX <= GROUP_BYTES, "the label must fit the slot");
const _: () = assert!(DESCRIPTION_BYTES == 256, "the documented size");

/// Where the tables of a file with `capacity` group slots lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of group slots.
    pub capacity: usize,
}

impl Layout {
    /// Offset of a group's slot.
    pub fn group(self, slot: usize) -> usize {
        HEADER_BYTES + slot * GROUP_BYTES
    }

    /// Offset of a group's first value.
    pub fn values(self, slot: usize) -> usize {
        self.group(self.capacity) + slot * VALUES_BYTES
    }

    /// Offset of a group's first description.
    pub fn descriptions(self, slot: usize) -> usize {
        self.values(self.capacity) + slot * COUNTERS_PER_GROUP_MAX * DESCRIPTION_BYTES
    }

    /// Length of the file. Mostly a hole: pages come into being when a group uses them.
    pub fn file_bytes(self) -> usize {
        self.descriptions(self.capacity)
    }
}
