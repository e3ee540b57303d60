//! The bounds of the directory: what one member, honest or not, can make the rendezvous hold.

/// The most ranks of one cluster.
pub const RANKS_MAX: u32 = 16_384;

/// The longest key of a published address and the longest name of a barrier, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The most addresses that one rank publishes.
pub const KEYS_PER_RANK_MAX: usize = 1024;

/// The most resolves and barriers that one rank waits for at a time.
pub const WAITS_MAX: usize = 1024;

/// The most barriers that one rank waits for at a time; their released numbers are kept for reconnects.
pub const BARRIER_WAITS_MAX: usize = 16;

/// The longest message between a member and the rendezvous, in bytes, without its length.
pub(super) const FRAME_BYTES_MAX: usize = 4096;
