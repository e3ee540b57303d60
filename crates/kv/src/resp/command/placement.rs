//! Commands and hash slots that move: who has the keys of a command, and what waits while nobody has them.

use super::cluster;
use super::entry::{Command, Effect};
use super::{Engine, Refusal, Transaction};
use crate::Shard;
use crate::resp::Cluster;
use crate::resp::clients::Handle;
use crate::resp::parse::Args;
use crate::resp::session::Session;
use crate::wire::hash_slot;

/// What is refused that cannot wait until a slot has an owner again.
pub const TRY_AGAIN: Refusal = Refusal::of("TRYAGAIN The hash slot of a key is about to move");

/// Whether a command has to wait until slots have an owner again: it names one that is about to move, or
/// deletes whatever is there.
fn waits(command: &Command, args: Args<'_>, shard: &Shard) -> bool {
    let is_frozen = |key: &[u8]| shard.is_frozen(hash_slot(key));
    let has_keys = command.keys.0 > 0;
    match command.effect {
        Effect::Writes | Effect::Grows if !has_keys => shard.holds_tables(),
        _ => command.keys_of(args).any(is_frozen),
    }
}

impl Engine {
    /// Whether a command has to wait for slots.
    pub(super) fn waits_for_slots(
        &self,
        command: &Command,
        args: Args<'_>,
        session: &Session,
        shard: &Shard,
    ) -> bool {
        if self.cluster.is_none() || !shard.holds_tables() {
            return false;
        }
        match &session.transaction {
            Some(transaction) if command.name == "exec" => {
                let is_frozen = |key: &[u8]| shard.is_frozen(hash_slot(key));
                transaction.commands().any(|(command, args)| waits(command, args, shard))
                    || session.watched.keys().any(|(_, key)| is_frozen(key))
            }
            Some(_) if !command.is_at_once => false,
            _ => waits(command, args, shard),
        }
    }

    /// Refuses a transaction with keys that have gone elsewhere since they were named.
    pub(super) fn check_transaction(
        cluster: &Cluster,
        transaction: &Transaction,
        session: &Session,
        shard: &Shard,
    ) -> Result<(), Refusal> {
        for (command, args) in transaction.commands() {
            cluster::check(cluster, shard, command, args)?;
        }
        session.watched.keys().try_for_each(|(_, key)| cluster::check_slot(cluster, shard, hash_slot(key)))
    }

    /// Sends clients on that wait for keys which have gone elsewhere, once the map is another one.
    pub(super) fn send_waiting_on(&mut self, shard: &Shard) {
        if self.map_version == shard.map_version() {
            return;
        }
        self.map_version = shard.map_version();
        let Some(cluster) = self.cluster.clone() else { return };
        let gone = |key: &[u8]| cluster::check_slot(&cluster, shard, hash_slot(key)).err();
        let moved: Vec<(Handle, Refusal)> = self
            .waiting
            .waited_for()
            .filter_map(|(key, clients)| Some((gone(key)?, clients)))
            .flat_map(|(refusal, clients)| clients.map(move |client| (client, refusal.clone())))
            .collect();
        for (client, refusal) in moved {
            self.unblock(client, Some(refusal.text()));
        }
    }
}
