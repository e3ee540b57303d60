//! How a command reaches the store: through slots of a daemon on this host, or over the network.

use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use farcall::bootstrap::{Directory, HostPort};
use farcall::parameters::Settings;
use farcall::{CallError, Endpoint, Node, host_access};
use farcall_kv::daemon::{DaemonClient, SlotFailure, attach_on_host_within};
use farcall_kv::slots::AttachError;
use farcall_kv::{Client, Failure as KvFailure};

use super::place::{Process, find_in_registry, join_as_client, process_of, transport_of, unreachable};
use super::refused::{About, Failed, Refusal};
use crate::arguments::kv::{KvPlace, KvTable, KvWay, SlotsArgument};
use crate::arguments::load_set;
use crate::failure::{Failure, Outcome};
use crate::output::Destination;

/// How long a client with a registry waits for the primary that it has found before it looks for another one.
const LOOK_UP_AFTER: Duration = Duration::from_millis(500);

/// The time before the next look after a failure.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What an answer is waited for at least, of a store that was found at the last moment.
const ANSWER_WITHIN_MIN: Duration = Duration::from_millis(10);

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
        by_calls: impl Fn(&Client<'_>) -> Result<T, KvFailure<E>>,
    ) -> Result<T, Failure> {
        let (place, table) = (&self.way.place, &*self.table.table);
        let deadline = Instant::now() + place.look_within();
        let about = About { at: &place.at, table };
        let is_asked = match self.way.slots {
            SlotsArgument::Auto => place.registry.is_none(),
            SlotsArgument::Only => true,
            SlotsArgument::Never => false,
        };
        if is_asked {
            let only = self.way.slots == SlotsArgument::Only;
            let access = host_access(&load_set(&place.settings)?)
                .map_err(|error| Failure::Usage(error.to_string()))?;
            match attach_on_host_within(&place.name_on_host(), &access, place.look_within()) {
                Ok(mut daemon) => {
                    if let Some(within) = place.timeout {
                        daemon.respond_within(within);
                    }
                    match in_slots(&mut daemon) {
                        Err(failure)
                            if !only && may_repeat(&failure, repeat) && Instant::now() < deadline => {}
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
        self.go_by_calls(repeat, deadline, by_calls)
    }

    /// With a registry the primary is looked up again after a failure that another one may not have.
    fn go_by_calls<T, E: Refusal>(
        &self,
        repeat: Repeat,
        deadline: Instant,
        by_calls: impl Fn(&Client<'_>) -> Result<T, KvFailure<E>>,
    ) -> Result<T, Failure> {
        let (mut place, table) = (self.way.place.clone(), &*self.table.table);
        let mut failed = None;
        loop {
            let connection = match Connection::open_until(&place, deadline) {
                Ok(connection) => connection,
                // What a process that was found has said says more.
                Err(not_found) => return Err(failed.unwrap_or(not_found)),
            };
            let failure = match connection.client() {
                Ok(client) => match by_calls(&client) {
                    Err(failure) if may_ask_next(&failure, repeat) => {
                        failure.explained(connection.about(table))
                    }
                    done => return done.map_err(|failure| failure.explained(connection.about(table))),
                },
                Err(silent @ Failure::Outcome(Outcome::Unreachable, _)) => silent,
                Err(other) => return Err(other),
            };
            if place.registry.is_none() || Instant::now() >= deadline {
                return Err(failure);
            }
            failed = Some(failure);
            thread::sleep(ASK_AGAIN_AFTER);
            // A registry that does not answer now does not say that the primary is elsewhere.
            let _ = find_in_registry(&mut place, Duration::ZERO);
        }
    }
}

/// Whether an operation may be asked of the next primary after a failure: nothing has happened, or it changes
/// nothing.
fn may_ask_next<E>(failure: &KvFailure<E>, repeat: Repeat) -> bool {
    match failure {
        KvFailure::NotConnected(_) | KvFailure::NoAnswer(CallError::NotSent(_)) => true,
        KvFailure::NotReplicated(why) if why.passes() => true,
        KvFailure::NoAnswer(_) | KvFailure::NotReplicated(_) => repeat == Repeat::Always,
        _ => false,
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
pub struct Connection {
    pub endpoint: Endpoint,
    /// Where shard 0 was found.
    at: HostPort,
    /// How long an operation waits for another primary here.
    patience: Duration,
    directory: Arc<Directory>,
    _node: Node,
}

impl Connection {
    /// Joins the store's cluster, over the transport that it has.
    pub fn open(place: &KvPlace) -> Result<Self, Failure> {
        let connection = Self::open_until(place, Instant::now() + place.look_within())?;
        Ok(Self { patience: place.look_within(), ..connection })
    }

    /// The same for one operation, all of which ends about then.
    fn open_until(place: &KvPlace, deadline: Instant) -> Result<Self, Failure> {
        let (bootstrap, at) = join_as_client(place, deadline)?;
        let left = deadline.saturating_duration_since(Instant::now()).max(ANSWER_WITHIN_MIN);
        let directory = Arc::clone(&bootstrap.directory);
        let node = Node::new(bootstrap, settings_of(place, left)?);
        let found = KvPlace { at, ..place.clone() };
        let transport = transport_of(&node, &found, left)?;
        let endpoint = node.endpoint(transport.name()).map_err(Failure::run)?;
        let patience = if place.registry.is_some() { left.min(LOOK_UP_AFTER) } else { left };
        Ok(Self { endpoint, at: found.at, patience, directory, _node: node })
    }

    /// A client of all shards. It waits for a new primary as long as the command looks for the store.
    pub fn client(&self) -> Result<Client<'_>, Failure> {
        let first = Client::new(&self.endpoint, [0]);
        let shards = first.statistics(0).wait().map_err(|failure| failure.explained(self.about("")))?.shards;
        let mut client = Client::new(&self.endpoint, 0..shards);
        client.be_patient(self.patience);
        Ok(client)
    }

    /// Where shard 0 was found.
    pub fn at(&self) -> &HostPort {
        &self.at
    }

    /// Which process a shard is, if it says so.
    pub fn process_of(&self, shard: u32) -> Option<Process> {
        process_of(&self.directory, shard)
    }

    /// What failures of operations on a table are about.
    pub fn about<'t>(&'t self, table: &'t str) -> About<'t> {
        About { at: &self.at, table }
    }
}

/// The settings of a client, which waits as long as the command line says, and is left.
fn settings_of(place: &KvPlace, left: Duration) -> Result<Settings, Failure> {
    let mut settings = load_set(&place.settings)?;
    if let Some(within) = place.timeout {
        settings.endpoint.resolve_timeout = within.min(left);
        settings.endpoint.call_timeout = within.min(left);
    }
    Ok(settings)
}
