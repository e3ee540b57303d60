//! How a command reaches the store: through slots of a daemon on this host, or over the network.

use core::error::Error;

use farcall::{Endpoint, Node, host_access};
use farcall_kv::daemon::{DaemonClient, SlotFailure, attach_on_host};
use farcall_kv::store::ReadError;
use farcall_kv::{Client, Failure as KvFailure};

use super::join_as_client;
use crate::arguments::kv::{KvPlace, KvTable, KvWay, SlotsArgument};
use crate::arguments::load_settings;
use crate::failure::Failure;
use crate::output::Destination;

/// The way of one operation.
pub struct Way<'a> {
    way: &'a KvWay,
    table: &'a KvTable,
}

/// When an operation that failed in a slot may be tried again over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// However it failed: it changes nothing.
    Always,
    /// When it certainly did not happen.
    IfNothingHappened,
}

impl<'a> Way<'a> {
    /// The way to a table that the arguments choose.
    pub fn of(way: &'a KvWay, table: &'a KvTable) -> Self {
        Self { way, table }
    }

    /// Where JSON goes.
    pub fn json(&self) -> Option<&Destination> {
        self.way.place.json.as_ref()
    }

    /// Does an operation, in slots or by calls.
    pub fn go<T, S: Error, E: Error>(
        &self,
        repeat: Repeat,
        in_slots: impl FnOnce(&mut DaemonClient) -> Result<T, SlotFailure<S>>,
        by_calls: impl FnOnce(&Client<'_>) -> Result<T, KvFailure<E>>,
    ) -> Result<T, Failure> {
        let only = self.way.slots == SlotsArgument::Only;
        if self.way.slots != SlotsArgument::Never {
            let access = host_access(&load_settings(&self.way.place.settings)?)
                .map_err(|error| Failure::Usage(error.to_string()))?;
            match attach_on_host(&self.way.place.name_on_host(), &access) {
                Ok(mut daemon) => match in_slots(&mut daemon) {
                    Err(failure) if !only && may_repeat(&failure, repeat) => {}
                    done => return done.map_err(|failure| explain(failure, self.table)),
                },
                Err(error) if only => return Err(Failure::run(error)),
                Err(_) => {}
            }
        }
        let connection = Connection::open(&self.way.place)?;
        by_calls(&connection.client()?).map_err(|failure| explain(failure, self.table))
    }
}

fn may_repeat<E>(failure: &SlotFailure<E>, repeat: Repeat) -> bool {
    match failure {
        // The same would come back.
        SlotFailure::Store(_) => false,
        SlotFailure::RequestTooLong { .. } | SlotFailure::NotPassedOn => true,
        _ => repeat == Repeat::Always,
    }
}

/// A client's endpoint. The store knows how many shards it has, and says so to clients that ask shard 0.
pub struct Connection {
    pub endpoint: Endpoint,
    _node: Node,
}

impl Connection {
    /// Joins the store's cluster.
    pub fn open(place: &KvPlace) -> Result<Self, Failure> {
        let settings = load_settings(&place.settings)?;
        let node = Node::new(join_as_client(place)?, settings);
        let endpoint = node.endpoint(place.transport.name()).map_err(Failure::run)?;
        Ok(Self { endpoint, _node: node })
    }

    /// A client of all shards.
    pub fn client(&self) -> Result<Client<'_>, Failure> {
        let first = Client::new(&self.endpoint, [0]);
        let shards = first.statistics(0).wait().map_err(Failure::run)?.shards;
        Ok(Client::new(&self.endpoint, 0..shards))
    }
}

/// The sentence for a failure; a missing table is named.
pub fn explain(failure: impl core::error::Error, table: &KvTable) -> Failure {
    let sentence = failure.to_string();
    if sentence == ReadError::UnknownTable.to_string() {
        return Failure::Run(format!("there is no table `{}`", table.table));
    }
    Failure::Run(sentence)
}
