//! Commands: found by name, checked, and run one at a time on the shard.

mod call;
mod client;
mod connection;
mod server;
mod strings;
mod table;

use std::time::Instant;

use farcall_driver::CounterFile;

use self::call::{Call, Refusal};
use self::table::{Command, Lookup};
use super::clients::{Clients, Handle};
use super::listener::Listener;
use super::parse::Args;
use super::reply::Reply;
use super::session::{Replies, Session};
use super::{DATABASES, Options};
use crate::{Shard, TableId};

farcall_driver::declare_counters! {
    /// The clients of a front, and what they ask for.
    pub struct RespCounters {
        connected: "clients" => "Redis clients that connected",
        disconnected: "clients" => "Redis clients that went or were sent away",
        refused: "clients" => "Redis clients that were refused: there were too many",
        commands: "commands" => "Commands of Redis clients",
        errors: "commands" => "Commands that were answered with an error",
        malformed: "requests" => "Requests of Redis clients that are none; their connections were closed",
    }
}

/// What commands need beside the shard: the clients, and what was configured.
#[derive(Debug)]
pub struct Engine {
    /// All clients but the one whose command runs.
    pub clients: Clients,
    /// Clients that have something to send.
    pub touched: Vec<Handle>,
    /// What is counted.
    pub counters: RespCounters,
    lookup: Lookup,
    tables: [TableId; DATABASES],
    password: Option<String>,
    port: u16,
    clients_max: usize,
    started: Instant,
    now_ms: u64,
}

impl Engine {
    /// An engine for a shard, which gets the tables of all databases.
    pub fn new(options: &Options, listeners: &[Listener], shard: &mut Shard) -> Self {
        let tables =
            core::array::from_fn(|database| shard.create_table(&table_name(database)).unwrap_or(TableId(0)));
        let port = listeners
            .iter()
            .filter(|listener| listener.is_tcp())
            .find_map(|listener| listener.address().rsplit_once(':').and_then(|(_, port)| port.parse().ok()));
        Self {
            clients: Clients::default(),
            touched: Vec::new(),
            counters: RespCounters::new(CounterFile::process(), "kv-resp"),
            lookup: Lookup::new(),
            tables,
            password: options.password.clone(),
            port: port.unwrap_or(0),
            clients_max: options.clients_max,
            started: Instant::now(),
            now_ms: 0,
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

    /// Before commands run on the shard.
    pub fn prepare(&mut self, _shard: &mut Shard) {}

    /// After commands ran: the shard does some of what it has to do by itself. Says whether there is more.
    pub fn keep_up(&mut self, shard: &mut Shard) -> bool {
        shard.sweep()
    }

    /// A client is gone.
    pub fn forget(&mut self, _client: Handle, _session: &Session) {}

    /// Runs one command.
    #[inline]
    pub fn execute(&mut self, args: Args<'_>, session: &mut Session, reply: &mut Reply, shard: &mut Shard) {
        self.counters.commands.increment();
        let (start, replies) = (reply.len(), session.replies);
        let done = match self.find(args, session) {
            Ok(command) => {
                session.last_command = command.name;
                session.last_ms = self.now_ms;
                let mut call = Call { args, shard, session, reply, engine: self };
                (command.run)(&mut call)
            }
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = done {
            self.counters.errors.increment();
            reply.truncate(start);
            reply.error(refusal.text());
        }
        if replies != Replies::On || session.replies != Replies::On {
            session.silence(replies, reply, start);
        }
    }

    /// The command that a client may run.
    #[inline]
    fn find(&self, args: Args<'_>, session: &Session) -> Result<&'static Command, Refusal> {
        let command = self.lookup.find(args.at(0)).ok_or_else(|| unknown(args))?;
        if !command.takes(args.len()) {
            return Err(Refusal::arguments(command.name));
        }
        if !session.is_known && !command.is_for_strangers {
            return Err(Refusal::NO_AUTH);
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
