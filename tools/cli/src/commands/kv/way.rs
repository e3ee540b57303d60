//! How a command reaches the store: through slots of a daemon on this host, or over the network.

use farcall::parameters::Settings;
use farcall::{Endpoint, Node, host_access};
use farcall_kv::daemon::{DaemonClient, SlotFailure, attach_on_host};
use farcall_kv::slots::AttachError;
use farcall_kv::{Client, Failure as KvFailure};

use super::place::{join_as_client, transport_of, unreachable};
use super::refused::{About, Failed, Refusal};
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
    pub fn go<T, S: Refusal, E: Refusal>(
        &self,
        repeat: Repeat,
        in_slots: impl FnOnce(&mut DaemonClient) -> Result<T, SlotFailure<S>>,
        by_calls: impl FnOnce(&Client<'_>) -> Result<T, KvFailure<E>>,
    ) -> Result<T, Failure> {
        let only = self.way.slots == SlotsArgument::Only;
        let about = About { at: &self.way.place.at, table: &self.table.table };
        if self.way.slots != SlotsArgument::Never {
            let access = host_access(&load_settings(&self.way.place.settings)?)
                .map_err(|error| Failure::Usage(error.to_string()))?;
            match attach_on_host(&self.way.place.name_on_host(), &access) {
                Ok(mut daemon) => {
                    if let Some(within) = self.way.place.timeout {
                        daemon.respond_within(within);
                    }
                    match in_slots(&mut daemon) {
                        Err(failure) if !only && may_repeat(&failure, repeat) => {}
                        done => return done.map_err(|failure| failure.explained(about)),
                    }
                }
                Err(AttachError::NotThere) if only => {
                    let at = about.at;
                    let sentence = format!(
                        "no store at {at} has a daemon on this host; start one with `farcall kv serve`"
                    );
                    return Err(unreachable(sentence));
                }
                Err(error) if only => return Err(Failure::run(error)),
                Err(_) => {}
            }
        }
        let connection = Connection::open(&self.way.place)?;
        by_calls(&connection.client()?).map_err(|failure| failure.explained(about))
    }
}

fn may_repeat<E>(failure: &SlotFailure<E>, repeat: Repeat) -> bool {
    match failure {
        // The same would come back.
        SlotFailure::Store(_) => false,
        SlotFailure::RequestTooLong { .. } | SlotFailure::NotPassedOn => true,
        // The network's client asks again until a process is the primary.
        SlotFailure::NotReplicated(why) if why.passes() => true,
        _ => repeat == Repeat::Always,
    }
}

/// A client's endpoint. The store knows how many shards it has, and says so to clients that ask shard 0.
pub struct Connection<'a> {
    pub endpoint: Endpoint,
    place: &'a KvPlace,
    _node: Node,
}

impl<'a> Connection<'a> {
    /// Joins the store's cluster, over the transport that it has.
    pub fn open(place: &'a KvPlace) -> Result<Self, Failure> {
        let node = Node::new(join_as_client(place)?, settings_of(place)?);
        let transport = transport_of(&node, place)?;
        let endpoint = node.endpoint(transport.name()).map_err(Failure::run)?;
        Ok(Self { endpoint, place, _node: node })
    }

    /// A client of all shards. It waits for a new primary as long as the command looks for the store.
    pub fn client(&self) -> Result<Client<'_>, Failure> {
        let first = Client::new(&self.endpoint, [0]);
        let shards = first.statistics(0).wait().map_err(|failure| failure.explained(self.about("")))?.shards;
        let mut client = Client::new(&self.endpoint, 0..shards);
        client.be_patient(self.place.look_within());
        Ok(client)
    }

    /// What failures of operations on a table are about.
    pub fn about<'t>(&self, table: &'t str) -> About<'t>
    where
        'a: 't,
    {
        About { at: &self.place.at, table }
    }
}

/// The settings of a client, which waits as long as the command line says.
fn settings_of(place: &KvPlace) -> Result<Settings, Failure> {
    let mut settings = load_settings(&place.settings)?;
    if let Some(within) = place.timeout {
        settings.endpoint.resolve_timeout = within;
        settings.endpoint.call_timeout = within;
    }
    Ok(settings)
}
