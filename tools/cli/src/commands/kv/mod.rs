//! `farcall kv`: the store as a service, and its clients for the shell.

mod access;
mod backup;
mod check;
mod client;
mod cluster;
mod data;
mod health;
mod long;
mod many;
mod memory;
mod moves;
mod place;
mod placement;
mod primary;
mod refused;
mod replicas;
mod resp;
mod save;
mod saved;
mod scrub;
mod serve;
mod serving;
mod show;
mod spread;
mod steady;
mod watch;
mod way;
mod written;

use core::time::Duration;

use farcall::bootstrap::RANKS_MAX;

use crate::arguments::kv::{Kv, KvCommand, KvPlace};
use crate::failure::Failure;

/// The version of the JSON objects of these commands.
const SCHEMA: &str = "farcall.kv.v2";

/// How long a process looks for shard 0 unless it is told otherwise.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// The ranks of a store's cluster: its shards, and any number of clients, which come and go.
const RANKS: u32 = RANKS_MAX;

impl KvPlace {
    /// How long to look for the store.
    fn look_within(&self) -> Duration {
        self.timeout.unwrap_or(LOOK_WITHIN)
    }
}

impl KvCommand {
    /// The place where a client looks for the store.
    fn client_place(&mut self) -> Option<&mut KvPlace> {
        Some(match self {
            Self::Serve(_) | Self::Backup(_) | Self::Check(_) => return None,
            Self::Restore(restore) => &mut restore.place,
            Self::Get(get) => &mut get.way.place,
            Self::Put(put) => &mut put.way.place,
            Self::Delete(delete) => &mut delete.way.place,
            Self::Incr(incr) => &mut incr.way.place,
            Self::Mget(mget) => &mut mget.place,
            Self::Mput(mput) => &mut mput.place,
            Self::Watch(watch) => &mut watch.place,
            Self::Export(export) => &mut export.place,
            Self::Import(import) => &mut import.place,
            Self::Create(create) => &mut create.place,
            Self::Scan(scan) => &mut scan.place,
            Self::Drop(drop) => &mut drop.place,
            Self::Stat(stat) => &mut stat.place,
            Self::Scrub(scrub) => &mut scrub.place,
            Self::Status(status) => &mut status.place,
            Self::Move(moved) => &mut moved.place,
            Self::MoveSlots(moved) => &mut moved.place,
        })
    }
}

/// Runs the command.
pub fn run(kv: &mut Kv) -> Result<(), Failure> {
    if let Some(place) = kv.command.client_place() {
        let within = place.look_within();
        place::find_in_registry(place, within)?;
    }
    match &kv.command {
        KvCommand::Serve(serve) => serve::run(serve),
        KvCommand::Backup(backup) => match &backup.export {
            Some(file) => save::export(backup, file),
            None => backup::run(backup),
        },
        KvCommand::Restore(restore) => save::restore(restore),
        KvCommand::Get(get) => client::get(get),
        KvCommand::Put(put) => client::put(put),
        KvCommand::Delete(delete) => client::delete(delete),
        KvCommand::Incr(incr) => client::incr(incr),
        KvCommand::Mget(mget) => many::mget(mget),
        KvCommand::Mput(mput) => many::mput(mput),
        KvCommand::Watch(watch) => watch::run(watch),
        KvCommand::Export(export) => many::export(export),
        KvCommand::Import(import) => many::import(import),
        KvCommand::Create(create) => client::create_table(create),
        KvCommand::Scan(scan) => client::scan(scan),
        KvCommand::Drop(drop) => client::drop_table(drop),
        KvCommand::Stat(stat) => client::stat(stat),
        KvCommand::Status(status) => replicas::status(status),
        KvCommand::Scrub(arguments) => scrub::run(arguments),
        KvCommand::Check(arguments) => check::run(arguments),
        KvCommand::Move(moved) => moves::run(moved),
        KvCommand::MoveSlots(moved) => placement::run(moved),
    }
}
