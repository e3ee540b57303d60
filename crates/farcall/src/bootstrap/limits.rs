//! The bounds of the directory: what one member, honest or not, can make the registry hold.

use std::time::Duration;

/// The most ranks of one world.
pub const RANKS_MAX: u32 = 16_384;

/// The longest key of a published address, name of a service and name of a barrier, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The most addresses that one process publishes, those under names included.
pub const KEYS_PER_RANK_MAX: usize = 1024;

/// The most answers that one process waits for at a time, watched names included.
pub const WAITS_MAX: usize = 1024;

/// The most entries of a name that are listed for a watcher: those that came first. The others follow as
/// these go.
pub const LISTED_MAX: usize = 4096;

/// How many entries that are gone are kept for the watchers of a name that have not been told yet, in all and
/// for each watcher; who is further behind begins again.
pub(super) const GONE_KEPT_MAX: usize = 1024;
/// See [`GONE_KEPT_MAX`].
pub(super) const GONE_KEPT_PER_WATCH: usize = 64;

/// The most barriers that one rank waits for at a time; their released numbers are kept for reconnects.
pub const BARRIER_WAITS_MAX: usize = 16;

/// The most bytes that one member makes the registry store: what it published and what it waits for.
pub const BYTES_PER_MEMBER_MAX: usize = 1 << 20;

/// The most bytes that all members together make the registry store.
pub const BYTES_MAX: usize = 64 << 20;

/// What the registry counts for each thing that it stores, beside its text and address.
pub(super) const STORED_OVERHEAD_BYTES: usize = 64;

/// What the registry counts for a watch, beside its name: its place in the name, and its share of the numbers
/// that are gone.
pub(super) const WATCH_BYTES: usize = STORED_OVERHEAD_BYTES + 8 * GONE_KEPT_PER_WATCH;

/// The longest value of a register that is compared and set, in bytes.
pub const VALUE_BYTES_MAX: usize = 1024;

/// The most registers of a registry.
pub const VALUES_MAX: usize = 4096;

/// The most members of a registry.
pub const MEMBERS_MAX: usize = 32_768;

/// The most members of one network address: a world on one machine fits.
pub const MEMBERS_PER_ADDRESS_MAX: usize = 16_384;

/// The longest message between a member and the registry, in bytes, without its length.
pub(super) const FRAME_BYTES_MAX: usize = 4096;

/// How long a rank whose connection broke is held for the process that had it: some retries of a member that
/// lives. One that was killed and started again waits as long.
pub const RANK_HELD: Duration = Duration::from_millis(250);

/// The least and the longest lease of names.
pub const LEASE_MIN: Duration = Duration::from_millis(100);
/// See [`LEASE_MIN`].
pub const LEASE_MAX: Duration = Duration::from_secs(3600);
