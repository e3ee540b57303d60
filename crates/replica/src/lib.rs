//! Replicas of logs on other machines: what a primary and its backups do, without a network.
//!
//! A log writes its blocks to a disk; a [`Mirror`] is a disk whose blocks are at backups as well. A
//! [`Backup`] holds what several primaries write. Which replicas count, and who the primary is, says one
//! [`Record`] of each log in a [`Registry`]; a [`Candidate`] becomes the primary when the last one is gone,
//! and a [`Recovery`] brings back what it had. Primary and backups are state machines that are driven with
//! messages, times and outcomes of disks, so that simulations run what ships.
//!
//! It follows RAMCloud's backups (Ongaro, Rumble, Stutsman, Ousterhout and Rosenblum, "Fast crash recovery in
//! RAMCloud", SOSP 2011) in its fences and certificates, and primary-backup replication with a configuration
//! kept elsewhere (Oki and Liskov, PODC 1988; Lamport, Malkhi and Zhou, "Vertical Paxos", PODC 2009) in its
//! epochs.

mod backup;
mod message;
mod mirror;
mod record;
mod registry;
mod renewal;
mod takeover;

pub use backup::{Answered, Backup, FolderOfLogs, FolderShelf, Handled, Shelf, ShelfError, Stored};
pub use message::{Held, LogId, PIECE_BYTES_MAX, RETAINED_MAX, Refusal, Request, Subject, fuzz_requests};
pub use mirror::{
    Certificate, ClockOf, Damage, Fate, FateCounts, Mirror, MirrorOf, MirrorStatus, NoAnswer, Outgoing,
    RegistryAnswer, RegistryJob, ReplicaStage, ReplicaStatus, ScrubOutcome,
};
pub use record::{BackupEntry, Place, Record};
pub use registry::{
    Compared, FileRegistry, Life, MemoryRegistry, Registry, RegistryError, RegistryWorker, Versioned,
};
pub use renewal::{Keeper, Renewal};
pub use takeover::{Candidate, Claim, ClaimError, Claimed, FetchError, MakeDisk, Reach, Recovery};
