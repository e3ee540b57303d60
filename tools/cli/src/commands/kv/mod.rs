//! `farcall kv`: the store as a service, and its clients for the shell.

mod access;
mod client;
mod place;
mod refused;
mod serve;
mod show;
mod way;

use crate::arguments::kv::{Kv, KvCommand};
use crate::failure::Failure;

/// The version of the JSON objects of these commands.
const SCHEMA: &str = "farcall.kv.v1";

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
