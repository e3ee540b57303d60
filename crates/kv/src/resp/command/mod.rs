//! Commands: found by name, checked, and run one at a time on the shard.

mod allowed;
mod blocking;
mod call;
mod client;
mod cluster;
mod combining;
mod connection;
mod copying;
#[cfg(test)]
mod cuts;
mod durable;
mod entry;
mod expiry;
mod hashes;
mod incoming;
mod keys;
mod lists;
mod long;
mod lookup;
mod numbers;
mod persistence;
mod placement;
mod pubsub;
mod ranges;
mod scripts;
mod server;
mod sets;
mod sorted;
mod strings;
mod table;
mod transaction;
mod waiting;
mod walks;

use std::sync::Arc;
use std::time::Instant;

use farcall_driver::CounterFile;

use self::call::{Call, Refusal, help};
pub use self::copying::Copying;
use self::durable::Hindrance;
use self::entry::{Command, Effect};
pub use self::incoming::{Incoming, LongValue, Taken};
pub use self::long::Long;
use self::lookup::Lookup;
use self::pubsub::Subscriptions;
pub use self::server::policy_named;
pub use self::transaction::Transaction;
pub use self::waiting::Blocked;
use self::waiting::Waiting;
use super::ahead;
use super::clients::{Clients, Handle};
use super::listener::Listener;
use super::parse::Args;
use super::reply::Reply;
use super::session::{Replies, Session};
use super::{Cluster, DATABASES, Options};
use crate::durable::{Level, LogOutcome};
use crate::memcached::Memcached;
use crate::store::Eviction;
use crate::{Shard, TableGuard, TableId};

farcall_driver::declare_counters! {
    /// The clients of a front, and what they ask for.
    pub struct RespCounters {
        connected: "clients" => "Redis clients that connected",
        disconnected: "clients" => "Redis clients that went or were sent away",
        refused: "clients" => "Redis clients that were refused: there were too many",
        commands: "commands" => "Commands of Redis clients",
        errors: "commands" => "Commands that were answered with an error",
        not_allowed: "commands" => "Commands that the policy refused",
        expired: "objects" => "Objects that had expired and were removed, those apart that writes removed",
        stuck: "clients" => "Redis clients that were sent away because they did not read their replies",
        evicted: "clients" => "Clients that were sent away because all clients together took too much memory",
        cut: "clients" => "Redis clients that were sent away because the value that they read had to go",
        unsecured: "clients" => "Clients that were sent away because no handshake of TLS came about",
        tls_not_renewed: "times" => "Changed keys or certificates that could not be read; the former stay in use",
        malformed: "requests" => "Requests of Redis clients that are none; their connections were closed",
    }
}

/// What commands need beside the shard: the clients, and what was configured.
#[derive(Debug)]
pub struct Engine {
    /// All clients but the one whose command runs.
    pub clients: Clients,
    /// The client whose command runs.
    pub current: Handle,
    /// Who subscribes to what.
    pub subscriptions: Subscriptions,
    /// Who waits for what.
    pub waiting: Waiting,
    /// Commands of a transaction run.
    is_in_transaction: bool,
    /// A copy has more to be written in the next turn.
    is_copying: bool,
    /// Clients that have something to send.
    pub touched: Vec<Handle>,
    /// Clients whose replies wait for the log.
    holding: Vec<Handle>,
    /// Clients whose commands wait for it.
    paused: Vec<Handle>,
    /// What became of the log, as far as it was looked at.
    log: LogOutcome,
    /// The group of the log that the reply waits for which is put together; 0 if it waits for none.
    needed: u64,
    /// What is counted.
    pub counters: RespCounters,
    /// What memcached clients need.
    pub memcached: Memcached,
    lookup: Lookup,
    tables: [TableId; DATABASES],
    /// What clients may do; `None` without a policy.
    guard: Option<TableGuard>,
    password: Option<String>,
    cluster: Option<Arc<Cluster>>,
    /// The version of the map by which clients were sent on that wait for keys.
    map_version: u64,
    port: u16,
    clients_max: usize,
    /// Memory that all clients may take together; 0 is no limit.
    clients_bytes_max: usize,
    /// The longest string.
    value_bytes_max: usize,
    started: Instant,
    now_ms: u64,
    random: u64,
}

/// When a front has something to do for its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Now.
    AtOnce,
    /// At this millisecond.
    At(u64),
    /// When a client asks for something.
    Event,
}

impl Engine {
    /// An engine for a shard, which gets the tables of all databases.
    pub fn new(
        options: &Options,
        guard: Option<TableGuard>,
        listeners: &[Listener],
        shard: &mut Shard,
    ) -> Self {
        let tables =
            core::array::from_fn(|database| shard.create_table(&table_name(database)).unwrap_or(TableId(0)));
        let port = listeners.iter().find_map(Listener::port);
        Self {
            clients: Clients::default(),
            current: Handle::default(),
            subscriptions: Subscriptions::default(),
            waiting: Waiting::default(),
            is_in_transaction: false,
            is_copying: false,
            touched: Vec::new(),
            holding: Vec::new(),
            paused: Vec::new(),
            log: LogOutcome::default(),
            needed: 0,
            counters: RespCounters::new(CounterFile::process(), "kv-resp"),
            memcached: Memcached::new(tables[0]),
            lookup: Lookup::new(),
            tables,
            guard,
            password: options.password.clone(),
            cluster: options.cluster.clone(),
            map_version: shard.map_version(),
            port: port.unwrap_or(0),
            clients_max: options.clients_max,
            clients_bytes_max: options.clients_bytes_max,
            value_bytes_max: options.value_bytes_max,
            started: Instant::now(),
            now_ms: 0,
            random: u64::from(std::process::id()),
        }
    }

    /// How many clients there may be.
    pub fn clients_max(&self) -> usize {
        self.clients_max
    }

    /// Memory that all clients may take together.
    pub fn clients_bytes_max(&self) -> usize {
        match self.clients_bytes_max {
            0 => usize::MAX,
            bytes => bytes,
        }
    }

    /// The time of this turn.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// A turn begins at this time.
    pub fn begin_turn(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Takes a changed policy over; to be called now and then.
    pub fn renew_policy(&mut self) {
        if let Some(guard) = &mut self.guard {
            guard.renew();
        }
    }

    /// Before commands run on the shard.
    pub fn prepare(&mut self, shard: &mut Shard) {
        shard.store_mut().set_clock(self.now_ms);
    }

    /// After commands ran: the shard does some of what it has to do by itself. Says when there is more to do.
    pub fn keep_up(&mut self, shard: &mut Shard) -> Next {
        /// Objects that have expired and that a turn removes.
        const EXPIRED_PER_TURN: usize = 64;
        /// Objects that a turn evicts after they were allowed less.
        const EVICTED_PER_TURN: usize = 64;
        self.serve_log_waits(shard);
        self.end_waits();
        self.send_waiting_on(shard);
        self.serve_waiting(shard);
        let expired = shard.expire(EXPIRED_PER_TURN);
        self.counters.expired.add(expired as u64);
        let store = shard.store_mut();
        self.memcached.keep_up(store);
        let is_shrinking = store.shrink(EVICTED_PER_TURN);
        let is_copying = core::mem::take(&mut self.is_copying);
        if store.sweep() || expired == EXPIRED_PER_TURN || is_shrinking || is_copying {
            return Next::AtOnce;
        }
        // What has expired and is there waits for the log.
        let expiring = store.next_deadline().filter(|deadline| *deadline > self.now_ms);
        let deadlines = [expiring, self.waiting.next_deadline(), self.memcached.next_deadline()];
        deadlines.into_iter().flatten().min().map_or(Next::Event, Next::At)
    }

    /// A number drawn at random. Nobody gains anything by guessing it.
    pub fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 31
    }

    /// Runs one command; says whether it did: `false` when it must wait for the log of durable tables, and
    /// nothing was done.
    #[inline]
    pub fn execute(
        &mut self,
        args: Args<'_>,
        session: &mut Session,
        reply: &mut Reply,
        shard: &mut Shard,
    ) -> bool {
        let is_done = self.try_to_run(args, session, reply, shard);
        if is_done {
            // A copy is of one command, which may have been refused before it was whole.
            session.copying = None;
        }
        is_done
    }

    /// Fetches into the caches what the requests that these bytes begin with will read; gives how many they
    /// are.
    #[inline]
    pub fn fetch_ahead(&self, session: &Session, bytes: &[u8], shard: &Shard) -> usize {
        ahead::fetch(shard.store(), self.tables[session.database], bytes)
    }

    /// The same; a copy that the command did not use stays.
    #[inline]
    fn try_to_run(
        &mut self,
        args: Args<'_>,
        session: &mut Session,
        reply: &mut Reply,
        shard: &mut Shard,
    ) -> bool {
        let found = self.find(args, session, shard);
        let found = match incoming::refusal_of(&session.longs) {
            Some(refusal) => found.and(Err(refusal)),
            None => found,
        };
        let found = match found {
            Ok(command) if self.waits_for_slots(command, args, session, shard) => {
                // What was taken out of a request is not there a second time.
                if session.longs.is_empty() {
                    return false;
                }
                Err(placement::TRY_AGAIN)
            }
            found => found,
        };
        if let (Ok(command), true) = (&found, shard.has_log()) {
            match self.admit(command, args, session, shard) {
                Ok(()) => {}
                Err(Hindrance::Busy) => return false,
                Err(Hindrance::Refused(refusal)) => {
                    self.counters.commands.increment();
                    let refusal = transaction::abort(session, refusal);
                    session.longs.clear();
                    self.refuse(&refusal, reply);
                    return true;
                }
            }
        }
        let found = match found {
            Ok(command) if copying::may_copy(command) => match self.copy_on(command, args, session, shard) {
                Ok(true) => Ok(command),
                Ok(false) => return false,
                Err(refusal) => Err(refusal),
            },
            found => found,
        };
        self.counters.commands.increment();
        match found {
            Ok(command) => {
                session.last_command = command.name;
                session.last_ms = self.now_ms;
                if let Some(transaction) = &mut session.transaction
                    && !command.is_at_once
                {
                    match transaction.queue(command, args, core::mem::take(&mut session.longs)) {
                        Ok(()) => reply.simple("QUEUED"),
                        Err(refusal) => self.refuse(&refusal, reply),
                    }
                    return true;
                }
                self.run(command, args, session, reply, shard);
                self.record(session, shard);
                if self.waiting.clients() > 0 {
                    self.serve_waiting(shard);
                }
            }
            Err(refusal) => {
                let refusal = transaction::reject(session, args.at(0), refusal);
                self.refuse(&refusal, reply);
            }
        }
        session.longs.clear();
        true
    }

    /// Runs a command that was found.
    #[inline]
    fn run(
        &mut self,
        command: &Command,
        args: Args<'_>,
        session: &mut Session,
        reply: &mut Reply,
        shard: &mut Shard,
    ) {
        let (start, replies, table) = (reply.len(), session.replies, self.tables[session.database]);
        let done = self.check_policy(command, args, session).and_then(|()| {
            let mut call = Call { args, shard, session, reply, engine: self };
            if command.is_asked_for_help(args) { help(&mut call, command) } else { (command.run)(&mut call) }
        });
        if let Err(refusal) = done {
            reply.truncate(start);
            self.refuse(&refusal, reply);
        }
        if shard.has_log() {
            session.wrote_in_memory |= matches!(command.effect, Effect::Writes | Effect::Grows)
                && shard.level_of(table) == Level::Memory;
            self.note_read(command, args, table, shard);
        }
        self.waiting.note(command, args);
        self.count_uses(command, args, (session.database, shard));
        if replies != Replies::On || session.replies != Replies::On {
            session.silence(replies, reply, start);
        }
    }

    /// What a command names is used by it, where that matters.
    fn count_uses(&self, command: &Command, args: Args<'_>, (database, shard): (usize, &mut Shard)) {
        if shard.store().eviction() == Eviction::Never || command.effect == Effect::None {
            return;
        }
        for key in command.keys_of(args) {
            if let Ok(name) = crate::Name::new(self.tables[database], key) {
                shard.store_mut().count_use(name);
            }
        }
    }

    fn refuse(&mut self, refusal: &Refusal, reply: &mut Reply) {
        self.counters.errors.increment();
        reply.error(refusal.text());
    }

    /// Does a part of the rest of a client's command; says whether there is more.
    pub fn step_long(&mut self, session: &mut Session, reply: &mut Reply, shard: &mut Shard) -> bool {
        let Some(mut long) = session.long.take() else { return false };
        match long.step(shard.store(), reply) {
            Ok(false) => false,
            Ok(true) => {
                session.long = Some(long);
                true
            }
            Err(refusal) => {
                reply.truncate(long.start());
                self.refuse(&refusal, reply);
                false
            }
        }
    }

    /// Does all of the rest.
    fn finish_long(&mut self, session: &mut Session, reply: &mut Reply, shard: &mut Shard) {
        while self.step_long(session, reply, shard) {}
    }

    /// The command that a client may run.
    #[inline]
    fn find(&self, args: Args<'_>, session: &Session, shard: &Shard) -> Result<&'static Command, Refusal> {
        let command = self.lookup.find(args.at(0)).ok_or_else(|| unknown(args))?;
        if !command.takes(args.len()) {
            return Err(Refusal::arguments(command.name));
        }
        if !session.is_known && !command.is_for_strangers {
            return Err(Refusal::NO_AUTH);
        }
        pubsub::check(session, command.name)?;
        if let Some(cluster) = &self.cluster {
            cluster::check(cluster, shard, command, args)?;
            if let Some(transaction) = session.transaction.as_ref().filter(|_| command.name == "exec") {
                Self::check_transaction(cluster, transaction, session, shard)?;
            }
        }
        Ok(command)
    }
}

/// The name of a database's table.
fn table_name(database: usize) -> String {
    match database {
        0 => "default".to_owned(),
        number => format!("db{number}"),
    }
}

fn unknown(args: Args<'_>) -> Refusal {
    /// Of what was sent, an error shows this much.
    const SHOWN_BYTES_MAX: usize = 128;
    let shown =
        |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)]).into_owned();
    let mut beginning = String::new();
    for arg in args.from(1) {
        if beginning.len() >= SHOWN_BYTES_MAX {
            break;
        }
        beginning.push_str(&format!("'{}' ", shown(arg)));
    }
    Refusal::new(format!(
        "ERR unknown command '{}', with args beginning with: {beginning}",
        shown(args.at(0))
    ))
}
