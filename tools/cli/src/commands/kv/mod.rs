//! `farcall kv`: the store as a service, and its clients for the shell.

mod access;
mod client;
mod serve;
mod show;
mod way;

use core::time::Duration;

use farcall::bootstrap::{Bootstrap, BootstrapError, JoinError, RANKS_MAX, Refusal, random_incarnation};

use crate::arguments::kv::{Kv, KvCommand, KvPlace};
use crate::failure::Failure;

/// The version of the JSON objects of these commands.
const SCHEMA: &str = "farcall.kv.v1";

/// How long a process looks for shard 0.
const JOIN_WITHIN: Duration = Duration::from_secs(5);

/// Runs the command.
pub fn run(kv: &Kv) -> Result<(), Failure> {
    match &kv.command {
        KvCommand::Serve(serve) => serve::run(serve),
        KvCommand::Get(get) => client::get(get),
        KvCommand::Put(put) => client::put(put),
        KvCommand::Delete(delete) => client::delete(delete),
        KvCommand::Incr(incr) => client::incr(incr),
        KvCommand::Scan(scan) => client::scan(scan),
        KvCommand::Drop(drop) => client::drop_table(drop),
        KvCommand::Stat(stat) => client::stat(stat),
    }
}

/// The ranks of a store's cluster: its shards, and any number of clients, which come and go.
const RANKS: u32 = RANKS_MAX;

/// Joins the store's cluster as a client, with a rank that nobody has.
fn join_as_client(place: &KvPlace) -> Result<Bootstrap, Failure> {
    // Shards have the first ranks, so clients look for theirs from the other end, at a place of their own.
    const FIRST: u32 = RANKS / 2;
    loop {
        let rank = FIRST + (random_incarnation() % u64::from(RANKS - FIRST)) as u32;
        match Bootstrap::join(&place.at, rank, RANKS, JOIN_WITHIN) {
            Err(BootstrapError::Join(JoinError::Refused(Refusal::RankTaken { .. }))) => {}
            joined => return joined.map_err(Failure::run),
        }
    }
}
