//! Hostile input against everything that reads what another process wrote.
//!
//! Each target is a plain function of some bytes: it must return, whatever the bytes are, and it asserts on
//! the way that the attacked part stays within its bounds and goes on serving honest peers. `cargo fuzz`
//! drives the targets with coverage feedback; `tests/corpus.rs` drives the same functions over the kept
//! inputs and seeded mutations of them, on any toolchain and within a bounded time.

mod input;
mod kv;
mod lanes;
mod library;
pub mod mutate;
mod parameters;
mod records;
mod ring;
mod saved;
mod sink;
mod users;

/// Reads some bytes and panics when an invariant does not hold. The kept inputs of each target are in the
/// folder of its name under `seeds`.
pub type Target = fn(&[u8]);

/// Packets about sessions, against a live endpoint.
pub fn session(bytes: &[u8]) {
    farcall_protocol::basic::fuzz_session(bytes);
}

/// What an attacker without the cluster key does to sessions with keys, and one that has it to sessions of
/// peers that prove who they are; and files of peers.
pub fn keyed(bytes: &[u8]) {
    farcall_driver::fuzz_peers(bytes);
    farcall_protocol::keys::fuzz_keyed(bytes);
}

/// Packets of the basic protocol within a session, against a live endpoint.
pub fn basic(bytes: &[u8]) {
    farcall_protocol::basic::fuzz_basic(bytes);
}

/// Packets of the homa protocol within a session, against a live endpoint.
pub fn homa(bytes: &[u8]) {
    farcall_protocol::homa::fuzz_homa(bytes);
}

/// Rings written by a hostile peer, against a ring transport that also has an honest one.
pub fn ring(bytes: &[u8]) {
    ring::run(bytes);
}

/// Messages of a library written by a hostile peer, against a library transport that also has an honest one.
pub fn library(bytes: &[u8]) {
    library::run(bytes);
}

/// Offers over the socket by which shared-memory lanes are set up.
pub fn shm_offer(bytes: &[u8]) {
    farcall_shm::fuzz_offer(bytes);
}

/// The memory of a shared ring, read by its owner.
pub fn shm_ring(bytes: &[u8]) {
    farcall_shm::fuzz_ring(bytes);
}

/// What strangers write to the port by which lanes over RDMA are set up.
pub fn verbs_handshake(bytes: &[u8]) {
    farcall_verbs::fuzz_handshake(bytes);
}

/// Frames and addresses of the transport over libfabric.
pub fn ofi_frame(bytes: &[u8]) {
    farcall_ofi::messages::fuzz_frame(bytes);
}

/// What comes over a connection of the transport over TCP.
pub fn tcp_connection(bytes: &[u8]) {
    farcall_tcp::fuzz_connection(bytes);
}

/// Slots in shared memory that a hostile client or daemon writes.
pub fn slots(bytes: &[u8]) {
    farcall_kv::slots::fuzz_slots(bytes);
}

/// Messages to a shard of the key-value store.
pub fn kv(bytes: &[u8]) {
    kv::run(bytes);
}

/// Requests of Redis clients, in pieces.
pub fn resp(bytes: &[u8]) {
    farcall_kv::resp::fuzz_resp(bytes);
}

/// Requests of memcached clients, in pieces.
pub fn memcached(bytes: &[u8]) {
    farcall_kv::fuzz_memcached(bytes);
}

/// What a client of the key-value store reads, from a hostile shard, and what a shard takes over from one.
pub fn kv_answers(bytes: &[u8]) {
    farcall_kv::fuzz_answers(bytes);
    farcall_kv::placement::fuzz_import(bytes);
}

/// What a log of durable tables has on its disk: records, certificates, superblocks.
pub fn kv_log(bytes: &[u8]) {
    farcall_kv::fuzz_log(bytes);
}

/// Files of objects, for `kv restore` and `kv import`.
pub fn kv_saved(bytes: &[u8]) {
    saved::run(bytes);
}

/// What a backup is asked, and what it answers.
pub fn replication(bytes: &[u8]) {
    farcall_replica::fuzz_requests(bytes);
    farcall_kv::replicated::fuzz_segment_requests(bytes);
}

/// Histories of clients of a store.
pub fn history(bytes: &[u8]) {
    farcall_swarm::history::fuzz_history(bytes);
}

/// Messages between members and rendezvous.
pub fn rendezvous(bytes: &[u8]) {
    farcall::bootstrap::fuzz_rendezvous(bytes);
}

/// Counter files that another process made.
pub fn counters(bytes: &[u8]) {
    farcall_driver::counters::fuzz_counter_file(bytes);
}

/// Settings from files, variables and arguments.
pub fn parameters(bytes: &[u8]) {
    parameters::run(bytes);
}

/// Figures of others: tables, documents about them, and folders of recorded runs.
pub fn records(bytes: &[u8]) {
    records::run(bytes);
}
